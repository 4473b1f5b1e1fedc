"""The backward of a straight node (straight_training.py).

Until a backward was seen above and below AOTAutograd's layers, and for each one that is not as usual (it records itself
or is repeated, the state of torch is another, a gradient is no plain tensor), AOTAutograd's own backward is called: it
does what it does, or says what is wrong. Which strides the compiled graph wants of a gradient is seen, too: one that
comes with others is copied, as the layers do it. Inductor's checks of inputs stay, since hooks on saved tensors may
hand it anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from .. import torch_aot, torch_inductor, torch_private
from .seen import Boxed, Seen, same
from .straight import LOOKS


class Backward:
    """The other side of a region: AOTAutograd's until a backward was seen, then straight wherever it is as usual.

    function: AOTAutograd's. recorded: places of the results that have gradients; dynamic: may their sizes change?
    reason: why the layers stay, once that is known.
    """

    def __init__(self, function: torch_aot.Function, recorded: Sequence[int], dynamic: Sequence[bool]) -> None:
        self._layered = function.backward
        self._function, self._recorded, self._dynamic = function, recorded, dynamic
        self._deterministic = torch.are_deterministic_algorithms_enabled()
        self._first = threading.Lock()
        self._looked = 0
        self._run: Boxed | None = None
        #: of each gradient that the graph takes: the strides with which it does so (None: contiguous, of any size),
        #: and what makes one with others such a one
        self._wanted: list[tuple[tuple[int, ...] | None, Callable[[torch.Tensor], torch.Tensor]]] = []
        self.reason = ""

    @property
    def is_settled(self) -> bool:
        return self._run is not None or bool(self.reason)

    def method(self) -> Callable[..., Any]:
        """`backward` of the nodes."""
        recorded, deterministic = self._recorded, self._deterministic
        grad_mode, deterministic_mode = torch.is_grad_enabled, torch.are_deterministic_algorithms_enabled
        functorch_level, keeps_graph, let_go = torch_private.functorch_level, torch_aot.keeps_graph, torch_aot.let_go

        def backward(node: Any, *given: Any) -> Any:
            run = self._run
            if (
                run is None
                or grad_mode()
                or keeps_graph()
                or deterministic_mode() is not deterministic
                or functorch_level() is not None
            ):
                return self._as_layered(node, given)
            boxed = type(given[0]) is list
            gradients = given[0] if boxed else given
            inputs = [gradients[at] for at in recorded]
            for at, (strides, copied) in enumerate(self._wanted):
                gradient = inputs[at]
                if type(gradient) is not torch.Tensor or gradient.layout is not torch.strided:
                    return self._layered(node, *given)
                if strides is None or gradient.stride() != strides:
                    inputs[at] = copied(gradient)
            inputs[:0] = torch_aot.unpacked(node)
            let_go(node)
            if boxed:
                given[0].clear()
            del gradient
            return tuple(run(inputs))

        return backward

    def _as_layered(self, node: Any, given: Sequence[Any]) -> Any:
        """AOTAutograd's backward. It is watched if it is the first one that is as usual."""
        unusual = torch.is_grad_enabled() or torch_private.functorch_level() is not None
        if self.is_settled or unusual or torch_aot.keeps_graph() or not self._first.acquire(blocking=False):
            return self._layered(node, *given)
        try:
            return self._look(node, given)
        finally:
            self._first.release()

    def _look(self, node: Any, given: Sequence[Any]) -> Any:
        compiled = self._function.compiled_bw
        if compiled is None:  # it is compiled in this call
            return self._layered(node, *given)
        graph = torch_inductor.compiled_below(compiled)
        if graph is None:
            self.reason = "no graph of Inductor's is found below the backward"
            return self._layered(node, *given)
        gradients = list(given[0]) if type(given[0]) is list else list(given)
        seen, once = Seen(graph, ()), torch_aot.Unpacked(node)
        expected = [*once.all, *(gradients[at] for at in self._recorded)]
        results = seen.call(self._layered, once, *given)
        reason = seen.reason_around() or self._about(seen, expected, results)
        self._looked += 1
        if not reason:
            self._run = seen.below
        elif self._looked == LOOKS:
            self.reason = reason
        return results

    def _about(self, seen: Seen, expected: list[Any], results: Sequence[Any]) -> str:
        kept = len(expected) - len(self._recorded)
        if len(seen.arrived) != len(expected) or not _equal(seen.arrived[:kept], expected[:kept]):
            return "other inputs reach the compiled backward"
        if not isinstance(results, tuple) or not same(seen.left, results):
            return "gradients are made of those of the compiled graph"
        self._wanted.clear()
        for arrived, given, dynamic in zip(seen.arrived[kept:], expected[kept:], self._dynamic, strict=True):
            if not type(arrived) is type(given) is torch.Tensor or arrived.layout is not torch.strided:
                return "a gradient is no plain tensor"
            if arrived is not given and not _is_laid_out(arrived, given):
                return "other inputs reach the compiled backward"
            if dynamic and (not arrived.is_contiguous() or _may_be_channels_last(arrived)):
                return "a gradient of changing size is not contiguous"
            copied = torch.Tensor.contiguous if arrived.is_contiguous() else partial(_laid_out, arrived.stride())
            self._wanted.append((None if dynamic else arrived.stride(), copied))
        return ""


def _laid_out(strides: tuple[int, ...], gradient: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(gradient.shape, strides, dtype=gradient.dtype, device=gradient.device)
    return made.copy_(gradient)


def _is_laid_out(arrived: torch.Tensor, given: torch.Tensor) -> bool:
    """Is it the same gradient, with other strides?"""
    if arrived.shape != given.shape or arrived.dtype != given.dtype or arrived.stride() == given.stride():
        return False
    return torch.allclose(arrived, given, rtol=0, atol=0, equal_nan=True)


def _may_be_channels_last(tensor: torch.Tensor) -> bool:
    """Contiguous in more than one way, which other sizes would tell apart."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()])


def _equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """The same tensors, equal numbers."""
    pairs = zip(one, other, strict=True)
    return all(a is b or (not isinstance(a, torch.Tensor) and type(a) is type(b) and a == b) for a, b in pairs)
