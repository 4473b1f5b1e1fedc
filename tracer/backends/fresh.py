"""Results that a backend made one with an input, or with another result, though eager gives them memory of their own.

Inductor leaves out operators that change nothing (`x * 1.0` is then `x`'s memory) and computes equal expressions once.
Whoever writes to such a result would change the other tensor too. Which results those are is known from the first call
only, and stays the same: the compiled code has no branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from ..graph.fx_capture import FxCapture, GraphTensor, Output

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
        now = to_clone
        if now is None:
            now = _to_clone(capture, candidates, inputs, results)
            if all(_storage(results[index]) is not None for index in candidates):  # what is empty tells nothing
                to_clone = now
        if now:
            results = list(results)
            for index in now:
                results[index] = results[index].clone()
        return results

    return fresh


def _has_a_twin(capture: FxCapture, index: int) -> bool:
    """Is there an input or an earlier result that could take this one's place, and may not?"""
    output = capture.outputs[index]
    if output.same_as_input is not None:
        return False
    return any(
        at not in output.shares_with and given.fake.dtype == output.dtype and _is_as_large(given.fake.shape, output)
        for at, given in enumerate(capture.inputs)
        if isinstance(given, GraphTensor)
    ) or any(
        at not in output.shares_with_outputs and other.dtype == output.dtype and _is_as_large(other.shape, output)
        for at, other in enumerate(capture.outputs[:index])
    )


def _is_as_large(shape: Sequence[Any], output: Output) -> bool:
    """Could it be, where sizes are symbols?"""
    if any(type(size) is not int for size in (*shape, *output.shape)):
        return True
    return prod(shape) >= prod(output.shape)


def _to_clone(
    capture: FxCapture, candidates: list[int], inputs: Sequence[Any], results: Sequence[torch.Tensor]
) -> list[int]:
    """The candidates that share memory with an input, or an earlier result that keeps its own, and should not."""
    found: list[int] = []
    for index in candidates:
        output, storage = capture.outputs[index], _storage(results[index])
        others = [
            given for at, given in enumerate(inputs) if at not in output.shares_with and isinstance(given, torch.Tensor)
        ]
        others += [r for at, r in enumerate(results[:index]) if at not in (*output.shares_with_outputs, *found)]
        if storage is not None and any(_storage(other) == storage for other in others):
            found.append(index)
    return found


def _storage(tensor: torch.Tensor) -> int | None:
    """Where its memory begins; None where there is none to share."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return None
    return tensor.untyped_storage().data_ptr()
