"""Plain values in guards: when two are the same, a key for them, and a short text; none of it runs user code."""

from __future__ import annotations

import enum
import math
import types
from collections.abc import Hashable, Sequence
from typing import Any

import torch

from .errors import InternalError
from .holding import Parts, Weak, held, is_a, type_qualname
from .native import TensorFacts
from .sources import Source


def describe(value: object) -> str:
    """A short text for a value in messages; runs no user code."""
    if value is None or type(value) in (int, float, complex, bool, str, bytes):
        return _described(value)
    if is_a(value, Source):
        return str(value)
    if is_a(value, type):
        return type_qualname(value)
    if is_a(value, Weak) or is_a(value, Parts):
        return value.name
    if is_a(value, TensorFacts):
        return str(value)
    if is_a(value, torch.Tensor):
        return f"{type(value).__name__} {value.dtype} {tuple(value.shape)} on {value.device}"
    if type(value) in (types.FunctionType, types.BuiltinFunctionType):
        return f"function {value.__qualname__}"  # type: ignore[attr-defined]
    if type(value) is types.CodeType:
        return f"code of {value.co_qualname}"
    if type(value) is types.ModuleType:
        return f"module {value.__name__}"
    if type(value) in (tuple, frozenset, list):
        inner = ", ".join(describe(item) for item in list(value)[:8])  # type: ignore[call-overload]
        return f"{type(value).__name__} of {inner}" if inner else f"empty {type(value).__name__}"
    if type(value) in (torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, range):
        return repr(value)
    return f"{type(value).__qualname__} object"


def _described(value: Any) -> str:
    """Of what is long only the beginning is written: a string may have millions of characters."""
    if type(value) is int and value.bit_length() > 4096:  # Python refuses to write the digits of very long ones
        return f"int of {value.bit_length()} bits"
    text = repr(value[:60] if type(value) in (str, bytes) else value)
    longer = len(text) > 60 or (type(value) in (str, bytes) and len(value) > 60)
    return text[:57] + "..." if longer else text


_BY_VALUE = frozenset({
    int, bool, str, bytes, types.NoneType, types.EllipsisType, types.NotImplementedType,
    torch.dtype, torch.device, torch.layout, torch.memory_format,
})  # fmt: skip


def value_key(value: object) -> Hashable:
    """Equal for two values exactly where EQUALS takes them for the same; an InternalError for what has no value."""
    kind = type(value)
    if kind in _BY_VALUE:
        return kind, value
    if kind is float:
        return kind, float_key(value)  # type: ignore[arg-type]
    if kind is complex:
        return kind, float_key(value.real), float_key(value.imag)  # type: ignore[attr-defined]
    if kind is range or kind is slice:
        return kind, tuple(value_key(part) for part in (value.start, value.stop, value.step))  # type: ignore[attr-defined]
    if kind is tuple or kind is torch.Size:
        return kind, tuple(value_key(item) for item in value)  # type: ignore[attr-defined]
    if kind is frozenset:
        return kind, frozenset(value_key(item) for item in value)  # type: ignore[attr-defined]
    if is_a(value, enum.Enum):
        return kind, id(value)
    raise InternalError(f"no EQUALS guard for a {kind.__qualname__}")


def float_key(value: float) -> str:
    """Tells 0.0 from -0.0 and takes every nan for the same."""
    return "nan" if math.isnan(value) else value.hex()


def has_value(value: object) -> bool:
    """Can an EQUALS guard hold for this value?"""
    try:
        value_key(value)
    except InternalError:
        return False
    return True


def same_value(value: object, expected: object) -> bool:
    """Exact type and equal value, inside of containers too; False for a value that has no key."""
    if type(value) is not type(expected):
        return False
    try:
        return value_key(value) == value_key(expected)
    except InternalError:
        return False


def same_keys(seen: Any, expected: Sequence[object]) -> bool:
    """Are these the keys of an exact dict, in this order? By identity for those that are no plain values."""
    if len(seen) != len(expected):
        return False
    for key, wanted in zip(seen, expected, strict=True):
        if type(key) is str and type(wanted) is str:
            if key != wanted:
                return False
        elif not _same_key(key, wanted):
            return False
    return True


def same_elements(seen: Any, expected: frozenset[object]) -> bool:
    """Are these the elements of an exact set?"""
    return len(seen) == len(expected) and {key_of(e) for e in seen} == {key_of(held(e)) for e in expected}


def _same_key(key: object, expected: object) -> bool:
    wanted = held(expected)
    return (key is wanted and key is not None) or same_value(key, wanted)


def key_of(key: object) -> Hashable:
    """A key for any object: by value where it has one, else by identity."""
    return value_key(key) if has_value(key) else id(key)
