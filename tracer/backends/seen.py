"""One call of what Inductor compiled, watched above the layers that are around it and below them.

Which layer does what in which version of torch need not be known: where every argument is the very same object on both
sides, the state is the same and no input is written but by the graph, the layers before the graph did nothing. What is
made of the graph's results is for those who ask (straight.py, straight_training.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import torch_private

#: takes the inputs in one list, which it may empty
Boxed = Callable[[list[Any]], Sequence[Any]]

OTHER_INPUTS = "other inputs reach the compiled graph (a subclass, a seed, memory that inputs share)"
OTHER_RESULTS = "results are made of those of the compiled graph (a view of an input, a subclass)"


class Seen:
    """What was seen of one call.

    graph: what Inductor compiled, found below the layers.
    below: what it calls, for a list of inputs. arrived, left: that list, as it was, and what came of it.
    switches_grad_off, counted: the layers switch the grad mode off; places of inputs whose version they count.
    """

    def __init__(self, graph: Any, inputs: Sequence[Any]) -> None:
        self.graph = graph
        self.below: Boxed = graph.current_callable
        self.inputs = inputs
        self.arrived: list[Any] = []
        self.left: Sequence[Any] = ()
        self.switches_grad_off = False
        self.counted: list[int] = []
        self._thread = threading.get_ident()
        self._entered: list[tuple[list[int | None], tuple[Any, ...]]] = []
        self._left: list[list[int | None]] = []

    def call(self, layered: Callable[..., Any], *given: Any) -> Any:
        self._above = _versions(self.inputs), _state()
        self.graph.current_callable = self._watched
        try:
            return layered(*given)
        finally:
            self.graph.current_callable = self.below
            self._after = _versions(self.inputs), _state()

    def _watched(self, inputs: list[Any]) -> Sequence[Any]:
        if threading.get_ident() != self._thread:
            return self.below(inputs)
        self.arrived = list(inputs)
        self._entered.append((_versions(self.inputs), _state()))
        self.left = self.below(inputs)
        self._left.append(_versions(self.inputs))
        return self.left

    def reason_around(self) -> str:
        """What the layers did beside giving inputs and results on; the empty string where that was nothing."""
        if len(self._entered) != 1 or len(self._left) != 1:
            return "the compiled graph is not called once for each call"
        [(entered, below)], [left] = self._entered, self._left
        (above, state), (after, state_after) = self._above, self._after
        if not isinstance(self.left, (tuple, list)):
            return "the compiled graph gives no tuple"
        if state_after != state:
            return "the state of torch is another one afterwards"
        if below[1:] != state[1:]:
            return "the compiled graph runs in another state of torch (autocast)"
        if after != left:
            return "inputs are written behind the compiled graph"
        counts = [None if a is None or b is None else b - a for a, b in zip(above, entered, strict=True)]
        if any(count not in (None, 0, 1) for count in counts):
            return "inputs are written before the compiled graph"
        self.switches_grad_off = state[0] and not below[0]
        self.counted = [place for place, count in enumerate(counts) if count == 1]
        return "" if state[0] == below[0] or self.switches_grad_off else "the grad mode is switched on"


def counting(call: Boxed, places: list[int]) -> Boxed:
    """`call`, which counts the versions of the inputs there; itself where there are none."""
    if not places:
        return call

    def counted(inputs: list[Any]) -> Sequence[Any]:
        count_versions([inputs[place] for place in places])
        return call(inputs)

    count_versions = torch.autograd.graph.increment_version
    return counted


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def is_same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """The same numbers at the same place, in the same order."""
    if not one.layout is other.layout is torch.strided:
        return False
    layout = (one.shape, one.stride(), one.dtype)
    return layout == (other.shape, other.stride(), other.dtype) and one.data_ptr() == other.data_ptr()


def _versions(inputs: Sequence[Any]) -> list[int | None]:
    """How often each was written; None for numbers, and for tensors of inference mode, which don't count."""
    return [
        given._version if isinstance(given, torch.Tensor) and not given.is_inference() else None for given in inputs
    ]


def _state() -> tuple[Any, ...]:
    """The grad mode first."""
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), *torch_private.thread_dispatch_keys()
