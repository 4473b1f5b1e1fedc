"""The recorder of CUDA devices, on one. The logic around it is tested on the CPU (test_replay.py)."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tracer
from tests.tracer.replaying import Tensor, counted, notes

pytestmark = [
    pytest.mark.usefixtures("installed_with_defaults"),
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
INNER = ["eager", "aot_eager", "inductor"]


def replayed(fn: Any, inner: str = "eager", **more: Any) -> Any:
    options = {"inner": inner, "replay_trial": 0, **more}
    return tracer.compile(fn, backend="cudagraph", options=options, inplace=False)


def cuda(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda")


@pytest.mark.parametrize("inner", INNER)
def test_results_are_right_while_they_are_held(inner: str) -> None:
    def program(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return (x @ w).relu(), x.t()

    fn, w = replayed(program, inner), cuda(64, 64)
    with torch.no_grad():
        inputs = [cuda(8, 64) for _ in range(10)]
        held = [fn(x, w) for x in inputs]
        torch.testing.assert_close(held, [program(x, w) for x in inputs])
    assert counted("replays") >= 5, notes(fn)


def test_writes_and_buffers() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16)).cuda()
    plain = copy.deepcopy(model)
    tracer.compile(model, backend="cudagraph", options={"inner": "eager", "replay_trial": 0})
    with torch.no_grad():
        for step in range(8):
            if step == 5:
                model[0].weight.data = model[0].weight.clone()  # elsewhere: recorded again
            x = cuda(4, 16)
            torch.testing.assert_close(model(x), plain(x))
    torch.testing.assert_close(dict(model.named_buffers()), dict(plain.named_buffers()))


@pytest.mark.parametrize("inner", ["aot_eager", "inductor"])
def test_training(inner: str) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).cuda()
    ours = copy.deepcopy(plain)
    tracer.compile(ours, backend="cudagraph", options={"inner": inner, "replay_trial": 0})
    for step in range(10):
        batches = [cuda(16, 32) for _ in range(3)]
        for model in (ours, plain):
            model.zero_grad()
            outputs = [model(batch) for batch in batches] if step % 2 else []
            for batch, output in zip(batches, outputs or [None] * 3, strict=True):
                (model(batch) if output is None else output).pow(2).mean().backward()
        for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)
        with torch.no_grad():
            torch.testing.assert_close(ours(batches[0]), plain(batches[0]), rtol=1e-3, atol=1e-5)
    assert "forward: " in notes(ours) and counted("replays") >= 10, notes(ours)


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
def test_random_numbers_are_those_of_eager(inner: str) -> None:
    def program(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5) + torch.rand_like(x)

    fn, x, results = replayed(program, inner), torch.ones(1000, device="cuda"), []
    with torch.no_grad():
        for function in (fn, program):
            torch.manual_seed(3)
            results.append([function(x) for _ in range(8)] + [torch.rand(4, device="cuda")])
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert counted("replays") >= 4


def test_an_operator_that_synchronises_is_refused_and_harms_nothing() -> None:
    """The capture fails: the region runs its inner callable, others are recorded still, and generators still draw."""

    @torch.library.custom_op("replay_cuda::synchronising", mutates_args=())
    def synchronising(x: Tensor) -> Tensor:
        return x * float(x.sum().item() > -1e30)

    @synchronising.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    bad = replayed(lambda x: synchronising(x) + 1)
    good = replayed(lambda x: torch.rand_like(x) + x)
    with torch.no_grad():
        x = cuda(100)
        for _ in range(5):
            torch.testing.assert_close(bad(x), x + 1)
        assert "it cannot be recorded" in notes(bad)
        torch.rand(3, device="cuda")
        for _ in range(6):
            assert (good(x) >= x).all()
    assert counted("replays") >= 3
    torch.cuda.synchronize()


def test_the_programs_own_capture_is_left_alone() -> None:
    def program(x: Tensor) -> Tensor:
        return x * 2 + 1

    fn, x = replayed(program), cuda(100)
    with torch.no_grad():
        for _ in range(5):
            fn(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = fn(x)
        x.fill_(3)
        graph.replay()
        torch.testing.assert_close(result, torch.full_like(x, 7))


def test_other_streams() -> None:
    fn, w = replayed(lambda x, w: x @ w), cuda(256, 256)
    streams = [torch.cuda.Stream() for _ in range(3)]
    with torch.no_grad():
        inputs = [cuda(256, 256) for _ in range(12)]
        results = []
        torch.cuda.synchronize()
        for n, x in enumerate(inputs):
            with torch.cuda.stream(streams[n % 3]):
                results.append(fn(x, w))
        torch.cuda.synchronize()
        torch.testing.assert_close(results, [x @ w for x in inputs])


def test_memory_is_given_back() -> None:
    def program(x: Tensor) -> Tensor:
        return (x * 2).sin() @ x

    fn = replayed(program)
    with torch.no_grad():
        x = cuda(1024, 1024)
        for _ in range(6):
            fn(x)
        assert counted("replay_bytes") > 0
        tracer.reset()
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        assert counted("replay_bytes") == 0
        before = torch.cuda.memory_allocated()
        for _ in range(6):  # the pool is a new one
            fn(x)
        tracer.reset()
        gc.collect()
        assert torch.cuda.memory_allocated() <= before + (1 << 20)


def test_default_backend_replays_on_cuda() -> None:
    def program(x: Tensor) -> Tensor:
        for _ in range(20):
            x = x * 1.01 + 1
        return x

    fn = tracer.compile(program, inplace=False)
    with torch.no_grad():
        x = cuda(64)
        for _ in range(16):
            torch.testing.assert_close(fn(x), program(x))
    assert "region: " in notes(fn)


def test_two_pools_of_workspaces() -> None:
    """Matrix products need cuBLAS's workspaces: clearing them elsewhere harms no recording."""
    fn, w = replayed(lambda x, w: x @ w), cuda(512, 512)
    with torch.no_grad():
        x = cuda(512, 512)
        for _ in range(5):
            fn(x, w)
        torch._C._cuda_clearCublasWorkspaces()
        others = [torch.zeros(1 << 20, device="cuda") for _ in range(32)]
        torch.testing.assert_close(fn(x, w), x @ w)
        assert all(not other.any() for other in others)
