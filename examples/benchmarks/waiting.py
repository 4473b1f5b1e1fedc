"""What functions cost that wait to be called often enough (`compile_after`), and what changing the stance costs.

    python examples/benchmarks/waiting.py
"""

from __future__ import annotations

import argparse
import functools
import sys
import textwrap
import time
import types
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import torch
from timing import table, time_of

import tracer

FUNCTIONS = (textwrap.shorten, ArgumentParser.parse_known_args, ArgumentParser._get_values)


def copied(function: Any) -> types.FunctionType:
    """A function of its own, so that nothing is known of it."""
    code = function.__code__.replace()
    return types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__)


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def making(compile_after: int) -> list[float]:
    """Seconds that `compile` takes for each function."""
    tracer.install(backend="eager", compile_after=compile_after)
    times = [seconds(functools.partial(tracer.compile, copied(function))) for function in FUNCTIONS]
    tracer.uninstall()
    return times


def add(a: int, b: int) -> int:
    return a + b


def counting(number: int) -> tuple[float, float]:
    """Seconds of a call that is plain, and of one that is counted."""
    plain = time_of(lambda: add(1, 2), number)
    tracer.install(backend="eager", compile_after=10**9)
    counted = tracer.compile(copied(add))
    found = plain, time_of(lambda: counted(1, 2), number)
    tracer.uninstall()
    return found


def stances(functions: int, number: int) -> tuple[float, float, int]:
    """Seconds of going to "force_eager" and of going back, and how many entries there are."""
    tracer.install(backend="eager")

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print(end="")
        for _ in range(2):
            x = x * 2
            print(end="")
        return x

    compiled = [tracer.compile(copied(step)) for _ in range(functions)]
    for f in compiled:
        for _ in range(4):
            f(torch.ones(2))
    entries = sum(len(tracer.explain(f)(torch.ones(2)).entries) for f in compiled)
    times = [_there_and_back() for _ in range(number)]
    tracer.uninstall()
    return min(there for there, _ in times), min(back for _, back in times), entries


def _there_and_back() -> tuple[float, float]:
    return seconds(lambda: tracer.set_stance("force_eager")), seconds(lambda: tracer.set_stance("default"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--number", type=int, default=20_000, help="calls of one measurement")
    number = parser.parse_args(arguments).number
    at_once, later = making(1), making(10)
    rows = [
        (f"{f.__name__}, {len(f.__code__.co_code) // 2} units", f"{1e3 * now:.1f} ms", f"{1e3 * then:.3f} ms")
        for f, now, then in zip(FUNCTIONS, at_once, later, strict=True)
    ]
    print(table(("compile(f)", "at once", "compile_after=10"), rows))
    plain, counted = counting(number)
    print(f"\na call: {1e9 * plain:.0f} ns plain, {1e9 * counted:.0f} ns while it is counted")
    there, back, entries = stances(20, 20)
    print(f'set_stance with {entries} entries: "force_eager" {1e6 * there:.0f} us, "default" {1e6 * back:.0f} us')
    return 0


if __name__ == "__main__":
    sys.exit(main())
