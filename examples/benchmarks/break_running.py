"""Runs a program of the table: its calls with what can be seen of them, and the operators in and out of regions.

Operators are counted in traces that torch itself records (an execution trace, which works while a profiler runs): those
that no other operator calls, within a range around each call of a graph or outside of all. Both sides are counted so.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from break_programs import Program
from same import Comparison
from torch.profiler import ExecutionTraceObserver, record_function

CALLS, WARM_UP = 10, 5
#: Names of ranges in a trace.
CALL, GRAPH = "## call of a program ##", "## call of a graph ##"
FOLDER = Path(__file__).resolve().parent / "break_programs"


def ranged(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
    """A backend: the graph as it is, each call in a range of its own."""
    forward = graph.forward

    def run(*inputs: Any) -> Any:
        with record_function(GRAPH):
            return forward(*inputs)

    return run


class Side:
    """One way to run a program: its own function, and its own state."""

    def __init__(self, program: Program, function: Callable[..., Any]) -> None:
        self.program, self.function = program, function
        seed(0)
        self.state = () if program.state is None else (program.state(),)

    def arguments(self, k: int) -> tuple[Any, ...]:
        seed(k)
        arguments = self.program.inputs(k, *self.state)
        seed(k + 1000)
        return arguments

    def seen(self, k: int) -> tuple[Any, ...]:
        """Call k, with everything that can be seen of it."""
        arguments = self.arguments(k)
        result: Any = None
        with observed() as (printed, logged):
            try:
                with record_function(CALL):
                    result = self.program.drive(self.function, *arguments)
            except Exception as error:
                result = error
        return result, arguments, printed.getvalue(), logged.getvalue(), random.random(), torch.rand(2)

    def seconds(self, k: int) -> float:
        """How long call k takes."""
        arguments = self.arguments(k)
        with observed():
            start = time.perf_counter()
            with contextlib.suppress(Exception):
                self.program.drive(self.function, *arguments)
            return time.perf_counter() - start


def seed(k: int) -> None:
    random.seed(k)
    torch.manual_seed(k)


@contextlib.contextmanager
def observed() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """What is printed and logged, the latter with function and line."""
    printed, logged = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(logged)
    handler.setFormatter(logging.Formatter("%(levelname)s %(funcName)s:%(lineno)d %(message)s"))
    logger = logging.getLogger("breaks")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        with contextlib.redirect_stdout(printed):
            yield printed, logged
    finally:
        logger.removeHandler(handler)


@dataclass
class Operators:
    """inside, outside: of regions; the latter by name.  graphs: calls of graphs."""

    inside: int = 0
    outside: Counter[str] = field(default_factory=Counter)
    graphs: int = 0

    def missed(self, program: Program, own: Collection[str]) -> Counter[str]:
        """What ran outside without being a break itself, of the program's own operators."""
        return Counter({name: n for name, n in self.outside.items() if name in own and name not in program.itself})


@contextlib.contextmanager
def counted(into: Operators) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="breaks") as folder:
        path = str(Path(folder, "trace.json"))
        observer = ExecutionTraceObserver().register_callback(path)
        observer.start()
        try:
            yield
        finally:
            observer.stop()
            observer.unregister_callback()
        read_trace(path, into)


def read_trace(path: str, into: Operators) -> None:
    """Nodes are numbered as they begin and written as they end, which shows what lies in what.

    The parents that a trace names are wrong behind an operator that raised.
    """
    with open(path, encoding="utf-8") as file:
        nodes = [(node["id"], node["name"]) for node in json.load(file)["nodes"]]
    around: list[tuple[int, str]] = []
    for number, name in reversed(nodes):
        while around and around[-1][0] > number:
            around.pop()
        names = [outer for _, outer in around]
        around.append((number, name))
        into.graphs += name == GRAPH
        if not name.startswith("aten::") or CALL not in names:
            continue
        if any(outer.startswith(("aten::", "autograd::")) for outer in names):
            continue
        if GRAPH in names:
            into.inside += 1
        else:
            into.outside[name] += 1


def first_difference(program: Program, function: Callable[..., Any], calls: Sequence[int] | None = None,
                     exact: bool = True, between: Callable[[int], None] | None = None) -> str | None:  # fmt: skip
    """Run the calls plainly and with a compiled function: what differs first. `between` is told before each call."""
    plain, compiled = Side(program, program.function), Side(program, function)
    comparison = Comparison(exact, FOLDER)
    for k in range(CALLS) if calls is None else calls:
        if between is not None:
            between(k)
        expected, found = plain.seen(k), compiled.seen(k)
        names = ("result", "arguments", "printed", "logged", "random", "torch's random numbers")
        for name, one, other in zip(names, expected, found, strict=True):
            different = comparison.difference(one, other, name)
            if different is not None:
                return f"call {k}: {different}"
    return None


def quiet() -> None:
    """Warnings of torch.compile about its own limits belong to no table."""
    for name in ("torch._dynamo", "torch._inductor"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
