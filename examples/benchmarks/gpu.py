"""Programs on a GPU: right beside eager and float64, and timed beside eager and torch.compile. Under five minutes.

    python examples/benchmarks/gpu.py                      # builds, checks and times; without a GPU it says so
    python examples/benchmarks/gpu.py --recorder cpu       # checks the same programs, small, on the CPU; times nothing

Four sides: eager, torch.compile, torch.compile with mode="reduce-overhead" (CUDA graphs of TorchInductor), and
torchgraft with its default backend (Inductor, and its own recordings). Each has a copy of the same model and runs the
same steps. A side is right if its results are about as far from those in float64 as eager's are: the exit status is 1
if torchgraft's are not. The table comes last.

`--recorder cpu` stands in for a GPU in one respect only: the logic around the recordings (buffers, copies, who holds
which result) is that of a GPU; what is recorded is run again by the recorder of tests.
"""

from __future__ import annotations

import argparse
import copy
import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # gpt.py and resnet.py, which the programs are made of
from gpu_programs import PROGRAMS, Program
from timing import shown, table
from torch import Tensor, nn

import tracer

#: steps that are compared; warm-up, recording and trial fall into them
CHECKED = 16
#: how much further from float64 than eager a side may be
ALLOWED = 4.0


class Side:
    """One copy of a model, and how it is compiled."""

    def __init__(self, program: Program, model: nn.Module, compiled: Callable[[nn.Module], Any], dtype: torch.dtype,
                 device: str, small: bool) -> None:
        self.program, self.dtype, self.device, self.small = program, dtype, device, small
        self.model = copy.deepcopy(model).to(device=device, dtype=dtype)
        self.model.train(program.trains)
        self.call = compiled(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001) if program.trains else None
        self.seconds: list[float] = []

    def inputs(self, step: int) -> tuple[Tensor, ...]:
        return tuple(given.to(self.device) for given in self.program.inputs(step, self.small, self.dtype))

    def step(self, inputs: tuple[Tensor, ...]) -> Tensor:
        if self.optimizer is None:
            with torch.no_grad():
                return self.call(*inputs)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.call(*inputs)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def time(self, inputs: tuple[Tensor, ...], times: int) -> None:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(times):
            torch.compiler.cudagraph_mark_step_begin()
            self.step(inputs)
        torch.cuda.synchronize()
        self.seconds.append((time.perf_counter() - began) / times)


def graft(options: argparse.Namespace) -> Callable[[nn.Module], Any]:
    if options.recorder == "cpu":
        chosen = {"recorder": "cpu", "inner": options.inner, "replay_trial": 0}
        return lambda model: tracer.compile(model, backend="cudagraph", options=chosen)
    return lambda model: tracer.compile(model, backend="auto")


def ways(options: argparse.Namespace) -> dict[str, Callable[[nn.Module], Any]]:
    found: dict[str, Callable[[nn.Module], Any]] = {"eager": lambda model: model}
    if options.recorder != "cpu":
        found["compile"] = torch.compile
        found["reduce-overhead"] = lambda model: torch.compile(model, mode="reduce-overhead")
    return found | {"torchgraft": graft(options)}


def results(side: Side) -> list[Tensor]:
    """Of each step, as float64 on the CPU; all of them are held until the end."""
    held = []
    for step in range(CHECKED):
        torch.compiler.cudagraph_mark_step_begin()
        result = side.step(side.inputs(step))
        held.append(result.clone() if side.device == "cuda" else result)  # reduce-overhead overwrites its own
    return [result.double().cpu() for result in held]


def distance(results: list[Tensor], exact: list[Tensor]) -> float:
    return max(((a - b).abs().max() / b.abs().max().clamp(min=1e-12)).item()
               for a, b in zip(results, exact, strict=True))


def check(program: Program, sides: dict[str, Side], exact: Side) -> dict[str, float]:
    """How far each side is from float64, relative to the largest number of a step."""
    reference = results(exact)
    return {name: distance(results(side), reference) for name, side in sides.items()}


