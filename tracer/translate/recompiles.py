"""Misses of entries that have regions: which region was nearest, which guard failed, and what came of it, on record.

Lines go to the log `tracer.recompiles`; `tracer.explain_recompiles` shows the records.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

from .. import log
from ..cache import CodeState, EntryState, Recompile, Region
from ..guards import Kind
from ..refusals import Conditions, Refusal, examine
from ..sources import length_text, read_from
from .hints import hint_for, was_for_zero_or_one

#: How attributes are read past what a class may make of that.
_READ_ROUNDABOUT = [
    re.compile(r"(?:\.__dict__\['_(?:modules|parameters|buffers)'\]|\._(?:modules|parameters|buffers))\['(\w+)'\]"),
    re.compile(r"\.__dict__\['(\w+)'\]"),
]
#: What a region's text calls the constants that it holds.
_HELD = re.compile(r"\bk_(?=\w)")
#: So many misses of an entry get a record of their own if nothing is compiled; the others count with the last one.
NOTED = 8


def refusal(state: CodeState, entry: EntryState, region: Region, arguments: tuple[Any, ...]) -> Refusal:
    """Why a region does not fit."""
    named = dict(zip(entry.layout.parameters, arguments, strict=True))
    if region.conditions is None:
        written = region.compiled.written
        assert written is not None
        region.conditions = Conditions(written.conditions, written.constants)
    return examine(region.capture.guards, region.conditions, named, state.globals, state.place(entry.line))


def refusals(state: CodeState, entry: EntryState, arguments: tuple[Any, ...]) -> list[tuple[Region, Refusal]]:
    """For each region of an entry, in the order in which they were tried."""
    return [(region, refusal(state, entry, region, arguments)) for region in entry.regions]


def nearest(found: Sequence[tuple[Region, Refusal]]) -> tuple[Region, Refusal]:
    """The region of which the most guards held; of several that which differs in the least, the first tried.

    One that was made for a 0 or 1 comes last of these: it would say little of why another value needs a region.
    """
    return min(
        found, key=lambda pair: (-pair[1].held, pair[1].of, len(pair[1].changes), was_for_zero_or_one(pair[1]))
    )


def changed_numbers(found: Refusal) -> set[str]:
    """Sources of numbers that guards found changed: inputs from now on, where possible. So are lengths."""
    numbers = (guard for guard in found.failed if guard.kind is Kind.EQUALS and type(guard.expected) in (int, float))
    lengths = {length_text(guard.source) for guard in found.failed if guard.kind is Kind.LENGTH}
    return lengths.union(str(source) for guard in numbers for source in read_from(guard.source))


def describe_miss(entry: EntryState, near: tuple[Region, Refusal] | None) -> Recompile:
    """The record of a miss; what came of it is not known yet."""
    if near is None:
        return Recompile(entry.index, entry.line)
    region, found = near
    record = Recompile(entry.index, entry.line, region.compiled.number, found.held, found.of)
    guard = found.guard
    if guard is not None:
        record.kind = guard.kind.value
        record.guard, record.source = readable(str(guard)), readable(str(guard.source))
        record.old, record.new = found.old, found.new
        record.needed_by, record.hint = guard.line, readable(hint_for(found))
    return record


def readable(text: str) -> str:
    """Sources in a text as a program would write them: `self.linear.weight`."""
    for pattern in _READ_ROUNDABOUT:
        text = pattern.sub(r".\1", text)
    return _HELD.sub("", text)


def settle(
    state: CodeState, entry: EntryState, record: Recompile, outcome: str, reason: str = "", made: Region | None = None
) -> None:
    """What came of a miss: on record and in the log."""
    record.outcome, record.reason = outcome, reason
    record.made = None if made is None else made.compiled.number
    level = logging.DEBUG  # for those that only count: there may be one at every call
    if made is not None or not is_noted(state, entry, outcome):
        state.recompiles.append(record)
        level = logging.INFO
    log.recompiles.log(level, "%s: %s", state.place(entry.line), record)


def is_noted(state: CodeState, entry: EntryState, outcome: str) -> bool:
    """Are there records enough of misses of this entry that came to nothing? Then this one only counts."""
    noted = [record for record in state.recompiles if (record.entry, record.outcome) == (entry.index, outcome)]
    if len(noted) < (NOTED if entry.regions else 1):
        return False
    noted[-1].count += 1
    return True
