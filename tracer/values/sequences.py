"""Lists and tuples, their subclasses that torch and collections make, slices, and how they are iterated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from ..guards import Kind
from ..sources import Attr, Item, Source
from .base import Mutable, Value, wraps
from .builtin_methods import MethodsByName
from .constants import PYTHON_RESULTS, ConstantValue, constant
from .operations import as_index, compare, equal, type_name
from .tensors import to_graph

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

Items = tuple[Value, ...]


class SequenceValue(MethodsByName):
    """What lists and tuples share: reading. `items(ctx)` are the live items."""

    __slots__ = ()

    def items(self, ctx: Context) -> Items:
        raise NotImplementedError

    def like(self, ctx: Context, items: Items) -> Value:
        """A new plain sequence of the same builtin type."""
        raise NotImplementedError

    def as_python(self, ctx: Context) -> Any:
        return self.python_type(ctx)([ctx.real(item).as_python(ctx) for item in self.items(ctx)])

    def graph_argument(self, ctx: Context) -> Any:
        return [to_graph(ctx, item) for item in self.items(ctx)]

    def truth(self, ctx: Context) -> bool:
        return bool(self.items(ctx))

    def length(self, ctx: Context) -> Value:
        return constant(len(self.items(ctx)))

    def unpack(self, ctx: Context) -> list[Value]:
        return list(self.items(ctx))

    def iterate(self, ctx: Context) -> Value:
        return SequenceIterator(self)

    def getitem(self, ctx: Context, key: Value) -> Value:
        index = as_index(ctx, key)
        items = self.items(ctx)
        if isinstance(index, slice):
            return self.like(ctx, items[index])
        try:
            return items[index]  # type: ignore[index]
        except TypeError:
            name = type_name(ctx, self)
            ctx.raise_(TypeError(f"{name} indices must be integers or slices, not {type(index).__name__}"))
        except IndexError:
            ctx.raise_(IndexError(f"{self.python_type(ctx).__mro__[-2].__name__} index out of range"))

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        return any(equal(ctx, candidate, item) for candidate in self.items(ctx))

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if not isinstance(other, SequenceValue) or self.builtin is not other.builtin:
            return None
        mine, others = self.items(ctx), other.items(ctx)
        if op in ("==", "!=") and len(mine) != len(others):
            return constant(op == "!=")
        for a, b in zip(mine, others, strict=False):
            if not equal(ctx, a, b):
                return constant(op == "!=") if op in ("==", "!=") else compare(ctx, op, a, b)
        return compare(ctx, op, constant(len(mine)), constant(len(others)))

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if op == "+" and isinstance(other, SequenceValue) and self.builtin is other.builtin:
            return self.like(ctx, self.items(ctx) + other.items(ctx))
        if op == "*" and isinstance(other, ConstantValue) and isinstance(other.value, int):
            return self.like(ctx, self.items(ctx) * self._times(ctx, other))
        return None

    def _times(self, ctx: Context, other: ConstantValue) -> int:
        times = other.as_python(ctx)
        ctx.spend(max(0, times) * len(self.items(ctx)))
        return times

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        return self.binary(ctx, op, other) if op == "*" else None

    def method_index(self, ctx: Context, item: Value, *bounds: Value) -> Value:
        items = self.items(ctx)
        start, stop, _ = slice(*([as_index(ctx, b) for b in bounds] + [None] * (2 - len(bounds)))).indices(len(items))
        for i in range(start, stop):
            if equal(ctx, items[i], item):
                return constant(i)
        if self.builtin is tuple:
            ctx.raise_(ValueError("tuple.index(x): x not in tuple"))
        ctx.raise_(ValueError(f"{ctx.real(item).as_python(ctx)!r} is not in list"))

    def method_count(self, ctx: Context, item: Value) -> Value:
        return constant(sum(equal(ctx, candidate, item) for candidate in self.items(ctx)))

    #: list or tuple
    builtin: type = tuple


class TupleValue(SequenceValue, Value):
    """A tuple, a torch.Size, a named tuple or one of torch's result tuples."""

    __slots__ = ("_items", "cls")

    kind = "tuple"
    builtin = tuple
    has_identity = True

    def __init__(self, items: Iterable[Value], source: Source | None = None, cls: type = tuple) -> None:
        super().__init__(source)
        self._items = tuple(items)
        self.cls = cls

    def python_type(self, ctx: Context) -> type:
        return self.cls

    def items(self, ctx: Context) -> Items:
        return self._items

    def like(self, ctx: Context, items: Items) -> Value:
        return TupleValue(items, cls=torch.Size if self.cls is torch.Size else tuple)

    def key(self, ctx: Context) -> object:
        return tuple(ctx.real(item).key(ctx) for item in self._items)

    def as_python(self, ctx: Context) -> Any:
        items = [ctx.real(item).as_python(ctx) for item in self._items]
        return make_tuple(self.cls, items)

    def graph_argument(self, ctx: Context) -> Any:
        return make_tuple(self.cls, [to_graph(ctx, item) for item in self._items], keep_size=False)

    def getattr(self, ctx: Context, name: str) -> Value:
        fields = getattr(self.cls, "_fields", None) or _structure_fields(self.cls)
        if name in fields:
            return self._items[fields.index(name)]
        return super().getattr(ctx, name)

    def method_numel(self, ctx: Context) -> Value:
        if self.cls is not torch.Size:
            self.refuse("attribute .numel")
        return constant(self.as_python(ctx).numel())

    def reconstruct(self, out: ExitWriter) -> str:
        inner = "".join(f"{out.text(item)}, " for item in self._items)
        plain = f"({inner.rstrip() if len(self._items) == 1 else inner[:-2]})"
        if self.cls is tuple:
            return plain
        if hasattr(self.cls, "_make"):
            return f"{out.hold(self.cls)}._make({plain})"
        return f"{out.hold(self.cls)}({plain})"


