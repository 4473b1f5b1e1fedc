"""Tuples and what all sequences share: reading, comparing, iterating."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ..guards import Kind
from ..sources import Index, Item, Literal, Source
from .base import Value, wraps
from .builtin_methods import MethodsByName
from .constants import PYTHON_RESULTS, ConstantValue, call_pure, constant, length_of, plain
from .operations import as_index, binary, compare, equal
from .stepping import IteratorValue, advanced, exhausted
from .symbols import has_symbol
from .tensors import TensorValue, to_graph

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

    def is_changed(self) -> bool:
        """Does a sequence from outside hold something else than it will until the effects?"""
        return False

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
        return ctx.born(SequenceIterator(self))

    def getitem(self, ctx: Context, key: Value) -> Value:
        index = as_index(ctx, key)
        items = self.items(ctx)
        try:
            found = items[index]
        except (IndexError, TypeError, ValueError):
            call_pure(ctx, operator.getitem, self.builtin(range(len(items))), index)  # raises the same as it would
            raise
        if not isinstance(index, slice):
            return found
        whole = isinstance(self, TupleValue) and self.is_exact and len(found) == len(items) and index.step in (None, 1)
        return self if whole else self.like(ctx, found)

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        return any(equal(ctx, candidate, item) for candidate in self.items(ctx))

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        other = other.builtin_part()
        if not isinstance(other, SequenceValue) or self.builtin is not other.builtin:
            return None
        mine, others = self.items(ctx), other.items(ctx)
        if op in ("==", "!=") and self.builtin is list and len(mine) != len(others):
            return constant(op == "!=")
        for a, b in zip(mine, others, strict=False):
            if not equal(ctx, a, b):
                return constant(op == "!=") if op in ("==", "!=") else compare(ctx, op, a, b)
        return compare(ctx, op, constant(len(mine)), constant(len(others)))

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        other = other.builtin_part()
        if op == "+" and isinstance(other, SequenceValue) and self.builtin is other.builtin:
            return self.like(ctx, self.items(ctx) + other.items(ctx))
        if op == "*" and is_int(other):
            return self.like(ctx, self.items(ctx) * self._times(ctx, other))
        return None

    def _times(self, ctx: Context, other: Value) -> int:
        times = other.as_python(ctx)
        ctx.spend(max(0, times) * len(self.items(ctx)))
        return times

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        return self.binary(ctx, op, other) if op == "*" else None

    def reversed(self, ctx: Context) -> Value:
        return ctx.born(ReverseIterator(self, len(self.items(ctx))))

    def method_index(self, ctx: Context, item: Value, *bounds: Value) -> Value:
        if len(bounds) > 2:
            self.refuse("arguments do not fit the call")
        items = self.items(ctx)
        start, stop, _ = slice(*[_bound(ctx, b) for b in bounds], *[None] * (2 - len(bounds))).indices(len(items))
        for i in range(start, stop):
            if equal(ctx, items[i], item):
                return constant(i)
        return call_pure(ctx, self.builtin().index, plain(ctx, item))  # raises, in this version's words

    def method_count(self, ctx: Context, item: Value) -> Value:
        return constant(sum(equal(ctx, candidate, item) for candidate in self.items(ctx)))

    #: list or tuple
    builtin: ClassVar[Any] = tuple


def item_of_unread(
    ctx: Context, source: Source | None, base: Sequence[Any] | None, appended: Items, key: Value
) -> Value | None:
    """One item of a sequence from outside that is not read; None where the sequence must be.

    base: what it holds, appended: what comes behind that by now. An index that changes matters to nobody itself, nor
    does the length where the index counts from the end of what was appended, or a length that is known to change.
    """
    index = ctx.real(key)
    if not isinstance(index, ConstantValue) or type(index.value) is not int:
        return None
    if index.source is None and -len(appended) <= index.value < 0:
        return appended[index.value]
    if base is None or appended or source is None or not -len(base) <= index.value < len(base):
        return None
    if index.source is None and not ctx.length_changes(source):
        return None
    at = Index(source, index.source or Literal(index.value))
    ctx.must_read(at)  # if nobody needs the item: another index may be out of range
    return ctx.wrap(base[index.value], at)


def is_int(value: Value) -> bool:
    return isinstance(value, ConstantValue) and isinstance(value.value, int)


def _bound(ctx: Context, value: Value) -> int:
    """A bound of index(): any integer, but not None."""
    if not is_int(ctx.real(value)):
        ctx.real(value).refuse("Python raises or warns here", "use as a bound")
    return int(ctx.real(value).as_python(ctx))


class TupleValue(SequenceValue, Value):
    """A tuple, a torch.Size or one of torch's result tuples; named tuples are a subclass.

    A plain tuple from outside is read only when somebody asks for its items, and so is what begins with such a one
    (`scores += (score,)`, which many programs do at each step): its length then needs no guard.
    """

    __slots__ = ("_items", "base", "cls", "head")

    kind = "tuple"
    builtin = tuple
    has_identity = True

    def __init__(
        self,
        items: Iterable[Value],
        source: Source | None = None,
        cls: type = tuple,
        *,
        base: tuple[Any, ...] | None = None,
        head: TupleValue | None = None,
    ) -> None:
        super().__init__(source)
        #: all the items, or what follows those of `head`
        self._items = tuple(items)
        self.cls = cls
        #: the real tuple while its items are unread
        self.base = base
        #: an unread tuple that this one begins with
        self.head = head

    def python_type(self, ctx: Context) -> type:
        return self.cls

    @property
    def is_exact(self) -> bool:
        """Is it a tuple and no instance of a subclass?"""
        return self.cls is tuple and self.part_of is None

    @property
    def is_unread(self) -> bool:
        return self.base is not None or self.head is not None

    def items(self, ctx: Context) -> Items:
        if self.is_unread:
            self._read(ctx)
        return self._items

    def _read(self, ctx: Context) -> None:
        base, head, own = self.base, self.head, self._items

        def undo() -> None:
            self.base, self.head, self._items = base, head, own

        if base is not None:
            assert self.source is not None
            ctx.guard(Kind.LENGTH, self.source, len(base))
            found: Items = tuple(ctx.wrap(item, Item(self.source, i)) for i, item in enumerate(base))
        else:
            assert head is not None
            found = head.items(ctx)
        ctx.on_rollback(undo)
        self.base, self.head, self._items = None, None, found + own

    def truth(self, ctx: Context) -> bool:
        if self.base is not None and self.source is not None:
            ctx.guard(Kind.TRUTHY if self.base else Kind.FALSY, self.source)
            return bool(self.base)
        return bool(self._items) or (self.head is not None and self.head.truth(ctx))

    def length(self, ctx: Context) -> Value:
        if self.base is not None and self.source is not None:
            return length_of(ctx, self.source, len(self.base))
        if self.head is None:
            return super().length(ctx)
        grown = self.head.length(ctx).binary(ctx, "+", constant(len(self._items)))
        assert grown is not None
        return grown

    def getitem(self, ctx: Context, key: Value) -> Value:
        if self.is_unread:
            found = item_of_unread(ctx, self.source, self.base, self._items, key)
            if found is not None:
                return found
        return super().getitem(ctx, key)

    def like(self, ctx: Context, items: Items) -> Value:
        return ctx.born(TupleValue(items, cls=torch.Size if self.cls is torch.Size else tuple))

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if op == "+" and isinstance(other, TupleValue) and torch.Size in (self.cls, other.cls):
            mine, others = self.items(ctx), other.items(ctx)
            if has_symbol(ctx, items := (*mine, *others)):
                made = operator.add(make_tuple(self.cls, [0] * len(mine)), make_tuple(other.cls, []))
                return ctx.born(TupleValue(items, cls=type(made)))
            return call_pure(ctx, operator.add, self.as_python(ctx), plain(ctx, other))
        added = other.builtin_part()
        if op == "+" and isinstance(added, TupleValue):
            if added.is_exact and not self.truth(ctx):  # CPython then gives the other itself
                return added
            if self.is_exact and not added.truth(ctx):
                return self
            if self.base is not None:
                return ctx.born(TupleValue(added.items(ctx), head=self))
            if self.head is not None:
                return ctx.born(TupleValue(self._items + added.items(ctx), head=self.head))
        if op == "*" and self.is_exact and is_int(other) and other.as_python(ctx) == 1:
            return self
        return super().binary(ctx, op, other)

    def is_same(self, ctx: Context, other: Value) -> bool:
        """Two tuples made apart: CPython may share equal ones."""
        if not isinstance(other, TupleValue) or other.cls is not self.cls:
            return False
        mine = self.items(ctx)
        if len(other.items(ctx)) != len(mine):
            return False
        if self.cls is tuple and not mine:
            return True
        self.refuse("identity of equal constants")

    def key(self, ctx: Context) -> object:
        return tuple(ctx.real(item).key(ctx) for item in self.items(ctx))

    def as_python(self, ctx: Context) -> Any:
        items = [ctx.real(item).as_python(ctx) for item in self.items(ctx)]
        return make_tuple(self.cls, items)

    def graph_argument(self, ctx: Context) -> Any:
        return make_tuple(self.cls, [to_graph(ctx, item) for item in self.items(ctx)], keep_size=False)

    def getattr(self, ctx: Context, name: str) -> Value:
        fields = structure_fields(self.cls)
        return self.items(ctx)[fields.index(name)] if name in fields else super().getattr(ctx, name)

    def method_numel(self, ctx: Context) -> Value:
        if self.cls is not torch.Size:
            self.refuse("attribute cannot be read", ".numel")
        start: Value = constant(1)
        return functools.reduce(lambda product, size: binary(ctx, "*", product, size), self.items(ctx), start)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.fill(self, "", lambda: (self._text(out), lambda name: ()))

    def _text(self, out: ExitWriter) -> str:
        head = "" if self.head is None else f"*{out.text(self.head)}, "
        inner = head + "".join(f"{out.text(item)}, " for item in self._items)
        plain = f"({inner.rstrip() if len(self._items) == 1 and not head else inner[:-2]})"
        if self.cls is tuple:
            return plain
        if hasattr(self.cls, "_make"):
            return f"{out.hold(self.cls)}._make({plain})"
        return f"{out.hold(self.cls)}({plain})"


def make_tuple(cls: type, items: list[Any], *, keep_size: bool = True) -> Any:
    if cls is tuple or (cls is torch.Size and not keep_size):
        return tuple(items)
    return cls._make(items) if hasattr(cls, "_make") else cls(items)


def structure_fields(cls: type) -> list[str]:
    """The field names of one of torch's result tuples (a structseq), in order."""
    if not hasattr(cls, "n_sequence_fields"):
        return []
    return list(cls.__match_args__)  # type: ignore[attr-defined]


