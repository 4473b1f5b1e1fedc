"""Measure, over calls that the program makes anyway, whether a region is faster than the bytecode that it stands for.

The region's slot says when it is called (`enter`), and once the guards hold, whose turn it is (`turn`); another slot,
where the region ends, says when that place is reached (`stop`), by the region or by the original bytecode. The guards
count as the region's, for the original bytecode alone would not ask them. Turns alternate, so that what slows the
machine down hits both.

Where the autograd engine records the region, its backward comes later: there the time until the next call counts. And
as one backward may serve several calls, a turn is a row of calls there, whose later backwards are one's alone.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable


def _clock() -> Callable[[], float]:
    """The time that this thread computes, where that is told to the microsecond: what else the machine does then, and
    waiting, is not in it.
    """
    precise = hasattr(time, "thread_time") and time.get_clock_info("thread_time").resolution < 1e-6
    return time.thread_time if precise else time.perf_counter


#: tests put another in its place
clock: Callable[[], float] = _clock()
#: A clear case is decided after so many turns of each, any other after so many.
FEW, MANY = 12, 48
#: By so much the region must be slower to be switched off; what is clearly slower, or clearly faster.
SLOWER, CLEARLY_SLOWER, CLEARLY_FASTER = 1.03, 1.3, 0.9
#: Where backwards count, a turn is so many calls, of which these come first and are not counted: a backward behind them
#: may be the other's. There are so many turns of each.
ROW, FIRST, FEW_ROWS, MANY_ROWS = 32, 16, 3, 6
#: A call that takes longer wins or loses by its kernels, not by what is around them: it is not tried any longer.
LONG_CALL = 1e-3
#: Calls that are not counted, since nothing is warm. When so many brought nothing, or that many not enough, it is over.
WARM_UP, VAIN, ENDLESS = 2, 24, 20 * MANY


class Trial:
    """One region's. `done` is told when there is enough, at each further call until it answers True.

    ours, plain: seconds of the region's calls and of the original's; for rows of calls the mean of those counted.
    """

    def __init__(self, *, until_next: bool, done: Callable[[Trial], bool]) -> None:
        self.ours: list[float] = []
        self.plain: list[float] = []
        self.until_next = until_next
        self._done = done
        self._thread = threading.get_ident()
        self._turns = 0
        self._long = 0
        self._row: list[float] = []
        self._is_plain = False
        self._entered: float | None = None
        self._since: float | None = None
        self._stopped = False
        self._over = False
        self._asked = self._cost = 0.0
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
        if self.until_next and self._since is not None and self._stopped:
            self._note(clock() - self._since)
        self._since = None
        self._entered = clock()

    def turn(self) -> bool:
        """The guards hold. Is it the original's turn?"""
        if self._over or self._entered is None or threading.get_ident() != self._thread:
            return False
        self._asked = now = clock()
        self._turns += 1
        if self.until_next:
            self._is_plain = (self._turns // ROW) % 2 == 1
        else:
            self._is_plain = not self._is_plain
        self._stopped = False
        self._since = now if self._is_plain else min(now, self._entered + self._cost)
        if self._turns > ENDLESS or (self._turns > VAIN and not (self.ours or self.plain or self._row)):
            self._over = True
        return self._is_plain

    def stop(self) -> None:
        """Where the region ends."""
        if self._since is None or threading.get_ident() != self._thread:
            return
        seconds = clock() - self._since
        self._long += seconds > LONG_CALL
        self._over = self._over or self._long > WARM_UP
        if self.until_next:
            self._stopped = True
        else:
            self._note(seconds)
            self._since = None
        if self._over:
            self._tell()

    def _note(self, seconds: float) -> None:
        if self._turns <= WARM_UP:
            return
        times = self.plain if self._is_plain else self.ours
        if self.until_next:
            place = self._turns % ROW
            if place >= FIRST:
                self._row.append(seconds)
            if place < ROW - 1 or not self._row:
                return
            seconds = statistics.fmean(self._row)
            self._row.clear()
        times.append(seconds)
        if self.until_next or not (len(self.ours) + len(self.plain)) % FEW:
            self._over = self._over or self.region_is_faster() is not None

    def _tell(self) -> None:
        if self._done(self):
            self._done = lambda trial: True

    def region_is_faster(self) -> bool | None:
        """None: that cannot be said yet. Where median and quartile disagree, twice as many are asked for."""
        count = min(len(self.ours), len(self.plain))
        few, many = (FEW_ROWS, MANY_ROWS) if self.until_next else (FEW, MANY)
        if count < few:
            return None
        ratios = [_ratio(self.ours, self.plain, of) for of in (statistics.median, _lower_quartile)]
        if count < many:
            return False if min(ratios) > CLEARLY_SLOWER else True if max(ratios) < CLEARLY_FASTER else None
        if count < 2 * many and min(ratios) <= SLOWER < max(ratios):
            return None
        return ratios[0] <= SLOWER

    def figures(self) -> str:
        """In words."""
        if self._long > WARM_UP:
            return f"not tried against the original bytecode: a call takes more than {1e3 * LONG_CALL:.0f} ms"
        if not self.ours or not self.plain:
            return "tried against the original bytecode, but nothing could be measured"
        what = "to the next call" if self.until_next else "a call"
        ours, plain = (f"{1e6 * statistics.median(times):.1f} us" for times in (self.ours, self.plain))
        of = f"rows of {ROW} calls" if self.until_next else "calls"
        return f"{what} {ours} compiled, {plain} plain (medians of {len(self.ours)} and {len(self.plain)} {of})"


def _ratio(ours: list[float], plain: list[float], of: Callable[[list[float]], float]) -> float:
    other = of(plain)
    return of(ours) / other if other > 0 else 0.0


def _lower_quartile(times: list[float]) -> float:
    return sorted(times)[len(times) // 4]
