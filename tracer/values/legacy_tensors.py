"""`torch.IntTensor([1, 2])`, `torch.Tensor([0.5])`: constructors of old, where they are given numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from ..errors import GraphBreak
from .base import Value
from .classes import Constructor, constructs
from .constants import ConstantValue, constant
from .sequences import ListValue
from .tensors import call_graph
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

_DTYPES: dict[type, Callable[[], torch.dtype]] = {
    torch.Tensor: torch.get_default_dtype, torch.FloatTensor: lambda: torch.float32,
    torch.DoubleTensor: lambda: torch.float64, torch.IntTensor: lambda: torch.int32,
    torch.LongTensor: lambda: torch.int64,
}  # fmt: skip


def _made_of_numbers(cls: type, dtype_of: Callable[[], torch.dtype]) -> Constructor:
    def make(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        data = ctx.real(args[0]) if len(args) == 1 and not kwargs else None
        if not isinstance(data, (ListValue, TupleValue)) or data.python_type(ctx) not in (list, tuple):
            raise GraphBreak("object is made by C code", f"class {cls.__qualname__}")  # a size: memory as it is found
        dtype = dtype_of()
        kinds = (int, float, bool) if dtype.is_floating_point else (int,)
        items = [ctx.real(item) for item in data.unpack(ctx)]
        numbers = all(isinstance(item, ConstantValue) and type(item.value) in kinds for item in items)
        if not numbers or torch.get_default_device().type != "cpu":
            raise GraphBreak("object is made by C code", f"class {cls.__qualname__}")
        ctx.asked_state = True
        return call_graph(ctx, torch.tensor, [ctx.born(ListValue(items))], {"dtype": constant(dtype)})

    return make


for _cls, _dtype_of in _DTYPES.items():
    constructs(_cls)(_made_of_numbers(_cls, _dtype_of))
