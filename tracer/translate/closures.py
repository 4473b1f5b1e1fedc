"""Private copies of functions that are made anew at each call of their parent, or in a region: one code for them all.

A region that ends at a call which broke inside hands over the callee's private copy. Where the callee is another object
each time, with cells and defaults of its own, the region makes the copy when it runs: what is compiled belongs to the
code, and is there already. A decorator's function around a method or a module's function is the same one at each call,
though its code has cells: its copy is kept.
"""

from __future__ import annotations

from types import CodeType, FunctionType

from ..cache import CodeState
from ..holding import lives_for_ever
from ..originals import original_code, plain_copy

#: Where so many functions live for a while only, no other is asked whether it lives for ever.
_ENOUGH = 16


class PrivateClosures:
    """Called with a function object, gives its private copy; the function itself where that cannot be."""

    __slots__ = ("__weakref__", "_code", "_copied", "_kept", "_passing", "_state")

    def __init__(self, state: CodeState, copied: CodeType) -> None:
        self._state = state
        self._copied = copied
        #: the state has it weakly, and lives as long as somebody has it
        self._code = state.original
        #: a function that lives for ever -> its copy, and the code that it had then
        self._kept: dict[FunctionType, tuple[FunctionType, CodeType]] = {}
        self._passing = 0

    @property
    def state(self) -> CodeState:
        return self._state

    def __call__(self, function: FunctionType) -> FunctionType:
        kept = self._kept.get(function)
        if kept is not None:
            copy, code = kept
            same = function.__code__ is code and function.__defaults__ is copy.__defaults__
            if same and function.__kwdefaults__ is None and self._state.grafted is not None:
                return copy
            self._kept.pop(function, None)
        state = self._state
        if state.grafted is None or original_code(function.__code__) is not self._copied:
            return function
        copy = plain_copy(function)
        copy.__code__ = self._code
        state.add(copy)
        if not state.muted:
            copy.__code__ = state.grafted
        if self._passing < _ENOUGH and function.__kwdefaults__ is None:
            self._keep(function, copy)
        return copy

    def _keep(self, function: FunctionType, copy: FunctionType) -> None:
        """A copy has its function's cells, which may lead to that function: so of others no copy may be kept."""
        if lives_for_ever(function):
            self._kept[function] = copy, function.__code__
        else:
            self._passing += 1
