"""Calls that `explain`, `visualize` and `scan` make: one that only makes a generator or coroutine is run to its end."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from itertools import islice
from typing import Any

import torch

#: A generator may never end: so many of its items are taken, and then it is closed.
ITEMS = 100

_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_AWAITED = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _flags(fn: Any) -> int:
    """Of the code that a call of fn runs; 0 where there is none."""
    if isinstance(fn, torch.nn.Module):
        fn = fn.forward
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not hasattr(fn, "__code__") and not inspect.ismethod(fn):
        fn = getattr(type(fn), "__call__", None)  # noqa: B004 (the function is wanted, not whether there is one)
    code = getattr(getattr(fn, "__func__", fn), "__code__", None)
    return code.co_flags if inspect.iscode(code) else 0


def is_awaited(fn: Any) -> bool:
    """Is it a coroutine or asynchronous generator function?"""
    return bool(_flags(fn) & _AWAITED)


def loop_runs() -> bool:
    """Does an event loop run in this thread, so that nothing can be awaited here but by its own coroutines?"""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def must_not_await(name: str, fn: Any) -> None:
    """Raise where the function `name` of ours would have to run a coroutine within a loop that runs already."""
    if is_awaited(fn) and loop_runs():
        raise RuntimeError(f"an event loop runs here, so that {name} cannot run a coroutine: call it in a thread, "
                           f"await asyncio.to_thread(...)")


def called(target: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, str]:
    """What a call gives, with all that it makes run; and, in words, what was done for that.

    Of a generator, a list of its items; of a coroutine, what it returns.
    """
    made = target(*args, **kwargs)
    if not _flags(target) & _SUSPENDS:
        return made, ""
    if inspect.isgenerator(made):
        return _items(made)
    if inspect.iscoroutine(made) or inspect.isasyncgen(made):
        return asyncio.run(_awaited(made))  # type: ignore[arg-type]
    return made, ""


async def called_in_loop(target: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, str]:
    """The same, within the event loop that runs."""
    return await _awaited(target(*args, **kwargs))


def _items(generator: Generator[Any, Any, Any]) -> tuple[list[Any], str]:
    items = list(islice(generator, ITEMS))
    if len(items) < ITEMS:
        return items, _ended(items)
    generator.close()
    return items, _closed()


async def _awaited(made: Coroutine[Any, Any, Any] | AsyncGenerator[Any, None]) -> tuple[Any, str]:
    if inspect.iscoroutine(made):
        return await made, "a coroutine, which was run to its end"
    assert inspect.isasyncgen(made)
    items: list[Any] = []
    async for item in made:
        items.append(item)
        if len(items) == ITEMS:
            await made.aclose()
            return items, _closed()
    return items, _ended(items)


def _ended(items: list[Any]) -> str:
    return f"a generator, which was run to its end: {len(items)} {'item' if len(items) == 1 else 'items'}"


def _closed() -> str:
    return f"a generator: {ITEMS} items of it were taken, and it was closed"
