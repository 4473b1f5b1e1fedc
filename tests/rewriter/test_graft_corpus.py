"""Real code grafted with and without entries: whatever the compiler makes, the result verifies."""

from __future__ import annotations

import functools
from types import CodeType

import pytest

from rewriter.decode import decode
from rewriter.graft import graft
from rewriter.layouts import enterable, landable
from rewriter.units import units
from tests.rewriter.corpus import codes
from tests.rewriter.grafting import none_slot, start_only


@functools.cache
def kept_codes() -> tuple[CodeType, ...]:
    return tuple(codes())


def check(code: CodeType, entries: str) -> int:
    """Graft (which verifies); how many entries there were."""
    decoded = decode(code)
    places = {"none": [], "start": start_only(decoded), "everything": enterable(decoded)}[entries]
    slots = {index: none_slot(decoded, index, {}) for index in places}
    landings = landable(decoded) if entries == "everything" else sorted(landable(decoded))[::9]
    new = graft(decoded, slots, landings=landings)
    if entries == "none":
        assert [unit._replace(offset=0, arg=0) for unit in units(new)] == [
            unit._replace(offset=0, arg=0) for unit in units(code)
        ]
        assert sorted(set(new.co_positions()), key=str) == sorted(set(code.co_positions()), key=str)
    lines = [line for start, end, line in new.co_lines() for _ in range(start, end, 2)]
    assert lines == [positions[0] for positions in new.co_positions()]  # two decoders of one table
    return len(slots)


def test_without_a_region():
    found = kept_codes()[::8]
    for code in found:
        check(code, "none")
    assert len(found) > 100


def test_with_an_entry_at_the_start():
    found = kept_codes()[1::12]
    assert sum(check(code, "start") for code in found) > 0.9 * len(found)


def test_with_entries_and_landings_everywhere():
    found = [code for code in kept_codes()[2::60] if len(code.co_code) < 2000]
    assert sum(check(code, "everything") for code in found) > 10 * len(found)


@pytest.mark.slow
@pytest.mark.parametrize("entries", ["none", "start", "everything"])
def test_all_of_it(entries):
    """Every code object of the standard library and torch; everything: of moderate size."""
    for code in codes(True):
        if entries != "everything" or len(code.co_code) < 3000:
            check(code, entries)
