"""What iterators share, those over items known when iteration begins, and how real ones are moved at run time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .base import Mutable, Value
from .operations import equal

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


def advanced(iterator: Any, position: int | None) -> Any:
    """The iterator moved to a position by its state, or to its end (None)."""
    if position is None:
        return exhausted(iterator)
    iterator.__setstate__(position)
    return iterator


def stepped(iterator: Any, count: int) -> Any:
    """The iterator moved on by a number of steps."""
    for _ in range(count):
        next(iterator)
    return iterator


def exhausted(iterator: Any) -> Any:
    """The iterator at its end."""
    for _ in iterator:
        pass
    return iterator


def each(ctx: Context, iterable: Value) -> Iterator[Value]:
    """The items, each fetched when it is asked for: what fetching and using them does happens in turn."""
    iterator = ctx.real(ctx.real(iterable).iterate(ctx))
    while (item := iterator.next(ctx)) is not None:
        ctx.spend(1)
        yield ctx.real(item)


class IteratorValue(Mutable):
    """What iterators share. `content` is the state that `next` moves on."""

    __slots__ = ()

    kind = "iterator"
    has_identity = True

    def truth(self, ctx: Context) -> bool:
        return True

    def key(self, ctx: Context) -> object:
        return self

    def iterate(self, ctx: Context) -> Value:
        return self

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        return any(equal(ctx, candidate, item) for candidate in each(ctx, self))

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "__class__":
            cls = self.python_type(ctx)
            return ctx.wrap(cls, ctx.hold(cls))
        if name == "__next__":
            return NextMethod(self)
        self.refuse("attribute cannot be read", f".{name}")


class NextMethod(Value):
    """`iterator.__next__`"""

    __slots__ = ("iterator",)

    kind = "iterator method"

    def __init__(self, iterator: Value) -> None:
        super().__init__()
        self.iterator = iterator

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if isinstance(other, NextMethod):
            self.refuse("operation is not supported", "comparison")
        return None

    def truth(self, ctx: Context) -> bool:
        return True

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args or kwargs:
            self.refuse("arguments do not fit the call")
        item = self.iterator.next(ctx)
        if item is None:
            ctx.raise_(StopIteration())
        return item


class PositionIterator(IteratorValue):
    """An iterator over items known when iteration begins; `content` is the position, None when it has ended."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Value]) -> None:
        super().__init__(0)
        self.items = tuple(items)

    def check(self, ctx: Context) -> None:
        """Raise what the real iterator raises when what it iterates was changed."""

    def next(self, ctx: Context) -> Value | None:
        if self.content is None:
            return None
        self.check(ctx)
        if self.content == len(self.items):
            ctx.change(self, None)
            return None
        ctx.change(self, self.content + 1)
        return self.items[self.content - 1]

    def rebuilt(self, out: ExitWriter) -> str:
        """An expression for a fresh iterator of the same kind."""
        self.refuse("object cannot be rebuilt")

    def reconstruct(self, out: ExitWriter) -> str:
        fresh = self.rebuilt(out)
        if self.content is None:
            return f"{out.hold(exhausted)}({fresh})"
        return f"{out.hold(stepped)}({fresh}, {self.content})" if self.content else fresh
