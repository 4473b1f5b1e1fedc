"""Slots and grafts: the text behind an entry, the entries of a function, and its code for later calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from rewriter.decode import Decoded
from rewriter.graft import graft
from rewriter.text import compile_slot

from .. import emit
from ..cache import CodeState, EntryState, Helper, Region, Serve, go_on
from ..originals import original_code
from .places import first_enterable

#: Tells a watcher of the starts of a code object.
Watch = Callable[[CodeType, Callable[[CodeType, FrameType], bool]], None]


class Grafter:
    """Writes slots and grafts. The three functions are what the texts call: see `emit.HELPERS`.

    watch: tells of function starts, where that is cheap; `on_start` is then told of the first ones.
    """

    def __init__(self, miss: Serve, failed: Serve, raised: Serve, on_start: Callable[[EntryState, FrameType], bool]):
        self._miss, self._failed, self._raised = miss, failed, raised
        self._on_start = on_start
        self.watch: Watch | None = None

    def write(self, state: CodeState, entry: EntryState) -> None:
        """The slot's text anew: all regions, and the way on where none fits."""
        final = entry.dead or entry.limit_told
        if final and not entry.regions:
            entry.silence()
            return
        helpers: dict[str, Callable[..., Any]] = {
            "k_miss": go_on if final else Helper(entry, self._miss),
            "k_failed": Helper(entry, self._failed),
            "k_raised": Helper(entry, self._raised),
        }
        compiled = [region.compiled for region in entry.regions]
        written = emit.write_slot(
            state.name, entry.layout, compiled, helpers, original_code=original_code, direct=entry.direct
        )
        entry.slot.__code__ = compile_slot(written.text, written.constants, name=state.name, line=entry.line)
        entry.text = written.text

    def first_graft(self, state: CodeState) -> None:
        """The first graft of a state: an entry at the start, or where the state wants its first one."""
        decoded = state.decoded
        start = decoded.start if state.start is None else state.start
        entry = state.entries[start] = EntryState(state, decoded, start)
        self.write(state, entry)
        self.graft(state, decoded)

    def graft(self, state: CodeState, decoded: Decoded) -> None:
        """New code for later calls, with the entries that have, or may get, regions; the original where none has."""
        entries = [entry for entry in state.entries.values() if entry.has_work]
        slots = {entry.index: entry.slot for entry in entries}
        exits = {entry.index: tuple(sorted(entry.exits)) for entry in entries}
        direct = [entry.index for entry in entries if entry.direct]
        state.use(graft(decoded, slots, landings=(), exits=exits, direct=direct) if slots else state.original)
        self.watch_start(state)

    def watch_start(self, state: CodeState) -> None:
        """Be told of the next start, if that can be of use: with `fullgraph` the slot itself must raise."""
        start = state.entries.get(state.decoded.start)
        if self.watch is None or start is None or state.grafted is None or state.grafted is state.original:
            return
        if start.dead or start.regions or start.layout.cells or state.options.fullgraph:
            return
        entry, on_start = start, self._on_start
        self.watch(state.grafted, lambda code, frame: on_start(entry, frame))

    def put_in(self, state: CodeState, entry: EntryState, region: Region, behind: Iterable[int]) -> bool:
        """A region goes into its slot, the first to be tried, and entries behind where it ends.

        False: it ends where the code that is running has no landing for it. Then only later calls can run it.
        """
        entry.regions = [region, *sorted(entry.regions, key=lambda r: -r.hits)]
        lands_elsewhere = entry.add_exit(region.capture.exit.landing)
        self.write(state, entry)
        self.enter_at(state, behind, anyway=lands_elsewhere)
        return not lands_elsewhere

    def enter_at(self, state: CodeState, indices: Iterable[int], *, anyway: bool = False) -> None:
        """Entries at these places, or at the first possible ones behind them; later calls have them."""
        decoded = state.decoded
        new = sorted(first_enterable(decoded, indices) - set(state.entries))
        if not new and not anyway:
            return
        try:
            for index in new:
                entry = state.entries[index] = EntryState(state, decoded, index)
                self.write(state, entry)
            self.graft(state, decoded)
        except Exception:
            for index in new:
                state.entries.pop(index, None)
            raise

    def nothing_here(self, state: CodeState, entry: EntryState, limit: int) -> None:
        """A capture gave nothing at this entry: after so many times no more is tried, and no other graft has it."""
        entry.barren += 1
        if entry.barren < limit:
            return
        entry.dead = True
        self.write(state, entry)
        if not any(e.has_work for e in state.entries.values()):
            self.graft(state, state.decoded)
