"""What a recording reads: tensors that stay where they are, and buffers that all others are copied into.

A recording has addresses in it. Parameters and buffers of modules are read where they lie, and so is what was large or
written and lay at the same place in each warm-up call (a KV cache): the address is asked at each call, so whoever moved
gets another recording. All other inputs are copied, all in one call; where the graph writes them, they are copied back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Any

import torch

from ... import torch_replay

#: an input of at least so many bytes is read where it is, if it seems to stay there
LARGE = 1 << 20


class Inputs:
    """The inputs of one recording. It holds its buffers, and nothing of the caller's."""

    def __init__(self, given: Sequence[Any], static: Collection[int], mutated: Collection[int]) -> None:
        tensors = [i for i, value in enumerate(given) if isinstance(value, torch.Tensor)]
        self.static = tuple(i for i in tensors if i in static)
        self.copied = tuple(i for i in tensors if i not in static)
        self.addresses = [given[i].data_ptr() for i in self.static]
        self._pick = itemgetter(*self.static) if len(self.static) > 1 else None
        self.written_in_place = tuple(i for i in self.static if i in mutated)
        self.written_back = tuple(i for i in self.copied if i in mutated)
        self._thin = tuple(i for i in self.copied if repeats(given[i]))
        with torch.inference_mode(False):
            self._full = {i: buffer_like(given[i]) for i in self.copied}
        self.buffers = [once(buffer) for buffer in self._full.values()]
        self._back = [self._full[i] for i in self.written_back]

    def merged(self, given: Sequence[Any]) -> list[Any]:
        """What the recording reads: the buffers, and of the caller's what is static, and numbers."""
        return [self._full.get(i, value) for i, value in enumerate(given)]

    def fits(self, given: Sequence[Any]) -> bool:
        if self._pick is not None:
            return [*map(torch.Tensor.data_ptr, self._pick(given))] == self.addresses
        return [given[i].data_ptr() for i in self.static] == self.addresses

    def copy_in(self, given: Sequence[Any]) -> None:
        if not self.buffers:
            return
        sources = [given[i] for i in self.copied]
        if self._thin:
            sources = [once(source) for source in sources]
        torch_replay.foreach_copy(self.buffers, sources)

    def write_back(self, given: Sequence[Any]) -> None:
        """The caller's tensors hold what the graph wrote, and autograd knows that they were written."""
        if self._back:
            torch_replay.foreach_copy([given[i] for i in self.written_back], self._back)
        for i in self.written_in_place:
            if not given[i].is_inference():
                torch.autograd.graph.increment_version(given[i])

    @property
    def bytes(self) -> int:
        return sum(buffer.untyped_storage().nbytes() for buffer in self.buffers)


def buffer_like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def repeats(tensor: torch.Tensor) -> bool:
    """Is it expanded: is one place in memory several of its elements?"""
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def once(tensor: torch.Tensor) -> torch.Tensor:
    """Each place in memory once."""
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """May several elements lie at one place, in another way than by expanding?"""
    both = zip(tensor.stride(), tensor.shape, strict=True)
    pairs = sorted((stride, size) for stride, size in both if size > 1 and stride)
    reach = 0
    for stride, size in pairs:
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def why_not(given: Sequence[Any], mutated: Collection[int], device_type: str) -> str | None:
    """Why these cannot be the inputs of a recording; None if they can."""
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    for value in given:
        if not isinstance(value, torch.Tensor) and not (value is None or type(value) in (int, float, bool)):
            return f"an input is a {type(value).__name__}"
    for tensor in tensors:
        if tensor.device.type != device_type:
            return f"an input is on the device {tensor.device}"
        plain = type(tensor) is torch.Tensor or isinstance(tensor, (torch.nn.Parameter, torch.nn.Buffer))
        if not plain or tensor.is_conj() or tensor.is_neg():
            return "an input is a tensor of a special kind"
        if overlaps_itself(tensor):
            return "an input overlaps itself"
        if torch.is_grad_enabled() and tensor.requires_grad:
            return "an input requires grad, and the backend has no hook for training"
    if not tensors:
        return "it has no tensors as inputs"
    if len({tensor.device for tensor in tensors}) > 1:
        return "its inputs are on several devices"
    return None


def splits_memory(given: Sequence[Any], static: Collection[int], mutated: Collection[int]) -> bool:
    """Is an input written whose memory another one shares, and would one of them be copied?"""
    by_storage: dict[int, list[int]] = {}
    for i, value in enumerate(given):
        if isinstance(value, torch.Tensor) and value.numel():
            by_storage.setdefault(value.untyped_storage().data_ptr(), []).append(i)
    return any(
        len(sharing) > 1 and any(i in mutated for i in sharing) and any(i not in static for i in sharing)
        for sharing in by_storage.values()
    )
