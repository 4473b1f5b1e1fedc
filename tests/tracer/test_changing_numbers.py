"""Python numbers that change from call to call and are computed with before they meet a tensor: two graphs, no more."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

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
    "warm-up": lambda x, k: x * min(1.0, k / 100),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_two_graphs_serve_all(program: Callable[[Any, Any], Any]) -> None:
    backend = CountingBackend()
    compiled = compile_with(program, backend=backend)
    for k in range(1, 13):
        assert torch.equal(compiled(X, k), program(X, k))
    assert backend.frame_count == 2


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
