"""One region with replay: decide, compile with the inner backend, and put the recording around what that gives."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ... import torch_inductor, torch_replay
from ...graph.fx_capture import FxCapture
from ..straight import StraightCall
from .buckets import Buckets, the_batch, usable
from .cuda import CudaRecorder
from .options import ReplayOptions
from .recorder import CpuRecorder, Recorder
from .recording import Inner, Plan
from .refusals import is_dynamic, why_not_recorded
from .site import Site, sites
from .training import Sides, constants_of

if TYPE_CHECKING:
    from ..registry import Backend

Call = Callable[..., Sequence[Any]]
Compile = Callable[[FxCapture, "Backend"], Call]

_RECORDERS: dict[str, Recorder] = {"cuda": CudaRecorder(), "cpu": CpuRecorder()}


#: all there are, for `counters()`
_refused: weakref.WeakSet[Refused] = weakref.WeakSet()


class Region:
    """What a region calls, with what `explain` is told of its replay."""

    def __init__(self, call: Call, notes: Callable[[], list[str]]) -> None:
        self._call, self.notes = call, notes

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        return self._call(*inputs)


class Refused:
    """A region that runs its inner callable, and why."""

    def __init__(self, call: Call, reason: str) -> None:
        self._call, self.reason, self.calls = call, reason, 0
        _refused.add(self)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        self.calls += 1
        return self._call(*inputs)

    def notes(self) -> list[str]:
        return [f"not replayed, {self.reason} ({self.calls} calls)"]


def compile_replayed(capture: FxCapture, backend: Backend, compile_inner: Compile) -> Call:
    """The inner backend's callable, replayed from some call on; the callable alone where that cannot be.

    compile_inner: compiles a capture with a backend, and raises what goes wrong in it.
    """
    options, inner = backend.replay, backend.inner
    assert options is not None and inner is not None
    recorder = _RECORDERS[options.recorder]
    elsewhere = not options.everywhere and not _is_on(capture, recorder.device_type)
    if elsewhere and options.told and capture.operators:
        capture.remarks.append(f"not replayed, none of its tensors is on {recorder.device_type}")
    if elsewhere or not capture.operators:
        return compile_inner(capture, inner)
    reason = why_not_recorded(capture, recorder.device_type)
    if reason is None and capture.records_autograd:
        return _training(capture, inner, options, recorder, compile_inner)
    plan = Plan(
        frozenset(capture.mutates_inputs), tuple(constants_of(capture.module)), None, options.static_outputs
    )  # fmt: skip
    static, dynamic = capture.static_inputs, is_dynamic(capture)
    batch = the_batch(capture) if options.replay_sizes and dynamic and reason is None else None
    call = compile_inner(capture, inner)
    if reason is not None:
        return Refused(call, reason)
    site = Site("region", _listed(call), recorder, options, plan, static=static, dynamic=dynamic)
    if isinstance(batch, str):
        site.figures.append(f"no padding, {batch}")
    elif batch is not None:
        buckets = Buckets(site, call, capture, batch)
        buckets.sizes = usable(capture, batch, options.replay_sizes)
        return buckets
    return site


def _listed(call: Call) -> Inner:
    """It takes a list. What has the straight way knows a shorter one from some call on."""
    if isinstance(call, StraightCall):
        return lambda given: call.boxed(given)
    return lambda given: call(*given)


def _is_on(capture: FxCapture, device_type: str) -> bool:
    return any(
        isinstance(value := node.meta.get("example_value"), torch.Tensor) and value.device.type == device_type
        for node in capture.graph.nodes
    )


def _training(
    capture: FxCapture, inner: Backend, options: ReplayOptions, recorder: Recorder, compile_inner: Compile
) -> Call:
    examples = capture.examples()
    state = frozenset(examples[at].data_ptr() for at in capture.static_inputs)
    sides = Sides(recorder, options, state, is_dynamic(capture))
    if inner.name == "inductor":
        around = torch_replay.inductor_around(inner.compiler, sides.around)
        compiler = torch_inductor.with_known_installation(around)
    elif inner.name in ("eager", "aot_eager"):
        compiler = torch_replay.aot_around(sides.around)
    else:
        return Refused(compile_inner(capture, inner), f"{inner.name} has no hook for training")
    call = compile_inner(capture, replace(inner, compiler=compiler, plain=False))
    return Region(call, sides.notes)


def free_all() -> None:
    """Let go of every recording."""
    for site in sites():
        site.free()


def totals() -> dict[str, Any]:
    """Of all recordings there are now: how many, their replays and bytes; and why calls were not replayed."""
    refused: Counter[str] = Counter()
    alive = sites()
    for site in alive:
        refused.update(site.refused)
    for region in list(_refused):
        refused[region.reason] += region.calls
    return {
        "recordings": sum(len(site.recordings) for site in alive),
        "replays": sum(site.replays for site in alive),
        "replay_bytes": sum(site.bytes for site in alive),
        "not_replayed": dict(refused),
    }
