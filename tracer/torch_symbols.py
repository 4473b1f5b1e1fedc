"""Private torch API of symbolic sizes: the second and last module that touches torch's private parts.

Everything here is about a `ShapeEnv`: how a symbol is made for a number that the program gives, what the environment
knows of it, and how its expressions are written as Python or as nodes of a graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx
from torch._guards import Source as TorchSource
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StrictMinMaxConstraint,
    free_unbacked_symbols,
)
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.reference import PythonReferenceAnalysis
from torch.utils._sympy.value_ranges import ValueRanges

__all__ = [
    "ASSERT", "CHECK", "IS_SIZE", "SIZE_OF", "STRIDE_OF", "SYMBOLIC",
    "Expression", "NoNodes", "Symbol", "bounds", "decisions", "expression", "hint", "is_number", "new_symbol",
    "nodes_of",
    "printed", "raw_expression", "symbols_in", "tidied",
]  # fmt: skip

#: what torch's environment gives for an int, a float and a bool that it does not know
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
#: the operators by which graphs read a size and a stride off a tensor
SIZE_OF = torch.ops.aten.sym_size.int
STRIDE_OF = torch.ops.aten.sym_stride.int
#: what a program says of sizes and numbers, and the operator that asks for it when a graph runs
CHECK = torch._check
IS_SIZE = torch._check_is_size
ASSERT = torch.ops.aten._assert_scalar.default
#: of sympy, which torch's environment computes with
Expression = Any
Symbol = Any


class _Name(str):
    """torch versions ask for a source's `name` as an attribute, or call it."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


class _Given(TorchSource):
    """To the environment a source is no more than a name; what it stands for is our own business."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", _Name(name))

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Given) and other.name == self.name


def new_symbol(
    env: ShapeEnv,
    value: int,
    name: str,
    within: tuple[int | None, int | None] = (None, None),
    *,
    is_size: bool = True,
) -> int | torch.SymInt:
    """A symbol for a number, of which `value` is an example.

    Sizes of 0 and 1 stay numbers: torch's operators treat them apart. One of at least 2 stands for any such size. A
    number that is no size (it may become one) stands for any number at all, until something is decided by it.
    within: it is between these two, both included; the value must be.
    """
    source = _Given(name)
    lower, upper = within
    constraint = None
    if value > 1 and (lower is not None or upper is not None):
        allowed = ValueRanges(max(2, lower or 2), int_oo if upper is None else upper)
        constraint = StrictMinMaxConstraint(warn_only=False, vr=allowed)
    symbol = env.create_symbol(
        value, source, DimDynamic.DYNAMIC, constraint,
        positive=True if is_size and value >= 0 else None, do_not_specialize_zero_one=not is_size,
    )  # fmt: skip
    made: int | torch.SymInt = env.create_symintnode(symbol, hint=value, source=source)
    return made


def new_float_symbol(env: ShapeEnv, value: float, name: str) -> torch.SymFloat:
    """A symbol for a float, of which `value` is an example."""
    source = _Given(name)
    symbol = env.create_unspecified_symbol(value, source, DimDynamic.DYNAMIC)
    made: torch.SymFloat = env.create_symfloatnode(symbol, hint=value, source=source)
    return made


def number_in(number: Any) -> int | float:
    """A symbolic number of which the environment knows by now which one it is."""
    expr = expression(number)
    return float(expr) if isinstance(number, torch.SymFloat) else int(expr)


def expression(number: Any) -> Expression:
    """What the environment knows of a symbolic number by now: replaced symbols are replaced."""
    return number.node.expr


def raw_expression(number: Any) -> Expression:
    """What it was made as."""
    return number.node._expr


def hint(number: Any) -> Any:
    """The value that it has in this capture."""
    return number.node.hint


def is_unbacked(number: Any) -> bool:
    """Does it depend on a tensor's values?"""
    return bool(free_unbacked_symbols(expression(number)))


