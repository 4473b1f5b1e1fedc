"""itertools.tee: several iterators over what one gives, which is read once and kept for those behind."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from .base import Mutable, Value
from .builtin_registry import builtin
from .constants import constant
from .iterator_tools import integer
from .iterators import iterator_of
from .sequences import TupleValue
from .stepping import IteratorValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

_TEE: type = type(itertools.tee(())[0])


class Shared(Mutable):
    """What all of them read from; `content`: the items that were read so far."""

    __slots__ = ("inner",)

    kind = "iterator"

    def __init__(self, inner: Value) -> None:
        super().__init__(())
        self.inner = inner


class Tee(IteratorValue):
    """One of them; `content`: how many items it gave. It cannot be handed on, as the others may read on as well."""

    __slots__ = ("shared",)

    def __init__(self, shared: Shared) -> None:
        super().__init__(0)
        self.shared = shared

    def python_type(self, ctx: Context) -> type:
        return _TEE

    def next(self, ctx: Context) -> Value | None:
        at, items = self.content, self.shared.content
        if at == len(items):
            item = self.shared.inner.next(ctx)
            if item is None:
                return None
            ctx.change(self.shared, (*items, item))
        ctx.change(self, at + 1)
        return self.shared.content[at]


@builtin(itertools.tee)
def tee(ctx: Context, iterable: Value, n: Value = constant(2), /) -> Value:  # noqa: B008
    count = integer(ctx, n)
    inner = iterator_of(ctx, iterable)
    if count < 0 or isinstance(inner, Tee):  # one of these is copied with its place
        inner.refuse("operation is not supported", "tee()")
    shared = ctx.born(Shared(inner))
    return ctx.born(TupleValue([ctx.born(Tee(shared)) for _ in range(count)]))
