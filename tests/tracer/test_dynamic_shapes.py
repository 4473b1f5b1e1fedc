"""Sizes that change from call to call: symbols from the second capture on, with results as plain Python's."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves, tree_map_only

import tracer
from tests.support import CountingBackend, check_calls, compile_with
from tracer.torch_symbols import NoNodes


def sized(*sizes: Sequence[int]) -> list[tuple[Any, ...]]:
    """A call with a tensor of each of these sizes."""
    return [(torch.randn(*size),) for size in sizes]


BATCHES = sized((4, 3), (5, 3), (6, 3), (9, 3), (2, 3))


def causal(x: Any) -> Any:
    n = x.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    scores = (x @ x.transpose(1, 2)).masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ x


def heads(x: Any) -> Any:
    b, s, d = x.shape
    return x.view(b, s, 2, d // 2).transpose(1, 2).reshape(b * 2, s, d // 2)


def positions(x: Any) -> Any:
    return x + torch.arange(x.size(1), dtype=x.dtype).unsqueeze(1) / x.size(1)


def branch(x: Any) -> Any:
    if x.shape[0] > 5:
        return x.sin()
    return x.cos()


def loop(x: Any) -> Any:
    total = x.new_zeros(x.shape[1])
    for row in x:
        total = total + row
    return total


def shapes(x: Any) -> Any:
    y = x * 2
    return y, x.shape, list(x.size()), x.shape[0] * 3 + 1, x.numel(), f"{x.shape[0]} rows", y.shape[0] / 2, len(x)


def smaller(x: Any) -> Any:
    n = min(x.shape[0], 6)
    return x[:n] * max(n, 3)


def chunks(x: Any) -> Any:
    a, b = x[: x.shape[0] // 2], x[x.shape[0] // 2 :]
    return torch.cat([b, a]), a.shape[0]


def padded(x: Any) -> Any:
    return F.pad(x, (0, 0, 0, 16 - x.shape[0]))


def written(x: Any) -> Any:
    x.mul_(2)
    x[0] = 1
    return x.sum()


def tensors_of_sizes(x: Any) -> Any:
    n = x.shape[0]
    listed = torch.tensor([n, 3, n - 1], device=x.device), x.new_tensor([n]), x.new_tensor(n, dtype=torch.int64)
    return torch.tensor(n), torch.as_tensor(n, dtype=x.dtype), torch.tensor((n, 0.5)), *listed, x.new_tensor([2, 3])


def products(x: Any) -> Any:
    rest = torch.Size([x.shape[0], 2]), x.shape + (1,), (1,) + x.shape, x.shape[:1] + torch.Size([2])  # noqa: RUF005
    return x.view(math.prod(x.shape)), x.view(math.prod(x.shape[:1], start=1), -1), x * x.shape.numel(), rest


def shifts(x: Any) -> Any:
    n = x.shape[0]
    return x * (n << 2), x[: n >> 1], x * (-n >> 1), x * 2**n, x * divmod(n, 3)[1], divmod(-n, 4), 3 ** (n - 3)


def divisible(x: Any) -> Any:
    return x.view(x.shape[0] // 2, -1) if x.shape[0] % 2 == 0 else x.view(-1)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]], int]] = {
    "elementwise": (lambda x: x.sin() + 1, BATCHES, 2),
    "reduction": (lambda x: x.sum(0) / x.shape[0], BATCHES, 2),
    "rows": (lambda x: x.t() @ x, BATCHES, 2),
    "sequence": (lambda x: x.cumsum(1), sized((2, 5, 3), (2, 7, 3), (2, 9, 3)), 2),
    "two sizes": (lambda x: x.flatten(), sized((4, 5), (6, 7), (8, 9), (3, 3)), 2),
    "one after the other": (lambda x: x * 2, sized((4, 5), (6, 5), (6, 7), (8, 9)), 3),
    "causal": (causal, sized((2, 5, 4), (2, 6, 4), (2, 9, 4), (2, 3, 4)), 2),
    "heads": (heads, sized((2, 5, 8), (3, 6, 8), (4, 9, 8), (5, 3, 8)), 2),
    "positions": (positions, sized((2, 5, 4), (2, 6, 4), (2, 9, 4)), 2),
    "branch": (branch, BATCHES, 3),
    "shapes": (shapes, BATCHES, 2),
    "two formulas": (
        lambda x: (x * 2, max(x.shape[0], 5), min(x.shape[0], 5), max(x.shape[0] * 2, 9), x.stride(0)), BATCHES, 2,
    ),
    "smaller of two sizes": (
        lambda x, y: (x[: min(len(x), len(y))] * max(len(x), len(y)), y[: min(y.shape)]),
        [(torch.randn(n, 3), torch.randn(m, 3)) for n, m in ((2, 4), (4, 5), (7, 5), (6, 9))], 3,
    ),
    "powers": (lambda x: x * x.shape[0] ** 2 + x.shape[0] ** 3, BATCHES, 2),
    "size of an interpolated image": (
        lambda x: (y := F.interpolate(x, scale_factor=1.3)).view(y.shape[2] * y.shape[3], -1).sum(1),
        sized((1, 3, 8, 8), (1, 3, 12, 12), (1, 3, 9, 6), (1, 3, 16, 20)), 2,
    ),
    "smaller": (smaller, BATCHES, 2),
    "chunks": (chunks, BATCHES, 2),
    "padded": (padded, BATCHES, 2),
    "tensors of sizes": (tensors_of_sizes, BATCHES, 2),
    "products": (products, BATCHES, 2),
    "shifts": (shifts, [*BATCHES[:4], (torch.randn(3, 3),)], 2),
    "written": (written, BATCHES, 2),
    "divisible": (divisible, sized((4, 3), (6, 3), (7, 3), (8, 3), (9, 3)), 3),
    "image": (lambda x: F.avg_pool2d(F.relu(x), 2), sized((1, 3, 8, 8), (1, 3, 12, 12), (1, 3, 16, 20)), 2),
    "interpolated": (lambda x: F.interpolate(x, scale_factor=2), sized((1, 3, 8, 8), (1, 3, 12, 12), (1, 3, 9, 6)), 2),
    "list of tensors": (
        lambda xs: torch.cat(xs).sum(0),
        [([torch.randn(n, 3), torch.randn(m, 3)],) for n, m in ((2, 3), (4, 5), (6, 9), (3, 3))], 2,
    ),
    "equal, then not": (
        lambda x, y: (x.sum(0) + y.sum(0), x.shape == y.shape),
        [(torch.randn(n, 3), torch.randn(m, 3)) for n, m in ((4, 4), (5, 5), (6, 6), (6, 7), (9, 8))], 3,
    ),
    "added": (
        lambda x, y: x + y,
        [(torch.randn(n, 3), torch.randn(n, 3)) for n in (4, 5, 6, 7)], 2,
    ),
    "a number that is a size": (lambda x, n: x[:n].sum(0), [(torch.randn(9, 3), n) for n in (3, 4, 5, 7, 9)], 2),
    "a number that makes a tensor": (lambda n: torch.zeros(n, 2) + n, [(n,) for n in (3, 4, 5, 7)], 2),
    "arange of a number": (lambda x, n: x * torch.arange(n).sum(), [(torch.randn(3), n) for n in (3, 4, 5, 8)], 2),
    "cache that grows": (
        lambda cache, x: torch.cat([cache, x], 1).softmax(1),
        [(torch.randn(2, n, 4), torch.randn(2, 1, 4)) for n in range(3, 9)], 2,
    ),
    "view of something larger": (
        lambda x: x * 2, [(torch.arange(24.0).view(8, 3)[:n],) for n in (3, 4, 5, 8)], 2,
    ),
    "columns of something larger": (
        lambda x: x * 2, [(torch.arange(24.0).view(4, 6)[:, :n],) for n in (3, 4, 5, 6)], 3,
    ),
    "transposed": (lambda x: x @ x.t(), [(torch.randn(3, n).t(),) for n in (4, 5, 6, 9)], 2),
    "index": (lambda x, i: x[i] + x[-i] * x[1, i - 1], [(torch.randn(6, 5), i) for i in (2, 3, 4, 5)], 2),
    "indices": (
        lambda x, i, j: (x[:, i, None, ..., j], x[..., i], x[1, i, :, j], x[i, j]),
        [(torch.randn(9, 8, 7, 6), i, i + 1) for i in (2, 3, 4)], 2,
    ),
    "dimensions": (lambda x: x.sum(-1), sized((3,), (3, 4), (3, 4, 5), (6,), (7, 8), (4, 5, 6), (9,)), 4),
    "one": (lambda x: x * 2, sized((4, 3), (5, 3), (1, 3), (6, 3), (1, 3)), 3),
    "none": (lambda x: x.sum(0), sized((4, 3), (5, 3), (0, 3), (6, 3), (0, 3)), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    fn, calls, graphs = PROGRAMS[name]
    check_calls(fn, *calls)
    backend = CountingBackend()
    compiled = compile_with(fn, backend=backend)
    for call in calls:
        compiled(*call)
    assert backend.frame_count <= graphs


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(
    "name",
    ["causal", "heads", "written", "smaller", "a number that is a size", "shapes", "tensors of sizes", "shifts"],
)
def test_backends(name: str, backend: str) -> None:
    fn, calls, _ = PROGRAMS[name]
    check_calls(fn, *calls, backend=backend, tolerance=(1e-5, 1e-5) if backend == "inductor" else None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_symbols_from_the_start(name: str) -> None:
    fn, calls, graphs = PROGRAMS[name]
    check_calls(fn, *calls, dynamic=True)
    backend = CountingBackend()
    compiled = compile_with(fn, backend=backend, dynamic=True)
    for call in calls:
        compiled(*call)
    assert backend.frame_count <= graphs


@pytest.mark.parametrize("name", ["causal", "heads", "written", "cache that grows", "list of tensors", "shapes"])
def test_tensors_of_inference_mode(name: str) -> None:
    """They have symbols too: a loop that generates text is such a program."""
    fn, calls, graphs = PROGRAMS[name]
    backend = CountingBackend()
    compiled = compile_with(fn, backend=backend)
    with torch.inference_mode():
        calls = tree_map_only(torch.Tensor, torch.clone, calls)
        check_calls(fn, *calls)
        check_calls(fn, *calls, backend="aot_eager")
        for call in calls:
            leaves = [leaf for leaf in tree_leaves(compiled(*call)) if isinstance(leaf, torch.Tensor)]
            assert all(leaf.is_inference() for leaf in leaves)
    assert backend.frame_count <= graphs


def test_tensors_of_inference_mode_outside_of_it() -> None:
    def f(x: Any) -> Any:
        return x.view(-1), x + 1

    with torch.inference_mode():
        calls = tree_map_only(torch.Tensor, torch.clone, BATCHES)
    backend = CountingBackend()
    compiled = compile_with(f, backend=backend)
    for (x,) in calls:
        view, more = compiled(x)
        assert view.is_inference() and not more.is_inference() and torch.equal(more, x + 1)
    assert backend.frame_count == 2


def test_never_a_symbol() -> None:
    backend = CountingBackend()
    compiled = compile_with(lambda x: x * 2, backend=backend, dynamic=False)
    for call in BATCHES:
        compiled(*call)
    assert backend.frame_count == len(BATCHES)


def train(model: Any, x: Any) -> Any:
    loss = model(x).square().mean()
    loss.backward()
    return loss, [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training_with_batches_of_many_sizes(backend: str) -> None:
    torch.manual_seed(0)
    ours = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    plain = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    plain.load_state_dict(ours.state_dict())
    compile_with(ours, backend=backend)
    for n in (4, 5, 6, 9, 2, 1):
        x = torch.randn(n, 3, requires_grad=True)
        other = x.detach().clone().requires_grad_()
        result, expected = train(ours, x), train(plain, other)
        assert torch.equal(result[0], expected[0]) and all(map(torch.equal, result[1], expected[1]))
        assert torch.equal(x.grad, other.grad)


def test_history_of_a_tensor() -> None:
    """What is behind a break is given a tensor with a history, of another size at each call."""

    def f(x: Any, w: Any) -> Any:
        h = (x @ w).relu()
        print(end="")
        return (h * h).sum()

    backend = CountingBackend()
    compiled = compile_with(f, backend=backend)
    for n in (4, 5, 6, 7):
        x, w = torch.randn(n, 3), torch.randn(3, 2, requires_grad=True)
        v = w.detach().clone().requires_grad_()
        compiled(x, w).backward()
        f(x, v).backward()
        assert torch.equal(w.grad, v.grad)
    assert backend.frame_count == 4


def test_inputs_that_share_memory_and_are_read() -> None:
    """Each has symbols of its own, and what is a view of one still shares the memory of all."""

    def f(x: Any, w: Any) -> Any:
        q, k, v = (x @ w).chunk(3, -1)
        print(end="")
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v, q[:1], k

    backend = CountingBackend()
    compiled = compile_with(f, backend=backend)
    w = torch.randn(4, 12, requires_grad=True)
    for n in (4, 5, 6, 7, 8):
        x = torch.randn(2, n, 4)
        result, expected = compiled(x, w), f(x, w)
        assert all(map(torch.equal, result, expected))
        assert result[1].untyped_storage().data_ptr() == result[2].untyped_storage().data_ptr()
        assert torch.equal(*(torch.autograd.grad(side[0].sum(), w)[0] for side in (result, expected)))
    assert backend.frame_count == 4
    check_calls(f, *((torch.randn(2, n, 4), w.detach()) for n in (4, 5, 6)), backend="aot_eager")


@pytest.mark.parametrize("write", ["x.add_(1)", "y.add_(1)", "x.resize_(1)", "z.mul_(2); r = r + x"])
@pytest.mark.parametrize("first", ["", "r = y * 2", "r = x * y", "r = x + z"])
def test_inputs_that_share_memory_and_one_is_written(write: str, first: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f(x, y, z):\n    r = 0\n    {first}\n    {write}\n    return r + y, z, y[1:]\n", namespace)
    f = namespace["f"]

    def of_one(n: int) -> Any:
        base = torch.arange(40.0).view(10, 4)
        return base[:n], base[1 : n + 1], base[10 - n :]

    check_calls(f, *map(of_one, (3, 4, 5, 6)))
    check_calls(f, *(tuple(map(torch.clone, of_one(n))) for n in (3, 4, 5)), *map(of_one, (3, 4, 5, 6)))


def test_inputs_that_share_memory() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    base = torch.arange(40.0).view(10, 4)
    check_calls(f, *((base[:n], base[1:n]) for n in (3, 4, 5, 6)))
    check_calls(f, *((base[:n].clone(), base[n:]) for n in (3, 4, 5, 6)), (base[:3], base[2:6]))


def test_a_view_with_a_history_is_written() -> None:
    def f(w: Any, n: int) -> Any:
        h = (w * 2)[:n]
        print(end="")
        h.mul_(3)
        return h.sum()

    compiled = compile_with(f)
    for n in (3, 4, 5, 6):
        w = torch.randn(8, requires_grad=True)
        v = w.detach().clone().requires_grad_()
        compiled(w, n).backward()
        f(v, n).backward()
        assert torch.equal(w.grad, v.grad)


def test_many_sizes_at_random() -> None:
    """Five sizes that change, a thousand calls, four graphs at most."""

    def f(x: Any, y: Any) -> Any:
        a, b, c = x.shape
        z = (x.reshape(a * b, c) @ y).view(a, b, -1)
        return z.softmax(-1).transpose(0, 1).contiguous(), torch.arange(b).sum() + z.numel()

    backend, choose = CountingBackend(), random.Random(7)
    compiled = compile_with(f, backend=backend)
    for _ in range(1000):
        a, b, c, d = (choose.randint(2, 9) for _ in range(4))
        x, y = torch.randn(a, b, c), torch.randn(c, d)
        result, expected = compiled(x, y), f(x, y)
        assert all(map(torch.equal, result, expected))
    assert backend.frame_count <= 4


def test_sizes_in_functions_that_torch_is_given() -> None:
    def scaled(x: Any) -> Any:
        return x.view(x.shape[0] * 3).sin().view(x.shape[0], -1) / (x.shape[0] + 1)

    def f(x: Any) -> Any:
        y = torch.utils.checkpoint.checkpoint(scaled, x, use_reentrant=False)
        return y.sum(), torch.func.vmap(lambda row: row * x.shape[0])(x)

    backend = CountingBackend()
    compiled = compile_with(f, backend=backend)
    for n in (4, 5, 6, 7):
        x = torch.randn(n, 3, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        result, expected = compiled(x), f(y)
        assert all(map(torch.equal, result, expected))
        result[0].backward()
        expected[0].backward()
        assert torch.equal(x.grad, y.grad)
    assert backend.frame_count == 2


# marks ----------------------------------------------------------------------------------------------------------------
def test_marked_dimensions_are_symbols_from_the_start() -> None:
    of_torch = torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic, torch._dynamo.decorators.mark_unbacked
    for mark in (tracer.mark_dynamic, tracer.maybe_mark_dynamic, *of_torch):
        backend = CountingBackend()
        compiled = compile_with(lambda x: x * 2, backend=backend)
        for n in (4, 5, 6):
            x = torch.randn(n, 3)
            mark(x, 0)
            assert torch.equal(compiled(x), x * 2)
        assert backend.frame_count == 1


def test_marked_range() -> None:
    backend = CountingBackend()
    compiled = compile_with(lambda x: x.sum(0) if x.shape[0] <= 8 else x, backend=backend)
    for n in (4, 8, 6, 2):
        x = torch.randn(n, 3)
        tracer.mark_dynamic(x, 0, min=2, max=8)
        assert torch.equal(compiled(x), x.sum(0))
    assert backend.frame_count == 1
    report = tracer.explain(compiled)(x)
    assert any("2 <= x.shape[0] <= 8" in text for region in report.regions for text, _ in region.guards)
    big = torch.randn(9, 3)
    assert compiled(big) is big


def test_a_size_outside_of_its_range(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(4, 3)
    tracer.mark_dynamic(x, 0, min=8, max=16)
    with caplog.at_level("WARNING", "tracer.recompiles"):
        assert torch.equal(compile_with(lambda x: x * 2)(x), x * 2)
    assert "x.shape[0] is 4, outside of the range" in caplog.text
    with pytest.raises(tracer.GraphBreak, match="outside of the range"):
        compile_with(lambda x: x * 3, fullgraph=True)(x)


def test_static_marks() -> None:
    backend = CountingBackend()
    compiled = compile_with(lambda x: x * 2, backend=backend)
    for n in (4, 5, 6):
        x = torch.randn(n, n)
        tracer.mark_static(x, 1)
        assert torch.equal(compiled(x), x * 2)
    assert backend.frame_count == 3


def test_a_mark_that_cannot_be_kept(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any) -> Any:
        return x.view(4, 3) * 2

    x = torch.randn(4, 3)
    tracer.mark_dynamic(x, 0)
    with caplog.at_level("WARNING", "tracer.recompiles"):
        assert torch.equal(compile_with(f)(x), f(x))
    [record] = [r for r in caplog.records if r.name.startswith("tracer")]
    message, line = record.getMessage(), f"{__file__}:{f.__code__.co_firstlineno + 1}"
    assert "x.shape[0] is always 4" in message and line in message
    with pytest.raises(tracer.GraphBreak, match="marked dynamic is one number"):
        compile_with(f, fullgraph=True)(x)


def test_wrong_marks() -> None:
    x = torch.ones(3, 2)
    with pytest.raises(IndexError):
        tracer.mark_dynamic(x, 2)
    with pytest.raises(TypeError, match="min and max"):
        tracer.mark_dynamic(x, 0, min=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="min=5"):
        tracer.mark_dynamic(x, 0, min=5, max=4)
    with pytest.raises(TypeError):
        tracer.mark_static(3, 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        tracer.mark_dynamic(x, "a")  # type: ignore[arg-type]


def test_relations_are_told_as_a_program_would_write_them() -> None:
    def f(x: Any) -> Any:
        n = min(x.shape[0], 6)
        return x[:n] * 2

    compiled = compile_with(f)
    for call in BATCHES:
        compiled(*call)
    report = tracer.explain(compiled)(torch.randn(7, 3))
    told = [text for region in report.regions for text, _ in region.guards]
    assert any("min(6, x.shape[0])" in text or "Min(6, x.shape[0])" in text for text in told), told
    assert not any("formula" in text for text in told), told


def test_what_no_nodes_compute_is_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise NoNodes("a function of sympy")

    monkeypatch.setattr("tracer.graph.sizes.nodes_of", refuse)
    check_calls(lambda x: x.view(x.shape[0] * 3) * 2, *BATCHES)
