"""A few training steps of a small ResNet, eager and compiled; the running statistics of BatchNorm are compared as well.

    python examples/resnet.py [--backend eager] [--steps 10]
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import tracer


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.shortcut is None else self.shortcut(x)
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.relu(self.norm2(self.conv2(out)))
        out = self.norm3(self.conv3(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """The defaults have the shape of ResNet-50."""

    def __init__(self, layers: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width),
                                  nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        inputs = width
        self.stages = nn.Sequential()
        for i, count in enumerate(layers):
            blocks = []
            for j in range(count):
                blocks.append(Bottleneck(inputs, width * 2**i, stride=2 if i > 0 and j == 0 else 1))
                inputs = width * 2**i * Bottleneck.expansion
            self.stages.append(nn.Sequential(*blocks))
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.stages(self.stem(x)))
        return self.head(torch.flatten(x, 1))


def train(model: Any, steps: int) -> tuple[list[float], list[float]]:
    """The losses and seconds of each step, on images whose class shows in their brightness."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    losses, seconds = [], []
    for _ in range(steps):
        labels = torch.randint(4, (8,), generator=generator)
        images = torch.randn(8, 3, 32, 32, generator=generator) + labels.view(-1, 1, 1, 1)
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    return losses, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", help="any that torch.compile knows (default: inductor with a C++ compiler)")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    tracer.install()
    torch.manual_seed(0)
    plain = ResNet(layers=(1, 1, 1), width=16, classes=4)
    compiled = tracer.compile(copy.deepcopy(plain), backend=options.backend)
    tolerance = 0.0 if options.backend == "eager" else 0.02
    expected, eager_seconds = train(plain, options.steps)
    found, our_seconds = train(compiled, options.steps)
    for step, (a, b) in enumerate(zip(expected, found, strict=True), 1):
        print(f"step {step:2}: loss {a:.5f} eager, {b:.5f} compiled")
    worst = max(abs(a - b) for a, b in zip(expected, found, strict=True))
    buffers = zip(plain.buffers(), compiled.buffers(), strict=True)
    worst_buffer = max(float((a.double() - b.double()).abs().max()) for a, b in buffers)
    print(f"largest difference: losses {worst:.1e}, running statistics {worst_buffer:.1e} (tolerance {tolerance:g})")
    print(f"first step {our_seconds[0]:.1f} s, the others {statistics.median(our_seconds[1:]) * 1e3:.0f} ms "
          f"(eager {statistics.median(eager_seconds[1:]) * 1e3:.0f} ms); {tracer.counters()['regions']} region(s)")
    return 0 if max(worst, worst_buffer) <= tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
