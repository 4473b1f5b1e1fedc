"""The programs whose dispatch is timed: a function of two tensors, and a chain of Linear layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

SCALE = 2.0


def pair(x: Tensor, y: Tensor, shift: float = 1.0) -> Tensor:
    return (x + y) * SCALE - shift


def changed_pair(x: Tensor, y: Tensor, shift: float = 1.0) -> Tensor:
    """Not timed: where an input is changed, it matters whether the other one shares its memory."""
    x.mul_(SCALE)
    return x + y - shift


def making(x: Tensor, y: Tensor) -> Tensor:
    """Not timed: it makes tensors itself, where the default device and dtype say."""
    return torch.ones(len(x), 2) @ torch.full((2, 3), 0.3) + torch.arange(3.0) * y[0]


class Chain(nn.Module):
    gain = 1.5

    def __init__(self, length: int, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(length)])
        self.offset = 0.25

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        if not self.training:
            x = torch.clamp(x, -0.1, 0.1)
        return x * self.gain + self.offset
