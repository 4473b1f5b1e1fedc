"""One capture to one region: interpret, compile the graph, make private copies of callees, write the text."""

from __future__ import annotations

import dataclasses
import threading
import time
import weakref
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

import torch

from .. import backends, emit, log
from ..cache import CodeState, EntryState, Region, Registry
from ..config import Settings, Stance
from ..errors import BackendFailed, GraphBreak, OperatorFailed, forget_frames
from ..graph.capture import Callee, Capture, ClosureCallee, Request
from ..graph.fx_capture import FxCapture
from ..interpreter.listening import Listening
from ..listener import Listener
from ..originals import original_code, plain_copy
from .closures import PrivateClosures
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
        self.stance = Stance()
        self.capturing_thread: int | None = None
        #: who is told what captures do, from the next capture on
        self.listeners: list[Listener] = []
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
            history=entry.history,
            capture_scalars=self.settings.capture_scalar_outputs,
            capture_sizes=self.settings.capture_dynamic_output_shape_ops,
            float_symbols=self._dynamic(state) is None and self._takes_floats(state),
            unroll_limit=self.settings.unroll_limit,
            compiling=state.family.compiling,
            attempt=Listening(self.listeners) if self.listeners else None,
        )
        began = time.perf_counter()
        self.capturing_thread = threading.get_ident()
        try:
            captured = self._capture(request)
        except (GraphBreak, OperatorFailed) as error:
            forget_frames(error)
            raise
        finally:
            self.capturing_thread = None
        if captured.graph_break is not None:  # it is kept with the region
            forget_frames(captured.graph_break)
        if captured.remark:
            log.breaks.info("%s: %s", state.place(entry.line), captured.remark)
        return captured, time.perf_counter() - began

    def region(
        self, state: CodeState, entry: EntryState, captured: Capture, seconds: float, arguments: tuple[Any, ...]
    ) -> Region:
        """The region of a capture, its text written: while its tensors live, in the state that it was captured in.

        A backend that refuses a graph with floats among its inputs is given one in which they are constants.
        """
        began = time.perf_counter()
        call, backend = None, ""
        if captured.graph is not None:
            chosen = self._backend(state)
            try:
                call, backend = backends.compile_graph(captured.graph, chosen), chosen.name
            except BackendFailed:
                if captured.shapes is None or not captured.shapes.has_floats():
                    raise
                entry.history.floats = False
                captured, again = self.capture(state, entry, arguments)
                return self.region(state, entry, captured, seconds + again, arguments)
        if captured.shapes is not None:
            _say_overruled(state, captured.shapes.overruled())
            captured = captured.with_shape_guards()
        constants, callees = dict(captured.constants), []
        for name, value in captured.constants.items():
            if isinstance(value, (Callee, ClosureCallee)):
                copy, inner = self._private(state, value)
                constants[name] = copy
                callees.append((weakref.ref(value.original), weakref.ref(inner)))
        compiled = emit.Compiled(dataclasses.replace(captured, constants=constants), call)
        if call is None and callees and not captured.spares:
            compiled.reports = emit.TRIALS
        elif captured.graph is not None and self._is_small(captured.graph, self._backend(state), call):
            compiled.reports = emit.SMALL_TRIALS
        emit.write_region(compiled, entry.layout.parameters, original_code=original_code)
        if compiled.watch is not None:
            compiled.watch.owner = state.family.model
        return Region(compiled, backend, seconds, time.perf_counter() - began, callees=tuple(callees))

    def _is_small(self, graph: FxCapture, backend: backends.Backend, call: object) -> bool:
        """Is it to be tried against the original bytecode? Which of both runs must not decide of random numbers.

        What is replayed has a trial of its own.
        """
        small = backend.tried and graph.operators <= self.settings.small_region and not hasattr(call, "notes")
        return small and not graph.uses_rng and not torch.are_deterministic_algorithms_enabled()

    def _dynamic(self, state: CodeState) -> bool | None:
        return self.settings.dynamic if state.options.dynamic is None else state.options.dynamic

    def _takes_floats(self, state: CodeState) -> bool:
        """Those made of AOTAutograd don't; of a backend of the user's nobody knows before it has tried."""
        name = self.settings.backend if state.options.backend is None else state.options.backend
        name = self.stance.backend if self.stance.backend is not None else name
        return name == "eager" or (name is not None and not isinstance(name, str))

    def _backend(self, state: CodeState) -> backends.Backend:
        options = state.options
        if self.stance.backend is not None:
            return backends.lookup(self.stance.backend, dynamic=self._dynamic(state))
        return backends.lookup(
            self.settings.backend if options.backend is None else options.backend,
            mode=options.mode,
            options=None if options.options is None else dict(options.options),
            dynamic=self._dynamic(state),
        )

    def _private(self, state: CodeState, callee: Callee | ClosureCallee) -> tuple[Any, CodeState]:
        """The callee's copy for this compile, and its state: nobody else calls it, so it may be grafted."""
        family = state.family
        if isinstance(callee, Callee):
            function = callee.function
            code = original_code(function.__code__)
            copy = family.find(function, code)
            inner = None if copy is None else self.registry.state_of(copy)
            if inner is None:
                copy = plain_copy(function, own_code=True)
                inner = self._adopt(state, copy)
                family.keep(function, code, copy)
            # A guard of the region says that the function has these; a dict may be changed where it is.
            copy.__defaults__, copy.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
            return copy, inner
        closures = family.find(callee.code, callee.code)
        if closures is None:
            first = FunctionType(callee.code.replace(), callee.globals, closure=_empty_cells(callee.code))
            closures = PrivateClosures(self._adopt(state, first), callee.code)
            family.keep(callee.code, callee.code, closures)
        return closures, closures.state

    def _adopt(self, state: CodeState, copy: FunctionType) -> CodeState:
        # What called it is hot, and holds it.
        options = dataclasses.replace(state.options, fullgraph=False, isolate_recompiles=False, compile_after=1)
        inner = self.registry.create(copy.__code__, copy.__globals__, options, "callee")
        inner.family = state.family
        inner.family.states.append(weakref.ref(inner))
        inner.add(copy)
        self._adopt_copy(inner, copy)
        return inner


def _say_overruled(state: CodeState, found: list[str]) -> None:
    """Sizes that the program marked dynamic, and that must be one number all the same."""
    if found and state.options.fullgraph:
        raise GraphBreak("size that is marked dynamic is one number", "; ".join(found))
    for text in found:
        log.recompiles.warning("%s: marked dynamic, but %s", state.place(), text)


def _empty_cells(code: CodeType) -> tuple[CellType, ...]:
    return tuple(CellType() for _ in code.co_freevars)
