"""An entry, the regions behind it, and the slots that their text is written into."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from rewriter.decode import Decoded
from rewriter.layouts import context_of, entry_layout, is_direct, landable
from rewriter.region import EntryLayout
from rewriter.text import new_slot

from ..emit import Compiled
from ..graph.capture import Capture, Exit
from ..graph.shapes import History
from ..refusals import Conditions

if TYPE_CHECKING:
    from .states import CodeState

#: Serves a call that a slot makes: its entry, the slot itself, the arguments.
Serve = Callable[["EntryState", FunctionType, tuple[Any, ...]], Any]


class Helper:
    """What a slot's text calls when no region fits (`k_miss`), or when something raised. Holds its entry weakly.

    The slot of an older graft, in a frame that still runs it, gets None: fresh regions may exit to where that graft has
    no landing.
    """

    __slots__ = ("__weakref__", "_entry", "_serve", "_slot")

    def __init__(self, entry: EntryState, slot: FunctionType, serve: Serve) -> None:
        self._entry = weakref.ref(entry)
        self._slot = weakref.ref(slot)
        self._serve = serve

    def __call__(self, *arguments: Any) -> Any:
        entry, slot = self._entry(), self._slot()
        return None if entry is None or slot is None or not entry.owns(slot) else self._serve(entry, slot, arguments)

    def __reduce__(self) -> Any:
        # A function pickled by value (cloudpickle) takes its slots along; on the other side they find no region.
        return _no_region, ()


def _no_region() -> Callable[..., None]:
    return go_on


def go_on(*arguments: Any) -> None:
    """The answer of a slot that has nothing to offer: the original bytecode goes on."""


def counting(calls: list[int]) -> Callable[..., None]:
    """The same, where the calls are counted that no region fits and that get none."""

    def go_on(*arguments: Any) -> None:
        calls[0] += 1

    return go_on


@dataclass(eq=False)
class Region:
    """One compiled region: what its text is written from, and where its time went.

    failures: how often its graph raised, and the original bytecode ran instead.
    watching: weak references to the objects that it cannot do without, which drop it when they die.
    conditions: its guards one by one, once they were asked which of them failed.
    callees: what it hands private copies over of (a function, or a closure's code), and the states of these.
    figures: how it stood in its trial against the original bytecode, if there was one.
    """

    compiled: Compiled
    backend: str
    capture_seconds: float
    backend_seconds: float
    failures: int = 0
    watching: list[weakref.ref[Any]] = field(default_factory=list)
    callees: tuple[tuple[weakref.ref[Any], weakref.ref[CodeState]], ...] = ()
    conditions: Conditions | None = None
    figures: str = ""

    @property
    def capture(self) -> Capture:
        return self.compiled.capture

    @property
    def hits(self) -> int:
        return self.compiled.hits[0]

    @property
    def is_alive(self) -> bool:
        """Do the objects live without which it can never run again?"""
        written = self.compiled.written
        return written is None or all(get() is not None for get in written.weak)


class EntryState:
    """One entry: its slot and the regions behind it.

    exits: the landings that its slot may answer with; a graft has just these. When there is a new one the entry gets
    another slot, for the next graft: frames that run an older graft keep theirs.
    wide: its slot in the graft that has landings everywhere (`Scouting`), while some frame may run that.
    direct: there is one landing, a return, and the slot answers with what is returned.
    history: what captures have seen of the sizes of tensors.
    changed: texts of the sources of numbers that a guard found changed.
    barren: how often a capture found nothing worth a region here.  dead: it was often enough, or something failed.
    passed_by: where those captures did not get, since branches were taken the other way.
    plain: how many calls no region fitted, in a list that the slot's last line counts in, once it gets no more.
    made: how many regions it ever got.  limit_told: it has all that it may have.
    figures: of each trial that a region lost.
    muted: the codes of its slots, in their stead, while all of them are silent (`mute`).
    """

    def __init__(self, state: CodeState, decoded: Decoded, index: int) -> None:
        self._state = weakref.ref(state)
        self._retired: list[weakref.ref[FunctionType]] = []
        self._name, self._namespace = f"{state.name} entry {index}", state.globals
        self.index = index
        self.layout: EntryLayout = entry_layout(decoded, index)
        self.exits: frozenset[int] = returns(decoded, index)
        self.direct = is_direct(decoded, index, self.exits)
        line = None if state.stands_for_another else decoded.instructions[index].positions[0]
        self.line = line or state.line
        self.slot: FunctionType = new_slot(self._name, self.layout.parameters, self._namespace)
        self._silent: CodeType = self.slot.__code__
        self._wide: weakref.ref[FunctionType] | None = None
        self.wide_exits: frozenset[int] = frozenset()
        self.text = ""
        self.regions: list[Region] = []
        self.changed: frozenset[str] = frozenset()
        self.history = History()
        self.reached = 0
        self.barren = 0
        self.passed_by: set[int] = set()
        self.dead = False
        self.made = 0
        self.limit_told = False
        self.figures: list[str] = []
        #: told of each call of its slot, while one of its regions is on trial
        self.enters: Callable[[], None] | None = None
        self.plain = [0]
        #: by backend that was forced upon everything: what was there under another
        self._aside: dict[Hashable, tuple[list[Region], bool, bool, int]] = {}
        self._muted: weakref.WeakKeyDictionary[FunctionType, CodeType] | None = None
        if state.muted:
            self.mute()
        #: by thread, ids of the arguments that a fresh region is being tried on, and that a start event gave up on
        self.trying: dict[int, tuple[tuple[int, ...], Region]] = {}
        self.tried: dict[int, tuple[int, ...]] = {}

    @property
    def state(self) -> CodeState | None:
        return self._state()

    def wide(self) -> FunctionType | None:
        return None if self._wide is None else self._wide()

    def also_in(self, scouting: Scouting) -> None:
        """There it may have a slot, with more landings."""
        slot = scouting.slots.get(self.index)
        if slot is not None:
            self._wide, self.wide_exits = weakref.ref(slot), scouting.exits[self.index]

    @property
    def is_final(self) -> bool:
        """It gets no more regions."""
        return self.dead or self.limit_told

    def owns(self, slot: FunctionType) -> bool:
        """Is it one of those that fresh regions are written into?"""
        return slot is self.slot or slot is self.wide()

    def can_run_in(self, slot: FunctionType, exit_: Exit) -> bool:
        """Can what ends there run in the frame that called this slot?"""
        if slot is self.wide():
            return exit_.landing in self.wide_exits
        return slot is self.slot and exit_.number in self.exits

    @property
    def has_work(self) -> bool:
        return not self.dead or bool(self.regions)

    @property
    def is_silent(self) -> bool:
        return self.code_of(self.slot) is self._silent

    def code_of(self, slot: FunctionType) -> CodeType:
        """The code that a slot has, or will have again."""
        return slot.__code__ if self._muted is None else self._muted.get(slot, slot.__code__)

    def put(self, slot: FunctionType, code: CodeType) -> None:
        """From now on, or once it is not muted any more, this is the code of one of its slots."""
        if self._muted is None:
            slot.__code__ = code
        else:
            self._muted[slot] = code

    def _slots(self) -> Iterator[FunctionType]:
        for slot in (self.slot, self.wide(), *(ref() for ref in self._retired)):
            if slot is not None:
                yield slot

    def mute(self) -> None:
        """Its slots answer None, also to frames that are running, until `unmute`; what is compiled stays."""
        if self._muted is None:
            self._muted = weakref.WeakKeyDictionary()
            for slot in self._slots():
                self._muted[slot], slot.__code__ = slot.__code__, self._silent

    def unmute(self) -> None:
        muted, self._muted = self._muted, None
        for slot, code in [] if muted is None else list(muted.items()):
            slot.__code__ = code

    def exchange_regions(self, before: Hashable, now: Hashable) -> None:
        """Put the regions of one backend aside, and take out those of another."""
        self._aside[before] = self.regions, self.dead, self.limit_told, self.barren
        regions, self.dead, self.limit_told, self.barren = self._aside.pop(now, ([], False, False, 0))
        self.regions = [region for region in regions if region.is_alive]

    def add_exit(self, landing: int) -> bool:
        """From the next graft on regions may land here. True: so far they could not, and the entry has a new slot."""
        if landing in self.exits:
            return False
        self.exits |= {landing}
        self.renew_slot(direct=False)
        return True

    def renew_slot(self, *, direct: bool) -> None:
        """From the next graft on it has another slot; frames that run an older graft keep theirs."""
        self.direct = direct
        self._retired = [ref for ref in self._retired if ref() is not None] + [weakref.ref(self.slot)]
        self.slot = new_slot(self._name, self.layout.parameters, self._namespace)

    def silence(self) -> None:
        """From now on its slots answer None, also to frames that are running."""
        for slot in self._slots():
            self.put(slot, self._silent)
        self.text = ""
        self.regions = []

    def drop_regions(self) -> None:
        self.silence()
        self._aside.clear()


class Scouting:
    """The graft for the first calls of a function: entries and landings wherever it may break.

    slots: one for each of its entries, most of them silent so far. They are its code's: when no frame runs it any more,
    nobody holds them.  exits: where each may land.
    calls: how many began with this code; compiled: whether anything was compiled since the last began.
    settled: later calls have other code; frames that are running keep this one, and get regions still.
    """

    def __init__(self, state: CodeState, decoded: Decoded, entries: Collection[int], landings: Collection[int]) -> None:
        self.calls, self.compiled, self.settled = 0, False, False
        by_context: dict[object, set[int]] = {}
        for landing in landings:
            by_context.setdefault(context_of(decoded, landing), set()).add(landing)
        self.exits = {index: frozenset(by_context.get(context_of(decoded, index), ())) for index in entries}
        self.slots: weakref.WeakValueDictionary[int, FunctionType] = weakref.WeakValueDictionary()
        self._held = {
            index: new_slot(f"{state.name} entry {index}", entry_layout(decoded, index).parameters, state.globals)
            for index in entries
        }
        self.slots.update(self._held)

    def take_slots(self) -> dict[int, FunctionType]:
        """The slots, for the one graft that holds them from now on."""
        slots, self._held = self._held, {}
        return slots


def returns(decoded: Decoded, index: int) -> frozenset[int]:
    """The return instructions that a region entered here may land at: most regions that end without a break do."""
    possible, context = landable(decoded), context_of(decoded, index)
    units = {i.unit for i in decoded.instructions if i.opname == "RETURN_VALUE"}
    return frozenset(unit for unit in units & possible if context_of(decoded, unit) == context)
