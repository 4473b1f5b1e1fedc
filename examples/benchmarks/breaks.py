"""Programs with graph breaks anywhere: what of each runs compiled, here and with torch.compile, and what that costs.

Each program is called ten times with changing inputs, five of them to warm up. A row holds if every call did what plain
Python does, and behind the warm-up every tensor operator ran in a region unless it is itself the break, nothing was
compiled any more, and an iteration ran at most one region more than it has breaks.

    python examples/benchmarks/breaks.py                       # exit status 1 if a row does not hold
    python examples/benchmarks/breaks.py --only for_range      # programs whose name begins so, with details
    python examples/benchmarks/breaks.py --inductor            # times with Inductor as well: takes an hour
    python examples/benchmarks/breaks.py --csv breaks.csv
"""

from __future__ import annotations

import os

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # each trace would be announced
os.environ.setdefault("KINETO_LOG_LEVEL", "5")

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from break_programs import PROGRAMS, Program
from break_running import CALLS, WARM_UP, Operators, Side, counted, first_difference, quiet, ranged
from timing import ratio, table
from tqdm import tqdm

import tracer

Compile = Callable[..., Any]
HEADS = ["program", "same", "operators in regions", "torch.compile", "regions", "an iteration", "allowed", "recompiles",
         "time / eager", "torch.compile's"]  # fmt: skip


