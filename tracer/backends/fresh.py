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


class FreshResults:
    """Clones what was made one and should not be.

    is_certain: it is known which results those are.
    """

    def __init__(self, capture: FxCapture) -> None:
        self._capture = capture
        self._candidates = [index for index in range(len(capture.outputs)) if _has_a_twin(capture, index)]
        self._to_clone: list[int] | None = None if self._candidates else []

    @property
    def is_certain(self) -> bool:
        return self._to_clone is not None

    def of(self, inputs: Sequence[Any], results: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The results of a call, each with memory of its own where eager's has that."""
        now = self._to_clone
        if now is None:
            now = _to_clone(self._capture, self._candidates, inputs, results)
            if all(_storage(results[index]) is not None for index in self._candidates):  # what is empty tells nothing
                self._to_clone = now
        return cloned(results, now) if now else results

    def around(self, call: Callable[[list[Any]], Sequence[torch.Tensor]]) -> Callable[[list[Any]], Any]:
        """What takes a list of inputs, once it is certain; itself where nothing is to be done."""
        places = self._to_clone
        assert places is not None
        if not places:
            return call

        def fresh(inputs: list[Any]) -> Sequence[torch.Tensor]:
            return cloned(call(inputs), places)

        return fresh


def cloned(results: Sequence[torch.Tensor], places: Sequence[int]) -> list[torch.Tensor]:
    own = list(results)
    for index in places:
        own[index] = own[index].clone()
    return own


def with_fresh_results(capture: FxCapture, call: Call) -> Call:
    """`call` itself where no result could be such a one."""
    found = FreshResults(capture)
    if found.is_certain:
        return call

    def fresh(*inputs: torch.Tensor) -> Sequence[torch.Tensor]:
        return found.of(inputs, call(*inputs))

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
