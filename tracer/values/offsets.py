"""Where in its memory a tensor begins: a fake one does not know it of inputs, and no other guard says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..errors import GraphBreak
from ..sources import Call
from .base import Value
from .constants import ConstantValue, constant
from .symbols import from_symbol
from .tensors import METHOD_MEANINGS, TensorValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


def storage_offset(ctx: Context, tensor: TensorValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The input's own, as an expression, and how far behind it a view of the input begins."""
    if args or kwargs:
        return None
    base = ctx.graph.input_of_same_memory(tensor.graph_tensor)
    if base is None:
        return None
    source = ctx.inputs[id(base)]
    known = ConstantValue(
        ctx.graph.real_of(base).storage_offset(), Call(ctx.hold(torch.Tensor.storage_offset), (source,))
    )
    behind = tensor.fake.storage_offset() - base.fake.storage_offset()
    ctx.note_shapes()
    if type(behind) is int and behind == 0:
        return known
    value = known.binary(ctx, "+", constant(behind) if type(behind) is int else from_symbol(ctx, behind))
    if value is None:
        raise GraphBreak("tensor value is read", f".storage_offset() of {tensor}")
    return value


METHOD_MEANINGS["storage_offset"] = storage_offset
