"""What the managers of `contextlib` ask for: methods made by hand, and the exception that is being handled."""

from __future__ import annotations

import sys
from types import MethodType
from typing import TYPE_CHECKING

from ..errors import GraphBreak
from ..sources import Call
from .base import Value
from .builtin_registry import builtin
from .classes import constructs
from .constants import constant
from .functions import BoundMethod, FunctionValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


class CurrentException(Value):
    """`sys.exception()` where no handler of the region's own has begun: handed on, never looked at."""

    __slots__ = ()

    kind = "exception being handled"


@builtin(sys.exception)
def exception(ctx: Context) -> Value:
    for frame in reversed(ctx.frames):
        if frame.exception is not None:
            return frame.exception
    if ctx.entered_handlers():
        raise GraphBreak("value is known at run time only", "sys.exception() in a handler that began earlier")
    return CurrentException(Call(ctx.hold(sys.exception), ()))


@constructs(MethodType)
def make_method(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`types.MethodType(function, receiver)`"""
    function = ctx.real(args[0]) if args else constant(None)
    if kwargs or len(args) != 2 or not isinstance(function, FunctionValue):
        function.refuse("object is made by C code", "types.MethodType()")
    return BoundMethod(function, args[1])
