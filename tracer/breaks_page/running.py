"""An example of a break as data, and what happens when it is run: plain, and compiled with the eager backend."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch

from .. import api
from ..report import BreakReport, Report, report_on

#: what the examples call themselves in the lines of a report
FILENAME = "example.py"
#: marks the line that breaks
MARK = "# <- break"
CALLS = 3


class Example(NamedTuple):
    """A program that defines `f`, whose last line is the call of it; the line that breaks is marked."""

    text: str
    #: the first Python on which it breaks so
    python: tuple[int, int] = (3, 11)
    #: it breaks only where a break is an error
    fullgraph: bool = False

    @property
    def runs_here(self) -> bool:
        return sys.version_info >= self.python

    @property
    def marked_lines(self) -> list[int]:
        return [i for i, line in enumerate(self.text.splitlines(), 1) if MARK in line]


class Program:
    """A fresh copy of an example: `f` and the call of it."""

    def __init__(self, example: Example) -> None:
        definitions, self._call = _parts(example.text)
        self._namespace: dict[str, Any] = {"__name__": "example", "torch": torch, "tracer": sys.modules["tracer"]}
        exec(definitions, self._namespace)
        self.f: FunctionType = self._namespace["f"]
        self._fullgraph = example.fullgraph

    def call(self) -> Any:
        return eval(self._call, self._namespace)

    def compile(self) -> None:
        self._namespace["f"] = api.compile(self.f, backend="eager", fullgraph=self._fullgraph)

    def report(self) -> Report:
        state = api.runtime.state_of(self._namespace["f"])
        assert state is not None
        return report_on(state, None, api.runtime.registry)


def _parts(text: str) -> tuple[CodeType, CodeType]:
    tree = ast.parse(text, FILENAME)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "the last line calls f"
    return compile(tree, FILENAME, "exec"), compile(ast.Expression(last.value), FILENAME, "eval")


def breaks_of(report: Report) -> list[BreakReport]:
    """Those of the function and of the private copies of its callees."""
    return [*report.breaks, *(found for callee in report.callees for found in breaks_of(callee))]


def run(example: Example, observe: Callable[[Callable[[], Any]], Any]) -> tuple[list[Any], list[Any], Report]:
    """What three calls do in plain Python, what they do compiled, as `observe` sees them; and the report."""
    plain, compiled = Program(example), Program(example)
    expected = [observe(plain.call) for _ in range(CALLS)]
    compiled.compile()
    found = [observe(compiled.call) for _ in range(CALLS)]
    return expected, found, compiled.report()
