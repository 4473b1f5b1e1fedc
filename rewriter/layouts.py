"""Where a code object can be entered and landed in, and what passes there.

Pure functions of a decoded code object. Graft and capture agree through these.

There is no entry at a `SEND`, which is reached anew at each resume: a call there would take a signal that belongs to
the generator or coroutine that is waited for. There is no entry or landing
- before the start (cells are made there) and at `RESUME`, which events and debuggers watch;
- at a handler's first instruction, where an exception is neither raised nor handled;
- between a `SEND` and its jump back: generators look at the instructions around the one where they stand;
- at what the interpreter skips at a loop's end;
- between the `LOAD_FAST_AND_CLEAR` of a cell and its `MAKE_CELL` (inlined comprehensions), where the slot holds no
  cell, or wherever it may or may not hold one;
- in a class body or module with fast locals (the variables of its inlined comprehensions): their slots are hidden from
  `locals()` by a mark that no new code object can be given, and their names may be there twice;
- on 3.14, in a `with` block and where a handler keeps the place of the instruction that raised (`versions_emit.py`);
- where a stack slot may or may not be NULL. Method loads can be made plain; what is left is the saved variable of an
  inlined comprehension whose name may or may not be bound outside of it.
"""

from __future__ import annotations

import inspect
import keyword
import re
import weakref
from collections.abc import Callable, Collection, Iterator
from types import CodeType

from .analysis import MAYBE_NULL, NULL
from .decode import Decoded
from .region import EntryLayout, LandingLayout, NotEnterable, NotLandable, UnitMismatch
from .units import Unit, units
from .versions_emit import LASTI_IS_OBJECT, NEVER_ENTERED

# Names that mean something else in region text (ARCHITECTURE.md, "Layouts, graft").
RESERVED = re.compile(r"[kc]_.*|[tvs]\d+")


class Facts:
    """What layouts and graft work out about one code object, kept as long as it lives. It must not hold the code."""

    def __init__(self, decoded: Decoded) -> None:
        #: Each unit's canonical index and its instructions.
        self.rows = tuple(zip(decoded.unit_starts(), units(decoded.code), strict=False))
        self.number = {index: number for number, (index, _) in enumerate(self.rows)}
        offsets = [(decoded.instructions[index].offset, unit.offset) for index, unit in self.rows]
        if len(self.rows) != len(decoded.unit_starts()) or any(theirs != ours for theirs, ours in offsets):
            raise UnitMismatch(f"{decoded.code.co_qualname}: decode.py and units.py see different instructions")
        self.landable = frozenset(_places(decoded, self.rows))
        self.enterable = frozenset(k for k in self.landable if decoded.instructions[k].opname != "SEND")
        self.assigned = _assigned(decoded)
        self.deleted = _deleted(decoded)
        self.parameters = {name: _parameter_name(decoded, name) for name in decoded.slots}
        self.contexts: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.entries: dict[int, EntryLayout] = {}
        self.landings: dict[int, LandingLayout] = {}


_facts: dict[int, tuple[weakref.ref[CodeType], Facts]] = {}


def facts(decoded: Decoded) -> Facts:
    code = decoded.code
    found = _facts.get(id(code))
    if found is not None and found[0]() is code:
        return found[1]
    new, key = Facts(decoded), id(code)
    _facts[key] = (weakref.ref(code, lambda _: _facts.pop(key, None)), new)
    return new


def enterable(decoded: Decoded) -> frozenset[int]:
    """The canonical indices at which an entry can stand."""
    return facts(decoded).enterable


def landable(decoded: Decoded) -> frozenset[int]:
    """The canonical indices at which a landing can stand."""
    return facts(decoded).landable


def _places(decoded: Decoded, rows: tuple[tuple[int, Unit], ...]) -> Iterator[int]:
    if decoded.code.co_nlocals and not decoded.code.co_flags & inspect.CO_OPTIMIZED:
        return
    targets = {handler.target for handler in decoded.handlers}
    closed = _closed(rows)
    can_pass = _stack_check(decoded)
    for index, unit in rows:
        if index < decoded.start or index in targets or index in closed or unit.name in NEVER_ENTERED:
            continue
        stack = decoded.stack_at(index)
        if stack is not None and MAYBE_NULL not in stack and not decoded.unclear_at(index) and can_pass(index):
            yield index


def _stack_check(decoded: Decoded) -> Callable[[int], bool]:
    """Are all slots of a stack known to be objects or NULLs, also to this Python? (3.14; before: yes.)"""
    instructions = decoded.instructions
    entered = {instruction.index for instruction in instructions if instruction.opname == "PUSH_EXC_INFO"}

    def can_pass(index: int) -> bool:
        producers = decoded.producers_at(index) or ()
        for place, pushers in enumerate(producers):
            below = producers[place - 1] if place else frozenset()
            if not (pushers or LASTI_IS_OBJECT or below & entered):  # from the interpreter, not a handled exception
                return False
        return True

    return can_pass if not LASTI_IS_OBJECT else lambda index: True


def _closed(rows: tuple[tuple[int, Unit], ...]) -> set[int]:
    """Indices inside the waiting loop of a SEND, and between the two halves of making an inner cell."""
    closed: set[int] = set()
    for number, (index, unit) in enumerate(rows):
        if unit.name == "SEND":
            for later, inner in rows[number + 1 :]:
                closed.add(later)
                if inner.target == number:
                    break
        elif unit.name == "MAKE_CELL" and rows[number - 1][1].name == "LOAD_FAST_AND_CLEAR":
            closed.add(index)
    return closed


