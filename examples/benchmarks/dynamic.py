"""What is compiled anew where sizes, numbers, strings or the structure change from call to call, beside torch.compile.

Each program is called twelve times with other inputs, plainly, by torchgraft and by torch.compile, all with their
defaults (`dynamic=None`). A compile is a call of the backend; a plain call is one in which no graph ran, as behind the
limit of recompiles. A row holds if every result is eager's (bit for bit, where torch.compile's are, too) and there are
no more compiles and no more plain calls than torch.compile's; where the program changes a counter, a loop variable or
an attribute itself there must be fewer compiles. Where torch.compile compiles nothing at all (it leaves a function
alone that breaks in a loop) there is nothing to compare, and "gave up" stands for its number.

Then the stress: 1,000 calls with random sizes over five dimensions. Then the cost of a call of a region that serves
several sizes, against torch.compile(dynamic=True).

    python examples/benchmarks/dynamic.py                   # exit status 1 if something does not hold
    python examples/benchmarks/dynamic.py --only batch kv   # programs with this in their names
    python examples/benchmarks/dynamic.py --backend aot_eager --no-stress --no-times
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from break_running import quiet, seed
from constant import constant_backend
from dynamic_programs import CALLS, PROGRAMS, Program
from dynamic_running import Counted, Side, difference, five_sizes, forget, ours, plainly, run, stress, theirs
from programs import Chain
from timing import interleaved, noise, ratio, shown, table
from torch import Tensor
from tqdm import tqdm

import tracer

HEADS = ["program", "what changes", "same", "compiles", "plain calls", "captures", "torch.compile", "its plain calls",
         "holds"]  # fmt: skip


@dataclass
class Row:
    program: Program
    difference: str | None
    exact: bool
    their_difference: str | None
    ours: Side
    theirs: Side

    @property
    def gave_up(self) -> bool:
        return not self.theirs.compiles

    @property
    def more(self) -> int:
        """Compiles than torch.compile's, if that compiles at all."""
        return -1 if self.gave_up else self.ours.compiles - self.theirs.compiles

    def problems(self) -> list[str]:
        found = [] if self.difference is None else [f"DIFFERS: {self.difference}"]
        if self.more > 0:
            found.append(f"{self.more} more compiles")
        elif self.program.fewer and self.more == 0:
            found.append("not fewer compiles")
        if self.ours.plain_calls > self.theirs.plain_calls:
            found.append(f"{self.ours.plain_calls - self.theirs.plain_calls} more plain calls")
        return found

    def cells(self) -> list[str]:
        return [
            self.program.name,
            self.program.covers,
            "NO" if self.difference is not None else "yes" if self.exact else "close",
            str(self.ours.compiles),
            str(self.ours.plain_calls),
            str(self.ours.captures),
            "gave up" if self.gave_up else str(self.theirs.compiles),
            str(self.theirs.plain_calls),
            "; ".join(self.problems()) or "yes",
        ]


def measured(program: Program, backend: str) -> Row:
    plain = run(program, plainly, Counted("eager"))
    own = run(program, ours, Counted(backend))
    other = run(program, theirs, Counted(backend))
    exact = {side: difference(plain, given, exact=True) for side, given in (("ours", own), ("theirs", other))}
    found = exact["ours"]
    if found is not None and exact["theirs"] is not None:  # torch.compile's are not the same bits either
        found = difference(plain, own, exact=False)
    return Row(program, found, exact["ours"] is None, difference(plain, other, exact=False), own, other)


# stress --------------------------------------------------------------------------------------------------------------
#: As many compiles may the stress take.
STRESS_LIMIT = 4


def report_stress() -> bool:
    rows, held = [], True
    for name, compiler in (("torchgraft", ours), ("torch.compile", theirs)):
        before = time.perf_counter()
        found = stress(compiler)
        taken = time.perf_counter() - before
        rows.append([name, str(found.calls), str(len(found.wrong)), str(found.compiles), str(found.plain_calls),
                     f"{taken:.1f} s"])  # fmt: skip
        if compiler is ours:
            held = not found.wrong and found.compiles <= STRESS_LIMIT and not found.plain_calls
    heads = ["random sizes over 5 dimensions", "calls", "wrong", "compiles", "plain calls", "time"]
    print(f"\n{table(heads, rows)}")
    return held


# times ---------------------------------------------------------------------------------------------------------------
def scaled_sum(x: Tensor, y: Tensor) -> Tensor:
    return (x + y) * x.shape[0]


def pairs() -> list[tuple[Tensor, ...]]:
    return [(torch.randn(n, m), torch.randn(n, m)) for n, m in ((4, 8), (6, 5), (7, 9), (3, 12))]


def batches() -> list[tuple[Tensor, ...]]:
    return [(torch.randn(n, 8),) for n in (4, 6, 7, 3)]