def measure(sides: dict[str, Side], rounds: int) -> None:
    """Rounds in which each side takes its turn; the order moves on by one at each."""
    names = list(sides)
    inputs = {name: side.inputs(1) for name, side in sides.items()}
    for side in sides.values():
        side.time(inputs["eager"], 3)
        side.seconds.clear()
    sides["eager"].time(inputs["eager"], 5)
    times = max(2, min(50, round(0.02 / sides["eager"].seconds.pop())))
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            sides[name].time(inputs[name], times)


def notes(model: Any) -> list[str]:
    """What torchgraft says of its replays."""
    state = tracer.api.runtime.state_of(model)
    regions = [] if state is None else state.regions
    return [line for region in regions for line in getattr(region.compiled.call, "notes", list)()]


def run(program: Program, options: argparse.Namespace, device: str) -> tuple[list[str], bool]:
    """The row of the table, and whether torchgraft was right."""
    small = options.recorder == "cpu"
    torch.manual_seed(0)
    model = program.model(small)
    sides = {name: Side(program, model, way, torch.float32, device, small) for name, way in ways(options).items()}
    exact = Side(program, model, lambda same: same, torch.float64, device, small)
    before = tracer.counters()["replays"]
    far = check(program, sides, exact)
    right = far["torchgraft"] <= ALLOWED * max(far["eager"], 1e-6)
    replays = tracer.counters()["replays"] - before
    print(f"{program.name}: from float64 {', '.join(f'{name} {value:.1e}' for name, value in far.items())}; "
          f"{replays} replays: {'right' if right else 'WRONG'}", flush=True)
    for line in notes(sides["torchgraft"].model):
        print(f"    {line}")
    del exact
    if small:
        return [program.name, f"{far['eager']:.1e}", f"{far['torchgraft']:.1e}", str(replays), _yes(right)], right
    with torch.no_grad() if not program.trains else torch.enable_grad():
        measure(sides, options.rounds)
    medians = {name: statistics.median(side.seconds) for name, side in sides.items()}
    ours = medians["torchgraft"]
    ratios = [f"{medians[name] / ours:.2f}" for name in medians if name != "torchgraft"]
    return [program.name, *(shown(median) for median in medians.values()), *ratios, _yes(right)], right


def _yes(right: bool) -> str:
    return "yes" if right else "NO"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorder", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--inner", default="eager", help="with --recorder cpu: the backend that is recorded")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=270, help="after this time no further program is begun")
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    options = parser.parse_args()
    if options.recorder == "cuda" and not torch.cuda.is_available():
        print("No GPU here: nothing was run and nothing was timed. `--recorder cpu` checks the programs on the CPU.")
        return 0
    torch.set_num_threads(1)
    tracer.install()
    device = "cpu" if options.recorder == "cpu" else "cuda"
    where = "CPU, recorder of tests" if device == "cpu" else torch.cuda.get_device_name()
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {where}\n")
    began, rows, wrong, left = time.perf_counter(), [], 0, []
    for program in PROGRAMS:
        if options.only.lower() not in program.name.lower():
            continue
        if time.perf_counter() - began > options.seconds:
            left.append(program.name)
            continue
        row, right = run(program, options, device)
        rows.append(row)
        wrong += not right
        tracer.reset()
        torch.compiler.reset()
        gc.collect()
    if left:
        print(f"not begun, for lack of time: {', '.join(left)}")
    print(f"\n{time.perf_counter() - began:.0f} s; " + ("correctness only" if device == "cpu" else
          f"medians of {options.rounds} rounds; the last columns are how many times faster torchgraft is than each"))
    if device == "cpu":
        heads = ["program", "eager from float64", "torchgraft", "replays", "right"]
    else:
        sides = list(ways(options))
        heads = ["program", *sides, *(f"/{name}" for name in sides if name != "torchgraft"), "right"]
    print(table(heads, rows))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
