"""The straight way for graphs that autograd records: one autograd node around what Inductor compiled.

AOTAutograd's function is derived from, and its forward and backward are replaced by short ones. What these may leave
out is seen, as in straight.py: the first call of a region shows the function, the second is watched above and below the
layers of the forward, and a backward behind that above and below those of the backward (straight_backward.py). Tensors
are saved by `save_for_backward`, in the order and number in which AOTAutograd does it: hooks, versions and the memory
that a backward lets go of are autograd's business here as there.

Left out are the marks by which results tell TorchDynamo that their sizes may change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import torch_aot, torch_inductor
from ..graph.fx_capture import FxCapture
from .seen import OTHER_INPUTS, OTHER_RESULTS, Boxed, Seen, counting, is_same_memory
from .straight import Look, StraightCall
from .straight_backward import Backward


class StraightTraining(StraightCall):
    """A compiled graph that autograd records.

    function: AOTAutograd's, once a call has shown it. backward: the other side, once the forward goes straight.
    """

    def __init__(self, capture: FxCapture, layered: Callable[..., Sequence[torch.Tensor]]) -> None:
        super().__init__(capture, layered, None)
        self.dynamic = [any(type(n) is not int for n in (*o.shape, *o.stride)) for o in capture.outputs]
        self.function: torch_aot.Function | None = None
        self.backward: Backward | None = None

    def _look(self, inputs: list[Any]) -> Look:
        graph = None if self.function is None else torch_inductor.compiled_below(self.function.compiled_fw)
        return _First(self) if graph is None else _Forward(self, graph, inputs)


class _First:
    """A call that shows AOTAutograd's function."""

    def __init__(self, call: StraightTraining) -> None:
        self._call = call

    def call(self, layered: Callable[..., Any], *given: Any) -> Any:
        results = layered(*given)
        self._call.function = torch_aot.function_behind(results) if torch_aot.CAN_STAND_IN else None
        return results

    def reason_for_layers(self, results: Sequence[Any]) -> str:
        return "no autograd function around a graph of Inductor's is found behind the results"

    def straight(self) -> Boxed:
        raise AssertionError("nothing was seen")


class Plan:
    """What a forward does beside calling the graph, by place.

    results: how many there are; behind them the graph gives what is kept. detached: inputs that get no gradient.
    views: results that autograd must not take for views. constant, recorded: results without and with a gradient.
    saved: how many tensors are saved; unchecked: how many behind them are kept without a look at their versions.
    bare: those of both that may be views of nothing that lives. numbers: does it keep sizes behind these?
    """

    def __init__(self, results: int) -> None:
        self.results = results
        self.detached, self.views, self.bare = list[int](), list[int](), list[int]()
        self.constant, self.recorded = list[int](), list[int]()
        self.saved = self.unchecked = 0
        self.numbers = False


class _Forward(Seen):
    """A call that autograd records."""

    def __init__(self, call: StraightTraining, graph: Any, inputs: list[Any]) -> None:
        super().__init__(graph, inputs)
        self._call = call
        self._plan = Plan(0)

    def reason_for_layers(self, results: Sequence[Any]) -> str:
        """What the layers did; the empty string where that was nothing, or what `straight` does as well."""
        self._plan = Plan(len(results))
        reason = self.reason_around()
        if not reason and not self.switches_grad_off:
            reason = "the compiled graph runs outside of its node"
        return reason or self._about_inputs() or self._about_results(results) or self._about_kept(results)

    def _about_inputs(self) -> str:
        if len(self.arrived) != len(self.inputs):
            return OTHER_INPUTS
        for at, (arrived, given) in enumerate(zip(self.arrived, self.inputs, strict=True)):
            if arrived is given:
                continue
            if not _is_detached(arrived, given):
                return OTHER_INPUTS
            self._plan.detached.append(at)
        return ""

    def _about_results(self, results: Sequence[Any]) -> str:
        nodes = set()
        if len(self.left) < len(results):
            return OTHER_RESULTS
        for at, (left, result) in enumerate(zip(self.left, results, strict=False)):
            if type(result) is not torch.Tensor:
                return "a result is no plain tensor"
            if left is not result:
                if not is_same_memory(left, result) or result._is_view() or any(result is x for x in self.inputs):
                    return OTHER_RESULTS
                self._plan.views.append(at)
            if result.grad_fn is None:
                self._plan.constant.append(at)
            else:
                self._plan.recorded.append(at)
                nodes.add(type(result.grad_fn))
        function = self._call.function
        assert function is not None
        return "" if nodes == {function._backward_cls} else "results have other nodes"

    def _about_kept(self, results: Sequence[Any]) -> str:
        """What is left behind the results: tensors that are saved, those whose versions don't matter, sizes."""
        plan, left = self._plan, self.left[self._plan.results :]
        kept = torch_aot.kept_by(results[plan.recorded[0]].grad_fn)
        tensors = next((at for at, value in enumerate(left) if not isinstance(value, torch.Tensor)), len(left))
        if kept is None or kept.saved + len(kept.unchecked) != tensors or list(kept.numbers) != list(left[tensors:]):
            return "the node keeps something unknown"
        if not all(map(is_same_memory, left[kept.saved : tensors], kept.unchecked)):
            return "the node keeps something unknown"
        plan.saved, plan.unchecked, plan.numbers = kept.saved, len(kept.unchecked), len(left) > tensors
        arrived = {id(given) for given in self.arrived}
        plan.bare = [at for at, tensor in enumerate(left[:tensors]) if tensor._is_view() and id(tensor) not in arrived]
        return ""

    def straight(self) -> Boxed:
        call, plan = self._call, self._plan
        assert call.function is not None
        call.backward = Backward(call.function, plan.recorded, [call.dynamic[at] for at in plan.recorded])
        below = torch_inductor.without_input_checks(self.graph, self.below)
        function = torch_aot.derived(call.function, forward_of(below, plan), call.backward.method())
        return counting(_applied(function, plan.detached), self.counted)


def _is_detached(arrived: Any, given: Any) -> bool:
    plain = type(arrived) is torch.Tensor and type(given) in (torch.Tensor, torch.nn.Parameter)
    return plain and given.requires_grad and not arrived.requires_grad and is_same_memory(arrived, given)


# what runs ------------------------------------------------------------------------------------------------------------
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
    first, behind, end = plan.results, plan.results + plan.saved, plan.results + plan.saved + plan.unchecked
    bare = [first + at for at in plan.bare]

    def short(node: Any, *inputs: Any) -> tuple[Any, ...]:
        left = run(list(inputs))
        if behind > first:
            node.save_for_backward(*left[first:])
        return tuple(left[:first])

    def long(node: Any, *inputs: Any) -> tuple[Any, ...]:
        left = list(run(list(inputs)))
        for at in bare:
            left[at] = left[at].detach()
        node.save_for_backward(*left[first:behind])
        if plan.unchecked:
            torch_aot.keep_unchecked(node, left[behind:end])
        if plan.numbers:
            torch_aot.keep_numbers(node, left[end:])
        results = left[:first]
        for at in plan.views:
            if results[at]._is_view():
                results[at] = torch_aot.not_a_view(results[at], results[at].shape)
        if plan.constant:
            node.mark_non_differentiable(*[results[at] for at in plan.constant])
            node._materialize_non_diff_grads = False
        return tuple(results)

    return long if bare or plan.views or plan.constant or plan.unchecked or plan.numbers else short
