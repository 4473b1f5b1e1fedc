"""Does a graph keep the rows of its batch apart? Then rows that are only there to fill it up change no other row.

A proof by operators: each tensor of the graph either is *batched* (its first size is the batch, no other one depends on
it, and row i comes of the rows i of what it is computed from alone) or comes of nothing batched. Each operator on
batched tensors must be one of those below, used so that this holds. What is not known here is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx

from ...torch_symbols import SIZE_OF, SYMBOLIC, Symbol, expression, symbols_in

_POINTWISE = """
    add sub mul truediv div neg pow relu relu_ gelu silu sigmoid tanh exp log log1p sqrt rsqrt abs sin cos erf clamp
    softplus leaky_relu elu hardtanh relu6 hardswish hardsigmoid mish where maximum minimum eq ne lt le gt ge square
    reciprocal sign floor ceil round logical_and logical_or logical_not float half bfloat16 double contiguous clone
    detach to type_as
""".split()
_ALONG_A_DIMENSION = "softmax log_softmax sum mean amax amin argmax argmin max min prod logsumexp cumsum".split()
_CONVOLUTIONS = {"conv1d": 3, "conv2d": 4, "conv3d": 5}
_POOLS = {"max_pool2d": 4, "avg_pool2d": 4, "adaptive_avg_pool2d": 4, "adaptive_max_pool2d": 4}
_RESHAPES = frozenset(["view", "reshape", "flatten", "unflatten", "expand"])


class _Graph:
    """What is known of its tensors while it is walked."""

    def __init__(self, symbol: Symbol) -> None:
        self.symbol = symbol

    def depends(self, size: Any) -> bool:
        return isinstance(size, SYMBOLIC) and self.symbol in symbols_in(expression(size))

    def is_batched(self, value: Any) -> bool:
        fake = fake_of(value)
        return fake is not None and fake.dim() > 0 and self.depends(fake.shape[0])

    def has_rows_first(self, fake: torch.Tensor) -> bool:
        """The batch is its first size as it is, and nothing else depends on it: rows lie one behind the other."""
        first = fake.shape[0] if fake.dim() else None
        own = isinstance(first, SYMBOLIC) and expression(first) == self.symbol
        return own and not any(map(self.depends, (*fake.shape[1:], *fake.stride())))

    def mentions(self, fake: torch.Tensor) -> bool:
        return any(map(self.depends, (*fake.shape, *fake.stride())))


def fake_of(value: Any) -> torch.Tensor | None:
    found = value.meta.get("example_value") if isinstance(value, torch.fx.Node) else None
    return found if isinstance(found, torch.Tensor) else None


Rule = Callable[[_Graph, torch.fx.Node, list[Any]], bool]


def why_rows_meet(graph: torch.fx.Graph, symbol: Symbol) -> str | None:
    """None if they never do."""
    known, sizes = _Graph(symbol), set()
    for node in graph.nodes:
        fake = fake_of(node)
        if fake is not None and known.mentions(fake) and not known.has_rows_first(fake):
            return f"the batch is not the first size of {node.name}"
        if not node.op.startswith("call"):
            continue
        name = _name(node.target)
        if node.target is SIZE_OF:
            if (given := fake_of(node.args[0])) is not None and known.depends(given.shape[node.args[1]]):
                sizes.add(node)
            continue
        inputs = list(node.all_input_nodes)
        if sizes.intersection(inputs) and name not in _RESHAPES:
            return f"{name or node.name} computes with the size of the batch"
        if any(map(known.is_batched, _with_parts(inputs))):
            rule = _RULES.get(name)
            if rule is None or len(node.args) < _POSITIONAL.get(name, 1) or not rule(known, node, list(node.args)):
                return f"{name or node.name} is not known to keep the rows of a batch apart"
        elif sizes.intersection(inputs):
            return f"{name or node.name} makes something of the size of the batch"
    return None


def _name(target: Any) -> str:
    """Of a method, or of one of torch's or Python's own functions; a user's may have the same name."""
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", "")
    return name if any(getattr(owner, name, None) is target for owner in _OWNERS) else ""


_OWNERS = (torch, torch.nn.functional, operator)


def _with_parts(nodes: list[torch.fx.Node]) -> Iterator[torch.fx.Node]:
    """A node with several results has no fake itself: what it was computed from stands for it."""
    for node in nodes:
        yield node
        if fake_of(node) is None and node.op.startswith("call"):
            yield from _with_parts(list(node.all_input_nodes))


