"""The straight way for graphs that autograd records: right in everything that autograd may be asked, and taken.

Plain Python is the judge; where numbers are compared bit for bit, AOTAutograd's own node is.
"""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import tracer
from tracer import torch_aot, torch_inductor
from tracer.api import runtime
from tracer.backends import StraightCall, toolchain
from tracer.backends.straight_training import StraightTraining

needs_compiler = pytest.mark.skipif(toolchain.missing_for_inductor() is not None, reason="no C++ compiler")
compiles = pytest.mark.compiles


def program(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Saves inputs and what is between; one result is a view for autograd's eyes, one has no gradient."""
    hidden = F.linear(x, w, b)
    wide = hidden.exp()
    return hidden, (wide * x).sum(-1), wide.argmax(-1)


def given(*, grads: str = "xwb", seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"x": (2, 3, 4), "w": (4, 4), "b": (4,)}
    return [torch.randn(shapes[name], generator=generator).requires_grad_(name in grads) for name in "xwb"]


def loss_of(results: Sequence[Tensor]) -> Tensor:
    return results[0].sin().sum() + (results[1] ** 2).sum()


def straight_calls(function: Any) -> list[StraightTraining]:
    state = runtime.state_of(function)
    assert state is not None
    calls = [region.compiled.call for region in state.regions]
    assert all(isinstance(call, StraightTraining) for call in calls), calls
    return calls


def warm(function: Callable[..., Any], make: Callable[[], Sequence[Tensor]], times: int = 5) -> None:
    for _ in range(times):
        results = function(*make())
        together = results if isinstance(results, tuple) else (results,)
        sum(r.sum() for r in together if r.requires_grad).backward()  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def installed() -> Iterator[None]:
    tracer.install(backend="inductor", small_region=0)
    tracer.reset()
    yield
    tracer.uninstall()


@pytest.fixture(scope="module")
def compiled(installed: None) -> Any:
    """`program`, warm: it goes straight, forward and backward."""
    function = tracer.compile(program, inplace=False)
    warm(function, given)
    [call] = straight_calls(function)
    assert call.is_settled and not call.reason
    assert call.backward is not None and call.backward.is_settled and not call.backward.reason
    return function


pytestmark = [needs_compiler]


# taken ----------------------------------------------------------------------------------------------------------------
@compiles
def test_it_is_taken_and_gives_the_same_bits(compiled: Any) -> None:
    [call] = straight_calls(compiled)
    layered_ran: list[str] = []
    function = call._function
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_fwd_fn", "_bwd_fn"):
            patch.setattr(function, name, lambda *_, name=name: layered_ran.append(name))
        for seed in range(3):
            ours, plain = given(seed=seed), given(seed=seed)
            results, expected = compiled(*ours), program(*plain)
            assert results[0].grad_fn.name() == "CompiledFunctionBackward"
            loss_of(results).backward()
            loss_of(expected).backward()
            torch.testing.assert_close([t.grad for t in ours], [t.grad for t in plain])
            torch.testing.assert_close(results, expected)
    assert not layered_ran
    ours, theirs = given(), given()
    results, expected = compiled(*ours), call._layered(*theirs)
    assert all(map(torch.equal, results, expected))
    loss_of(results).backward()
    loss_of(expected).backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(ours, theirs, strict=True))  # type: ignore[arg-type]


