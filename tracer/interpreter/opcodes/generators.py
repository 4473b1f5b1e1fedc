"""Generators. At the root a yield is an exit; one made and consumed in the region is interpreted."""

from __future__ import annotations

from rewriter.decode import Instruction

from ...errors import GraphBreak
from ...values.base import Value
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


refuses(
    "coroutine is suspended or called",
    "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "END_SEND", "ASYNC_GEN_WRAP",
)  # fmt: skip
