"""Iterators: Python's own (`enumerate`, `zip`, `map`, `filter`, `reversed`, `iter(f, x)`), and those found outside.

They advance as lazily as the real ones, by `next` on what they iterate. A break rebuilds each as the same type over the
same inner iterators, at the same position.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Iterable
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import MISSING, Kind
from ..sources import Source
from .base import Raised, Value, wraps
from .builtin_registry import builtin
from .constants import ConstantValue, constant
from .deques import DequeIterator, DequeValue
from .functions import FunctionValue
from .generators import raise_end
from .lookup import class_attribute
from .mappings import MappingValue
from .operations import binary, equal
from .private import private_text
from .sequences import SequenceIterator, SequenceValue, TupleValue
from .stepping import IteratorValue
from .tensors import TensorValue, call_graph
from .tuples import ReverseIterator
from .views import DictIterator, DictView

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


def iterator_of(ctx: Context, value: Value) -> Value:
    """`iter(value)`"""
    return ctx.real(ctx.real(value).iterate(ctx))


class Enumerate(IteratorValue):
    """`content` is the next count."""

    __slots__ = ("inner",)

    def __init__(self, inner: Value, start: Value) -> None:
        super().__init__(start)
        self.inner = inner

    def python_type(self, ctx: Context) -> type:
        return enumerate

    def next(self, ctx: Context) -> Value | None:
        item = self.inner.next(ctx)
        if item is None:
            return None
        count = self.content
        ctx.change(self, binary(ctx, "+", count, constant(1)))
        return TupleValue([count, item])

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(enumerate)}({out.text(self.inner)}, {out.text(self.content)})"


class Combined(IteratorValue):
    """An iterator whose whole state is that of the iterators it draws from."""

    __slots__ = ("inner",)

    cls: Any

    def __init__(self, inner: Iterable[Value]) -> None:
        super().__init__(())
        self.inner = tuple(inner)

    def python_type(self, ctx: Context) -> type:
        return self.cls

    def row(self, ctx: Context) -> list[Value] | None:
        """One item of each; None as soon as one has ended."""
        items = []
        for iterator in self.inner:
            item = iterator.next(ctx)
            if item is None:
                return None
            items.append(item)
        return items

    def inner_text(self, out: ExitWriter) -> str:
        return ", ".join(out.text(iterator) for iterator in self.inner)


class Zip(Combined):
    __slots__ = ("strict",)

    cls: Any = zip

    def __init__(self, inner: Iterable[Value], strict: bool) -> None:
        super().__init__(inner)
        self.strict = strict

    def next(self, ctx: Context) -> Value | None:
        items: list[Value] = []
        for i, iterator in enumerate(self.inner):
            item = iterator.next(ctx)
            if item is None:
                if self.strict:
                    self._check_lengths(ctx, i)
                return None
            items.append(item)
        return TupleValue(items) if items else None

    def _check_lengths(self, ctx: Context, ended: int) -> None:
        """Iterator number `ended` has ended: all must."""
        if ended:
            self._complain(ctx, ended, "shorter")
        for i, iterator in enumerate(self.inner):
            if i and iterator.next(ctx) is not None:
                self._complain(ctx, i, "longer")

    def _complain(self, ctx: Context, i: int, how: str) -> None:
        others = f"argument {i}" if i == 1 else f"arguments 1-{i}"
        ctx.raise_(ValueError(f"zip() argument {i + 1} is {how} than {others}"))

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(zip)}({self.inner_text(out)}{', strict=True' if self.strict else ''})"


class Map(Combined):
    __slots__ = ("function",)

    cls: Any = map

    def __init__(self, function: Value, inner: Iterable[Value]) -> None:
        super().__init__(inner)
        self.function = function

    def next(self, ctx: Context) -> Value | None:
        items = self.row(ctx)
        return None if items is None else ctx.real(self.function).call(ctx, items, {})

    def reconstruct(self, out: ExitWriter) -> str:
        function = out.ctx.real(self.function)
        text = private_text(out, function) if isinstance(function, FunctionValue) else out.text(function)
        return f"{out.hold(self.cls)}({text}, {self.inner_text(out)})"


class Filter(Map):
    """`filter`, and `itertools.filterfalse` with `wanted` False."""

    __slots__ = ()

    cls: Any = filter
    wanted = True

    def next(self, ctx: Context) -> Value | None:
        while (item := self.inner[0].next(ctx)) is not None:
            ctx.spend(1)
            if self._passes(ctx, item) == self.wanted:
                return item
        return None

    def _passes(self, ctx: Context, item: Value) -> bool:
        function = ctx.real(self.function)
        if isinstance(function, ConstantValue) and function.value is None:
            return ctx.real(item).truth(ctx)
        return ctx.real(function.call(ctx, [item], {})).truth(ctx)


class ItemsByIndex(IteratorValue):
    """`iter()` or `reversed()` of an object that has only `__getitem__`; `content`: the next index, None at the end."""

    __slots__ = ("sequence", "step")

    def __init__(self, sequence: Value, first: int, step: int) -> None:
        super().__init__(first)
        self.sequence, self.step = sequence, step

    def python_type(self, ctx: Context) -> type:
        return reversed if self.step < 0 else type(iter(_Indexed()))

    def next(self, ctx: Context) -> Value | None:
        if self.content is None or self.content < 0:
            return None
        try:
            item = self.sequence.getitem(ctx, constant(self.content))
        except Raised as raised:
            if not issubclass(ctx.real(raised.value).python_type(ctx), (IndexError, StopIteration)):
                raise
            ctx.change(self, None)
            return None
        ctx.change(self, self.content + self.step)
        return item

    def reconstruct(self, out: ExitWriter) -> str:
        """Moved by `__setstate__`: the class's own methods are not asked again."""
        if self.content is None or self.step < 0:
            self.refuse("object cannot be rebuilt")
        return f"{out.hold(moved)}({out.hold(iter)}({out.text(self.sequence)}), {self.content})"


