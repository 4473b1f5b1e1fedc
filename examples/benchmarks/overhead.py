"""What torchgraft costs a program that it does not compile: the same calls with it installed and without it.

Rounds with and without it take turns, in one process; something else stays compiled all along. The difference must
lie within the noise, which is how far two halves of the rounds without it are from each other.

    python examples/benchmarks/overhead.py            # exit status 1 if it costs something
    python examples/benchmarks/overhead.py --discover # with all functions of this file watched, of which none is chosen
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator

import torch
from timing import noise, ratio, shown, table, time_of

import tracer

#: What may come from the machine alone even if the noise was measured lower.
ALLOWED = 0.02
#: After so many calls it is decided of each function that none of its arguments is a tensor.
WATCHED = 70


def add(a: int, b: int = 1) -> int:
    return a + b


def calls() -> int:
    total = 0
    for i in range(200):
        total = add(total, b=i)
    return total


def numbers(n: int) -> Iterator[int]:
    for i in range(n):
        yield i * 2


def generators() -> int:
    return sum(numbers(200))


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def step(self) -> int:
        self.count += 1
        return self.count


def methods() -> int:
    counter = Counter()
    for _ in range(200):
        counter.step()
    return counter.count


def raising() -> int:
    caught = 0
    for i in range(50):
        try:
            raise ValueError(i)
        except ValueError:
            caught += 1
    return caught


LINEAR = torch.nn.Linear(4, 4)
X = torch.randn(2, 4)


def module() -> torch.Tensor:
    return LINEAR(X)


def compiled_elsewhere(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


PROGRAMS: dict[str, Callable[[], object]] = {
    "200 calls": calls, "a generator of 200": generators, "200 methods": methods, "50 exceptions": raising,
    "nn.Linear": module}


def measure(call: Callable[[], object], rounds: int, discover: bool) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"without": [], "with": []}
    repeats = max(1, round(0.001 / time_of(call, 20)))
    for i in range(rounds):
        for side in ("without", "with") if i % 2 else ("with", "without"):
            if side == "with":
                tracer.install(backend="eager", discover=["__main__"] if discover else ())
                compiled_elsewhere(X)
                for _ in range(WATCHED if discover else 0):
                    call()
            else:
                tracer.uninstall()
            time_of(call, max(1, repeats // 10))  # what specialised bytecode was lost comes back
            times[side].append(time_of(call, repeats))
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--discover", action="store_true", help="watch the functions that are not compiled")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tracer.install(backend="eager")
    tracer.compile(compiled_elsewhere)
    rows, missed = [], 0
    for name, call in PROGRAMS.items():
        times = measure(call, options.rounds, options.discover)
        found = ratio(times["with"], times["without"])
        allowed = max(ALLOWED, 2 * noise(times["without"]))
        met = found <= 1 + allowed
        missed += not met
        medians = [shown(statistics.median(times[side])) for side in ("without", "with")]
        rows.append([name, *medians, f"{found:.3f}", f"{1 + allowed:.3f}", "yes" if met else "NO"])
    tracer.uninstall()
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, medians of {options.rounds} rounds\n")
    print(table(["not compiled", "not installed", "installed", "ratio", "at most", "met"], rows))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
