"""The comparison harness itself: two plain sides agree, and each kind of wrong compiler is caught."""

from __future__ import annotations

import collections
import dataclasses
import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.comparing import Comparison
from tests.support import CountingBackend, Different, check, check_calls

totals = {"calls": 0}
history: list[Any] = []


def some_defaults(n: int = 1) -> int:
    return n


def other_defaults(n: int = 2) -> int:
    return n


other_defaults.__name__ = other_defaults.__qualname__ = "some_defaults"


class Box:
    def __init__(self, value: Any) -> None:
        self.value = value


@dataclasses.dataclass(slots=True)
class Slotted:
    value: Any
    other: Any = None


def check_against(fn: Callable[..., Any], impostor: Callable[..., Any], *inputs: Any, **options: Any) -> None:
    check(fn, *inputs, compiler=lambda _fn, **_: impostor, **options)


def unchanged(fn: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    return fn


def busy(x: torch.Tensor, things: list[Any], box: Box) -> Any:
    global created
    totals["calls"] += 1
    created = len(things)  # type: ignore[name-defined]
    history.append(x.sum())
    things.append(x.mul_(2))
    box.value = (torch.rand(3), random.random(), things)
    print("busy", len(things))
    return x[1:], things, box, {"a": float("nan"), "b": {1, 2}}, iter([1, 2]), functools.partial(busy, 1)


def test_plain_agrees_with_itself() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    check(busy, x, [x, x[0]], Box(x), compiler=unchanged)
    assert totals == {"calls": 0} and history == [], "both sides must work on copies of the globals"
    assert "created" not in globals()
    assert x.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_methods_modules_closures_and_backward() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    check(model, torch.randn(2, 3), backward=True, compiler=unchanged)
    assert model[0].weight.grad is None
    count = 0

    def counting(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return x + count

    check(counting, torch.ones(2), compiler=unchanged)
    assert count == 0


def raises(n: int) -> int:
    try:
        return [1][n]
    except IndexError as error:
        raise ValueError("no", n) from error


def test_exceptions_agree() -> None:
    check(raises, 3, compiler=unchanged)


X = torch.tensor([1.0, 2.0])

WRONG_RESULTS: dict[str, tuple[Any, Any]] = {
    "value": (X, X + 1),
    "nan": (torch.tensor([float("nan")]), X[:1]),
    "sign of zero": (torch.tensor(0.0), torch.tensor(-0.0)),
    "python sign of zero": (0.0, -0.0),
    "dtype": (X, X.double()),
    "shape": (X, X[None]),
    "stride": (torch.ones(2, 2), torch.ones(2, 2).T),
    "requires_grad": (X, X.clone().requires_grad_()),
    "grad_fn": (X.clone().requires_grad_() * 2, X.clone().requires_grad_() + 0),
    "parameter": (X, torch.nn.Parameter(X, requires_grad=False)),
    "int for bool": (True, 1),
    "int for float": (1.0, 1),
    "tuple for list": ([1], (1,)),
    "length": ([1], [1, 2]),
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "set": ({1, 2}, {1, 3}),
    "deque": (collections.deque([1]), collections.deque([2])),
    "attribute": (Box(1), Box(2)),
    "slot": (Slotted(1), Slotted(2)),
    "missing attribute": (Box(1), object.__new__(Box)),
    "iterator's place": (iter([1, 2]), iter([2])),
    "partial": (functools.partial(int, 1), functools.partial(int, 2)),
    "defaults": (some_defaults, other_defaults),
    "bound method": ([1].append, [2].append),
    "alias lost": ((a := [1], a), ([1], [1])),
    "alias made": (([1], [1]), (b := [1], b)),
    "shared memory lost": ((X, X[:1]), (X.clone(), X[:1].clone())),
    "shared memory made": ((X.clone(), X[:1].clone()), (X, X[:1])),
    "view for the tensor": ((X, X), (X, X.view(2))),
}


@pytest.mark.parametrize("kind", WRONG_RESULTS)
def test_wrong_result_is_caught(kind: str) -> None:
    right, wrong = WRONG_RESULTS[kind]
    Comparison().same(right, right, "result")
    with pytest.raises(Different, match="result"):
        Comparison().same(right, wrong, "result")


def set_total() -> None:
    totals["calls"] = 1


def set_new_global() -> None:
    global made
    made = 1  # type: ignore[name-defined]


def wrong_line(n: int) -> int:
    if n:

        return raises(n)
    return 0


def same_lines(n: int) -> int:
    if n:
        return raises(n)
    return 0


def print_it() -> None:
    print("here")


def raise_from(error: BaseException, cause: BaseException | None) -> None:
    raise error from cause


WRONG_EFFECTS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "argument": (lambda a: a.append(1), lambda a: None, ([],)),
    "tensor argument": (lambda x: (x.add_(1), None)[1], lambda x: None, (X.clone(),)),
    "argument's identity": (lambda b: None, lambda b: setattr(b, "value", [*b.value]), (Box([1]),)),
    "global": (set_total, lambda: None, ()),
    "new global": (set_new_global, lambda: None, ()),
    "output": (print_it, lambda: None, ()),
    "no exception": (raises, lambda n: None, (3,)),
    "needless exception": (lambda n: None, raises, (3,)),
    "type of exception": (lambda: raise_from(KeyError(1), None), lambda: raise_from(IndexError(1), None), ()),
    "message": (lambda: raise_from(KeyError(1), None), lambda: raise_from(KeyError(2), None), ()),
    "cause": (lambda: raise_from(KeyError(1), None), lambda: raise_from(KeyError(1), KeyError()), ()),
    "traceback": (same_lines, wrong_line, (3,)),
    "torch's random state": (lambda: (torch.rand(1), None)[1], lambda: None, ()),
    "random state": (lambda: (random.random(), None)[1], lambda: None, ()),
}


@pytest.mark.parametrize("kind", WRONG_EFFECTS)
def test_wrong_effect_is_caught(kind: str) -> None:
    right, wrong, inputs = WRONG_EFFECTS[kind]
    check(right, *inputs, compiler=unchanged)
    with pytest.raises(Different):
        check_against(right, wrong, *inputs)


def test_a_mode_left_behind_is_caught() -> None:
    def leaves_grad_off() -> None:
        torch._C._set_grad_enabled(False)

    try:
        with pytest.raises(Different, match="grad enabled"):
            check_against(lambda: None, leaves_grad_off)
    finally:
        torch._C._set_grad_enabled(True)


def test_a_wrong_gradient_is_caught() -> None:
    x = X.clone().requires_grad_()
    check_against(lambda x: x * 2, lambda x: x * 2, x, backward=True)
    with pytest.raises(Different, match="grad"):
        check_against(lambda x: x * 2, lambda x: x.detach() * 2 + x * 0, x, backward=True, tolerance=(1e-6, 1e-6))


def test_a_later_call_is_compared() -> None:
    with pytest.raises(Different, match="call 3"):
        check_calls(lambda n: n, (1,), (2,), (3,), compiler=lambda fn, **_: lambda n: n if n < 3 else 0)


def test_tolerance() -> None:
    check_against(lambda x: x * 3, lambda x: x * 3 + 1e-7, X, tolerance=(1e-5, 1e-5))
    with pytest.raises(Different, match="values"):
        check_against(lambda x: x * 3, lambda x: x * 3 + 1e-2, X, tolerance=(1e-5, 1e-5))


def test_counting_backend() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).relu()

    backend = CountingBackend()
    run = backend(torch.fx.symbolic_trace(Model()), [X])
    assert torch.equal(run(X), X + 1) and (backend.frame_count, backend.op_count, backend.calls) == (1, 2, 1)