class _Indexed:
    """Iterated by its items."""

    def __getitem__(self, index: int) -> int:
        raise IndexError(index)


def moved(iterator: Any, index: int) -> Any:
    iterator.__setstate__(index)
    return iterator


class CallIterator(IteratorValue):
    """`iter(function, sentinel)`; `content` is False once the sentinel came."""

    __slots__ = ("function", "sentinel")

    def __init__(self, function: Value, sentinel: Value) -> None:
        super().__init__(True)
        self.function, self.sentinel = function, sentinel

    def python_type(self, ctx: Context) -> type:
        return type(iter(int, 1))

    def next(self, ctx: Context) -> Value | None:
        if not self.content:
            return None
        try:
            item = ctx.real(self.function).call(ctx, [], {})
        except Raised as raised:
            if not issubclass(ctx.real(raised.value).python_type(ctx), StopIteration):
                raise
            item = self.sentinel
        if equal(ctx, self.sentinel, item):
            ctx.change(self, False)
            return None
        return item

    def reconstruct(self, out: ExitWriter) -> str:
        if not self.content:
            self.refuse("object cannot be rebuilt")
        return f"{out.hold(iter)}({out.text(self.function)}, {out.text(self.sentinel)})"


class OuterIterator(IteratorValue):
    """An iterator that existed before the region: it is handed on as it is, and advanced by the original code."""

    __slots__ = ("cls",)

    kind = "iterator from outside"

    def __init__(self, source: Source, cls: type) -> None:
        super().__init__((), source)
        self.cls = cls

    def python_type(self, ctx: Context) -> type:
        return self.cls

    def next(self, ctx: Context) -> Value | None:
        hint = "the loop itself runs in the original code; its body is compiled"
        raise GraphBreak("iterator from outside is advanced", f"next() of {self.cls.__name__} {self.source}", hint)


def _outer_types() -> set[type]:
    views: list[Any] = [getattr(cls(), name)() for cls in (dict, OrderedDict) for name in ("keys", "values", "items")]
    found = {type(iter(obj)) for obj in ([], (), "", "\xff", b"", range(0), range(1 << 70), set(), {}, *views)}
    found |= {type(reversed(obj)) for obj in ([], {}, range(0), *views)}
    found |= {type(iter(deque())), type(reversed(deque()))}
    found |= {enumerate, zip, map, filter, reversed, GeneratorType, type(iter(int, 1))}
    return found | {cls for cls in vars(itertools).values() if isinstance(cls, type) and hasattr(cls, "__next__")}


