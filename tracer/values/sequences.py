"""Lists and slices; tuples are next door, and are had from here too."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Attr, Item, Source
from .base import Mutable, Raised, Value, wraps
from .builtin_methods import BuiltinMethod
from .constants import PYTHON_RESULTS, ConstantValue, call_pure, constant, length_of, plain
from .operations import as_index, compare, equal
from .tensors import to_graph
from .tuples import Items, SequenceIterator, SequenceValue, TupleValue, is_int, item_of_unread

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


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

    def is_changed(self) -> bool:
        """Does the list from outside hold something else, or more, than it will until the effects?"""
        return self.source is not None and self.content is not self.original

    def truth(self, ctx: Context) -> bool:
        if self.base is None:
            return bool(self.content)
        if not self.content:
            ctx.guard(Kind.TRUTHY if self.base else Kind.FALSY, self.source)
        return bool(self.content or self.base)

    def length(self, ctx: Context) -> Value:
        if self.base is None or self.source is None:
            return super().length(ctx)
        length = length_of(ctx, self.source, len(self.base))
        if not self.content:
            return length
        grown = length.binary(ctx, "+", constant(len(self.content)))
        assert grown is not None
        return grown

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if inplace and op == "+":
            self.method_extend(ctx, other)
            return self
        if inplace and op == "*" and is_int(other):
            ctx.change(self, self.items(ctx) * self._times(ctx, other))
            return self
        return super().binary(ctx, op, other)

    def _edit(self, ctx: Context, edit: Callable[[list[Value]], Any]) -> Any:
        """Do this to a real list of the items; what it raises, the user's code raises."""
        items = list(self.items(ctx))
        try:
            result = edit(items)
        except (IndexError, TypeError, ValueError) as error:
            ctx.raise_(error)
        ctx.change(self, tuple(items))
        return result

    def getitem(self, ctx: Context, key: Value) -> Value:
        if self.base is not None:
            found = item_of_unread(ctx, self.source, self.base, self.content, key)
            if found is not None:
                return found
        return super().getitem(ctx, key)

    def setitem(self, ctx: Context, key: Value, value: Value) -> None:
        index = as_index(ctx, key)
        new: Any = ctx.real(value).unpack(ctx) if isinstance(index, slice) else value
        self._edit(ctx, lambda items: operator.setitem(items, index, new))

    def delitem(self, ctx: Context, key: Value) -> None:
        index = as_index(ctx, key)
        self._edit(ctx, lambda items: operator.delitem(items, index))

    def method_append(self, ctx: Context, item: Value) -> Value:
        ctx.change(self, (*self.content, item))
        return constant(None)

    def method_extend(self, ctx: Context, items: Value) -> Value:
        real = ctx.real(items)
        if isinstance(real, SequenceValue):
            new = real.items(ctx)  # before the content is looked at: the list may be this one
            ctx.change(self, self.content + new)
            return constant(None)
        iterator = ctx.real(real.iterate(ctx))
        while (item := iterator.next(ctx)) is not None:  # one by one: the iterator may look at the list, or raise
            ctx.change(self, (*self.content, item))
            ctx.spend(1)
        return constant(None)

    def method_insert(self, ctx: Context, index: Value, item: Value) -> Value:
        at = as_index(ctx, index)
        self._edit(ctx, lambda items: items.insert(at, item))
        return constant(None)

    def method_pop(self, ctx: Context, index: Value | None = None) -> Value:
        at = -1 if index is None else as_index(ctx, index)
        return self._edit(ctx, lambda items: items.pop(at))

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
        before = self.items(ctx)
        ctx.change(self, ())  # what the keys' code may look at meanwhile
        empty = self.content
        try:
            items = sorted_values(ctx, before, key, reverse)
        except Raised as raised:  # the items are then left in an order of CPython's choice
            raise GraphBreak("Python raises or warns here", f"sort(): {raised.value}") from None
        if self.content is not empty:
            self.refuse("Python raises or warns here", "change during sort()")
        ctx.change(self, tuple(items))
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
            return [self.replace_text(out, target, f"[{', '.join(out.text(item) for item in self.content)}]")]
        if len(added) == 1 and self.part_of is None:
            return [f"{target}.append({out.text(added[0])})"]
        return [self.extend_text(out, target, f"[{', '.join(out.text(i) for i in added)}]")] if added else []

    def extend_text(self, out: ExitWriter, target: str, items: str) -> str:
        return f"{target}.extend({items})"

    def replace_text(self, out: ExitWriter, target: str, items: str) -> str:
        return f"{target}[:] = {items}"


