"""`requires_grad_` and `requires_grad = ...` where the tensor is so already: nothing happens.

A hook that makes the inputs of checkpoints differentiable asks for it at each call, and so does much code that was
written for leaves. Where it would change something is a break: a new leaf exists outside of the graph alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import Value
from .constants import ConstantValue, constant
from .tensors import METHOD_MEANINGS, TensorValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


def require_grad(ctx: Context, tensor: TensorValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    given = [*args, *([kwargs["requires_grad"]] if kwargs.keys() == {"requires_grad"} else [])] or [constant(True)]
    wanted = ctx.real(given[0])
    if len(given) != 1 or len(args) + len(kwargs) > 1 or not isinstance(wanted, ConstantValue):
        return None
    return tensor if type(wanted.value) is bool and wanted.value is tensor.fake.requires_grad else None


METHOD_MEANINGS["requires_grad_"] = require_grad
