"""itertools.groupby: runs of items with equal keys, read as lazily as the real ones."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from .base import Value
from .builtin_registry import builtin
from .iterator_tools import is_none
from .iterators import iterator_of
from .operations import equal
from .stepping import IteratorValue
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


class Reading(NamedTuple):
    """How far a groupby has read."""

    #: the key of the group being given, and of the item that was read last
    target: Value | None = None
    key: Value | None = None
    #: that item, until somebody takes it
    item: Value | None = None
    #: counts the groups: an earlier group has ended
    number: int = 0


class GroupBy(IteratorValue):
    """`groupby(iterable, key)`; `content` is a Reading."""

    __slots__ = ("function", "inner")

    def __init__(self, inner: Value, function: Value | None) -> None:
        super().__init__(Reading())
        self.inner, self.function = inner, function

    def python_type(self, ctx: Context) -> type:
        return itertools.groupby

    def step(self, ctx: Context) -> bool:
        """Read one item on; False at the end."""
        item = self.inner.next(ctx)
        if item is None:
            return False
        key = item if self.function is None else ctx.real(self.function).call(ctx, [item], {})
        ctx.change(self, self.content._replace(item=item, key=key))
        ctx.spend(1)
        return True

    def next(self, ctx: Context) -> Value | None:
        number = self.content.number + 1
        ctx.change(self, self.content._replace(number=number))  # earlier groups have ended, even if this is the end
        while self.content.key is None or (
            self.content.target is not None and equal(ctx, self.content.target, self.content.key)
        ):
            if not self.step(ctx):
                return None
        now = self.content
        ctx.change(self, now._replace(target=now.key))
        group = ctx.born(Group(self, now.key, number))
        return TupleValue([now.key, group])


class Group(IteratorValue):
    """One run of a groupby."""

    __slots__ = ("key_value", "number", "parent")

    def __init__(self, parent: GroupBy, key: Value, number: int) -> None:
        super().__init__(())
        self.parent, self.key_value, self.number = parent, key, number

    def python_type(self, ctx: Context) -> type:
        return _GROUPER

    def next(self, ctx: Context) -> Value | None:
        parent = self.parent
        if parent.content.number != self.number:
            return None
        if parent.content.item is None and not parent.step(ctx):
            return None
        if not equal(ctx, self.key_value, parent.content.key):
            return None
        item = parent.content.item
        ctx.change(parent, parent.content._replace(item=None))
        return item


_GROUPER: Any = type(next(itertools.groupby([1]))[1])


@builtin(itertools.groupby)
def groupby(ctx: Context, iterable: Value, key: Value | None = None) -> Value:
    return ctx.born(GroupBy(iterator_of(ctx, iterable), None if is_none(ctx, key) else key))


