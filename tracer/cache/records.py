"""What is noted of captures and recompiles, as plain data; and the counters. No object of the user's is held."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ..errors import GraphBreak, UserLine
from ..log import one_line


@dataclass
class Recompile:
    """A call that no region of an entry fitted, although there were some; or one that got no region where none was.

    entry, line: where.  earlier: the number of the nearest region, that of which the most guards held, as its text
    gives it; held, of: how many did, of how many.  None: there was no region.
    kind, guard, source: the guard of it that failed first.  old, new: what that expects, and what is there.
    needed_by: the user's line that needs the guard.  hint: what would avoid this.
    outcome: "compiled", or why not: "limit", "stance", "raised" (the user asked for an error instead), "nothing to
    compile", "failed".  reason: that in words, where there is more to say.  made: the number of the new region.
    count: how many calls it stands for.
    """

    entry: int
    line: int
    earlier: int | None = None
    held: int = 0
    of: int = 0
    kind: str = ""
    guard: str = ""
    source: str = ""
    old: str = ""
    new: str = ""
    needed_by: UserLine | None = None
    hint: str = ""
    outcome: str = ""
    reason: str = ""
    made: int | None = None
    count: int = 1

    def why(self) -> str:
        """The guard, old and new value, and the line that needs it."""
        if self.earlier is None:
            return "nothing was compiled here before"
        if not self.guard:
            return f"region {self.earlier}: unknown (what it looks at has changed again)"
        line = "" if self.needed_by is None else f", needed by {self.needed_by}"
        return f"region {self.earlier} ({self.held} of {self.of} guards held): {self.guard}, now {self.new}{line}"

    def __str__(self) -> str:
        """In one line."""
        reason = f" ({self.reason})" if self.reason else ""
        hint = f". Hint: {self.hint}" if self.hint else ""
        return f"{self.outcome}{reason}: {self.why()}{hint}"


@dataclass
class BreakRecord:
    """A graph break that captures of this function met, and how often. Not the exception: that holds frames."""

    title: str
    details: str
    hint: str
    stack: tuple[UserLine, ...]
    entry: int
    count: int = 1

    @classmethod
    def of(cls, error: GraphBreak, entry: int) -> BreakRecord:
        return cls(error.title, error.details, error.hint, error.stack, entry)

    def __str__(self) -> str:
        """In one line."""
        what = self.title + (f": {one_line(self.details)}" if self.details else "")
        stack = f", at {' > '.join(map(str, self.stack))}" if self.stack else ""
        return f"{what}{stack}" + (f". Hint: {self.hint}" if self.hint else "")


@dataclass(frozen=True)
class Made:
    """What is remembered of a region, also when it has gone. runs: how often it ran, in the list that its text counts.
    """

    runs: list[int]
    operators: int
    backend: str
    capture_seconds: float
    backend_seconds: float


#: What there is to count.
COUNTED = (
    "compilations", "recompiles", "misses", "guard_failures", "guard_errors", "graph_failures", "fallbacks", "errors",
)  # fmt: skip


class Counters:
    """Numbers since the start or the last `clear`; `breaks` by title."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the collector may run user code in the midst, which misses and counts
        self._numbers: Counter[str] = Counter()
        self._breaks: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        with self._lock:
            self._numbers[name] += count

    def add_break(self, title: str) -> None:
        with self._lock:
            self._breaks[title] += 1

    def clear(self) -> None:
        with self._lock:
            self._numbers.clear()
            self._breaks.clear()

    def snapshot(self) -> dict[str, Any]:
        with self._lock:
            return {**self._numbers, "breaks": dict(self._breaks)}

    def complete(self) -> dict[str, Any]:
        """The same, with what was not counted as 0."""
        return {**dict.fromkeys(COUNTED, 0), **self.snapshot()}
