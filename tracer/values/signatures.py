"""`inspect.signature` of a Python function: worked out at capture, where nothing of the function's own changes it."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING

from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Attr
from .base import Value
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


__all__ = ["signature"]
