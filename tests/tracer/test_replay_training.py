"""Training with replay: forward and backward are recordings; gradients are eager's in every order of calls."""

from __future__ import annotations

import copy
import gc
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tracer
from tests.tracer import replaying
from tests.tracer.replaying import Tensor, notes
from tracer.backends import toolchain
from tracer.backends.straight_training import StraightTraining

pytestmark = pytest.mark.usefixtures("installed_with_defaults")
needs_compiler = pytest.mark.skipif(toolchain.missing_for_inductor() is not None, reason="no C++ compiler")
INNER = ["aot_eager", pytest.param("inductor", marks=needs_compiler)]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.gelu(self.norm(self.first(x))))


class Both:
    """A model and its plain copy, which do the same things and must agree at each of them."""

    def __init__(self, inner: str = "aot_eager", model: nn.Module | None = None, **more: Any) -> None:
        torch.manual_seed(0)
        self.plain = model or Model()
        self.ours = copy.deepcopy(self.plain)
        tracer.compile(self.ours, backend="cudagraph", options=replaying.options(inner=inner, **more))
        self.models = (self.ours, self.plain)

    def batch(self, seed: int) -> Tensor:
        return torch.randn(4, 6, generator=torch.Generator().manual_seed(seed))

    def agree(self) -> None:
        for ours, plain in zip(self.ours.parameters(), self.plain.parameters(), strict=True):
            torch.testing.assert_close(ours, plain)
            torch.testing.assert_close(ours.grad, plain.grad)
        for ours, plain in zip(self.ours.buffers(), self.plain.buffers(), strict=True):
            torch.testing.assert_close(ours, plain)

    @property
    def replays(self) -> tuple[int, int]:
        """Of forward and backward, in all regions."""
        counts = {"forward": 0, "backward": 0}
        for line in notes(self.ours).splitlines():
            name, _, rest = line.partition(": ")
            if " replays" in rest and name in counts:
                counts[name] += int(rest.split(", ")[1].split()[0])
        return counts["forward"], counts["backward"]


@pytest.mark.parametrize(("inner", "set_to_none", "zero_first"), [
    *(("aot_eager", none, first) for none in (True, False) for first in (True, False)),
    pytest.param("inductor", True, False, marks=needs_compiler),
])  # fmt: skip
def test_steps(inner: str, set_to_none: bool, zero_first: bool) -> None:
    both = Both(inner)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in both.models]
    losses = []
    for step in range(8):
        for model, optimizer in zip(both.models, optimizers, strict=True):
            if zero_first:
                optimizer.zero_grad(set_to_none=set_to_none)
            loss = model(both.batch(step)).pow(2).mean()
            if not zero_first:
                optimizer.zero_grad(set_to_none=set_to_none)
            loss.backward()
            optimizer.step()
            losses.append(loss)
        both.agree()
    torch.testing.assert_close(losses[::2], losses[1::2])
    forward, backward = both.replays
    assert forward >= 4 and backward >= 2, notes(both.ours)
    if inner == "inductor":  # its node is a straight one
        state = tracer.api.runtime.state_of(both.ours)
        assert state is not None
        [call] = [region.compiled.call._call for region in state.regions]
        assert isinstance(call, StraightTraining) and not call.reason
        assert call.backward is not None and call.backward.is_settled and not call.backward.reason


@pytest.mark.parametrize("inner", INNER)
def test_gradient_accumulation(inner: str) -> None:
    both = Both(inner)
    for step in range(4):
        for model in both.models:
            model.zero_grad()
            for part in range(3):
                model(both.batch(3 * step + part)).pow(2).mean().backward()
        both.agree()
    assert min(both.replays) >= 6, notes(both.ours)


def test_gradients_that_are_kept_are_not_overwritten() -> None:
    both = Both()
    kept: list[list[list[Tensor]]] = [[], []]
    for step in range(6):
        for which, model in enumerate(both.models):
            grads = torch.autograd.grad(model(both.batch(step)).pow(2).sum(), list(model.parameters()))
            kept[which].append(list(grads))
    torch.testing.assert_close(*kept)
    assert min(both.replays) >= 2


