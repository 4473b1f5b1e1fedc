"""Numbers and sizes that depend on a tensor's values, kept in the graph on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tracer
from tests.support import CountingBackend


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    tracer.install(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
    yield
    tracer.uninstall()
    tracer.install()
    tracer.uninstall()


X = torch.arange(12.0).view(6, 2)


def size(x: Any, n: Any) -> Any:
    k = n.item()
    return torch.zeros(k, 2) + k, x * k, k + 1


def promised(x: Any, n: Any) -> Any:
    k = n.item()
    torch._check(k >= 2)
    torch._check(k <= x.shape[0])
    if k >= 1:
        return x[:k].sum() + 1
    return x


def scaled(x: Any, n: Any) -> Any:
    return x * (x.max().item() / 2) - x.min().item(), int(n) * 2, float(x.sum())


def chosen(x: Any, n: Any) -> Any:
    y = x[x > n]
    return y * 2, y.shape[0], torch.nonzero(x > n).sum()


def lengths(x: Any, n: Any) -> Any:
    k = n.item()
    return torch.arange(k) * 2, x.sum() + k


def indexed(x: Any, n: Any) -> Any:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k < x.shape[0])
    return x[k] * 2 + x[k, 1]


def promised_in_turns(x: Any, n: Any) -> Any:
    """What is promised of one number comes between promises of another."""
    k, m = n.item(), (n + 1).item()
    torch._check(k >= 1)
    torch._check(m >= 2)
    torch._check(k <= 6)
    torch._check(m <= 9)
    return torch.zeros(k, m) + x.sum()


def computed(x: Any, n: Any) -> Any:
    """From both sides, and with functions of Python."""
    k = n.item()
    torch._check_is_size(k)
    torch._check(k <= 9)
    return (
        1 + k, 2 * k - 1, 7 // (1 + k), 10 - k, k**2, abs(k - 3), min(k, 3), max(4, k, k - 1), divmod(k, 2)[0],
        float(n), int(x.max()), x * (0.5 / (k + 1)), torch.ones(k) * abs(-k), x * (k > 3),
    )  # fmt: skip


def listed(x: Any, n: Any) -> Any:
    a, b = torch.stack([n, n + 1]).tolist()
    rows = x[:2].tolist()
    return torch.zeros(a, 2) + b, sum(rows[0]) + rows[1][0], n.tolist() + 1


PROGRAMS: dict[str, Callable[..., Any]] = {
    "computed": computed, "listed": listed, "size": size,
    "promised": promised, "scaled": scaled, "chosen": chosen, "lengths": lengths,
    "indexed": indexed, "promised in turns": promised_in_turns,
}  # fmt: skip


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.allclose(a, b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == pytest.approx(b)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_for_all_values(name: str, backend: str) -> None:
    fn = PROGRAMS[name]
    counting = CountingBackend()
    compiled = tracer.compile(fn, backend=counting if backend == "eager" else backend, fullgraph=True, inplace=False)
    for n in (4, 5, 3, 2):
        assert same(compiled(X, torch.tensor(n)), fn(X, torch.tensor(n)))
    if backend == "eager":
        assert counting.frame_count == 1


def test_a_promise_that_is_not_kept_is_the_programs_own_error() -> None:
    compiled = tracer.compile(promised, backend="eager", inplace=False)
    assert same(compiled(X, torch.tensor(3)), promised(X, torch.tensor(3)))
    for n in (1, 7):
        with pytest.raises(RuntimeError) as ours:
            compiled(X, torch.tensor(n))
        with pytest.raises(RuntimeError) as plain:
            promised(X, torch.tensor(n))
        assert str(ours.value) == str(plain.value)


def test_every_promise_is_asked() -> None:
    compiled = tracer.compile(promised_in_turns, backend="eager", inplace=False)
    assert same(compiled(X, torch.tensor(3)), promised_in_turns(X, torch.tensor(3)))
    asked = tracer.explain(compiled)(X, torch.tensor(3)).regions[0].graph.count("_assert_scalar")
    assert asked >= 4
    for n in (0, 7):
        with pytest.raises(RuntimeError):
            compiled(X, torch.tensor(n))


def test_what_needs_the_number_breaks() -> None:
    def f(x: Any, n: Any) -> Any:
        k = n.item()
        y = x * 2
        if k > 3:
            return y + k
        return [y] * k

    compiled = tracer.compile(f, backend="eager", inplace=False)
    for n in (4, 5, 3, 2):
        result, expected = compiled(X, torch.tensor(n)), f(X, torch.tensor(n))
        assert same(tuple(result), tuple(expected))
    assert "branch on a tensor" in tracer.counters()["breaks"]


def test_off_by_default() -> None:
    tracer.install()
    with pytest.raises(tracer.GraphBreak, match="tensor value is read"):
        tracer.compile(size, backend="eager", fullgraph=True, inplace=False)(X, torch.tensor(3))
