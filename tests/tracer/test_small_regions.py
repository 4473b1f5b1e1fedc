"""Small regions against the original bytecode, with a clock that only moves where the test says: so it is the same
at each run. One operator of the programs costs something when it really runs, another sum when the backend runs it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import tracer
from tracer.api import is_grafted, runtime
from tracer.backends import Backend, registry
from tracer.translate import measuring
from tracer.translate.measuring import FEW, MANY, MANY_ROWS, ROW, Trial

LIBRARY = torch.library.Library("torchgraft_small_regions", "DEF")
LIBRARY.define("work(Tensor x) -> Tensor")


@dataclass
class Machine:
    """Where time passes. ours, plain: seconds of the operator, as the backend runs it and in plain Python."""

    now: float = 0.0
    ours: float = 1.0
    plain: float = 1.0
    noise: Callable[[int], float] = lambda number: 0.0
    ran: list[str] = field(default_factory=list)

    def passes(self, what: str, seconds: float) -> None:
        self.ran.append(what)
        self.now += seconds + self.noise(len(self.ran))


MACHINE = Machine()


@torch.library.impl(LIBRARY, "work", "CompositeExplicitAutograd")
def _work(x: Tensor) -> Tensor:
    MACHINE.passes("plain", MACHINE.plain)
    return x + 1


torch.library.register_autograd(
    "torchgraft_small_regions::work", lambda ctx, gradient: gradient, lib=LIBRARY
)


@torch.library.register_fake("torchgraft_small_regions::work", lib=LIBRARY)
def _fake_work(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class Work(torch.autograd.Function):
    """The same, with a backward that takes time as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        MACHINE.passes("forward", MACHINE.ours)
        return x + 1

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        MACHINE.passes("backward", MACHINE.ours)
        return gradients[0]


