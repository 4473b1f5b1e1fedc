"""Python integers that depend on sizes which are symbols, and what comparing them gives.

They are constants with a source, and do what these do; beside it torch's environment is told of everything that is
decided by them, and the graph gets the symbol in place of the number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..sources import Source
from ..torch_symbols import SYMBOLIC, expression, hint, is_unbacked
from .constants import BINARY, COMPARE, ConstantValue, constant

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from .base import Value

#: operators whose result is an integer again
_INTEGER = frozenset(["+", "-", "*", "//", "%"])
#: exponents for which a power is a product, and bases that torch takes as well
_POWERS = range(2, 5)
_BASES = range(2, 65)
#: by so many bits a shift is a product or a quotient
_SHIFTS = range(62)


class SymbolValue(ConstantValue):
    """An int or bool that is an expression over symbols. `value` is what it is in this capture."""

    __slots__ = ("_shapes", "symbol")

    kind = "symbolic number"

    def __init__(self, ctx: Context, symbol: Any) -> None:
        self._shapes = ctx.graph.shapes
        self.symbol = symbol
        super().__init__(hint(symbol))

    @property
    def source(self) -> Source | None:
        """Python for it; written when somebody asks."""
        return self._shapes.source_of(expression(self.symbol))

    @source.setter
    def source(self, source: Source | None) -> None:
        if source is not None:
            raise AttributeError("the source of a symbolic number is its expression")

    def __str__(self) -> str:
        return f"{self.source} ({self.value!r})"

    def as_python(self, ctx: Context) -> Any:
        """From now on it is this number."""
        decided = int(self.symbol) if type(self.value) is int else bool(self.symbol)
        ctx.note_shapes()
        return decided

    def truth(self, ctx: Context) -> bool:
        decided = bool(self.symbol if type(self.value) is bool else self.symbol != 0)
        ctx.note_shapes()
        return decided

    def unary(self, ctx: Context, op: str) -> Any:
        if op in "+-" and type(self.value) is int:
            return from_symbol(ctx, self.symbol if op == "+" else -self.symbol)
        return super().unary(ctx, op)


#: unbacked.py puts its class here: of numbers that nobody knows at capture
UNBACKED: list[Any] = []


def from_symbol(ctx: Context, number: Any) -> Any:
    """The value for what torch gave as a size, or an operation on sizes."""
    if not isinstance(number, SYMBOLIC):
        return constant(number)
    if is_unbacked(number):
        return UNBACKED[0](number)
    if isinstance(number, torch.SymFloat):
        raise GraphBreak("shape depends on a tensor's values", str(number))
    expr = expression(number)
    if expr.is_number or (expr.is_Boolean and not expr.free_symbols):
        return constant(int(number) if isinstance(number, torch.SymInt) else bool(number))
    return SymbolValue(ctx, number)


def symbolic(ctx: Context, op: str, left: ConstantValue, right: ConstantValue) -> ConstantValue | None:
    """`left op right` of integers one of which is a symbol; None where it is to be computed as any other."""
    if op in ("<<", ">>") and type(left.value) is int and _is_known(right) and right.value in _SHIFTS:
        op, right = "*" if op == "<<" else "//", constant(2**right.value)
    power = op == "**" and _is_known(right) and right.value in _POWERS
    power |= op == "**" and _is_known(left) and left.value in _BASES and right.value > 0
    function = BINARY.get(op) if op in _INTEGER or power else COMPARE.get(op)
    if function is None or type(left.value) is not int or type(right.value) is not int:
        return None
    if op in ("//", "%") and not right.truth(ctx):
        return None
    result = function(_operand(ctx, left), _operand(ctx, right))
    ctx.note_shapes()
    return from_symbol(ctx, result)


def _is_known(number: ConstantValue) -> bool:
    return type(number.value) is int and number.symbol is None and number.source is None


def has_symbol(ctx: Context, values: Iterable[Value]) -> bool:
    """Is there a symbolic number among these?"""
    return any(isinstance(value, ConstantValue) and value.symbol is not None for value in map(ctx.real, values))


def _operand(ctx: Context, number: ConstantValue) -> Any:
    symbol = symbol_of(ctx, number)
    return number.as_python(ctx) if symbol is None else symbol


def symbol_of(ctx: Context, number: ConstantValue) -> Any:
    """The symbol of an integer, or one for a number from outside that changes from call to call; else None."""
    if number.symbol is not None:
        return number.symbol if type(number.value) is int else None
    source = number.source
    if source is None or type(number.value) not in (int, float) or not ctx.changes(source):
        return None
    if type(number.value) is float and not _is_float_symbol(ctx, number.value):
        return None
    if not -(2**62) <= number.value < 2**62 and type(number.value) is int:
        return None
    return ctx.number_symbol(number.value, source)


def _is_float_symbol(ctx: Context, value: float) -> bool:
    """May it be one? 0.0 and -0.0 are equal but not the same, and few operators know what to do with nan."""
    request = ctx.request
    return request.float_symbols and request.history.floats and value != 0 and math.isfinite(value)


def smallest_or_largest(ctx: Context, name: str, values: list[Value]) -> Value | None:
    """`min` or `max` of integers some of which are symbols, without deciding which; None for anything else."""
    if not all(map(is_integer, values)) or all(getattr(value, "symbol", None) is None for value in values):
        return None
    choose = torch.sym_min if name == "min" else torch.sym_max
    numbers = [_operand(ctx, value) if isinstance(value, ConstantValue) else value.symbol for value in values]  # type: ignore[attr-defined]
    result = functools.reduce(choose, numbers)
    ctx.note_shapes()
    return from_symbol(ctx, result)


def is_integer(value: Value) -> bool:
    """An int, or a number read from a tensor that will be one."""
    if isinstance(value, ConstantValue):
        return type(value.value) is int
    return value.is_graph_number and isinstance(value.symbol, torch.SymInt)  # type: ignore[attr-defined]


ConstantValue.symbolic = staticmethod(symbolic)  # type: ignore[method-assign]
