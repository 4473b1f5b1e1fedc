"""The straight way to what Inductor compiled, without the layers that AOTAutograd and Inductor put around it.

Those layers repeat mutations, make views anew, unwrap subclasses, feed seeds, switch autocast off. Which of that a
graph needs is not read off torch's metadata, which each version writes otherwise, but seen in the first calls: they go
the long way, and what arrives below the layers is compared with what was given above them. Where every argument and
result is the very same object and the state is the same, the layers did nothing, and later calls go past them. Two
things that they do are done here instead, since they cost little: the grad mode is switched off, and versions of inputs
that are written are counted.

Alignment of inputs is checked further down (on devices whose kernels count on it), where the straight call begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import torch_inductor, torch_private
from ..graph.fx_capture import FxCapture
from .fresh import FreshResults, with_fresh_results

#: takes the inputs in one list, which it may empty
Boxed = Callable[[list[Any]], Sequence[torch.Tensor]]
#: In its first call alone torch watches custom operators, by a mode: what is seen then is not what will be.
LOOKS = 2


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

    def _run_first(self, inputs: list[Any]) -> Sequence[torch.Tensor]:
        given = list(inputs)
        seen = _Seen(self._graph, given)
        results = seen.call(self._layered)
        fresh = self._fresh.of(given, results)
        if not self._fresh.is_certain:
            return fresh
        self.reason = seen.reason_for_layers(results)
        self._looked += 1
        if self.reason and self._looked < LOOKS:
            return fresh
        run = _positional(self._layered) if self.reason else seen.straight()
        self.boxed = self._final = self._fresh.around(run)
        if self.on_settled is not None and self.on_settled(self):
            self.on_settled = None
        return fresh


def straight(
    capture: FxCapture, layered: Callable[..., Sequence[torch.Tensor]]
) -> Callable[..., Sequence[torch.Tensor]]:
    """The same, by the straight way where there may be one."""
    graph = None if capture.records_autograd else torch_inductor.compiled_below(layered)
    return with_fresh_results(capture, layered) if graph is None else StraightCall(capture, layered, graph)


class _Seen:
    """What was seen of one call, above the layers and below them.

    _switches_grad_off, _counted: the layers switch the grad mode off; places of inputs whose version they count.
    """

    def __init__(self, graph: Any, inputs: list[Any]) -> None:
        self._graph = graph
        self._below: Boxed = graph.current_callable
        self._inputs = inputs
        self._thread = threading.get_ident()
        self._entered: list[tuple[list[Any], list[int | None], tuple[Any, ...]]] = []
        self._left: list[tuple[Sequence[Any], list[int | None]]] = []
        self._switches_grad_off = False
        self._counted: list[int] = []

    def call(self, layered: Callable[..., Sequence[torch.Tensor]]) -> Sequence[torch.Tensor]:
        self._above = _versions(self._inputs), _state()
        self._graph.current_callable = self._watched
        try:
            return layered(*self._inputs)
        finally:
            self._graph.current_callable = self._below
            self._after = _versions(self._inputs), _state()

    def _watched(self, inputs: list[Any]) -> Sequence[Any]:
        if threading.get_ident() != self._thread:
            return self._below(inputs)
        self._entered.append((list(inputs), _versions(self._inputs), _state()))
        results = self._below(inputs)
        self._left.append((results, _versions(self._inputs)))
        return results

    def reason_for_layers(self, results: Sequence[Any]) -> str:
        """What the layers did; the empty string where that was nothing, or what `straight` does as well."""
        if len(self._entered) != 1 or len(self._left) != 1:
            return "the compiled graph is not called once for each call"
        (inputs, entered, below), (inner, left) = self._entered[0], self._left[0]
        (above, state), (after, state_after) = self._above, self._after
        if not _same(inputs, self._inputs):
            return "other inputs reach the compiled graph (a subclass, a seed, memory that inputs share)"
        if not isinstance(inner, (tuple, list)) or not _same(inner, results):
            return "results are made of those of the compiled graph (a view of an input, a subclass)"
        if state_after != state:
            return "the state of torch is another one afterwards"
        if below[1:] != state[1:]:
            return "the compiled graph runs in another state of torch (autocast)"
        if after != left:
            return "inputs are written behind the compiled graph"
        counts = [None if a is None or b is None else b - a for a, b in zip(above, entered, strict=True)]
        if any(count not in (None, 0, 1) for count in counts):
            return "inputs are written before the compiled graph"
        self._switches_grad_off = state[0] and not below[0]
        self._counted = [place for place, count in enumerate(counts) if count == 1]
        return "" if state[0] == below[0] or self._switches_grad_off else "the grad mode is switched on"

    def straight(self) -> Boxed:
        call, places = torch_inductor.without_input_checks(self._graph, self._below), self._counted
        if self._switches_grad_off:
            call = _without_grad(call)
        if not places:
            return call

        def counting(inputs: list[Any]) -> Sequence[torch.Tensor]:
            count_versions([inputs[place] for place in places])
            return call(inputs)

        count_versions = torch.autograd.graph.increment_version
        return counting


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


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _versions(inputs: Sequence[Any]) -> list[int | None]:
    """How often each was written; None for numbers, and for tensors of inference mode, which don't count."""
    return [
        given._version if isinstance(given, torch.Tensor) and not given.is_inference() else None for given in inputs
    ]


def _state() -> tuple[Any, ...]:
    """The grad mode first."""
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), *torch_private.thread_dispatch_keys()
