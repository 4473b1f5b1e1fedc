"""What tests of replay share: the backend with the CPU's recorder, and comparing a function with its plain self."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import tracer
from tracer.backends import Backend, lookup
from tracer.backends.replay.options import ReplayOptions
from tracer.backends.replay.recorder import CpuRecorder
from tracer.backends.replay.recording import Plan
from tracer.backends.replay.site import Site

Tensor = torch.Tensor


def options(**more: Any) -> dict[str, Any]:
    return {"recorder": "cpu", "inner": "eager", "replay_trial": 0, "replay_warm_up": 1, **more}


def replayed(fn: Any = None, **more: Any) -> Any:
    """A compiled copy of it."""
    return tracer.compile(fn, backend="cudagraph", options=options(**more), inplace=False)


def backend(**more: Any) -> Backend:
    return lookup("cudagraph", options=options(**more))


def notes(fn: Any) -> str:
    """Of all regions that there are of a compiled function."""
    state = tracer.api.runtime.state_of(fn)
    assert state is not None
    found = [getattr(region.compiled.call, "notes", list)() for region in state.regions]
    return "\n".join(line for lines in found for line in lines)


def counted(what: str) -> int:
    return tracer.counters()[what]


def site(fn: Callable[..., Sequence[Any]], recorder: Any = None, plan: Plan | None = None, **more: Any) -> Site:
    """A callable around a plain function of tensors that gives a tuple."""
    own = {key: more.pop(key) for key in ("static", "dynamic", "lanes") if key in more}
    chosen = ReplayOptions(recorder="cpu", **{"replay_trial": 0, "replay_warm_up": 1, **more})
    return Site("region", lambda given: fn(*given), recorder or CpuRecorder(), chosen, plan or Plan(), **own)


def same(results: Any, expected: Any) -> None:
    torch.testing.assert_close(results, expected, rtol=0, atol=0, equal_nan=True)
