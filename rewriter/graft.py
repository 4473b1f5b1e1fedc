"""Make the grafted code of a function: its own body, entries and landings.

    body, in the original's order, with      an entry:  call the slot; None: go on in place
    behind it, out of the way:               the entries' exits: drop the stack, choose a landing
                                             the landings: bind locals, rebuild the stack, jump into the body

Everything behind the body lies outside of the user's handlers (and inside the one that a generator has around all of
it): nothing there raises, except for a region that breaks its contract. Entries have the line of the instruction they
stand at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from types import CodeType, FunctionType

from .analysis import NULL
from .assemble import Assembler, Cover, Label
from .decode import Decoded
from .entries import Emitter
from .flow import Places
from .layouts import (
    context_of,
    entry_layout,
    facts,
    is_direct,
    landable,
    landing_layout,
    place_of,
    wide_landable,
    wide_locals,
)
from .region import EntryLayout, LandingContext, NotLandable, SlotMismatch
from .splice import Splice
from .units import Unit
from .verify import verify
from .versions_emit import plain_method_load

NOWHERE = (None, None, None, None)
Exits = Mapping[int, Sequence[int]]


def graft(
    decoded: Decoded,
    slots: Mapping[int, FunctionType],
    *,
    landings: Collection[int] | None = None,
    exits: Exits | None = None,
    inline: Mapping[int, CodeType] | None = None,
    direct: Collection[int] = (),
    wide: bool = False,
    through: bool = False,
) -> CodeType:
    """The code of `decoded` with an entry before each index of `slots`, and landings.

    `landings`: where regions may land (None: everywhere); `exits`: for some entries, the only ones that they use. In
    both, `~index` is the full landing at index (`landing_layout`).
    An entry reaches the landings of its own exception-handling context only. `inline`: for some entries, which need no
    slot, code of a slot that is written into the function itself. `direct`: entries for which `is_direct` holds, whose
    slots answer None or the one object that their landing takes (NONE for None), with no tuple around it. `wide`: all
    slots give wide answers (`wide_locals`). `through`: a landing where an entry stands goes through that entry.
    """
    code, places = unverified(decoded, slots, landings, exits, inline, direct, wide, through)
    verify(decoded, code, places)
    return code


def unverified(
    decoded: Decoded,
    slots: Mapping[int, FunctionType],
    landings: Collection[int] | None,
    exits: Exits | None,
    inline: Mapping[int, CodeType] | None = None,
    direct: Collection[int] = (),
    wide: bool = False,
    through: bool = False,
) -> tuple[CodeType, Places]:
    """The grafted code, and what verify must know of it."""
    entered: dict[int, FunctionType | Splice] = dict(slots)
    layouts = {index: entry_layout(decoded, index) for index in {**slots, **(inline or {})}}
    for index, slot in slots.items():
        check_slot(slot.__code__, layouts[index])
    for index, code in (inline or {}).items():
        check_slot(code, layouts[index])
        entered[index] = Splice(code, layouts[index])
    chosen = exits_of_entries(decoded, entered, landings, exits or {})
    for index in direct:
        if index not in chosen or not is_direct(decoded, index, chosen[index]):
            raise NotLandable(f"{decoded.code.co_qualname}: the entry at {index} cannot be direct")
    if wide and not wide_landable(decoded).issuperset(chain.from_iterable(chosen.values())):
        raise NotLandable(f"{decoded.code.co_qualname}: a wide answer cannot land everywhere it is asked to")
    making = _Graft(decoded, entered, layouts, chosen, direct, wide, through)
    return making.code(), making.places()


def exits_of_entries(
    decoded: Decoded, slots: Collection[int], landings: Collection[int] | None, exits: Exits
) -> dict[int, tuple[int, ...]]:
    """The landings that each entry reaches, in order."""
    possible = landable(decoded)
    asked = set(possible if landings is None else landings)
    for landing in sorted(asked.union(*exits.values())):
        if place_of(landing) not in possible:
            raise NotLandable(f"{decoded.code.co_qualname}: no landing can stand at {place_of(landing)}")
    context = {index: context_of(decoded, index) for index in {*asked.union(*exits.values()), *slots}}
    chosen: dict[int, tuple[int, ...]] = {}
    by_context: dict[object, tuple[int, ...]] = {}
    for index in slots:
        for landing in exits.get(index, ()):
            if context[landing] != context[index]:
                raise LandingContext(
                    f"{decoded.code.co_qualname}: the entry at {index} and its landing at {landing} are in different"
                    " contexts (exceptions being handled, comprehensions' own cells)"
                )
        if index in exits:
            chosen[index] = tuple(sorted(set(exits[index])))
            continue
        here = context[index]
        if here not in by_context:
            by_context[here] = tuple(sorted(landing for landing in asked if context[landing] == here))
        chosen[index] = by_context[here]
    return chosen


def check_slot(code: CodeType, layout: EntryLayout) -> None:
    takes = code.co_varnames[: code.co_argcount]
    if takes != layout.parameters or code.co_kwonlyargcount or code.co_flags & 0x0C or code.co_freevars:
        passes = f"the entry at {layout.index} passes {layout.parameters}"
        raise SlotMismatch(f"slot {code.co_name} takes {takes}, {passes}")


class _Graft:
    """One graft under construction."""

    def __init__(
        self,
        decoded: Decoded,
        slots: Mapping[int, FunctionType | Splice],
        layouts: dict[int, EntryLayout],
        exits: dict[int, tuple[int, ...]],
        direct: Collection[int],
        wide: bool,
        through: bool,
    ) -> None:
        self.decoded, self.slots, self.layouts, self.exits = decoded, slots, layouts, exits
        self.direct, self.wide, self.through = frozenset(direct), wide, through
        known = facts(decoded)
        self.rows, self.number = known.rows, known.number
        self.assembler = Assembler(decoded.code)
        self.emitter = Emitter(decoded, self.assembler)
        self.body = [self.assembler.label() for _ in self.rows]
        self.entry = {index: self.assembler.label() for index in slots}
        self.exit = {index: self.assembler.label() for index in slots}
        landings = {place_of(landing) for chosen in exits.values() for landing in chosen}
        self.plain = plain_loads(decoded, self.number, landings.union(slots))
        self.resume = self.rows[self.number[decoded.start] - 1][1]
        # What a generator has around all of its code; the RESUME before the start lies in nothing else.
        self.around = self._cover(self.resume)

    def code(self) -> CodeType:
        for number, (index, unit) in enumerate(self.rows):
            self.assembler.positions, self.assembler.cover = unit.positions, self._cover(unit)
            if index in self.slots:
                self.assembler.place(self.entry[index])
                self._entry(index, self.slots[index])
            self.assembler.place(self.body[number])
            self._original(number, unit)
        self._behind_the_body()
        return self.assembler.finish(self.emitter.depth)

    def places(self) -> Places:
        at = self.assembler.unit_at
        return Places([at(label) for label in self.body], frozenset(at(label) for label in self.exit.values()))

    def _entry(self, index: int, slot: FunctionType | Splice) -> None:
        if isinstance(slot, Splice):
            self.emitter.spliced_entry(slot, self.exit[index])
        else:
            self.emitter.entry(self.layouts[index], slot, self.exit[index])

    def _cover(self, unit: Unit) -> Cover | None:
        handler = unit.handler
        return handler and Cover(self.body[handler.target], handler.depth, handler.lasti)

    def _original(self, number: int, unit: Unit) -> None:
        if unit.target >= 0:
            index = self.rows[unit.target][0]
            self.assembler.jump(unit.name, self.entry.get(index, self.body[unit.target]))
            return
        self.assembler.emit_all(unit.before)
        load = plain_method_load(unit.name, unit.arg, self.assembler.constant) if number in self.plain else None
        if load is None:
            self.assembler.original_op(unit.name, unit.arg)
        else:
            self.assembler.emit_all(load)
            self.emitter.need(len(self.decoded.stack_at(self.rows[number][0]) or ()) + 3)

    def _behind_the_body(self) -> None:
        assembler, emitter = self.assembler, self.emitter
        emitter.splices()
        # No line: none of it is any line's work, so that a debugger does not stop at it, nor jumps there.
        assembler.positions = NOWHERE
        emitter.unbound_handlers()
        assembler.cover = self.around
        trees: dict[tuple[object, tuple[int, ...]], Label] = {}
        for index in self.slots:
            assembler.place(self.exit[index])
            if index in self.direct:
                emitter.direct_exit(self.body[self.number[self.exits[index][0]]])
                continue
            tree = (context_of(self.decoded, index), self.exits[index])
            if tree not in trees:
                trees[tree] = assembler.label()
            emitter.exit(self.layouts[index], trees[tree], wide=self.wide)
        landing = {index: assembler.label() for _, chosen in trees for index in chosen}
        for (_, chosen), label in trees.items():
            assembler.place(label)
            if self.wide:
                emitter.bind_wide(wide_locals(self.decoded))
            wrong = assembler.label()
            emitter.choose([(index, landing[index]) for index in chosen], wrong)
            assembler.place(wrong)
            assembler.positions = self.resume.positions  # a traceback wants a line
            emitter.wrong_exit()
            assembler.positions = NOWHERE
        for index, label in landing.items():
            assembler.place(label)
            self._landing(index)

    def _landing(self, landing: int) -> None:
        layout, index = landing_layout(self.decoded, landing), place_of(landing)
        target = self.body[self.number[index]]
        if self.through:
            target = self.entry.get(index, target)
        if self.wide:
            self.emitter.land_wide(layout, wide_locals(self.decoded), target)
        else:
            self.emitter.landing(layout, target)


def plain_loads(decoded: Decoded, number: Mapping[int, int], places: Collection[int]) -> set[int]:
    """The units whose method load must push a callable and a NULL: the pair is on the stack at one of `places`."""
    found: set[int] = set()
    for place in places:
        kinds, producers = decoded.stack_at(place) or (), decoded.producers_at(place) or ()
        for kind, pushers in zip(kinds, producers, strict=True):
            if kind is NULL:
                found.update(number[decoded.instructions[pusher].unit] for pusher in pushers)
    return found
