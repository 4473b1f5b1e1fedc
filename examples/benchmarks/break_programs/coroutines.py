"""Coroutines and asynchronous generators under asyncio: what runs between their awaits is compiled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import torch
from torch import Tensor

from .catalogue import ITEM, length, program, several, two


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run it; `asyncio.run` would ask for the repr of the task, and so of tensors, on some Pythons."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    return finished(function(*arguments))


@program("a coroutine: await asyncio.sleep in a loop", lambda k: (*two(k), length(k)), drive=run, breaks=1,
         iterations=length)
async def awaiting(x: Tensor, weight: Tensor, count: int) -> Tensor:
    for _ in range(count):
        x = torch.tanh(x @ weight)
        await asyncio.sleep(0)
        x = x - x.mean()
        x = x * 1.5
    return x.exp()


async def fetched(x: Tensor) -> Tensor:
    x = x.sin() * 0.5
    await asyncio.sleep(0)
    return x.cos() - x.mean()


@program("a coroutine that awaits one of the user's", several, drive=run, breaks=3, iterations=length)
async def awaiting_callee(batches: list[Tensor], weight: Tensor) -> Tensor:
    total = torch.zeros(64)
    for batch in batches:
        out = torch.relu(batch @ weight)
        out = await fetched(out)
        total = total + out.sum(0).tanh()
    return total.softmax(0)


class Session:
    """An asynchronous manager."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def __aenter__(self) -> Session:
        await asyncio.sleep(0)
        self.log.append("enter")
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.sleep(0)
        self.log.append("exit")


@program("async with", two, drive=run, breaks=3, iterations=3)
async def async_with(x: Tensor, weight: Tensor) -> tuple[Tensor, list[str]]:
    log: list[str] = []
    for i in range(3):
        x = torch.tanh(x @ weight)
        async with Session(log) as session:
            x = x + x.std()
            print(i, len(session.log))
            x = x.sin()
        x = x * 0.9
    return x.exp(), log


async def arriving(x: Tensor, count: int) -> AsyncIterator[Tensor]:
    for i in range(count):
        x = torch.roll(x, 1, 0) * 0.9
        await asyncio.sleep(0)
        yield x.cos() + i % 1


@program("async for over an asynchronous generator", lambda k: (*two(k), length(k)), drive=run, breaks=4,
         iterations=length)
async def async_for(x: Tensor, weight: Tensor, count: int) -> Tensor:
    total = torch.zeros(64, 64)
    async for chunk in arriving(x, count):
        out = torch.tanh(chunk @ weight)
        total = total * 0.5 + out
        print("chunk")
        total = total - total.mean()
    return total.exp()


def collected(function: Callable[..., AsyncIterator[Any]], *arguments: Any) -> Any:
    async def collect() -> list[Any]:
        return [item async for item in function(*arguments)]

    return finished(collect())


@program("an asynchronous generator", lambda k: (*two(k), length(k)), drive=collected, breaks=2, iterations=length)
async def async_generator(x: Tensor, weight: Tensor, count: int) -> AsyncIterator[Tensor]:
    try:
        for _ in range(count):
            x = torch.tanh(x @ weight)
            await asyncio.sleep(0)
            x = x - x.mean()
            yield x.sigmoid()
            x = x * 1.1
    finally:
        print("finished")


@program("async comprehension; a timeout", two, drive=run, breaks=4, iterations=3, itself=(ITEM,))
async def async_comprehension(x: Tensor, weight: Tensor) -> tuple[list[float], Tensor]:
    sizes = [(chunk @ weight).tanh().mean().item() async for chunk in arriving(x, 3)]
    async with asyncio.timeout(10):
        x = torch.relu(x @ weight)
        await asyncio.sleep(0)
        x = x - x.mean()
    return sizes, x.exp()


def serve(function: Callable[..., Any], batches: list[Tensor], weight: Tensor) -> Any:
    """A client for each batch, all at once."""

    async def main() -> list[Any]:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        server = asyncio.create_task(function(queue, weight))
        answers = [asyncio.get_running_loop().create_future() for _ in batches]
        for batch, answer in zip(batches, answers, strict=True):
            await queue.put((batch, answer))
            await asyncio.sleep(0)
        found = list(await asyncio.gather(*answers))
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)
        return found

    return finished(main())


@program("a server: requests from an asyncio queue", several, drive=serve, breaks=2, iterations=length)
async def server(queue: asyncio.Queue[Any], weight: Tensor) -> None:
    served = 0
    while True:
        batch, answer = await queue.get()
        out = torch.tanh(batch @ weight)
        out = out / out.norm()
        served += 1
        answer.set_result(out.exp())
