"""Tuples and what all sequences share: reading, comparing, iterating."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ..guards import Kind
from ..sources import Item, Source
from .base import Value, wraps
from .builtin_methods import MethodsByName
from .constants import PYTHON_RESULTS, ConstantValue, call_pure, constant, plain
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
        return self.like(ctx, found) if isinstance(index, slice) else found

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


def is_int(value: Value) -> bool:
    return isinstance(value, ConstantValue) and isinstance(value.value, int)


def _bound(ctx: Context, value: Value) -> int:
    """A bound of index(): any integer, but not None."""
    if not is_int(ctx.real(value)):
        ctx.real(value).refuse("Python raises or warns here", "use as a bound")
    return int(ctx.real(value).as_python(ctx))


class TupleValue(SequenceValue, Value):
    """A tuple, a torch.Size or one of torch's result tuples; named tuples are a subclass."""

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
        return ctx.born(TupleValue(items, cls=torch.Size if self.cls is torch.Size else tuple))

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if op == "+" and isinstance(other, TupleValue) and torch.Size in (self.cls, other.cls):
            if has_symbol(ctx, items := (*self._items, *other._items)):
                made = operator.add(make_tuple(self.cls, [0] * len(self._items)), make_tuple(other.cls, []))
                return ctx.born(TupleValue(items, cls=type(made)))
            return call_pure(ctx, operator.add, self.as_python(ctx), plain(ctx, other))
        return super().binary(ctx, op, other)

    def is_same(self, ctx: Context, other: Value) -> bool:
        """Two tuples made apart: CPython may share equal ones."""
        if not isinstance(other, TupleValue) or other.cls is not self.cls or len(other.items(ctx)) != len(self._items):
            return False
        if self.cls is tuple and not self._items:
            return True
        self.refuse("identity of equal constants")

    def key(self, ctx: Context) -> object:
        return tuple(ctx.real(item).key(ctx) for item in self._items)

    def as_python(self, ctx: Context) -> Any:
        items = [ctx.real(item).as_python(ctx) for item in self._items]
        return make_tuple(self.cls, items)

    def graph_argument(self, ctx: Context) -> Any:
        return make_tuple(self.cls, [to_graph(ctx, item) for item in self._items], keep_size=False)

    def getattr(self, ctx: Context, name: str) -> Value:
        fields = structure_fields(self.cls)
        return self._items[fields.index(name)] if name in fields else super().getattr(ctx, name)

    def method_numel(self, ctx: Context) -> Value:
        if self.cls is not torch.Size:
            self.refuse("attribute cannot be read", ".numel")
        start: Value = constant(1)
        return functools.reduce(lambda product, size: binary(ctx, "*", product, size), self._items, start)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.fill(self, "", lambda: (self._text(out), lambda name: ()))

    def _text(self, out: ExitWriter) -> str:
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
    ctx.guard(Kind.LENGTH, source, len(obj))
    return TupleValue([ctx.wrap(item, Item(source, i)) for i, item in enumerate(obj)], source, type(obj))


PYTHON_RESULTS[tuple] = lambda ctx, obj, leaf: TupleValue([leaf(ctx, item) for item in obj], cls=type(obj))