class _Key:
    """A sort key that is compared as the values are, in the order in which CPython's sort asks."""

    __slots__ = ("ctx", "value")

    def __init__(self, ctx: Context, value: Value) -> None:
        self.ctx, self.value = ctx, value

    def __lt__(self, other: _Key) -> bool:
        return self.ctx.real(compare(self.ctx, "<", self.value, other.value)).truth(self.ctx)


def sorted_values(ctx: Context, items: Items, key: Value | None, reverse: Value | None) -> list[Value]:
    """`sorted(items, key=key, reverse=reverse)`: stable, by `<` of the keys."""
    if key is None or (isinstance(real := ctx.real(key), ConstantValue) and real.value is None):
        keys = [ctx.real(item) for item in items]
    else:
        keys = [ctx.real(ctx.real(key).call(ctx, [item], {})) for item in items]
    backwards = bool(ctx.real(reverse).truth(ctx)) if reverse is not None else False
    ctx.spend(len(items))
    known = all(isinstance(k, ConstantValue) and k.source is None and type(k.value) in (int, str) for k in keys)
    wrapped: list[Any] = [k.as_python(ctx) if known else _Key(ctx, k) for k in keys]
    try:
        order = sorted(range(len(items)), key=wrapped.__getitem__, reverse=backwards)
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

    def truth(self, ctx: Context) -> bool:
        return True

    def as_python(self, ctx: Context) -> Any:
        return slice(*[ctx.real(part).as_python(ctx) for part in self.parts])

    def graph_argument(self, ctx: Context) -> Any:
        return slice(*[to_graph(ctx, part) for part in self.parts])

    def getattr(self, ctx: Context, name: str) -> Value:
        names = ("start", "stop", "step")
        if name == "indices":
            return BuiltinMethod(self, name)
        if name not in names:
            self.refuse("attribute cannot be read", f".{name}")
        return self.parts[names.index(name)]

    def method_indices(self, ctx: Context, length: Value) -> Value:
        return call_pure(ctx, slice.indices, plain(ctx, self), plain(ctx, length))

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if not isinstance(other, SliceValue):
            return None
        return compare(ctx, op, TupleValue(self.parts), TupleValue(other.parts))

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(slice)}({', '.join(out.text(part) for part in self.parts)})"


@wraps(list)
def build_list(ctx: Context, obj: list[Any], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, list)
    return ListValue([], source, obj)


@wraps(slice)
def build_slice(ctx: Context, obj: slice, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, slice)
    return SliceValue([ctx.wrap(getattr(obj, name), Attr(source, name)) for name in ("start", "stop", "step")], source)


def _list_result(ctx: Context, obj: Any, leaf: Callable[[Context, Any], Value]) -> Value:
    if type(obj) is not list:
        raise GraphBreak("result type is not supported", type(obj).__qualname__)
    return ctx.born(ListValue([leaf(ctx, item) for item in obj]))


PYTHON_RESULTS[list] = _list_result
PYTHON_RESULTS[slice] = lambda ctx, obj, leaf: SliceValue([leaf(ctx, part) for part in (obj.start, obj.stop, obj.step)])

__all__ = ["ListValue", "SequenceIterator", "SequenceValue", "SliceValue", "TupleValue", "sorted_values"]
