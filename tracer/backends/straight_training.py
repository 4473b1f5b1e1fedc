"""The straight way for graphs that autograd records: one autograd node around what Inductor compiled.

AOTAutograd's function is derived from, and its forward and backward are replaced by short ones. What these may leave
out is seen, as in straight.py: the first call of a region shows the function, the second is watched above and below the
layers of the forward, and a backward behind that above and below those of the backward. Until a backward was seen, and
for each one that is not as usual (it records itself or is repeated, a gradient has other strides, the state of torch is
another), the function's own backward is called: its nodes and the straight ones hold the same.

Tensors are saved by `save_for_backward`, in the order and number in which AOTAutograd does it: hooks, versions and the
memory that a backward lets go of are autograd's business here as there. In a backward Inductor's checks of its inputs
stay, since hooks may hand it anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import torch_aot, torch_inductor, torch_private
from ..graph.fx_capture import FxCapture
from .seen import Boxed, Seen, counting, same
from .straight import LOOKS, Look, StraightCall


class StraightTraining(StraightCall):
    """A compiled graph that autograd records.

    backward: the other side, once the forward goes straight.
    """

    def __init__(self, capture: FxCapture, layered: Callable[..., Sequence[torch.Tensor]]) -> None:
        super().__init__(capture, layered, None)
        self._function: torch_aot.Function | None = None
        self._dynamic = [any(type(n) is not int for n in (*o.shape, *o.stride)) for o in capture.outputs]
        self.backward: Backward | None = None

    def _look(self, inputs: list[Any]) -> Look:
        graph = None if self._function is None else torch_inductor.compiled_below(self._function.compiled_fw)
        return _Behind(self) if graph is None else _Forward(self, graph, inputs)


class _Behind:
    """The first call: it shows AOTAutograd's function."""

    def __init__(self, call: StraightTraining) -> None:
        self._call = call

    def call(self, layered: Callable[..., Any], *given: Any) -> Any:
        results = layered(*given)
        self._call._function = torch_aot.function_behind(results)
        return results

    def reason_for_layers(self, results: Sequence[Any]) -> str:
        return "results come of no function of AOTAutograd's around a graph of Inductor's"

    def straight(self) -> Boxed:
        raise AssertionError("there is none")


@dataclass
class Plan:
    """What a forward does beside calling the graph, by place.

    detached: inputs that get no gradient. results: how many there are. views: those of them which autograd must not
    take for views. constant: those without a gradient. saved: how many tensors are saved behind the results; unchecked:
    how many behind them without a look at their versions. bare: saved tensors that may be views. numbers: are there?
    """

    results: int
    detached: list[int] = field(default_factory=list)
    views: list[int] = field(default_factory=list)
    constant: list[int] = field(default_factory=list)
    recorded: list[int] = field(default_factory=list)
    saved: int = 0
    unchecked: int = 0
    bare: list[int] = field(default_factory=list)
    numbers: bool = False


class _Forward(Seen):
    """A call that autograd records."""

    def __init__(self, call: StraightTraining, graph: Any, inputs: list[Any]) -> None:
        super().__init__(graph, inputs)
        self._call = call
        self._plan = Plan(0)

    def reason_for_layers(self, results: Sequence[Any]) -> str:
        """What the layers did; the empty string where that was nothing, or what `straight` does as well."""
        self._plan = Plan(len(results))
        return (
            self.reason_around()
            or ("" if self.switches_grad_off else "the graph runs outside of its node")
            or self._about_inputs()
            or self._about_results(results)
            or self._about_kept(next(r.grad_fn for r in results if r is not None and r.grad_fn is not None))
        )

    def _about_inputs(self) -> str:
        if len(self.arrived) == len(self.inputs):
            for at, (arrived, given) in enumerate(zip(self.arrived, self.inputs, strict=True)):
                if arrived is given:
                    continue
                if not _is_detached(arrived, given):
                    break
                self._plan.detached.append(at)
            else:
                return ""
        return "other inputs reach the compiled graph (a subclass, a seed, memory that inputs share)"

    def _about_results(self, results: Sequence[Any]) -> str:
        nodes = set()
        if len(self.left) < len(results):
            return "results are made of those of the compiled graph (a view of an input, a subclass)"
        for at, (left, result) in enumerate(zip(self.left, results, strict=False)):
            if type(result) is not torch.Tensor:
                return "a result is no plain tensor"
            if left is not result:
                if not _is_same_memory(left, result) or result._is_view() or any(result is x for x in self.inputs):
                    return "results are made of those of the compiled graph (a view of an input, a subclass)"
                self._plan.views.append(at)
            if result.grad_fn is None:
                self._plan.constant.append(at)
            else:
                self._plan.recorded.append(at)
                nodes.add(result.grad_fn)
        if len(nodes) != 1 or not isinstance(nodes.pop(), self._call._function._backward_cls):  # type: ignore[union-attr]
            return "results have other nodes"
        return ""

    def _about_kept(self, node: Any) -> str:
        """What is left behind the results: tensors that are saved, those whose versions don't matter, sizes."""
        plan, left = self._plan, self.left[self._plan.results :]
        kept = torch_aot.kept_by(node)
        tensors = next((at for at, value in enumerate(left) if not isinstance(value, torch.Tensor)), len(left))
        if kept is None or kept.saved + len(kept.unchecked) != tensors or list(kept.numbers) != list(left[tensors:]):
            return "the node keeps something unknown"
        if not all(map(_is_same_memory, left[kept.saved : tensors], kept.unchecked)):
            return "the node keeps something unknown"
        plan.saved, plan.unchecked, plan.numbers = kept.saved, len(kept.unchecked), len(left) > tensors
        inputs = {id(given) for given in self.arrived}
        plan.bare = [at for at, tensor in enumerate(left[:tensors]) if tensor._is_view() and id(tensor) not in inputs]
        return ""

    def straight(self) -> Boxed:
        call, function = self._call, self._call._function
        call.backward = Backward(function, self._plan, call._dynamic)
        below = torch_inductor.without_input_checks(self.graph, self.below)
        derived = torch_aot.derived(function, forward_of(below, self._plan), call.backward.method())
        return counting(_applied(derived, self._plan.detached), self.counted)


