"""Calls whose result is a Python object that only later calls of the same graph are given.

Such an object never leaves the graph. It lives between two nodes, as it would between two lines of the program, and a
compiler that traces the graph runs both calls and sees what tensors come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..signals import raised_by_signal
from .arguments import convert
from .bodies import Body, Handle
from .builder import GraphBuilder
from .failures import explained
from .fakes import Observed
from .fx_capture import GraphTensor
from .opaque import hooked, unhooked


def record_handle(builder: GraphBuilder, target: Callable[..., Any], args: Sequence[Any]) -> Handle:
    """Record a call that computes on tensors and gives such an object."""
    builder._grad_was_on = builder._grad_was_on or torch.is_grad_enabled()
    fake_args, node_args = convert(tuple(args), builder._symbol)
    observed = builder.fake_mode.observed = Observed()
    try:
        with builder.fake_mode, builder.around_calls():
            result = target(*fake_args)
    except Exception as error:
        builder._note_writes(observed, (fake_args, {}))
        if raised_by_signal(error):
            raise
        raise explained(error, target) from error
    node = builder.graph.create_node("call_function", target, node_args, {})
    builder._nodes.append(node)
    if observed.anything and builder._note(observed, (fake_args, {})):
        builder._effects.append(node)
    handle = node.meta["handle"] = Handle(node, result)
    return handle


def record_hook(builder: GraphBuilder, tensor: GraphTensor, body: Body) -> Handle:
    """Record that the body is called with the tensor's gradient. The fake tensor gets no hook: it has no backward."""
    free = [free.node for free in body.free]
    return Handle(builder._effect_node(hooked, (tensor.node, body.node, free)), None)


def record_end_of_hook(builder: GraphBuilder, handle: Handle) -> None:
    builder._effect_node(unhooked, (handle.node,))