def make_tuple(cls: type, items: list[Any], *, keep_size: bool = True) -> Any:
    if cls is tuple or (cls is torch.Size and not keep_size):
        return tuple(items)
    return cls._make(items) if hasattr(cls, "_make") else cls(items)  # type: ignore[attr-defined]


def _structure_fields(cls: type) -> list[str]:
    """The field names of one of torch's result tuples (a structseq), in order."""
    if not hasattr(cls, "n_sequence_fields"):
        return []
    return [name for name in cls.__match_args__]  # type: ignore[attr-defined]


class ListValue(SequenceValue, Mutable):
    """A list. One from outside is read only when somebody asks for its items: appending to it needs no guard."""

    __slots__ = ("base",)

    kind = "list"
    builtin = list
    has_identity = True

    def __init__(self, items: Iterable[Value], source: Source | None = None, base: list[Any] | None = None) -> None:
        #: content: what was appended while the items are unread, else all the items
        super().__init__(tuple(items), source)
        #: the real list while its items are unread
        self.base = base

    def python_type(self, ctx: Context) -> type:
        return list

    def items(self, ctx: Context) -> Items:
        if self.base is not None:
            self._read(ctx, self.base)
        return self.content

    def _read(self, ctx: Context, base: list[Any]) -> None:
        assert self.source is not None
        ctx.guard(Kind.LENGTH, self.source, len(base))
        appended, original = self.content, self.original

        def undo() -> None:
            self.base, self.content, self.original = base, appended, original

        ctx.on_rollback(undo)
        self.base = None
        self.original = tuple(ctx.wrap(item, Item(self.source, i)) for i, item in enumerate(base))
        self.content = self.original + appended

    def like(self, ctx: Context, items: Items) -> Value:
        return ctx.born(ListValue(items))

    def key(self, ctx: Context) -> object:
        ctx.raise_(TypeError("unhashable type: 'list'"))

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if inplace and op == "+":
            self.method_extend(ctx, other)
            return self
        if inplace and op == "*" and isinstance(other, ConstantValue):
            ctx.change(self, self.items(ctx) * self._times(ctx, other))
            return self
        return super().binary(ctx, op, other)

    def setitem(self, ctx: Context, key: Value, value: Value) -> None:
        index = as_index(ctx, key)
        items = list(self.items(ctx))
        try:
            items[index] = ctx.real(value).unpack(ctx) if isinstance(index, slice) else value  # type: ignore[call-overload]
        except IndexError:
            ctx.raise_(IndexError("list assignment index out of range"))
        except (TypeError, ValueError) as error:
            ctx.raise_(error)
        ctx.change(self, tuple(items))

    def delitem(self, ctx: Context, key: Value) -> None:
        index = as_index(ctx, key)
        items = list(self.items(ctx))
        try:
            del items[index]  # type: ignore[arg-type]
        except IndexError:
            ctx.raise_(IndexError("list assignment index out of range"))
        ctx.change(self, tuple(items))

    def method_append(self, ctx: Context, item: Value) -> Value:
        ctx.change(self, (*self.content, item))
        return constant(None)

    def method_extend(self, ctx: Context, items: Value) -> Value:
        ctx.change(self, self.content + tuple(ctx.real(items).unpack(ctx)))
        return constant(None)

    def method_insert(self, ctx: Context, index: Value, item: Value) -> Value:
        items = list(self.items(ctx))
        items.insert(as_index(ctx, index), item)  # type: ignore[arg-type]
        ctx.change(self, tuple(items))
        return constant(None)

    def method_pop(self, ctx: Context, index: Value | None = None) -> Value:
        items = list(self.items(ctx))
        if not items:
            ctx.raise_(IndexError("pop from empty list"))
        try:
            item = items.pop(-1 if index is None else as_index(ctx, index))  # type: ignore[arg-type]
        except IndexError:
            ctx.raise_(IndexError("pop index out of range"))
        ctx.change(self, tuple(items))
        return item

    def method_remove(self, ctx: Context, item: Value) -> Value:
        items = list(self.items(ctx))
        for i, candidate in enumerate(items):
            if equal(ctx, candidate, item):
                ctx.change(self, tuple(items[:i] + items[i + 1 :]))
                return constant(None)
        ctx.raise_(ValueError("list.remove(x): x not in list"))

    def method_clear(self, ctx: Context) -> Value:
        self.items(ctx)
        ctx.change(self, ())
        return constant(None)

    def method_reverse(self, ctx: Context) -> Value:
        ctx.change(self, self.items(ctx)[::-1])
        return constant(None)

    def method_copy(self, ctx: Context) -> Value:
        return self.like(ctx, self.items(ctx))

    def method_sort(self, ctx: Context, *, key: Value | None = None, reverse: Value | None = None) -> Value:
        ctx.change(self, tuple(sorted_values(ctx, self.items(ctx), key, reverse)))
        return constant(None)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.fill(self, "[]", lambda: self._filled(out))

    def _filled(self, out: ExitWriter) -> tuple[str, Callable[[str], Iterable[str]]]:
        inner = ", ".join(out.text(item) for item in self.content)
        return f"[{inner}]", lambda name: [f"{name}.extend([{inner}])"]

    def effects(self, out: ExitWriter) -> Iterable[str]:
        target = out.text(self)
        if self.base is not None:
            added = self.content
        elif self.content[: len(self.original)] == self.original:
            added = self.content[len(self.original) :]
        else:
            return [f"{target}[:] = [{', '.join(out.text(item) for item in self.content)}]"]
        if len(added) == 1:
            return [f"{target}.append({out.text(added[0])})"]
        return [f"{target}.extend([{', '.join(out.text(item) for item in added)}])"] if added else []


