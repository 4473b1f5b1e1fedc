"""Guards on torch's state, end to end: what a program asked for, and what acts on the records of autograd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import tracer
from tests.support import CountingBackend


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    tracer.install(backend="eager")
    yield
    tracer.uninstall()


def test_what_a_program_asked_torch_is_guarded_without_any_operator() -> None:
    seen: list[Any] = []

    @tracer.disable
    def tell(*what: Any) -> None:
        seen.append(what)

    def inner(x: torch.Tensor) -> torch.Tensor:
        tell("inside")
        return x

    @tracer.compile
    def f(x: torch.Tensor) -> bool:
        enabled, anomaly = torch.is_grad_enabled(), torch.is_anomaly_enabled()
        inner(x)
        return enabled, anomaly

    x = torch.ones(2)
    for _ in range(3):
        assert f(x) == (True, False)
    with torch.no_grad():
        for _ in range(3):
            assert f(x) == (False, False)
    with torch.autograd.detect_anomaly(check_nan=False):
        assert f(x) == (True, True)
    assert f(x) == (True, False)


def test_saved_tensor_hooks_where_something_is_saved() -> None:
    backend = CountingBackend()

    @tracer.compile(backend=backend)
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum()

    x = torch.ones(3, requires_grad=True)
    f(x), f(x)
    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        f(x).backward()
    assert packed and backend.frame_count == 2


def test_a_checkpoint_around_a_compiled_function() -> None:
    """Its hooks are others at each call, and end the second forward in the midst of a graph by an exception."""
    backend = CountingBackend()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return (y * x).exp()

    compiled = tracer.compile(f, backend=backend, inplace=False)
    for _ in range(5):
        x = torch.arange(3.0, requires_grad=True)
        gradients = []
        for function in (compiled, f):
            loss = checkpoint(function, x, use_reentrant=False).sum()
            gradients += torch.autograd.grad(loss, x)
        torch.testing.assert_close(*gradients)
    assert backend.frame_count == 1


def test_what_a_hook_on_saved_tensors_raises() -> None:
    calls: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        calls.append(tensor)
        raise ValueError("not this one")

    @tracer.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum()

    x = torch.ones(3, requires_grad=True)
    for _ in range(3):
        calls.clear()
        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
        with hooks, pytest.raises(ValueError, match="not this one"):
            f(x)
        assert len(calls) == 1


@pytest.mark.parametrize("grad", [True, False])
def test_saved_tensor_hooks_where_nothing_is_saved(grad: bool) -> None:
    backend = CountingBackend()

    @tracer.compile(backend=backend)
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum()

    x = torch.ones(3, requires_grad=not grad)
    with torch.set_grad_enabled(grad):
        f(x), f(x)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: 1 / 0):
            assert f(x) == 3
    assert backend.frame_count == 1


def test_saved_tensor_hooks_where_the_region_itself_turns_grad_on() -> None:
    weight = torch.ones(3, requires_grad=True)

    @tracer.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with torch.enable_grad():
            z = weight * y
        return z * z

    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor

    with torch.no_grad():
        f(torch.ones(3)), f(torch.ones(3))
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            f(torch.ones(3))
    assert packed


@pytest.mark.parametrize(("everywhere", "full"), [(False, False), (False, True), (True, True)])
def test_backward_hooks_that_come_later(everywhere: bool, full: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Identity())
    tracer.compile(model)
    x = torch.ones(1, 2, requires_grad=True)
    with torch.no_grad():
        expected = model(x)
        model(x)
    model(x).sum().backward(), model(x).sum().backward()
    seen: list[Any] = []
    module = torch.nn.modules.module

    def hook(owner: torch.nn.Module, *gradients: Any) -> None:
        seen.append(type(owner))

    if everywhere:
        handle = module.register_module_full_backward_hook(hook)
    else:
        handle = model[0].register_full_backward_hook(hook) if full else model[0].register_backward_hook(hook)
    try:
        with torch.no_grad():
            assert torch.equal(model(x), expected) and not seen
        model(x).sum().backward()
        assert torch.nn.Linear in seen
    finally:
        handle.remove()
    seen.clear()
    model(x).sum().backward()
    assert not seen


def test_backward_hooks_around_nothing_but_a_module_that_passes_on() -> None:
    """No operator is there, and so nothing else would say in which grad mode this was captured."""
    identity, seen = torch.nn.Identity(), []

    @tracer.disable
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def broken(x: torch.Tensor) -> torch.Tensor:
        return opaque(x)

    @tracer.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return broken(identity(x))

    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        f(x), f(x), f(x)
    identity.register_full_backward_hook(lambda *a: seen.append(1))
    f(x).sum().backward()
    assert seen == [1]


# leaves ---------------------------------------------------------------------------------------------------------------
def leaf_and_computed() -> tuple[torch.Tensor, torch.Tensor]:
    leaf = torch.ones(3, requires_grad=True)
    return leaf, torch.ones(3, requires_grad=True) * 1.0


@pytest.mark.parametrize("first", [0, 1])
def test_leaves_and_computed_tensors_share_a_region_that_does_not_care(first: int) -> None:
    backend = CountingBackend()

    @tracer.compile(backend=backend)
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sum()

    tensors = leaf_and_computed()
    for x in (tensors[first], tensors[1 - first]):
        f(x).backward()
    assert backend.frame_count == 1 and torch.equal(tensors[0].grad, torch.full((3,), 2.0))


@pytest.mark.parametrize("first", [0, 1])
def test_a_program_that_asks_whether_a_tensor_is_a_leaf(first: int) -> None:
    @tracer.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.is_leaf else x * 3

    tensors = leaf_and_computed()
    for at in (first, 1 - first, first):
        assert f(tensors[at]).tolist() == [2.0 + at] * 3


@pytest.mark.parametrize("first", [0, 1])
def test_in_place_changes_of_leaves(first: int) -> None:
    @tracer.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    for at in (first, 1 - first, first):
        x = leaf_and_computed()[at]
        if at:
            assert f(x).tolist() == [3.0] * 3
        else:
            with pytest.raises(RuntimeError, match="leaf"):
                f(x)
            assert x.tolist() == [1.0] * 3
