"""Indexing a tensor by integers that are symbols.

`[]` asks an integer for its value, which would make a number of the symbol. Such an index is a selection of its own.
"""

from __future__ import annotations

import operator
from types import EllipsisType, NoneType
from typing import Any

import torch

from ..graph.builder import GraphBuilder, GraphTensor

_BASIC = (int, slice, NoneType, EllipsisType, torch.SymInt)


def selects(tensor: GraphTensor, index: Any) -> bool:
    """Are there symbols among integers, slices, None and ...?"""
    items = index if type(index) is tuple else (index,)
    if not any(isinstance(item, torch.SymInt) for item in items) or any(type(item) not in _BASIC for item in items):
        return False
    return len(items) - sum(item is None or item is ... for item in items) <= tensor.fake.dim()


def select(graph: GraphBuilder, tensor: GraphTensor, index: Any) -> Any:
    """`tensor[index]`, in which whole slices stand for the symbols at first."""
    items = index if type(index) is tuple else (index,)
    left_out = tensor.fake.dim() - len(items) + sum(item is None or item is ... for item in items)
    at, chosen = 0, []
    for item in items:
        if isinstance(item, torch.SymInt):
            chosen.append((at, item))
        at += left_out if item is ... else type(item) is not int
    rest = tuple(slice(None) if isinstance(item, torch.SymInt) else item for item in items)
    result = tensor if all(item == slice(None) for item in rest) else graph.call(operator.getitem, (tensor, rest))
    for dim, symbol in reversed(chosen):
        result = graph.call(torch.select, (result, dim, symbol))
    return result
