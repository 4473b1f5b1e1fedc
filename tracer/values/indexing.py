"""Tensors indexed by integers that are symbols: Python's own indexing would make numbers of them.

`x[i]` is `x.select(0, i)`, the same view; `x[:, i, 1:]` is `x[:, :, 1:].select(1, i)`.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from .base import Value
from .constants import ConstantValue, constant
from .sequences import SliceValue
from .symbols import is_integer
from .tensors import WITH_NUMBERS, TensorValue, call_graph
from .tuples import TupleValue
from .unbacked import UnbackedValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


def _is_symbolic(ctx: Context, value: Value) -> bool:
    """Will the graph have a symbol for this index?"""
    if isinstance(value, UnbackedValue):
        return value.python_type(ctx) is int
    if not isinstance(value, ConstantValue) or type(value.value) is not int:
        return False
    return value.symbol is not None or (value.source is not None and ctx.changes(value.source))


def _selected(ctx: Context, tensor: Value, key: Value) -> Value | None:
    """The view that an index gives which is made of integers and slices, some integers being symbols; else None."""
    parts = [ctx.real(part) for part in key.unpack(ctx)] if type(key) is TupleValue else [key]
    symbolic = [at for at, part in enumerate(parts) if _is_symbolic(ctx, part)]
    if not symbolic or not isinstance(tensor, TensorValue) or not all(map(_is_basic, parts)):
        return None
    left_out = tensor.fake.dim() - sum(isinstance(part, SliceValue) or is_integer(part) for part in parts)
    if left_out < 0:
        return None
    whole = SliceValue([constant(None)] * 3)
    others = [whole if at in symbolic else part for at, part in enumerate(parts)]
    view: Value = tensor
    if any(part is not whole for part in others):
        view = call_graph(ctx, operator.getitem, [tensor, TupleValue(others)], {})
    for at in reversed(symbolic):  # an integer takes its dimension away, a slice leaves it
        dim = sum(left_out if _is_ellipsis(part) else not is_integer(part) for part in others[:at])
        view = call_graph(ctx, torch.select, [view, constant(dim), parts[at]], {})
    return view


def _is_ellipsis(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is ...


def _is_basic(value: Value) -> bool:
    """An integer, a slice, None or `...`: what gives a view."""
    if isinstance(value, SliceValue) or is_integer(value) or _is_ellipsis(value):
        return True
    return isinstance(value, ConstantValue) and value.value is None


def _getitem(ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], method: bool) -> Value | None:
    tensor, key = map(ctx.real, args)
    return _selected(ctx, tensor, key)


def _setitem(ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], method: bool) -> Value | None:
    tensor, key, value = map(ctx.real, args)
    view = _selected(ctx, tensor, key)
    return None if view is None else call_graph(ctx, operator.setitem, [view, constant(...), value], {})


WITH_NUMBERS[operator.getitem] = _getitem
WITH_NUMBERS[operator.setitem] = _setitem
