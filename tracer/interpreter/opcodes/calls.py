"""Calls. What a call means is the callable's business; here its arguments are taken off the stack."""

from __future__ import annotations

from rewriter.decode import Instruction

from ...values.base import Value
from ...values.mappings import string_items
from ..frame import Frame, NullValue, handles


def take_callable(frame: Frame, args: list[Value]) -> tuple[Value, list[Value]]:
    """Below the arguments are a callable and a NULL, in either order, or a callable and its first argument."""
    second, first = frame.pop(), frame.pop()
    if isinstance(first, NullValue):
        return second, args
    if isinstance(second, NullValue):
        return first, args
    return first, [second, *args]


@handles("CALL")
def call(frame: Frame, ins: Instruction) -> None:
    function, args = take_callable(frame, frame.pop_many(ins.arg))
    frame.push(frame.ctx.real(function).call(frame.ctx, args, {}))


@handles("CALL_KW")
def call_kw(frame: Frame, ins: Instruction) -> None:
    names = frame.pop_real().as_python(frame.ctx)
    values = frame.pop_many(ins.arg)
    split = len(values) - len(names)
    function, args = take_callable(frame, values[:split])
    frame.push(frame.ctx.real(function).call(frame.ctx, args, dict(zip(names, values[split:], strict=True))))


@handles("CALL_FUNCTION_EX")
def call_function_ex(frame: Frame, ins: Instruction) -> None:
    ctx = frame.ctx
    kwargs = string_items(ctx, frame.pop_real()) if ins.arg else {}
    args = frame.pop_real().unpack(ctx)
    # The callable has no self slot here: a NULL lies above or below it.
    function, args = take_callable(frame, args)
    frame.push(ctx.real(function).call(ctx, args, kwargs))
