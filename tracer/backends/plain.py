"""The eager backend: the graph's own Python, as FX wrote it, with nothing around it unless the graph changes state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .. import torch_private
from ..graph.fx_capture import FxCapture
from ..graph.state import ENTER

Forward = Callable[..., Sequence[torch.Tensor]]
Leave = Callable[[Any], None]


class _OpenModes(threading.local):
    """Modes that the graph calls of this thread have entered and not left, innermost last."""

    def __init__(self) -> None:
        self.stack: list[tuple[Leave, Any]] = []


_open = _OpenModes()


def plain(capture: FxCapture) -> Forward:
    """The graph's `forward`: positional tensors in, a tuple out."""
    if not capture.changes_state:
        return torch_private.forward_of(capture.module)
    return _restoring(torch_private.forward_of(_with_noted_modes(capture.module)))


def _with_noted_modes(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph in which modes are entered and left by functions that keep account of them."""
    graph = torch.fx.Graph()
    result = graph.graph_copy(module.graph, {})
    graph.output(result)
    for node in graph.nodes:
        if node.target in _NOTED:
            node.target = _NOTED[node.target]
    return torch.fx.GraphModule(module, graph)


def _noted(enter: Callable[..., Any], leave: Leave) -> dict[Callable[..., Any], Callable[..., Any]]:
    def enter_noted(*arguments: Any) -> Any:
        context = enter(*arguments)
        _open.stack.append((leave, context))
        return context

    def leave_noted(context: Any) -> None:
        _open.stack.pop()
        leave(context)

    return {enter: enter_noted, leave: leave_noted}


_NOTED = {key: noted for pair in ENTER.values() for key, noted in _noted(*pair).items()}


def _restoring(forward: Forward) -> Forward:
    """A graph that fails between two changes of state must not leave the first one behind."""

    def run(*inputs: torch.Tensor) -> Sequence[torch.Tensor]:
        grad_enabled, depth = torch.is_grad_enabled(), len(_open.stack)
        try:
            return forward(*inputs)
        except BaseException:
            while len(_open.stack) > depth:
                leave, context = _open.stack.pop()
                leave(context)
            torch_private.set_grad_enabled(grad_enabled)
            raise

    return run
