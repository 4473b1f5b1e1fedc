"""What is compiled for a code object: the regions of an entry, the entries of a function, and all functions.

Who holds what, so that a dropped function is freed although the garbage collector sees into no code object:

    function -> grafted code -> slots -> region text -> constants, among them `Helper`s, which hold the entry weakly
    Registry -> CodeState -> grafted code, entries -> slots.      CodeState -> original code only while functions live

A `CodeState` goes with its original code. The code of a closure is held by its parent's constants, so what is compiled
for closures outlives the single function objects.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from rewriter.decode import Decoded, decode
from rewriter.layouts import context_of, entry_layout, is_direct, landable
from rewriter.region import EntryLayout
from rewriter.text import new_slot

from .config import Options
from .emit import Compiled
from .errors import GraphBreak, UserLine
from .graph.capture import Capture, Exit
from .graph.shapes import History
from .originals import original_code, remember

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


@dataclass(eq=False)
class Region:
    """One compiled region: what its text is written from, and where its time went.

    failures: how often its graph raised, and the original bytecode ran instead.
    watching: weak references to the objects that it cannot do without, which drop it when they die.
    callees: what it hands private copies over of (a function, or a closure's code), and the states of these.
    """

    compiled: Compiled
    backend: str
    capture_seconds: float
    backend_seconds: float
    failures: int = 0
    watching: list[weakref.ref[Any]] = field(default_factory=list)
    callees: tuple[tuple[weakref.ref[Any], weakref.ref[CodeState]], ...] = ()

    @property
    def capture(self) -> Capture:
        return self.compiled.capture

    @property
    def hits(self) -> int:
        return self.compiled.hits[0]


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
    """

    def __init__(self, state: CodeState, decoded: Decoded, index: int) -> None:
        self._state = weakref.ref(state)
        self._retired: list[weakref.ref[FunctionType]] = []
        self._name, self._namespace = f"{state.name} entry {index}", state.globals
        self.index = index
        self.layout: EntryLayout = entry_layout(decoded, index)
        self.exits: frozenset[int] = returns(decoded, index)
        self.direct = is_direct(decoded, index, self.exits)
        self.line = decoded.instructions[index].positions[0] or state.line
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
        self.limit_told = False
        #: by thread, ids of the arguments that a fresh region is being tried on, and that a start event gave up on
        self.trying: dict[int, tuple[int, ...]] = {}
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
        return self.slot.__code__ is self._silent

    def add_exit(self, landing: int) -> bool:
        """From the next graft on regions may land here. True: so far they could not, and the entry has a new slot."""
        if landing in self.exits:
            return False
        self.exits |= {landing}
        self.direct = False
        self._retired = [ref for ref in self._retired if ref() is not None] + [weakref.ref(self.slot)]
        self.slot = new_slot(self._name, self.layout.parameters, self._namespace)
        return True

    def silence(self) -> None:
        """From now on its slots answer None, also to frames that are running."""
        for slot in (self.slot, self.wide(), *(ref() for ref in self._retired)):
            if slot is not None:
                slot.__code__ = self._silent
        self.text = ""
        self.regions = []


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


class CodeState:
    """What is compiled for one original code object under one set of options."""

    def __init__(
        self,
        registry: Registry,
        original: CodeType,
        namespace: dict[str, Any],
        options: Options,
        start: int | None = None,
    ) -> None:
        self._registry = weakref.ref(registry)
        self._original = weakref.ref(original)
        self._keep: CodeType | None = None
        self._arming = 0
        self.name = original.co_qualname  # what messages call it
        self.filename = original.co_filename
        self.line = original.co_firstlineno
        self.globals = namespace
        self.options = options
        #: where the first entry stands, if not at the function's start
        self.start = start
        self.grafted: CodeType | None = None
        #: the code that has landings everywhere, with which the first calls run
        self.scouting: Scouting | None = None
        self.entries: dict[int, EntryState] = {}
        self.functions: dict[int, weakref.ref[FunctionType]] = {}
        self.breaks: dict[Hashable, BreakRecord] = {}
        self.errors: list[str] = []
        self.family = Family(self)

    # the original code ----------------------------------------------------------------------------------------------
    @property
    def original(self) -> CodeType:
        code = self._original()
        if code is None:
            raise ReferenceError(f"the code of {self.name} is gone")
        return code

    @property
    def decoded(self) -> Decoded:
        return decode(self.original)

    @property
    def first(self) -> int:
        """Where the first entry stands."""
        return self.decoded.start if self.start is None else self.start

    @property
    def is_scouting(self) -> bool:
        return self.scouting is not None and not self.scouting.settled

    @property
    def regions(self) -> Iterator[Region]:
        for entry in self.entries.values():
            yield from entry.regions

    # functions ------------------------------------------------------------------------------------------------------
    def add(self, function: FunctionType) -> None:
        """This function object belongs to this state from now on."""
        self._arming += 1
        self._keep = self.original
        state = weakref.ref(self)
        key = id(function)

        def gone(ref: weakref.ref[FunctionType]) -> None:
            found = state()
            if found is not None and found.functions.get(key) is ref:
                del found.functions[key]
                found._if_unused()

        self.functions[key] = weakref.ref(function, gone)
        self._arming -= 1

    def remove(self, function: FunctionType) -> None:
        """It no longer does; the caller gives it other code."""
        if self.functions.pop(id(function), None) is not None:
            self._if_unused()

    def live_functions(self) -> list[FunctionType]:
        found = (reference() for reference in list(self.functions.values()))
        return [function for function in found if function is not None]

    def _if_unused(self) -> None:
        """Called when a function went, maybe by the garbage collector, in any thread, in the midst of anything."""
        if self.functions or self._arming:
            return
        # With it go the original code and so this state, unless somebody else holds that code: its parent's constants,
        # or the function of which this was a private copy.
        self._keep = None

    # code -----------------------------------------------------------------------------------------------------------
    def use(self, grafted: CodeType) -> None:
        """Later calls of all functions run this code; frames that are running keep theirs."""
        original = self.original
        if grafted is not original:
            remember(grafted, original)
        self.grafted = grafted
        for function in self.live_functions():
            if original_code(function.__code__) is original:  # else somebody gave it other code: leave it alone
                function.__code__ = grafted

    def restore(self) -> None:
        """Every function runs its original code again. Regions stay, for when it is armed again."""
        for function in self.live_functions():
            original = self.original
            if function.__code__ is not original and original_code(function.__code__) is original:
                function.__code__ = original

    def drop_regions(self) -> None:
        for entry in list(self.entries.values()):  # what a region held may be the last of this state's functions
            entry.silence()
        self.entries.clear()
        self.grafted = self.scouting = None
        self.breaks.clear()
        self.errors.clear()
        self.family.drop(self)


class Family:
    """The private copies of callees that one compile has made: one for each function, shared by all levels of calls.

    Copies are held by the regions that name them. A copy that calls itself holds itself through its own code, so the
    whole family's regions are dropped with its root.
    """

    def __init__(self, root: CodeState) -> None:
        self._root = weakref.ref(root)
        self.states: list[weakref.ref[CodeState]] = []
        #: by the identity of a function, or of a closure's code: that, its code, and its copy or what makes its copies
        self._copies: dict[int, tuple[weakref.ref[Any], weakref.ref[CodeType], weakref.ref[Any]]] = {}
        #: by identity: the functions and codes in whose copies nothing was ever compiled
        self.idle: dict[int, weakref.ref[Any]] = {}

    def find(self, original: object, code: CodeType) -> Any:
        found = self._copies.get(id(original))
        if found is None or found[0]() is not original or found[1]() is not code:
            return None
        return found[2]()

    def keep(self, original: object, code: CodeType, copy: object) -> None:
        self._copies[id(original)] = weakref.ref(original), weakref.ref(code), weakref.ref(copy)

    def is_idle(self, original: object) -> bool:
        found = self.idle.get(id(original))
        return found is not None and found() is original

    def live(self) -> list[CodeState]:
        found = (state() for state in self.states)
        return [state for state in found if state is not None and state.entries]

    def drop(self, root: CodeState) -> None:
        """The root goes: so does all that was made for it."""
        if self._root() is root:
            states, self.states = self.states, []
            for reference in states:
                state = reference()
                if state is not None:
                    state.drop_regions()


@dataclass
class _States:
    """All states of one original code object."""

    code: weakref.ref[CodeType]
    states: dict[Hashable, CodeState] = field(default_factory=dict)


class Registry:
    """All states, by the identity of their original code, namespace and options."""

    def __init__(self) -> None:
        self._by_code: dict[int, _States] = {}

    def find(self, original: CodeType, key: Hashable) -> CodeState | None:
        states = self._by_code.get(id(original))
        return None if states is None or states.code() is not original else states.states.get(key)

    def create(
        self,
        original: CodeType,
        namespace: dict[str, Any],
        options: Options,
        key: Hashable,
        start: int | None = None,
    ) -> CodeState:
        at, by_code = id(original), self._by_code
        states = by_code.get(at)
        if states is None or states.code() is not original:

            def gone(ref: weakref.ref[CodeType]) -> None:
                if at in by_code and by_code[at].code is ref:
                    for state in by_code.pop(at).states.values():
                        state.drop_regions()

            states = by_code[at] = _States(weakref.ref(original, gone))
        state = states.states[key] = CodeState(self, original, namespace, options, start)
        return state

    def drop(self, state: CodeState) -> None:
        """Forget a state. Its regions go at once, and with them whatever circle led through them."""
        code = state._original()
        states = self._by_code.get(id(code))
        if states is not None and states.code() is code:
            for key, found in list(states.states.items()):
                if found is state:
                    del states.states[key]
            if not states.states:
                del self._by_code[id(code)]
        state.drop_regions()

    def __iter__(self) -> Iterator[CodeState]:
        for states in list(self._by_code.values()):
            yield from list(states.states.values())

    def state_of(self, function: FunctionType) -> CodeState | None:
        """The state that a function object was compiled under."""
        states = self._by_code.get(id(original_code(function.__code__)))
        for state in list(states.states.values()) if states is not None else ():
            reference = state.functions.get(id(function))
            if reference is not None and reference() is function:
                return state
        return None


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
