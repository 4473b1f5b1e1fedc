"""What goes wrong: graphs and guards that raise, errors of ours and of backends, regions whose objects died.

From then on the original bytecode runs, in part or in whole; the user's program only sees its own exceptions.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from .. import config, log
from ..cache import CodeState, Counters, EntryState, Region
from ..errors import BackendFailed, InternalError
from ..signals import raised_by_signal, raised_within
from ..torch_private import saved_tensor_hooks
from .grafting import Grafter
from .lock import CompileLock
from .recompiles import refusal
from .small_regions import SmallRegions
from .trials import has_work, note_idle

#: A region whose graph raised this often is dropped for good.
MAX_FAILURES = 8


class Failures:
    """Serves the slots' calls that tell of something wrong. `grafter` writes their texts anew."""

    grafter: Grafter

    def __init__(self, counters: Counters, lock: CompileLock) -> None:
        self.counters = counters
        self.small_regions = SmallRegions(lock)
        self.lock = lock
        #: regions that lost an object which they cannot do without
        self._orphans: list[tuple[weakref.ref[EntryState], weakref.ref[Region]]] = []

    def graph_failed(self, entry: EntryState, slot: FunctionType, arguments: tuple[Any, ...]) -> None:
        """`k_failed`: a graph raised before anything was changed; the original bytecode runs from the entry.

        It raises at its own line if the user's data are to blame, so the region stays, unless that goes on.
        No error: a branch of the program's went the way that raises.
        """
        number, error = arguments
        state = entry.state
        if error is None:
            self._unexpected(entry, number)
            return
        self.counters.add("graph_failures")
        self.counters.add("fallbacks")
        region = next((r for r in entry.regions if r.compiled.number == number), None)
        # Hooks of the program run when the graph's tensors are saved. A checkpoint's may end the call in this way.
        if raised_by_signal(error) or raised_within(error, saved_tensor_hooks(True) or ()):
            raise error
        if state is None or region is None:
            return
        log.backend.debug("%s: the graph raised %s: %s", state.place(entry.line), type(error).__name__, error)
        region.failures += 1
        if region.failures >= MAX_FAILURES and self.lock.take():
            log.backend.warning(
                "%s: a compiled graph raised %d times and is dropped; this part runs plain. Last: %s: %s",
                state.place(entry.line), region.failures, type(error).__name__, error,
            )  # fmt: skip
            try:
                entry.regions.remove(region)
                entry.dead = True
                self.grafter.write(state, entry)
            finally:
                self.lock.let_go()

    def _unexpected(self, entry: EntryState, number: int) -> None:
        """Where a program goes the way that raises again and again, it is a branch like any from now on."""
        self.counters.add("fallbacks")
        state, region = entry.state, next((r for r in entry.regions if r.compiled.number == number), None)
        if state is None or region is None:
            return
        region.failures += 1
        if region.failures >= MAX_FAILURES and not state.options.fullgraph and self.lock.take():
            try:
                entry.history.expects = False
                entry.regions.remove(region)
                self.grafter.write(state, entry)
            finally:
                self.lock.let_go()

    def guard_raised(self, entry: EntryState, slot: FunctionType, arguments: tuple[Any, ...]) -> None:
        """`k_raised`: a guard raised, which counts as a miss.

        What it looks at may not be there any more: a plain miss. Any other exception is our bug.
        """
        _, error = arguments
        if raised_by_signal(error):
            raise error
        if _finds_something_gone(error):
            return
        self.counters.add("guard_errors")
        state = entry.state
        if state is not None:
            log.guards.debug("%s: a guard raised", state.place(entry.line), exc_info=error)
        if config.strict():
            raise InternalError(f"a guard raised {type(error).__name__}: {error}") from error

    def trial(self, entry: EntryState, slot: FunctionType, arguments: tuple[Any, ...]) -> None:
        """`k_trial`: a region has run so often.

        A small one is tried against the original bytecode. One that only hands private copies over goes, where these
        do nothing.
        """
        [number] = arguments
        state, region = entry.state, next((r for r in entry.regions if r.compiled.number == number), None)
        if state is None or region is None or not self.lock.take():
            return
        try:
            if region.compiled.call is not None and region in entry.regions:
                self.small_regions.begin(state, entry, region)
                return
            if region in entry.regions:
                self._drop_idle(state, entry, [region])
        finally:
            self.lock.let_go()

    def drop_if_idle(self, state: CodeState, entry: EntryState) -> bool:
        """An entry is full. Do its regions only hand over private copies that do nothing? Then they all go."""
        return self._drop_idle(state, entry, entry.regions)

    def _drop_idle(self, state: CodeState, entry: EntryState, regions: Iterable[Region]) -> bool:
        regions = list(regions)
        if not regions or any(has_work(region) for region in regions):
            return False
        for region in regions:
            note_idle(state, region)
            entry.regions.remove(region)
        if entry.regions:
            self.grafter.write(state, entry)
        else:
            self.grafter.nothing_here(state, entry, 0)
        return True

    def fresh_region_refused(
        self, state: CodeState, entry: EntryState, region: Region, arguments: tuple[Any, ...]
    ) -> None:
        """A region that was just made does not take what it was captured with: our bug."""
        if region not in entry.regions or not self.lock.take():
            return
        try:
            entry.regions.remove(region)
            reason = refusal(state, entry, region, arguments)
            self.failed(state, InternalError(f"a region's guards fail on what it was captured with: {reason}"), entry)
        finally:
            self.lock.let_go()

    def failed(self, state: CodeState, error: Exception, entry: EntryState | None = None) -> None:
        """Something went wrong in here or in the backend: from this entry the function runs plain.

        With `fullgraph` nothing may run plain: what a backend could not do is raised.
        """
        self.counters.add("errors")
        if config.strict() or (state.options.fullgraph and isinstance(error, BackendFailed)):
            raise error
        if not state.errors:
            log.errors.warning("%s runs plain in part: %s: %s", state.place(), type(error).__name__, error)
        log.errors.debug("%s runs plain in part", state.place(None if entry is None else entry.line), exc_info=error)
        state.errors.append(f"{type(error).__name__}: {error}")
        if entry is not None:
            entry.dead = True
            self.grafter.write(state, entry)

    # regions whose objects died -------------------------------------------------------------------------------------
    def drop_when_orphaned(self, entry: EntryState, region: Region) -> None:
        """A region holds most objects weakly. When one dies it can never run again: it goes, with what it holds."""
        where = weakref.ref(entry), weakref.ref(region)

        def died(_: Any, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
            # called by the garbage collector, maybe, in the midst of anything, or at the end when modules are empty
            if at_exit():
                return
            self._orphans.append(where)
            if self.lock.take():
                try:
                    self.sweep()
                finally:
                    self.lock.let_go()

        written = region.compiled.written
        for get in () if written is None else written.weak:
            held = get()
            if held is not None:
                region.watching.append(weakref.ref(held, died))

    def sweep(self) -> None:
        """Drop the regions that have lost something. Under the lock."""
        while self._orphans:
            entry_reference, region_reference = self._orphans.pop()
            entry, region = entry_reference(), region_reference()
            state = None if entry is None else entry.state
            if entry is not None and state is not None and region in entry.regions:
                entry.regions.remove(region)
                self.grafter.write(state, entry)


def _finds_something_gone(error: Exception) -> bool:
    """Is it what a guard raises where an attribute, item, global or the content of a cell was deleted?

    Or where there is no more room: the next call may have some. Or where a size or number by which something is
    divided is 0 now.

    A temporary of ours that is not bound, an UnboundLocalError, is not among these.
    """
    if isinstance(error, ValueError):
        return error.args == ("Cell is empty",)
    if isinstance(error, (RecursionError, MemoryError, ZeroDivisionError)):
        return True
    gone = isinstance(error, (AttributeError, LookupError, ReferenceError, NameError))
    return gone and not isinstance(error, UnboundLocalError)
