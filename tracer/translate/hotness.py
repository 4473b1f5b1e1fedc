"""Functions that are compiled at their n-th call only (`compile_after`): until then their calls are counted, no more.

Such a state is *cold*. Where function starts are told of cheaply, its functions get a copy of their own code, whose
starts are counted: nobody else's calls are, and nothing is added to what runs. Elsewhere (Python 3.11, no tool id free)
it is a graft with just the first entry, whose slot counts.

At the n-th start the real graft is made. Where the frame's arguments can be had, it is captured at once; that call
still runs plain, as a running frame keeps its code.
"""

from __future__ import annotations

import weakref
from types import CodeType, FrameType
from typing import Any

from ..cache import CodeState, EntryState
from .grafting import Grafter
from .limits import compile_after
from .making import Maker


class Hotness:
    """Keeps states cold, and counts."""

    def __init__(self, grafter: Grafter, maker: Maker) -> None:
        self._grafter = grafter
        self._maker = maker

    def stays_cold(self, state: CodeState) -> bool:
        """Is a new state to be counted first?"""
        return compile_after(state, self._maker.settings) > 1

    def cool(self, state: CodeState, on_start: Any) -> None:
        """Code for a cold state. `on_start(state, frame)` is told of its starts; True: no more of that."""
        state.cold = True
        if self._grafter.watch is None:
            self._grafter.minimal_graft(state)
            return
        state.use(state.original.replace())
        found = weakref.ref(state)

        def told(code: CodeType, frame: FrameType) -> bool:
            state = found()
            return state is None or not state.cold or on_start(state, frame)

        assert state.grafted is not None
        self._grafter.watch(state.grafted, told)
        if self._grafter.watch is None:  # there is no tool id to be had
            self._grafter.minimal_graft(state)

    def is_hot_now(self, state: CodeState) -> bool:
        """Count one call. True: it is the n-th, or one behind that."""
        return state.count_call() >= compile_after(state, self._maker.settings)

    def warm(self, state: CodeState) -> EntryState | None:
        """The real graft, for later calls. The first entry, or None where another thread was faster."""
        if not state.cold:
            return None
        state.cold = False
        state.entries.clear()
        self._grafter.first_graft(state)
        return state.entries.get(state.first)
