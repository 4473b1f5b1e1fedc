"""Programs that call torch.compile as well: TorchDynamo cannot read a graft, and so it breaks where one is called."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tracer

X = torch.arange(6.0)


@pytest.fixture(autouse=True)
def both() -> Iterator[None]:
    tracer.install()
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # TorchDynamo on 3.13.0
        yield
    tracer.uninstall()
    torch.compiler.reset()


def graphs_of_torch(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[str]]:
    """The function compiled by torch, and the operators that reach its backend."""
    seen: list[str] = []

    def backend(module: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Callable[..., Any]:
        seen.extend(node.name for node in module.graph.nodes if node.op in ("call_function", "call_method"))
        return module.forward

    return torch.compile(function, backend=backend), seen


def ours(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2


def outer(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(ours(torch.cos(x)))


def test_a_function_that_torch_compiles_calls_a_grafted_one() -> None:
    want = outer(X)
    tracer.compile(ours, backend="eager")
    for _ in range(3):  # until its code is final: TorchDynamo compiles anew where a callee's changes
        assert torch.equal(outer(X), want)
    before = tracer.counters()["hits"]
    theirs, seen = graphs_of_torch(outer)
    for _ in range(3):
        assert torch.equal(theirs(X), want)
    assert seen == ["cos", "exp"]  # ours is not in their graphs
    assert tracer.counters()["hits"] == before + 3  # it ran in its own
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(outer, backend="eager", fullgraph=True)(X)


def test_a_grafted_function_is_given_to_torch_compile() -> None:
    want = ours(X)
    tracer.compile(ours, backend="eager")(X)
    theirs, seen = graphs_of_torch(ours)
    assert torch.equal(theirs(X), want) and torch.equal(theirs(X), want)
    assert not seen


class Holder:
    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def through_a_method(x: torch.Tensor) -> torch.Tensor:
    return Holder().method(x * 3) * 5


def through_what_torch_skips(x: torch.Tensor) -> torch.Tensor:
    return functools.reduce(lambda a, b: a + ours(b), [x, x], x * 3)


@pytest.mark.parametrize(
    ("caller", "opted_in"),
    [(through_a_method, Holder.method), (through_what_torch_skips, ours)],
)
def test_other_ways_to_a_grafted_function(caller: Callable[..., Any], opted_in: Callable[..., Any]) -> None:
    want = caller(X)
    tracer.compile(opted_in, backend="eager")
    caller(X)
    theirs, _ = graphs_of_torch(caller)
    for _ in range(3):
        assert torch.equal(theirs(X), want)


def test_a_compiled_model_inside() -> None:
    model = torch.nn.Linear(6, 6)
    want = model(X) * 2
    tracer.compile(model, backend="eager")
    model(X)
    theirs, _ = graphs_of_torch(lambda x: model(x) * 2)
    for _ in range(3):
        assert torch.equal(theirs(X), want)


def test_nothing_stays_behind() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    tracer.compile(function, backend="eager")(X)

    @functools.wraps(function)
    def wrapped(x: torch.Tensor) -> torch.Tensor:
        return function(x) * 2

    tracer.compile(wrapped, backend="eager")  # the mark that `wraps` copied does not disable it
    assert torch.equal(wrapped(X), (X + 1) * 2) and tracer.explain(wrapped)(X).regions
    tracer.uninstall()
    assert not vars(function) and set(vars(wrapped)) == {"__wrapped__"}
    theirs, seen = graphs_of_torch(wrapped)
    assert torch.equal(theirs(X), (X + 1) * 2) and seen == ["add", "mul"]


def test_other_code_that_a_program_gave_loses_the_mark_too() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def other(x: torch.Tensor) -> torch.Tensor:
        return x + 2

    tracer.compile(function, backend="eager")(X)
    function.__code__ = other.__code__
    tracer.uninstall()
    assert not vars(function) and torch.equal(function(X), X + 2)


def test_a_disabled_function_stays_so() -> None:
    @torch.compiler.disable
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def calls(x: torch.Tensor) -> torch.Tensor:
        return function(x) * 2

    tracer.compile(calls, backend="eager")
    report = tracer.explain(calls)(X)
    assert [found.title for found in report.breaks] == ["function is disabled"]
    tracer.uninstall()
    assert inspect.getattr_static(function, "_torchdynamo_disable") is True