def known_truth(condition: Any) -> bool | None:
    """Of a condition on such numbers: True or False, where that follows from what was promised."""
    if isinstance(condition, bool):
        return condition
    found = condition.node.shape_env._maybe_evaluate_static(expression(condition))
    return None if found is None else bool(found)


def take_fresh(env: ShapeEnv) -> None:
    """Torch expects somebody to note which symbols an operator made; here the builder finds them in the result."""
    env.pending_fresh_unbacked_symbols.clear()


def promises(env: ShapeEnv, known: dict[Symbol, int]) -> list[tuple[Expression, str]]:
    """What must hold of numbers that depend on a tensor's values, beside what is known: the condition, and a message.

    known: how many there were by symbol, and then are: torch keeps them in groups, any of which may grow.
    """
    found = []
    for symbol, group in env.deferred_runtime_asserts.items():
        found += [(promise.expr, promise.msg) for promise in group[known.get(symbol, 0) :]]
        known[symbol] = len(group)
    return found


def is_number(expr: Expression) -> bool:
    return bool(expr.is_number)


def symbols_in(expr: Expression) -> list[Symbol]:
    return sorted(expr.free_symbols, key=str)


def decisions(env: ShapeEnv) -> list[Expression]:
    """What was decided about sizes, in order."""
    return [guard.expr for guard in env.guards]


def tidied(env: ShapeEnv, expr: Expression) -> Expression | None:
    """The guard in its simplest form; None where the ranges of the symbols say as much."""
    if any(not symbol.is_integer for symbol in expr.free_symbols):
        return expr  # nobody writes the ranges of floats
    expr = env.simplify(expr)
    return None if env._maybe_evaluate_static(expr, axioms=()) is not None else expr


def bounds(env: ShapeEnv, symbol: Symbol) -> tuple[int | None, int | None]:
    """The smallest and the largest value that the environment counts on; None for no bound."""
    found = env.var_to_range.get(symbol)
    if found is None:
        return None, None
    return tuple(int(end) if end.is_Integer else None for end in (found.lower, found.upper))  # type: ignore[return-value]


class _Printer(PythonPrinter):
    def __init__(self, name: Callable[[Symbol], str]) -> None:
        super().__init__()
        self._symbol_name = name

    def _print_Symbol(self, expr: Symbol) -> str:
        return self._symbol_name(expr)


def printed(expr: Expression, name: Callable[[Symbol], str]) -> str:
    """The expression as Python text, with `name` giving that of each symbol."""
    text: str = _Printer(name).doprint(expr)
    return re.sub(r"\s+", " ", text)


class _Nodes(PythonReferenceAnalysis):
    """Arithmetic on proxies records nodes."""

    @staticmethod
    def trunc_to_int(x: Any, dtype: Any) -> Any:
        return torch.sym_int(x)


class NoNodes(Exception):
    """Torch's functions cannot write an expression as nodes."""


def nodes_of(graph: torch.fx.Graph, expr: Expression, nodes: Mapping[Symbol, torch.fx.Node]) -> torch.fx.Node:
    """The node that computes an expression from those of its symbols. Raises NoNodes where that cannot be had."""
    recorder = torch.fx.proxy.GraphAppendingTracer(graph)  # one for all: what takes several proxies compares it
    proxies = {symbol: torch.fx.Proxy(node, recorder) for symbol, node in nodes.items()}
    try:
        result: Any = sympy_interp(_Nodes, proxies, expr)
    except Exception as error:  # whatever it is that a function of sympy makes of a proxy
        raise NoNodes(str(expr)) from error
    node: torch.fx.Node = result.node
    return node


def holds_at(env: ShapeEnv, symbol: Symbol, value: int) -> bool:
    """Does all that was decided about sizes certainly hold, where this symbol is the only one and has this value?"""
    lower, upper = bounds(env, symbol)
    if (lower is not None and value < lower) or (upper is not None and value > upper):
        return False
    return all(bool(env.simplify(expr).subs(symbol, value) == True) for expr in decisions(env))  # noqa: E712 (sympy's)
