"""Programs on a GPU: right beside eager and float64, and timed beside eager and torch.compile. Under five minutes.

    python examples/benchmarks/gpu.py                      # builds, checks and times; without a GPU it says so
    python examples/benchmarks/gpu.py --recorder cpu       # checks the same programs, small, on the CPU; times nothing

Four sides: eager, torch.compile, torch.compile with mode="reduce-overhead" (CUDA graphs of TorchInductor), and
torchgraft with its default backend (Inductor, and its own recordings). Each has a copy of the same model and runs the
same steps. A side is right if its results are about as far from those in float64 as eager's are: the exit status is 1
if torchgraft's are not. The table comes last.

The programs run in a process of their own, which is stopped where one takes too long or the time is up, and begun again
behind an error on the device: what was measured is in the table in any case, and what was not is said.

`--recorder cpu` stands in for a GPU in one respect only: the logic around the recordings (buffers, copies, who holds
which result) is that of a GPU; what is recorded is run again by the recorder of tests.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import threading
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
#: the side in float64
EXACT = "float64"
#: how often its even share of the time that is left one program may take
SHARE = 2.5
#: what the process that runs the programs tells the one that watches it, among lines for who reads
BEGUN, ROW = "@begun ", "@row "


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


def check(program: Program, sides: dict[str, Side], exact: Side, failed: dict[str, str]) -> dict[str, float]:
    """How far each side is from float64, relative to the largest number of a step. Sides that raise are put out."""
    reference, far = results(exact), {}
    for name in list(sides):
        try:
            far[name] = distance(results(sides[name]), reference)
        except Exception as error:
            failed[name] = first_line(error)
            del sides[name]
    return far


def measure(sides: dict[str, Side], rounds: int) -> None:
    """Rounds in which each side takes its turn; the order moves on by one at each."""
    names = list(sides)
    inputs = {name: side.inputs(1) for name, side in sides.items()}
    for name, side in sides.items():
        side.time(inputs[name], 3)
        side.seconds.clear()
    first = names[0]  # eager, unless that raised
    sides[first].time(inputs[first], 5)
    times = max(2, min(50, round(0.02 / sides[first].seconds.pop())))
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            sides[name].time(inputs[name], times)


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def notes(model: Any) -> list[str]:
    """What torchgraft says of its replays."""
    state = tracer.api.runtime.state_of(model)
    regions = [] if state is None else state.regions
    return [line for region in regions for line in getattr(region.compiled.call, "notes", list)()]


def made(program: Program, options: argparse.Namespace, device: str, failed: dict[str, str]) -> dict[str, Side]:
    torch.manual_seed(0)
    model, sides = program.model(options.recorder == "cpu"), {}
    everything: dict[str, tuple[Any, torch.dtype]] = {name: (way, torch.float32) for name, way in ways(options).items()}
    for name, (way, dtype) in (everything | {EXACT: (lambda same: same, torch.float64)}).items():
        try:
            sides[name] = Side(program, model, way, dtype, device, options.recorder == "cpu")
        except Exception as error:
            failed[name] = first_line(error)
    return sides


def run(program: Program, options: argparse.Namespace, device: str) -> tuple[list[str], bool]:
    """The row of the table, and whether torchgraft was right."""
    small, failed = options.recorder == "cpu", dict[str, str]()
    sides = made(program, options, device, failed)
    exact = sides.pop(EXACT)
    before = tracer.counters()["replays"]
    far = check(program, sides, exact, failed)
    right = "torchgraft" in far and far["torchgraft"] <= ALLOWED * max(far.get("eager", 0.0), 1e-6)
    replays = tracer.counters()["replays"] - before
    print(f"{program.name}: from float64 {', '.join(f'{name} {value:.1e}' for name, value in far.items())}; "
          f"{replays} replays: {'right' if right else 'WRONG'}", flush=True)
    for name, why in failed.items():
        print(f"    {name} failed: {why}", flush=True)
    for line in notes(sides["torchgraft"].model) if "torchgraft" in sides else []:
        print(f"    {line}", flush=True)
    del exact
    if small:
        shown_far = [f"{far[name]:.1e}" if name in far else "failed" for name in ("eager", "torchgraft")]
        return [program.name, *shown_far, str(replays), _yes(right)], right
    with torch.no_grad() if not program.trains else torch.enable_grad():
        measure(sides, options.rounds)
    medians = {name: statistics.median(side.seconds) for name, side in sides.items()}
    ours, names = medians.get("torchgraft"), list(ways(options))
    others = [name for name in names if name != "torchgraft"]
    times = [shown(medians[name]) if name in medians else "failed" for name in names]
    ratios = [f"{medians[name] / ours:.2f}" if ours and name in medians else "-" for name in others]
    return [program.name, *times, *ratios, _yes(right)], right


def _yes(right: bool) -> str:
    return "yes" if right else "NO"


# the process that runs programs, and the one that watches it ----------------------------------------------------------
def work(options: argparse.Namespace) -> int:
    """Run the programs that are named, and say of each what came out of it. An error on the device ends it."""
    torch.set_num_threads(1)
    tracer.install()
    device = "cpu" if options.recorder == "cpu" else "cuda"
    for program in PROGRAMS:
        if program.name not in options.work:
            continue
        print(f"{BEGUN}{program.name}", flush=True)
        try:
            row, right = run(program, options, device)
            if device == "cuda":
                torch.cuda.synchronize()
        except Exception as error:
            print(f"{program.name}: {first_line(error)}", flush=True)
            print(f"{ROW}{json.dumps([program.name, first_line(error)])}", flush=True)
            return 1
        print(f"{ROW}{json.dumps([row, right])}", flush=True)
        tracer.reset()
        torch.compiler.reset()
        gc.collect()
    return 0


class Watched:
    """The programs, run in processes of their own until the time is up: none can hold up the table or lose it."""

    def __init__(self, options: argparse.Namespace, programs: list[str]) -> None:
        self.options, self.waiting = options, list(programs)
        self.rows: list[list[str]] = []
        self.wrong: list[str] = []
        self.left: dict[str, str] = {}
        self.ends = time.monotonic() + options.seconds

    def run(self) -> None:
        while self.waiting and time.monotonic() < self.ends:
            self._one_process()
        self.left |= dict.fromkeys(self.waiting, "not begun, for lack of time")

    def _one_process(self) -> None:
        command = [sys.executable, "-u", __file__, *sys.argv[1:], "--work", *self.waiting]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        running: str | None = None
        until, before = self.ends, len(self.waiting)
        try:
            while (line := lines.get(timeout=max(0.01, until - time.monotonic()))) is not None:
                if line.startswith(BEGUN):
                    running = line.removeprefix(BEGUN).strip()
                    self.waiting.remove(running)
                    share = (self.ends - time.monotonic()) * SHARE / (len(self.waiting) + 1)
                    until = min(self.ends, time.monotonic() + share)
                elif line.startswith(ROW):
                    self._note(json.loads(line.removeprefix(ROW)), running)
                    running, until = None, self.ends
                else:
                    print(line, end="", flush=True)
        except queue.Empty:
            if running is not None:
                self.left[running] = "stopped: it took more than its share of the time"
        else:
            self._failed(running, f"its process ended with status {process.wait()}")
            if len(self.waiting) == before:  # so would the next one
                self.left |= dict.fromkeys(self.waiting, f"no process runs it: status {process.wait()}")
                self.wrong += self.waiting
                self.waiting.clear()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _note(self, told: list[Any], running: str | None) -> None:
        if isinstance(told[0], str):
            self._failed(running, told[1])
            return
        row, right = told
        self.rows.append(row)
        if not right:
            self.wrong.append(row[0])

    def _failed(self, running: str | None, why: str) -> None:
        if running is not None:
            self.left[running] = why
            self.wrong.append(running)


def _read(stream: Any, lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorder", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--inner", default="eager", help="with --recorder cpu: the backend that is recorded")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=270, help="after this time what is not done is left out")
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options)
    if options.recorder == "cuda" and not torch.cuda.is_available():
        print("No GPU here: nothing was run and nothing was timed. `--recorder cpu` checks the programs on the CPU.")
        return 0
    small, began = options.recorder == "cpu", time.monotonic()
    where = "CPU, recorder of tests" if small else torch.cuda.get_device_name()
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {where}\n", flush=True)
    names = [program.name for program in PROGRAMS if options.only.lower() in program.name.lower()]
    watched = Watched(options, names)
    watched.run()
    for name, why in watched.left.items():
        print(f"{name}: left out, {why}")
    print(f"\n{time.monotonic() - began:.0f} s; " + ("correctness only" if small else
          f"medians of {options.rounds} rounds; the last columns are how many times faster torchgraft is than each"))
    if small:
        heads = ["program", "eager from float64", "torchgraft", "replays", "right"]
    else:
        sides = list(ways(options))
        heads = ["program", *sides, *(f"/{name}" for name in sides if name != "torchgraft"), "right"]
    rows = watched.rows + [[name, *["-"] * (len(heads) - 1)] for name in watched.left]
    print(table(heads, rows), flush=True)
    return 1 if watched.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