def ticking(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """Runs the graph with another operator in the place of `work`."""
    for node in module.graph.nodes:
        if node.target in (torch.ops.torchgraft_small_regions.work, torch.ops.torchgraft_small_regions.work.default):
            node.target = _compiled_work
    module.recompile()
    return module.forward


def _compiled_work(x: Tensor) -> Tensor:
    if x.requires_grad and torch.is_grad_enabled():
        return Work.apply(x)
    MACHINE.passes("ours", MACHINE.ours)
    return x + 1


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    fresh = Machine()
    monkeypatch.setitem(globals(), "MACHINE", fresh)
    monkeypatch.setattr(measuring, "clock", lambda: fresh.now)
    monkeypatch.setattr(measuring, "LONG_CALL", 1e9)
    backend = Backend("ticking", ticking, tried=True)
    monkeypatch.setitem(registry.BUILT_IN, "ticking", lambda mode, options, dynamic: backend)
    tracer.install(backend="ticking")
    tracer.reset()
    yield fresh
    tracer.uninstall()


work = torch.ops.torchgraft_small_regions.work


def once(x: Tensor) -> Tensor:
    return work(x) * 2


def run(compiled: Any, calls: int, machine: Machine, *arguments: Any) -> list[str]:
    """What ran in so many calls, each of which is right."""
    machine.ran.clear()
    x = torch.ones(3)
    for _ in range(calls):
        assert torch.equal(compiled(x, *arguments), (x + 1) * 2)
    return list(machine.ran)


def state_of(compiled: Any) -> Any:
    state = runtime.state_of(compiled)
    assert state is not None
    return state


def regions(compiled: Any) -> list[Any]:
    return list(state_of(compiled).regions)


def test_the_faster_region_stays(machine: Machine) -> None:
    machine.ours, machine.plain = 1.0, 2.0
    compiled = tracer.compile(once, inplace=False)
    ran = run(compiled, 60, machine)
    assert ran.count("plain") in range(FEW, FEW + 5)  # so many turns, and no more
    assert run(compiled, 20, machine) == ["ours"] * 20
    [region] = regions(compiled)
    text = state_of(compiled).entries[state_of(compiled).first].text
    assert "k_turn" not in text and "k_trials" not in text and "k_enters" not in text and not state_of(compiled).stops
    report = str(tracer.explain(compiled)(torch.ones(3)))
    assert region.figures in report and "1000000.0 us compiled, 2000000.0 us plain" in report


def test_the_slower_region_goes(machine: Machine) -> None:
    machine.ours, machine.plain = 2.0, 1.0
    compiled = tracer.compile(once, inplace=False)
    run(compiled, 60, machine)
    assert run(compiled, 20, machine) == ["plain"] * 20
    assert not regions(compiled) and not is_grafted(compiled)  # its very own code: nothing is left that costs
    report = tracer.explain(compiled)(torch.ones(3))
    assert "runs plain: a region of 2 operators was slower" in str(report)
    assert "2000000.0 us compiled, 1000000.0 us plain" in report.entries[0].state


@pytest.mark.parametrize(("ours", "stays"), [(1.0, True), (1.02, True), (1.06, False)])
def test_a_close_case_takes_longer(ours: float, stays: bool, machine: Machine) -> None:
    machine.ours, machine.plain = ours, 1.0
    compiled = tracer.compile(once, inplace=False)
    assert {*run(compiled, 2 * FEW + 12, machine)[-4:]} == {"ours", "plain"}
    run(compiled, 2 * MANY, machine)
    assert {*run(compiled, 20, machine)} == {"ours" if stays else "plain"}


@pytest.mark.parametrize("every", [3, 5, 8])
def test_noise_switches_nothing_off(every: int, machine: Machine) -> None:
    """The machine does something else at times, for long."""
    machine.noise = lambda number: 50.0 if number % every == 0 else 0.0
    machine.ours, machine.plain = 1.0, 1.01
    compiled = tracer.compile(once, inplace=False)
    run(compiled, 8 * MANY, machine)
    assert run(compiled, 20, machine) == ["ours"] * 20


def test_guards_count_as_the_regions(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The original bytecode alone would not ask them."""
    monkeypatch.setattr(measuring, "clock", lambda: machine.now)
    monkeypatch.setattr(measuring, "LONG_CALL", 1e9)
    trial = Trial(until_next=False, done=lambda trial: True)
    for _ in range(2 * FEW + 4):
        trial.enter()
        machine.now += 0.5  # guards
        trial.turn()
        machine.now += 1.0
        trial.stop()
    assert {*trial.ours} == {1.5} and {*trial.plain} == {1.0} and trial.region_is_faster() is False


def test_the_cost_of_asking_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10**6))
    monkeypatch.setattr(measuring, "clock", lambda: float(next(ticks)))
    monkeypatch.setattr(measuring, "LONG_CALL", 1e9)
    trial = Trial(until_next=False, done=lambda trial: True)
    for _ in range(20):
        trial.enter()
        trial.turn()
        trial.stop()
    assert {*trial.ours} == {*trial.plain} == {1.0}


@pytest.mark.parametrize(("limit", "tried"), [(0, False), (1, False), (2, True)])
def test_how_small_is_small(limit: int, tried: bool, machine: Machine) -> None:
    tracer.install(backend="ticking", small_region=limit)
    machine.ours, machine.plain = 2.0, 1.0
    compiled = tracer.compile(once, inplace=False)
    run(compiled, 60, machine)
    assert run(compiled, 5, machine) == (["plain"] if tried else ["ours"]) * 5


@pytest.mark.parametrize("grad", [False, True])
def test_long_calls_are_not_tried_for_long(grad: bool, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is around the kernels weighs nothing there, and a trial would cost much."""
    monkeypatch.setattr(measuring, "LONG_CALL", 1e-3)
    machine.ours, machine.plain = 3e-3, 2e-3
    compiled = tracer.compile(once, inplace=False)
    x = torch.ones(3, requires_grad=grad)
    for _ in range(60):
        compiled(x)
    assert machine.ran.count("plain") < FEW
    machine.ran.clear()
    compiled(x)
    assert machine.ran == ["forward" if grad else "ours"]
    assert "a call takes more than 1 ms" in str(tracer.explain(compiled)(x))


def test_a_wrong_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="small_region"):
        tracer.install(small_region=-1)


def test_time_decides_of_no_random_numbers(machine: Machine) -> None:
    def function(x: Tensor) -> Tensor:
        return work(x) * 2 + torch.rand(3) * 0

    machine.ours, machine.plain = 2.0, 1.0
    compiled = tracer.compile(function, inplace=False)
    assert {*run(compiled, 60, machine)} == {"ours"}


def test_nor_where_the_program_wants_determinism(machine: Machine) -> None:
    machine.ours, machine.plain = 2.0, 1.0
    compiled = tracer.compile(once, inplace=False)
    torch.use_deterministic_algorithms(True)
    try:
        assert {*run(compiled, 60, machine)} == {"ours"}
    finally:
        torch.use_deterministic_algorithms(False)


def test_nor_within_a_checkpoint(machine: Machine) -> None:
    """It is run twice, and must save as many tensors both times, which another code would not do."""
    machine.ours, machine.plain = 2.0, 1.0
    compiled = tracer.compile(once, inplace=False)
    x = torch.ones(3, requires_grad=True)
    for _ in range(60):
        checkpoint(compiled, x, use_reentrant=False).sum().backward()
    assert {*machine.ran} == {"forward", "backward"}


def test_other_backends_keep_their_regions() -> None:
    tracer.install(backend="eager")
    try:
        compiled = tracer.compile(once, backend="eager", inplace=False)
        for _ in range(60):
            compiled(torch.ones(3))
        [region] = regions(compiled)
        assert not region.compiled.reports and not region.figures
    finally:
        tracer.uninstall()


@pytest.mark.parametrize("ours", [1.0, 3.0])
def test_a_region_that_ends_at_a_break(ours: float, machine: Machine) -> None:
    """What is behind the break is not measured with it."""
    printed: list[float] = []

    def function(x: Tensor) -> Tensor:
        y = work(x)
        printed.append(y.sum().item())
        MACHINE.passes("between", 100.0)
        return y * 2
    machine.ours, machine.plain = ours, 2.0
    compiled = tracer.compile(function, inplace=False)
    run(compiled, 120, machine)
    assert len(printed) == 120
    found = {name for name in run(compiled, 10, machine) if name != "between"}
    assert found == {"ours" if ours < 2 else "plain"}


def test_one_region_beside_another(machine: Machine) -> None:
    """The one that lost runs plain behind its guards, as long as the other one is there."""

    def function(x: Tensor, fast: bool) -> Tensor:
        if fast:
            return work(x) * 2
        return work(x.clone()) * 2

    compiled = tracer.compile(function, inplace=False)
    machine.ours, machine.plain = 1.0, 2.0
    run(compiled, 60, machine, True)
    machine.ours, machine.plain = 2.0, 1.0
    run(compiled, 60, machine, False)
    assert run(compiled, 5, machine, True) == ["ours"] * 5
    assert run(compiled, 5, machine, False) == ["plain"] * 5
    assert [region.compiled.off for region in regions(compiled)].count(True) == 1
    assert tracer.counters()["compilations"] == 2


def test_both_regions_lose(machine: Machine) -> None:
    def function(x: Tensor, first: bool) -> Tensor:
        return work(x) * 2 if first else work(x.clone()) * 2

    compiled = tracer.compile(function, inplace=False)
    machine.ours, machine.plain = 2.0, 1.0
    for _ in range(80):
        run(compiled, 1, machine, True)
        run(compiled, 1, machine, False)
    assert run(compiled, 5, machine, True) == run(compiled, 5, machine, False) == ["plain"] * 5
    assert not is_grafted(compiled)


def test_a_call_that_raises_is_no_sample(machine: Machine) -> None:
    class Odd(Exception):
        pass

    def function(x: Tensor, fails: bool) -> Tensor:
        y = work(x) * 2
        if fails:
            raise Odd
        return y

    compiled = tracer.compile(function, inplace=False)
    machine.ours, machine.plain = 1.0, 1.5
    for number in range(200):
        if number % 3 == 0:
            with pytest.raises(Odd):
                compiled(torch.ones(3), True)
        else:
            run(compiled, 1, machine, False)
    assert run(compiled, 5, machine, False) == ["ours"] * 5


def test_recursion(machine: Machine) -> None:
    def function(x: Tensor, depth: int) -> Tensor:
        if depth:
            return function(x, depth - 1)
        return work(x) * 2

    compiled = tracer.compile(function, inplace=False)
    machine.ours, machine.plain = 2.0, 1.0
    for _ in range(100):
        run(compiled, 1, machine, 0)
        run(compiled, 1, machine, 2)
    assert run(compiled, 5, machine, 0) == ["plain"] * 5


def test_other_threads_are_left_out_of_the_measuring(machine: Machine) -> None:
    machine.ours, machine.plain = 1.0, 2.0
    compiled = tracer.compile(once, inplace=False)
    run(compiled, 12, machine)
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(run(compiled, 30, machine)))
    thread.start()
    thread.join()
    assert found == [["ours"] * 30]
    run(compiled, 60, machine)
    assert run(compiled, 5, machine) == ["ours"] * 5


