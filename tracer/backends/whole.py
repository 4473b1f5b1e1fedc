"""Compile one captured graph with one backend, with replay where that backend has it."""

from __future__ import annotations

from ..graph.fx_capture import FxCapture
from . import compiling
from .compiling import Compiled
from .registry import Backend
from .replay.region import compile_replayed


def compile_graph(capture: FxCapture, backend: Backend) -> Compiled:
    """As `compiling.compile_graph`; what a replayed backend gives has `notes()` for `explain`."""
    if backend.replay is None:
        return compiling.compile_graph(capture, backend)
    return compile_replayed(capture, backend, compiling.compile_graph)
