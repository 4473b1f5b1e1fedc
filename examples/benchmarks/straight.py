"""What is around the kernels: calls, steps and first calls on Inductor, beside torch.compile and plain Python.

Five tables, each with its goal (issue 6): the cost of a call in `no_grad`; of a call that autograd records, and of its
backward; a decoding step and training steps; programs that are too small to be worth compiling, which must not be
slower than plain; the first call in a process whose caches are warm. One thread, interleaved rounds, medians, CPU time
(`--clock wall` for the other), so that what else the machine does counts for little.

    python examples/benchmarks/straight.py                 # a few minutes; exit status 1 if a goal is missed
    python examples/benchmarks/straight.py --only calls    # or recorded, steps, small, warm
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from decoding import Decoder
from programs import Chain, pair
from timing import interleaved, noise, ratio, shown, table
from torch import Tensor
from torch.nn import functional as F

import tracer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpt import GPT, Config
from resnet import ResNet

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
#: Calls before anything is timed: trials of small regions are over by then.
WARM_UP = 500
Make = Callable[[], tuple[Any, tuple[Any, ...]]]


def pointwise(x: Tensor, y: Tensor) -> Tensor:
    return (x + y) * 2.0 - y


def squares() -> tuple[Any, tuple[Any, ...]]:
    return pointwise, (torch.randn(64, 64), torch.randn(64, 64))


def chain(length: int, width: int, batch: int) -> tuple[Any, tuple[Any, ...]]:
    return Chain(length, width), (torch.randn(batch, width),)


def two_tensors() -> tuple[Any, tuple[Any, ...]]:
    return pair, (torch.randn(8), torch.randn(8, requires_grad=True))


def with_backward(function: Any) -> Callable[..., object]:
    def step(*arguments: Any) -> None:
        function(*arguments).sum().backward()

    return step


class Table:
    """Rows of one kind, and whether each goal was met."""

    def __init__(self, title: str, heads: list[str]) -> None:
        self.title, self.heads, self.rows, self.missed = title, heads, list[list[str]](), 0

    def add(self, cells: list[str], goals: Mapping[str, tuple[float, float]]) -> None:
        """goals: what it is, what was found, how much it may be."""
        met = all(found <= goal for found, goal in goals.values())
        self.missed += not met
        wanted = ", ".join(f"{what} <= {goal:.3g}" for what, (_, goal) in goals.items())
        self.rows.append([*cells, wanted, "yes" if met else "NO"])
        print(f"  {cells[0]}: {', '.join(cells[1:])}", file=sys.stderr, flush=True)

    def show(self) -> None:
        print(f"\n{self.title}\n{table([*self.heads, 'goal', 'met'], self.rows)}", flush=True)


def compiled_both(made: Any) -> tuple[Any, Any]:
    """The same by torchgraft and by torch.compile."""
    torch._dynamo.reset()
    tracer.reset()
    if isinstance(made, torch.nn.Module):
        return tracer.compile(copy.deepcopy(made)), torch.compile(copy.deepcopy(made))
    return tracer.compile(made, inplace=False), torch.compile(made)


# (1) a call -----------------------------------------------------------------------------------------------------------
def calls(options: argparse.Namespace) -> Table:
    found = Table("a call in no_grad", ["program", "plain", "torchgraft", "torch.compile", "ratio", "noise"])
    programs: list[tuple[str, Make, float]] = [
        ("pointwise, two of 64x64", squares, 1 / 3),
        ("10 Linear(64, 64), batch 8", partial(chain, 10, 64, 8), 1 / 2),
    ]
    for name, make, goal in programs:
        torch.manual_seed(0)
        plain, arguments = make()
        ours, theirs = compiled_both(plain)
        with torch.no_grad():
            for _ in range(WARM_UP):
                ours(*arguments), theirs(*arguments), plain(*arguments)
            sides = {"plain": plain, "ours": ours, "theirs": theirs}
            times = interleaved({k: partial(f, *arguments) for k, f in sides.items()}, rounds=options.rounds,
                                clock=options.clock)  # fmt: skip
        cells = [shown(statistics.median(times[side])) for side in sides]
        part = ratio(times["ours"], times["theirs"])
        found.add([name, *cells, f"{part:.3f}", f"{noise(times['ours']):.1%}"], {"ratio": (part, goal)})
    return found


# (1) ... that autograd records ----------------------------------------------------------------------------------------
def squares_with_gradient() -> tuple[Any, tuple[Any, ...]]:
    return pointwise, (torch.randn(64, 64, requires_grad=True), torch.randn(64, 64))


def recorded(options: argparse.Namespace) -> Table:
    """Without trials of small regions: what is compiled runs."""
    heads = ["call", "plain", "torchgraft", "torch.compile", "to torch.compile", "to plain", "noise"]
    found = Table("a call that autograd records", heads)
    tracer.install("inductor", small_region=0)
    programs: list[tuple[str, Make, float]] = [
        ("pointwise, two of 64x64", squares_with_gradient, 1 / 2),
        ("10 Linear(64, 64), batch 8", partial(chain, 10, 64, 8), 3 / 4),
    ]
    for name, make, goal in programs:
        for kind in ("forward", "forward and backward"):
            torch.manual_seed(0)
            plain, arguments = make()
            ours, theirs = compiled_both(plain)
            sides = {"plain": plain, "ours": ours, "theirs": theirs}
            steps = {side: with_backward(function) for side, function in sides.items()}
            for _ in range(20):
                for step in steps.values():
                    step(*arguments)
            timed = sides if kind == "forward" else steps
            times = interleaved({k: partial(f, *arguments) for k, f in timed.items()}, rounds=options.rounds,
                                clock=options.clock)  # fmt: skip
            cells = [shown(statistics.median(times[side])) for side in sides]
            to_theirs, to_plain = ratio(times["ours"], times["theirs"]), ratio(times["ours"], times["plain"])
            noisy = noise(times["ours"])
            found.add([f"{name}, {kind}", *cells, f"{to_theirs:.3f}", f"{to_plain:.3f}", f"{noisy:.1%}"],
                      {"to torch.compile": (to_theirs, goal)})  # fmt: skip
    tracer.install("inductor")
    return found


# (2) steps ------------------------------------------------------------------------------------------------------------
def training(model: Any, loss_of: Callable[[Any], Tensor]) -> Callable[[], object]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss_of(model).backward()
        optimizer.step()

    return step


def steps(options: argparse.Namespace) -> Table:
    heads = ["step", "plain", "torchgraft", "torch.compile", "to torch.compile", "to plain", "noise"]
    found = Table("steps", heads)
    torch.manual_seed(0)
    gpt = GPT(Config(vocabulary=96))
    decoder = Decoder(copy.deepcopy(gpt).eval())
    token, position = torch.tensor([7]), torch.tensor([40])
    tokens, targets = torch.randint(96, (8, 64)), torch.randint(96, (8, 64))
    images, labels = torch.randn(8, 3, 32, 32), torch.randint(4, (8,))
    resnet = ResNet(layers=(1, 1, 1), width=16, classes=4)
    programs: dict[str, tuple[Any, bool, Callable[[Any], Callable[[], object]]]] = {
        "GPT decoding, static cache": (decoder, False, lambda m: partial(m, token, position)),
        "GPT training": (gpt, True, lambda m: training(m, lambda m: m(tokens, targets)[1])),
        "ResNet training": (resnet, True, lambda m: training(m, lambda m: F.cross_entropy(m(images), labels))),
    }
    for name, (model, grad, step_of) in programs.items():
        ours, theirs = compiled_both(model)
        with torch.set_grad_enabled(grad):
            sides = {"plain": step_of(copy.deepcopy(model)), "ours": step_of(ours), "theirs": step_of(theirs)}
            for step in sides.values():
                for _ in range(20):
                    step()
            times = interleaved(sides, rounds=max(20, options.rounds // 2), seconds=0.02, clock=options.clock)
        cells = [shown(statistics.median(times[side])) for side in sides]
        to_theirs, to_plain = ratio(times["ours"], times["theirs"]), ratio(times["ours"], times["plain"])
        noisy = noise(times["ours"])
        found.add([name, *cells, f"{to_theirs:.3f}", f"{to_plain:.3f}", f"{noisy:.1%}"],
                  {"to torch.compile": (to_theirs, 1.0)})  # fmt: skip
    return found


# (3) small programs ---------------------------------------------------------------------------------------------------
def small(options: argparse.Namespace) -> Table:
    found = Table("small programs, once warm", ["program", "plain", "torchgraft", "to plain", "noise", "what runs"])
    programs: list[tuple[str, Make]] = [
        ("two tensors", two_tensors),
        ("10 Linear layers", partial(chain, 10, 8, 4)),
        ("50 Linear layers", partial(chain, 50, 8, 4)),
        ("pointwise, two of 64x64", squares),
        ("10 Linear(64, 64), batch 8", partial(chain, 10, 64, 8)),
    ]
    for name, make in programs:
        for kind in ("no grad", "grad", "with backward"):
            torch.manual_seed(0)
            tracer.reset()
            plain, arguments = make()
            if kind == "no grad":
                arguments = tuple(given.detach() for given in arguments)
            elif not any(given.requires_grad for given in arguments) and not isinstance(plain, torch.nn.Module):
                continue
            module = isinstance(plain, torch.nn.Module)
            ours = tracer.compile(copy.deepcopy(plain) if module else plain, inplace=module)
            sides = {"plain": plain, "ours": ours}
            if kind == "with backward":
                sides = {side: with_backward(function) for side, function in sides.items()}
            with torch.set_grad_enabled(kind != "no grad"):
                for _ in range(WARM_UP):
                    for function in sides.values():
                        function(*arguments)
                times = interleaved({k: partial(f, *arguments) for k, f in sides.items()}, rounds=options.rounds,
                                    clock=options.clock)  # fmt: skip
                report = tracer.explain(ours)(*arguments)
            part = ratio(times["ours"], times["plain"])
            cells = [shown(statistics.median(times[side])) for side in sides]
            runs = "compiled" if report.regions else "the original bytecode"
            found.add([f"{name}, {kind}", *cells, f"{part:.3f}", f"{noise(times['ours']):.1%}", runs],
                      {"to plain": (part, 1.05)})  # fmt: skip
    return found


# (4) a second process -------------------------------------------------------------------------------------------------
def first_call(side: str, program: str, clock: str) -> None:
    """In a process of its own: print what the first call takes, and what the process had taken until it was over."""
    began = CLOCKS[clock]()
    import torch._dynamo
    import torch._inductor.compile_fx

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if program == "GPT training step":
        model: Any = GPT(Config(vocabulary=96, layers=2))  # more of the same layers are more of the same kernels
        inputs = torch.randint(96, (2, 4, 64))
    else:
        model, (inputs,) = chain(10, 64, 8)
    if side == "ours":
        tracer.install("inductor")
    compiled = tracer.compile(model) if side == "ours" else torch.compile(model)
    start = CLOCKS[clock]()
    if program == "GPT training step":
        compiled(*inputs)[1].backward()
    else:
        with torch.no_grad():
            compiled(inputs)
    end = CLOCKS[clock]()
    counters = torch._dynamo.utils.counters["inductor"]
    missed = counters["fxgraph_cache_miss"] + counters["fxgraph_cache_bypass"]
    print(json.dumps({"call": end - start, "all": end - began, "missed": missed}))


def in_process(side: str, program: str, folder: str, options: argparse.Namespace) -> dict[str, float]:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
    clock = next(name for name, clock in CLOCKS.items() if clock is options.clock)
    command = [sys.executable, __file__, "--first-call", side, program, clock]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def fill(program: str, options: argparse.Namespace, side_and_folder: tuple[str, str]) -> None:
    side, folder = side_and_folder
    print(f"  {program}: {side}, with empty caches ...", file=sys.stderr, flush=True)
    in_process(side, program, folder, options)


def warm(options: argparse.Namespace) -> Table:
    heads = ["first call", "torchgraft", "torch.compile", "ratio", "with imports", "torch.compile", "ratio"]
    found = Table("the first call of a second process, caches warm (Inductor is imported beforehand)", heads)
    with tempfile.TemporaryDirectory() as folder:
        folders = {side: os.path.join(folder, side) for side in ("ours", "theirs")}
        for program in ("10 Linear layers", "GPT training step"):
            with ThreadPoolExecutor() as both:  # not timed: it fills the caches, which takes a minute or two
                list(both.map(partial(fill, program, options), folders.items()))
            told: dict[str, list[dict[str, float]]] = {side: [] for side in folders}
            for _ in range(options.processes):
                for side in folders:
                    told[side].append(in_process(side, program, folders[side], options))
            missed = sum(one["missed"] for one in told["ours"])
            times = {key: {side: [one[key] for one in told[side]] for side in folders} for key in ("call", "all")}
            cells, parts = [], {key: ratio(times[key]["ours"], times[key]["theirs"]) for key in times}
            for key, sides in times.items():
                cells += [shown(statistics.median(sides[side])) for side in folders] + [f"{parts[key]:.3f}"]
            found.add([program, *cells], {"ratio": (parts["call"], 0.5), "cache misses": (missed, 0)})
    return found


PARTS = {"calls": calls, "recorded": recorded, "steps": steps, "small": small, "warm": warm}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--processes", type=int, default=3, help="so many second processes on each side")
    parser.add_argument("--clock", choices=CLOCKS, default="cpu")
    parser.add_argument("--first-call", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first_call:
        first_call(*options.first_call)
        return 0
    options.clock = CLOCKS[options.clock]
    torch.set_num_threads(1)
    tracer.install("inductor")
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, one thread")
    tables = [PARTS[name](options) for name in options.only]
    for one in tables:
        one.show()
    return 1 if any(one.missed for one in tables) else 0


if __name__ == "__main__":
    sys.exit(main())