def test_a_reset_in_the_midst(machine: Machine) -> None:
    machine.ours, machine.plain = 2.0, 1.0
    compiled = tracer.compile(once, inplace=False)
    for calls in (3, 8, 9, 12, 20):
        run(compiled, calls, machine)
        tracer.reset()
    run(compiled, 60, machine)
    assert run(compiled, 5, machine) == ["plain"] * 5
    tracer.reset()
    assert run(compiled, 2, machine) == ["ours"] * 2  # it has another chance


def test_stances_in_the_midst(machine: Machine) -> None:
    machine.ours, machine.plain = 1.0, 2.0
    compiled = tracer.compile(once, inplace=False)
    run(compiled, 12, machine)
    with tracer.set_stance("force_eager"):
        assert run(compiled, 10, machine) == ["plain"] * 10
    run(compiled, 60, machine)
    assert run(compiled, 5, machine) == ["ours"] * 5


def test_a_loop_that_is_run_once(machine: Machine) -> None:
    """The frame keeps its code, in which no end is told: nothing can be measured, and the region stays."""

    def function(x: Tensor, steps: int) -> Tensor:
        for _ in range(steps):
            y = work(x) * 2
            print(end="")
        return y

    machine.ours, machine.plain = 2.0, 1.0
    compiled = tracer.compile(function, inplace=False)
    assert "ours" in run(compiled, 1, machine, 300)[-5:]


