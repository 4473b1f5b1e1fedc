"""The loops of a code object: natural loops of its canonical instructions, handlers included.

A loop is known by its head, to which its back edges jump: the `FOR_ITER` of a `for`, the first instruction of the body of
a `while` (CPython tests its condition once before the loop and once at its end). Waiting for an awaitable or for the
generator of a `yield from` (`SEND`) is none.

Method: A. V. Aho, M. S. Lam, R. Sethi, J. D. Ullman, "Compilers", 2nd ed., 9.6.6. A jump backwards is a back edge if its
source cannot be reached around its target; CPython also jumps backwards out of handlers that stand at the code's end.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from types import CodeType

from .decode import Decoded
from .instructions import TERMINAL_OPNAMES


@dataclass(frozen=True)
class Loop:
    """Canonical indices of whole units. `back`: the units that jump back to the head."""

    head: int
    body: frozenset[int]
    back: frozenset[int]


_found: dict[int, tuple[weakref.ref[CodeType], tuple[Loop, ...]]] = {}


def loops(decoded: Decoded) -> tuple[Loop, ...]:
    """All loops, outer ones before those within them."""
    code, key = decoded.code, id(decoded.code)
    known = _found.get(key)
    if known is not None and known[0]() is code:
        return known[1]
    new = _loops(decoded)
    _found[key] = (weakref.ref(code, lambda _: _found.pop(key, None)), new)
    return new


def loops_around(decoded: Decoded, index: int) -> tuple[Loop, ...]:
    """The loops that this unit is in, the outermost first."""
    return tuple(loop for loop in loops(decoded) if index in loop.body)


def _loops(decoded: Decoded) -> tuple[Loop, ...]:
    backwards: dict[int, set[int]] = {}
    for instruction in decoded.instructions:
        target = instruction.target
        if target is None or target > instruction.unit or decoded.instructions[target].opname == "SEND":
            continue
        if decoded.stack_at(instruction.unit) is not None:
            backwards.setdefault(target, set()).add(instruction.unit)
    if not backwards:
        return ()
    before = _predecessors(decoded)
    found = []
    for head, sources in backwards.items():
        body, back = {head}, set()
        for source in sources:
            around = _reaching(source, head, before)
            if 0 not in around:
                body |= around
                back.add(source)
        if back:
            found.append(Loop(head, frozenset(body), frozenset(back)))
    return tuple(sorted(found, key=lambda loop: (-len(loop.body), loop.head)))


def _reaching(source: int, head: int, before: dict[int, set[int]]) -> set[int]:
    """The units from which the source can be reached without passing the head, the head left out."""
    found: set[int] = set()
    todo = [source]
    while todo:
        unit = todo.pop()
        if unit == head or unit in found:
            continue
        found.add(unit)
        todo += before.get(unit, ())
    return found


def _predecessors(decoded: Decoded) -> dict[int, set[int]]:
    """By unit, the units that may run right before it. An exception leads from anywhere in its range to its handler."""
    instructions, before = decoded.instructions, {}
    for position, instruction in enumerate(instructions):
        unit = instruction.unit
        if decoded.stack_at(unit) is None:
            continue
        if instruction.target is not None:
            before.setdefault(instruction.target, set()).add(unit)
        behind = position + 1
        last = behind == len(instructions) or instructions[behind].unit != unit
        if last and behind < len(instructions) and instruction.opname not in TERMINAL_OPNAMES:
            before.setdefault(behind, set()).add(unit)
        handler = decoded.handler_at(instruction.index)
        if handler is not None:
            before.setdefault(handler.target, set()).add(unit)
    return before
