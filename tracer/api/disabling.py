"""`disable`: code that is never captured. Capture breaks at its call, by the mark that torch.compiler.disable sets."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from ..originals import plain_copy


class Disabled:
    """What `disable()` without a function gives: a decorator, and a context manager in which nothing is compiled."""

    def __init__(self, reason: str | None, held_off: Callable[[], AbstractContextManager[None]]) -> None:
        self._reason = reason
        self._held_off = held_off
        self._entered: list[AbstractContextManager[None]] = []

    def __call__(self, fn: Any) -> Any:
        return disabled(fn, self._reason)

    def __enter__(self) -> None:
        context = self._held_off()
        context.__enter__()
        self._entered.append(context)

    def __exit__(self, *exception: Any) -> None:
        self._entered.pop().__exit__(*exception)

    # Capture must not look into these: it breaks there.
    __enter__._torchdynamo_disable = True  # type: ignore[attr-defined]
    __exit__._torchdynamo_disable = True  # type: ignore[attr-defined]


def disabled(fn: Any, reason: str | None) -> Any:
    """A wrapper that runs fn plain, also where fn itself is compiled."""
    if isinstance(fn, torch.nn.Module):
        raise TypeError("disable the module's forward instead: model.forward = tracer.disable(model.forward)")
    if isinstance(fn, type):
        raise TypeError(f"disable the methods of {fn.__qualname__} instead of the class")
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(disabled(fn.__func__, reason))
    if not callable(fn):
        raise TypeError(f"disable takes a callable, not {fn!r}")
    target = fn
    if isinstance(fn, types.FunctionType):
        target = plain_copy(fn)
    elif isinstance(fn, types.MethodType) and isinstance(fn.__func__, types.FunctionType):
        target = types.MethodType(plain_copy(fn.__func__), fn.__self__)

    @functools.wraps(fn)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    marked: Any = plain
    marked._torchdynamo_disable = True
    marked._torchdynamo_disable_msg = reason
    marked._torchdynamo_orig_callable = fn
    return plain