# rules ----------------------------------------------------------------------------------------------------------------
def _pointwise(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    result = fake_of(node)
    if result is None or (node.kwargs.get("rounding_mode") and not result.is_floating_point()):
        return False  # rows of zeros would divide by zero
    for given in node.all_input_nodes:
        fake = fake_of(given)
        if fake is None:
            return False
        if known.is_batched(given):
            if fake.dim() != result.dim():
                return False
        elif fake.dim() == result.dim() and fake.shape[0] != 1:
            return False
    return known.is_batched(node)


def _only_first_batched(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    others = [given for given in node.all_input_nodes if given is not args[0]]
    return known.is_batched(args[0]) and not any(map(known.is_batched, others))


def _linear(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    fake = fake_of(args[0])
    return fake is not None and fake.dim() >= 2 and _only_first_batched(known, node, args)


def _matmul(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    left, right = fake_of(args[0]), fake_of(args[1])
    if left is None or right is None or not known.is_batched(args[0]):
        return False
    if known.is_batched(args[1]):
        return left.dim() == right.dim() >= 3
    return left.dim() >= 2 and right.dim() <= 2


def _along(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    fake, dims = fake_of(args[0]), args[1] if len(args) > 1 else node.kwargs.get("dim")
    dims = dims if isinstance(dims, (tuple, list)) else [dims]
    if fake is None or not dims or not _only_first_batched(known, node, args):
        return False
    return all(type(dim) is int and dim % fake.dim() != 0 for dim in dims)


def _layer_norm(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    fake = fake_of(args[0])
    return fake is not None and fake.dim() > len(args[1]) and _only_first_batched(known, node, args)


def _batch_norm(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    training = args[5] if len(args) > 5 else node.kwargs.get("training", False)
    return training is False and _only_first_batched(known, node, args)


def _dropout(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    training = args[2] if len(args) > 2 else node.kwargs.get("training", True)
    return training is False and _only_first_batched(known, node, args)


def _embedding(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    max_norm = args[3] if len(args) > 3 else node.kwargs.get("max_norm")
    return max_norm is None and _only_first_batched(known, node, args)


def _of_dims(dims: int) -> Rule:
    def rule(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
        fake = fake_of(args[0])
        return fake is not None and fake.dim() == dims and _only_first_batched(known, node, args)

    return rule


def _reshape(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    """As many rows as before, each with the elements it had: memory order is kept."""
    return known.is_batched(args[0]) and known.is_batched(node)


def _dims_but_first(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    fake, result, dims = fake_of(args[0]), fake_of(node), args[1:]
    if fake is None or result is None or node.kwargs or not dims:
        return False
    count = max(fake.dim(), result.dim())
    return all(type(dim) is int and dim % count != 0 for dim in dims)


def _permute(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    dims = args[1] if len(args) > 1 and isinstance(args[1], (tuple, list)) else args[1:]
    return bool(dims) and dims[0] == 0


def _cat(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    dim = args[1] if len(args) > 1 else node.kwargs.get("dim", 0)
    fakes = [fake_of(part) for part in args[0]]
    if any(fake is None for fake in fakes) or not all(map(known.is_batched, args[0])) or type(dim) is not int:
        return False
    return all(fake is not None and dim % fake.dim() != 0 for fake in fakes)


def _split(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    fake, dim = fake_of(args[0]), args[2] if len(args) > 2 else node.kwargs.get("dim", 0)
    return fake is not None and type(dim) is int and dim % fake.dim() != 0


def _attention(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    dropout = args[4] if len(args) > 4 else node.kwargs.get("dropout_p", 0.0)
    fakes = [fake_of(part) for part in args[:3]]
    mask = args[3] if len(args) > 3 else node.kwargs.get("attn_mask")
    if mask is not None and (known.is_batched(mask) or fake_of(mask) is None):
        return False
    return dropout == 0 and all(map(known.is_batched, args[:3])) and all(f is not None and f.dim() >= 3 for f in fakes)


def _getitem(known: _Graph, node: torch.fx.Node, args: list[Any]) -> bool:
    source, key = args
    if fake_of(source) is None:  # one of several results
        return type(key) is int
    if not isinstance(key, tuple) or not key or key[0] != slice(None):
        return False
    return all(type(part) is int or isinstance(part, slice) for part in key) and known.is_batched(node)


#: how many arguments the rules read by their place, where that is more than one
_POSITIONAL = {"matmul": 2, "bmm": 2, "layer_norm": 2, "rms_norm": 2, "scaled_dot_product_attention": 3}
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_POINTWISE, _pointwise),
    **dict.fromkeys(_ALONG_A_DIMENSION, _along),
    **{name: _of_dims(dims) for name, dims in (_CONVOLUTIONS | _POOLS).items()},
    **dict.fromkeys(_RESHAPES, _reshape),
    **dict.fromkeys(("transpose", "swapaxes", "unsqueeze", "squeeze"), _dims_but_first),
    **dict.fromkeys(("split", "chunk"), _split),
    "linear": _linear, "matmul": _matmul, "bmm": _matmul, "layer_norm": _layer_norm, "rms_norm": _layer_norm,
    "batch_norm": _batch_norm, "dropout": _dropout, "embedding": _embedding, "permute": _permute, "cat": _cat,
    "scaled_dot_product_attention": _attention, operator.getitem.__name__: _getitem,
}  # fmt: skip
