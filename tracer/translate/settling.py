"""What is to be called for a graph may be known behind its first calls only: the slots' texts are then written anew."""

from __future__ import annotations

import weakref

from .. import emit
from ..backends import StraightCall
from ..cache import EntryState, Region
from .grafting import Grafter
from .lock import CompileLock


def when_settled(region: Region, entry: EntryState, grafter: Grafter, lock: CompileLock) -> None:
    """Let a fresh region's graph say when it is settled."""
    call = region.compiled.call
    if not isinstance(call, StraightCall):
        return
    old, found_region, found_entry = call.boxed, weakref.ref(region), weakref.ref(entry)

    def settled(call: StraightCall) -> bool:
        """False: not now, since somebody else is compiling."""
        region, entry = found_region(), found_entry()
        state = None if entry is None else entry.state
        if region is None or entry is None or state is None:
            return True
        if lock.is_held_off or not lock.take():
            return False
        try:
            emit.exchange_call(region.compiled, old, call.boxed)
            if region in entry.regions:
                grafter.write(state, entry)
            return True
        finally:
            lock.let_go()

    call.on_settled = settled
