"""Attributes."""

from __future__ import annotations

from rewriter.decode import Instruction

from ...values.super import super_attr
from ..frame import Frame, handles


@handles("LOAD_ATTR")
def load_attr(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.pop_real().getattr(frame.ctx, ins.arg))


@handles("STORE_ATTR")
def store_attr(frame: Frame, ins: Instruction) -> None:
    owner, value = frame.pop_real(), frame.pop()
    frame.ctx.stores(ins.arg, value)
    owner.setattr(frame.ctx, ins.arg, value)


@handles("DELETE_ATTR")
def delete_attr(frame: Frame, ins: Instruction) -> None:
    frame.pop_real().delattr(frame.ctx, ins.arg)


@handles("LOAD_SUPER_ATTR")
def load_super_attr(frame: Frame, ins: Instruction) -> None:
    instance, cls, super_function = frame.pop(), frame.pop(), frame.pop_real()
    name, two_arguments = ins.arg
    del two_arguments  # with none, the compiler put `__class__` and the first argument there
    frame.push(super_attr(frame.ctx, super_function, cls, instance, name))
