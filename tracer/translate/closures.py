"""Private copies of functions that are made anew at each call of their parent, or in a region: one code for them all.

A region that ends at a call which broke inside hands over the callee's private copy. Where the callee is another object
each time, with cells and defaults of its own, the region makes the copy when it runs: what is compiled belongs to the
code, and is there already.
"""

from __future__ import annotations

from types import CodeType, FunctionType

from ..cache import CodeState
from ..originals import original_code, plain_copy


class PrivateClosures:
    """Called with a function object, gives its private copy; the function itself where that cannot be."""

    __slots__ = ("__weakref__", "_code", "_copied", "_state")

    def __init__(self, state: CodeState, copied: CodeType) -> None:
        self._state = state
        self._copied = copied
        #: the state has it weakly, and lives as long as somebody has it
        self._code = state.original

    @property
    def state(self) -> CodeState:
        return self._state

    def __call__(self, function: FunctionType) -> FunctionType:
        state = self._state
        if state.grafted is None or original_code(function.__code__) is not self._copied:
            return function
        copy = plain_copy(function)
        copy.__code__ = self._code
        state.add(copy)
        if not state.muted:
            copy.__code__ = state.grafted
        return copy
