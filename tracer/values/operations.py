"""The operators between two values, as Python defines them: who is asked first, what NotImplemented means."""

from __future__ import annotations

import enum
import operator
from types import EllipsisType, NoneType
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import GraphBreak
from ..guards import Kind
from ..holding import is_made_by_python, type_dict, type_mro
from ..sources import Held
from .base import Value
from .constants import BINARY, ConstantValue, constant, plain
from .tensors import METHOD_MEANINGS, TensorValue, call_graph

if TYPE_CHECKING:
    from ..interpreter.context import Context

OPERATOR_NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def binary(ctx: Context, op: str, left: Value, right: Value) -> Value:
    """`left op right`; an in-place operator ends with "="."""
    left, right = ctx.real(left), ctx.real(right)
    inplace = op.endswith("=")
    plain = op[:-1] if inplace else op
    if isinstance(right, TensorValue) and isinstance(left, ConstantValue):
        if not isinstance(left.value, (int, float, complex)):
            raise GraphBreak("operator is not supported for these types", f"{left} {op} {right}")
        result = right.reflected(ctx, plain, left)
    elif right.is_graph_number and isinstance(left, ConstantValue):
        result = right.reflected(ctx, plain, left)
    else:
        result = _asked_in_order(ctx, plain, left, right, inplace)
    if result is not None:
        return result
    _raise_unsupported(ctx, op, left, right)


def _asked_in_order(ctx: Context, op: str, left: Value, right: Value, inplace: bool) -> Value | None:
    left_type, right_type = left.python_type(ctx), right.python_type(ctx)
    right_first = not inplace and _overrides(left_type, right_type, op)
    if right_first and (result := right.reflected(ctx, op, left)) is not None:
        return result
    result = left.binary(ctx, op, right, inplace=inplace)
    if result is None and not right_first and left_type is not right_type:
        result = right.reflected(ctx, op, left)
    return result


def _overrides(left_type: type, right_type: type, op: str) -> bool:
    """Is the right one's class a subclass that has a reflected method of its own? It is asked first then."""
    if right_type is left_type or left_type not in type_mro(right_type):
        return False
    name = f"__r{OPERATOR_NAMES[op]}__"
    return _found(right_type, name) is not _found(left_type, name)


def _found(cls: type, name: str) -> Any:
    return next((type_dict(base)[name] for base in type_mro(cls) if name in type_dict(base)), None)


#: an object of each builtin type that knows operators, to learn from CPython what it says of types that do not fit
_EXEMPLARS: dict[type, Any] = {
    list: [], tuple: (), dict: {}, set: set(), frozenset: frozenset(), str: "", bytes: b"", int: 1, float: 1.0,
    complex: 1j, bool: True, NoneType: None, EllipsisType: ..., range: range(0), slice: slice(0),
}  # fmt: skip
_REAL: dict[str, Any] = {
    **BINARY, "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul,
    "<<=": operator.ilshift, ">>=": operator.irshift, "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor,
}  # fmt: skip


def _raise_unsupported(ctx: Context, op: str, left: Value, right: Value) -> NoReturn:
    """Both said NotImplemented: the TypeError that CPython raises for objects of these types."""
    objects = []
    for value in (left, right):
        cls = value.python_type(ctx)
        if cls not in _EXEMPLARS and (isinstance(value, TensorValue) or not is_made_by_python(cls)):
            raise GraphBreak("operator is not supported for these types", f"{left} {op} {right}")
        objects.append(_EXEMPLARS[cls] if cls in _EXEMPLARS else type(cls.__name__, (), {})())
    try:
        _REAL[op](*objects)
    except TypeError as error:
        ctx.raise_(error)
    raise GraphBreak("operator is not supported for these types", f"{left} {op} {right}")


def type_name(ctx: Context, value: Value) -> str:
    return ctx.real(value).python_type(ctx).__name__


def compare(ctx: Context, op: str, left: Value, right: Value) -> Value:
    left, right = ctx.real(left), ctx.real(right)
    if isinstance(right, TensorValue) and not isinstance(left, TensorValue):
        left, right, op = right, left, _SWAPPED[op]
    left_type, right_type = left.python_type(ctx), right.python_type(ctx)
    right_first = right_type is not left_type and left_type in type_mro(right_type)
    asked = [(right, _SWAPPED[op], left), (left, op, right)]
    for value, sign, other in asked if right_first else reversed(asked):
        result = value.compare(ctx, sign, other)
        if result is not None:
            return result
    if op in ("==", "!="):
        return constant(is_same(ctx, left, right) == (op == "=="))
    if not all(cls in _EXEMPLARS or is_made_by_python(cls) for cls in (left_type, right_type)):
        raise GraphBreak("operator is not supported for these types", f"{left} {op} {right}")
    names = left_type.__name__, right_type.__name__
    ctx.raise_(TypeError(f"{op!r} not supported between instances of {names[0]!r} and {names[1]!r}"))


def is_same(ctx: Context, left: Value, right: Value) -> bool:
    """`left is right`"""
    left, right = ctx.real(left), ctx.real(right)
    if left is right or left.is_same(ctx, right):
        return True
    if left.source is not None and right.source is not None and _may_be_one_object(ctx, left, right):
        ctx.guard(Kind.NOT_ALIAS, left.source, right.source)
    return False


def _may_be_one_object(ctx: Context, left: Value, right: Value) -> bool:
    """Could the two, which are not the same now, be one object at another call with all other guards holding?"""
    both = getattr(left, "has_identity", False) and getattr(right, "has_identity", False)
    return both and left.python_type(ctx) is right.python_type(ctx) and not isinstance(right.source, Held)


def equal(ctx: Context, left: Value, right: Value) -> bool:
    """`left is right or left == right`, as containers compare their items."""
    left, right = ctx.real(left), ctx.real(right)
    is_member = isinstance(left, ConstantValue) and isinstance(left.value, enum.Enum)
    if left is right or (is_member and left.is_same(ctx, right)):
        return True
    if _is_nan(left) and _is_nan(right):
        raise GraphBreak("key is not supported", f"nan is compared: {left} and {right}", "look for nan by math.isnan()")
    return ctx.real(compare(ctx, "==", left, right)).truth(ctx)


def _is_nan(value: Value) -> bool:
    return isinstance(value, ConstantValue) and isinstance(value.value, (float, complex)) and value.value != value.value


def negated(ctx: Context, value: Value) -> Value:
    """`not value`"""
    value = ctx.real(value)
    if isinstance(value, ConstantValue) and type(value.value) is bool and value.source is None:
        return constant(not value.value)
    return constant(not value.truth(ctx))


def contains(ctx: Context, container: Value, item: Value) -> Value:
    """`item in container`"""
    result = ctx.real(container).contains(ctx, item)
    return constant(result) if isinstance(result, bool) else result


def as_index(ctx: Context, value: Value) -> Any:
    """An integer or a slice of integers that indexes a sequence."""
    value = ctx.real(value)
    if hasattr(value, "special") and value.special(ctx, "__index__") is not None:
        value = ctx.real(value.call_method(ctx, "__index__", [], {}))
    if isinstance(value, TensorValue):
        value = METHOD_MEANINGS["__index__"](ctx, value, [], {}) or value
    for part in getattr(value, "parts", (value,)):
        if isinstance(real := ctx.real(part), TensorValue):
            raise GraphBreak("tensor value is read", f"{real} as an index", "keep it a tensor")
    return plain(ctx, value)


__all__ = ["as_index", "binary", "call_graph", "compare", "contains", "equal", "is_same", "negated"]
