"""What the managers of `contextlib` ask for: methods made by hand, and the exception that is being handled."""

from __future__ import annotations

import sys
from types import MethodType
from typing import TYPE_CHECKING

from ..errors import GraphBreak
from ..sources import Call, Item
from .base import Value
from .builtin_registry import builtin
from .classes import constructs
from .constants import constant
from .functions import BoundMethod, FunctionValue
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


class CurrentException(Value):
    """`sys.exception()`, or a part of `sys.exc_info()`, where no handler of the region's own has begun.

    It may come from a caller of the function, is handed on, and never looked at.
    """

    __slots__ = ()

    kind = "exception being handled"


@builtin(sys.exception)
def exception(ctx: Context) -> Value:
    found = _handled_in_region(ctx)
    return CurrentException(Call(ctx.hold(sys.exception), ())) if found is None else found


@builtin(sys.exc_info)
def exc_info(ctx: Context) -> Value:
    if _handled_in_region(ctx) is not None:
        raise GraphBreak("value is known at run time only", "the traceback that sys.exc_info() gives")
    current = Call(ctx.hold(sys.exc_info), ())
    return TupleValue([CurrentException(Item(current, i)) for i in range(3)])


def _handled_in_region(ctx: Context) -> Value | None:
    for frame in reversed(ctx.frames):
        if frame.exception is not None:
            return frame.exception
    if ctx.entered_handlers():
        raise GraphBreak("value is known at run time only", "the exception of a handler that began earlier")
    return None


@constructs(MethodType)
def make_method(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`types.MethodType(function, receiver)`"""
    function = ctx.real(args[0]) if args else constant(None)
    if kwargs or len(args) != 2 or not isinstance(function, FunctionValue):
        function.refuse("object is made by C code", "types.MethodType()")
    return BoundMethod(function, args[1])