@pytest.mark.parametrize(("inner", "count"), [
    ("aot_eager", 2), ("aot_eager", 6), pytest.param("inductor", 6, marks=needs_compiler),
])  # fmt: skip
def test_several_forwards_before_a_backward(inner: str, count: int) -> None:
    """Each of them has activations of its own; beyond `replay_lanes` the inner callable runs."""
    both = Both(inner)
    for step in range(4):
        for model in both.models:
            model.zero_grad()
            outputs = [model(both.batch(count * step + part)) for part in range(count)]
            for output in outputs if step % 2 else reversed(outputs):
                output.pow(2).mean().backward()
        both.agree()
    assert min(both.replays) >= 4, notes(both.ours)
    assert ("more results are held than replay_lanes" in notes(both.ours)) == (count > 4)
    if count > 4:  # the fifth and sixth of three steps; a backward of theirs reads nothing where it stays
        assert "its forward was not replayed (" in notes(both.ours)
        assert len([line for line in notes(both.ours).splitlines() if line.startswith("backward: 4 rec")]) == 1


def test_retain_graph() -> None:
    both = Both()
    held = []
    for step in range(6):
        for model in both.models:
            model.zero_grad()
            output = model(both.batch(step)).pow(2)
            output.sum().backward(retain_graph=True)
            output.mean().backward(retain_graph=step == 2)
            if step == 2:
                held.append((model, output))
        both.agree()
    for model, output in held:
        model.zero_grad()
        (output * 3).sum().backward()
    both.agree()
    assert min(both.replays) >= 3


@pytest.mark.parametrize("inner", ["aot_eager", pytest.param("inductor", marks=needs_compiler)])
def test_a_backward_that_is_kept_behind_ones_that_were_not(inner: str) -> None:
    """Torch compiles a backward for its first run: it must not count on what is saved being its own."""

    class Saves(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).exp().sin().exp().tanh()

    both = Both(inner, Saves(6, 6))
    for step in range(6):
        for model in both.models:
            model.zero_grad()
            loss = model(both.batch(step)).sum()
            loss.backward(retain_graph=step == 3)
            if step == 3:
                loss.backward()
        both.agree()
    assert min(both.replays) >= 3


def test_evaluation_between_forward_and_backward() -> None:
    """A region without gradients that was recorded first runs while activations are alive."""
    both = Both()
    for _ in range(4):
        with torch.no_grad():
            torch.testing.assert_close(*(model(both.batch(77)) for model in both.models))
    for step in range(8):
        results = []
        for model in both.models:
            model.zero_grad()
            output = model(both.batch(step))
            with torch.no_grad():
                results.append(model(both.batch(100 + step)))
            output.pow(2).mean().backward()
        torch.testing.assert_close(*results)
        both.agree()
    assert min(both.replays) >= 3, notes(both.ours)


def test_evaluation_mode_between_steps() -> None:
    both = Both()
    for step in range(6):
        results = []
        for model in both.models:
            model.train()
            model.zero_grad()
            model(both.batch(step)).pow(2).mean().backward()
            model.eval()
            with torch.no_grad():
                results.append(model(both.batch(step)))
        torch.testing.assert_close(*results)
        both.agree()
    assert min(both.replays) >= 2


def test_two_models_take_turns() -> None:
    """Each one's replay meets the other's activations, whichever was recorded first."""
    first, second = Both(), Both()
    for step in range(10):
        for one, other in zip(first.models, second.models, strict=True):
            one.zero_grad()
            other.zero_grad()
            a, b = (one(first.batch(step)), other(first.batch(step + 50)))
            order = (a, b) if step % 2 else (b, a)
            for output in order:
                output.pow(2).mean().backward()
        first.agree()
        second.agree()
    assert min(first.replays) >= 2 and min(second.replays) >= 2


class WithDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.linear(x), 0.5).sin()


@pytest.mark.parametrize("inner", INNER)
def test_dropout(inner: str) -> None:
    """Each replay draws anew, the generator moves on as far as the inner callable would, and a seed gives it again."""
    torch.manual_seed(0)
    model = WithDropout()
    tracer.compile(model, backend="cudagraph", options=replaying.options(inner=inner, replay_warm_up=2))
    x = torch.randn(4, 6)
    runs = []
    for seed in (1, 1):
        torch.manual_seed(seed)
        for _ in range(6):
            model.zero_grad()
            output = model(x)
            output.sum().backward()
            runs.append((output.detach().clone(), model.linear.weight.grad.clone(), torch.rand(1)))
    for before, after in zip(runs[:6], runs[6:], strict=True):  # recorded in the midst of the first six
        torch.testing.assert_close(before, after, rtol=0, atol=0)
    assert len({output.sum().item() for output, _, _ in runs}) == 6
    assert "12 calls" not in notes(model) and "replays" in notes(model)


