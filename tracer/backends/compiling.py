"""Compile one captured graph with one backend.

What a call of the result costs beside the kernels, by backend (see tests/tracer/test_backends.py for how it was found):
`eager` is the bound `forward` that FX wrote; `inductor` has the straight way (straight.py); the rest return what the
backend returned, without the wrapper by which torch.compile keeps TorchDynamo out of it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from .. import torch_inductor, torch_private
from ..errors import BackendFailed
from ..graph.fx_capture import FxCapture
from ..random_state import RandomState
from .fresh import with_fresh_results
from .loosened import loosened
from .plain import plain
from .registry import Backend
from .straight import StraightCall
from .straight_training import StraightTraining

Compiled = Callable[..., Sequence[torch.Tensor]]

#: Inductor keeps state in module globals while it compiles
_lock = threading.RLock()


def compile_graph(capture: FxCapture, backend: Backend) -> Compiled:
    """A callable that takes the capture's inputs as positional arguments and returns its outputs, in a tuple or list.

    Raises BackendFailed, naming the backend, for whatever goes wrong in it.
    """
    try:
        if backend.plain or not capture.operators:
            return plain(capture)
        call: Compiled = torch_private.without_wrappers(_compiled(capture, backend))
        return _straight(capture, call) if backend.merges else call
    finally:
        capture.release()


def _straight(capture: FxCapture, layered: Compiled) -> Compiled:
    """The same, by the straight way where there may be one."""
    if capture.records_autograd and any(output.requires_grad for output in capture.outputs):
        return StraightTraining(capture, layered)
    graph = torch_inductor.compiled_below(layered)
    return with_fresh_results(capture, layered) if graph is None else StraightCall(capture, layered, graph)


def _compiled(capture: FxCapture, backend: Backend) -> Compiled:
    examples, grad_enabled = capture.examples(), torch.is_grad_enabled()
    layouts = {key: (layout.sizes, layout.strides) for key, layout in capture.layouts.items()}
    hooks = torch_private.without_saved_tensor_hooks()  # AOTAutograd would make some hooks part of the graph
    with _lock, _same_random_state(), hooks, torch_private.compiling(capture.shape_env, layouts):
        try:
            compiled = backend.compiler(loosened(capture) if backend.merges else capture.module, examples)
        except Exception as error:
            raise BackendFailed(backend.name, error) from error
        finally:
            if torch.is_grad_enabled() != grad_enabled:
                torch_private.set_grad_enabled(grad_enabled)
    if not callable(compiled):
        raise BackendFailed(backend.name, TypeError(f"it returned {compiled!r}, which cannot be called"))
    return compiled


@contextmanager
def _same_random_state() -> Iterator[None]:
    """Backends draw random numbers (to try kernels out, say): the user's program must not see that."""
    python, state = random.getstate(), RandomState()
    try:
        yield
    finally:
        random.setstate(python)
        state.give_back()
