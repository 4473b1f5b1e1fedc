"""The results of operators that torch's fake tensors find slowly, by running their decomposition in Python.

Torch remembers what it found for the very same shapes; a network has many. A rule speaks for plain cases only, in which
the decomposition gives just this (a test compares them), and leaves all others to torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..torch_private import FakeTensor, FakeTensorMode, empty_fake

#: given the mode and the arguments, the result, or None where torch has to say
Rule = Callable[..., Any]

_PLAIN_FLOATS = frozenset([torch.float32, torch.float64])


def native_batch_norm(
    mode: FakeTensorMode,
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[FakeTensor, FakeTensor, FakeTensor] | None:
    """In training the statistics are those of each channel, in evaluation (on a CPU) they are empty."""
    if not _is_plain(input) or input.dim() < 2 or not input.is_contiguous() or input.dtype not in _PLAIN_FLOATS:
        return None
    channels = input.shape[1]
    per_channel = [tensor for tensor in (weight, bias, running_mean, running_var) if tensor is not None]
    if not all(_is_plain(tensor) and tensor.shape == (channels,) for tensor in per_channel):
        return None
    if any(tensor.dtype != input.dtype or tensor.fake_device != input.fake_device for tensor in per_channel):
        return None
    if input.numel() <= channels or (not training and (running_mean is None or running_var is None)):
        return None  # it fails, or divides by zero
    if not training and input.fake_device.type != "cpu":
        return None
    statistics = (channels,) if training else (0,)
    return (
        empty_fake(mode, input.shape, input),
        empty_fake(mode, statistics, input),
        empty_fake(mode, statistics, input),
    )


def _is_plain(tensor: Any) -> bool:
    """A strided tensor of known sizes without a known value."""
    return (
        type(tensor) is FakeTensor
        and tensor.layout is torch.strided
        and tensor.constant is None
        and not tensor._has_symbolic_sizes_strides
    )


RULES: dict[Any, Rule] = {torch.ops.aten.native_batch_norm.default: native_batch_norm}
