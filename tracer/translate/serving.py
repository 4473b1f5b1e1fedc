"""What runs when no region fits. This is inside the user's calls: nothing is raised here but GraphBreak with
`fullgraph=True` (and, with TORCHGRAFT_STRICT=1, our own bugs); what can't be compiled runs as it is.

One compile at a time: who comes second, or comes in again from within, doesn't wait but runs plain.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, FunctionType
from typing import Any

from .. import config, log
from ..cache import BreakRecord, CodeState, Counters, EntryState, Region, Registry
from ..config import Settings
from ..errors import BackendFailed, GraphBreak, InternalError, OperatorFailed, UserLine
from ..graph.capture import Capture, Request
from ..guard_text import explain_failures, is_of_number
from ..guards import Guard
from ..interpreter.capture import capture
from ..originals import original_code
from ..signals import raised_by_signal
from ..sources import read_from
from .grafting import Grafter
from .making import Maker
from .places import behind, behind_break, is_worth_it, take_arguments
from .trials import has_work, note_idle

#: An entry that gave nothing this often gives nothing.
ATTEMPTS = 2
#: A region whose graph raised this often is dropped for good.
MAX_FAILURES = 8


class Translator:
    """Serves the misses of all slots.

    capture: what interprets; tests put another in its place.
    on: False: nothing is compiled; `when_off` is told of calls that would have been.
    """

    def __init__(
        self, registry: Registry, counters: Counters, *, capture: Callable[[Request], Capture] = capture
    ) -> None:
        self.registry = registry
        self.counters = counters
        self.on = False
        self.when_off: Callable[[CodeState], None] = lambda state: None
        self.grafter = Grafter(self.miss, self.graph_failed, self.guard_raised, self.trial, self.start)
        self.maker = Maker(registry, capture, self._adopt_copy)
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._held_off = threading.local()
        #: regions that lost an object which they cannot do without
        self._orphans: list[tuple[weakref.ref[EntryState], weakref.ref[Region]]] = []
        # A fork in the midst of another thread's compile: that thread is not there to let go of the lock.
        os.register_at_fork(after_in_child=self._after_fork)

    @property
    def settings(self) -> Settings:
        return self.maker.settings

    def is_capturing(self) -> bool:
        """Is this thread interpreting somebody's function right now?"""
        return self.maker.capturing_thread == threading.get_ident()

    # the lock -------------------------------------------------------------------------------------------------------
    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._owner = self.maker.capturing_thread = None

    def _take_lock(self, blocking: bool) -> bool:
        if not self._lock.acquire(blocking):
            return False
        self._owner = threading.get_ident()
        return True

    def _let_go(self) -> None:
        self._owner = None
        self._lock.release()

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """Within it no other thread compiles. Waits for one that does; the thread that compiles itself may come in."""
        if self._owner == threading.get_ident():
            yield
            return
        self._take_lock(blocking=True)
        try:
            yield
        finally:
            self._let_go()

    @contextlib.contextmanager
    def held_off(self) -> Iterator[None]:
        """Within it this thread compiles nothing."""
        self._held_off.depth = self._depth_held_off() + 1
        try:
            yield
        finally:
            self._held_off.depth -= 1

    def _depth_held_off(self) -> int:
        return self._held_off.__dict__.get("depth", 0)

    # starts and misses ----------------------------------------------------------------------------------------------
    def graft_first(self, state: CodeState) -> None:
        """Code for a new state; the original, and an error logged, where it can't be grafted."""
        try:
            self.grafter.first_graft(state)
        except Exception as error:
            state.entries.clear()
            state.grafted = state.original
            self._failed(state, error)

    def _adopt_copy(self, state: CodeState, copy: FunctionType) -> None:
        self.graft_first(state)
        if state.grafted is not None:
            copy.__code__ = state.grafted

    def start(self, entry: EntryState, frame: FrameType) -> bool:
        """A function starts and no region is there yet: capture before its first instruction. True: that is decided."""
        state = entry.state
        if state is None or not self.on or entry.regions or entry.dead:
            return True
        arguments = take_arguments(frame, entry.layout.locals)
        if arguments is None:
            return True
        entry.reached += 1
        self.counters.add("misses")
        slot = (entry.wide() if state.is_scouting else None) or entry.slot
        if self._compile(state, entry, slot, arguments) is None:
            # The entry comes next, with the same arguments; it need not try the same once more.
            self.counters.add("fallbacks")
            entry.tried[threading.get_ident()] = tuple(map(id, arguments))
        return bool(entry.regions) or entry.dead

    def miss(self, entry: EntryState, slot: FunctionType, arguments: tuple[Any, ...]) -> Any:
        """`k_miss`: no region of this entry fits. Compile one and run it, or None.

        It is run by the slot that was called: another thread may meanwhile have given the entry one for a later graft.
        """
        state = entry.state
        if state is None:
            return None
        if not self.on:
            self.when_off(state)
            return None
        thread, key = threading.get_ident(), tuple(map(id, arguments))
        if entry.tried.pop(thread, None) == key:
            return None
        if entry.trying.get(thread) == key:
            self._fresh_region_refused(state, entry, arguments)
            return None
        entry.reached += 1
        self.counters.add("misses")
        for region in entry.regions:
            if region.compiled.watch is not None:
                region.compiled.watch.rest()
        if self._compile(state, entry, slot, arguments) is None:
            self.counters.add("fallbacks")
            return None
        entry.trying[thread] = key
        try:
            return slot(*arguments)
        finally:
            entry.trying.pop(thread, None)

    def _compile(
        self, state: CodeState, entry: EntryState, slot: FunctionType, arguments: tuple[Any, ...]
    ) -> Region | None:
        if entry.dead or entry.reached < self.settings.compile_after or self._depth_held_off() > 0:
            return None
        if not self._take_lock(blocking=False):
            return None
        try:
            if not self.on or state.entries.get(entry.index) is not entry or not entry.owns(slot):
                return None  # another thread has just put all back, or grafted anew
            if self._at_limit(state, entry, arguments):
                return None
            return self._region(state, entry, slot, arguments)
        finally:
            try:
                self._sweep()
            finally:
                self._let_go()

    def _region(
        self, state: CodeState, entry: EntryState, slot: FunctionType, arguments: tuple[Any, ...]
    ) -> Region | None:
        """Capture, compile, put in. None where there is nothing to be had, or where it can't be done."""
        try:
            captured, seconds = self.maker.capture(state, entry, arguments)
            if captured.graph_break is not None:
                self._note_break(state, entry, captured.graph_break)
            if not is_worth_it(captured, state.family):
                self._nothing_here(state, entry, captured.passed_by)
                self.grafter.enter_at(state, behind(state.decoded, captured))
                return None
            region = self.maker.region(state, entry, captured, seconds)
            return region if self._put_in(state, entry, slot, region) else None
        except GraphBreak as error:
            self._note_break(state, entry, error)
            if state.options.fullgraph:
                raise error.with_traceback(None) from None
            self._nothing_here(state, entry, error.passed_by)
            self.grafter.enter_at(state, behind_break(state.decoded, entry.index if error.at is None else error.at))
        except OperatorFailed as error:  # the user's own error: the original bytecode raises it
            log.backend.debug("%s: %s; running it plain", state.name, error)
        except (RecursionError, MemoryError) as error:  # of the moment: the next call may have more room
            log.errors.debug("%s: not captured: %s", state.name, type(error).__name__)
        except Exception as error:
            if raised_by_signal(error):
                raise
            self._failed(state, error, entry)
        return None

    def _put_in(self, state: CodeState, entry: EntryState, slot: FunctionType, region: Region) -> bool:
        """True: the slot may be called again, with what the region was captured with."""
        entry.barren = 0
        self.counters.add("compilations")
        if entry.regions:
            self.counters.add("recompiles")
        runs_here = self.grafter.put_in(state, entry, region, behind(state.decoded, region.capture), slot)
        self._drop_when_orphaned(entry, region)
        tell_of(state, entry, region)
        return runs_here

    def _nothing_here(self, state: CodeState, entry: EntryState, passed_by: Iterable[int]) -> None:
        """Once no more is tried here, there may still be something where the captures did not get."""
        entry.passed_by.update(passed_by)
        self.grafter.nothing_here(state, entry, self.settings.recompile_limit if entry.regions else ATTEMPTS)
        if entry.dead:
            self.grafter.enter_at(state, sorted(entry.passed_by))

    def _note_break(self, state: CodeState, entry: EntryState, error: GraphBreak) -> None:
        self.counters.add_break(error.title)
        error.stack = error.stack or (UserLine(state.filename, entry.line, state.name),)
        key = (error.title, error.details, error.stack)
        if key in state.breaks:
            state.breaks[key].count += 1
            return
        state.breaks[key] = BreakRecord.of(error, entry.index)
        log.breaks.debug("%s: %s", state.name, error)

    # limits ---------------------------------------------------------------------------------------------------------
    def _at_limit(self, state: CodeState, entry: EntryState, arguments: tuple[Any, ...]) -> bool:
        """May this entry get one more region? Where not, that is said once, with the guard that failed."""
        settings, count = self.settings, sum(1 for _ in state.regions)
        reason = "no region"
        if entry.regions:
            self.counters.add("guard_failures")
            failed, reason = why_refused(state, entry, entry.regions[0], arguments)
            for guard in filter(is_of_number, failed):
                entry.changed |= {str(source) for source in read_from(guard.source)}
            log.recompiles.debug("%s (%s:%s): %s", state.name, state.filename, entry.line, reason)
        if len(entry.regions) < settings.recompile_limit and count < settings.accumulated_recompile_limit:
            return False
        if not entry.limit_told:
            entry.limit_told = True
            log.recompiles.warning(
                "%s (%s:%s) has %d regions at line %s and gets no more; it runs plain for what none of them fits. "
                "The guard that failed last: %s",
                state.name, state.filename, state.line, len(entry.regions), entry.line, reason,
            )  # fmt: skip
            self.grafter.write(state, entry)
        return True

    # what goes wrong ------------------------------------------------------------------------------------------------
    def graph_failed(self, entry: EntryState, slot: FunctionType, arguments: tuple[Any, ...]) -> None:
        """`k_failed`: a graph raised before anything was changed; the original bytecode runs from the entry.

        It raises at its own line if the user's data are to blame, so the region stays, unless that goes on.
        """
        number, error = arguments
        state = entry.state
        self.counters.add("graph_failures")
        self.counters.add("fallbacks")
        region = next((r for r in entry.regions if r.compiled.number == number), None)
        if raised_by_signal(error):
            raise error
        if state is None or region is None:
            return
        log.backend.debug("%s entry %d: the graph raised %s: %s", state.name, entry.index, type(error).__name__, error)
        region.failures += 1
        if region.failures >= MAX_FAILURES and self._take_lock(blocking=False):
            log.backend.warning(
                "%s (%s:%s): a compiled graph raised %d times and is dropped; this part runs plain. Last: %s: %s",
                state.name, state.filename, state.line, region.failures, type(error).__name__, error,
            )  # fmt: skip
            try:
                entry.regions.remove(region)
                entry.dead = True
                self.grafter.write(state, entry)
            finally:
                self._let_go()

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
            log.guards.debug("%s entry %d: a guard raised", state.name, entry.index, exc_info=error)
        if config.strict():
            raise InternalError(f"a guard raised {type(error).__name__}: {error}") from error

    def trial(self, entry: EntryState, slot: FunctionType, arguments: tuple[Any, ...]) -> None:
        """`k_trial`: a region that only hands private copies over has run so often. Where these do nothing, it goes."""
        [number] = arguments
        state, region = entry.state, next((r for r in entry.regions if r.compiled.number == number), None)
        if state is None or region is None or not self._take_lock(blocking=False):
            return
        try:
            if has_work(region) or region not in entry.regions:
                return
            note_idle(state, region)
            entry.regions.remove(region)
            if entry.regions:
                self.grafter.write(state, entry)
            else:
                self.grafter.nothing_here(state, entry, 0)
        finally:
            self._let_go()

    def _fresh_region_refused(self, state: CodeState, entry: EntryState, arguments: tuple[Any, ...]) -> None:
        if not entry.regions or not self._take_lock(blocking=False):
            return
        try:
            region = entry.regions.pop(0)
            _, reason = why_refused(state, entry, region, arguments)
            self._failed(state, InternalError(f"a region's guards fail on what it was captured with: {reason}"), entry)
        finally:
            self._let_go()

    def _failed(self, state: CodeState, error: Exception, entry: EntryState | None = None) -> None:
        """Something went wrong in here or in the backend: from this entry the function runs plain.

        With `fullgraph` nothing may run plain: what a backend could not do is raised.
        """
        self.counters.add("errors")
        if config.strict() or (state.options.fullgraph and isinstance(error, BackendFailed)):
            raise error
        if not state.errors:
            log.errors.warning(
                "%s (%s:%s) runs plain in part: %s: %s",
                state.name, state.filename, state.line, type(error).__name__, error,
            )  # fmt: skip
        log.errors.debug("%s", state.name, exc_info=error)
        state.errors.append(f"{type(error).__name__}: {error}")
        if entry is not None:
            entry.dead = True
            self.grafter.write(state, entry)

    # regions whose objects died -------------------------------------------------------------------------------------
    def _drop_when_orphaned(self, entry: EntryState, region: Region) -> None:
        """A region holds most objects weakly. When one dies it can never run again: it goes, with what it holds."""
        where = weakref.ref(entry), weakref.ref(region)

        def died(_: Any, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
            # called by the garbage collector, maybe, in the midst of anything, or at the end when modules are empty
            if at_exit():
                return
            self._orphans.append(where)
            if self._take_lock(blocking=False):
                try:
                    self._sweep()
                finally:
                    self._let_go()

        written = region.compiled.written
        for get in () if written is None else written.weak:
            held = get()
            if held is not None:
                region.watching.append(weakref.ref(held, died))

    def _sweep(self) -> None:
        while self._orphans:
            entry_reference, region_reference = self._orphans.pop()
            entry, region = entry_reference(), region_reference()
            state = None if entry is None else entry.state
            if entry is not None and state is not None and region in entry.regions:
                entry.regions.remove(region)
                self.grafter.write(state, entry)


def tell_of(state: CodeState, entry: EntryState, region: Region) -> None:
    """A fresh region, for those who asked to be told."""
    where, captured = f"{state.name} ({state.filename}:{entry.line})", region.capture
    if log.graphs.isEnabledFor(logging.DEBUG) and captured.graph is not None:
        log.graphs.debug("%s: %d operators\n%s", where, captured.graph.operators, captured.graph.module.code.strip())
    if log.guards.isEnabledFor(logging.DEBUG):
        for guard in captured.guards:
            log.guards.debug("%s: %s, needed by %s", where, guard, guard.line or "the region")
    log.regions.debug("%s\n%s", where, entry.text)
    log.backend.debug("%s: %s took %.3f s", where, region.backend or "no backend", region.backend_seconds)


def why_refused(
    state: CodeState, entry: EntryState, region: Region, arguments: tuple[Any, ...]
) -> tuple[list[Guard], str]:
    """The guards of a region that don't hold; of the first what it wants, what it finds, the line that needs it."""
    named = dict(zip(entry.layout.parameters, arguments, strict=True))
    failures = explain_failures(region.capture.guards, named, state.globals, original_code)
    if not failures:
        return [], "unknown (what it looks at has changed again)"
    guard, seen = failures[0]
    reason = f"{guard}, now {seen}" + ("" if guard.line is None else f", needed by {guard.line}")
    return [guard for guard, _ in failures], reason


def _finds_something_gone(error: Exception) -> bool:
    """Is it what a guard raises where an attribute, item, global or the content of a cell was deleted?

    Or where there is no more room: the next call may have some.

    A temporary of ours that is not bound, an UnboundLocalError, is not among these.
    """
    if isinstance(error, ValueError):
        return error.args == ("Cell is empty",)
    if isinstance(error, (RecursionError, MemoryError)):
        return True
    gone = isinstance(error, (AttributeError, LookupError, ReferenceError, NameError))
    return gone and not isinstance(error, UnboundLocalError)
