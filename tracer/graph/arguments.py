"""Arguments of a recorded call, in two forms at once: with fakes, to run it, and with nodes, to write it down."""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import EllipsisType, NoneType
from typing import Any

import torch

from ..errors import GraphBreak
from ..numpy_names import SCALARS
from ..torch_symbols import SYMBOLIC
from .bodies import Body, Handle
from .fx_capture import GraphTensor

#: immutable and written as they are
PLAIN = frozenset(
    [
        int, float, bool, complex, str, bytes, NoneType, EllipsisType,
        torch.dtype, torch.device, torch.layout, torch.memory_format,
    ]
)  # fmt: skip
#: Python types that torch takes as dtypes; a graph's code has no name for them
_DTYPES = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}
_BASES: tuple[Any, ...] = (int, float, complex, str)

Pair = tuple[Any, Any]


def convert(value: Any, symbol: Callable[[Any], Any]) -> Pair:
    """(with fakes, with nodes). `symbol` gives a symbolic number's node. GraphBreak for what a graph cannot hold."""
    kind = type(value)
    if kind is GraphTensor:
        return value.fake, value.node
    if kind in PLAIN:
        return value, value
    if kind is Body:
        return value.module, value.node
    if kind is Handle:
        return value.example, value.node
    if kind is tuple or kind is list or kind is torch.Size:
        return _sequence(value, list if kind is list else tuple, symbol)
    if kind is slice:
        parts = [convert(part, symbol) for part in (value.start, value.stop, value.step)]
        return slice(*(part[0] for part in parts)), slice(*(part[1] for part in parts))
    if kind is dict:
        pairs = {key: convert(item, symbol) for key, item in value.items()}
        return {key: pair[0] for key, pair in pairs.items()}, {key: pair[1] for key, pair in pairs.items()}
    if isinstance(value, SYMBOLIC):
        return value, symbol(value)
    return _unusual(value, symbol)


def _sequence(value: Any, make: Callable[[Any], Any], symbol: Callable[[Any], Any]) -> Pair:
    if all(type(item) in PLAIN for item in value):
        items = make(value)
        return items, items
    pairs = [convert(item, symbol) for item in value]
    return make(pair[0] for pair in pairs), make(pair[1] for pair in pairs)


def _unusual(value: Any, symbol: Callable[[Any], Any]) -> Pair:
    if isinstance(value, type) and value in _DTYPES:
        dtype = _DTYPES[value]
        return dtype, dtype
    if isinstance(value, torch.Tensor):
        raise TypeError("a real tensor cannot be an argument of a recorded call: use add_input or get_constant")
    if type(value) in SCALARS:
        return value.item(), value.item()
    if isinstance(value, range):
        return _sequence(value, tuple, symbol)
    # An enum member, a NumPy number, a subclass of str: what torch sees is the plain value.
    for base in _BASES:
        if isinstance(value, base):
            plain = base(value.value if isinstance(value, enum.Enum) else value)
            return plain, plain
    if isinstance(value, tuple):
        return _sequence(value, tuple, symbol)
    raise GraphBreak("argument cannot be in a graph", type(value).__qualname__)
