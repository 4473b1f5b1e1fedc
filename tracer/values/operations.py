"""The operators between two values, as Python defines them: who is asked first, what NotImplemented means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import GraphBreak
from .base import Value
from .constants import ConstantValue, constant
from .tensors import TensorValue, call_graph

if TYPE_CHECKING:
    from ..interpreter.context import Context

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def binary(ctx: Context, op: str, left: Value, right: Value) -> Value:
    """`left op right`; an in-place operator ends with "="."""
    left, right = ctx.real(left), ctx.real(right)
    inplace = op.endswith("=")
    plain = op[:-1] if inplace else op
    if isinstance(right, TensorValue) and not isinstance(left, TensorValue):
        result = right.reflected(ctx, plain, left)
    else:
        result = _asked_in_order(ctx, plain, left, right, inplace)
    if result is not None:
        return result
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        raise GraphBreak("operator on these types", f"{left} {op} {right}", "")
    names = type_name(ctx, left), type_name(ctx, right)
    sign = op if plain != "**" or inplace else "** or pow()"
    ctx.raise_(TypeError(f"unsupported operand type(s) for {sign}: {names[0]!r} and {names[1]!r}"))


def _asked_in_order(ctx: Context, op: str, left: Value, right: Value, inplace: bool) -> Value | None:
    left_type, right_type = left.python_type(ctx), right.python_type(ctx)
    right_first = right_type is not left_type and issubclass(right_type, left_type) and not inplace
    if right_first and (result := right.reflected(ctx, op, left)) is not None:
        return result
    result = left.binary(ctx, op, right, inplace=inplace)
    if result is None and not right_first:
        result = right.reflected(ctx, op, left)
    return result


def type_name(ctx: Context, value: Value) -> str:
    return ctx.real(value).python_type(ctx).__name__


def compare(ctx: Context, op: str, left: Value, right: Value) -> Value:
    left, right = ctx.real(left), ctx.real(right)
    if isinstance(right, TensorValue) and not isinstance(left, TensorValue):
        left, right, op = right, left, _SWAPPED[op]
    left_type, right_type = left.python_type(ctx), right.python_type(ctx)
    right_first = right_type is not left_type and issubclass(right_type, left_type)
    asked = [(right, _SWAPPED[op], left), (left, op, right)]
    for value, sign, other in asked if right_first else reversed(asked):
        result = value.compare(ctx, sign, other)
        if result is not None:
            return result
    if op in ("==", "!="):
        return constant(is_same(ctx, left, right) == (op == "=="))
    ctx.raise_(TypeError(f"{op!r} not supported between instances of {left_type.__name__!r} and {right_type.__name__!r}"))


def is_same(ctx: Context, left: Value, right: Value) -> bool:
    """`left is right`"""
    left, right = ctx.real(left), ctx.real(right)
    return left is right or left.is_same(ctx, right)


def equal(ctx: Context, left: Value, right: Value) -> bool:
    """`left is right or left == right`, as containers compare their items."""
    left, right = ctx.real(left), ctx.real(right)
    if left is right:
        return True
    return ctx.real(compare(ctx, "==", left, right)).truth(ctx)


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


def as_index(ctx: Context, value: Value) -> object:
    """An integer or a slice of integers that indexes a sequence."""
    value = ctx.real(value)
    if isinstance(value, TensorValue):
        raise GraphBreak("reading a tensor's value", f"{value} as an index", "keep it a tensor")
    return value.as_python(ctx)


__all__ = ["as_index", "binary", "call_graph", "compare", "contains", "equal", "is_same", "negated"]
