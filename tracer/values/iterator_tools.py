"""The iterators of itertools."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .base import Value
from .builtin_registry import builtin, builtin_class_method
from .constants import ConstantValue, constant
from .iterators import Combined, Filter, Map, iterator_of
from .operations import binary
from .sequences import TupleValue
from .stepping import IteratorValue, stepped

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

def is_none(ctx: Context, value: Value | None) -> bool:
    if value is None:
        return True
    real = ctx.real(value)
    return isinstance(real, ConstantValue) and real.value is None


class Chain(IteratorValue):
    """`content`: the iterator being read (None: not begun) and the iterables that follow, or an iterator of them."""

    __slots__ = ()

    def __init__(self, iterables: Value) -> None:
        super().__init__((None, iterables))

    def python_type(self, ctx: Context) -> type:
        return itertools.chain

    def next(self, ctx: Context) -> Value | None:
        while True:
            active, rest = self.content
            if active is None:
                following = rest.next(ctx)
                if following is None:
                    return None
                active = iterator_of(ctx, following)
                ctx.change(self, (active, rest))
            item = active.next(ctx)
            if item is not None:
                return item
            ctx.change(self, (None, rest))
            ctx.spend(1)

    def reconstruct(self, out: ExitWriter) -> str:
        active, rest = self.content
        chain = out.hold(itertools.chain)
        if active is None:
            return f"{chain}.from_iterable({out.text(rest)})"
        return f"{chain}.from_iterable({chain}(({out.text(active)},), {out.text(rest)}))"


class Repeat(IteratorValue):
    """`content`: how often it is still given; None for ever."""

    __slots__ = ("item",)

    def __init__(self, item: Value, times: int | None) -> None:
        super().__init__(times)
        self.item = item

    def python_type(self, ctx: Context) -> type:
        return itertools.repeat

    def next(self, ctx: Context) -> Value | None:
        if self.content is None:
            return self.item
        if self.content <= 0:
            return None
        ctx.change(self, self.content - 1)
        return self.item

    def reconstruct(self, out: ExitWriter) -> str:
        times = "" if self.content is None else f", {self.content}"
        return f"{out.hold(itertools.repeat)}({out.text(self.item)}{times})"


class Count(IteratorValue):
    """`content`: the next number."""

    __slots__ = ("step",)

    def __init__(self, start: Value, step: Value) -> None:
        super().__init__(start)
        self.step = step

    def python_type(self, ctx: Context) -> type:
        return itertools.count

    def next(self, ctx: Context) -> Value | None:
        item = self.content
        ctx.change(self, binary(ctx, "+", item, self.step))
        return item

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(itertools.count)}({out.text(self.content)}, {out.text(self.step)})"


class Islice(IteratorValue):
    """`content`: (items read so far, index of the next one wanted, stop or None); None once it has ended."""

    __slots__ = ("inner", "step")

    def __init__(self, inner: Value, start: int, stop: int | None, step: int) -> None:
        super().__init__((0, start, stop))
        self.inner, self.step = inner, step

    def python_type(self, ctx: Context) -> type:
        return itertools.islice

    def next(self, ctx: Context) -> Value | None:
        if self.content is None:
            return None
        read, wanted, stop = self.content
        while read < wanted:
            if self.inner.next(ctx) is None:
                ctx.change(self, None)
                return None
            read += 1
            ctx.spend(1)
            ctx.change(self, (read, wanted, stop))
        item = None if stop is not None and read >= stop else self.inner.next(ctx)
        if item is None:
            ctx.change(self, None)
            return None
        following = wanted + self.step
        ctx.change(self, (read + 1, following if stop is None else min(following, stop), stop))
        return item

    def reconstruct(self, out: ExitWriter) -> str:
        islice = out.hold(itertools.islice)
        if self.content is None:
            return f"{islice}((), 0)"
        read, wanted, stop = self.content
        left = None if stop is None else stop - read
        return f"{islice}({out.text(self.inner)}, {wanted - read}, {left}, {self.step})"


class Accumulate(IteratorValue):
    """`content`: (the total or None before the first item, is the total still to be given)."""

    __slots__ = ("function", "inner")

    def __init__(self, inner: Value, function: Value | None, initial: Value | None) -> None:
        super().__init__((initial, initial is not None))
        self.inner, self.function = inner, function

    def python_type(self, ctx: Context) -> type:
        return itertools.accumulate

    def next(self, ctx: Context) -> Value | None:
        total, pending = self.content
        if pending:
            ctx.change(self, (total, False))
            return total
        item = self.inner.next(ctx)
        if item is None:
            return None
        if total is None:
            total = item
        elif self.function is None:
            total = binary(ctx, "+", total, item)
        else:
            total = ctx.real(self.function).call(ctx, [total, item], {})
        ctx.change(self, (total, False))
        return total

    def reconstruct(self, out: ExitWriter) -> str:
        total, pending = self.content
        function = "" if self.function is None else f", {out.text(self.function)}"
        initial = "" if total is None else f", initial={out.text(total)}"
        fresh = f"{out.hold(itertools.accumulate)}({out.text(self.inner)}{function}{initial})"
        return fresh if total is None or pending else f"{out.hold(stepped)}({fresh}, 1)"


class ZipLongest(IteratorValue):
    """`content`: which of the iterators have ended."""

    __slots__ = ("fill", "inner")

    def __init__(self, inner: Iterable[Value], fill: Value) -> None:
        self.inner = tuple(inner)
        self.fill = fill
        super().__init__((False,) * len(self.inner))

    def python_type(self, ctx: Context) -> type:
        return itertools.zip_longest

    def next(self, ctx: Context) -> Value | None:
        ended = list(self.content)
        items: list[Value] = []
        for i, iterator in enumerate(self.inner):
            item = None if ended[i] else iterator.next(ctx)
            if item is None:
                ended[i] = True
                ctx.change(self, tuple(ended))
                if all(ended):
                    return None
            items.append(self.fill if item is None else item)
        return TupleValue(items) if items else None

    def reconstruct(self, out: ExitWriter) -> str:
        inner = "".join(
            f"{'()' if ended else out.text(iterator)}, "
            for iterator, ended in zip(self.inner, self.content, strict=True)
        )
        return f"{out.hold(itertools.zip_longest)}({inner}fillvalue={out.text(self.fill)})"


class Starmap(Map):
    __slots__ = ()

    cls = itertools.starmap

    def next(self, ctx: Context) -> Value | None:
        item = self.inner[0].next(ctx)
        return None if item is None else ctx.real(self.function).call(ctx, ctx.real(item).unpack(ctx), {})


class FilterFalse(Filter):
    __slots__ = ()

    cls = itertools.filterfalse
    wanted = False


class TakeWhile(Filter):
    """`content` is None once it has ended."""

    __slots__ = ()

    cls = itertools.takewhile

    def next(self, ctx: Context) -> Value | None:
        item = None if self.content is None else self.inner[0].next(ctx)
        if item is None:
            return None
        if not ctx.real(ctx.real(self.function).call(ctx, [item], {})).truth(ctx):
            ctx.change(self, None)
            return None
        return item

    def reconstruct(self, out: ExitWriter) -> str:
        if self.content is None:
            return f"{out.hold(itertools.takewhile)}({out.text(self.function)}, ())"
        return super().reconstruct(out)


class DropWhile(Filter):
    """`content` is None once the first item was given."""

    __slots__ = ()

    cls = itertools.dropwhile

    def next(self, ctx: Context) -> Value | None:
        while (item := self.inner[0].next(ctx)) is not None:
            if self.content is None:
                return item
            if not ctx.real(ctx.real(self.function).call(ctx, [item], {})).truth(ctx):
                ctx.change(self, None)
                return item
            ctx.spend(1)
        return None

    def reconstruct(self, out: ExitWriter) -> str:
        if self.content is None:
            return f"{out.hold(itertools.dropwhile)}({out.hold(never)}, {self.inner_text(out)})"
        return super().reconstruct(out)


def never(item: Any) -> bool:
    return False


class Pairwise(IteratorValue):
    """`content`: the item before; None before the first and after the last."""

    __slots__ = ("inner",)

    def __init__(self, inner: Value) -> None:
        super().__init__(None)
        self.inner = inner

    def python_type(self, ctx: Context) -> type:
        return itertools.pairwise

    def next(self, ctx: Context) -> Value | None:
        before = self.content
        if before is None:
            before = self.inner.next(ctx)
            if before is None:
                return None
            ctx.change(self, before)
        item = self.inner.next(ctx)
        ctx.change(self, item)
        return None if item is None else TupleValue([before, item])

    def reconstruct(self, out: ExitWriter) -> str:
        inner = out.text(self.inner)
        if self.content is not None:
            inner = f"{out.hold(itertools.chain)}(({out.text(self.content)},), {inner})"
        return f"{out.hold(itertools.pairwise)}({inner})"


class Compress(Combined):
    __slots__ = ()

    cls = itertools.compress

    def next(self, ctx: Context) -> Value | None:
        while (row := self.row(ctx)) is not None:
            if ctx.real(row[1]).truth(ctx):
                return row[0]
            ctx.spend(1)
        return None

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(itertools.compress)}({self.inner_text(out)})"


class Cycle(IteratorValue):
    """`content`: (items seen in the first pass, has that ended, position in them)."""

    __slots__ = ("inner",)

    def __init__(self, inner: Value) -> None:
        super().__init__(((), False, 0))
        self.inner = inner

    def python_type(self, ctx: Context) -> type:
        return itertools.cycle

    def next(self, ctx: Context) -> Value | None:
        seen, ended, at = self.content
        if not ended:
            item = self.inner.next(ctx)
            if item is not None:
                ctx.change(self, ((*seen, item), False, 0))
                return item
        if not seen:
            return None
        ctx.change(self, (seen, True, (at + 1) % len(seen)))
        return seen[at]

    def reconstruct(self, out: ExitWriter) -> str:
        seen, ended, at = self.content
        cycle, items = out.hold(itertools.cycle), out.text(TupleValue(seen))
        if ended:
            return f"{out.hold(stepped)}({cycle}({items}), {at})"
        inner = out.text(self.inner)
        if not seen:
            return f"{cycle}({inner})"
        return f"{out.hold(stepped)}({cycle}({out.hold(itertools.chain)}({items}, {inner})), {len(seen)})"


# making them --------------------------------------------------------------------------------------------------------
@builtin(itertools.chain)
def chain(ctx: Context, *iterables: Value) -> Value:
    return ctx.born(Chain(iterator_of(ctx, TupleValue(iterables))))


@builtin_class_method(itertools.chain, "from_iterable")
def chain_from_iterable(ctx: Context, iterable: Value, /) -> Value:
    return ctx.born(Chain(iterator_of(ctx, iterable)))


@builtin(itertools.repeat)
def repeat(ctx: Context, object: Value, times: Value | None = None) -> Value:
    return ctx.born(Repeat(object, None if times is None else integer(ctx, times)))


@builtin(itertools.count)
def count(ctx: Context, start: Value | None = None, step: Value | None = None) -> Value:
    parts = [ctx.real(part or constant(n)) for part, n in ((start, 0), (step, 1))]
    for part in parts:  # of floats CPython keeps no running sum but computes each item its own way
        if not isinstance(part, ConstantValue) or type(part.value) is not int:
            part.refuse("operation is not supported", "itertools.count() of")
    return ctx.born(Count(*parts))


def integer(ctx: Context, value: Value) -> int:
    real = ctx.real(value)
    if not isinstance(real, ConstantValue) or not isinstance(real.value, int):
        real.refuse("Python raises or warns here", "use as a count")
    return int(real.as_python(ctx))


@builtin(itertools.islice)
def islice(ctx: Context, iterable: Value, first: Value, /, *rest: Value) -> Value:
    if len(rest) > 2:
        ctx.real(iterable).refuse("Python raises or warns here", "islice() with these arguments")
    bounds = [None if is_none(ctx, v) else integer(ctx, v) for v in (first, *rest)]
    start, stop, step = (0, bounds[0], 1) if not rest else (bounds[0] or 0, bounds[1], [*bounds, None][2])
    step = 1 if step is None else step
    if start < 0 or (stop is not None and stop < 0) or step < 1:
        ctx.real(iterable).refuse("Python raises or warns here", "islice() with these arguments")
    return ctx.born(Islice(iterator_of(ctx, iterable), start, stop, step))


@builtin(itertools.accumulate)
def accumulate(ctx: Context, iterable: Value, func: Value | None = None, *, initial: Value | None = None) -> Value:
    function = None if is_none(ctx, func) else func
    return ctx.born(Accumulate(iterator_of(ctx, iterable), function, None if is_none(ctx, initial) else initial))


@builtin(itertools.zip_longest)
def zip_longest(ctx: Context, *iterables: Value, fillvalue: Value | None = None) -> Value:
    return ctx.born(ZipLongest([iterator_of(ctx, value) for value in iterables], fillvalue or constant(None)))


def _of_function(cls: Any, made: Callable[..., Value]) -> None:
    def handler(ctx: Context, function: Value, iterable: Value, /) -> Value:
        return ctx.born(made(function, [iterator_of(ctx, iterable)]))

    builtin(cls)(handler)


for _made in (Starmap, FilterFalse, TakeWhile, DropWhile):
    _of_function(_made.cls, _made)


@builtin(itertools.pairwise)
def pairwise(ctx: Context, iterable: Value, /) -> Value:
    return ctx.born(Pairwise(iterator_of(ctx, iterable)))


@builtin(itertools.compress)
def compress(ctx: Context, data: Value, selectors: Value) -> Value:
    return ctx.born(Compress([iterator_of(ctx, data), iterator_of(ctx, selectors)]))


@builtin(itertools.cycle)
def cycle(ctx: Context, iterable: Value, /) -> Value:
    return ctx.born(Cycle(iterator_of(ctx, iterable)))


class Batched(Combined):
    """itertools.batched (3.12), whose `strict` (3.13) is left to CPython."""

    __slots__ = ("size",)

    cls = getattr(itertools, "batched", type(None))

    def __init__(self, inner: Iterable[Value], size: int) -> None:
        super().__init__(inner)
        self.size = size

    def next(self, ctx: Context) -> Value | None:
        items: list[Value] = []
        while len(items) < self.size and (item := self.inner[0].next(ctx)) is not None:
            items.append(item)
        return TupleValue(items) if items else None

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(self.cls)}({self.inner_text(out)}, {self.size})"


if Batched.cls is not type(None):

    @builtin(Batched.cls)
    def batched(ctx: Context, iterable: Value, n: Value) -> Value:
        size = integer(ctx, n)
        if size < 1:
            ctx.real(iterable).refuse("Python raises or warns here", "batched() of this size")
        return ctx.born(Batched([iterator_of(ctx, iterable)], size))


