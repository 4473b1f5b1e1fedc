"""Arithmetic, comparisons, truth, subscripts."""

from __future__ import annotations

from rewriter.decode import Instruction

from ...values import operations
from ...values.constants import ConstantValue, constant
from ...values.tensors import TensorValue
from ..frame import Frame, handles
from ..raising import expected_truth


@handles("BINARY_OP")
def binary_op(frame: Frame, ins: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(operations.binary(frame.ctx, ins.arg, left, right))


@handles("COMPARE_OP")
def compare_op(frame: Frame, ins: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(operations.compare(frame.ctx, ins.arg, left, right))


@handles("IS_OP")
def is_op(frame: Frame, ins: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(constant(operations.is_same(frame.ctx, left, right) != bool(ins.arg)))


@handles("CONTAINS_OP")
def contains_op(frame: Frame, ins: Instruction) -> None:
    container, item = frame.pop(), frame.pop()
    found = operations.contains(frame.ctx, container, item)
    frame.push(operations.negated(frame.ctx, found) if ins.arg else found)


@handles("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE")
def unary(frame: Frame, ins: Instruction) -> None:
    sign = {"UNARY_NEGATIVE": "-", "UNARY_INVERT": "~", "UNARY_POSITIVE": "+"}[ins.opname]
    frame.push(frame.pop_real().unary(frame.ctx, sign))


@handles("TO_BOOL")
def to_bool(frame: Frame, ins: Instruction) -> None:
    value = frame.pop_real()
    is_bool = isinstance(value, ConstantValue) and type(value.value) is bool
    if isinstance(value, TensorValue) and (expected := expected_truth(frame, value)) is not None:
        value, is_bool = constant(expected), True
    frame.push(value if is_bool else constant(value.truth(frame.ctx)))


@handles("UNARY_NOT")
def unary_not(frame: Frame, ins: Instruction) -> None:
    frame.push(operations.negated(frame.ctx, frame.pop()))


@handles("BINARY_SUBSCR")
def binary_subscr(frame: Frame, ins: Instruction) -> None:
    key, container = frame.pop(), frame.pop_real()
    frame.push(container.getitem(frame.ctx, key))


@handles("STORE_SUBSCR")
def store_subscr(frame: Frame, ins: Instruction) -> None:
    key, container, value = frame.pop(), frame.pop_real(), frame.pop()
    if isinstance(key, ConstantValue):
        frame.ctx.stores(key.value, value)
    container.setitem(frame.ctx, key, value)


@handles("DELETE_SUBSCR")
def delete_subscr(frame: Frame, ins: Instruction) -> None:
    key, container = frame.pop(), frame.pop_real()
    container.delitem(frame.ctx, key)
