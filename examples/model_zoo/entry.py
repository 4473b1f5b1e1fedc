"""What one model of the zoo is: a name, its library, and how it, its inputs and a call of it are made."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


def call_model(model: torch.nn.Module, inputs: dict[str, Any]) -> Any:
    """The usual call: `inputs` are keywords, but for `args`, which come first."""
    keywords = {name: value for name, value in inputs.items() if name != "args"}
    return model(*inputs.get("args", ()), **keywords)


@dataclass(frozen=True)
class Built:
    """A model that was just made, what it is called with in eval and in train mode, and what a call is."""

    model: torch.nn.Module
    inputs: dict[str, Any]
    training_inputs: dict[str, Any] | None = None
    call: Callable[[torch.nn.Module, dict[str, Any]], Any] = call_model


@dataclass(frozen=True)
class Entry:
    """One model. `build` takes its random numbers from torch, which was seeded before."""

    name: str
    family: str
    build: Callable[[], Built] = field(repr=False)
    #: False where it has no backward, or none that says more
    trains: bool = True

    def make(self, train: bool) -> tuple[Callable[[], Any], torch.nn.Module]:
        """A fresh model, the same at each call, and what calls it."""
        seed()
        built = self.build()
        built.model.train(train)
        inputs = built.training_inputs if train and built.training_inputs is not None else built.inputs
        return lambda: built.call(built.model, inputs), built.model


def seed(number: int = 0) -> None:
    """What models draw from: torch, and Python's own for layers that are dropped."""
    torch.manual_seed(number)
    random.seed(number)


def image(size: int, channels: int = 3, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, channels, size, size)


def tokens(vocabulary: int = 96, length: int = 12, batch: int = 2) -> torch.Tensor:
    """Ids above those that configs like to give a meaning."""
    return torch.randint(6, vocabulary, (batch, length))