def sorted_values(ctx: Context, items: Items, key: Value | None, reverse: Value | None) -> list[Value]:
    """`sorted(items, key=key, reverse=reverse)`: stable, by `<` of the keys."""
    if key is None or (isinstance(real := ctx.real(key), ConstantValue) and real.value is None):
        keys = list(items)
    else:
        keys = [ctx.real(key).call(ctx, [item], {}) for item in items]
    plain = [ctx.real(k).as_python(ctx) for k in keys]
    backwards = bool(ctx.real(reverse).truth(ctx)) if reverse is not None else False
    try:
        order = sorted(range(len(items)), key=plain.__getitem__, reverse=backwards)
    except TypeError as error:
        ctx.raise_(error)
    return [items[i] for i in order]


class SliceValue(Value):
    """A slice whose parts may be anything."""

    __slots__ = ("parts",)

    kind = "slice"

    def __init__(self, parts: Iterable[Value], source: Source | None = None) -> None:
        super().__init__(source)
        self.parts = tuple(parts)

    def python_type(self, ctx: Context) -> type:
        return slice

    def as_python(self, ctx: Context) -> Any:
        return slice(*[ctx.real(part).as_python(ctx) for part in self.parts])

    def graph_argument(self, ctx: Context) -> Any:
        return slice(*[to_graph(ctx, part) for part in self.parts])

    def getattr(self, ctx: Context, name: str) -> Value:
        names = ("start", "stop", "step")
        if name not in names:
            self.refuse(f"attribute .{name}")
        return self.parts[names.index(name)]

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if not isinstance(other, SliceValue):
            return None
        return compare(ctx, op, TupleValue(self.parts), TupleValue(other.parts))

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(slice)}({', '.join(out.text(part) for part in self.parts)})"


