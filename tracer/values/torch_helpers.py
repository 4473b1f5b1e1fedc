"""Functions of torch that are no operators, but arrange tensors by their metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..torch_private import GROUP_TENSORS, is_all_true
from .base import Value
from .constants import ConstantValue, constant
from .mappings import new_dict
from .objects import known, known_once_loaded
from .sequences import ListValue
from .tensors import TensorValue, call_graph
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


@known(*GROUP_TENSORS)
def group_tensors(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`{(device, dtype): (lists, indices)}`. In which order several groups come is known to C++ alone."""
    if kwargs or len(args) != 2:
        raise GraphBreak("arguments do not fit the call", "_group_tensors_by_device_and_dtype()")
    lists = [ctx.real(value).unpack(ctx) for value in ctx.real(args[0]).unpack(ctx)]
    firsts = [ctx.real(value) for value in lists[0]] if lists else []
    kinds: dict[Any, None] = {}
    for value in firsts:
        if not isinstance(value, TensorValue):
            raise GraphBreak("argument cannot be in a graph", f"{value}, to be grouped with tensors")
        kinds[value.fake.device, value.fake.dtype] = None
    for value in (ctx.real(value) for several in lists[1:] for value in several):
        known_kind = isinstance(value, TensorValue) and (value.fake.device, value.fake.dtype) in kinds
        none = isinstance(value, ConstantValue) and value.value is None
        if not known_kind and not none:
            raise GraphBreak("argument cannot be in a graph", f"{value}, to be grouped with other tensors")
    if len(kinds) != 1:
        raise GraphBreak("order of a set is unknown", f"groups of tensors by {len(kinds)} devices and dtypes")
    ((device, dtype),) = kinds
    indices = range(len(firsts)) if ctx.real(args[1]).truth(ctx) else ()
    group = ctx.born(ListValue([ctx.born(ListValue(several)) for several in lists]))
    both = TupleValue([group, ctx.born(ListValue([constant(i) for i in indices]))])
    return ctx.born(new_dict(ctx, [(TupleValue([constant(device), constant(dtype)]), both)]))


@known_once_loaded("torch.distributions.distribution", "_all_true_or_runtime_assert")
def all_true(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Torch 2.15: what a distribution's validation asks, only to raise if it is not so.

    It gives a bool; here the tensor that it asks, so that the branch, which comes next, is one that only raises.
    """
    if kwargs or len(args) != 2:
        raise GraphBreak("arguments do not fit the call", "_all_true_or_runtime_assert()")
    return call_graph(ctx, is_all_true, args[:1], {})
