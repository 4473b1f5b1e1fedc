"""Which special methods of an enumeration's members people wrote: those are read, never called at capture."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Iterable
from typing import Any, Final

from ..guards import type_attribute

#: what a builtin of this name asks of an object besides the special method of its own name
_BESIDES: Final[dict[str, tuple[str, ...]]] = {
    "getattr": (), "len": (), "hash": (), "repr": (), "next": (), "abs": ("__index__",), "str": ("__repr__",),
    "contains": ("__iter__", "__getitem__"), "getitem": ("__index__",), "iter": ("__getitem__",),
}  # fmt: skip
#: what any other function may ask
_CONVERSIONS: Final = tuple(
    f"__{name}__" for name in (
        "index", "int", "float", "complex", "bytes", "str", "repr", "format", "iter", "next", "len", "getitem",
        "contains", "reversed", "round", "trunc", "floor", "ceil", "abs", "hash", "bool", "divmod", "call",
        "lt", "le", "gt", "ge", "eq",
    )
)  # fmt: skip


def is_of_enum_module(raw: Any) -> bool:
    """Was this written by the enum module?"""
    if isinstance(raw, types.DynamicClassAttribute):  # enum.property is one
        raw = raw.fget
    return getattr(raw, "__module__", None) == "enum"


def users_method(cls: type, name: str) -> bool:
    """Did people write this special method of an enumeration?"""
    raw = type_attribute(cls, name)
    return type(raw) is types.FunctionType and not is_of_enum_module(raw)


def asks_users_code(function: Callable[..., Any], args: Iterable[Any]) -> enum.Enum | None:
    """A member among these whose class has code of people's that this function would run."""
    for arg in args:
        if isinstance(arg, enum.Enum):
            if any(users_method(type(arg), name) for name in _asked_by(function)):
                return arg
        elif type(arg) in (tuple, list) and (found := asks_users_code(function, arg)) is not None:
            return found
    return None


def _asked_by(function: Any) -> tuple[str, ...]:
    name = str(getattr(function, "__name__", "")).strip("_")
    if name in _BESIDES:
        return (f"__{name}__", *_BESIDES[name])
    if getattr(function, "__module__", None) == "_operator":
        text = _CONVERSIONS if name == "mod" else ()  # text % member
        return (f"__{name}__", f"__r{name}__", *text)
    return _CONVERSIONS
