"""`for` over everything that can be iterated over, with a break in each body."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from .catalogue import ITEM, length, matrix, program, several, two

logger = logging.getLogger("breaks.loops")


@program("for over range; print behind the operators", lambda k: (*two(k), length(k)), breaks=1, iterations=length)
def for_range(x: Tensor, weight: Tensor, steps: int) -> Tensor:
    for step in range(steps):
        hidden = torch.tanh(x @ weight)
        x = x + hidden * 0.5
        x = x / (1 + x.abs().mean())
        print("step", step, "of", steps)
    return x.softmax(-1)


@program("for over a list; logging amid the operators", several, breaks=1, iterations=length)
def for_list(batches: list[Tensor], weight: Tensor) -> Tensor:
    total = torch.zeros(64)
    for batch in batches:
        scores = (batch @ weight).relu()
        logger.info("batch of %d rows", len(batch))
        scores = scores - scores.mean(0)
        total = total + scores.square().sum(0)
    return total.sqrt()


def named(k: int) -> tuple[Any, ...]:
    return {f"layer{i}": matrix() for i in range(length(k))}, matrix()


@program("for over dict.items(); .item() into a dict", named, breaks=1, iterations=length, itself=(ITEM,))
def for_dict_items(weights: dict[str, Tensor], x: Tensor) -> tuple[Tensor, dict[str, float]]:
    norms: dict[str, float] = {}
    for name, weight in weights.items():
        x = torch.tanh(x @ weight * 0.1)
        norms[name] = weight.square().mean().sqrt().item()
        x = x - x.mean(-1, keepdim=True)
    return x.exp(), norms


@program("for over dict.values() and dict.keys()", named, breaks=2, iterations=lambda k: length(k) * 2)
def for_dict_views(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    for weight in weights.values():
        x = (x @ weight).mul(0.1).sigmoid()
        print("rows", weight.shape[0])
    for name in weights.keys():  # noqa: SIM118 (the view is what is meant)
        x = torch.where(x > 0.5, x * 0.9, x + weights[name] * 0.01)
        print("used", name)
    return x.cos()


def pairs(k: int) -> tuple[Any, ...]:
    return [matrix() for _ in range(length(k))], [matrix() for _ in range(length(k))]


@program("for over zip; print first in the body", pairs, breaks=1, iterations=length)
def for_zip(inputs: list[Tensor], targets: list[Tensor]) -> Tensor:
    loss = torch.zeros(())
    for source, target in zip(inputs, targets, strict=True):
        print("pair", tuple(source.shape), tuple(target.shape))
        error = (source.tanh() - target.tanh()).square()
        loss = loss + error.mean() * 0.5 + error.max() * 0.1
    return loss


@program("for over enumerate; print of the counter", several, breaks=1, iterations=length)
def for_enumerate(batches: list[Tensor], weight: Tensor) -> Tensor:
    mean = torch.zeros(64, 64)
    for i, batch in enumerate(batches, start=1):
        out = (batch @ weight).sigmoid() * batch
        mean = mean + out.clamp(-1, 1)
        print(f"{i}: {100 * i // len(batches)} %")
        mean = mean - mean.mean() * 0.1
    return mean / len(batches)


def chunks(x: Tensor, count: int) -> Iterator[Tensor]:
    for i in range(count):
        window = torch.roll(x, i, 0)
        yield window.sub(window.mean()).div(window.std())


@program("for over a generator made in the function", lambda k: (*two(k), length(k)), breaks=3, iterations=length)
def for_generator(x: Tensor, weight: Tensor, count: int) -> Tensor:
    best = torch.full((64,), -100.0)
    for window in chunks(x, count):
        scores = (window @ weight).amax(0)
        print("window")
        best = torch.maximum(best, scores.tanh() * 2)
    return best.exp()


class Cycle:
    """An iterator as users write them: it counts, and gives one of its tensors."""

    def __init__(self, tensors: list[Tensor], times: int) -> None:
        self.tensors, self.times, self.position = tensors, times, 0

    def __iter__(self) -> Cycle:
        return self

    def __next__(self) -> Tensor:
        if self.position >= self.times:
            raise StopIteration
        self.position += 1
        return self.tensors[self.position % len(self.tensors)] * 0.5


def cycle(k: int) -> tuple[Any, ...]:
    return Cycle([matrix(), matrix()], length(k)), matrix() * 0.1


@program("for over a user's iterator", cycle, breaks=1, iterations=length)
def for_user_iterator(source: Cycle, weight: Tensor) -> Tensor:
    total = torch.zeros(64, 64)
    for tensor in source:
        out = torch.sin(tensor @ weight)
        total = total * 0.9 + out
        print("position", source.position)
        total = total.clamp(-3, 3)
    return total.abs().log1p()


def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="breaks"))


def words(k: int, where: Path) -> tuple[Any, ...]:
    path = where / "words.txt"
    path.write_text("".join(f"{i * (k + 1)} word\n" for i in range(length(k))), encoding="utf-8")
    return path, torch.randn(100, 64), matrix()


@program("for over a file's lines", words, state=folder, breaks=1, iterations=length, around=3)
def for_file(path: Path, table: Tensor, weight: Tensor) -> Tensor:
    state = torch.zeros(64)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = table.sum(0) * 0.01 + len(line)
            state = torch.tanh(state @ weight * 0.1 + row)
            state = state - state.mean()
    return state.cosh()


def loader(k: int) -> tuple[Any, ...]:
    data = TensorDataset(torch.randn(16 * length(k), 64), torch.randn(16 * length(k), 64))
    return DataLoader(data, batch_size=16), matrix() * 0.1


#: What the loader itself does to give a batch.
LOADING = ("aten::stack", "aten::select", "aten::empty", "aten::random_", ITEM)


@program("for over a DataLoader", loader, breaks=1, iterations=length, itself=LOADING)
def for_data_loader(batches: DataLoader[Any], weight: Tensor) -> Tensor:
    loss = torch.zeros(())
    for source, target in batches:
        out = torch.tanh(source @ weight)
        error = (out - target).square().mean(-1)
        loss = loss + error.sqrt().sum()
    return loss / 16


class Stack(nn.Module):
    def __init__(self, depth: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(depth))
        self.norm = nn.LayerNorm(64)


@program("for layer in self.layers, a break in the body", lambda k, model: (model, matrix()), state=Stack, breaks=1,
         iterations=4)
def for_layers(self: Stack, x: Tensor) -> Tensor:
    for layer in self.layers:
        x = x + torch.tanh(layer(self.norm(x)))
        print("layer", tuple(x.shape))
        x = x * 0.9
    return x.sum(0)


@program("a comprehension with a break inside", several, breaks=1, iterations=length, itself=(ITEM,))
def comprehension(batches: list[Tensor], weight: Tensor) -> tuple[list[float], Tensor]:
    scale = weight.abs().mean() + 1
    losses = [((batch @ weight).tanh() / scale).square().mean().item() for batch in batches]
    return losses, (weight * scale).sigmoid()


@program("a dict comprehension and a generator expression", several, breaks=3, iterations=lambda k: length(k) * 2,
         itself=(ITEM,))
def comprehensions(batches: list[Tensor], weight: Tensor) -> tuple[dict[int, float], float, Tensor]:
    table = {i: (batch @ weight).relu().amax().item() for i, batch in enumerate(batches)}
    total = sum((batch.sin() * weight.cos()).mean().item() for batch in batches)
    return table, total, weight.exp()


@program("a function called once: 100 iterations in a running frame", lambda k: two(k), breaks=1, iterations=100)
def running_frame(x: Tensor, weight: Tensor) -> tuple[Tensor, list[int]]:
    history = []
    for step in range(100):
        hidden = torch.tanh(x @ weight)
        x = x + hidden * 0.1
        if step % 25 == 0:
            print("step", step)
        history.append(step)
        x = x / x.abs().amax()
    return x, history