def test_random_numbers_are_those_of_eager() -> None:
    def noise(x: Tensor) -> Tensor:
        return x + torch.rand_like(x)

    fn, x = replaying.replayed(noise), torch.zeros(5)
    results = []
    with torch.no_grad():
        for function in (fn, noise):
            torch.manual_seed(4)
            results.append([function(x) for _ in range(6)])
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert replaying.counted("replays") >= 3


@pytest.mark.parametrize("inner", INNER)
def test_inputs_and_outputs_that_alias_in_training(inner: str) -> None:
    def program(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        y = (x * w).relu()
        return y, y.view(-1), x.view(-1), y.t() * 2

    fn = replaying.replayed(program, inner=inner)
    held = []
    for seed in range(6):
        torch.manual_seed(seed)
        x, w = torch.randn(3, 4), torch.randn(4)
        grads = []
        for function in (fn, program):
            leaf = w.clone().requires_grad_()
            results = function(x, leaf)
            places = [result.untyped_storage().data_ptr() for result in results]
            assert places[0] == places[1] != places[2] == x.untyped_storage().data_ptr()
            sum(result.sum() for result in results).backward()
            grads.append(leaf.grad)
            held.append([result.detach() for result in results])
        torch.testing.assert_close(*grads)
        torch.testing.assert_close(held[-2], held[-1])
    torch.testing.assert_close(held[::2], held[1::2])
    assert "forward: " in notes(fn) and "replays" in notes(fn)


def test_a_user_input_that_requires_grad() -> None:
    both = Both()
    for step in range(6):
        grads = []
        for model in both.models:
            x = both.batch(step).requires_grad_()
            model(x).pow(2).sum().backward()
            grads.append(x.grad)
        torch.testing.assert_close(*grads)


def test_writing_to_a_result_before_the_backward() -> None:
    """Eager refuses where it needs what was written; a recording has its own, and must not give other numbers."""

    def program(x: Tensor, w: Tensor) -> Tensor:
        return (x * w).exp()

    fn = replaying.replayed(program)
    for seed in range(6):
        torch.manual_seed(seed)
        x, w = torch.randn(3), torch.randn(3).requires_grad_()
        output = fn(x, w)
        with torch.no_grad():
            output.zero_()
        try:
            output.sum().backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
        else:
            torch.testing.assert_close(w.grad, x * (x * w).exp().detach())


def test_recordings_go_with_a_trained_model() -> None:
    both = Both()
    for step in range(5):
        both.ours(both.batch(step)).sum().backward()
    assert min(both.replays) >= 2 and replaying.counted("replay_bytes") > 0
    both.ours = None  # type: ignore[assignment]
    both.models = ()  # type: ignore[assignment]
    gc.collect()
    assert replaying.counted("recordings") == 0


def test_dynamic_batches_train() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    ours = copy.deepcopy(plain)
    tracer.compile(ours, backend="cudagraph", dynamic=True, options=replaying.options(max_replay_shapes=2))
    for n, size in enumerate((4, 5, 6, 4, 5, 6, 4, 5, 6, 4, 5, 6)):
        x = torch.randn(size, 6, generator=torch.Generator().manual_seed(n))
        grads = []
        for model in (ours, plain):
            model.zero_grad()
            model(x).pow(2).mean().backward()
            grads.append([p.grad for p in model.parameters()])
        torch.testing.assert_close(*grads)
    assert "more combinations of sizes than max_replay_shapes" in notes(ours) and "replays" in notes(ours)


def test_threads_train_their_own_steps() -> None:
    both = Both()
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for step in range(8):
                x = both.batch(10 * seed + step)
                params, ours = list(both.plain.second.parameters()), list(both.ours.second.parameters())
                got = torch.autograd.grad(both.ours(x).pow(2).sum(), ours)
                torch.testing.assert_close(got, torch.autograd.grad(both.plain(x).pow(2).sum(), params))
        except BaseException as failure:
            failures.append(failure)

    for model in both.models:
        model.norm = nn.Identity()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
