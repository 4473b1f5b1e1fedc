"""Training steps in a compiled function, and optimizers' own steps compiled: bit for bit what eager computes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from tests.comparing import Comparison
from tests.support import CountingBackend, compile_with

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
OPTIMIZERS = {
    "SGD": [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {"foreach": True},
        {"fused": True},
    ],
    "Adam": [{}, {"foreach": True}, {"fused": True}, {"amsgrad": True}],
    "AdamW": [{}, {"foreach": True}, {"fused": True}, {"maximize": True}],
    "RMSprop": [{}],
    "Adagrad": [{}, {"fused": True}],
    "Adadelta": [{}],
    "Adamax": [{}],
    "ASGD": [{}],
    "NAdam": [{}],
    "RAdam": [{}],
    "Rprop": [{}],
}
CASES = [(name, options) for name, several in OPTIMIZERS.items() for options in several]


def setup(name="AdamW", **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 2))
    return model, getattr(torch.optim, name)(model.parameters(), lr=0.01, **options)


def state_of(model, optimizer, *more):
    state = [optimizer.state_dict(), *more]
    return [p.detach().clone() for p in model.parameters()], copy.deepcopy(state)


def compare(run, make):
    """What `run(compile, *made)` gives and leaves, plain and compiled."""
    found = [run(compile, *make()) for compile in (lambda f, **_: f, compile_with)]
    Comparison().same(*found, "what the steps gave and left")


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_training_step(name, options):
    def run(compile, model, optimizer):
        def step(x):
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        step = compile(step, backend="eager")
        losses = [step(X + i / 10).detach() for i in range(6)]
        return losses, state_of(model, optimizer)

    compare(run, lambda: setup(name, **options))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_step_of_an_optimizer(name, options):
    def run(compile, model, optimizer):
        step = compile(optimizer.step, backend="eager", inplace=False)
        for i in range(6):
            for j, p in enumerate(model.parameters()):
                p.grad = torch.full_like(p, 0.1 * (i + j) - 0.2)
            step()
        return state_of(model, optimizer)

    compare(run, lambda: setup(name, **options))


SCHEDULERS = [
    lambda o: lr_scheduler.StepLR(o, 2, 0.5),
    lambda o: lr_scheduler.CosineAnnealingLR(o, 10),
    lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    lambda o: lr_scheduler.LambdaLR(o, lambda i: 0.9**i),
    lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
]


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=["step", "cosine", "one cycle", "lambda", "plateau"])
@pytest.mark.parametrize("inside", [True, False])
def test_schedulers_change_lr_without_recompiling(scheduler, inside):
    backend = CountingBackend()
    after = []

    def run(compile, model, optimizer):
        schedule = scheduler(optimizer)
        arguments = (1.0,) if isinstance(schedule, lr_scheduler.ReduceLROnPlateau) else ()

        def step(x):
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            if inside:
                schedule.step(*arguments)
            optimizer.zero_grad()
            return loss

        step = compile(step, backend=backend)
        losses = []
        for _ in range(8):
            losses.append(step(X).detach())
            if not inside:
                schedule.step(*arguments)
            after.append(backend.frame_count)
        return losses, state_of(model, optimizer, schedule.get_last_lr())

    compare(run, setup)
    assert after[-1] >= 1
    assert after[-1] == after[-5], after


def test_gradients_are_clipped_in_the_graph():
    backend = CountingBackend()

    def run(compile, model, optimizer):
        def clip():
            return nn.utils.clip_grad_norm_(model.parameters(), 0.5)

        def clip_values():
            nn.utils.clip_grad_value_(model.parameters(), 0.1)

        clip, clip_values = compile(clip, backend=backend, fullgraph=True), compile(clip_values, backend=backend)
        norms = []
        for i in range(4):
            model(X * (i + 1)).square().sum().backward()
            norms.append(clip())
            clip_values()
            optimizer.step()
            optimizer.zero_grad()
        return norms, state_of(model, optimizer)

    compare(run, setup)
    assert backend.op_count > 4


@pytest.mark.parametrize("enabled", [True, False])
def test_grad_scaler(enabled):
    def run(compile, model, optimizer):
        scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=2, enabled=enabled)

        def step(x):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(x).float().square().sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss

        step = compile(step, backend="eager")
        losses = [step(X * (i + 1) if i != 3 else X * float("inf")).detach() for i in range(6)]
        return losses, scaler.get_scale(), state_of(model, optimizer)

    compare(run, setup)


def test_a_closure_and_accumulated_gradients():
    def run(compile, model, optimizer):
        def step(x):
            def closure():
                optimizer.zero_grad()
                loss = model(x).square().sum()
                loss.backward()
                return loss

            return optimizer.step(closure)

        def accumulate(x):
            for part in x.split(1):
                (model(part).square().sum() / len(x)).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        step, accumulate = compile(step, backend="eager"), compile(accumulate, backend="eager")
        losses = []
        for _ in range(4):
            losses.append(step(X).detach())
            accumulate(X)
        return losses, state_of(model, optimizer)

    compare(run, setup)


def test_hooks_of_an_optimizer_and_the_average_of_models():
    def run(compile, model, optimizer):
        calls = []
        optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append("before"))
        optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append("behind"))
        average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )

        def step(x):
            model(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            average.update_parameters(model)

        step = compile(step, backend="eager")
        for _ in range(4):
            step(X)
        return calls, state_of(average, optimizer)

    compare(run, setup)


def test_what_comes_before_and_behind_the_backward_pass_is_compiled():
    backend = CountingBackend()
    model, optimizer = setup()

    def step(x):
        loss = model(x).square().sum()
        loss.backward()
        total = sum(p.grad.square().sum() for p in model.parameters())
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach() + total.sqrt()

    compiled = compile_with(step, backend=backend)
    for _ in range(5):
        compiled(X)
    text = "\n".join(str(graph.graph) for graph in backend.graphs)
    assert "linear" in text
    assert text.count("square") > 4
    assert backend.calls >= 2 * 5 - 2
