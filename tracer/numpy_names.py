"""What of NumPy capture knows: scalars, and functions that give a scalar for plain numbers. NumPy may be missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

_SCALARS = (
    "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
)
#: of NumPy's functions written in Python or C, those that only compute; every ufunc of its own does
_PURE = (
    "prod sum mean std var median max min amax amin argmax argmin ptp round around clip any all ndim size iscomplex "
    "isreal dot cross interp nan_to_num"
).split()

#: types of immutable scalars
SCALARS: frozenset[type] = frozenset() if numpy is None else frozenset(getattr(numpy, name) for name in _SCALARS)
#: the type of arrays; no object is of this one where NumPy is missing
ARRAY: type = type("NoArray", (), {}) if numpy is None else numpy.ndarray


def pure_functions() -> list[Callable[..., Any]]:
    if numpy is None:
        return []
    ufuncs = [obj for name in dir(numpy) if isinstance(obj := getattr(numpy, name), numpy.ufunc)]
    return [*{id(f): f for f in [*ufuncs, *(getattr(numpy, name) for name in _PURE)]}.values()]


def computed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What such a function gives; what it would warn about raises FloatingPointError."""
    with numpy.errstate(all="raise"):
        return function(*args, **kwargs)


def is_same_scalar(one: Any, other: Any) -> bool:
    """Are they the same number? Of two of one type."""
    return bool(one == other) or bool(one != one and other != other)

