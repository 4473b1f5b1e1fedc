"""The straight way to what Inductor compiled, without the layers that AOTAutograd and Inductor put around it.

Those layers repeat mutations, make views anew, unwrap subclasses, feed seeds, switch autocast off. Which of that a
graph needs is not read off torch's metadata, which each version writes otherwise, but seen in the first calls: they go
the long way, and what arrives below the layers is compared with what was given above them (seen.py). Where every
argument and result is the very same object and the state is the same, the layers did nothing, and later calls go past
them. Two things that they do are done here instead, since they cost little: the grad mode is switched off, and versions
of inputs that are written are counted. What autograd records is for straight_training.py.

Alignment of inputs is checked further down (on devices whose kernels count on it), where the straight call begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from .. import torch_inductor, torch_private
from ..graph.fx_capture import FxCapture
from .fresh import FreshResults
from .seen import OTHER_INPUTS, OTHER_RESULTS, Boxed, Seen, counting, same

#: In its first call alone torch watches custom operators, by a mode: what is seen then is not what will be.
LOOKS = 2


class Look(Protocol):
    """A call that is watched, what it says of the layers, and the way past them, if it says nothing."""

    def call(self, layered: Callable[..., Any], *given: Any) -> Any: ...
    def reason_for_layers(self, results: Sequence[Any]) -> str: ...
    def straight(self) -> Boxed: ...


class StraightCall:
    """A compiled graph that is called with a list of its inputs (`boxed`), or with the inputs one by one.

    boxed: what is to be called. It is another one once the first call is over: `on_settled` is told then, and again at
    each further call of the old one, until it answers True.
    """

    def __init__(self, capture: FxCapture, layered: Callable[..., Sequence[torch.Tensor]], graph: Any) -> None:
        self._layered = layered
        self._graph = graph  # holds what the kernels need
        self._fresh = FreshResults(capture)
        self._first = threading.Lock()
        self._looked = 0
        self._final: Boxed | None = None
        self.on_settled: Callable[[StraightCall], bool] | None = None
        self.boxed: Boxed = self._unsettled
        #: why the layers stay, once that is known
        self.reason = ""

    @property
    def is_settled(self) -> bool:
        return self._final is not None

    def __call__(self, *inputs: Any) -> Sequence[torch.Tensor]:
        return self.boxed(list(inputs))

    def _unsettled(self, inputs: list[Any]) -> Sequence[torch.Tensor]:
        if self._final is not None:
            if self.on_settled is not None and self.on_settled(self):
                self.on_settled = None
            return self._final(inputs)
        if not self._first.acquire(blocking=False):  # another thread is at it
            return self._fresh.of(inputs, self._layered(*inputs))
        try:
            return self._run_first(inputs)
        finally:
            self._first.release()

    def _look(self, inputs: list[Any]) -> Look:
        return _Seen(self._graph, inputs)

    def _run_first(self, inputs: list[Any]) -> Sequence[torch.Tensor]:
        given = list(inputs)
        seen = self._look(given)
        results = seen.call(self._layered, *given)
        fresh = self._fresh.of(given, results)
        if not self._fresh.is_certain:
            return fresh
        reason = seen.reason_for_layers(results)
        self._looked += 1
        if reason and self._looked < LOOKS:
            return fresh
        self.reason = reason
        run = _positional(self._layered) if reason else seen.straight()
        self.boxed = self._final = self._fresh.around(run)
        if self.on_settled is not None and self.on_settled(self):
            self.on_settled = None
        return fresh


class _Seen(Seen):
    """A call that autograd does not record: its results are those of the graph."""

    def reason_for_layers(self, results: Sequence[Any]) -> str:
        """What the layers did; the empty string where that was nothing, or what `straight` does as well."""
        reason = self.reason_around()
        if not reason and not same(self.arrived, self.inputs):
            reason = OTHER_INPUTS
        if not reason and not same(self.left, results):
            reason = OTHER_RESULTS
        if not reason and any(isinstance(r, torch.Tensor) and r.grad_fn is not None for r in self._made(results)):
            reason = "autograd records the call"
        return reason

    def _made(self, results: Sequence[Any]) -> list[Any]:
        given = {id(value) for value in self.inputs}
        return [result for result in results if id(result) not in given]

    def straight(self) -> Boxed:
        call = torch_inductor.without_input_checks(self.graph, self.below)
        return counting(_without_grad(call) if self.switches_grad_off else call, self.counted)


def _without_grad(call: Boxed) -> Boxed:
    set_grad = torch_private.set_grad_enabled

    def without_grad(inputs: list[Any]) -> Sequence[torch.Tensor]:
        set_grad(False)
        try:
            return call(inputs)
        finally:
            set_grad(True)

    return without_grad


def _positional(call: Callable[..., Sequence[torch.Tensor]]) -> Boxed:
    def positional(inputs: list[Any]) -> Sequence[torch.Tensor]:
        return call(*inputs)

    return positional
