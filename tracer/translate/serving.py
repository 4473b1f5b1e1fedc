"""What runs when no region fits. This is inside the user's calls: nothing is raised here but what the user asked for
(GraphBreak with `fullgraph=True`, RecompileError, RecompileLimit) and, with TORCHGRAFT_STRICT=1, our own bugs; what
can't be compiled runs as it is.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from types import FrameType, FunctionType
from typing import Any

from .. import log
from ..cache import BreakRecord, CodeState, Counters, EntryState, Made, Recompile, Region, Registry
from ..config import Settings, Stance
from ..errors import GraphBreak, OperatorFailed, RecompileError, RecompileLimit, UserLine
from ..graph.capture import Capture, Request
from ..interpreter.capture import capture
from ..signals import raised_by_signal
from .decisions import NOBODY, Decisions, Pending
from .failures import Failures
from .grafting import Grafter
from .hotness import Hotness
from .limits import GO_ON, Verdict, compile_after, may_raise, recompile_limit, verdict
from .lock import CompileLock
from .making import Maker
from .places import behind, behind_break, is_worth_it, take_arguments
from .recompiles import changed_numbers, describe_miss, is_noted, nearest, refusals, settle
from .settling import when_settled
from .trials import is_found_for_nothing

#: An entry that gave nothing this often gives nothing.
ATTEMPTS = 2


class Translator:
    """Serves the misses of all slots.

    capture: what interprets; tests put another in its place.
    on: False: nothing is compiled; `when_off` is told of calls that would have been.
    stance: what is done with all that is compiled; `set_stance` changes it.
    """

    def __init__(
        self, registry: Registry, counters: Counters, *, capture: Callable[[Request], Capture] = capture
    ) -> None:
        self.registry = registry
        self.counters = counters
        self.on = False
        self.when_off: Callable[[CodeState], None] = lambda state: None
        self.lock = CompileLock()
        self.decisions = Decisions()
        self.failures = failures = Failures(counters, self.lock)
        self.grafter = failures.grafter = Grafter(
            self.miss, failures.graph_failed, failures.guard_raised, failures.trial, self.start, self.lock
        )
        failures.small_regions.grafter = self.grafter
        self.maker = Maker(registry, capture, self._adopt_copy)
        self.hotness = Hotness(self.grafter, self.maker)
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self.lock.after_fork()
        self.maker.capturing_thread = None

    @property
    def settings(self) -> Settings:
        return self.maker.settings

    @property
    def stance(self) -> Stance:
        return self.maker.stance

    @stance.setter
    def stance(self, stance: Stance) -> None:
        self.maker.stance = stance

    def exchange_regions(self, before: Stance, now: Stance) -> None:
        """Another backend is forced upon everything, or none any more: regions that others compiled don't run."""
        for state in self.registry:
            for entry in list(state.entries.values()):
                entry.exchange_regions(before.backend, now.backend)
                self.grafter.write(state, entry)

    def is_capturing(self) -> bool:
        """Is this thread interpreting somebody's function right now?"""
        return self.maker.capturing_thread == threading.get_ident()

    # grafts ---------------------------------------------------------------------------------------------------------
    def graft_first(self, state: CodeState) -> None:
        """Code for a new state; the original, and an error logged, where it can't be grafted."""
        try:
            if self.hotness.stays_cold(state):
                self.hotness.cool(state, self.cold_start)
            else:
                self.grafter.first_graft(state)
        except Exception as error:
            self._cannot_be_grafted(state, error)

    def _cannot_be_grafted(self, state: CodeState, error: Exception) -> None:
        state.entries.clear()
        state.cold = False
        state.use(state.original)
        self.failures.failed(state, error)

    def _adopt_copy(self, state: CodeState, copy: FunctionType) -> None:
        self.graft_first(state)
        if state.grafted is not None:
            copy.__code__ = state.grafted

    # functions that are not called often enough yet -----------------------------------------------------------------
    def cold_start(self, state: CodeState, frame: FrameType) -> bool:
        """A function starts whose calls are counted. True: that is over."""
        if not self.on:
            self.when_off(state)
            return True
        if not self.hotness.is_hot_now(state):
            self._told_cold(state, frame)
            return False
        entry = self._warmed(state)
        if entry is not None and state.start is None and not entry.layout.cells and not state.options.fullgraph:
            self.start(entry, frame)
            entry.tried.pop(threading.get_ident(), None)  # this frame has no entry
        return not state.cold

    def _cold_miss(self, state: CodeState, arguments: tuple[Any, ...]) -> None:
        """The same, told by a slot. The frame has no landings: what is compiled runs from the next call on."""
        hot = self.hotness.is_hot_now(state)
        if not hot:
            self._told_cold(state, None)
        entry = self._warmed(state) if hot else None
        if entry is not None:
            entry.reached += 1
            self.counters.add("misses")
            if self._compile(state, entry, self._first_slot(state, entry), arguments) is None:
                self.counters.add("fallbacks")

    def _told_cold(self, state: CodeState, frame: FrameType | None) -> None:
        told = self.decisions.about(state, None, frame)
        told.skip(f"call {state.called}: it is compiled at call {compile_after(state, self.settings)}")
        told.tell()

    def _warmed(self, state: CodeState) -> EntryState | None:
        """The first entry of the graft that is now made."""
        if self.lock.is_held_off or not self.lock.take():
            return None
        try:
            return self.hotness.warm(state)
        except Exception as error:
            self._cannot_be_grafted(state, error)
            return None
        finally:
            self.lock.let_go()

    @staticmethod
    def _first_slot(state: CodeState, entry: EntryState) -> FunctionType:
        return (entry.wide() if state.is_scouting else None) or entry.slot

    # starts and misses ----------------------------------------------------------------------------------------------
    def start(self, entry: EntryState, frame: FrameType) -> bool:
        """A function starts and no region is there yet: capture before its first instruction. True: that is decided."""
        state = entry.state
        if state is None or not self.on or entry.regions or entry.dead:
            return True
        if may_raise(state, self.settings, self.stance):
            return False  # the slot comes next, and raises
        arguments = take_arguments(frame, entry.layout.locals)
        if arguments is None:
            return True
        entry.reached += 1
        self.counters.add("misses")
        if self._compile(state, entry, self._first_slot(state, entry), arguments, frame) is None:
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
        if state.cold:
            self._cold_miss(state, arguments)
            return None
        thread, key = threading.get_ident(), tuple(map(id, arguments))
        if entry.tried.pop(thread, None) == key:
            return None
        trying = entry.trying.get(thread)
        if trying is not None and trying[0] == key:
            self.failures.fresh_region_refused(state, entry, trying[1], arguments)
            return None
        entry.reached += 1
        self.counters.add("misses")
        for region in entry.regions:
            if region.compiled.watch is not None:
                region.compiled.watch.rest()
        made = self._compile(state, entry, slot, arguments)
        if made is None:
            self.counters.add("fallbacks")
            return None
        entry.trying[thread] = key, made
        try:
            return slot(*arguments)
        finally:
            entry.trying.pop(thread, None)

    def _compile(
        self,
        state: CodeState,
        entry: EntryState,
        slot: FunctionType,
        arguments: tuple[Any, ...],
        frame: FrameType | None = None,
    ) -> Region | None:
        told = self.decisions.about(state, entry, frame)
        try:
            return self._compile_now(state, entry, slot, arguments, told)
        finally:
            told.tell()

    def _compile_now(
        self, state: CodeState, entry: EntryState, slot: FunctionType, arguments: tuple[Any, ...], told: Pending
    ) -> Region | None:
        if entry.dead or self.stance.is_eager:
            told.skip("nothing more is compiled at this entry" if entry.dead else "stance: force_eager")
            return None
        if self.lock.is_held_off or not self.lock.take():
            told.skip("this thread compiles nothing now, or another one is compiling")
            return None
        try:
            if not self.on or state.entries.get(entry.index) is not entry or not entry.owns(slot):
                told.skip("another thread has just put all back, or grafted anew")
                return None
            return self._decide(state, entry, slot, arguments, told)
        finally:
            try:
                self.failures.sweep()
            finally:
                self.lock.let_go()

    def _decide(
        self,
        state: CodeState,
        entry: EntryState,
        slot: FunctionType,
        arguments: tuple[Any, ...],
        told: Pending = NOBODY,
    ) -> Region | None:
        """Why does no region fit, and may there be another? What came of it goes on record."""
        if entry.regions:
            self.counters.add("guard_failures")
        if self.stance.name == "eager_on_recompile" and is_noted(state, entry, "stance"):
            told.skip("stance: eager_on_recompile")
            return None
        near = nearest(refusals(state, entry, arguments)) if entry.regions else None
        if near is not None:
            entry.changed |= changed_numbers(near[1])
        record = describe_miss(entry, near)
        told.noted(record)
        found = verdict(state, entry, record, self.registry, self.settings, self.stance)
        if found.outcome == "limit" and found.error is None and self.failures.drop_if_idle(state, entry):
            told.skip("the regions here ran no operator, and nor did what they call")
            return None
        if found.outcome and found.error is None:
            settle(state, entry, record, found.outcome, found.reason)
            told.settled(found.outcome, found.reason, None)
            if found.outcome == "limit":
                self._no_more(state, entry, record)
            return None
        region = self._region(state, entry, slot, arguments, record, found, told)
        return None if self._is_given_up(state) else region

    def _no_more(self, state: CodeState, entry: EntryState, record: Recompile) -> None:
        """An entry is at a limit, which is said once, with the guard that failed."""
        entry.limit_told = True
        log.recompiles.warning(
            "%s has %d regions at line %s and gets no more (%s); it runs plain for what none of them fits. "
            "The guard that failed last: %s. tracer.explain_recompiles tells of all",
            state.place(), len(entry.regions), entry.line, record.reason, record.why(),
        )  # fmt: skip
        self.grafter.write(state, entry)

    def _region(
        self,
        state: CodeState,
        entry: EntryState,
        slot: FunctionType,
        arguments: tuple[Any, ...],
        record: Recompile,
        found: Verdict = GO_ON,
        told: Pending = NOBODY,
    ) -> Region | None:
        """Capture, compile, put in. None where there is nothing to be had, or where it can't be done."""
        again = bool(entry.regions)
        outcome, reason, made = "failed", found.reason, None
        try:
            state.family.captures += 1
            captured, seconds = self.maker.capture(state, entry, arguments)
            if captured.graph_break is not None:
                self._note_break(state, entry, captured.graph_break)
                told.broke(captured.graph_break)
            if not is_worth_it(captured, state.family):
                outcome = "nothing to compile"
                self._nothing_here(state, entry, captured.passed_by)
                self.grafter.enter_at(state, behind(state.decoded, captured))
                return None
            if found.error is not None:
                again, outcome = True, found.outcome
                raise found.error
            region = self.maker.region(state, entry, captured, seconds, arguments)
            outcome, made = "compiled", region
            return region if self._put_in(state, entry, slot, region) else None
        except (RecompileError, RecompileLimit) as error:
            raise error.with_traceback(None) from None
        except GraphBreak as error:
            outcome = "nothing to compile"
            self._note_break(state, entry, error)
            told.broke(error)
            if state.options.fullgraph:
                raise error.with_traceback(None) from None
            self._nothing_here(state, entry, error.passed_by)
            self.grafter.enter_at(state, behind_break(state.decoded, entry.index if error.at is None else error.at))
        except OperatorFailed as error:  # the user's own error: the original bytecode raises it
            reason = f"the program's own {error}"
            log.backend.debug("%s: %s; running it plain", state.place(entry.line), error)
        except (RecursionError, MemoryError) as error:  # of the moment: the next call may have more room
            reason = type(error).__name__
            log.errors.debug("%s: not captured: %s", state.place(entry.line), type(error).__name__)
        except Exception as error:
            if raised_by_signal(error):
                raise
            reason = f"{type(error).__name__}: {error}"
            self.failures.failed(state, error, entry)
        finally:
            told.settled(outcome, reason, made)
            if again:
                settle(state, entry, record, outcome, reason, made)
        return None

    def _put_in(self, state: CodeState, entry: EntryState, slot: FunctionType, region: Region) -> bool:
        """True: the slot may be called again, with what the region was captured with."""
        entry.barren = 0
        entry.made += 1
        graph = region.capture.graph
        state.made.append(Made(
            region.compiled.hits, 0 if graph is None else graph.operators, region.backend,
            region.capture_seconds, region.backend_seconds,
        ))  # fmt: skip
        self.counters.add("compilations")
        if entry.regions:
            self.counters.add("recompiles")
        when_settled(region, entry, self.grafter, self.lock)
        runs_here = self.grafter.put_in(state, entry, region, behind(state.decoded, region.capture), slot)
        self.failures.drop_when_orphaned(entry, region)
        tell_of(state, entry, region)
        return runs_here

    def _is_given_up(self, state: CodeState) -> bool:
        """What was found for nothing is given up, with the private copies of what it calls."""
        root = state.family.root
        if root is None or not is_found_for_nothing(root):
            return False
        if not root.given_up:
            codes = [(each, each.original) for each in root.family.live()]  # regions hold them, which go now
            for each in (root, *(state for state, _ in codes)):
                self.grafter.give_up(each)
            log.discovery.info("%s: given up, as its regions have no operators", root.place())
        return True

    def _nothing_here(self, state: CodeState, entry: EntryState, passed_by: Iterable[int]) -> None:
        """Once no more is tried here, there may still be something where the captures did not get."""
        entry.passed_by.update(passed_by)
        limit = recompile_limit(state, self.settings) if entry.regions else ATTEMPTS
        self.grafter.nothing_here(state, entry, limit)
        if entry.dead:
            self.grafter.enter_at(state, sorted(entry.passed_by))

    def _note_break(self, state: CodeState, entry: EntryState, error: GraphBreak) -> None:
        self.counters.add_break(error.title)
        error.stack = error.stack or (UserLine(state.filename, entry.line, state.name),)
        key = (error.title, error.details, error.stack)
        if key in state.breaks:
            state.breaks[key].count += 1
            return
        state.breaks[key] = record = BreakRecord.of(error, entry.index)
        log.breaks.info("%s: %s", state.place(error.stack[0].line), record)


