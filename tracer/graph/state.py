"""Torch's thread state as captured code changes it: grad mode, autocast, inference mode.

Each change is a node of the graph in the form that AOTAutograd understands, and is applied to the capturing thread too,
so that fake tensors come out as real ones would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from .. import torch_private
from ..errors import InternalError

#: kind -> (function that enters and returns what its leave function takes, leave function)
ENTER: dict[str, tuple[Callable[..., Any], Callable[[Any], None]]] = {
    "autocast": (torch_private.enter_autocast, torch_private.exit_autocast),
    "inference_mode": (torch_private.enter_inference_mode, torch_private.exit_inference_mode),
    "sdpa_kernel": (torch_private.enter_sdpa_kernel, torch_private.exit_sdpa_kernel),
}
GRAD_MODE = torch_private.set_grad_enabled
#: every target of a node that changes state
STATE_TARGETS = frozenset([GRAD_MODE, *(function for pair in ENTER.values() for function in pair)])


@dataclass(frozen=True, slots=True, eq=False)
class Entered:
    """A mode that was entered and can be left; `context` is the applied one."""

    kind: str
    arguments: tuple[object, ...]
    node: torch.fx.Node
    context: object
    grad_enabled_before: bool

    def leave(self) -> None:
        ENTER[self.kind][1](self.context)


@dataclass(frozen=True, slots=True)
class State:
    """Grad mode, and the modes that are entered, outermost first."""

    grad_enabled: bool
    entered: tuple[Entered, ...] = ()

    @staticmethod
    def current() -> State:
        return State(torch.is_grad_enabled())

    def begins_with(self, other: State) -> bool:
        """Is everything that was entered in the other state still entered?"""
        return self.entered[: len(other.entered)] == other.entered

    def back_to(self, other: State) -> None:
        """Apply: leave what was entered since the other state, and give back its grad mode."""
        if not self.begins_with(other):
            raise InternalError("a mode that was entered before a mark was left after it")
        for entered in reversed(self.entered[len(other.entered) :]):
            entered.leave()
        if torch.is_grad_enabled() != other.grad_enabled:
            GRAD_MODE(other.grad_enabled)
