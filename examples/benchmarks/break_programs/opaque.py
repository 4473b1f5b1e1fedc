"""What cannot be captured, one kind a program: each breaks there and nowhere else."""

from __future__ import annotations

import io
import logging
import random
import time
import zlib
from typing import Any

import numpy
import torch
from torch import Tensor

from .catalogue import ITEM, TRUTH, length, matrix, program, several, two

logger = logging.getLogger("breaks.opaque")


def alternating(k: int) -> tuple[Any, ...]:
    sign = 1 if k % 2 else -1
    return matrix().abs() * sign, matrix() * 0.1


@program("a branch on a tensor: both sides", alternating, breaks=1, itself=(TRUTH,))
def tensor_branch(x: Tensor, weight: Tensor) -> Tensor:
    x = x + torch.tanh(x @ weight)
    if x.sum() > 0:
        x = x.sqrt() if x.ndim == 1 else x.abs().sqrt()
        x = x - x.mean()
    else:
        x = x.exp()
        x = x / x.amax()
    return x.sigmoid() * 2


@program(".item() in arithmetic of Python", several, breaks=1, iterations=length, itself=(ITEM,))
def item(batches: list[Tensor], weight: Tensor) -> tuple[float, Tensor]:
    loss, state = 0.0, weight.clone()
    for batch in batches:
        out = torch.tanh(batch @ state)
        loss = 0.9 * loss + 0.1 * out.square().mean().item()
        state = state - out.mean(0) * 0.01
    return loss, state.exp()


@program(".tolist()", two, breaks=1, iterations=3, itself=("aten::resolve_conj", "aten::resolve_neg"))
def to_list(x: Tensor, weight: Tensor) -> tuple[list[list[float]], Tensor]:
    rows = []
    for _ in range(3):
        x = torch.softmax(x @ weight, -1)
        rows.append(x.amax(0).mul(10).round().tolist())
        x = x.log() - x.mean()
    return rows, x


@program("print() of text", two, breaks=2, iterations=2)
def printing(x: Tensor, weight: Tensor) -> Tensor:
    for step in range(2):
        x = torch.tanh(x @ weight)
        print("shape", tuple(x.shape), end=" ")
        x = x * 2 - x.mean()
        print(f"step {step}", x.dtype, sep=", ")
        x = x.cos()
    return x.exp()


@program("logging", several, breaks=2, iterations=length)
def logs(batches: list[Tensor], weight: Tensor) -> Tensor:
    total = torch.zeros(64)
    for i, batch in enumerate(batches):
        out = torch.relu(batch @ weight)
        logger.info("batch %d: %s", i, tuple(out.shape))
        total = total + out.mean(0)
        if i >= 2:
            logger.warning("many batches")
        total = total * 0.9
    return total.exp()


@program("output to a file object", lambda k: (*two(k), io.StringIO()), breaks=2, iterations=3)
def file_output(x: Tensor, weight: Tensor, out: io.StringIO) -> Tensor:
    for step in range(3):
        x = torch.sigmoid(x @ weight)
        out.write(f"step {step}\n")
        x = x - x.mean()
        print("shape", tuple(x.shape), file=out)
        x = x * 2
    return x.tanh()


@program("time.time() and perf_counter()", two, breaks=2, iterations=3)
def timing(x: Tensor, weight: Tensor) -> tuple[Tensor, bool]:
    spent = 0.0
    for _ in range(3):
        start = time.time()
        x = torch.tanh(x @ weight)
        x = x - x.mean()
        spent += time.time() - start
        x = x * 0.9
    return x.exp(), spent >= 0


@program("the random module", two, breaks=1, iterations=4)
def random_numbers(x: Tensor, weight: Tensor) -> tuple[Tensor, list[float]]:
    drawn = []
    for _ in range(4):
        x = torch.tanh(x @ weight)
        chance = random.random()
        drawn.append(chance)
        x = x * 0.5 if chance < 0.5 else x.cos()
        x = x - x.mean()
    return x.exp(), drawn


@program("C extensions' functions: zlib.crc32, zlib.compress", lambda k: (*two(k), b"call %d" % k), breaks=1,
         iterations=3)
def c_function(x: Tensor, weight: Tensor, data: bytes) -> tuple[Tensor, int]:
    check = 0
    for _ in range(3):
        x = torch.tanh(x @ weight)
        check = zlib.crc32(zlib.compress(data), check)
        x = x - x.mean()
        x = x.sin()
    return x.exp(), check


#: What `.numpy()` and `from_numpy` do.
CONVERTING = ("aten::detach", "aten::resolve_conj", "aten::resolve_neg", "aten::to", "aten::lift_fresh")


@program("numpy on a tensor, and back", two, breaks=2, iterations=3, itself=CONVERTING)
def numpy_calls(x: Tensor, weight: Tensor) -> tuple[Tensor, float]:
    total = 0.0
    for _ in range(3):
        x = torch.tanh(x @ weight)
        values = numpy.sort(x.numpy(), axis=0)
        total += float(numpy.median(values))
        x = x - torch.from_numpy(values).mean(0)
        x = x.sin()
    return x.exp(), total


@program("metrics kept in a dict of lists", lambda k, kept: (*two(k), kept), state=dict, breaks=1, iterations=3,
         itself=(ITEM,))
def metrics(x: Tensor, weight: Tensor, history: dict[str, list[float]]) -> Tensor:
    for _ in range(3):
        x = torch.tanh(x @ weight)
        error = (x - x.mean()).square()
        history.setdefault("error", []).append(error.mean().item())
        x = x - error * 0.1
    return x.exp()