@wraps(*sorted(_outer_types(), key=str))
def build_iterator(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    return OuterIterator(source, type(obj))


# making them --------------------------------------------------------------------------------------------------------
@builtin(iter)
def iter_(ctx: Context, value: Value, sentinel: Value | None = None, /) -> Value:
    if sentinel is not None:
        return ctx.born(CallIterator(value, sentinel))
    return ctx.real(value).iterate(ctx)


@builtin(next)
def next_(ctx: Context, iterator: Value, default: Value | None = None, /) -> Value:
    item, result = ctx.send(ctx.real(iterator), constant(None))
    if item is not None:
        return item
    if default is not None:
        return default
    raise_end(ctx, result)


@builtin(enumerate)
def enumerate_(ctx: Context, iterable: Value, start: Value | None = None) -> Value:
    first = constant(0) if start is None else ctx.real(start)
    if not isinstance(first, ConstantValue) or type(first.value) is not int:
        first.refuse("operation is not supported", "enumerate() from")
    return ctx.born(Enumerate(iterator_of(ctx, iterable), first))


@builtin(zip)
def zip_(ctx: Context, *iterables: Value, strict: Value | None = None) -> Value:
    for value in iterables:
        if isinstance(ctx.real(value), ConstantValue):
            _check_iterable(ctx, value, "zip()")
    is_strict = strict is not None and ctx.real(strict).truth(ctx)
    return ctx.born(Zip([iterator_of(ctx, value) for value in iterables], is_strict))


def _check_iterable(ctx: Context, value: Value, where: str) -> None:
    """Its error message differs among versions: let the original instruction raise it."""
    real = ctx.real(value)
    if isinstance(real, ConstantValue) and not hasattr(type(real.value), "__iter__"):
        real.refuse("Python raises or warns here", where)


@builtin(map)
def map_(ctx: Context, function: Value, iterable: Value, /, *others: Value) -> Value:
    return ctx.born(Map(function, [iterator_of(ctx, value) for value in (iterable, *others)]))


@builtin(filter)
def filter_(ctx: Context, function: Value, iterable: Value, /) -> Value:
    return ctx.born(Filter(function, [iterator_of(ctx, iterable)]))


def _reversed_object(ctx: Context, value: Value) -> Value:
    """Of a user's object: what its `__reversed__` gives, or its items by falling indices."""
    method = value.special(ctx, "__reversed__")  # type: ignore[attr-defined]
    if method is not None:
        return ctx.real(method.call(ctx, [], {}))
    names = ("__reversed__", "__getitem__", "__len__")
    found = [class_attribute(ctx, value.python_type(ctx), name) for name in names]
    if found[0] is None or MISSING in found[1:]:
        value.refuse("Python raises or warns here", "reversed()")
    length = ctx.real(value.length(ctx)).as_python(ctx)
    return ctx.born(ItemsByIndex(value, length - 1, -1))


@builtin(reversed)
def reversed_(ctx: Context, sequence: Value, /) -> Value:
    value = ctx.real(sequence)
    special = getattr(value, "special", None)
    if special is not None:
        return _reversed_object(ctx, value)
    if isinstance(value, DequeValue):
        return ctx.born(DequeIterator(ctx, value, backwards=True))
    if isinstance(value, (SequenceValue, MappingValue)):
        return value.reversed(ctx)
    if isinstance(value, DictView):
        return ctx.born(DictIterator(ctx, value.owner, value.which, backwards=True))
    if isinstance(value, TensorValue):
        return call_graph(ctx, "flip", [value, constant(0)], {}, method=True) if value.fake.ndim else value
    if isinstance(value, ConstantValue):
        real = value.as_python(ctx)
        if isinstance(real, range):
            return ctx.born(SequenceIterator(constant(real[::-1])))
        if isinstance(real, (str, bytes)):
            return ctx.born(ReverseIterator(constant(real), len(real)))
    value.refuse("operation is not supported", "reversed()")
