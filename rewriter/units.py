"""A code object as units: the running Python's own instructions, one by one, without super-instructions.

Graft writes them back as they are, text.py edits them, verify compares them. Canonical instructions, which are the same
on every version, are decode.py's business; both agree on what a unit is (ARCHITECTURE.md, "Units").
"""

from __future__ import annotations

from bisect import bisect_left
from types import CodeType
from typing import NamedTuple

from .decode import exception_table
from .region import UnknownOpcode, WildJump
from .versions import COMPARE_TO_BOOL_BIT
from .versions_emit import BACKWARD_JUMPS, CACHES, CALL_PREFIXES, JUMPS, OPCODE, OPNAME, PLAIN, SPLIT

Positions = tuple[int | None, int | None, int | None, int | None]


class Handler(NamedTuple):
    """An entry of the exception table: where it leads (a unit's number), how deep the stack is then, and lasti."""

    target: int
    depth: int
    lasti: bool


class Unit(NamedTuple):
    """One instruction with what belongs to it. Its number is its place in the list."""

    name: str
    arg: int
    target: int  # the number of the unit it may jump to, or -1
    offset: int  # in bytes, of its first original instruction
    positions: Positions
    handler: Handler | None
    before: tuple[tuple[str, int], ...]  # KW_NAMES and PRECALL of a CALL


def raw_instructions(code: CodeType) -> list[tuple[str, int, int, int, int]]:
    """(name, argument, offset, offset of its first EXTENDED_ARG, jump target or -1), offsets in bytes, no caches."""
    found, data = [], code.co_code
    at = start = extended = 0
    while at < len(data):
        name, arg = OPNAME[data[at]], data[at + 1] | extended
        # An unknown number reads as CACHE in co_code; the real ones are skipped with their instruction.
        if name == "CACHE" or OPCODE.get(name) != data[at]:
            raise UnknownOpcode(f"{code.co_qualname}: opcode {data[at]} ({name}) at offset {at}")
        if name == "EXTENDED_ARG":
            extended = arg << 8
            at += 2
            continue
        behind = at + 2 + 2 * CACHES[name]
        target = -1
        if name in JUMPS:
            target = behind - 2 * arg if name in BACKWARD_JUMPS else behind + 2 * arg
        found.append((name, arg, at, start, target))
        at = start = behind
        extended = 0
    return found


def units(code: CodeType) -> list[Unit]:
    """The units of a code object, in order."""
    positions: list[Positions] = list(code.co_positions())
    positions += [(None,) * 4] * (len(code.co_code) // 2 - len(positions))
    rows: list[tuple[str, int, int, int, Positions, tuple[tuple[str, int], ...]]] = []
    number_at: dict[int, int] = {}  # the number of the unit that starts at an offset
    prefixes: list[tuple[str, int]] = []
    first = first_start = -1
    for name, arg, offset, start, target in raw_instructions(code):
        if first < 0:
            first, first_start = offset, start
        if name in CALL_PREFIXES:
            prefixes.append((name, arg))
            continue
        number_at[first_start] = number_at[first] = len(rows)
        where = positions[offset // 2]
        if name in SPLIT:
            for half, index in zip(SPLIT[name], (arg >> 4, arg & 15), strict=True):
                rows.append((half, index, -1, first, where, ()))
        elif name == "COMPARE_OP" and arg & COMPARE_TO_BOOL_BIT:
            rows.append((name, arg & ~COMPARE_TO_BOOL_BIT, -1, first, where, ()))
            rows.append(("TO_BOOL", 0, -1, first, where, ()))
        else:
            rows.append((PLAIN.get(name, name), arg, target, first, where, tuple(prefixes)))
        prefixes = []
        first = -1
    try:
        handlers = _handlers(code, [row[3] for row in rows], number_at)
        return [
            Unit(name, arg, target if target < 0 else number_at[target], offset, where, handlers[k], before)
            for k, (name, arg, target, offset, where, before) in enumerate(rows)
        ]
    except KeyError as error:
        message = f"{code.co_qualname}: a jump or handler leads to offset {error}, where no instruction is"
        raise WildJump(message) from None


def _handlers(code: CodeType, offsets: list[int], number_at: dict[int, int]) -> list[Handler | None]:
    """The handler of every unit. Entries never overlap; what an entry covers, it covers whole."""
    handlers: list[Handler | None] = [None] * len(offsets)
    for start, end, target, depth, lasti in exception_table(code):
        handler = Handler(number_at[target], depth, lasti)
        low, high = bisect_left(offsets, start), bisect_left(offsets, end)
        handlers[low:high] = [handler] * (high - low)
    return handlers
