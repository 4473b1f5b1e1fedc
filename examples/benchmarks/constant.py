"""A backend that costs nothing: what is left of a call is the cost of the tool around it.

From the captured graph's own metadata it makes the output tensors once, and returns them at every call. It works for
torchgraft and for torch.compile alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def constant_backend(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    results = tuple(ready(node) for node in output.args[0])

    def run(*inputs: Any) -> tuple[Any, ...]:
        return results

    return run


def ready(node: Any) -> Any:
    """A tensor such as the node's; what is no node of the graph is a constant itself."""
    if not isinstance(node, torch.fx.Node):
        return node
    value = node.meta["val"] if "val" in node.meta else node.meta["example_value"]
    if not isinstance(value, torch.Tensor):
        return value
    tensor = torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype, device=value.device).fill_(0)
    return tensor.requires_grad_(value.requires_grad)
