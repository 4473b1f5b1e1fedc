"""A training loop compiled as a whole, with one decorator: epochs, batches, optimizer, metrics, prints, early stopping.

    python examples/training_loop.py                            # Inductor where a C++ compiler is found
    python examples/training_loop.py --backend eager --quick    # captured, but not compiled: equal bit for bit

`train` is called once. It is plain Python up to its first batch; from there on it runs compiled, in its own frame:
`loss.backward()`, `optimizer.step()` and `print` are graph breaks, and what lies between them are regions. Forward and
backward are compiled. The same loop also runs plainly, and with only `loss_of` compiled by torch.compile: losses, final
parameters and printed lines must be equal, within a tolerance that is 0 with the backend "eager"; if they are not, the
exit status is 1. Then the sides train in turn, a round each, and the table shows the medians of the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from command_line import CLOCKS, new_parser, parsed
from torch import Tensor, nn
from torch.nn import functional as F

import tracer

Batches = Sequence[tuple[Tensor, Tensor]]
Metrics = dict[str, list[float]]
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9),
    "adamw": functools.partial(torch.optim.AdamW, lr=3e-3, weight_decay=0.1),
}
QUICK = {"steps": 4, "rounds": 2, "batch": 4, "width": 16}


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(inputs), targets, label_smoothing=0.1)


@tracer.compile
def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, epochs: int,
          loss_of: Callable[..., Tensor] = loss_of, every: int = 10, patience: int = 2) -> Metrics:  # fmt: skip
    metrics: Metrics = {"loss": [], "epoch": []}
    best, waited = float("inf"), 0
    try:
        for epoch in range(epochs):
            total = 0.0
            for step, (inputs, targets) in enumerate(batches):
                optimizer.zero_grad(set_to_none=True)
                loss = loss_of(model, inputs, targets)
                loss.backward()
                optimizer.step()
                metrics["loss"].append(loss.item())
                total += metrics["loss"][-1]
                if step % every == 0:
                    print(f"epoch {epoch} step {step}: loss {metrics['loss'][-1]:.4f}")
            metrics["epoch"].append(total / len(batches))
            if metrics["epoch"][-1] < best - 0.08:
                best, waited = metrics["epoch"][-1], 0
            else:
                waited += 1
                if waited >= patience:
                    print(f"hardly better for {waited} epochs: enough after epoch {epoch}")
                    break
    finally:
        model.eval()
        print(f"trained for {len(metrics['loss'])} steps")
    return metrics


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


def network(width: int, classes: int = 10) -> nn.Sequential:
    return nn.Sequential(nn.Linear(32, width), *(Block(width) for _ in range(3)), nn.Linear(width, classes))


@dataclass
class Side:
    """One way to run the loop, with a model of its own."""

    name: str
    train: Callable[..., Metrics]
    loss_of: Callable[..., Tensor]
    model: nn.Module
    optimizer: torch.optim.Optimizer
    metrics: Metrics = field(default_factory=dict)
    printed: str = ""
    seconds: list[float] = field(default_factory=list)

    def run(self, batches: Batches, epochs: int, options: argparse.Namespace) -> float:
        """Seconds for a step of one call of the loop."""
        self.model.train()
        clock, printed = CLOCKS[options.clock], io.StringIO()
        with contextlib.redirect_stdout(printed):
            start = clock()
            self.metrics = self.train(self.model, self.optimizer, batches, epochs, self.loss_of)
            seconds = clock() - start
        self.printed = printed.getvalue()
        return seconds / len(self.metrics["loss"])


def sides_of(options: argparse.Namespace) -> list[Side]:
    plain = tracer.original(train)
    ways: dict[str, tuple[Any, Any]] = {
        "eager": (plain, loss_of),
        "torchgraft": (train, loss_of),
        "torch.compile": (plain, torch.compile(loss_of, backend=options.backend)),
    }
    sides = []
    for name, (loop, inner) in ways.items():
        torch.manual_seed(0)
        model = network(options.width)
        sides.append(Side(name, loop, inner, model, OPTIMIZERS[options.optimizer](model.parameters())))
    return sides


def furthest(one: Side, other: Side) -> float:
    """The largest difference of two losses of the same step, or of two parameters."""
    pairs = [(torch.tensor(one.metrics[key]), torch.tensor(other.metrics[key])) for key in one.metrics]
    pairs += list(zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True))
    if any(a.shape != b.shape for a, b in pairs):
        return float("inf")
    return max(float((a - b).abs().max()) for a, b in pairs)


def agree(sides: Sequence[Side], tolerance: float) -> bool:
    eager, *others = sides
    good = True
    for side in others:
        worst, same = furthest(eager, side), side.printed == eager.printed
        good = good and worst <= tolerance and (same or tolerance > 0)
        print(f"{side.name}: losses and parameters differ from eager's by {worst:.1e} "
              f"({'within' if worst <= tolerance else 'MORE THAN'} {tolerance:g}), "
              f"printed lines are {'the same' if same else 'not the same'}")
    return good


def tell_compiled(side: Side, batches: Batches, options: argparse.Namespace) -> None:
    """What runs compiled: the regions with operators, the breaks, and how often regions run in a step."""
    hits = tracer.counters()["hits"]
    with contextlib.redirect_stdout(io.StringIO()):
        report = tracer.explain(train)(side.model, side.optimizer, batches, 1)
    hits = tracer.counters()["hits"] - hits
    if options.explain:
        print(report)
    for entry in report.entries:
        for region in entry.regions:
            if region.operators:
                print(f"train, region at line {entry.line}: {region.operators} operators, {region.hits} runs, "
                      f"forward and backward by {region.backend}")
    print(f"train: {len(report.regions)} regions, {hits / len(batches):.1f} of them (and of callees' own) in a step; "
          f"breaks: {', '.join(sorted({found.title for found in report.breaks}))}")


def measure(sides: Sequence[Side], batches: Batches, options: argparse.Namespace) -> None:
    """Rounds in turn, the order moving on by one; a round is one call of the loop for each side."""
    for side in sides:
        side.run(batches, 1, options)  # what only a second call meets is compiled here
    for i in range(options.rounds):
        start = i % len(sides)
        for side in [*sides[start:], *sides[:start]]:
            side.seconds.append(side.run(batches, 1, options))
    eager, ours, theirs = (statistics.median(side.seconds) for side in sides)
    odd, even = (statistics.median(sides[2].seconds[i::2]) for i in (0, 1))
    print(f"\n{'':14}{'step':>10}{'to eager':>10}")
    for side, median in zip(sides, (eager, ours, theirs), strict=True):
        print(f"{side.name:14}{median * 1e3:8.3f}ms{median / eager:10.3f}")
    print(f"torchgraft / torch.compile {ours / theirs:.3f}   (noise: torch.compile's odd and even rounds "
          f"{odd / even:.3f}; medians of {options.rounds} rounds of {len(batches)} steps)")


def parse_options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--steps", type=int, default=30, help="batches of an epoch")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--explain", action="store_true", help="show every region and graph break")
    return parsed(parser, QUICK)


def main() -> int:
    options = parse_options()
    tracer.install(options.backend)
    sides = sides_of(options)
    torch.manual_seed(1)
    teacher = torch.randn(32, 10)
    batches = [(x, (x @ teacher).argmax(1)) for x in torch.randn(options.steps, options.batch, 32)]
    print(f"backend {options.backend}, {torch.get_num_threads()} threads, torch {torch.__version__}", flush=True)
    for side in sides:
        seconds = side.run(batches, 20, options) * len(side.metrics["loss"])
        print(f"{side.name}: first call of {len(side.metrics['epoch'])} epochs took {seconds:.1f} s", flush=True)
    print(f"what torchgraft's printed, in the end:\n  {'  '.join(sides[1].printed.splitlines(True)[-3:])}", end="")
    good = agree(sides, 0.0 if options.backend == "eager" else 2e-3)
    tell_compiled(sides[1], batches, options)
    measure(sides, batches, options)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
