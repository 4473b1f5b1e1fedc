"""collections.deque. One from outside is read only when somebody asks for its items."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ..guards import Kind
from ..sources import Call, Item, Source
from .base import Mutable, Value, wraps
from .builtin_registry import builtin
from .constants import call_pure, constant, plain
from .operations import as_index, equal
from .stepping import PositionIterator, each
from .tuples import Items, SequenceValue, is_int

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class Content(NamedTuple):
    """items: all of them, or what was appended while the rest is unread; state: how often its length was touched."""

    items: Items
    state: int = 0


class DequeValue(SequenceValue, Mutable):
    """A deque with its greatest length, or None."""

    __slots__ = ("base", "maxlen")

    kind = "deque"
    builtin = deque
    has_identity = True

    def __init__(self, items: Items, maxlen: int | None, source: Source | None = None, base: Any = None) -> None:
        super().__init__(Content(items), source)
        self.maxlen = maxlen
        #: the real deque while its items are unread
        self.base = base

    def python_type(self, ctx: Context) -> type:
        return deque

    def items(self, ctx: Context) -> Items:
        if self.base is not None:
            self._read(ctx, self.base)
        return self.content.items

    def _read(self, ctx: Context, base: Any) -> None:
        source = self.source
        assert source is not None
        ctx.guard(Kind.EQUALS, Call(ctx.hold(len), (source,)), len(base))
        appended, original = self.content, self.original

        def undo() -> None:
            self.base, self.content, self.original = base, appended, original

        ctx.on_rollback(undo)
        self.base = None
        self.original = Content(tuple(ctx.wrap(item, Item(source, i)) for i, item in enumerate(base)))
        if appended is original:
            self.content = self.original
        else:
            items = deque(self.original.items + appended.items, self.maxlen)
            self.content = Content(tuple(items), appended.state)

    def is_changed(self) -> bool:
        return self.source is not None and self.content is not self.original

    def like(self, ctx: Context, items: Items) -> Value:
        return ctx.born(DequeValue(tuple(deque(items, self.maxlen)), self.maxlen))

    def as_python(self, ctx: Context) -> Any:
        return deque([ctx.real(item).as_python(ctx) for item in self.items(ctx)], self.maxlen)

    def graph_argument(self, ctx: Context) -> NoReturn:
        self.refuse("argument cannot be in a graph", "use as an argument", "make a list of it")

    def key(self, ctx: Context) -> object:
        ctx.raise_(TypeError("unhashable type: 'collections.deque'"))

    def getattr(self, ctx: Context, name: str) -> Value:
        return constant(self.maxlen) if name == "maxlen" else super().getattr(ctx, name)

    def getitem(self, ctx: Context, key: Value) -> Value:
        index = as_index(ctx, key)
        if isinstance(index, slice):
            call_pure(ctx, operator.getitem, deque[Any](), index)
        return super().getitem(ctx, key)

    def iterate(self, ctx: Context) -> Value:
        return ctx.born(DequeIterator(ctx, self))

    # changes --------------------------------------------------------------------------------------------------------
    def _edit(self, ctx: Context, edit: Callable[[Any], Any], *, same_length: bool = False) -> Any:
        """Do this to a real deque of the items; what it raises, the user's code raises."""
        items = deque(self.items(ctx), self.maxlen)
        try:
            result = edit(items)
        except (IndexError, TypeError, ValueError) as error:
            ctx.raise_(error)
        ctx.change(self, Content(tuple(items), self.content.state + (not same_length)))
        return result

    def setitem(self, ctx: Context, key: Value, value: Value) -> None:
        index = as_index(ctx, key)
        self._edit(ctx, lambda items: operator.setitem(items, index, value), same_length=True)

    def delitem(self, ctx: Context, key: Value) -> None:
        index = as_index(ctx, key)
        self._edit(ctx, lambda items: operator.delitem(items, index))

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if inplace and op == "+":
            self.method_extend(ctx, other)
            return self
        if inplace and op == "*" and is_int(other):
            times = self._times(ctx, other)
            self._edit(ctx, lambda items: operator.imul(items, times))
            return self
        return super().binary(ctx, op, other)

    def method_append(self, ctx: Context, item: Value) -> Value:
        if self.base is None:
            self._edit(ctx, lambda items: items.append(item))
        else:
            ctx.change(self, Content((*self.content.items, item), self.content.state + 1))
        return constant(None)

    def method_appendleft(self, ctx: Context, item: Value) -> Value:
        self._edit(ctx, lambda items: items.appendleft(item))
        return constant(None)

    def method_extend(self, ctx: Context, items: Value) -> Value:
        for item in self._taken(ctx, items):
            self.method_append(ctx, item)
        return constant(None)

    def method_extendleft(self, ctx: Context, items: Value) -> Value:
        for item in self._taken(ctx, items):
            self.method_appendleft(ctx, item)
        return constant(None)

    def _taken(self, ctx: Context, items: Value) -> Iterable[Value]:
        """The items one by one; of itself, a copy."""
        return self.items(ctx) if ctx.real(items) is self else each(ctx, items)

    def method_pop(self, ctx: Context) -> Value:
        return self._edit(ctx, lambda items: items.pop())

    def method_popleft(self, ctx: Context) -> Value:
        return self._edit(ctx, lambda items: items.popleft())

    def method_insert(self, ctx: Context, index: Value, item: Value) -> Value:
        at = as_index(ctx, index)
        self._edit(ctx, lambda items: items.insert(at, item))
        return constant(None)

    def method_rotate(self, ctx: Context, n: Value | None = None) -> Value:
        by = 1 if n is None else as_index(ctx, n)
        self._edit(ctx, lambda items: items.rotate(by))
        return constant(None)

    def method_reverse(self, ctx: Context) -> Value:
        self._edit(ctx, lambda items: items.reverse(), same_length=True)
        return constant(None)

    def method_clear(self, ctx: Context) -> Value:
        self._edit(ctx, lambda items: items.clear())
        return constant(None)

    def method_remove(self, ctx: Context, item: Value) -> Value:
        at = next((i for i, candidate in enumerate(self.items(ctx)) if equal(ctx, candidate, item)), None)
        if at is None:
            return call_pure(ctx, deque[Any]().remove, plain(ctx, item))
        self._edit(ctx, lambda items: operator.delitem(items, at))
        return constant(None)

    def method_copy(self, ctx: Context) -> Value:
        return self.like(ctx, self.items(ctx))

    # the way out ----------------------------------------------------------------------------------------------------
    def reconstruct(self, out: ExitWriter) -> str:
        def build() -> tuple[str, Callable[[str], Iterable[str]]]:
            inner = ", ".join(out.text(item) for item in self.content.items)
            return f"{out.hold(deque)}([{inner}], {self.maxlen})", lambda name: [f"{name}.extend([{inner}])"]

        return out.fill(self, f"{out.hold(deque)}([], {self.maxlen})", build)

    def effects(self, out: ExitWriter) -> Iterable[str]:
        target = out.text(self)
        inner = ", ".join(out.text(item) for item in self.content.items)
        if self.base is None:
            yield f"{target}.clear()"
        yield f"{target}.extend([{inner}])"


