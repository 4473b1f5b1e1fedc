"""One capture to one region: interpret, compile the graph, make private copies of callees, write the text."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .. import backends, emit
from ..cache import CodeState, EntryState, Region, Registry
from ..config import Settings
from ..graph.capture import Callee, Capture, Request
from ..originals import original_code, plain_copy
from .places import changing_parameters, code_of


class Maker:
    """Makes regions. `adopt_copy` grafts a callee's private copy."""

    def __init__(
        self,
        registry: Registry,
        capture: Callable[[Request], Capture],
        adopt_copy: Callable[[CodeState, FunctionType], None],
    ) -> None:
        self.registry = registry
        self.settings = Settings()
        self.capturing_thread: int | None = None
        self._capture = capture
        self._adopt_copy = adopt_copy

    def capture(self, state: CodeState, entry: EntryState, arguments: tuple[Any, ...]) -> tuple[Capture, float]:
        """The capture of an entry, and the seconds that it took."""
        request = Request(
            decoded=state.decoded,
            layout=entry.layout,
            arguments=arguments,
            globals=state.globals,
            original_code=code_of,
            fullgraph=state.options.fullgraph,
            dynamic=self._dynamic(state),
            changing=changing_parameters(state.decoded, entry.layout) | entry.changed,
            unroll_limit=self.settings.unroll_limit,
        )
        began = time.perf_counter()
        self.capturing_thread = threading.get_ident()
        try:
            captured = self._capture(request)
        finally:
            self.capturing_thread = None
        error = captured.graph_break
        if error is not None:  # it is kept with the region, but must not keep the frames that it passed
            error.__traceback__ = error.__cause__ = error.__context__ = None
        return captured, time.perf_counter() - began

    def region(self, state: CodeState, entry: EntryState, captured: Capture, seconds: float) -> Region:
        """The region of a capture, its text written: while its tensors live, in the state that it was captured in."""
        began = time.perf_counter()
        call, backend = None, ""
        if captured.graph is not None:
            chosen = self._backend(state)
            call, backend = backends.compile_graph(captured.graph, chosen), chosen.name
        constants = {
            name: self._private_copy(state, value) if isinstance(value, Callee) else value
            for name, value in captured.constants.items()
        }
        compiled = emit.Compiled(dataclasses.replace(captured, constants=constants), call)
        emit.write_region(compiled, entry.layout.parameters, original_code=original_code)
        return Region(compiled, backend, seconds, time.perf_counter() - began)

    def _dynamic(self, state: CodeState) -> bool | None:
        return self.settings.dynamic if state.options.dynamic is None else state.options.dynamic

    def _backend(self, state: CodeState) -> backends.Backend:
        options = state.options
        return backends.lookup(
            self.settings.backend if options.backend is None else options.backend,
            mode=options.mode,
            options=None if options.options is None else dict(options.options),
            dynamic=self._dynamic(state),
        )

    def _private_copy(self, state: CodeState, callee: Callee) -> FunctionType:
        """The callee's copy for this compile: nobody else calls it, so it may be grafted."""

        def make() -> FunctionType:
            copy = plain_copy(callee.function, own_code=True)
            options = dataclasses.replace(state.options, fullgraph=False)
            inner = self.registry.create(copy.__code__, copy.__globals__, options, "callee")
            inner.family = state.family
            inner.add(copy)
            self._adopt_copy(inner, copy)
            return copy

        return state.family.copy_of(callee.function, make)
