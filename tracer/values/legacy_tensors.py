"""torch's oldest ways to make a tensor: `torch.Tensor(2, 3)`, `torch.LongTensor([1, 2])`, `x.new(x.shape)`.

They tell a size from data by its type alone, which no graph keeps: `x.new(x.shape)` is as large as x, and
`x.new((2, 3))` holds these two numbers. So the graph gets the function that says which of the two is meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from .base import Value
from .classes import ClassValue, constructs
from .constants import ConstantValue, constant
from .sequences import ListValue
from .tensors import WITH_NUMBERS, call_graph
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

_CLASSES = [
    torch.Tensor, torch.FloatTensor, torch.DoubleTensor, torch.HalfTensor, torch.BFloat16Tensor, torch.ByteTensor,
    torch.CharTensor, torch.ShortTensor, torch.IntTensor, torch.LongTensor, torch.BoolTensor,
]  # fmt: skip


def _is_size(value: Value) -> bool:
    return isinstance(value, TupleValue) and value.cls is torch.Size


def new_of_size(ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], method: bool) -> Value | None:
    """`tensor.new(size)`; None for all else that it takes, which it tells apart in a graph too."""
    if len(args) != 2 or kwargs or not _is_size(ctx.real(args[1])):
        return None
    return call_graph(ctx, "new_empty", args, {}, method=True)


def as_type(ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], method: bool) -> Value | None:
    """`tensor.type(torch.LongTensor)`: the class is known by its name too, which a graph can hold."""
    if len(args) != 2 or not isinstance(cls := ctx.real(args[1]), ClassValue) or cls.cls not in _CLASSES[1:]:
        return None
    return call_graph(ctx, target, [args[0], constant(f"torch.{cls.cls.__name__}")], kwargs, method=method)


def _constructor(cls: Any) -> Callable[[Context, list[Value], dict[str, Value]], Value]:
    name = cls.__name__

    def make(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = [ctx.real(value) for value in args]
        if kwargs or torch.get_default_device().type != "cpu":
            raise GraphBreak("arguments do not fit the call", f"torch.{name}(), to which a device is given")
        ctx.asked_state = True  # the default device and dtype
        options: dict[str, Value] = {"dtype": constant(torch.get_default_dtype() if cls is torch.Tensor else cls.dtype)}
        if len(given) == 1 and _is_size(given[0]):
            return call_graph(ctx, torch.empty, given, options)
        if len(given) == 1 and isinstance(given[0], ListValue | TupleValue):
            _refuse_others(ctx, given[0], name)
            return call_graph(ctx, torch.tensor, given, options)
        if not all(isinstance(value, ConstantValue) and type(value.value) is int for value in given):
            raise GraphBreak("argument cannot be in a graph", f"what torch.{name}() is given")
        return call_graph(ctx, torch.empty, [TupleValue(given or [constant(0)])], options)

    return make


def _refuse_others(ctx: Context, data: Value, name: str) -> None:
    """Raise GraphBreak for data that is not just numbers."""
    for item in map(ctx.real, data.unpack(ctx)):
        if isinstance(item, ListValue | TupleValue):
            _refuse_others(ctx, item, name)
        elif not isinstance(item, ConstantValue) or type(item.value) not in (int, float, bool):
            raise GraphBreak("argument cannot be in a graph", f"what torch.{name}() is given")


for _cls in _CLASSES:
    constructs(_cls)(_constructor(_cls))
for _target in ("new", torch.Tensor.new):
    WITH_NUMBERS[_target] = new_of_size
for _target in ("type", torch.Tensor.type):
    WITH_NUMBERS[_target] = as_type

__all__ = ["as_type", "new_of_size"]
