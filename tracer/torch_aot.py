"""What is private of AOTAutograd and used here: the autograd function that it makes for a region that is trained.

It is found behind the results of a call, as the function whose node they have. What its nodes keep from the forward for
the backward is read off such a node: where that is more than is known here, nothing is said of it, and whoever asks
leaves the function as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = [
    "CAN_STAND_IN", "Function", "Kept", "Unpacked", "derived", "function_behind", "keep_numbers", "keep_unchecked",
    "keeps_graph", "kept_by", "let_go", "not_a_view", "unpacked",
]  # fmt: skip

#: an autograd function: a class
Function = Any


def function_behind(results: Sequence[Any]) -> Function | None:
    """The function of AOTAutograd whose node some result has.

    Its `compiled_fw` takes a list and returns the results, and behind them what is kept for the backward; `compiled_bw`
    is None until a backward has run. `backward` takes a node and gradients, and does whatever torch does about them.
    """
    names = ("compiled_fw", "compiled_bw", "_backward_cls")
    for result in results:
        function = getattr(type(getattr(result, "grad_fn", None)), "_forward_cls", None)
        if isinstance(function, type) and all(hasattr(function, name) for name in names):
            return function
    return None


# what a node keeps ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Kept:
    """What a node keeps for its backward.

    saved: how many tensors by `save_for_backward`. unchecked: tensors whose versions are not looked at. numbers: sizes.
    """

    saved: int
    unchecked: Sequence[torch.Tensor]
    numbers: Sequence[Any]


_UNCHECKED, _NUMBERS = "_tensors_no_vc_check", "symints"
#: attributes that are there for what no region of ours has
_EMPTY = ("opaque_objects", "_external_objects")


def kept_by(node: Any) -> Kept | None:
    """None where it keeps more than is known here."""
    attributes = dict(vars(node))
    unchecked, numbers = attributes.pop(_UNCHECKED, ()), attributes.pop(_NUMBERS, ())
    if any(attributes.pop(name, ()) for name in _EMPTY) or attributes:
        return None
    return Kept(len(node._raw_saved_tensors), unchecked, numbers)


def keep_unchecked(node: Any, tensors: Sequence[torch.Tensor]) -> None:
    node._tensors_no_vc_check = tensors


def keep_numbers(node: Any, numbers: Sequence[Any]) -> None:
    node.symints = numbers


def unpacked(node: Any) -> list[Any]:
    """What a node keeps, in the order in which the compiled backward takes it. Runs hooks on saved tensors."""
    return [*node.symints, *node.saved_tensors, *node._tensors_no_vc_check]


class Unpacked:
    """Stands for a node before AOTAutograd's own backward: what was saved is unpacked once, and known."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self.saved_tensors = node.saved_tensors
        self.all = unpacked(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def derived(function: Function, forward: Callable[..., Any], backward: Callable[..., Any]) -> Function:
    """A function of its own whose nodes are as good for the other's `backward` as the other's own are.

    What `forward` does not keep on a node (`keep_unchecked`, `keep_numbers`) is empty there.
    """
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    made: Any = type(function)(function.__name__, (function,), {**methods, "__module__": function.__module__})
    for name in (_UNCHECKED, _NUMBERS, _EMPTY[0]):
        setattr(made._backward_cls, name, ())
    return made


# what torch has for a backward ----------------------------------------------------------------------------------------
#: Will the backward that is under way be repeated? Also True where none is under way.
keeps_graph: Callable[[], bool] = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
#: of a node: let go of what it saved, unless it is needed again
let_go: Callable[[Any], None] = getattr(torch._C._FunctionBase, "maybe_clear_saved_tensors", lambda node: None)
#: Does this torch's function have all that a node of ours asks it for?
CAN_STAND_IN = hasattr(torch._C._FunctionBase, "_raw_saved_tensors")
#: a view of a tensor that autograd takes for no view
not_a_view: Callable[..., torch.Tensor] = torch.ops.aten._unsafe_view.default