# training -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("ours", "faster"), [(1.0, True), (4.0, False)])
def test_the_backward_counts(ours: float, faster: bool, machine: Machine) -> None:
    """What passes until the next call is compared."""
    machine.ours, machine.plain = ours, 5.0  # of the forward alone the region is faster in both cases

    def function(x: Tensor) -> Tensor:
        return work(x) * 2

    compiled = tracer.compile(function, inplace=False)
    for _ in range(2 * MANY_ROWS * ROW + 40):
        machine.ran.clear()
        x = torch.ones(3, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad is not None and torch.equal(x.grad, torch.full((3,), 2.0))
    assert {*machine.ran} == ({"forward", "backward"} if faster else {"plain"})


@pytest.mark.parametrize("calls", [1, 5, 12])
@pytest.mark.parametrize(("backward", "faster"), [(2.0, True), (2.9, False)])
def test_one_backward_for_several_calls(
    backward: float, faster: bool, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each forward is slower compiled, but a faster backward may make up for that."""
    machine = Machine()
    monkeypatch.setattr(measuring, "clock", lambda: machine.now)
    monkeypatch.setattr(measuring, "LONG_CALL", 1e9)
    trial = Trial(until_next=True, done=lambda trial: True)
    number, owed = 0, 0.0
    while trial.region_is_faster() is None:
        trial.enter()
        plain = trial.turn()
        machine.now += 1.0 if plain else 1.5
        owed += 3.0 if plain else backward
        trial.stop()
        number += 1
        if number % calls == 0:
            machine.now, owed = machine.now + owed, 0.0
    assert trial.region_is_faster() is faster


def test_where_median_and_quartile_disagree_more_is_asked_for() -> None:
    """The machine was busy for a while: whom that hit is seen in twice as many calls."""
    trial = Trial(until_next=False, done=lambda trial: True)
    trial.plain += [1.0] * MANY
    trial.ours += [1.0] * (MANY // 3) + [1.2] * (MANY - MANY // 3)
    assert trial.region_is_faster() is None
    trial.plain += [1.0] * MANY
    trial.ours += [1.0] * (MANY // 3) + [1.2] * (MANY - MANY // 3)
    assert trial.region_is_faster() is False
    trial.ours[:] = [1.0] * (MANY + 2) + [1.2] * (MANY - 2)
    assert trial.region_is_faster() is True
