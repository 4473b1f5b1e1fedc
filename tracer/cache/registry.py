"""All states, by the identity of their original code, namespace and options."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from ..config import Options
from ..originals import original_code
from .states import CodeState


@dataclass
class _States:
    """All states of one original code object."""

    code: weakref.ref[CodeType]
    states: dict[Hashable, CodeState] = field(default_factory=dict)


class Registry:
    """All states, by the identity of their original code, namespace and options."""

    def __init__(self) -> None:
        self._by_code: dict[int, _States] = {}
        #: new states are muted
        self.muted = False

    def find(self, original: CodeType, key: Hashable) -> CodeState | None:
        states = self._by_code.get(id(original))
        return None if states is None or states.code() is not original else states.states.get(key)

    def create(
        self,
        original: CodeType,
        namespace: dict[str, Any],
        options: Options,
        key: Hashable,
        start: int | None = None,
    ) -> CodeState:
        at, by_code = id(original), self._by_code
        states = by_code.get(at)
        if states is None or states.code() is not original:

            def gone(ref: weakref.ref[CodeType]) -> None:
                if at in by_code and by_code[at].code is ref:
                    for state in by_code.pop(at).states.values():
                        state.drop_regions()

            states = by_code[at] = _States(weakref.ref(original, gone))
        state = states.states[key] = CodeState(self, original, namespace, options, start, self.muted)
        return state

    def drop(self, state: CodeState) -> None:
        """Forget a state. Its regions go at once, and with them whatever circle led through them."""
        code = state._original()
        states = self._by_code.get(id(code))
        if states is not None and states.code() is code:
            for key, found in list(states.states.items()):
                if found is state:
                    del states.states[key]
            if not states.states:
                del self._by_code[id(code)]
        state.drop_regions()

    def __iter__(self) -> Iterator[CodeState]:
        for states in list(self._by_code.values()):
            yield from list(states.states.values())

    def mute(self, muted: bool) -> None:
        """All runs plain, or as it is compiled again."""
        self.muted = muted
        for state in self:
            if muted:
                state.mute()
            else:
                state.unmute()

    def regions_of_code(self, state: CodeState) -> int:
        """How many regions there are of this state's original code: its own, and those of other compile calls."""
        states = self._by_code.get(id(state.original))
        return sum(1 for found in list(states.states.values()) for _ in found.regions) if states is not None else 0

    def state_of(self, function: FunctionType) -> CodeState | None:
        """The state that a function object was compiled under."""
        states = self._by_code.get(id(original_code(function.__code__)))
        for state in list(states.states.values()) if states is not None else ():
            reference = state.functions.get(id(function))
            if reference is not None and reference() is function:
                return state
        return None
