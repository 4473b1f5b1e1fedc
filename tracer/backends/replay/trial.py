"""Is a replay faster than what it replaces? Both are timed on the program's own calls, one after the other.

Where a region keeps the GPU busy for long, a replay saves nothing and its copies cost: such a replay is switched off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: a replay may be this much slower: clocks are not exact
SLACK = 1.02


class Trial:
    """`rounds` calls of each; the first replay, for which the device gets the recording, does not count."""

    def __init__(self, rounds: int, clock: Callable[[], float]) -> None:
        self._rounds, self._clock = rounds, clock
        self._first = True
        self.inner: list[float] = []
        self.replay: list[float] = []

    @property
    def is_over(self) -> bool:
        return len(self.inner) >= self._rounds and len(self.replay) >= self._rounds

    @property
    def wants_inner(self) -> bool:
        """Is it the inner callable's turn?"""
        return not self._first and len(self.inner) <= len(self.replay) and len(self.inner) < self._rounds

    def time(self, call: Callable[[], Any]) -> Any:
        times = self.inner if self.wants_inner else self.replay
        began = self._clock()
        result = call()
        took = self._clock() - began
        if self._first and times is self.replay:
            self._first = False
        else:
            times.append(took)
        return result

    @property
    def is_slower(self) -> bool:
        return min(self.replay) > SLACK * min(self.inner)

    def __str__(self) -> str:
        if not self.inner or not self.replay:
            return "not timed yet"
        return f"replay {1e6 * min(self.replay):.1f} us, inner callable {1e6 * min(self.inner):.1f} us"