class DequeIterator(PositionIterator):
    """An iterator over a deque, forwards or backwards; it fails once the deque's length was touched."""

    __slots__ = ("backwards", "made_from", "owner")

    def __init__(self, ctx: Context, owner: DequeValue, *, backwards: bool = False) -> None:
        super().__init__(owner.items(ctx))
        self.owner, self.backwards = owner, backwards
        self.made_from = owner.content

    def python_type(self, ctx: Context) -> type:
        return type(reversed(deque[Any]()) if self.backwards else iter(deque[Any]()))

    def next(self, ctx: Context) -> Value | None:
        if self.content is None:
            return None
        content = self.owner.content
        if content.state != self.made_from.state:
            ctx.change(self, None)
            ctx.raise_(RuntimeError("deque mutated during iteration"))
        if self.content == len(content.items):
            ctx.change(self, None)
            return None
        ctx.change(self, self.content + 1)
        return content.items[-self.content if self.backwards else self.content - 1]

    def rebuilt(self, out: ExitWriter) -> str:
        if self.owner.content is not self.made_from or self.owner.is_changed():
            self.refuse("object cannot be rebuilt", "the deque was changed while it was iterated")
        return f"{out.hold(reversed if self.backwards else iter)}({out.text(self.owner)})"


@builtin(deque)
def deque_(ctx: Context, iterable: Value | None = None, maxlen: Value | None = None) -> Value:
    limit = None if maxlen is None else ctx.real(maxlen).as_python(ctx)
    if limit is not None and (type(limit) is not int or limit < 0):
        ctx.real(maxlen or constant(None)).refuse("Python raises or warns here", "use as a deque's maxlen")
    made = ctx.born(DequeValue((), limit))
    if iterable is not None:
        made.method_extend(ctx, iterable)
    return made


@wraps(deque)
def build_deque(ctx: Context, obj: deque[Any], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, deque)
    maxlen = Call(ctx.hold(maxlen_of), (source,))
    ctx.guard(Kind.EQUALS, maxlen, obj.maxlen)
    return DequeValue((), obj.maxlen, source, obj)


def maxlen_of(items: deque[Any]) -> int | None:
    return items.maxlen
