"""Calls whose result is a Python object that only later calls of the same graph are given.

Such an object never leaves the graph. It lives between two nodes, as it would between two lines of the program, and a
compiler that traces the graph runs both calls and sees what tensors come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .bodies import Body, Handle
from .builder import GraphBuilder
from .fx_capture import GraphTensor
from .opaque import hooked, unhooked


def record_handle(builder: GraphBuilder, target: Callable[..., Any], args: Sequence[Any]) -> Handle:
    """Record a call that computes on tensors and gives such an object."""
    ran = builder.run_on_fakes(target, tuple(args), {})
    node = builder.write(target, ran)
    handle = node.meta["handle"] = Handle(node, ran.result)
    return handle


def record_hook(builder: GraphBuilder, tensor: GraphTensor, body: Body) -> Handle:
    """Record that the body is called with the tensor's gradient. The fake tensor gets no hook: it has no backward."""
    free = [free.node for free in body.free]
    return Handle(builder._effect_node(hooked, (tensor.node, body.node, free)), None)


def record_end_of_hook(builder: GraphBuilder, handle: Handle) -> None:
    builder._effect_node(unhooked, (handle.node,))
