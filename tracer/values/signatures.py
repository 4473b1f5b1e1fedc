"""What `inspect` tells of a Python function: its signature, and whether it makes generators or coroutines.

Worked out at capture, where nothing of the function's own changes it.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Attr
from .base import Value
from .builtin_registry import call_builtin
from .constants import constant
from .functions import BoundMethod, FunctionValue
from .objects import known

if TYPE_CHECKING:
    from ..interpreter.context import Context

#: attributes of a function that change its signature
_CHANGES = ("__signature__", "__wrapped__", "__text_signature__")


@known(inspect.signature)
def signature(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`inspect.signature(function)`, of a function or a method. One object serves all calls: it cannot be changed."""
    if len(args) != 1 or kwargs:
        raise GraphBreak("arguments do not fit the call", "inspect.signature()")
    given = ctx.real(args[0])
    bound = isinstance(given, BoundMethod)
    function = ctx.real(given.function) if isinstance(given, BoundMethod) else given
    real = _pinned(ctx, function)
    found = inspect.signature(real.__get__(real) if bound else real)
    return ctx.wrap(found, ctx.hold(found, "signature"))


def _pinned(ctx: Context, function: Value) -> FunctionType:
    """The real function, with guards on what its signature is made of; what it wraps is asked in its stead."""
    if not isinstance(function, FunctionValue) or function.function is None or function.source is None:
        raise GraphBreak("library function is called", f"inspect.signature() of {function}")
    real, source = function.function, function.source
    ctx.guard(Kind.CODE, source, function.code)
    for name in _CHANGES:
        if name in vars(real):
            if name != "__wrapped__":
                raise GraphBreak("library function is called", f"inspect.signature() of {function}, which has a {name}")
            return _pinned(ctx, ctx.real(function.getattr(ctx, name)))
        ctx.guard(Kind.LACKS_KEY, Attr(source, "__dict__"), name)
    for value in (*function.defaults, *function.kwdefaults.values()):
        ctx.real(value).as_python(ctx)
    return real


#: what says otherwise than the code's flags
_MARKS = ("__partialmethod__", "_is_coroutine_marker", "_is_coroutine_mark")


def _flag(flag: int, name: str) -> Any:
    def meaning(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) != 1 or kwargs:
            raise GraphBreak("arguments do not fit the call", f"inspect.{name}()")
        given = ctx.real(args[0])
        function = ctx.real(given.function) if isinstance(given, BoundMethod) else given
        marks = (call_builtin(ctx, hasattr, [function, constant(mark)]) for mark in _MARKS)
        if not isinstance(function, FunctionValue) or any(mark.truth(ctx) for mark in marks):
            raise GraphBreak("library function is called", f"inspect.{name}() of {given}")
        if function.function is not None:
            ctx.guard(Kind.CODE, function.source, function.code)
        return constant(bool(function.code.co_flags & flag))

    return meaning


for _function, _its_flag in (
    (inspect.isgeneratorfunction, inspect.CO_GENERATOR),
    (inspect.iscoroutinefunction, inspect.CO_COROUTINE),
    (inspect.isasyncgenfunction, inspect.CO_ASYNC_GENERATOR),
):
    known(_function)(_flag(_its_flag, _function.__name__))

__all__ = ["signature"]
