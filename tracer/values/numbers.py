"""Python numbers that change from call to call and only enter the arithmetic of a graph: its inputs, not its constants.

Such a number becomes a tensor without dimensions, made at each call from the number as it then is. That this gives the
same bits is known for the cases below: with a tensor of floats, torch itself makes such a tensor of a number before it
adds, subtracts, multiplies, divides or compares. (It takes reduced-precision floats differently where no operand has a
dimension, and other kernels for powers: there the number stays a constant, which a guard compares.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from ..sources import Call
from .base import Value
from .constants import ConstantValue
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

ARITHMETIC = frozenset(["+", "-", "*", "/", "%", "//"])
COMPARISONS = frozenset(["<", "<=", "==", "!=", ">", ">="])
_EXACT_WITHOUT_DIMENSIONS = frozenset([torch.float32, torch.float64])
_INTEGERS = frozenset([torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])


#: makes the tensor of a number; raises LookupError where no region with such an input fits
Make = Callable[[float, torch.dtype], torch.Tensor]


def number_tensor(number: float, dtype: torch.dtype) -> torch.Tensor:
    """A tensor on the CPU with no dimensions, whatever the default device is. An int too large is a miss."""
    try:
        return torch.scalar_tensor(number, dtype=dtype, device="cpu")
    except (OverflowError, RuntimeError) as error:
        raise LookupError(f"no tensor of {dtype} holds {number}") from error


def bound_tensor(number: float, dtype: torch.dtype) -> torch.Tensor:
    """A bound. Which of 0.0 and -0.0 is the smaller one, torch's kernels don't agree on: that is a miss."""
    if number == 0:
        raise LookupError("zero as a bound")
    return number_tensor(number, dtype)


def as_operand(tensor: TensorValue, ctx: Context, op: str, number: ConstantValue) -> TensorValue | None:
    """The graph's input for a number next to a tensor, None if it is to be a constant of the graph."""
    if op not in ARITHMETIC | COMPARISONS or not is_changing(ctx, number):
        return None
    dtype = _dtype(tensor.fake, type(number.value), op)
    return None if dtype is None else number_input(ctx, number, dtype)


def is_changing(ctx: Context, number: Value) -> bool:
    """Is it a number that is expected to be another one at the next call, and fits a tensor?"""
    if not isinstance(number, ConstantValue) or number.source is None or type(number.value) not in (int, float):
        return False
    if number.symbol is not None:
        return False  # the graph has it anyway
    return ctx.changes(number.source) and (type(number.value) is float or -(2**63) <= number.value < 2**63)


def _dtype(tensor: torch.Tensor, kind: type, op: str) -> torch.dtype | None:
    """The dtype in which the number's tensor has no say in the result's."""
    if tensor.dtype is torch.int64 and kind is int:
        return torch.int64
    if tensor.dtype in _INTEGERS and tensor.dim() and op not in COMPARISONS:
        return torch.int64 if kind is int else torch.get_default_dtype()
    if not tensor.dtype.is_floating_point:
        return None
    if tensor.dim():
        return torch.float64 if kind is float else torch.int64
    return tensor.dtype if tensor.dtype in _EXACT_WITHOUT_DIMENSIONS else None


def number_input(ctx: Context, number: Value, dtype: torch.dtype, make: Make = number_tensor) -> TensorValue | None:
    """The graph's input for a number; None if this one does not change, or does not fit the dtype."""
    if not is_changing(ctx, number):
        return None
    assert isinstance(number, ConstantValue) and number.source is not None
    source = number.source
    try:
        real = make(number.value, dtype)
    except LookupError:
        return None
    made = Call(ctx.hold(make), (source, ctx.hold(dtype, str(dtype).removeprefix("torch."))))
    known = ctx.number_inputs.get(made)
    if known is not None and any(tensor is known.graph_tensor for tensor in ctx.graph.inputs):
        return known
    tensor = ctx.graph.add_input(real, f"number_{source}")
    ctx.inputs[id(tensor)] = made
    value = ctx.number_inputs[made] = TensorValue(tensor)
    return value


TensorValue.number_operand = as_operand  # type: ignore[method-assign,assignment]
