"""Jumps, loops, returns."""

from __future__ import annotations

from rewriter.decode import Instruction

from ...values.base import Value
from ...values.constants import ConstantValue
from ..frame import Frame, handles


def jump(frame: Frame, ins: Instruction) -> None:
    assert ins.target is not None
    frame.ip = ins.target


handles("JUMP")(jump)


@handles("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def pop_jump_if(frame: Frame, ins: Instruction) -> None:
    if frame.pop_real().truth(frame.ctx) == (ins.opname == "POP_JUMP_IF_TRUE"):
        jump(frame, ins)


@handles("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
def pop_jump_if_none(frame: Frame, ins: Instruction) -> None:
    value = frame.pop_real()
    is_none = isinstance(value, ConstantValue) and value.value is None
    if is_none == (ins.opname == "POP_JUMP_IF_NONE"):
        jump(frame, ins)


@handles("GET_ITER")
def get_iter(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.pop_real().iterate(frame.ctx))


@handles("FOR_ITER")
def for_iter(frame: Frame, ins: Instruction) -> None:
    item = frame.ctx.real(frame.stack[-1]).next(frame.ctx)
    if item is None:
        frame.pop()
        jump(frame, ins)
    else:
        frame.push(item)


@handles("RETURN_VALUE")
def return_value(frame: Frame, ins: Instruction) -> Value:
    return frame.pop()


@handles("GET_LEN")
def get_len(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.ctx.real(frame.stack[-1]).length(frame.ctx))
