"""Results that a backend made one with an input, or with another result, though eager gives them memory of their own.

Inductor leaves out operators that change nothing (`x * 1.0` is then `x`'s memory) and computes equal expressions once.
Whoever writes to such a result would change the other tensor too. Which results those are is known from the first call
only, and stays the same: the compiled code has no branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import torch

from ..graph.fx_capture import FxCapture

Call = Callable[..., Sequence[torch.Tensor]]


def with_fresh_results(capture: FxCapture, call: Call) -> Call:
    """`call` itself where no result could be such a one."""
    candidates = [index for index in range(len(capture.outputs)) if _has_a_twin(capture, index)]
    if not candidates:
        return call
    to_clone: list[int] | None = None

    def fresh(*inputs: torch.Tensor) -> Sequence[torch.Tensor]:
        nonlocal to_clone
        results = call(*inputs)
        if to_clone is None:
            to_clone = _to_clone(capture, candidates, inputs, results)
        if to_clone:
            results = list(results)
            for index in to_clone:
                results[index] = results[index].clone()
        return results

    return fresh


def _has_a_twin(capture: FxCapture, index: int) -> bool:
    """Is there an input or an earlier result that could take this one's place, and may not?"""
    output = capture.outputs[index]
    if output.same_as_input is not None:
        return False
    size = prod(output.shape)
    return any(
        at not in output.shares_with and tensor.fake.dtype == output.dtype and tensor.fake.numel() >= size
        for at, tensor in enumerate(capture.inputs)
    ) or any(
        at not in output.shares_with_outputs and other.dtype == output.dtype and prod(other.shape) >= size
        for at, other in enumerate(capture.outputs[:index])
    )


def _to_clone(
    capture: FxCapture, candidates: list[int], inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]
) -> list[int]:
    """The candidates that share memory with an input, or an earlier result that keeps its own, and should not."""
    found: list[int] = []
    for index in candidates:
        output, storage = capture.outputs[index], _storage(results[index])
        others = [tensor for at, tensor in enumerate(inputs) if at not in output.shares_with]
        others += [r for at, r in enumerate(results[:index]) if at not in (*output.shares_with_outputs, *found)]
        if storage is not None and any(_storage(other) == storage for other in others):
            found.append(index)
    return found


def _storage(tensor: torch.Tensor) -> int | None:
    """Where its memory begins; None where there is none to share."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return None
    return tensor.untyped_storage().data_ptr()
