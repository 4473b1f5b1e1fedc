"""Exceptions that the program's code raised in the midst of our work: the program's, wherever they come up."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from types import CodeType
from typing import Any


def raised_by_signal(error: BaseException) -> bool:
    """Did the handler of a signal raise it (the usual time limit by SIGALRM)? What it interrupted is not to blame."""
    traceback = error.__traceback__
    if traceback is None or traceback.tb_next is None:
        return False  # raised where it is caught: a guard that finds something gone, which is usual
    return raised_within(error, map(signal.getsignal, signal.valid_signals()))


def raised_within(error: BaseException, functions: Iterable[Any]) -> bool:
    """Did one of these functions raise it, or what it called? One that is not written in Python cannot be told."""
    codes = [code for function in functions if (code := _code(function)) is not None]
    traceback = error.__traceback__
    while traceback is not None:
        if any(traceback.tb_frame.f_code is code for code in codes):
            return True
        traceback = traceback.tb_next
    return False


def _code(handler: Any) -> CodeType | None:
    """Of a handler written in Python: a function, a method, an object with `__call__`."""
    for function in (handler, getattr(handler, "__func__", None), getattr(type(handler), "__call__", None)):  # noqa: B004
        if isinstance(code := getattr(function, "__code__", None), CodeType):
            return code
    return None
