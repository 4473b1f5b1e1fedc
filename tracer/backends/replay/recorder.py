"""Recorders: what runs a callable once more into the same memory. The CPU's few lines are the model that tests check
everything else with; CUDA's is in `cuda.py`.

The CPU recorder is as unforgiving as a GPU: a recording computes nothing, results always lie at the same place, and
while a recording runs it may use all memory of its pool that was free when it was made, among it the results of every
recording made later. These are filled with 0xFF first (NaN, -1), so a check or clone that is missing is a wrong result.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from .inputs import once

#: takes a list of inputs and computes into fresh memory, as the inner backend does
Run = Callable[[list[Any]], Sequence[Any]]
#: from the inputs of a call to what the recording reads: its own buffers, and what is static as it is given
Merge = Callable[[Sequence[Any]], list[Any]]


class Handle(Protocol):
    """One recorded run. It keeps nothing alive but the memory that it writes."""

    scratch_bytes: int

    def replay(self, given: Sequence[Any]) -> None:
        """Compute once more, into the same memory. given: the inputs of this call."""


class Recorder(Protocol):
    """Makes recordings on one kind of device."""

    device_type: str

    def new_pool(self, device: torch.device) -> Any:
        """Memory that recordings share for what they need while they run."""

    def warm_up(self, run: Callable[[], Sequence[Any]], device: torch.device) -> Sequence[Any]:
        """Run it for real, as a recording will find it (CUDA: on a side stream)."""

    def record(
        self, run: Run, given: Sequence[Any], merge: Merge, known: Sequence[torch.Tensor], pool: Any,
        device: torch.device,
    ) -> tuple[Handle, Sequence[Any]]:
        """Record `run(merge(given))` without any effect: not on memory, not on generators. And what it returned, whose
        memory is written by each replay. known: other tensors that it may return.

        Raises what the recording runs into.
        """

    def order(self, before: Any, device: torch.device) -> Any:
        """Called ahead of each replay in a pool, with its last answer: replays in one pool come one after another."""

    def keep_for(self, tensors: Sequence[torch.Tensor], order: Any) -> None:
        """What these lie in is read there, by the replay that was put in this order, also when they are let go."""

    def is_captured(self) -> bool:
        """Is the program recording something itself right now?"""

    def clock(self, device: torch.device) -> float:
        """Seconds, once all that was started is done."""


class CpuPool:
    """Where the results of its recordings lie, in the order in which they were recorded."""

    def __init__(self) -> None:
        self.results: list[list[weakref.ref[torch.UntypedStorage]]] = []


class CpuHandle:
    def __init__(self, run: Run, merge: Merge, own: list[torch.Tensor | None], pool: CpuPool) -> None:
        self._run, self._merge, self._own, self._results = run, merge, own, pool.results
        self._results.append([weakref.ref(tensor.untyped_storage()) for tensor in own if tensor is not None])
        self._number = len(self._results)
        self.scratch_bytes = 0

    def replay(self, given: Sequence[Any]) -> None:
        for places in self._results[self._number :]:
            for place in places:
                if (storage := place()) is not None:
                    storage.fill_(0xFF)
        # over the same memory, but not the same tensors: a replay tells autograd of no write
        values = [value.data if isinstance(value, torch.Tensor) else value for value in self._merge(given)]
        for own, result in zip(self._own, self._run(values), strict=True):
            if own is not None:
                once(own.data).copy_(once(result))


class CpuRecorder:
    """Runs the inner callable again, and copies its results to where they were the first time."""

    device_type = "cpu"

    def new_pool(self, device: torch.device) -> CpuPool:
        return CpuPool()

    def warm_up(self, run: Callable[[], Sequence[Any]], device: torch.device) -> Sequence[Any]:
        return run()

    def record(
        self, run: Run, given: Sequence[Any], merge: Merge, known: Sequence[torch.Tensor], pool: CpuPool,
        device: torch.device,
    ) -> tuple[CpuHandle, Sequence[Any]]:
        values = merge(given)
        tensors = [value.data for value in values if isinstance(value, torch.Tensor)]
        before, rng = [tensor.clone() for tensor in tensors], torch.get_rng_state()
        outputs = run(list(values))
        for tensor, value in zip(tensors, before, strict=True):
            if not torch.equal(_bytes(tensor), _bytes(value)):
                tensor.copy_(value)
        torch.set_rng_state(rng)
        others = {tensor.untyped_storage().data_ptr() for tensor in (*tensors, *known)}
        own = [_own(output, others) for output in outputs]
        return CpuHandle(run, merge, own, pool), outputs

    def order(self, before: Any, device: torch.device) -> Any:
        return None

    def keep_for(self, tensors: Sequence[torch.Tensor], order: Any) -> None:
        pass

    def is_captured(self) -> bool:
        return False

    def clock(self, device: torch.device) -> float:
        return time.perf_counter()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """What it holds, bit by bit: NaN is equal to itself."""
    return torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1)).view(torch.uint8)


def _own(output: Any, others: set[int]) -> torch.Tensor | None:
    """A result in memory of its own."""
    if not isinstance(output, torch.Tensor) or not output.numel():
        return None
    return None if output.untyped_storage().data_ptr() in others else output
