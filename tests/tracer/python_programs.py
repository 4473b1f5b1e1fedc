"""Tables of small programs for the tests of Python's breadth: each is run plain and compiled, call by call.

    programs = Programs()

    @programs.whole((X, 1), (X, 2))        # one graph at each call (fullgraph), all as plain Python
    def slicing(x, n): ...

    @programs.breaks("title", (X,))        # breaks there, and is right all the same
    def opaque(x): ...

    test = programs.test()
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import tracer
from tests.support import CountingBackend, check_calls

Calls = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Program:
    """A function, its calls, and what is expected of its capture."""

    fn: Callable[..., Any]
    calls: Calls
    title: str | None = None
    graphs: int | None = None

    def run(self) -> None:
        backend = CountingBackend()
        check_calls(self.fn, *self.calls, backend=backend, fullgraph=self.title is None)
        if self.title is None:
            assert backend.calls, "nothing was captured: each program has an operator on a tensor"
        elif self.title:
            found = titles(self.fn, self.calls[0])
            assert self.title in found, f"expected a break {self.title!r}, found {found}"
        if self.graphs is not None:
            assert backend.frame_count == self.graphs, f"{backend.frame_count} graphs were compiled"


def titles(fn: Callable[..., Any], arguments: tuple[Any, ...]) -> list[str]:
    """The titles of the breaks of one call."""
    tracer.install()
    report = tracer.explain(tracer.compile(fn, backend="eager", inplace=False))(*copy.deepcopy(arguments))
    return [found.title for found in report.breaks]


@dataclass
class Programs:
    """The programs of one test module."""

    all: list[Program] = field(default_factory=list)

    def whole(self, *calls: tuple[Any, ...], graphs: int | None = None) -> Callable[..., Any]:
        """Captured as one graph at each call. One tuple of arguments stands for three calls with it."""
        return functools.partial(self._add, calls, None, graphs)

    def breaks(self, title: str, *calls: tuple[Any, ...], graphs: int | None = None) -> Callable[..., Any]:
        """Breaks with this title; "" where that is another matter on each Python."""
        return functools.partial(self._add, calls, title, graphs)

    def _add(self, calls: Calls, title: str | None, graphs: int | None, fn: Callable[..., Any]) -> Callable[..., Any]:
        self.all.append(Program(fn, calls * 3 if len(calls) == 1 else calls, title, graphs))
        return fn

    def test(self) -> Callable[[Program], None]:
        """The test function of the module, with one case for each program."""

        @pytest.mark.parametrize("program", self.all, ids=lambda program: program.fn.__name__)
        def test(program: Program) -> None:
            program.run()

        return test
