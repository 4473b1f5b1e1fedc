"""What is compiled for a code object: the regions of an entry, the entries of a function, and all functions.

Who holds what, so that a dropped function is freed although the garbage collector sees into no code object:

    function -> grafted code -> slots -> region text -> constants, among them `Helper`s, which hold the entry weakly
    Registry -> CodeState -> grafted code, entries -> slots.      CodeState -> original code only while functions live

A `CodeState` goes with its original code. The code of a closure is held by its parent's constants, so what is compiled
for closures outlives the single function objects.
"""

from __future__ import annotations

from .entries import EntryState, Helper, Region, Scouting, Serve, counting, go_on, returns
from .records import BreakRecord, Counters, Made, Recompile
from .registry import Registry
from .states import CodeState, Family, put_on

__all__ = [
    "BreakRecord", "CodeState", "Counters", "EntryState", "Family", "Helper", "Made", "Recompile", "Region",
    "Registry", "Scouting", "Serve", "counting", "go_on", "put_on", "returns",
]  # fmt: skip
