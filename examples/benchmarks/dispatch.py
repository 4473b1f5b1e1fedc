"""What a call of a compiled function costs apart from its graph, for torchgraft and torch.compile in the same process.

The backend returns ready tensors (constant.py), so that guards, fetching parameters and the call itself are all that is
timed. Every guard is in place: below the times stands, for each kind of guard, whether the same program still gives the
right result (with the eager backend) after what the guard watches has changed.

    python examples/benchmarks/dispatch.py            # exit status 1 if a goal is missed or a result was stale
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from constant import constant_backend
from mutations import CHAIN_MUTATIONS, MAKING_MUTATIONS, PAIR_MUTATIONS, Change, still_right
from programs import Chain, changed_pair, making, pair
from timing import interleaved, noise, ratio, shown, table

import tracer


def two_tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8), torch.randn(8, requires_grad=True)


Make = Callable[[], tuple[Any, tuple[Any, ...]]]
#: The name, what makes the function and its arguments, and the part of torch.compile's cost that is allowed.
PROGRAMS: list[tuple[str, Make, float]] = [
    ("two tensors", lambda: (pair, two_tensors()), 1 / 10),
    ("10 Linear layers", lambda: (Chain(10), (torch.randn(4, 8),)), 1 / 3),
    ("50 Linear layers", lambda: (Chain(50), (torch.randn(4, 8),)), 1 / 2),
]
#: The programs whose results are looked at after a change: the timed ones, and two that the kinds of guard need.
MUTATED: list[tuple[str, Make, dict[str, Change]]] = [
    *((name, make, CHAIN_MUTATIONS if "Linear" in name else PAIR_MUTATIONS) for name, make, _ in PROGRAMS),
    ("two tensors, one changed", lambda: (changed_pair, two_tensors()), PAIR_MUTATIONS),
    ("making tensors", lambda: (making, two_tensors()), MAKING_MUTATIONS),
]


def measure(name: str, make: Make, grad: bool, rounds: int) -> tuple[list[str], float]:
    """One row of the table, and the ratio."""
    torch._dynamo.reset()
    tracer.reset()
    torch.manual_seed(0)
    plain, arguments = make()
    other, _ = make()
    if not grad:  # nobody runs inference on tensors that require grad, apart from parameters
        arguments = tuple(a.detach() for a in arguments)
    ours = tracer.compile(plain, backend=constant_backend, inplace=isinstance(plain, torch.nn.Module))
    theirs = torch.compile(other, backend=constant_backend)
    with torch.set_grad_enabled(grad):
        before = tracer.counters()["hits"]
        for _ in range(3):
            ours(*arguments)
            theirs(*arguments)
        assert tracer.counters()["hits"] > before, f"{name} is not compiled"
        sides = {"ours": partial(ours, *arguments), "theirs": partial(theirs, *arguments)}
        times = interleaved(sides, rounds=rounds)
    found = ratio(times["ours"], times["theirs"])
    medians = [shown(statistics.median(times[side])) for side in ("ours", "theirs")]
    return [f"{name}, {'grad' if grad else 'no grad'}", *medians, f"{found:.3f}", f"{noise(times['ours']):.1%}"], found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--no-mutations", action="store_true", help="only the times")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tracer.install()
    missed = 0
    rows = []
    for name, make, goal in PROGRAMS:
        for grad in (False, True):
            row, found = measure(name, make, grad, options.rounds)
            rows.append([*row, f"{goal:.3f}", "yes" if found <= goal else "NO"])
            missed += found > goal
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, medians of {options.rounds} rounds\n")
    print(table(["cost of a call", "torchgraft", "torch.compile", "ratio", "noise", "goal", "met"], rows))
    if not options.no_mutations:
        missed += report_mutations()
    return 1 if missed else 0


def report_mutations() -> int:
    """Which results were stale; their number."""
    rows, stale = [], 0
    for name, make, mutations in MUTATED:
        for kind, mutation in mutations.items():
            told = still_right(make, mutation)
            stale += told != "right"
            rows.append([kind, name, told])
    print(f"\n{table(['after a change of', 'program', 'result'], rows)}\n{len(rows)} changes, {stale} stale results")
    return stale


if __name__ == "__main__":
    sys.exit(main())