class SequenceIterator(IteratorValue):
    """An iterator over a list (read live), a tuple, a range or a string; `content`: its position, None at the end."""

    __slots__ = ("sequence",)

    def __init__(self, sequence: Value) -> None:
        super().__init__(0)
        self.sequence = sequence

    def python_type(self, ctx: Context) -> type:
        sequence = self.sequence
        example: Any = sequence.value if isinstance(sequence, ConstantValue) else getattr(sequence, "builtin", tuple)()
        return type(iter(example))

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

    def reconstruct(self, out: ExitWriter) -> str:
        sequence = self.sequence
        begin = iter if sequence.part_of is None else sequence.builtin.__iter__  # type: ignore[attr-defined]
        fresh = f"{out.hold(begin)}({out.text(sequence)})"
        if self.content == 0:
            return fresh
        if isinstance(sequence, SequenceValue) and sequence.is_changed():
            # It is moved while the list still is as it was, and would not go past its end.
            self.refuse("object cannot be rebuilt", "the list was changed while it was iterated")
        length = len(sequence.items(out.ctx)) if isinstance(sequence, SequenceValue) else self.content
        if self.content is not None and self.content > length:
            self.refuse("object cannot be rebuilt", "the list became shorter while it was iterated")
        return f"{out.hold(advanced)}({fresh}, {self.content})"


