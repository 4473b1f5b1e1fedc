"""Train a small GPT on Python's own help texts, eager and compiled side by side from the same seed.

    python examples/train_transformer.py                      # Inductor where a C++ compiler is found
    python examples/train_transformer.py --backend eager      # captured, but not compiled: equal bit for bit
    python examples/train_transformer.py --compare            # torch.compile too, and torchgraft twice (the noise)

At every step (a round) each side trains on the same batch, in an order that is drawn anew; so a slow moment of the
machine hits all of them, and none always follows the same other one. The losses must agree at every step, within a
tolerance that is printed: if they do not, the exit status is 1. (The default suits the default sizes. With a batch of
one the training itself is chaotic, and Inductor's other rounding grows; torch.compile then drifts alike.)

On a machine that others use too, `--threads 1 --clock cpu` gives steadier times than the wall clock.
"""

from __future__ import annotations

import argparse
import copy
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from gpt import GPT, Config, Text
from torch import Tensor
from tqdm import tqdm

import tracer
from tracer.backends import lookup

#: Rounds that are not timed: the first compiles, the next settle the optimizer's state and the allocator.
WARM_UP = 5
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
RULE = "-" * 100


@dataclass
class Side:
    """One of the trainings that run side by side."""

    name: str
    model: Any
    optimizer: torch.optim.Optimizer
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def step_time(self) -> float:
        return statistics.median(self.seconds[WARM_UP:] or self.seconds)

    def furthest_from(self, other: Side) -> float:
        """The largest difference of two losses of the same step; not a number if a loss is not."""
        differences = [abs(a - b) for a, b in zip(self.losses, other.losses, strict=True)]
        return math.nan if any(map(math.isnan, differences)) else max(differences)


def train_step(model: Any, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> float:
    optimizer.zero_grad(set_to_none=True)
    _, loss = model(inputs, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def learning_rate(step: int, steps: int, highest: float) -> float:
    """Up in a straight line, then down along a cosine to a tenth."""
    warm_up = max(1, steps // 10)
    if step < warm_up:
        return highest * (step + 1) / warm_up
    return highest * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up))))


def sides_of(model: GPT, backend: str, compare: bool) -> list[Side]:
    """Each side gets a copy of the same model and an optimizer of its own."""
    compilers: dict[str, Callable[[Any], Any]] = {
        "eager": lambda m: m,
        "torchgraft": lambda m: tracer.compile(m, backend=backend),
    }
    if compare:
        compilers["torch.compile"] = lambda m: torch.compile(m, backend=backend)
        compilers["torchgraft again"] = compilers["torchgraft"]
    sides = []
    for name, compile_model in compilers.items():
        mine = copy.deepcopy(model)
        optimizer = torch.optim.AdamW(mine.parameters(), lr=1e-3, weight_decay=0.1, betas=(0.9, 0.95))
        sides.append(Side(name, compile_model(mine), optimizer))
    return sides


def train(sides: list[Side], text: Text, options: argparse.Namespace) -> None:
    context = sides[0].model.config.context
    clock = CLOCKS[options.clock]
    batches, order = torch.Generator().manual_seed(1), random.Random(1)
    bar = tqdm(range(options.steps), unit="step", dynamic_ncols=True, mininterval=0.5)
    for step in bar:
        inputs, targets = text.batch(options.batch, context, batches)
        for side in order.sample(sides, len(sides)):
            for group in side.optimizer.param_groups:
                group["lr"] = learning_rate(step, options.steps, options.learning_rate)
            start = clock()
            loss = train_step(side.model, side.optimizer, inputs, targets)
            side.seconds.append(clock() - start)
            side.losses.append(loss)
        bar.set_postfix({side.name: f"{side.losses[-1]:.4f}" for side in sides[:2]}, refresh=False)


def tell_times(sides: list[Side], clock: str) -> None:
    eager, ours, *others = sides
    print(f"\n{'':18}{'step':>10}{'to eager':>10}{'first step':>12}{'last loss':>11}")
    for side in sides:
        print(f"{side.name:18}{side.step_time * 1e3:8.2f}ms{side.step_time / eager.step_time:10.3f}"
              f"{side.seconds[0]:11.1f}s{side.losses[-1]:11.4f}")
    print(f"(medians of {len(eager.seconds[WARM_UP:] or eager.seconds)} interleaved rounds, {clock} time)")
    if others:
        theirs, again = others
        print(f"torchgraft / torch.compile {ours.step_time / theirs.step_time:.3f}"
              f"   (noise: the same against itself {again.step_time / ours.step_time:.3f})")


def losses_agree(sides: list[Side], tolerance: float) -> bool:
    """Print how far the losses are from eager's."""
    eager, ours, *others = sides
    agree = True
    for side in sides[1:]:
        worst = side.furthest_from(eager)
        agree = agree and worst <= tolerance
        print(f"losses of eager and {side.name}: largest difference at a step {worst:.1e}, "
              f"{'within' if worst <= tolerance else 'MORE THAN'} the tolerance of {tolerance:g}")
    for side in others[:1]:
        print(f"losses of torchgraft and {side.name}: largest difference at a step {side.furthest_from(ours):.1e}")
    return agree


def counted(during: str) -> str:
    counters = tracer.counters()
    breaks = counters["breaks"]
    named = "".join(f", {title}: {count}" for title, count in breaks.items())
    return (f"{during}: {counters['regions']} regions, {sum(breaks.values())} graph breaks{named}, "
            f"{counters['hits']} hits, {counters['misses']} misses")


def sample(model: Any, text: Text, count: int) -> str:
    """A prompt that the model was not trained on, and how it goes on."""
    torch.manual_seed(2)
    model.eval()
    prompt = text.rest[:model.config.context][None]
    return text.decode(model.generate(prompt, count)[0])


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--backend", help="any that torch.compile knows (default: inductor with a C++ compiler)")
    parser.add_argument("--compare", action="store_true", help="torch.compile and a second torchgraft run as well")
    parser.add_argument("--threads", type=int, help="threads of torch (default: as many as torch takes)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--sample", type=int, default=400, help="characters to sample at the end")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--tolerance", type=float, help="for the losses (default: 0 with --backend eager, else 1e-3)")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    if options.backend is None:
        options.backend = lookup(None).name
    if options.tolerance is None:
        options.tolerance = 0.0 if options.backend == "eager" else 1e-3
    return options


def main() -> int:
    options = parse_options()
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    tracer.install()
    text = Text()
    torch.manual_seed(0)
    model = GPT(Config(len(text.characters), context=options.context, layers=options.layers, width=options.width))
    print(f"GPT of {sum(p.numel() for p in model.parameters()):,} parameters, {len(text.train):,} characters to learn, "
          f"backend {options.backend}, {torch.get_num_threads()} threads, torch {torch.__version__}", flush=True)
    sides = sides_of(model, options.backend, options.compare)
    train(sides, text, options)
    tell_times(sides, options.clock)
    agree = losses_agree(sides, options.tolerance)
    print(counted("training"))
    if options.sample:
        print(f"\nA sample from the compiled model:\n{RULE}\n{sample(sides[1].model, text, options.sample)}\n{RULE}")
        print(counted("training and sample"))
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