# what autograd may be asked -------------------------------------------------------------------------------------------
def retained(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    loss = loss_of(function(x, w, b))
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    return [t.grad for t in (x, w, b)]


def several_forwards(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    losses = [loss_of(function(x * n, w, b)) for n in range(3)]
    for n in (1, 0, 2):
        losses[n].backward()
    return [t.grad for t in (x, w, b)]


def one_result_unused(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    first = torch.autograd.grad(function(x, w, b)[0].sum(), (x, w, b), allow_unused=True)
    second = torch.autograd.grad(function(x, w, b)[1].sum(), (x, w, b))
    return [torch.zeros_like(t) if g is None else g for t, g in zip((x, w, b), first, strict=True)], second


def some_gradients(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    return torch.autograd.grad(loss_of(function(x, w, b)), (b,))


def gradients_of_other_layouts(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    hidden, other, _ = function(x, w, b)
    transposed = torch.arange(24.0).view(4, 3, 2).permute(2, 1, 0)
    torch.autograd.backward((hidden, other), (transposed, torch.arange(6.0).view(3, 2).t()))
    hidden, other, _ = function(x, w, b)
    (hidden.sum() + other.sum()).backward()
    hidden, other, _ = function(x, w, b)
    torch.autograd.backward((hidden, other), (hidden.detach()[:1].expand(2, 3, 4), torch.ones(4, 6)[::2, ::2]))
    return [t.grad for t in (x, w, b)]


def hooked(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    seen: list[Tensor] = []
    hidden, other, _ = function(x, w, b)
    other.register_hook(lambda gradient: gradient * 2)
    other.retain_grad()
    x.register_hook(lambda gradient: gradient + 1)
    node = other.grad_fn
    node.register_prehook(lambda outputs: tuple(None if g is None else g * 3 for g in outputs))
    node.register_hook(lambda inputs, outputs: seen.append(inputs[0]))
    loss_of((hidden, other)).backward()
    return [t.grad for t in (x, w, b, other)], len(seen)


def in_anomaly_mode(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    loss = loss_of(function(x, w, b))
    with torch.autograd.detect_anomaly(check_nan=True):
        loss.backward()
        loss_of(function(x, w, b)).backward()
    with pytest.raises(RuntimeError, match="nan values"), torch.autograd.detect_anomaly(check_nan=True):
        (function(x, w, b)[0] * float("nan")).sum().backward()
    return [t.grad for t in (x, w, b)]


def checkpointed(reentrant: bool) -> Callable[..., Any]:
    def run(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
        loss_of(checkpoint(function, x, w, b, use_reentrant=reentrant)).backward()
        return [t.grad for t in (x, w, b)]

    return run


kept_as_arrays = saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy)


def saved_elsewhere(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    for _ in range(4):
        with save_on_cpu():
            loss = loss_of(function(x, w, b))
        with kept_as_arrays:
            other = loss_of(function(x * 2, w, b))
        loss.backward()
        other.backward()
    return [t.grad for t in (x, w, b)]


def in_another_thread(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    loss = loss_of(function(x, w, b))
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    return [t.grad for t in (x, w, b)]


def backward_in_other_states(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    losses = [loss_of(function(x, w, b)) for _ in range(3)]
    with torch.no_grad():
        losses[0].backward()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=function is not program):  # eager's is for other products
        losses[1].backward()
    losses[2].backward()
    return [t.grad for t in (x, w, b)]


def of_gradients(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    """A backward within a backward."""

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Tensor) -> Tensor:
            ctx.save_for_backward(t)
            return t.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            with torch.enable_grad():
                inner = ctx.saved_tensors[0].detach().requires_grad_()
                [found] = torch.autograd.grad(loss_of(function(inner, w, b)), inner)
            return gradient + found

    loss_of(function(Twice.apply(x), w, b)).backward()
    return [t.grad for t in (x, w, b)]


def leaves_and_others(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    """Inputs that are views, or the same tensor, or results of the function itself."""
    double = (torch.cat([x, x]) * 2)[1:3]
    hidden, other, _ = function(double, w.t().t(), b)
    again = function(hidden, w, b)
    (loss_of(again) + other.sum()).backward()
    return [t.grad for t in (x, w, b)]


USES = [
    retained, several_forwards, one_result_unused, some_gradients, gradients_of_other_layouts, hooked, in_anomaly_mode,
    saved_elsewhere, in_another_thread, backward_in_other_states, of_gradients, leaves_and_others,
]  # fmt: skip


@compiles
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("use", USES)
def test_what_autograd_is_asked(use: Callable[..., Any], compiled: Any) -> None:
    torch.testing.assert_close(use(compiled, *given()), use(program, *given()))
    assert not [call.reason for call in straight_calls(compiled) if call.reason]
    assert not any(call.backward.reason for call in straight_calls(compiled) if call.backward is not None)
