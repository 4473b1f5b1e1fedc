"""Generators. At the root a yield is an exit; one made and consumed in the region is interpreted."""

from __future__ import annotations

from rewriter.decode import Instruction

from ...errors import GraphBreak
from ...values.base import Value
from ...values.generators import AsyncGeneratorValue, CoroutineValue
from ..frame import Frame, handles, refuses


@handles("YIELD_VALUE")
def yield_value(frame: Frame, ins: Instruction) -> Value:
    if frame is frame.ctx.frames[0]:
        raise GraphBreak("yield hands out a value")
    frame.yielded = True
    return frame.pop()


@handles("GET_YIELD_FROM_ITER")
def get_yield_from_iter(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.pop_real().iterate(frame.ctx))


@handles("SEND")
def send(frame: Frame, ins: Instruction) -> None:
    """`yield from`: [iterator, value to send] -> [iterator, item], or at its end [result] at the target."""
    sent = frame.pop_real()
    iterator = frame.ctx.real(frame.stack[-1])
    item, result = frame.ctx.send(iterator, sent)
    if item is not None:
        frame.push(item)
        return
    frame.pop()
    frame.push(result)
    assert ins.target is not None
    frame.ip = ins.target


@handles("GET_AWAITABLE")
def get_awaitable(frame: Frame, ins: Instruction) -> None:
    awaitable = frame.pop_real()
    if not isinstance(awaitable, CoroutineValue):
        raise GraphBreak("coroutine is suspended or called", f"await of {awaitable}")
    frame.push(awaitable)


@handles("GET_AITER")
def get_aiter(frame: Frame, ins: Instruction) -> None:
    iterable = frame.pop_real()
    if not isinstance(iterable, AsyncGeneratorValue):
        raise GraphBreak("coroutine is suspended or called", f"async for over {iterable}")
    frame.push(iterable)


@handles("BEFORE_ASYNC_WITH")
def before_async_with(frame: Frame, ins: Instruction) -> None:
    """`async with`: [manager] -> [its exit function, what entering it gives to be awaited]"""
    manager = frame.pop_real()
    exit_function = manager.getattr(frame.ctx, "__aexit__")
    entering = manager.call_method(frame.ctx, "__aenter__", [], {})
    frame.push(exit_function)
    frame.push(entering)


refuses(
    "coroutine is suspended or called",
    "GET_ANEXT", "END_ASYNC_FOR", "END_SEND", "ASYNC_GEN_WRAP",
)  # fmt: skip
