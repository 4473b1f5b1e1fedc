"""itertools' product, permutations and combinations: all that they give follows from what is read when one is made."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .base import Value
from .builtin_registry import builtin
from .constants import constant
from .iterator_tools import integer, is_none
from .sequences import TupleValue
from .stepping import PositionIterator

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

#: more results of product() and its kin than this are not listed at capture
MAX_RESULTS = 20_000


class Listed(PositionIterator):
    """product, permutations, combinations: all results follow from what was read when it was made."""

    __slots__ = ("arguments", "cls")

    def __init__(self, cls: Any, pools: list[tuple[Value, ...]], arguments: str, results: Iterable[Any]) -> None:
        super().__init__([TupleValue(result) for result in results])
        self.cls = cls
        self.arguments = (pools, arguments)

    def python_type(self, ctx: Context) -> type:
        return self.cls

    def rebuilt(self, out: ExitWriter) -> str:
        pools, arguments = self.arguments
        inner = ", ".join(out.text(TupleValue(pool)) for pool in pools)
        return f"{out.hold(self.cls)}({inner}{arguments})"


def _pool(ctx: Context, value: Value) -> tuple[Value, ...]:
    return tuple(ctx.real(value).unpack(ctx))


def _listed(ctx: Context, cls: Any, pools: list[tuple[Value, ...]], arguments: str, results: Iterable[Any]) -> Value:
    found = list(itertools.islice(results, MAX_RESULTS + 1))
    if len(found) > MAX_RESULTS:
        ctx.spend(1 << 60)
    ctx.spend(len(found))
    return ctx.born(Listed(cls, pools, arguments, found))


@builtin(itertools.product)
def product(ctx: Context, *iterables: Value, repeat: Value | None = None) -> Value:
    pools = [_pool(ctx, value) for value in iterables]
    times = 1 if repeat is None else integer(ctx, repeat)
    if times < 0:
        ctx.real(repeat or constant(0)).refuse("Python raises or warns here", "product() repeated")
    return _listed(ctx, itertools.product, pools, f", repeat={times}" if pools else f"repeat={times}",
                   itertools.product(*pools, repeat=times))  # fmt: skip


@builtin(itertools.permutations)
def permutations(ctx: Context, iterable: Value, r: Value | None = None) -> Value:
    pool = _pool(ctx, iterable)
    length = len(pool) if is_none(ctx, r) else integer(ctx, r or constant(None))
    if length < 0:
        ctx.real(iterable).refuse("Python raises or warns here", "permutations() of this length")
    return _listed(ctx, itertools.permutations, [pool], f", {length}", itertools.permutations(pool, length))


def _combinations(cls: Any) -> None:
    def handler(ctx: Context, iterable: Value, r: Value) -> Value:
        pool, length = _pool(ctx, iterable), integer(ctx, r)
        if length < 0:
            ctx.real(iterable).refuse("Python raises or warns here", "combinations() of this length")
        return _listed(ctx, cls, [pool], f", {length}", cls(pool, length))

    builtin(cls)(handler)


for _cls in (itertools.combinations, itertools.combinations_with_replacement):
    _combinations(_cls)
