"""Generators, coroutines and asynchronous generators made in a region and handed on: private copies run in them."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import threading
import types
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import tracer
from tests.support import CountingBackend, check, compile_with

X = torch.arange(6.0).reshape(2, 3)


def operators(fn: Callable[..., Any], *arguments: Any, calls: int = 4) -> int:
    """How many operators of all regions ran in the last of some calls."""
    ran: list[int] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Tensor]) -> Callable[..., Any]:
        count = sum(n.op in ("call_function", "call_method") for n in graph.graph.nodes)
        return lambda *inputs: (ran.append(count), graph.forward(*inputs))[1]

    compiled = compile_with(fn, backend=backend)
    for _ in range(calls):
        ran.clear()
        compiled(*arguments)
    return sum(ran)


def stream(x: Tensor, count: int, *more: float, scale: float = 2.0, **named: float) -> Iterator[Tensor]:
    for _ in range(count):
        x = x.sin() * scale
        yield x + (len(more) + len(named))


def test_a_generator_that_a_break_leaves_behind_is_compiled() -> None:
    def fn(x: Tensor) -> list[Tensor]:
        found = []
        for item in stream(x.cos(), 3):
            print("item")
            found.append(item.exp())
        return found

    check(fn, X, calls=5)
    assert operators(fn, X, calls=8) == 1 + 3 * (3 + 1)


@pytest.mark.parametrize("call", [
    lambda x: stream(x, 2),
    lambda x: stream(x, 2, 1.0, 2.0, scale=3.0),
    lambda x: stream(x, count=2, scale=3.0, a=1.0, b=2.0),
    lambda x: stream(*(x, 2, 5.0), **{"b": 2.0}),
    lambda x: (t.cos() + 1 for t in x),
])  # fmt: skip
def test_it_is_made_with_the_arguments_of_the_call(call: Callable[[Tensor], Iterator[Tensor]]) -> None:
    def fn(x: Tensor) -> tuple[str, list[Tensor]]:
        generator = call(x + 1)
        print(type(generator).__name__, generator.__name__)
        return type(generator).__qualname__, list(generator)

    check(fn, X, calls=5)


def test_it_is_handed_out_as_a_generator() -> None:
    def fn(x: Tensor) -> Iterator[Tensor]:
        return stream(x.cos(), 2)

    compiled = compile_with(fn, backend="eager")
    for _ in range(4):
        generator = compiled(X)
        assert isinstance(generator, types.GeneratorType) and generator.__qualname__ == "stream"
        assert torch.equal(next(generator), X.cos().sin() * 2)
        generator.close()
        assert list(generator) == []


def test_the_function_itself_is_left_alone() -> None:
    code = stream.__code__

    def fn(x: Tensor) -> Iterator[Tensor]:
        return stream(x.cos(), 2)

    compiled = compile_with(fn, backend="eager")
    for _ in range(4):
        list(compiled(X))
    assert stream.__code__ is code
    assert stream(X, 1).gi_code is code


async def doubled(x: Tensor) -> Tensor:
    x = x * 2
    await asyncio.sleep(0)
    return x.sin()


def test_a_coroutine_that_is_awaited_is_compiled() -> None:
    async def fn(x: Tensor) -> Tensor:
        x = await doubled(x.cos())
        return x + 1

    def run(x: Tensor) -> Tensor:
        return asyncio.run(compiled(x))

    backend = CountingBackend()
    compiled = compile_with(fn, backend=backend)
    for _ in range(4):
        assert torch.equal(run(X), (X.cos() * 2).sin() + 1)
    assert backend.op_count == 4 and backend.calls > 6


def test_a_coroutine_that_nobody_awaits_is_told_of() -> None:
    def fn(x: Tensor) -> Tensor:
        doubled(x)
        return x + 1

    compiled = compile_with(fn, backend="eager")
    for _ in range(3):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            compiled(X)
            gc.collect()
        assert [str(w.message) for w in told] == ["coroutine 'doubled' was never awaited"]


class Session:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def __aenter__(self) -> Session:
        self.log.append("enter")
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, kind: type | None, *error: object) -> bool:
        await asyncio.sleep(0)
        self.log.append("exit" if kind is None else kind.__name__)
        return True


async def numbered(x: Tensor, count: int) -> AsyncIterator[Tensor]:
    for _ in range(count):
        x = x.sin()
        await asyncio.sleep(0)
        yield x * 3


@pytest.mark.parametrize("fails", [False, True])
def test_async_with_and_async_for(fails: bool) -> None:
    def fn(x: Tensor) -> tuple[Tensor, list[str]]:
        async def main() -> tuple[Tensor, list[str]]:
            log: list[str] = []
            total = x.cos()
            async with Session(log) as session:
                session.log.append("inside")
                async for item in numbered(x, 3):
                    total = total + item
                if fails:
                    raise KeyError(1)
            return total * 2, log

        return asyncio.run(main())

    check(fn, X, calls=4)

    async def direct(x: Tensor, log: list[str]) -> Tensor:
        total = x.cos()
        async with Session(log):
            async for item in numbered(x, 3):
                total = total + item
            if fails:
                raise KeyError(1)
        return total * 2

    backend = CountingBackend()
    compiled, found = compile_with(direct, backend=backend), []
    for _ in range(4):
        log: list[str] = []
        found.append((asyncio.run(compiled(X, log)), log))
        before = backend.calls
    expected = asyncio.run(direct(X, log := []))
    assert all(torch.equal(result, expected) and told == log for result, told in found)
    assert before and {n.target.__name__ for g in backend.graphs for n in g.graph.nodes
                       if n.op == "call_function" and hasattr(n.target, "__name__")} >= {"add", "mul"}  # fmt: skip


def scaled(x: Tensor, y: Tensor, *, factor: float) -> Tensor:
    x = x * factor
    print("scaled")
    return x + y.cos()


halved = functools.partial(scaled, factor=0.5)


def test_the_function_of_a_partial_that_breaks_is_compiled() -> None:
    def fn(x: Tensor) -> tuple[Tensor, Any]:
        made = functools.partial(scaled, x, factor=2.0)
        return halved(x + 1, y=x).sin() + made(x), halved.func

    check(fn, X, calls=6)
    assert operators(fn, X, calls=8) == 3 + 2 * 3
    assert halved.func is scaled


logger = logging.getLogger("tests.handed_on")


def test_a_library_function_breaks_at_its_call_and_has_no_copy() -> None:
    def fn(x: Tensor) -> Tensor:
        x = x + 1
        logger.info("shape %s", tuple(x.shape))
        timer = threading.Timer(0.0, print)
        return x * len(timer.name[:1])

    check(fn, X, calls=4)
    logger.setLevel(logging.INFO)
    try:
        compiled = compile_with(fn, backend="eager")
        for _ in range(4):
            compiled(X)
        report = tracer.explain(compiled)(X)
    finally:
        logger.setLevel(logging.NOTSET)
    assert report.callees == ()
    told = {(b.title, b.details) for b in report.breaks}
    assert ("library function is called", "Logger.info") in told, told
    assert {len(b.stack) for b in report.breaks} == {1}
