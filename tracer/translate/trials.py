"""Is it worth handing over private copies of callees? A copy in which nothing was ever compiled only costs.

A region without a graph may be there only because it ends at a call that broke inside, to hand over the callee's
private copy. The text of such a region reports after so many runs; by then it shows whether the copy, or one that it
calls, has operators to run.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from weakref import ref

import torch

from ..cache import CodeState, Region

#: So many regions a function that was opted in by itself may have without an operator, and so many captures it and
#: the private copies of its callees may take.
DISCOVERED_REGIONS, DISCOVERED_CAPTURES = 3, 24

_LIBRARIES = tuple(
    f"{Path(folder).resolve()}/" for folder in (sysconfig.get_path("stdlib"), Path(torch.__file__).parent)
)
_SITE = tuple(f"{Path(sysconfig.get_path(name)).resolve()}/" for name in ("purelib", "platlib"))


def is_useful(state: CodeState, seen: set[int] | None = None) -> bool:
    """Has it a region with operators, or a callee with one, or code of the user's where one may still come?"""
    seen = set() if seen is None else seen
    if id(state) in seen:
        return False
    seen.add(id(state))
    may_come = any(entry.has_work and not entry.regions for entry in list(state.entries.values()))
    if may_come and not _is_of_a_library(state.original.co_filename):
        return True
    return any(has_work(region, seen) for region in list(state.regions))


def has_work(region: Region, seen: set[int] | None = None) -> bool:
    """Does it run operators, or lead to a callee that does?"""
    if region.capture.graph is not None or region.capture.spares:
        return True
    states = [state for _, reference in region.callees if (state := reference()) is not None]
    return any(is_useful(state, seen) for state in states)


def is_found_for_nothing(state: CodeState) -> bool:
    """Was it opted in by itself, and has it, after several tries, no operator, nor has a private copy of a callee?

    Such a function has tensors in hand only to hand them on: what loads a model's weights, say.
    """
    if not state.discovered:
        return False
    if len(state.made) < DISCOVERED_REGIONS and state.family.captures < DISCOVERED_CAPTURES:
        return False
    return not any(made.operators for found in (state, *state.family.live()) for made in found.made)


def note_idle(state: CodeState, region: Region) -> None:
    """No more private copies of what this region called."""
    for original, _ in region.callees:
        if (found := original()) is not None:
            state.family.idle[id(found)] = ref(found)


def _is_of_a_library(filename: str) -> bool:
    """The standard library's and torch's functions that break run no operators on paths that programs rarely take."""
    if filename.startswith(_LIBRARIES[1]):
        return True
    return filename.startswith(_LIBRARIES[0]) and not filename.startswith(_SITE) and filename not in sys.argv


__all__ = ["has_work", "is_found_for_nothing", "is_useful", "note_idle"]
