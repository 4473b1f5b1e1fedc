"""What `set_stance` gives: a change of the stance, in force at once, that can be undone and made again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ..config import Stance
from ..torch_dynamo import DISABLED


class StanceChange:
    """As a context manager it is undone at the end; as a decorator it is in force during each call of the function.

    change: puts a stance in force, and gives the one before.
    """

    def __init__(self, stance: Stance, change: Callable[[Stance], Stance]) -> None:
        self._stance = stance
        self._change = change
        self._before = change(stance)

    def __enter__(self) -> None:
        self._change(self._stance)

    def __exit__(self, *exception: Any) -> None:
        self._change(self._before)

    def __call__(self, fn: Any) -> Any:
        self._change(self._before)
        if not callable(fn) or isinstance(fn, type):
            raise TypeError(f"set_stance decorates functions, not {fn!r}")
        if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
            raise TypeError("set_stance holds for all threads and tasks: use it around what runs the coroutine")
        stance, change = self._stance, self._change
        if inspect.isgeneratorfunction(fn):
            wrapper = _around_each_step(fn, stance, change)
        else:

            @functools.wraps(fn)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with StanceChange(stance, change):
                    return fn(*args, **kwargs)

        setattr(wrapper, DISABLED, True)
        return wrapper


def _around_each_step(fn: Any, stance: Stance, change: Callable[[Stance], Stance]) -> Any:
    """A generator function in whose steps a stance is in force, and not between them."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with StanceChange(stance, change):
            generator = fn(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with StanceChange(stance, change):
                    value = step()
            except StopIteration as end:
                return end.value
            try:
                sent = yield value
                step = functools.partial(generator.send, sent)
            except GeneratorExit:
                with StanceChange(stance, change):
                    generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)

    return wrapper


for _function in (StanceChange.__enter__, StanceChange.__exit__, StanceChange.__call__):
    setattr(_function, DISABLED, True)
