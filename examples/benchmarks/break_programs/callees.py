"""Functions of the program's own that break inside: the caller breaks at the call, and they are compiled as well."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .catalogue import ITEM, length, matrix, program, several, two


class Meter:
    def __init__(self) -> None:
        self.total = torch.zeros(())
        self.count = 0

    def update(self, loss: Tensor) -> Tensor:
        self.total = self.total * 0.9 + loss.detach().square()
        print("updates", self.count)
        self.count += 1
        return self.total.sqrt() / (1 + loss.abs())


@program("a method that breaks", lambda k, meter: (meter, *several(k)), state=Meter, breaks=3, iterations=length)
def calls_method(meter: Meter, batches: list[Tensor], weight: Tensor) -> Tensor:
    out = torch.zeros(())
    for batch in batches:
        loss = (batch @ weight).tanh().mean()
        out = out + meter.update(loss).sin() * 2
    return out.exp()


@program("a closure made at each iteration", several, breaks=3, iterations=length)
def makes_closures(batches: list[Tensor], weight: Tensor) -> Tensor:
    total = torch.zeros(64)
    for batch in batches:
        mean = batch.mean(0)

        def centred(x: Tensor) -> Tensor:
            x = x - mean  # noqa: B023 (called at once)
            print("centred", tuple(x.shape))
            return x.tanh() * mean.sigmoid()  # noqa: B023

        total = total + (centred(batch) @ weight).sum(0)
    return total.softmax(0)


@program("a lambda that breaks", two, breaks=3, iterations=3, itself=(ITEM,))
def calls_lambda(x: Tensor, weight: Tensor) -> tuple[Tensor, float]:
    measure = lambda t: t.square().mean().sqrt().item()  # noqa: E731
    total = 0.0
    for _ in range(3):
        x = torch.tanh(x @ weight)
        total += measure(x - x.mean())
        x = x * 1.1
    return x.exp(), total


def penalised(weight: Tensor, x: Tensor, *, power: int, name: str) -> Tensor:
    x = x - weight.mean() * 0.1
    print("penalty", name)
    return x.abs().pow(power).mean(-1, keepdim=True)


penalty = functools.partial(penalised, power=2, name="l2")


@program("functools.partial of a function that breaks", two, breaks=6, iterations=3)
def calls_partial(x: Tensor, weight: Tensor) -> Tensor:
    local = functools.partial(penalised, weight, power=3, name="l3")
    for _ in range(3):
        x = torch.relu(x @ weight)
        x = x - penalty(weight, x)
        x = x + local(x).tanh()
    return x.sin()


def logged(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Tensor:
        print("call of", function.__name__)
        result = function(*arguments, **options)
        return result * 0.5

    return wrapper


@logged
def layer(x: Tensor, weight: Tensor, gain: float = 2.0) -> Tensor:
    return torch.tanh(x @ weight) * gain


@program("a decorated function whose wrapper breaks", two, breaks=3, iterations=3)
def calls_decorated(x: Tensor, weight: Tensor) -> Tensor:
    for _ in range(3):
        x = x - x.mean()
        x = layer(x, weight, gain=3.0) + layer(x, weight) if x.ndim == 1 else layer(x, weight)
        x = x.sigmoid()
    return x.exp()


@program("recursion with a break at each level", lambda k: (*two(k), length(k)), breaks=3, iterations=length)
def recursion(x: Tensor, weight: Tensor, depth: int) -> Tensor:
    x = torch.tanh(x @ weight)
    print("depth", depth)
    x = x - x.mean()
    if depth > 1:
        x = recursion(x, weight, depth - 1)
    return x * 1.1 + weight


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.linear(x))
        self.calls += 1
        print("gate", self.calls)
        return gate * x


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.norm = nn.LayerNorm(64)


# The break is three calls down: in forward(), which Module._call_impl() calls, which Module.__call__() calls.
@program("a submodule whose forward breaks", lambda k, block: (block, matrix()), state=Block, breaks=5, iterations=3)
def calls_module(self: Block, x: Tensor) -> Tensor:
    for _ in range(3):
        hidden = self.norm(x).relu()
        x = x + self.gate(hidden) * 0.5
        x = x.tanh()
    return x.mean(0)


def lowest(x: Tensor) -> Tensor:
    x = x.sin() + 1
    print("lowest")
    return x.sqrt()


def middle(x: Tensor) -> Tensor:
    x = x * 2
    x = lowest(x)
    return x - x.mean()


@program("a break two calls down", two, breaks=5, iterations=3)
def two_levels(x: Tensor, weight: Tensor) -> Tensor:
    for _ in range(3):
        x = x @ weight
        x = middle(x)
        x = x.tanh()
    return x.exp()


@program("sorted() and map() with functions that break", several, breaks=5, iterations=length, itself=(ITEM,))
def callbacks(batches: list[Tensor], weight: Tensor) -> Tensor:
    ordered = sorted(batches, key=lambda t: (t @ weight).tanh().mean().item())
    total = torch.zeros(64)
    for out in map(lowest, ordered):
        total = total + (out @ weight).amax(0)
    return total.softmax(0)
