"""Small regions are tried against the original bytecode: a call of a compiled graph costs something beside its kernels,
which must be won back. Where the original is faster it runs, as if nothing had been compiled.

For the time of its trial the function has a graft with a slot where the region ends (`measuring.py` says what for), and
the region's own slot is another: frames that run an older graft go on with what they have.
"""

from __future__ import annotations

import weakref
from types import FunctionType

from rewriter.layouts import enterable, entry_layout, is_direct
from rewriter.loops import loops_around
from rewriter.text import compile_slot, new_slot

from .. import log
from ..backends import StraightCall
from ..cache import CodeState, EntryState, Region
from ..torch_private import saved_tensor_hooks
from .grafting import Grafter
from .lock import CompileLock
from .measuring import Trial
from .places import SUSPENDS


class SmallRegions:
    """Begins trials, and draws the conclusion."""

    grafter: Grafter

    def __init__(self, lock: CompileLock) -> None:
        self._lock = lock

    def begin(self, state: CodeState, entry: EntryState, region: Region) -> None:
        """A small region is warm. Under the lock. Where it cannot be tried now, it may be later."""
        call, graph = region.compiled.call, region.capture.graph
        unsettled = isinstance(call, StraightCall) and not call.is_settled
        if graph is None or unsettled or not _can_be(state, entry, region):
            return
        if graph.records_autograd and saved_tensor_hooks(True) is not None:
            return  # a checkpoint is run twice: it must save the same tensors both times, so nothing may change between
        state_reference, entry_reference, region_reference = weakref.ref(state), weakref.ref(entry), weakref.ref(region)

        def done(trial: Trial) -> bool:
            state, entry, region = state_reference(), entry_reference(), region_reference()
            if state is None or entry is None or region is None:
                return True
            return self._end(state, entry, region, trial)

        records = graph.records_autograd and any(output.requires_grad for output in graph.outputs)
        trial = Trial(until_next=records, done=done)
        region.compiled.reports, region.compiled.turn, entry.enters = frozenset(), trial.turn, trial.enter
        landing = region.capture.exit.landing
        state.stops[landing] = _stop_slot(state, landing, trial)
        entry.renew_slot(direct=False)
        self.grafter.write(state, entry)
        self.grafter.graft(state, state.decoded)

    def _end(self, state: CodeState, entry: EntryState, region: Region, trial: Trial) -> bool:
        """There is enough. False: not now, since somebody compiles."""
        if self._lock.is_held_off or not self._lock.take():
            return False
        try:
            if region.compiled.turn is None:
                return True
            region.compiled.turn = entry.enters = None
            state.stops.clear()
            region.figures = trial.figures()
            if state.entries.get(entry.index) is not entry:
                return True
            if trial.region_is_faster() is False:
                self._switch_off(state, entry, region)
            entry.renew_slot(direct=is_direct(state.decoded, entry.index, entry.exits))
            self.grafter.write(state, entry)
            self.grafter.graft(state, state.decoded)
            return True
        finally:
            self._lock.let_go()

    @staticmethod
    def _switch_off(state: CodeState, entry: EntryState, region: Region) -> None:
        graph = region.capture.graph
        operators = 0 if graph is None else graph.operators
        what = f"{operators} operator{'' if operators == 1 else 's'}"
        entry.figures.append(f"runs plain: a region of {what} was slower, {region.figures}")
        log.regions.debug("%s (%s:%s) %s", state.name, state.filename, entry.line, entry.figures[-1])
        region.compiled.off = True
        if all(other.compiled.off for other in entry.regions):
            entry.regions = []
            entry.dead = True


def _can_be(state: CodeState, entry: EntryState, region: Region) -> bool:
    """Is there a place behind the region, which both ways reach once for each call?"""
    decoded, landing = state.decoded, region.capture.exit.landing
    if state.is_scouting or state.muted or state.stops or region.compiled.off or decoded.code.co_flags & SUSPENDS:
        return False
    if landing not in enterable(decoded) or landing in state.entries:
        return False
    return set(loops_around(decoded, landing)) <= set(loops_around(decoded, entry.index))


def _stop_slot(state: CodeState, landing: int, trial: Trial) -> FunctionType:
    name, parameters = f"{state.name} end of a trial", entry_layout(state.decoded, landing).parameters
    slot = new_slot(name, parameters, state.globals)
    text = f"def slot({', '.join(parameters)}):\n    k_stop()\n"
    slot.__code__ = compile_slot(text, {"k_stop": trial.stop}, name=name)
    return slot