def tell_of(state: CodeState, entry: EntryState, region: Region) -> None:
    """A fresh region, for those who asked to be told."""
    where, captured = state.place(entry.line), region.capture
    number = region.compiled.number
    if captured.graph is not None and log.graphs.isEnabledFor(logging.INFO):
        operators, inputs = captured.graph.operators, len(captured.inputs)
        log.graphs.info("%s: graph of region %d, operators: %d, inputs: %d", where, number, operators, inputs)
        log.tell_lines(log.graphs, where, captured.graph.module.code.strip())
    if log.guards.isEnabledFor(logging.DEBUG):
        for guard in captured.guards:
            log.guards.debug("%s: %s, needed by %s", where, guard, guard.line or "the region")
    if log.regions.isEnabledFor(logging.INFO):
        why = "" if captured.graph_break is None else f", because of a break: {captured.graph_break.title}"
        log.regions.info(
            "%s: region %d, guards: %d, ends at instruction %d%s",
            where, number, len(captured.guards), captured.exit.landing, why,
        )  # fmt: skip
        log.tell_lines(log.regions, where, entry.text)
    took = region.capture_seconds, region.backend_seconds
    log.backend.debug(
        "%s: region %d, backend: %s, capture took %.3f s, compiling %.3f s",
        where, number, region.backend or "none", *took,
    )  # fmt: skip