def context_of(decoded: Decoded, index: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A region may only land where this is as at its entry: exceptions being handled, comprehensions' own cells."""
    index = place_of(index)
    contexts = facts(decoded).contexts
    found = contexts.get(index)
    if found is None:
        found = contexts[index] = _context_of(decoded, index)
    return found


def _context_of(decoded: Decoded, index: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    producers = decoded.producers_at(index) or ()
    instructions, cells = decoded.instructions, (*decoded.cells, *decoded.free)
    saved = [
        pusher
        for pushers in producers
        for pusher in sorted(pushers)
        if instructions[pusher].opname == "LOAD_FAST_AND_CLEAR" and instructions[pusher].arg in cells
    ]
    return decoded.handlers_entered(index), tuple(saved)


def entry_layout(decoded: Decoded, index: int) -> EntryLayout:
    known = facts(decoded)
    found = known.entries.get(index)
    if found is not None:
        return found
    stack = _stack(decoded, index, NotEnterable)
    here, bound = decoded.live_at(index) & decoded.maybe_bound_at(index), decoded.bound_at(index)
    names = tuple(name for name in decoded.slots if name in here)
    holds_cell = decoded.cells_at(index)
    cells = tuple(name for name in (*decoded.cells, *decoded.free) if name in holds_cell)
    parameters = (
        *(known.parameters[name] for name in names),
        *cell_parameters(cells),
        *(f"s{k}" for k, slot in enumerate(stack) if slot),
    )
    layout = EntryLayout(index, names, frozenset(names) - bound, cells, stack, parameters)
    return known.entries.setdefault(index, layout)


def landing_layout(decoded: Decoded, landing: int) -> LandingLayout:
    """`~index` is a full landing at the same place: with all locals that nobody reads any more, `checked`.

    It is for a region that binds one of them anew: what the frame still holds there must not live on.
    """
    known = facts(decoded)
    found = known.landings.get(landing)
    if found is not None:
        return found
    index = place_of(landing)
    stack = _stack(decoded, index, NotLandable)
    live = decoded.live_at(index) & known.assigned
    others = known.deleted if landing == index else known.assigned.difference(decoded.cells, decoded.free)
    let_go = others - live  # what a region has deleted must not live on in the frame
    names = tuple(name for name in decoded.slots if name in live or name in let_go)
    layout = LandingLayout(landing, names, (live - decoded.bound_at(index)) | let_go, stack)
    return known.landings.setdefault(landing, layout)


def wide_locals(decoded: Decoded) -> tuple[str, ...]:
    """The locals in a wide answer, `(index, stack, *locals)`, which has one form for all landings of a code object.

    Each of them may be KEEP or UNBOUND. One block of code binds them whatever the landing, so that a graft can afford
    landings everywhere; binding takes longer than at a landing of its own.
    """
    names = facts(decoded).assigned.difference(decoded.cells, decoded.free)
    return tuple(name for name in decoded.slots if name in names)


def wide_landable(decoded: Decoded) -> frozenset[int]:
    """The indices where a wide answer can land: a comprehension's variable that is a cell elsewhere is not in it."""
    known = facts(decoded)
    shared = known.assigned.intersection((*decoded.cells, *decoded.free))
    if not shared:
        return known.landable
    return frozenset(index for index in known.landable if shared.isdisjoint(landing_layout(decoded, index).locals))


def place_of(landing: int) -> int:
    """The canonical index where a landing, full or not, comes back."""
    return landing if landing >= 0 else ~landing


def is_direct(decoded: Decoded, entry: int, exits: Collection[int]) -> bool:
    """Can a slot's answer go to its landing as it is? So it is from a function's start to its one return."""
    if len(exits) != 1 or entry_layout(decoded, entry).stack:
        return False
    [landing] = exits
    layout = landing_layout(decoded, landing)
    return not layout.locals and layout.stack == (True,)


def _stack(decoded: Decoded, index: int, error: type[NotEnterable] | type[NotLandable]) -> tuple[bool, ...]:
    possible = enterable(decoded) if error is NotEnterable else landable(decoded)
    if index not in possible:
        at = decoded.instructions[index] if 0 <= index < len(decoded.instructions) else None
        raise error(f"{decoded.code.co_qualname}: {index} ({at and at.opname}, line {at and at.positions[0]})")
    return tuple(kind is not NULL for kind in decoded.stack_at(index) or ())


def _assigned(decoded: Decoded) -> frozenset[str]:
    """Names whose slot the function binds or unbinds anywhere."""
    changing = ("STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR")
    return frozenset(instruction.arg for instruction in decoded.instructions if instruction.opname in changing)


def _deleted(decoded: Decoded) -> frozenset[str]:
    """Locals that the function deletes somewhere."""
    return frozenset(instruction.arg for instruction in decoded.instructions if instruction.opname == "DELETE_FAST")


def _parameter_name(decoded: Decoded, name: str) -> str:
    """A local's name in region text: its own, or one like it where that has another meaning there."""
    if name.isidentifier() and not keyword.iskeyword(name) and not RESERVED.fullmatch(name):
        return name
    taken = {*decoded.slots, *decoded.code.co_names}
    mangled = "local_" + re.sub(r"\W", "_", name)
    while mangled in taken:
        mangled += "_"
    return mangled


def cell_parameters(cells: tuple[str, ...]) -> tuple[str, ...]:
    """`c_<name>` for each cell; names that differ only in what cannot be written get a number."""
    names: list[str] = []
    for cell in cells:
        name = "c_" + re.sub(r"\W", "_", cell)
        names.append(name if name not in names else f"{name}_{len(names)}")
    return tuple(names)
