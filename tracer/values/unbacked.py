"""Python numbers that are read from tensors and stay in the graph: `x.max().item()` with `capture_scalar_outputs`.

Nobody knows them at capture. Arithmetic and comparison give others like them, torch's functions take them, torch._check
says something of them; whatever needs the number itself is a break, and there the number is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..torch_symbols import CHECK, IS_SIZE, known_truth
from .base import Value
from .constants import BINARY, COMPARE, UNARY, ConstantValue, constant
from .objects import known
from .operations import compare
from .sequences import ListValue
from .symbols import UNBACKED, from_symbol, symbol_of
from .tensors import METHOD_MEANINGS, TensorValue, call_graph, read_number

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

_KINDS: tuple[tuple[type, type, Any], ...] = (
    (torch.SymInt, int, torch.int64), (torch.SymFloat, float, torch.float64), (torch.SymBool, bool, torch.bool),
)  # fmt: skip


class UnbackedValue(Value):
    """An int, float or bool that is known when the graph runs. `symbol` stands for it in torch's environment."""

    __slots__ = ("symbol",)

    kind = "number read from a tensor"
    is_graph_number = True

    def __init__(self, symbol: Any) -> None:
        super().__init__()
        self.symbol = symbol

    def __str__(self) -> str:
        return f"a {self.kind} ({self.symbol})"

    def python_type(self, ctx: Context) -> type:
        return next(python for kind, python, _ in _KINDS if isinstance(self.symbol, kind))

    def as_python(self, ctx: Context) -> Any:
        raise GraphBreak("tensor value is read", str(self))

    def truth(self, ctx: Context) -> bool:
        """What torch._check has said, or follows from it."""
        asked = self.symbol if isinstance(self.symbol, torch.SymBool) else self.symbol != 0
        answer = known_truth(asked)
        if answer is None:
            raise GraphBreak("branch on a tensor", str(self))
        return answer

    def key(self, ctx: Context) -> object:
        raise GraphBreak("tensor value is read", str(self))

    def unary(self, ctx: Context, op: str) -> Value:
        if isinstance(self.symbol, torch.SymBool) or op == "~":
            raise GraphBreak("tensor value is read", str(self))
        return from_symbol(ctx, UNARY[op](self.symbol))

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        return self._with(ctx, BINARY.get(op), op, other, reflected=False)

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        return self._with(ctx, BINARY.get(op), op, other, reflected=True)

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        return self._with(ctx, COMPARE.get(op), op, other, reflected=False)

    def _with(
        self, ctx: Context, function: Callable[..., Any] | None, op: str, other: Value, *, reflected: bool
    ) -> Value | None:
        if isinstance(other, UnbackedValue):
            second = other.symbol
        elif isinstance(other, ConstantValue) and type(other.value) in (int, float):
            second = symbol_of(ctx, other)
            second = other.as_python(ctx) if second is None else second
        else:
            return None
        takes = op in _OPERATORS or (op == "**" and not reflected and type(second) is int and second in _POWERS)
        if function is None or not takes or isinstance(self.symbol, torch.SymBool):
            raise GraphBreak("tensor value is read", f"{op} of {self}")
        pair = (second, self.symbol) if reflected else (self.symbol, second)
        return from_symbol(ctx, function(*pair))

    def absolute(self, ctx: Context) -> Value:
        """`abs()` of it."""
        if not isinstance(self.symbol, torch.SymInt):
            raise GraphBreak("tensor value is read", f"abs() of {self}")
        return from_symbol(ctx, torch.sym_max(self.symbol, -self.symbol))

    def graph_argument(self, ctx: Context) -> Any:
        return self.symbol

    def reconstruct(self, out: ExitWriter) -> str:
        """The number as a tensor without dimensions, which the graph gives, and read from that."""
        dtype = next(dtype for kind, _, dtype in _KINDS if isinstance(self.symbol, kind))
        if dtype is torch.bool:
            self.refuse("object cannot be rebuilt")
        tensor = out.ctx.graph.call(torch.scalar_tensor, (self.symbol,), {"dtype": dtype})
        return f"{out.output(tensor)}.item()"


#: so many numbers of a `tolist()` stay in the graph
_READ_AT_MOST = 16
#: exponents of which torch makes a product
_POWERS = range(1, 5)
#: what cannot fail, or fails when the graph runs
_OPERATORS = frozenset(["+", "-", "*", "/", "//", "%", "<", "<=", "==", "!=", ">", ">="])


@known(CHECK)
def check(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """torch._check: what a program promises of such a number. Any other condition is decided now."""
    real = ctx.real(args[0] if args else kwargs["cond"])
    if isinstance(real, UnbackedValue) and isinstance(real.symbol, torch.SymBool):
        ctx.graph.promise(real.symbol)
        return constant(None)
    if not real.truth(ctx):
        raise GraphBreak("exception leaves the function", "torch._check fails")
    return constant(None)


@known(IS_SIZE)
def check_is_size(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """torch._check_is_size: it is not negative, and not more than `max`."""
    given = dict(zip(("i", "message", "max"), args, strict=False)) | kwargs
    number, most = ctx.real(given["i"]), ctx.real(given.get("max", constant(None)))
    conditions = [compare(ctx, ">=", number, constant(0))]
    if not (isinstance(most, ConstantValue) and most.value is None):
        conditions.append(compare(ctx, "<=", number, most))
    for condition in conditions:
        check(ctx, [condition], {})
    return constant(None)


def read_numbers(ctx: Context, tensor: TensorValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """`tensor.tolist()` in the graph, of a few numbers; None where it is a break."""
    sizes = tensor.fake.shape
    if args or kwargs or not ctx.request.capture_scalars:
        return None
    if not all(type(size) is int for size in sizes) or math.prod(sizes) > _READ_AT_MOST:
        return None
    if not sizes:
        return read_number(ctx, tensor, None)
    rows = [call_graph(ctx, torch.select, [tensor, constant(0), constant(row)], {}) for row in range(sizes[0])]
    items = [read_numbers(ctx, row, [], {}) for row in rows if isinstance(row, TensorValue)]
    return ctx.born(ListValue([item for item in items if item is not None]))


METHOD_MEANINGS["tolist"] = read_numbers
UNBACKED.append(UnbackedValue)
