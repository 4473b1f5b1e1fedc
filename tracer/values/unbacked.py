"""Python numbers that are read from tensors and stay in the graph: `x.max().item()` with `capture_scalar_outputs`.

Nobody knows them at capture. Arithmetic and comparison give others like them, torch's functions take them, torch._check
says something of them; whatever needs the number itself is a break, and there the number is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..torch_symbols import CHECK, known_truth
from .base import Value
from .constants import BINARY, COMPARE, UNARY, ConstantValue, constant
from .objects import known
from .symbols import UNBACKED, from_symbol, symbol_of

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
        if function is None or op not in _OPERATORS or isinstance(self.symbol, torch.SymBool):
            raise GraphBreak("tensor value is read", f"{op} of {self}")
        pair = (second, self.symbol) if reflected else (self.symbol, second)
        return from_symbol(ctx, function(*pair))

    def graph_argument(self, ctx: Context) -> Any:
        return self.symbol

    def reconstruct(self, out: ExitWriter) -> str:
        """The number as a tensor without dimensions, which the graph gives, and read from that."""
        dtype = next(dtype for kind, _, dtype in _KINDS if isinstance(self.symbol, kind))
        if dtype is torch.bool:
            self.refuse("object cannot be rebuilt")
        tensor = out.ctx.graph.call(torch.scalar_tensor, (self.symbol,), {"dtype": dtype})
        return f"{out.output(tensor)}.item()"


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


UNBACKED.append(UnbackedValue)
