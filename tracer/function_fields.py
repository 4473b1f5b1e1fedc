"""Where a function keeps its code and its defaults, for guards that ask at every call whether they are still the same.

Reading `function.__code__` tells every audit hook of the process: 30 ns without one, 400 with one in Python, and a file
lock that Inductor imports installs one. So the field of the function object is read itself, through `ctypes`. Where it
lies is found by looking for it, not known; where that fails, the attribute is read.
"""

from __future__ import annotations

import ctypes
import sys
from types import FunctionType
from typing import Any, Final


class Field(ctypes.py_object):
    """`value` is what is there now; false, and without a value, where nothing is. Keeps its function alive."""

    function: FunctionType


class SlowField:
    """The same by the attribute; its value is None where nothing is there."""

    __slots__ = ("function", "name")

    def __init__(self, function: FunctionType, name: str) -> None:
        self.function = function
        self.name = name

    @property
    def value(self) -> Any:
        return getattr(self.function, self.name)


def code_field(function: FunctionType) -> Field | SlowField:
    """Its `value` is the function's code. To be held only where the function may be held."""
    return _field(function, "__code__")


def defaults_field(function: FunctionType) -> Field | SlowField:
    """Its `value` is the tuple of the function's defaults. To be held only where the function may be held."""
    return _field(function, "__defaults__")


def _field(function: FunctionType, name: str) -> Field | SlowField:
    offset = OFFSETS[name]
    if offset is None or type(function) is not FunctionType:
        return SlowField(function, name)
    field = Field.from_address(id(function) + offset)
    field.function = function  # type: ignore[assignment]  # typing takes it for a method
    return field if (field.value if field else None) is getattr(function, name) else SlowField(function, name)


def _offset(name: str) -> int | None:
    """How many bytes behind the beginning of a function object the pointer to this lies; None if it isn't clear."""
    if sys.implementation.name != "cpython":
        return None
    step, size = ctypes.sizeof(ctypes.c_void_p), sys.getsizeof(_one)
    places = range(object.__basicsize__, size - step + 1, step)

    def here(function: Any) -> set[int]:
        wanted, start = id(getattr(function, name)), id(function)
        return {at for at in places if ctypes.c_void_p.from_address(start + at).value == wanted}

    found = here(_one) & here(_other)
    if len(found) != 1:
        return None
    [at] = found
    before = getattr(_one, name)
    setattr(_one, name, getattr(_other, name))
    moved = here(_one) == {at}
    setattr(_one, name, before)
    return at if moved and here(_one) == {at} else None


def _one(a: int = 1) -> int:
    return a


def _other(a: int = 2) -> int:
    return a + 1


OFFSETS: Final = {name: _offset(name) for name in ("__code__", "__defaults__")}
