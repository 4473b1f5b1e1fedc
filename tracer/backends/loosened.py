"""`linear(x, w, b)` as `linear(x, w) + b`, for Inductor on the CPU.

There a product with a bias is the bias copied into the result and then added to: one more operator than the product
alone, which cannot be fused with anything. The sum of its own becomes part of the kernel behind it, and where there is
none costs no more than the copy did (measured for one to 512 rows, widths 64 to 3072). In other precisions the product
takes the bias as it comes. It is written as `linear(x, w) - -b`, which is the same to the last bit, because Inductor
would make one operator of a product and a sum again.
"""

from __future__ import annotations

import operator

import torch
import torch.fx

from ..graph.fx_capture import FxCapture

_PRECISIONS = (torch.float32, torch.float64)


def loosened(capture: FxCapture) -> torch.fx.GraphModule:
    """The graph's module itself where there is nothing to be done."""
    if capture.records_autograd or capture.changes_state or torch.is_autocast_enabled("cpu"):
        return capture.module
    if not any(_is_loose(node) for node in capture.graph.nodes):
        return capture.module
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(capture.graph, {}))
    for node in list(graph.nodes):
        if _is_loose(node):
            x, weight, bias = _arguments(node)
            with graph.inserting_before(node):
                product = graph.call_function(node.target, (x, weight))
                negative = graph.call_function(operator.neg, (bias,))
            node.target, node.args, node.kwargs = operator.sub, (product, negative), {}
    return torch.fx.GraphModule(capture.module, graph)


def _arguments(node: torch.fx.Node) -> list[object]:
    named = dict(zip(("input", "weight", "bias"), node.args, strict=False)) | node.kwargs
    return [named.get(name) for name in ("input", "weight", "bias")]


def _is_loose(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or node.target is not torch.nn.functional.linear:
        return False
    fakes = [given.meta.get("example_value") for given in _arguments(node) if isinstance(given, torch.fx.Node)]
    if len(fakes) < 3 or not all(isinstance(fake, torch.Tensor) for fake in fakes):
        return False
    x, weight, bias = fakes
    plain = x.device.type == "cpu" and x.dtype in _PRECISIONS and weight.dtype == bias.dtype == x.dtype
    return plain and weight.dim() == 2 and bias.dim() == 1 and bias.shape[0] == weight.shape[0]