def ours(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    return tracer.compile(function, backend=backend, inplace=False)


def theirs(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    return torch.compile(function, backend=backend)


def forget() -> None:
    torch._dynamo.reset()
    tracer.reset()


@dataclass
class Row:
    program: Program
    difference: str | None = None
    operators: Operators = field(default_factory=Operators)
    their_difference: str | None = None
    their_operators: Operators = field(default_factory=Operators)
    plain_operators: Operators = field(default_factory=Operators)
    regions: int = 0
    run: int = 0
    recompiles: int = 0
    errors: int = 0
    breaks: dict[str, int] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        return sum(map(self.program.iterations, range(WARM_UP, CALLS)))

    @property
    def an_iteration(self) -> float:
        """How many regions it ran, beside those around the iterations."""
        return (self.run - self.program.around * (CALLS - WARM_UP)) / self.iterations

    def missed(self, operators: Operators) -> Counter[str]:
        return operators.missed(self.program, self.plain_operators.outside)

    def share(self, operators: Operators) -> str:
        return f"{operators.inside}/{operators.inside + self.missed(operators).total()}"

    def problems(self) -> list[str]:
        """Why the row does not hold."""
        found = [] if self.difference is None else [f"DIFFERS: {self.difference}"]
        missed = self.missed(self.operators)
        if missed:
            names = ", ".join(f"{n} {name.removeprefix('aten::')}" for name, n in missed.most_common(6))
            found.append(f"{missed.total()} operators not in regions: {names}")
        if self.recompiles:
            found.append(f"{self.recompiles} compilations behind the warm-up")
        if self.an_iteration > self.program.breaks + 1:
            found.append(f"{self.an_iteration:.2f} regions an iteration")
        if self.errors:
            found.append(f"{self.errors} internal errors")
        return found

    def cells(self, inductor: bool) -> list[str]:
        """As `HEADS`, and with Inductor two more."""
        return [
            self.program.name,
            "yes" if self.difference is None else "NO",
            self.share(self.operators),
            self.share(self.their_operators) + ("" if self.their_difference is None else " differs"),
            str(self.regions),
            f"{max(0.0, self.an_iteration):.2f}",
            str(self.program.breaks + 1),
            str(self.recompiles),
            *(self.times.get(f"{who} {backend}", "-")
              for backend in (["eager", "inductor"] if inductor else ["eager"]) for who in ("ours", "theirs")),
        ]  # fmt: skip


def measured(program: Program, inductor: bool, rounds: int, torch_compile: bool) -> Row:
    row = Row(program)
    forget()
    compilations: list[int] = []

    def watch(k: int) -> None:
        compilations.append(tracer.counters()["compilations"])

    row.difference = first_difference(program, fn := ours(program.function, ranged), between=watch)
    counters = tracer.counters()
    row.breaks, row.errors, row.regions = counters["breaks"], counters["errors"], counters["regions"]
    if len(compilations) > WARM_UP:
        row.recompiles = counters["compilations"] - compilations[WARM_UP]
    side, before = Side(program, fn), counters["hits"]
    count(side, row.operators)
    row.run = tracer.counters()["hits"] - before
    count(Side(program, program.function), row.plain_operators)
    if torch_compile:
        with_torch_compile(program, row)
    for backend in ["eager", "inductor"] if inductor else ["eager"]:
        sides = {"ours": ours, "theirs": theirs} if torch_compile else {"ours": ours}
        row.times |= timed(program, backend, sides, rounds)
    return row


def with_torch_compile(program: Program, row: Row) -> None:
    fn = theirs(program.function, ranged)
    row.their_difference = first_difference(program, fn)
    count(Side(program, fn), row.their_operators)


def count(side: Side, operators: Operators) -> None:
    with counted(operators):
        for k in range(WARM_UP, CALLS):
            side.seen(k)


def timed(program: Program, backend: str, compilers: dict[str, Compile], rounds: int) -> dict[str, str]:
    """A call against plain Python's, medians; with Inductor the results too, within a tolerance."""
    found: dict[str, str] = {}
    forget()
    sides = {"plain": Side(program, program.function)}
    for who, compiler in compilers.items():
        fn = compiler(program.function, backend)
        sides[who] = Side(program, fn)
        different = first_difference(program, fn, exact=backend == "eager")
        if different is not None and (who == "ours" or backend == "inductor"):
            found[f"{who} {backend}"] = "differs" if who == "theirs" else f"DIFFERS {different}"
    times: dict[str, list[float]] = {who: [] for who in sides}
    for i in range(rounds):
        for who, side in sides.items():
            times[who].append(side.seconds(WARM_UP + i % (CALLS - WARM_UP)))
    for who in compilers:
        found.setdefault(f"{who} {backend}", f"{ratio(times[who], times['plain']):.2f}")
    return found


def chosen(only: list[str] | None) -> list[Program]:
    return [p for p in PROGRAMS if only is None or any(p.name.startswith(name) for name in only)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--inductor", action="store_true", help="times with Inductor as well")
    parser.add_argument("--rounds", type=int, default=15, help="calls that are timed, of each side")
    parser.add_argument("--alone", action="store_true", help="without torch.compile")
    parser.add_argument("--csv", metavar="FILE", help="write the table there too")
    options = parser.parse_args()
    quiet()
    torch.set_num_threads(1)
    tracer.install()
    heads = HEADS + (["Inductor: time / eager", "torch.compile's"] if options.inductor else [])
    rows = [measured(p, options.inductor, options.rounds, not options.alone)
            for p in tqdm(chosen(options.only), unit="program", disable=None)]  # fmt: skip
    tracer.uninstall()
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, calls {WARM_UP} to {CALLS - 1} of {CALLS}\n")
    print(table(heads, [row.cells(options.inductor) for row in rows]))
    failed = [row for row in rows if row.problems() or "DIFFERS" in "".join(row.times.values())]
    for row in rows if options.only else failed:
        print(f"\n{row.program.name} ({row.program.covers}): {'; '.join(row.problems()) or 'holds'}")
        if row.their_difference is not None:
            print(f"  torch.compile: {row.their_difference}")
        if options.only:
            print(f"  breaks: {row.breaks}\n  outside of regions: {dict(row.operators.outside)}")
    print(f"\n{len(rows) - len(failed)} of {len(rows)} programs hold")
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerows([[*heads, "problems"], *([*r.cells(options.inductor), *r.problems()] for r in rows)])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
