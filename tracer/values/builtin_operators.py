"""The functions of the `operator` module: each is an operator between values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import operations
from .base import Value
from .builtin_registry import builtin
from .constants import constant
from .stepping import each

if TYPE_CHECKING:
    from ..interpreter.context import Context

_BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "<<": "lshift", ">>": "rshift", "&": "and_", "|": "or_", "^": "xor",
}  # fmt: skip
_COMPARE = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
_UNARY = {"-": "neg", "+": "pos", "~": "invert"}


def _of_two(function: Any, meaning: Callable[..., Value], sign: str) -> None:
    def handler(ctx: Context, left: Value, right: Value, /) -> Value:
        return meaning(ctx, sign, left, right)

    builtin(function)(handler)


def _of_one(function: Any, sign: str) -> None:
    def handler(ctx: Context, operand: Value, /) -> Value:
        return ctx.real(operand).unary(ctx, sign)

    builtin(function)(handler)


for _sign, _name in _BINARY.items():
    _of_two(getattr(operator, _name), operations.binary, _sign)
    _of_two(getattr(operator, f"i{_name.rstrip('_')}"), operations.binary, f"{_sign}=")
for _sign, _name in _COMPARE.items():
    _of_two(getattr(operator, _name), operations.compare, _sign)
for _sign, _name in _UNARY.items():
    _of_one(getattr(operator, _name), _sign)


@builtin(operator.not_)
def not_(ctx: Context, operand: Value, /) -> Value:
    return operations.negated(ctx, operand)


@builtin(operator.truth)
def truth(ctx: Context, operand: Value, /) -> Value:
    return constant(ctx.real(operand).truth(ctx))


@builtin(operator.is_)
def is_(ctx: Context, left: Value, right: Value, /) -> Value:
    return constant(operations.is_same(ctx, left, right))


@builtin(operator.is_not)
def is_not(ctx: Context, left: Value, right: Value, /) -> Value:
    return constant(not operations.is_same(ctx, left, right))


@builtin(operator.contains)
def contains(ctx: Context, container: Value, item: Value, /) -> Value:
    return operations.contains(ctx, container, item)


@builtin(operator.concat)
def concat(ctx: Context, left: Value, right: Value, /) -> Value:
    return operations.binary(ctx, "+", left, right)


@builtin(operator.iconcat)
def iconcat(ctx: Context, left: Value, right: Value, /) -> Value:
    return operations.binary(ctx, "+=", left, right)


@builtin(operator.countOf)
def count_of(ctx: Context, items: Value, item: Value, /) -> Value:
    return constant(sum(operations.equal(ctx, candidate, item) for candidate in each(ctx, items)))


@builtin(operator.indexOf)
def index_of(ctx: Context, items: Value, item: Value, /) -> Value:
    for i, candidate in enumerate(each(ctx, items)):
        if operations.equal(ctx, candidate, item):
            return constant(i)
    ctx.raise_(ValueError("sequence.index(x): x not in sequence"))


@builtin(operator.call)
def call(ctx: Context, function: Value, /, *args: Value, **kwargs: Value) -> Value:
    return ctx.real(function).call(ctx, list(args), kwargs)


@builtin(operator.getitem)
def getitem(ctx: Context, container: Value, key: Value, /) -> Value:
    return ctx.real(container).getitem(ctx, key)


@builtin(operator.setitem)
def setitem(ctx: Context, container: Value, key: Value, value: Value, /) -> Value:
    ctx.real(container).setitem(ctx, key, value)
    return constant(None)


@builtin(operator.delitem)
def delitem(ctx: Context, container: Value, key: Value, /) -> Value:
    ctx.real(container).delitem(ctx, key)
    return constant(None)
