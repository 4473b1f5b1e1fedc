"""Python numbers change: counters, loop variables, attributes, learning rates, scales."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .catalogue import Driven, made, note, program, size


def vector(k: int) -> tuple[Tensor]:
    return (torch.randn(8),)


# counters ------------------------------------------------------------------------------------------------------------
class Counter:
    def __init__(self) -> None:
        self.step = 0

    def counts(self, x: Tensor) -> Tensor:
        self.step += 1
        return x.sin() + x.mean()

    def decays(self, x: Tensor) -> Tensor:
        self.step += 1
        return x * 0.9**self.step

    def averages(self, x: Tensor) -> Tensor:
        self.step += 1
        return x / self.step + x.mean() * (1 - 1 / self.step)

    def decides(self, x: Tensor) -> Tensor:
        self.step += 1
        return x.cumsum(0) if self.step % 4 == 0 else x.sin()

    def tells(self, x: Tensor) -> tuple[Tensor, str]:
        self.step += 1
        return x.tanh(), f"step {self.step}"


@made("a counter on an object that is only counted", vector, fewer=True)
def counter() -> Any:
    return Counter().counts


@made("a counter whose power is a factor", vector, fewer=True)
def counter_in_a_power() -> Any:
    return Counter().decays


@made("a counter that divides", vector, fewer=True)
def counter_that_divides() -> Any:
    return Counter().averages


@made("a counter that decides now and then", vector, fewer=True)
def counter_that_decides() -> Any:
    return Counter().decides


@made("a counter in a text", vector, fewer=True)
def counter_in_a_text() -> Any:
    return Counter().tells


calls_so_far = 0


@made("a global counter", vector, fewer=True)
def global_counter() -> Callable[[Tensor], Tensor]:
    global calls_so_far
    calls_so_far = 0

    def count(x: Tensor) -> Tensor:
        global calls_so_far
        calls_so_far += 1
        return x.exp() * calls_so_far

    return count


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.linear(x) / (1 + self.calls)


@made("a counter on a module", vector, fewer=True)
def counter_on_a_module() -> nn.Module:
    return Counting()


@made("counts by name in a dict", lambda k: (torch.randn(8), ("train", "test")[k % 2]), fewer=True)
def counts_in_a_dict() -> Any:
    counts = {"train": 0, "test": 0}

    def count(x: Tensor, phase: str) -> Tensor:
        counts[phase] += 1
        return x.tanh() + x

    return count


@program("a step given as an argument", lambda k: (torch.randn(8), k))
def step_argument(x: Tensor, step: int) -> tuple[Tensor, int]:
    return x * min(1.0, (step + 1) / 6), step + 1


# loop variables ------------------------------------------------------------------------------------------------------
@program("the variable of a loop with a break", lambda k: (torch.randn(8), 3 + k % 3), fewer=True)
def loop_variable(x: Tensor, steps: int) -> Tensor:
    for step in range(steps):
        x = x.sin() + step
        note(step)
        x = x / (step + 1)
    return x


def block(x: Tensor, step: int) -> Tensor:
    return x.sin() * (step + 1)


@program("... given to a function that is called in the loop", lambda k: (torch.randn(8), 3 + k % 3), fewer=True)
def loop_variable_as_argument(x: Tensor, steps: int) -> Tensor:
    for step in range(steps):
        x = block(x, step)
        note(step)
    return x


@made("the variable of a loop around what is compiled", lambda k: (torch.randn(4, 8),))
def loop_around() -> Any:
    linear = torch.nn.Linear(8, 8)

    def step(x: Tensor, i: int) -> Tensor:
        return linear(x).tanh() * 0.5**i

    def drive(step: Callable[..., Tensor], x: Tensor) -> Tensor:
        for i in range(5):
            x = step(x, i)
        return x

    return Driven(step, drive)


@program("what a loop counts up itself", lambda k: (torch.randn(8), 4 + k % 3), fewer=True)
def while_loop(x: Tensor, steps: int) -> Tensor:
    step, scale = 0, 1.0
    while step < steps:
        x = x.tanh() * scale
        note(step)
        step += 1
        scale *= 0.9
    return x


def scales_of(k: int) -> tuple[Tensor, list[float]]:
    return torch.randn(8), [0.1 * (i + k) for i in range(4)]


@program("the numbers of a list that is walked", scales_of, fewer=True)
def loop_over_numbers(x: Tensor, scales: list[float]) -> Tensor:
    for scale in scales:
        x = x.cos() * scale
        note(0)
    return x


@program("enumerate", lambda k: (list(torch.randn(3 + k % 3, 8)),), fewer=True)
def enumerated(xs: list[Tensor]) -> Tensor:
    total = torch.zeros(8)
    for i, x in enumerate(xs):
        total = total + x * i
        note(i)
    return total


# attributes ----------------------------------------------------------------------------------------------------------
class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.scale


class Annealed(Scaled):
    def forward(self, x: Tensor) -> Tensor:
        self.scale *= 0.9
        return self.linear(x) * self.scale


@made("a float of a module, which it changes", vector, fewer=True)
def float_on_a_module() -> nn.Module:
    return Annealed()


class Ema:
    """An average that warms up."""

    def __init__(self) -> None:
        self.decay, self.shadow = 0.5, torch.zeros(8)

    def update(self, x: Tensor) -> Tensor:
        self.shadow = self.shadow * self.decay + x * (1 - self.decay)
        self.decay += 0.04
        return self.shadow


@made("a float of an object, which it changes", vector, fewer=True)
def float_on_an_object() -> Any:
    return Ema().update


class Epoch:
    """The user sets the attribute between calls."""

    def __init__(self) -> None:
        self.epoch = 0

    def loss(self, x: Tensor) -> Tensor:
        return x.square().mean() * self.epoch


@made("an integer of an object, set between calls", vector)
def integer_set_between_calls() -> Any:
    epoch = Epoch()

    def drive(loss: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        epoch.epoch += 3
        return loss(x)

    return Driven(epoch.loss, drive)


@made("a float of a module, set between calls", vector)
def float_set_between_calls() -> Any:
    def drive(module: Any, x: Tensor) -> Tensor:
        module.scale *= 0.8
        return module(x)

    return Driven(Scaled(), drive)


# numbers given ------------------------------------------------------------------------------------------------------
@program("the learning rate", lambda k: (torch.randn(8), torch.randn(8), 0.1 / (k + 1)))
def learning_rate(p: Tensor, grad: Tensor, lr: float) -> Tensor:
    return p - lr * grad


@made("the learning rate, in a group of parameters", lambda k: (torch.randn(8), torch.randn(8)))
def learning_rate_in_a_dict() -> Any:
    group: dict[str, Any] = {"lr": 0.1, "weight_decay": 0.01}

    def step(p: Tensor, grad: Tensor) -> Tensor:
        return p.mul(1 - group["lr"] * group["weight_decay"]).add(grad * -group["lr"])

    def drive(step: Callable[..., Tensor], p: Tensor, grad: Tensor) -> Tensor:
        group["lr"] *= 0.9
        return step(p, grad)

    return Driven(step, drive)


@program("a schedule of the step", lambda k: (torch.randn(8), torch.randn(8), k + 2))
def schedule(p: Tensor, grad: Tensor, step: int) -> Tensor:
    lr = 0.5 * 0.1 * (1 + math.cos(math.pi * step / 100))
    return p - lr * grad / (1 - 0.9**step)


@program("the temperature", lambda k: (torch.randn(2, 8), 0.5 + 0.1 * k))
def temperature(logits: Tensor, t: float) -> Tensor:
    return (logits / t).softmax(-1)


@program("alpha", lambda k: (torch.randn(8), torch.randn(8), 0.5 + 0.1 * k))
def alpha(x: Tensor, y: Tensor, a: float) -> Tensor:
    return torch.add(x, y, alpha=a) + x.sub(y, alpha=a)


@program("the bounds of clamp", lambda k: (torch.randn(8), 0.1 + 0.1 * k))
def clamp(x: Tensor, bound: float) -> Tensor:
    return x.clamp(-bound, bound)


@program("the weight of lerp", lambda k: (torch.randn(8), torch.randn(8), 0.1 + 0.05 * k))
def lerp(x: Tensor, y: Tensor, weight: float) -> Tensor:
    return torch.lerp(x, y, weight)


@program("numbers between which where chooses", lambda k: (torch.randn(8), 0.1 + 0.1 * k))
def where(x: Tensor, other: float) -> Tensor:
    return torch.where(x > 0, x, other)


@program("the value of full", lambda k: (torch.randn(2, 8), 0.1 + 0.1 * k))
def full(x: Tensor, value: float) -> Tensor:
    return x + torch.full((8,), value) + torch.full_like(x, value)


@program("numbers in torch.tensor", lambda k: (torch.randn(2), k + 2, 0.1 * k + 0.1))
def made_tensor(x: Tensor, n: int, f: float) -> Tensor:
    return x * torch.tensor([n, n + 1]) + torch.tensor(f)


@program("a remainder", lambda k: (torch.randn(8), k + 2))
def remainder(x: Tensor, n: int) -> Tensor:
    return (x * 10) % n


@program("an exponent", lambda k: (torch.rand(8), 0.3 + 0.1 * k))
def exponent(x: Tensor, power: float) -> Tensor:
    return x**power


@program("the value of masked_fill", lambda k: (torch.randn(8), 0.1 + 0.1 * k))
def masked_fill(x: Tensor, value: float) -> Tensor:
    return x.masked_fill(x < 0, value)


@program("the p of dropout", lambda k: (torch.randn(8), 0.1 + 0.05 * k))
def dropout_p(x: Tensor, p: float) -> Tensor:
    return F.dropout(x, p)


@program("the scale of attention", lambda k: (*torch.randn(3, 2, 4, 8), 0.1 + 0.05 * k))
def attention_scale(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, scale=scale)


@program("an index", lambda k: (torch.randn(12, 8), k))
def index(x: Tensor, i: int) -> Tensor:
    return x[i] + x[-1]


@program("an integer next to integers", lambda k: (torch.arange(8), size(k)))
def integers(x: Tensor, n: int) -> Tensor:
    return (x + n) * 2 + (x < n)
