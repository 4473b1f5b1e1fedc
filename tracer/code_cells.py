"""Where a function keeps its code, for guards that ask at every call whether it is still the same.

Reading `function.__code__` tells every audit hook of the process: 30 ns without one, 400 with one in Python, and a file
lock that Inductor imports installs one. So the field of the function object is read itself, through `ctypes`. Where it
lies is found by looking for it, not known; where that fails, the attribute is read.
"""

from __future__ import annotations

import ctypes
import sys
from types import CodeType, FunctionType
from typing import Any


class CodeCell(ctypes.py_object):
    """`value` is the code that `function`, which it keeps alive, has now."""

    function: FunctionType


class SlowCell:
    """The same by the attribute."""

    __slots__ = ("function",)

    def __init__(self, function: FunctionType) -> None:
        self.function = function

    @property
    def value(self) -> CodeType:
        return self.function.__code__


def code_cell(function: FunctionType) -> CodeCell | SlowCell:
    """To be held only where the function may be held."""
    if OFFSET is None or type(function) is not FunctionType:
        return SlowCell(function)
    cell = CodeCell.from_address(id(function) + OFFSET)
    cell.function = function  # type: ignore[assignment]  # typing takes it for a method
    return cell if cell.value is function.__code__ else SlowCell(function)


def _offset() -> int | None:
    """How many bytes behind the beginning of a function object the pointer to its code lies; None if it isn't clear."""
    if sys.implementation.name != "cpython":
        return None
    step, size = ctypes.sizeof(ctypes.c_void_p), sys.getsizeof(_one)
    places = range(object.__basicsize__, size - step + 1, step)

    def here(function: Any) -> set[int]:
        wanted, start = id(function.__code__), id(function)
        return {at for at in places if ctypes.c_void_p.from_address(start + at).value == wanted}

    found = here(_one) & here(_other)
    if len(found) != 1:
        return None
    [at] = found
    code = _one.__code__
    _one.__code__ = _other.__code__
    moved = here(_one) == {at}
    _one.__code__ = code
    return at if moved and here(_one) == {at} else None


def _one() -> int:
    return 1


def _other() -> int:
    return 2


OFFSET = _offset()
