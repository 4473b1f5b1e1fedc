"""Measure, over calls that the program makes anyway, whether a region is faster than the bytecode that it stands for.

The region's slot says when it is called (`enter`), and once the guards hold, whose turn it is (`turn`); another slot,
where the region ends, says when that place is reached (`stop`), by the region or by the original bytecode. The guards
count as the region's, for the original bytecode alone would not ask them. Turns alternate, so that what slows the
machine down hits both.

Where the autograd engine records the region, its backward comes later: there the time until the next call counts. Where
that shows that one backward serves several calls, the region stays.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

#: tests put another in its place
clock: Callable[[], float] = time.perf_counter
#: A clear case is decided after so many turns of each, any other after so many.
FEW, MANY = 12, 48
#: ... and where it cannot be said which calls a backward belongs to
LONGEST = 4 * MANY
#: such is the part of calls with much longer times
FEW_LONG = 0.03
#: By so much the region must be slower to be switched off; what is clearly slower, or clearly faster.
SLOWER, CLEARLY_SLOWER, CLEARLY_FASTER = 1.03, 1.3, 0.9
#: Turns that are not counted, since nothing is warm. When so many brought nothing, or that many not enough, it is over.
WARM_UP, VAIN, ENDLESS = 2, 24, 4 * LONGEST


class Trial:
    """One region's. `done` is told when there is enough, at each further call until it answers True.

    ours, plain: seconds of the region's calls and of the original's.
    """

    def __init__(self, *, until_next: bool, done: Callable[[Trial], bool]) -> None:
        self.ours: list[float] = []
        self.plain: list[float] = []
        self.until_next = until_next
        self._done = done
        self._thread = threading.get_ident()
        self._turns = 0
        self._is_plain = False
        self._entered: float | None = None
        self._since: float | None = None
        self._stopped = False
        self._over = False
        self._cost = 0.0
        self._cost = min(self._cost_of_asking() for _ in range(5))
        self._turns, self._since, self._entered = 0, None, None

    def _cost_of_asking(self) -> float:
        """What is between `enter` and the answer of `turn` beside guards."""
        self.enter()
        self.turn()
        began, now = self._entered, self._since
        self._since = None
        return 0.0 if began is None or now is None else self._asked - began

    def enter(self) -> None:
        """The slot is called."""
        if self._over:
            self._tell()
            return
        if threading.get_ident() != self._thread:
            return
        now = clock()
        if self.until_next and self._since is not None and self._stopped:
            self._note(now - self._since)
        self._since = None
        self._entered = now

    def turn(self) -> bool:
        """The guards hold. Is it the original's turn?"""
        if self._over or self._entered is None or threading.get_ident() != self._thread:
            return False
        self._asked = now = clock()
        self._turns += 1
        self._is_plain = not self._is_plain
        self._stopped = False
        self._since = now if self._is_plain else min(now, self._entered + self._cost)
        if self._turns > ENDLESS or (self._turns > VAIN and not self.ours and not self.plain):
            self._over = True
        return self._is_plain

    def stop(self) -> None:
        """Where the region ends."""
        if self._since is None or threading.get_ident() != self._thread:
            return
        if self.until_next:
            self._stopped = True
            return
        self._note(clock() - self._since)
        self._since = None
        if self._over:
            self._tell()

    def _note(self, seconds: float) -> None:
        if self._turns <= WARM_UP:
            return
        (self.plain if self._is_plain else self.ours).append(seconds)
        self._over = self._over or self.region_is_faster() is not None

    def _tell(self) -> None:
        if self._done(self):
            self._done = lambda trial: True

    def region_is_faster(self) -> bool | None:
        """None: that cannot be said yet. In doubt it is."""
        count = min(len(self.ours), len(self.plain))
        if count < FEW:
            return None
        ratios = [_ratio(self.ours, self.plain, of) for of in (statistics.median, _lower_quartile)]
        if count < MANY:
            clearly_slower = min(ratios) > CLEARLY_SLOWER and not self.until_next
            faster = False if clearly_slower else True if max(ratios) < CLEARLY_FASTER else None
        else:
            faster = min(ratios) <= SLOWER
        if faster is False and self.until_next and self._shares_backwards():
            return None if count < LONGEST else True
        return faster

    def _shares_backwards(self) -> bool:
        """Some are much longer than most: one backward may follow several calls, and nobody knows whose it is."""
        longer = sum(time > 2 * statistics.median(times) for times in (self.ours, self.plain) for time in times)
        return longer > FEW_LONG * (len(self.ours) + len(self.plain))

    def figures(self) -> str:
        """In words."""
        if not self.ours or not self.plain:
            return "tried against the original bytecode, but nothing could be measured"
        what = "to the next call" if self.until_next else "a call"
        ours, plain = (f"{1e6 * statistics.median(times):.1f} us" for times in (self.ours, self.plain))
        return f"{what} {ours} compiled, {plain} plain (medians of {len(self.ours)} and {len(self.plain)} calls)"


def _ratio(ours: list[float], plain: list[float], of: Callable[[list[float]], float]) -> float:
    other = of(plain)
    return of(ours) / other if other > 0 else 0.0


def _lower_quartile(times: list[float]) -> float:
    return sorted(times)[len(times) // 4]