def five() -> list[tuple[Tensor, ...]]:
    sizes = ((2, 3, 4, 5, 6), (7, 5, 3, 4, 9), (3, 4, 6, 7, 5), (5, 6, 7, 8, 9))
    return [(torch.randn(a, b, c), torch.randn(c, d), torch.randn(b, e)) for a, b, c, d, e in sizes]


#: The name, what makes the function, its calls, and the part of torch.compile's cost that is allowed (if any).
TIMED: list[tuple[str, Callable[[], Any], Callable[[], list[tuple[Tensor, ...]]], float | None]] = [
    ("two tensors, 2 sizes", lambda: scaled_sum, pairs, 1 / 8),
    ("three tensors, 5 sizes", lambda: five_sizes, five, 1 / 8),
    ("10 Linear layers, the batch", lambda: Chain(10), batches, None),
]


class Cycle:
    """Calls a function with each of the inputs in turn."""

    def __init__(self, fn: Callable[..., Any], inputs: Sequence[tuple[Any, ...]]) -> None:
        self.fn, self.next = fn, partial(next, itertools.cycle(inputs))

    def __call__(self) -> None:
        self.fn(*self.next())


def timed(
    name: str, make: Callable[[], Any], inputs: Sequence[tuple[Any, ...]], rounds: int
) -> tuple[list[str], float, bool]:
    """One row; the ratio; and whether one region of ours served all sizes."""
    forget()
    seed(0)
    plain, other = make(), make()
    own = ours(plain, constant_backend, dynamic=True)
    their = theirs(other, constant_backend, dynamic=True)
    with torch.no_grad():
        for _ in range(3):
            for arguments in inputs:
                own(*arguments)
                their(*arguments)
        regions, misses = tracer.counters()["regions"], tracer.counters()["misses"]
        sides = {"ours": Cycle(own, inputs), "theirs": Cycle(their, inputs)}
        times = interleaved(sides, rounds=rounds)
        one_region = regions == 1 and tracer.counters()["misses"] == misses
    found = ratio(times["ours"], times["theirs"])
    medians = [shown(sorted(times[side])[rounds // 2]) for side in ("ours", "theirs")]
    return [name, *medians, f"{found:.3f}", f"{noise(times['ours']):.1%}", str(regions)], found, one_region


def report_times(rounds: int) -> bool:
    rows, held = [], True
    for name, make, inputs, goal in TIMED:
        row, found, one_region = timed(name, make, inputs(), rounds)
        met = one_region and (goal is None or found <= goal)
        said = "yes" if met else "NO" if one_region else "NO: not one symbolic region"
        rows.append([*row, "-" if goal is None else f"{goal:.3f}", said])
        held &= met
    heads = ["cost of a call of a symbolic region", "torchgraft", "torch.compile", "ratio", "noise", "regions", "goal",
             "met"]  # fmt: skip
    print(f"\n{table(heads, rows)}")
    return held


def chosen(only: Sequence[str] | None) -> list[Program]:
    return [p for p in PROGRAMS if only is None or any(part in p.name for part in only)]


def report_programs(programs: Sequence[Program], backend: str) -> dict[str, bool]:
    """The table; its claims, and whether each holds."""
    rows = [measured(p, backend) for p in tqdm(programs, unit="program", disable=None)]
    print(table(HEADS, [row.cells() for row in rows]))
    for row in rows:
        for who, different in (("torchgraft", row.difference), ("torch.compile", row.their_difference)):
            if different is not None:
                print(f"\n{row.program.name}, {who}: {different}")
    changing = [row for row in rows if row.program.fewer]
    compared = [row for row in rows if not row.gave_up]
    own, other = sum(row.ours.compiles for row in compared), sum(row.theirs.compiles for row in compared)
    held = sum(not row.problems() for row in rows)
    print(f"\n{len(rows)} programs, {held} hold. Where both compile: {own} compiles, torch.compile {other}")
    return {
        "every result is eager's": all(row.difference is None for row in rows),
        "never more compiles than torch.compile": all(r.more <= 0 for r in rows),
        "never more plain calls": all(r.ours.plain_calls <= r.theirs.plain_calls for r in rows),
        f"fewer compiles in all {len(changing)} programs that change a counter, loop variable or attribute":
            all(r.more < 0 for r in changing),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="PART", help="programs with one of these in their names")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--no-stress", action="store_true")
    parser.add_argument("--no-times", action="store_true")
    options = parser.parse_args()
    quiet()
    logging.getLogger("tracer").setLevel(logging.ERROR)  # the table says what ran plainly
    torch.set_num_threads(1)
    tracer.install()
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {CALLS} calls, backend {options.backend}\n")
    claims = report_programs(chosen(options.only), options.backend)
    if not options.no_stress:
        claims[f"the stress: equal results and at most {STRESS_LIMIT} compiles"] = report_stress()
    if not options.no_times:
        claims["one symbolic region, within the goal of its cost"] = report_times(options.rounds)
    print()
    for claim, holds in claims.items():
        print(f"{'yes' if holds else 'NO '}  {claim}")
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