class SequenceIterator(Mutable):
    """An iterator over a list, a tuple, a range or a string; `content` is its position (None: it has ended)."""

    __slots__ = ("sequence",)

    kind = "iterator"

    def __init__(self, sequence: Value) -> None:
        super().__init__(0)
        self.sequence = sequence

    def python_type(self, ctx: Context) -> type:
        return type(iter(self.sequence.python_type(ctx)())) if not isinstance(self.sequence, ConstantValue) else type(
            iter(self.sequence.value)
        )

    def truth(self, ctx: Context) -> bool:
        return True

    def iterate(self, ctx: Context) -> Value:
        return self

    def next(self, ctx: Context) -> Value | None:
        if self.content is None:
            return None
        if isinstance(self.sequence, SequenceValue):
            items: Any = self.sequence.items(ctx)
        else:
            items = self.sequence.as_python(ctx)
        if self.content >= len(items):
            ctx.change(self, None)
            return None
        item = items[self.content]
        ctx.change(self, self.content + 1)
        return item if isinstance(item, Value) else constant(item)

    def getattr(self, ctx: Context, name: str) -> Value:
        self.refuse(f"attribute .{name}")

    def reconstruct(self, out: ExitWriter) -> str:
        fresh = f"{out.hold(iter)}({out.text(self.sequence)})"
        return f"{out.hold(advanced)}({fresh}, {self.content})" if self.content != 0 else fresh


def advanced(iterator: Any, position: int | None) -> Any:
    """The iterator moved to a position, or to its end (None)."""
    if position is None:
        for _ in iterator:
            pass
    else:
        iterator.__setstate__(position)
    return iterator


def _iterate_constant(self: ConstantValue, ctx: Context) -> Value:
    value = self.as_python(ctx)
    if not isinstance(value, (str, bytes, range, tuple)):
        ctx.raise_(TypeError(f"{type(value).__name__!r} object is not iterable"))
    return SequenceIterator(self)


ConstantValue.iterate = _iterate_constant  # type: ignore[method-assign]


@wraps(tuple, torch.Size)
def build_tuple(ctx: Context, obj: tuple[Any, ...], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    ctx.guard(Kind.LENGTH, source, len(obj))
    return TupleValue([ctx.wrap(item, Item(source, i)) for i, item in enumerate(obj)], source, type(obj))


@wraps(tuple, family=True)
def build_named_tuple(ctx: Context, obj: tuple[Any, ...], source: Source) -> Value:
    cls = type(obj)
    value = build_tuple(ctx, obj, source)
    own_item = cls.__getitem__ is not tuple.__getitem__ or cls.__iter__ is not tuple.__iter__ or cls.__len__ is not tuple.__len__
    if own_item or not (hasattr(cls, "_fields") or hasattr(cls, "n_sequence_fields")):
        value.refuse("subclass")
    return value


@wraps(list)
def build_list(ctx: Context, obj: list[Any], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, list)
    return ListValue([], source, obj)


@wraps(slice)
def build_slice(ctx: Context, obj: slice, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, slice)
    return SliceValue([ctx.wrap(getattr(obj, name), Attr(source, name)) for name in ("start", "stop", "step")], source)


PYTHON_RESULTS[tuple] = lambda ctx, obj, leaf: TupleValue([leaf(ctx, item) for item in obj], cls=type(obj))
PYTHON_RESULTS[list] = lambda ctx, obj, leaf: ctx.born(ListValue([leaf(ctx, item) for item in obj]))
PYTHON_RESULTS[slice] = lambda ctx, obj, leaf: SliceValue([leaf(ctx, part) for part in (obj.start, obj.stop, obj.step)])
