"""`while`, nested loops, ways out of a loop, and breaks at every position of its body."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from .catalogue import ITEM, TRUTH, length, program, several, two


@program("while with a Python condition", lambda k: (*two(k), length(k)), breaks=1, iterations=length)
def while_python(x: Tensor, weight: Tensor, budget: int) -> Tensor:
    spent = 0
    while spent < budget:
        gradient = weight.t() @ (weight @ x - x)
        x = x - gradient * 0.1
        spent += 1
        print("spent", spent)
        x = x.clamp(-2, 2)
    return x.square().mean()


@program("while with a tensor condition", two, breaks=1, iterations=6, itself=(TRUTH,))
def while_tensor(x: Tensor, weight: Tensor) -> tuple[Tensor, int]:
    x, steps = x / x.norm(), 0
    while x.norm() < 5:
        x = x + torch.tanh(x @ weight) * 0.01
        x = x * 1.4
        x = x - x.mean(0) * 0.001
        steps += 1
    return x, steps


@program("nested loops, a break in both", lambda k: (*two(k), length(k)), breaks=2, iterations=lambda k: 2 * length(k))
def nested_loops(x: Tensor, weight: Tensor, width: int) -> Tensor:
    for epoch in range(2):
        rate = x.std() * 0.1
        for step in range(width):
            x = x - rate * torch.sin(x @ weight)
            print(epoch, step)
            x = x / (1 + x.square().mean())
        print("epoch", epoch)
        x = x * 1.01
    return x.sum(0)


@program("break out of a loop at a value", two, breaks=1, iterations=5, itself=(ITEM,))
def loop_break(x: Tensor, weight: Tensor) -> tuple[Tensor, int]:
    for step in range(20):
        x = torch.tanh(x @ weight) * 4
        change = (x - x.mean()).abs().amax()
        if step >= 4 or change.item() < 1e-3:
            break
        x = x + change * 0.01
    return x.exp(), step


@program("continue; else of a loop", several, breaks=1, iterations=length, itself=(ITEM,))
def loop_continue_else(batches: list[Tensor], weight: Tensor) -> Tensor:
    kept = torch.zeros(64)
    for batch in batches:
        score = (batch @ weight).mean()
        if score.item() < 0:
            continue
        kept = kept + torch.relu(batch).mean(0) * score.sigmoid()
    else:
        kept = kept / kept.norm()
        kept = kept.tanh()
    return kept * 2


@program("return from the midst of a loop in a loop", lambda k: (*two(k), k % 3), breaks=1,
         iterations=lambda k: 3 + k % 3)
def loop_return(x: Tensor, weight: Tensor, wanted: int) -> Tensor:
    for i in range(3):
        x = torch.cos(x @ weight) + x * 0.5
        for j in range(3):
            print("at", i, j)
            x = x - x.amax(0) * 0.01
            if i == 1 and j == wanted:
                return (x.sigmoid() - 0.5).sum(1)
            if j > i:
                break
        x = x * 0.75
    return x


@program("a break as the first and as the last statement", two, breaks=2, iterations=4)
def first_and_last(x: Tensor, weight: Tensor) -> Tensor:
    for i in range(4):
        print("begin", i)
        x = torch.relu(x @ weight)
        x = x - x.mean(0)
        x = x.div(x.std() + 1)
        print("end", i)
    return x.erf()


@program("a break amid half evaluated arguments", two, breaks=3, iterations=3)
def half_evaluated(x: Tensor, weight: Tensor) -> Tensor:
    for i in range(3):
        x = torch.lerp(x.sin() @ weight, torch.roll(x, shift(i), 0).cos(), x.abs().mean().sigmoid())
        x = torch.clamp(x * 2, min=-1.0, max=1.0)
    return x.square()


def shift(i: int) -> int:
    return 1 + len(zlib.compress(b"%d" % i)) % 3


@program("a break amid keywords and starred arguments", two, breaks=3, iterations=3)
def starred_arguments(x: Tensor, weight: Tensor) -> Tensor:
    for i in range(3):
        options = {"dim": -1, "keepdim": True}
        mean = torch.mean(x @ weight, **options)
        x = torch.cat((x.tanh(), mean.expand(64, shift(i))), **{"dim": 1})[:, :64] - torch.amax(x, *(1, True))
        x = x / x.norm()
    return x.exp()


@program("a break in a subscript", several, breaks=1, iterations=length)
def in_subscript(batches: list[Tensor], weight: Tensor) -> Tensor:
    names = ["even", "odd", "even", "odd", "even"]
    sums = {"even": torch.zeros(64, 64), "odd": torch.zeros(64, 64)}
    for i in range(len(batches)):
        out = (batches[i] @ weight).tanh()
        sums[names[i % len(names)]] += out * batches[len(zlib.compress(b"x")) % 2].sigmoid()
    return sums["even"].sin() - sums["odd"].cos()


@program("a break in an f-string", several, breaks=1, iterations=length, itself=(ITEM, "aten::detach"))
def in_fstring(batches: list[Tensor], weight: Tensor) -> tuple[Tensor, list[str]]:
    lines, state = [], weight.sum(0)
    for i, batch in enumerate(batches):
        state = torch.tanh(state + batch.mean(0)) @ weight
        lines.append(f"batch {i}: norm {state.norm():.4f} of {len(batches)}")
        state = state - state.mean()
    return state.softmax(0), lines


@program("a break in a condition: chained, and/or, ?:", two, breaks=4, iterations=3, itself=(TRUTH,))
def in_condition(x: Tensor, weight: Tensor) -> Tensor:
    for _ in range(3):
        spread = (x @ weight).std()
        if spread > -1.0 and (x.amax() > 100 or x.isfinite().all()):
            x = torch.tanh(x - spread)
        x = x.mul(2) if x.mean() < 50 else x.div(2)
        x = x + weight
    return x.abs()


@program("a tensor from a break in augmented assignment", two, breaks=1, iterations=4, itself=(ITEM,))
def augmented(x: Tensor, weight: Tensor) -> tuple[Tensor, float]:
    total, out = 0.0, x.clone()
    for _ in range(4):
        out *= torch.sigmoid(out @ weight)
        total += (out.square().mean() + 1).log().item()
        out -= out.mean(0) * 0.5
    return out, total


