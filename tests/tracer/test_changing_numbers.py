"""Python numbers that change from call to call and are computed with before they meet a tensor: two graphs, no more."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tests.support import CountingBackend, check_calls, compile_with

X = torch.tensor([0.5, 1.0, 2.0])
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, k: x * k,
    "float": lambda x, k: x * float(k),
    "int": lambda x, k: x * int(k * 1.5),
    "round": lambda x, k: x - round(k * 0.37, 1),
    "power": lambda x, k: x * 0.9**k,
    "root": lambda x, k: x * k**0.5,
    "quotient": lambda x, k: x + 1 / k,
    "remainder": lambda x, k: x + 100 % k,
    "floor": lambda x, k: x + 7.5 // k,
    "math": lambda x, k: x * math.cos(k) + math.log(k),
    "cosine schedule": lambda x, k: x - 0.5 * (1 + math.cos(math.pi * k / 100)) * x,
    "warm-up": lambda x, k: x * min(1.0, k / 6),
    "alpha": lambda x, k: torch.add(x, x.flip(0), alpha=k) + x.sub(x.flip(0), alpha=k / 2),
    "clamp": lambda x, k: x.clamp(-k / 10, k / 10) + torch.clamp(x, max=k / 5) + x.clamp_min(0.1 * k),
    "lerp": lambda x, k: torch.lerp(x, x.flip(0), 0.1 * k),
    "exponent": lambda x, k: x ** (k / 4) + torch.pow(x, -0.3 * k),
    "where": lambda x, k: torch.where(x > 0.6, x, k / 2) + x.where(x > 0.6, k),
    "masked_fill": lambda x, k: x.masked_fill(x > 0.6, k / 2),
    "full": lambda x, k: torch.full((3,), k / 2) + torch.full_like(x, k) + x.new_full((3,), 0.1 * k),
    "tensor": lambda x, k: torch.tensor(k) * torch.tensor([k, 0.5 * k, 2]) + x,
    "several": lambda x, k: x * (k + 0.5) + torch.tensor(k * 0.25) - k,
    "of a tensor": lambda x, k: x % k + x // k,
    "of integers": lambda x, k: (x * 4).long() * k + (x * 4).long() % k,
    "by name": lambda x, k: torch.mul(x, k / 7).add(k * 0.5).div_(k).fmod(k),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_two_graphs_serve_all(program: Callable[[Any, Any], Any]) -> None:
    backend = CountingBackend()
    compiled = compile_with(program, backend=backend)
    for k in range(1, 13):
        assert torch.equal(compiled(X, k), program(X, k))
    assert backend.frame_count == 2


#: what is computed and then dropped, and fails for some numbers
DROPPED: dict[str, Callable[[Any], Any]] = {
    "quotient": lambda k: 1 / k,
    "quotient of floats": lambda k: 1.0 / (k * 0.5),
    "whole quotient": lambda k: 1 // k,
    "remainder": lambda k: 5 % k,
    "both": lambda k: divmod(7, k),
    "power": lambda k: 0.0**k,
    "large power": lambda k: 10.0 ** (k * 200),
    "root": math.sqrt,
    "logarithm": math.log,
    "integer": lambda k: int(1 / k),
    "rounded": lambda k: round(1 / k, 2),
    "smallest": lambda k: min(1 / k, 2),
    "text": lambda k: f"{1 / k:.2f}",
    "compared": lambda k: 1 / k is None,
    "of a size": lambda k: 1 / (torch.ones(abs(k)).shape[0]),
}


@pytest.mark.parametrize("fails", DROPPED.values(), ids=DROPPED)
def test_an_error_of_a_result_that_nobody_uses_is_raised(fails: Callable[[Any], Any]) -> None:
    def f(x: Any, k: Any) -> Any:
        y = x * k
        fails(k)
        return y

    check_calls(f, *[(X, k) for k in (1, 2, 3, 0, 4, -1, 5, 0, -2)])


def test_a_number_taken_from_a_tensor() -> None:
    backend = CountingBackend()

    def f(x: Any, k: Any) -> Any:
        return x - int((x.sum() * k).item())

    compiled = compile_with(f, backend=backend)
    for k in range(1, 13):
        assert torch.equal(compiled(X, k * 1.1), f(X, k * 1.1))
    assert backend.frame_count <= 4  # two up to the break, two behind it


def test_what_raises_or_gives_another_number_is_done_by_python() -> None:
    check_calls(lambda x, k: x + 1 / k, (X, 2), (X, 3), (X, 0), (X, 4), (X, 0.0), (X, 2**70))
    check_calls(lambda x, k: (x.sin(), k**0.5), (X, 2), (X, 3), (X, -8), (X, 4))
    check_calls(lambda x, k: x * int(k), (X, 2.5), (X, 3.5), (X, float("nan")), (X, math.inf), (X, 4.5))
    check_calls(lambda x, k: x + math.log(k), (X, 2), (X, 3), (X, -1), (X, 4), (X, 2**2000))
    check_calls(lambda x, k: x * float(k), (X, 2), (X, 3), (X, 2**2000), (X, True), (X, 4))


def test_a_decision_that_depends_on_one_is_guarded() -> None:
    def f(x: Any, k: Any) -> Any:
        step = int(k / 3)
        if step % 2:
            return x + step
        return x.sin() * step

    check_calls(f, *((X, k) for k in range(1, 12)))


# numbers that the program counts up itself ----------------------------------------------------------------------------
class Counter(torch.nn.Module):
    counts: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.step, self.counts = 0, {"train": 0.5}

    def forward(self, x: Any) -> Any:
        self.step += 1
        self.counts["train"] *= 0.9
        return x * self.counts["train"] / self.step

    def used_first(self, x: Any) -> Any:
        y = x * self.step - self.counts["train"]
        self.step = self.step + 2
        self.counts["train"] = 1 - self.counts["train"] / 3
        return y


STEPS = 0


def count_globally(x: Any) -> Any:
    global STEPS
    STEPS += 1
    return x * STEPS


def counting_in_a_closure() -> Callable[[Any], Any]:
    steps = 0

    def count(x: Any) -> Any:
        nonlocal steps
        steps += 1
        return x.sin() / steps

    return count


COUNTING: dict[str, Callable[[], Any]] = {
    "attribute": Counter, "used first": lambda: Counter().used_first, "global": lambda: count_globally,
    "cell": counting_in_a_closure,
}  # fmt: skip


@pytest.mark.parametrize("make", COUNTING.values(), ids=COUNTING)
def test_one_graph_serves_what_counts_itself(make: Callable[[], Any]) -> None:
    global STEPS
    STEPS = 0
    plain, backend = make(), CountingBackend()
    expected = [plain(X) for _ in range(10)]
    STEPS = 0
    compiled = compile_with(make(), backend=backend, inplace=False)
    assert all(torch.equal(compiled(X), result) for result in expected)
    assert backend.frame_count == 1


def test_a_counter_that_must_be_a_constant_is_captured_once_more() -> None:
    class Growing:
        def __init__(self) -> None:
            self.power = 1

        def run(self, x: Any) -> Any:
            y = torch.linalg.matrix_power(x, self.power)
            self.power += 1
            return y

    matrix = torch.rand(3, 3)
    plain, compiled = Growing(), Growing()
    run = compile_with(compiled.run, backend="eager")
    assert all(torch.equal(run(matrix), plain.run(matrix)) for _ in range(5))
    assert compiled.power == 6


def test_a_backend_that_takes_no_floats_gets_constants() -> None:
    seen: list[bool] = []

    def refusing(graph: torch.fx.GraphModule, examples: Any) -> Callable[..., Any]:
        seen.append(any(isinstance(example, torch.SymFloat) for example in examples))
        if seen[-1]:
            raise ValueError("a float")
        return graph.forward

    def f(x: Any, k: Any) -> Any:
        return x**k

    compiled = compile_with(f, backend=refusing)
    for k in (0.3, 0.7, 0.4):
        assert torch.equal(compiled(X, k), f(X, k))
    assert seen == [False, True, False, False]


def test_an_operator_that_decides_by_a_float_guards_it() -> None:
    def f(x: Any, p: Any) -> Any:
        return torch.nn.functional.dropout(x, p, training=False) ** p, torch.quantile(x, p)

    check_calls(f, *((X, p) for p in (0.3, 0.7, 1.0, 0.0, -0.0, 1.5, 0.4, math.nan)))


# exactly the same -----------------------------------------------------------------------------------------------------
EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "x + k": lambda x, k: x + k, "k - x": lambda x, k: k - x, "x * k": lambda x, k: x * k, "x / k": lambda x, k: x / k,
    "k / x": lambda x, k: k / x, "x % k": lambda x, k: x % k, "x // k": lambda x, k: x // k,
    "k % x": lambda x, k: k % x, "x ** k": lambda x, k: x**k,
    "x < k": lambda x, k: x < k, "k == x": lambda x, k: k == x,
    "add": lambda x, k: torch.add(x, k),
    "mul_": lambda x, k: x.clone().mul_(k), "fmod": lambda x, k: torch.fmod(x, k),
    "floor_divide": lambda x, k: torch.floor_divide(x, k),
    "ge": lambda x, k: torch.ge(x, k), "clamp": lambda x, k: x.clamp(-k, k),
    "clamp between": lambda x, k: torch.clamp(x, -0.5, k),
    "clamp_max": lambda x, k: x.clamp_max(k), "lerp": lambda x, k: torch.lerp(x, x.flip(0), k),
    "where": lambda x, k: torch.where(x > 0, x, k), "where not": lambda x, k: torch.where(x > 0, k, x),
    "where by method": lambda x, k: x.where(x > 0, k),
    "masked_fill": lambda x, k: x.masked_fill(x > 0, k), "fill_": lambda x, k: x.clone().fill_(k),
    "full": lambda x, k: torch.full((3,), k), "full of a dtype": lambda x, k: torch.full((3,), k, dtype=x.dtype),
    "full_like": lambda x, k: torch.full_like(x, k), "new_full": lambda x, k: x.new_full((2,), fill_value=k),
    "tensor": lambda x, k: torch.tensor(k) + x, "tensor of a list": lambda x, k: torch.tensor([k, k + 1, 2]),
    "tensor of a dtype": lambda x, k: torch.tensor((k, 0.5), dtype=torch.float64),
    "add alpha": lambda x, k: torch.add(x, x.flip(0), alpha=k), "sub alpha": lambda x, k: x.sub(x.flip(0), alpha=k),
}  # fmt: skip
FLOATS = (0.3, 0.7, -1.1, 0.0, -0.0, 1e-42, 1e300, math.inf, math.nan, 0.6)
INTS = (3, 5, -2, 0, 200, 2**31, 2**53 + 1, 2**63, 7)
SPECIAL = torch.tensor([1.5, -0.7, 0.3, 0.0, -0.0, math.inf, math.nan, -2.5, 0.9, 1e-3, 7.0])
TENSORS = {
    "float32": (SPECIAL, FLOATS), "float64": (SPECIAL.double(), FLOATS), "float32, int": (SPECIAL, INTS),
    "int64": (torch.tensor([1, 2, -5, 0, 2**40]), INTS), "int8": (torch.tensor([1, -2, 100], dtype=torch.int8), INTS),
    "int64, float": (torch.tensor([1, 2, -5, 0, 2**40]), FLOATS), "bfloat16": (SPECIAL.bfloat16(), FLOATS),
    "no dimension": (torch.tensor(0.3), FLOATS), "gradient": (torch.tensor([0.5, -1.5, 2.0]).requires_grad_(), FLOATS),
}  # fmt: skip


def with_many_regions(fn: Any, **options: Any) -> Any:
    compiled = compile_with(fn, **options)
    tracer.install(recompile_limit=100)
    return compiled


@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize("program", EXACT)
def test_bits_dtype_gradient_and_errors_are_those_of_the_number(program: str, tensor: str) -> None:
    x, numbers = TENSORS[tensor]
    calls = [(x, k) for k in numbers]
    check_calls(EXACT[program], *calls, compiler=with_many_regions, backward=x.requires_grad)
