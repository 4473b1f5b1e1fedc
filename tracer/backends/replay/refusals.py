"""Why a graph cannot be recorded, as far as that can be read off it. The rest shows when it is recorded."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.fx

from ...graph.fx_capture import FxCapture, GraphNumber
from ...torch_symbols import is_unbacked

#: functions and methods that wait for the device, since the host needs what it computes
SYNCHRONISING = frozenset(
    "item tolist nonzero argwhere unique unique_consecutive masked_select bincount is_nonzero equal allclose cpu numpy"
    " _local_scalar_dense synchronize".split()
)


def why_not_recorded(capture: FxCapture, device_type: str) -> str | None:
    """None if nothing speaks against it."""
    devices = {fake.device for fake in _tensors(capture)}
    for device in sorted(devices, key=str):
        if device.type != device_type:
            return f"there are tensors on the device {device} in it"
    if len(devices) != 1:
        return "its tensors are on several devices" if devices else "it has no tensors"
    for node in capture.graph.nodes:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if node.op.startswith("call") and name.partition(".")[0] in SYNCHRONISING:
            return f"{name} waits for the device"
    for fake in _tensors(capture):
        if any(not isinstance(size, int) and is_unbacked(size) for size in fake.shape):
            return "the size of a tensor depends on values"
    return None


def _tensors(capture: FxCapture) -> Iterator[torch.Tensor]:
    for node in capture.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            yield value


def is_dynamic(capture: FxCapture) -> bool:
    """May sizes or numbers change from call to call?"""
    return bool(capture.layouts) or any(isinstance(given, GraphNumber) for given in capture.inputs)
