"""Branches one way of which only raises: the graph goes the other way, and its region looks if that was right.

`if not valid.all(): raise ...` depends on a tensor's value, but there is nothing to compile where it raises. So the
condition becomes an output of the graph. Where it is not as expected, the region is dropped, the state of the random
generators is given back, and the original bytecode runs from the entry, and raises. So nothing that the graph does may
outlast it, and what is computed from values that the program would have refused must come to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch

from ..errors import GraphBreak
from ..random_state import KEPT_DEVICES
from .fx_capture import GraphTensor

#: what may run for ever where its arguments are out of range
_MAY_NOT_END = ("binomial", "while_loop")
#: operators that stop the device, for good, where a tensor holds an index or a probability that is out of range
_STOP_THE_DEVICE = (
    "index", "gather", "scatter", "embedding", "take", "put_", "nll_loss", "cross_entropy", "multinomial", "bernoulli",
    "bincount", "one_hot", "ctc_loss", "multi_margin", "multilabel", "histc", "standard_gamma",
    "sample_dirichlet", "poisson",
)  # fmt: skip


class Expectations(list[tuple[GraphTensor, bool]]):
    """Tensors of a graph, each with the truth value that the region counts on, in the program's order."""

    def can_hold(self, tensor: GraphTensor) -> bool:
        """Has it a truth value, and can the state of its device be given back?"""
        return tensor.fake.numel() == 1 and tensor.fake.device.type in KEPT_DEVICES

    def refuse_what_cannot_wait(self, target: Callable[..., Any] | str, args: Sequence[Any], on_cpu: bool) -> None:
        """Raise GraphBreak for a call that must not run with values which the program may be about to refuse."""
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        stops = not on_cpu and (any(part in name for part in _STOP_THE_DEVICE) or _indexes_by_tensors(name, args))
        if stops or any(part in name for part in _MAY_NOT_END):
            self.must_be_decided(target)

    def must_be_decided(self, target: Callable[..., Any] | str) -> None:
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        raise GraphBreak("branch on a tensor", f"one that may raise must be decided before {name}()")


def _indexes_by_tensors(name: str, args: Sequence[Any]) -> bool:
    if name.strip("_") not in ("getitem", "setitem") or len(args) < 2:
        return False
    key = args[1] if isinstance(args[1], tuple) else (args[1],)
    return any(isinstance(part, (torch.Tensor, list)) for part in key)


def is_foreign(target: Callable[..., Any] | str) -> bool:
    """Is it a function of the user's, of which nobody knows what it does (one that is allowed in graphs)?"""
    if not isinstance(target, FunctionType):
        return False
    return (target.__module__ or "").partition(".")[0] not in ("torch", __name__.partition(".")[0])
