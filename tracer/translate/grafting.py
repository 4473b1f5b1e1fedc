"""Slots and grafts: the text behind an entry, the entries of a function, and its code for later calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import CodeType, FrameType, FunctionType
from typing import Any

from rewriter.decode import Decoded
from rewriter.graft import graft
from rewriter.layouts import wide_locals
from rewriter.text import compile_slot

from .. import emit
from ..cache import CodeState, EntryState, Helper, Region, Scouting, Serve, counting, go_on
from ..originals import original_code
from .lock import CompileLock
from .places import first_among, first_enterable, running_places

#: So many calls begin at most with the code that has landings everywhere.
SCOUTING_CALLS = 10

#: Tells a watcher of the starts of a code object.
Watch = Callable[[CodeType, Callable[[CodeType, FrameType], bool]], None]
#: An entry, one of its slots and the code written for it, to the code that the slot gets.
Dress = Callable[[EntryState, FunctionType, CodeType], CodeType]


class Grafter:
    """Writes slots and grafts. The four functions are what the texts call: see `emit.HELPERS`.

    watch: tells of function starts, where that is cheap; `on_start` is then told of the first ones.
    """

    def __init__(
        self,
        miss: Serve,
        failed: Serve,
        raised: Serve,
        trial: Serve,
        on_start: Callable[[EntryState, FrameType], bool],
        lock: CompileLock,
    ) -> None:
        self._miss, self._failed, self._raised, self._trial = miss, failed, raised, trial
        self._on_start = on_start
        self._lock = lock
        self.watch: Watch | None = None
        #: puts other code around that of a slot, for as long as somebody watches its calls (visiting.py)
        self.dress: Dress | None = None

    def write(self, state: CodeState, entry: EntryState) -> None:
        """The text of its slots anew: all regions, those that nobody has run yet and those that were hit most first."""
        entry.regions = sorted(entry.regions, key=lambda region: -region.hits if region.hits else -math.inf)
        quiet = entry.is_final and not entry.regions
        if quiet:
            entry.silence()
        elif state.is_scouting:
            entry.text = ""
        else:
            entry.text = self._write(state, entry, entry.slot, direct=entry.direct)
        wide = entry.wide()
        if wide is not None and (not quiet or entry.index == state.first):
            text = self._write(state, entry, wide, wide=wide_locals(state.decoded))
            entry.text = entry.text or text

    def _write(self, state: CodeState, entry: EntryState, slot: FunctionType, **how: Any) -> str:
        regions = [r for r in entry.regions if entry.can_run_in(slot, r.capture.exit)]
        final = entry.is_final or len(regions) < len(entry.regions)
        helpers: dict[str, Callable[..., Any]] = {
            "k_miss": Helper(entry, slot, self._miss),
            "k_failed": Helper(entry, slot, self._failed),
            "k_raised": Helper(entry, slot, self._raised),
            "k_trial": Helper(entry, slot, self._trial),
        }
        if final:
            helpers["k_miss"] = counting(entry.plain) if entry.is_final else go_on
        if slot is entry.wide() and entry.index == state.first and state.is_scouting:
            helpers["k_begins"] = Helper(entry, slot, self._begins)
            how["first"] = "k_begins"
        elif slot is entry.slot and entry.enters is not None:
            helpers["k_enters"] = entry.enters
            how["first"] = "k_enters"
        compiled = [region.compiled for region in regions]
        written = emit.write_slot(state.name, entry.layout, compiled, helpers, original_code=original_code, **how)
        code = compile_slot(written.text, written.constants, name=state.name, line=entry.line)
        entry.put(slot, code if self.dress is None else self.dress(entry, slot, code))
        return written.text

    # grafts -----------------------------------------------------------------------------------------------------------
    def first_graft(self, state: CodeState) -> None:
        """The first graft of a state: an entry at the start, or where the state wants its first one.

        Mostly it has entries and landings everywhere, so that the very first call goes on compiled behind a break.
        """
        decoded = state.decoded
        entries, landings = running_places(decoded)
        if landings:
            state.scouting = Scouting(state, decoded, entries | {state.first}, landings)
        entry = self._enter(state, decoded, state.first)
        self.write(state, entry)
        if state.scouting is None:
            self.graft(state, decoded)
            return
        exits = {index: tuple(sorted(found)) for index, found in state.scouting.exits.items()}
        slots = state.scouting.take_slots()
        state.use(graft(decoded, slots, landings=(), exits=exits, wide=True, through=True))
        self.watch_start(state)

    def minimal_graft(self, state: CodeState) -> None:
        """Just the first entry, without landings but the returns."""
        decoded = state.decoded
        self.write(state, self._enter(state, decoded, state.first))
        self.graft(state, decoded)

    def _enter(self, state: CodeState, decoded: Decoded, index: int) -> EntryState:
        entry = state.entries[index] = EntryState(state, decoded, index)
        if state.scouting is not None:
            entry.also_in(state.scouting)
        return entry

    def _begins(self, entry: EntryState, slot: FunctionType, arguments: tuple[Any, ...]) -> None:
        """A call begins with the code that has landings everywhere, which has done its work once nothing new comes."""
        state = entry.state
        if state is None or not self._lock.take():
            return
        try:
            scouting = state.scouting
            if scouting is None or not state.is_scouting:
                return
            scouting.calls += 1
            if scouting.calls > 1 and (not scouting.compiled or scouting.calls > SCOUTING_CALLS):
                self._settle(state)
            scouting.compiled = False
        finally:
            self._lock.let_go()

    def _settle(self, state: CodeState) -> None:
        """Later calls get a code object with just the entries and landings that are used."""
        assert state.scouting is not None
        state.scouting.settled = True
        for entry in state.entries.values():
            for region in entry.regions:
                entry.add_exit(region.capture.exit.number)
            self.write(state, entry)
        self.graft(state, state.decoded)

    def graft(self, state: CodeState, decoded: Decoded) -> None:
        """New code for later calls, with the entries that have, or may get, regions; the original where none has."""
        if state.scouting is not None:
            state.scouting.settled = True
        entries = [entry for entry in state.entries.values() if entry.has_work]
        slots = {entry.index: entry.slot for entry in entries}
        exits = {entry.index: tuple(sorted(entry.exits)) for entry in entries}
        direct = [entry.index for entry in entries if entry.direct]
        if slots:
            stops = {index: slot for index, slot in state.stops.items() if index not in slots}
            slots, exits = slots | stops, exits | dict.fromkeys(stops, ())
        code = state.original
        if slots:
            code = graft(decoded, slots, landings=(), exits=exits, direct=direct, through=True)
        state.use(code)
        self.watch_start(state)

    def watch_start(self, state: CodeState) -> None:
        """Be told of the next start, if that can be of use: with `fullgraph` the slot itself must raise."""
        if self.watch is None or not state.entries or state.grafted is None or state.grafted is state.original:
            return
        start = state.entries.get(state.decoded.start)
        if start is None or start.dead or start.regions or start.layout.cells or state.options.fullgraph:
            return
        entry, on_start = start, self._on_start
        self.watch(state.grafted, lambda code, frame: on_start(entry, frame))

    def put_in(
        self, state: CodeState, entry: EntryState, region: Region, behind: Iterable[int], slot: FunctionType
    ) -> bool:
        """A region goes into its slots, the first to be tried, and entries behind where it ends.

        False: it ends where the code that called `slot` has no landing for it. Then only later calls can run it.
        """
        entry.regions = [region, *entry.regions]
        exit_ = region.capture.exit
        runs_here = entry.can_run_in(slot, exit_)
        if state.scouting is not None:
            state.scouting.compiled = True
        lands_elsewhere = not state.is_scouting and entry.add_exit(exit_.number)
        self.write(state, entry)
        self.enter_at(state, behind, anyway=lands_elsewhere)
        if state.is_scouting and not runs_here:
            self._settle(state)
        return runs_here

    def enter_at(self, state: CodeState, indices: Iterable[int], *, anyway: bool = False) -> None:
        """Entries at these places, or at the first possible ones behind them; later calls have them."""
        decoded = state.decoded
        wanted = first_enterable(decoded, indices)
        if state.is_scouting and state.scouting is not None:  # the frame that runs has no others
            wanted |= first_among(decoded, indices, state.scouting.exits)
        new = sorted(wanted - set(state.entries))
        if not new and not anyway:
            return
        try:
            for index in new:
                self.write(state, self._enter(state, decoded, index))
            if not state.is_scouting:
                self.graft(state, decoded)
        except Exception:
            for index in new:
                state.entries.pop(index, None)
            raise

    def give_up(self, state: CodeState) -> None:
        """Nothing of this function is compiled any more: its original code runs from the next call on."""
        state.given_up = True
        for entry in state.entries.values():
            entry.dead, entry.regions = True, []
            self.write(state, entry)
        self.graft(state, state.decoded)

    def nothing_here(self, state: CodeState, entry: EntryState, limit: int) -> None:
        """A capture gave nothing at this entry: after so many times no more is tried, and no other graft has it."""
        entry.barren += 1
        if entry.barren < limit:
            return
        entry.dead = True
        self.write(state, entry)
        if not any(e.has_work for e in state.entries.values()):
            self.graft(state, state.decoded)