class ReverseIterator(IteratorValue):
    """`reversed()` of a list, read live, or of another sequence; `content`: the next index, None at the end."""

    __slots__ = ("sequence",)

    def __init__(self, sequence: Value, length: int) -> None:
        super().__init__(length - 1)
        self.sequence = sequence

    def python_type(self, ctx: Context) -> type:
        return type(reversed([])) if getattr(self.sequence, "builtin", None) is list else reversed

    def next(self, ctx: Context) -> Value | None:
        if self.content is None:
            return None
        known = isinstance(self.sequence, SequenceValue)
        items: Any = self.sequence.items(ctx) if known else self.sequence.as_python(ctx)  # type: ignore[attr-defined]
        if not 0 <= self.content < len(items):
            ctx.change(self, None)
            return None
        ctx.change(self, self.content - 1)
        return items[self.content + 1] if known else constant(items[self.content + 1])

    def reconstruct(self, out: ExitWriter) -> str:
        part = isinstance(self.sequence, SequenceValue) and self.sequence.part_of is not None
        if part and self.sequence.builtin is not list:  # type: ignore[attr-defined]
            self.refuse("object cannot be rebuilt", "its class may answer for items")
        fresh = f"{out.hold(list.__reversed__ if part else reversed)}({out.text(self.sequence)})"
        if self.content is None:
            return f"{out.hold(exhausted)}({fresh})"
        sequence = self.sequence
        if isinstance(sequence, SequenceValue) and sequence.is_changed():
            self.refuse("object cannot be rebuilt", "the list was changed while it was iterated")
        return f"{out.hold(advanced)}({fresh}, {self.content})"


def _iterate_constant(self: ConstantValue, ctx: Context) -> Value:
    if not isinstance(self.value, (str, bytes, range)):
        return call_pure(ctx, iter, self.as_python(ctx))  # raises, unless it is something that is not captured
    return ctx.born(SequenceIterator(self))


def _iterate_tensor(self: TensorValue, ctx: Context) -> Value:
    return ctx.born(SequenceIterator(TupleValue(self.unpack(ctx))))


ConstantValue.iterate = _iterate_constant  # type: ignore[method-assign,assignment]
TensorValue.iterate = _iterate_tensor  # type: ignore[method-assign,assignment]


@wraps(tuple, torch.Size)
def build_tuple(ctx: Context, obj: tuple[Any, ...], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    if type(obj) is tuple:
        return TupleValue((), source, base=obj)
    ctx.guard(Kind.LENGTH, source, len(obj))
    return TupleValue([ctx.wrap(item, Item(source, i)) for i, item in enumerate(obj)], source, type(obj))


PYTHON_RESULTS[tuple] = lambda ctx, obj, leaf: TupleValue([leaf(ctx, item) for item in obj], cls=type(obj))
