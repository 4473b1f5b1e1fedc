"""Runs a program of the table in dynamic.py, plainly or compiled, and counts; and the stress by random sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from break_running import seed
from dynamic_programs import CALLS, Program
from dynamic_programs.catalogue import NOTED, Driven
from same import Comparison
from torch import Tensor

import tracer

Compiler = Callable[..., Any]
FOLDER = Path(__file__).resolve().parent / "dynamic_programs"


class Counted:
    """A backend that counts: graphs that it was given, and calls of these."""

    def __init__(self, name: str) -> None:
        self.compiles = self.calls = 0
        self._compile = None if name == "eager" else torch._dynamo.lookup_backend(name)

    def __call__(self, graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        self.compiles += 1
        compiled = graph.forward if self._compile is None else self._compile(graph, examples)

        def run(*inputs: Any) -> Any:
            self.calls += 1
            return compiled(*inputs)

        return run


def plainly(function: Any, backend: Any) -> Any:
    return function


def ours(function: Any, backend: Any, **options: Any) -> Any:
    inplace = isinstance(function, torch.nn.Module)
    return tracer.compile(function, backend=backend, inplace=inplace, **options)


def theirs(function: Any, backend: Any, **options: Any) -> Any:
    return torch.compile(function, backend=backend, **options)


def forget() -> None:
    torch._dynamo.reset()
    tracer.reset()


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@dataclass
class Side:
    """What one way to run a program gave, and took."""

    results: list[Any] = field(default_factory=list)
    noted: list[float] = field(default_factory=list)
    compiles: int = 0
    plain_calls: int = 0
    captures: int = 0


def run(program: Program, compiler: Compiler, backend: Counted) -> Side:
    forget()
    seed(0)
    made = program.make()
    driven = made if isinstance(made, Driven) else Driven(made, call)
    fn = compiler(driven.function, backend)
    NOTED.clear()
    side = Side()
    before = tracer.counters()["compilations"]
    for k in range(CALLS):
        seed(k)
        arguments = program.inputs(k)
        seed(k + 1000)
        ran = backend.calls
        side.results.append(copied(driven.drive(fn, *arguments)))
        side.plain_calls += ran == backend.calls
    side.compiles, side.captures = backend.compiles, tracer.counters()["compilations"] - before
    side.noted = [*NOTED]
    return side


def copied(result: Any) -> Any:
    """As it is now: what a later call changes in place is not changed in this."""
    return torch.utils._pytree.tree_map_only(
        Tensor, lambda tensor: tensor.detach().clone().requires_grad_(tensor.requires_grad), result
    )


def difference(one: Side, other: Side, *, exact: bool) -> str | None:
    comparison = Comparison(exact, FOLDER)
    for k, (expected, found) in enumerate(zip(one.results, other.results, strict=True)):
        different = comparison.difference(expected, found, "result")
        if different is not None:
            return f"call {k}: {different}"
    return comparison.difference(one.noted, other.noted, "noted")


# stress --------------------------------------------------------------------------------------------------------------
def five_sizes(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """x [a, b, c], y [c, d], z [b, e]: five sizes, none of them said twice by another name."""
    scores = torch.tanh(x @ y)
    a, b, _ = x.shape
    flat = scores.reshape(a * b, -1)
    joined = torch.cat([flat, z.repeat(a, 1)], 1)
    at = torch.arange(joined.shape[1], dtype=x.dtype)
    return (joined - joined.mean(0)).softmax(1) * at / z.shape[1] + scores.sum() / x.shape[2]


@dataclass
class Stressed:
    calls: int
    compiles: int
    plain_calls: int
    #: numbers of the calls whose results were not eager's
    wrong: list[int]


def stress(compiler: Compiler = ours, calls: int = 1000, *, largest: int = 12, start: int = 0) -> Stressed:
    """Calls with random sizes of at least 2."""
    forget()
    backend = Counted("eager")
    fn = compiler(five_sizes, backend)
    sizes = random.Random(start)
    seed(start)
    found = Stressed(calls, 0, 0, [])
    for k in range(calls):
        a, b, c, d, e = (sizes.randint(2, largest) for _ in range(5))
        arguments = torch.randn(a, b, c), torch.randn(c, d), torch.randn(b, e)
        ran = backend.calls
        if not torch.equal(fn(*arguments), five_sizes(*arguments)):
            found.wrong.append(k)
        found.plain_calls += ran == backend.calls
    found.compiles = backend.compiles
    return found
