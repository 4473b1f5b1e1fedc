"""A few training steps of a small ResNet, eager and compiled; the running statistics of BatchNorm are compared as well.

    python examples/resnet.py [--backend eager] [--steps 10]
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

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


@dataclass
class Training:
    model: ResNet
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.005, momentum=0.9)

    def step(self, images: Tensor, labels: Tensor) -> None:
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - start)


def batch(generator: torch.Generator, size: int = 16, classes: int = 4) -> tuple[Tensor, Tensor]:
    """Noise, and a class that shows in its brightness."""
    labels = torch.randint(classes, (size,), generator=generator)
    return torch.randn(size, 3, 32, 32, generator=generator) + labels.view(-1, 1, 1, 1) / 2, labels


def furthest(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    """The largest difference; infinite where something is no number."""
    differences = [(a.double() - b.double()).abs().max().item() for a, b in pairs]
    return max(d if d == d else float("inf") for d in differences)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", help="any that torch.compile knows (default: inductor with a C++ compiler)")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    tracer.install(options.backend)
    tolerance = 0.0 if options.backend == "eager" else 1e-3

    torch.manual_seed(0)
    plain = ResNet(layers=(1, 1, 1), width=16, classes=4)
    eager, ours = Training(plain), Training(tracer.compile(copy.deepcopy(plain)))
    generator = torch.Generator().manual_seed(1)
    for step in range(1, options.steps + 1):
        images, labels = batch(generator)
        for training in (eager, ours) if step % 2 else (ours, eager):
            training.step(images, labels)
        print(f"step {step:2}: loss {eager.losses[-1]:.5f} eager, {ours.losses[-1]:.5f} compiled", flush=True)
    found = {
        "losses": furthest([(torch.tensor(eager.losses), torch.tensor(ours.losses))]),
        "parameters": furthest(zip(eager.model.parameters(), ours.model.parameters(), strict=True)),
        "running statistics": furthest(zip(eager.model.buffers(), ours.model.buffers(), strict=True)),
    }
    images, _ = batch(generator)
    with torch.no_grad():
        found["outputs in eval mode"] = furthest([(eager.model.eval()(images), ours.model.eval()(images))])
    for name, difference in found.items():
        print(f"{name}: largest difference {difference:.1e} (tolerance {tolerance:g})")
    ours_later, eager_later = (statistics.median(t.seconds[1:] or t.seconds) * 1e3 for t in (ours, eager))
    print(f"first step {ours.seconds[0]:.1f} s, median of the others {ours_later:.1f} ms (eager {eager_later:.1f} ms)")
    counters = tracer.counters()
    print(f"{counters['regions']} regions, {sum(counters['breaks'].values())} graph breaks, {counters['hits']} hits, "
          f"{counters['misses']} misses")
    return 0 if max(found.values()) <= tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
