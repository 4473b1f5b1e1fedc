"""Is a grafted code object well formed? Runs on every graft, and raises a `VerifyError` that says what is not.

Two parts. The body must be the original: the same instructions in the same order with the same handlers, and jumps that
go where they went (or to the entry in front). Then what analysis says about the original holds for it, and only what
was added is followed: from each entry, with the stack and locals that are there, to the body again (`flow.py`).
"""

from __future__ import annotations

from types import CodeType

from .analysis import NULL
from .decode import Decoded, decode
from .flow import Flow, Places
from .layouts import facts
from .region import BodyMismatch, HandlerMismatch, UnboundLocal, WildJump, WrongStackSlot
from .units import Handler, Unit, units
from .versions_emit import LOCALS_PLUS, plain_method_load

# What a grafted code object shares with its original, and what it may only add to.
EXTENDED = ("co_names", "co_varnames")
SAME = (
    "co_name co_qualname co_filename co_firstlineno co_flags co_argcount co_posonlyargcount co_kwonlyargcount "
    "co_cellvars co_freevars"
).split()


def verify(decoded: Decoded, code: CodeType, places: Places) -> None:
    _Verify(decoded, code, places).run()


def verify_slot(code: CodeType) -> None:
    """Does region text read a local before it is bound? Then a region would raise at run time where it should not."""
    decoded = decode(code)
    for instruction in decoded.instructions:
        reads = instruction.opname in ("LOAD_FAST", "DELETE_FAST") and decoded.stack_at(instruction.index) is not None
        if reads and instruction.arg not in decoded.bound_at(instruction.index):
            line = instruction.positions[0]
            raise UnboundLocal(f"{code.co_filename}, line {line}: reads {instruction.arg}, which may be unbound")


class _Verify:
    def __init__(self, decoded: Decoded, code: CodeType, places: Places) -> None:
        self.decoded, self.code, self.body, self.places = decoded, code, places.body, places
        self.rows = facts(decoded).rows
        self.new = units(code)
        self.extra = code.co_nlocals - decoded.code.co_nlocals
        # The original units that a plain load stands for.
        self.made_plain: set[int] = set()
        # Behind each original unit's own instructions: where the next one's entry begins, if it has one.
        self.ends: list[int] = []

    def run(self) -> None:
        self._frame()
        if list(self.body) != sorted(set(self.body)) or len(self.body) != len(self.rows):
            raise BodyMismatch(f"{self.code.co_qualname}: not every instruction of the original is there, in order")
        self._instructions()
        self._jumps()
        self._handlers()
        self._method_loads()
        Flow(self.decoded, self.code, self.new, self.places, self.ends).run()

    def _frame(self) -> None:
        old = self.decoded.code
        for name in SAME:
            if getattr(self.code, name) != getattr(old, name):
                raise BodyMismatch(f"{name} is {getattr(self.code, name)!r}, was {getattr(old, name)!r}")
        for name in EXTENDED:
            new, before = getattr(self.code, name), getattr(old, name)
            if new[: len(before)] != before:
                raise BodyMismatch(f"{name} begins otherwise: {new}, was {before}")
        for new, before in zip(self.code.co_consts, old.co_consts, strict=False):
            if new is not before and not _same_constant(new, before):
                raise BodyMismatch(f"constant {new!r} was {before!r}")

    def _instructions(self) -> None:
        for number, (_, unit) in enumerate(self.rows):
            first = self.body[number]
            expected = self._expected(unit)
            plain = plain_method_load(unit.name, unit.arg, self._constant)
            found = [self._seen(new) for new in self.new[first : first + len(plain or expected)]]
            if plain is not None and [pair[:2] for pair in found] == [(name, arg) for name, arg in plain]:
                self.made_plain.add(number)
                self.ends.append(first + len(plain))
            elif found[: len(expected)] == expected:
                self.ends.append(first + 1)
            else:
                raise BodyMismatch(f"{found} stands for {unit}")
            for new in self.new[first : self.ends[-1]]:
                if new.positions != unit.positions:
                    raise BodyMismatch(f"{new} stands for {unit}")

    def _constant(self, value: object) -> int:
        """Its number in the new code; -1 if it is not there."""
        return next((number for number, found in enumerate(self.code.co_consts) if found is value), -1)

    def _expected(self, unit: Unit) -> list[tuple[object, ...]]:
        arg = unit.arg
        if unit.name in LOCALS_PLUS and arg >= self.decoded.code.co_nlocals:
            arg += self.extra
        return [(unit.name, None if unit.target >= 0 else arg, unit.before)]

    def _seen(self, unit: Unit) -> tuple[object, ...]:
        return (unit.name, None if unit.target >= 0 else unit.arg, unit.before)

    def _jumps(self) -> None:
        """Each goes to the instruction that it went to, or to the first of what stands in front of that."""
        for number, (_, unit) in enumerate(self.rows):
            if unit.target < 0:
                continue
            target = self.new[self.body[number]].target
            entry = self.ends[unit.target - 1] if unit.target else 0
            if target not in (entry, self.body[unit.target]):
                raise WildJump(f"{unit.name} at line {unit.positions[0]} goes elsewhere than in the original")

    def _handlers(self) -> None:
        for number, (_, unit) in enumerate(self.rows):
            wanted = unit.handler and Handler(self.body[unit.handler.target], unit.handler.depth, unit.handler.lasti)
            for new in self.new[self.body[number] : self.ends[number]]:
                if new.handler != wanted:
                    raise HandlerMismatch(f"{new.name} at line {new.positions[0]} has {new.handler}, not {wanted}")

    def _method_loads(self) -> None:
        """At an entry or landing no NULL on the stack may come from a load that pushes one or a method, as it goes."""
        places = [number for number in range(1, len(self.body)) if self.body[number] > self.ends[number - 1]]
        behind = self.ends[-1]
        position = {first: number for number, first in enumerate(self.body)}
        places += [position[unit.target] for unit in self.new[behind:] if unit.target in position]
        for number in places:
            index = self.rows[number][0]
            kinds, producers = self.decoded.stack_at(index) or (), self.decoded.producers_at(index) or ()
            for kind, pushers in zip(kinds, producers, strict=True):
                for pusher in pushers if kind is NULL else ():
                    at = facts(self.decoded).number[self.decoded.instructions[pusher].unit]
                    load = self.new[self.body[at]]
                    if at not in self.made_plain and plain_method_load(load.name, load.arg, self._constant) is not None:
                        raise WrongStackSlot(f"{load.name} at line {load.positions[0]} may or may not push a NULL")


def _same_constant(new: object, old: object) -> bool:
    """Interning may have made another object of a string, or of a set of strings."""
    return type(new) is type(old) and isinstance(new, (str, frozenset)) and new == old
