"""Timing in one process, in interleaved rounds: what slows the machine down for a moment hits every side alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 60,
    seconds: float = 0.002,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds for one call of each, once for each round.

    Each round calls every side in turn, as often as takes about `seconds`; the order moves on by one at each round.
    """
    names = list(calls)
    fastest = {name: min(time_of(call, 3, clock) for _ in range(5)) for name, call in calls.items()}
    times = {name: max(1, round(seconds / max(1e-9, once))) for name, once in fastest.items()}
    found: dict[str, list[float]] = {name: [] for name in names}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for i in range(rounds):
            start = i % len(names)
            for name in names[start:] + names[:start]:
                found[name].append(time_of(calls[name], times[name], clock))
            gc.collect(0)
    finally:
        if collecting:
            gc.enable()
    return found


def time_of(call: Callable[[], object], times: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds for one of this many calls."""
    repeat = range(times)
    start = clock()
    for _ in repeat:
        call()
    return (clock() - start) / times


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """Of the medians."""
    return statistics.median(one) / statistics.median(other)


def noise(times: Sequence[float]) -> float:
    """How far a side is from itself: the ratio of the medians of its odd and even rounds, as a distance from 1."""
    return abs(ratio(times[::2], times[1::2]) - 1)


def shown(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be, the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = []
    for row in [heads, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
