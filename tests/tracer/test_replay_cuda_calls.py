"""What the recorder of CUDA devices asks of torch.cuda, and in which order: on a stand-in that writes it down.

No number is computed here; what CUDA makes of these calls is in test_replay_cuda.py, for who has a GPU.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.tracer import replaying
from tests.tracer.replaying import Tensor
from tracer import torch_replay
from tracer.backends.replay import cuda, pool, site

CPU = torch.device("cpu")


class Stream:
    def __init__(self, calls: list[str], name: str) -> None:
        self._calls, self.name = calls, name

    def wait_stream(self, other: Stream) -> None:
        self._calls.append(f"{self.name} waits for {other.name}")


class Cuda:
    """In the place of torch.cuda. `fails`: ending a capture raises, as behind an operator that synchronises."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.current = Stream(self.calls, "main")
        self.fails = self.captures = False
        self.graphs = 0

    def current_stream(self, device: Any = None) -> Stream:
        return self.current

    def Stream(self, device: Any = None) -> Stream:
        return Stream(self.calls, "side")

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def device(self, device: Any) -> Iterator[None]:
        self.calls.append("device")
        yield

    def graph_pool_handle(self) -> tuple[int, int]:
        return (0, 7)

    def memory_reserved(self, device: Any) -> int:
        return 0

    def synchronize(self, device: Any = None) -> None:
        self.calls.append("synchronize")

    def is_current_stream_capturing(self) -> bool:
        return self.captures

    def CUDAGraph(self) -> Any:
        self.graphs += 1
        number = self.graphs

        def replay() -> None:
            self.calls.append(f"replay {number} on {self.current.name}")

        return SimpleNamespace(number=number, replay=replay)

    @contextmanager
    def graph(self, graph: Any, pool: Any = None, stream: Any = None, *, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local" and stream.name == "side" and not self.captures
        assert not gc.isenabled() or pool is None
        self.calls.append(f"begin {graph.number} in {pool} on {self.current.name}")
        self.captures = True
        try:
            yield
        finally:
            self.captures = False
            self.calls.append(f"end {graph.number}")
            if self.fails:
                self.fails = False
                self.current = stream  # as torch leaves it
                raise RuntimeError("operation failed due to a previous error during capture")

    def taken(self) -> list[str]:
        found, self.calls[:] = list(self.calls), []
        return found


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    fake = Cuda()
    names = SimpleNamespace(cuda=fake, Tensor=torch.Tensor, zeros=lambda *size, device: torch.zeros(*size))
    monkeypatch.setattr(cuda, "torch", names)
    monkeypatch.setattr(torch_replay, "clear_cublas_workspaces", lambda: fake.calls.append("clear workspaces"))
    monkeypatch.setattr(torch_replay, "end_allocation", lambda device, pool: fake.calls.append(f"no more in {pool}"))
    return fake


class Recorder(cuda.CudaRecorder):
    device_type = "cpu"


def double(given: list[Any]) -> Sequence[Tensor]:
    return (given[0] * 2,)


RECORDED = [
    "side waits for main", "device", "clear workspaces", "begin 1 in (0, 7) on side", "end 1", "clear workspaces",
    "main waits for side",
]  # fmt: skip


def test_a_warm_up_and_a_recording_are_on_the_side_stream(fake: Cuda) -> None:
    recorder, x = Recorder(), torch.ones(3)
    recorder.warm_up(lambda: double([x]), CPU)
    assert fake.taken() == ["side waits for main", "main waits for side"] and fake.current.name == "main"
    handle, results = recorder.record(double, [x], list, (), recorder.new_pool(CPU), CPU)
    assert fake.taken() == RECORDED and gc.isenabled()
    handle.replay([x])
    assert fake.taken() == ["replay 1 on main"] and len(results) == 1


@pytest.mark.parametrize("inside", [None, ValueError, KeyboardInterrupt])
def test_a_recording_that_fails(fake: Cuda, inside: type[BaseException] | None) -> None:
    """The first error is told, and what the capture left behind is taken back: allocations, then the generator."""

    def run(given: list[Any]) -> Sequence[Tensor]:
        if inside is not None:
            raise inside("within")
        return double(given)

    recorder = Recorder()
    fake.fails = True
    with pytest.raises(inside or RuntimeError, match="within" if inside else "previous error"):
        recorder.record(run, [torch.ones(3)], list, (), (0, 7), CPU)
    assert fake.taken() == [
        *RECORDED[:-1], "no more in (0, 7)", "device", "begin 2 in None on side", "end 2", "main waits for side",
    ]  # fmt: skip
    assert fake.current.name == "main" and gc.isenabled()


def test_what_is_in_order_waits_for_what_was_on_another_stream(fake: Cuda) -> None:
    recorder, first, second = Recorder(), fake.current, Stream(fake.calls, "other")
    assert recorder.order(None, CPU) is first and recorder.order(first, CPU) is first and fake.taken() == []
    with fake.stream(second):
        assert recorder.order(first, CPU) is second
    assert fake.taken() == ["other waits for main"]


@pytest.fixture
def region(fake: Cuda, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """A callable whose recordings are made by the recorder above."""
    monkeypatch.setattr(pool, "_pools", type(pool._pools)())
    yield replaying.site(lambda x: (x * 2,), Recorder())
    assert not fake.captures


def test_the_calls_of_a_region(fake: Cuda, region: Any) -> None:
    for _ in range(4):
        region(torch.ones(3))
    assert fake.taken() == [
        "side waits for main", "main waits for side",  # the warm-up
        *RECORDED, "replay 1 on main", "replay 1 on main", "replay 1 on main",
    ]  # fmt: skip


def test_buffers_are_kept_for_another_stream(fake: Cuda, region: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[tuple[int, str]] = []
    monkeypatch.setattr(Recorder, "keep_for", lambda self, tensors, stream: kept.append((len(tensors), stream.name)))
    for _ in range(3):
        region(torch.ones(3))
    assert kept == []
    with fake.stream(Stream(fake.calls, "other")):
        region(torch.ones(3))
    region(torch.ones(3))
    assert kept == [(1, "other")]
    waits = ["other waits for main", "replay 1 on other", "main waits for other", "replay 1 on main"]
    assert fake.taken()[-4:] == waits


def test_a_region_whose_recording_fails_runs_its_inner_callable(fake: Cuda, region: Any) -> None:
    region(torch.ones(3))
    fake.fails = True
    for _ in range(3):
        torch.testing.assert_close(region(torch.ones(3))[0], torch.full((3,), 2.0))
    assert region.off.startswith("it cannot be recorded: RuntimeError: operation failed")
    assert not site.sites() or region.recordings == []


def test_nothing_is_recorded_in_the_programs_own_capture(fake: Cuda, region: Any) -> None:
    for _ in range(3):
        region(torch.ones(3))
    fake.taken()
    fake.captures = True
    region(torch.ones(3))
    fake.captures = False
    assert fake.taken() == [] and region.refused == {"the program records it itself": 1}


def test_the_clock_waits_for_the_device(fake: Cuda) -> None:
    assert Recorder().clock(CPU) > 0 and fake.taken() == ["synchronize"]


def test_allocations_of_a_failed_capture_are_ended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def end(device: int, pool: Any) -> None:
        if told:
            raise RuntimeError("not currently recording")
        told.append(("end", device, pool))

    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", end, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_releasePool", lambda *given: told.append(("release", *given)), raising=False)
    for _ in range(2):
        torch_replay.end_allocation(torch.device("cuda", 1), (0, 7))
    assert told == [("end", 1, (0, 7)), ("release", 1, (0, 7))]
