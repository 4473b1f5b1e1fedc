"""The recorder of CUDA devices: torch.cuda.CUDAGraph.

What it heeds, each learnt from torch's documentation or its issues:
- warm-up and capture run on a side stream: what libraries make once for a stream must be there before the capture;
- cuBLAS keeps a workspace for each stream. One that was made in a capture lies in its pool, and one that was made
  before it may be freed by whoever clears them (Inductor's own graphs do): they are cleared before and after, so that
  a recording owns the one it uses;
- where a capture fails, `torch.cuda.graph` fails once more when it ends it and leaves its stream current: an outer
  `torch.cuda.stream` puts the current stream back, and what the user is told is the first error. The allocator still
  allocates for that capture then, and is told that it is over; the generator still believes in it, and refuses to draw:
  a capture that succeeds sets it right;
- only this thread is forbidden to synchronise while it captures: other threads of the program go on;
- Python's collector does not run within a capture, where it may free another graph;
- what a replay on another stream reads must not be given to others before it has been read: the allocator is told.
Generators: the default generator of the device is registered by the capture itself, and moves on at each replay as far
as the run would have moved it. A generator of the user's is not among what a graph may hold.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ... import log, torch_replay
from .recorder import Merge, Run


class CudaHandle:
    def __init__(self, graph: torch.cuda.CUDAGraph, scratch_bytes: int) -> None:
        self._graph, self.scratch_bytes = graph, scratch_bytes

    def replay(self, given: Sequence[Any]) -> None:
        self._graph.replay()


class CudaRecorder:
    device_type = "cuda"

    def __init__(self) -> None:
        self._streams: dict[int, torch.cuda.Stream] = {}

    def _side_stream(self, device: torch.device) -> torch.cuda.Stream:
        """The same one for all recordings of a device: the memory of a pool belongs to the stream it was made on."""
        if device.index not in self._streams:
            self._streams[device.index] = torch.cuda.Stream(device)
        return self._streams[device.index]

    def new_pool(self, device: torch.device) -> Any:
        return torch.cuda.graph_pool_handle()

    def warm_up(self, run: Callable[[], Sequence[Any]], device: torch.device) -> Sequence[Any]:
        current, side = torch.cuda.current_stream(device), self._side_stream(device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            results = run()
        current.wait_stream(side)
        for result in results:  # made on the side stream, used and freed on the current one
            if isinstance(result, torch.Tensor) and result.is_cuda:
                result.record_stream(current)
        return results

    def record(
        self, run: Run, given: Sequence[Any], merge: Merge, known: Sequence[torch.Tensor], pool: Any,
        device: torch.device,
    ) -> tuple[CudaHandle, Sequence[Any]]:
        current, side = torch.cuda.current_stream(device), self._side_stream(device)
        failed: list[BaseException] = []
        side.wait_stream(current)
        try:
            with torch.cuda.device(device), _own_workspaces(), _no_collection():
                return self._capture(lambda: run(merge(given)), pool, side, device, failed)
        except BaseException as error:
            torch_replay.end_allocation(device, pool)
            self._heal(side, device)
            raise (failed[0] if failed else error).with_traceback(None) from None
        finally:
            current.wait_stream(side)

    def _capture(
        self, run: Callable[[], Sequence[Any]], pool: Any, side: torch.cuda.Stream, device: torch.device,
        failed: list[BaseException],
    ) -> tuple[CudaHandle, Sequence[Any]]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(side), torch.cuda.graph(graph, pool, side, capture_error_mode="thread_local"):
            before = torch.cuda.memory_reserved(device)
            try:
                outputs = run()
            except BaseException as error:
                failed.append(error)
                raise
            scratch = torch.cuda.memory_reserved(device) - before
        return CudaHandle(graph, max(0, scratch)), outputs

    def _heal(self, side: torch.cuda.Stream, device: torch.device) -> None:
        """Behind a capture that failed: what a capture sets, and only its end takes back, is set and taken back."""
        graph = torch.cuda.CUDAGraph()
        try:
            place = torch.zeros(1, device=device)
            with (
                torch.cuda.device(device),
                torch.cuda.stream(side),
                torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"),
            ):
                place.zero_()
        except Exception as error:  # then the program will hear of it from its own next call, as it would have
            log.backend.warning("nothing can be recorded on %s any more: %s", device, error)

    def order(self, before: torch.cuda.Stream | None, device: torch.device) -> torch.cuda.Stream:
        """On another stream than the last replay in this pool: wait for it, they use the same memory."""
        current = torch.cuda.current_stream(device)
        if before is not None and before != current:
            current.wait_stream(before)
        return current

    def keep_for(self, tensors: Sequence[torch.Tensor], stream: torch.cuda.Stream) -> None:
        for tensor in tensors:
            tensor.record_stream(stream)

    def is_captured(self) -> bool:
        return torch.cuda.is_current_stream_capturing()

    def clock(self, device: torch.device) -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()


@contextmanager
def _own_workspaces() -> Iterator[None]:
    torch_replay.clear_cublas_workspaces()
    try:
        yield
    finally:
        torch_replay.clear_cublas_workspaces()


@contextmanager
def _no_collection() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
