"""What a frame that starts was given: tensors, or modules and containers that hold some. No code of the user's runs."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Iterator
from itertools import islice
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from rewriter.decode import arguments

from ..holding import type_mro

#: How deep containers and modules are looked into, and at how many of their items.
_DEPTH, _ITEMS = 4, 32
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_CONTAINERS = (list, tuple, dict, set, frozenset)


class Hands(NamedTuple):
    """tensors: are there any.  module: the first module among the arguments, by which repetitions are told.

    first: the first argument, `self` of a method.
    """

    tensors: bool
    module: torch.nn.Module | None
    first: object


def in_hand(code: CodeType, frame: FrameType, *, keep_snapshot: bool) -> Hands:
    """keep_snapshot: the frame's locals are read from the snapshot that `f_locals` gives, so it must stay whole."""
    given = _arguments(code, frame, keep_snapshot)
    module = next((value for value in given if _is(value, torch.nn.Module)), None)
    return Hands(any(_has_tensor(value, _DEPTH) for value in given), module, given[0] if given else None)


def _arguments(code: CodeType, frame: FrameType, keep_snapshot: bool) -> list[Any]:
    found = frame.f_locals
    given = [found[name] for name in arguments(code) if name in found]
    if type(found) is dict and not keep_snapshot:
        found.clear()  # before 3.13 this snapshot stays with the frame, and would keep the arguments alive
    return given


def _is(value: object, cls: type) -> bool:
    """Like isinstance, which asks metaclasses and `__class__`."""
    return issubclass(type(value), cls)


def _has_tensor(value: object, depth: int) -> bool:
    if _is(value, torch.Tensor):
        # on the meta device nothing is computed: a model is being loaded
        return not (type(value) in _PLAIN and value.is_meta)  # type: ignore[attr-defined]
    if depth:
        return any(_has_tensor(item, depth - 1) for item in islice(_items(value), _ITEMS))
    return False


def _items(value: object) -> Iterator[object]:
    kinds = type_mro(type(value))
    for cls in _CONTAINERS:
        if cls in kinds:  # past what subclasses make of iteration
            yield from _first(dict.values(value) if cls is dict else cls.__iter__(value))  # type: ignore[arg-type]
            return
    if torch.nn.Module in kinds:
        state = object.__getattribute__(value, "__dict__")
        for name in ("_parameters", "_buffers", "_modules"):
            held = state.get(name)
            if issubclass(type(held), dict):
                yield from _first(dict.values(held))
    elif UserDict in kinds:
        data = object.__getattribute__(value, "__dict__").get("data")
        if type(data) is dict:
            yield from _first(data.values())


def _first(items: Iterable[object]) -> list[object]:
    try:
        return list(islice(items, _ITEMS))
    except RuntimeError:  # another thread has changed it meanwhile
        return []