def _applied(function: torch_aot.Function, detached: list[int]) -> Boxed:
    apply = function.apply

    def plain(inputs: list[Any]) -> Sequence[torch.Tensor]:
        return apply(*inputs)

    def detaching(inputs: list[Any]) -> Sequence[torch.Tensor]:
        for at in detached:
            inputs[at] = inputs[at].detach()
        return apply(*inputs)

    return detaching if detached else plain


def forward_of(run: Boxed, plan: Plan) -> Callable[..., tuple[Any, ...]]:
    """The forward of a straight node. The grad mode is off in it."""
    first, behind = plan.results, plan.results + plan.saved
    end = behind + plan.unchecked
    bare = [first + at for at in plan.bare]

    def forward(node: Any, *inputs: Any) -> tuple[Any, ...]:
        left = run(list(inputs))
        results = left[:first]
        if more:
            left, results = list(left), list(results)
            for at in bare:
                left[at] = left[at].detach()
            for at in plan.views:
                if results[at]._is_view():
                    results[at] = torch_aot.not_a_view(results[at], results[at].shape)
            if plan.constant:
                node.mark_non_differentiable(*[results[at] for at in plan.constant])
                node._materialize_non_diff_grads = False
            if plan.unchecked:
                torch_aot.keep_unchecked(node, left[behind:end])
            if plan.numbers:
                torch_aot.keep_numbers(node, left[end:])
        node.save_for_backward(*left[first:behind])
        return tuple(results)

    more = bool(bare or plan.views or plan.constant or plan.unchecked or plan.numbers)
    return forward


class Backward:
    """The other side: AOTAutograd's until a backward was seen, then a straight one wherever it is as usual.

    dynamic: may the sizes of the result change, by place. reason: why the layers stay, once that is known.
    """

    def __init__(self, function: torch_aot.Function, plan: Plan, dynamic: Sequence[bool]) -> None:
        self._layered = function.backward
        self._function = function
        self._recorded = plan.recorded
        self._dynamic = [dynamic[at] for at in plan.recorded]
        self._deterministic = torch.are_deterministic_algorithms_enabled()
        self._first = threading.Lock()
        self._looked = 0
        self._run: Boxed | None = None
        #: of each gradient that the graph takes: the strides with which it does so; None: contiguous, of any size
        self._strides: list[tuple[int, ...] | None] = []
        can_tell = torch_aot.keeps_graph is not None and torch_aot.let_go is not None
        self.reason = "" if can_tell else "this torch does not say whether a backward will be repeated"

    @property
    def is_settled(self) -> bool:
        return self._run is not None or bool(self.reason)

    def method(self) -> Callable[..., Any]:
        """`backward` of the nodes. AOTAutograd's says what is wrong where one is run that cannot be."""
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
            gradients = given[0] if type(given[0]) is list else given
            inputs = [gradients[at] for at in recorded]
            for at, strides in enumerate(self._strides):
                gradient = inputs[at]
                if type(gradient) is not torch.Tensor or gradient.layout is not torch.strided:
                    return self._layered(node, *given)
                if strides is None or gradient.stride() != strides:
                    inputs[at] = _laid_out(gradient, strides)
            inputs[:0] = torch_aot.unpacked(node)
            let_go(node)
            if gradients is not given:
                gradients.clear()
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
        strides: list[tuple[int, ...] | None] = []
        for arrived, given, dynamic in zip(seen.arrived[kept:], expected[kept:], self._dynamic, strict=True):
            if type(arrived) is not torch.Tensor or arrived.layout is not torch.strided:
                return "a gradient is no plain tensor"
            if arrived.shape != given.shape or arrived.dtype != given.dtype:
                return "other inputs reach the compiled backward"
            if dynamic and (not arrived.is_contiguous() or _may_be_channels_last(arrived)):
                return "a gradient of changing size is not contiguous"
            strides.append(None if dynamic else arrived.stride())
        self._strides = strides
        return ""


def _laid_out(gradient: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
    if strides is None:
        return gradient.contiguous()
    made = torch.empty_strided(gradient.shape, strides, dtype=gradient.dtype, device=gradient.device)
    return made.copy_(gradient)


def _may_be_channels_last(tensor: torch.Tensor) -> bool:
    """Contiguous in more than one way, which other sizes would tell apart."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()])


def _equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """The same tensors, equal numbers."""
    pairs = zip(one, other, strict=True)
    return all(a is b or (not isinstance(a, torch.Tensor) and type(a) is type(b) and a == b) for a, b in pairs)


def _is_detached(arrived: Any, given: Any) -> bool:
    plain = type(arrived) is torch.Tensor and type(given) in (torch.Tensor, torch.nn.Parameter)
    return plain and given.requires_grad and not arrived.requires_grad and _is_same_memory(arrived, given)


def _is_same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not one.layout is other.layout is torch.strided:
        return False
    same_layout = (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
    return same_layout and one.data_ptr() == other.data_ptr()
