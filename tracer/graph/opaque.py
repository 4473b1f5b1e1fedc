"""Functions that graphs call as a whole: torch's own with a body (see bodies.py), and custom autograd functions.

Without a compiler they do just what the program wrote. A compiler that traces the graph finds torch's own Python there
and traces through it; for checkpoints, torch has an operator that tells the compiler what is to be computed again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils.checkpoint import checkpoint

from ..torch_private import (
    FakeTensor,
    indexing_by_tensors,
    is_functional,
    tag_activation_checkpoint,
    tree_leaves,
    tree_map,
)

TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": torch.func.grad, "grad_and_value": torch.func.grad_and_value, "vmap": torch.func.vmap,
    "jacrev": torch.func.jacrev, "jacfwd": torch.func.jacfwd, "hessian": torch.func.hessian,
}  # fmt: skip


def checkpointed(body: torch.fx.GraphModule, count: int, options: dict[str, Any], *tensors: torch.Tensor) -> Any:
    """torch.utils.checkpoint.checkpoint of the body; the first `count` tensors are the arguments it was given."""
    given, free = tensors[:count], tensors[count:]
    if any(is_functional(tensor) for tensor in tensors):
        recorded = not options["use_reentrant"] or any(tensor.requires_grad for tensor in given)
        with torch.set_grad_enabled(recorded and torch.is_grad_enabled()):
            result = tag_activation_checkpoint(body, *tensors, use_reentrant=False)
        return _as_reentrant(result) if options["use_reentrant"] else result
    if any(isinstance(tensor, FakeTensor) for tensor in tensors):
        options = {**options, "preserve_rng_state": False}  # a fake tensor's kernels draw no numbers
    return checkpoint(lambda *arguments: body(*arguments, *free), *given, **options)


def _as_reentrant(result: Any) -> Any:
    """The reentrant kind records gradients of tensors alone or in a tuple, not of those in other structures."""
    if isinstance(result, torch.Tensor):
        return result
    if isinstance(result, tuple):
        return tuple(item if isinstance(item, torch.Tensor) else _detached(item) for item in result)
    return _detached(result)


def _detached(value: Any) -> Any:
    return tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, value)


def transformed(
    body: torch.fx.GraphModule, name: str, options: dict[str, Any], args: Sequence[Any], free: Sequence[torch.Tensor]
) -> Any:
    """A transform of torch.func of the body, called with these arguments."""
    return TRANSFORMS[name](_of_structures(body, free), **options)(*args)


def transformed_indexing(*arguments: Any) -> Any:
    """The same where the program has entered the mode in which `x[i]` by tensors reads no value."""
    with indexing_by_tensors():
        return transformed(*arguments)


def jvp(body: torch.fx.GraphModule, primals: Sequence[Any], tangents: Sequence[Any], free: Sequence[Any]) -> Any:
    return torch.func.jvp(_of_structures(body, free), tuple(primals), tuple(tangents))


def begin_vjp(
    body: torch.fx.GraphModule, has_aux: bool, primals: Sequence[Any], free: Sequence[torch.Tensor]
) -> tuple[Any, ...]:
    """What torch.func.vjp gives: the results, the function of their gradients, and with `has_aux` a third."""
    return torch.func.vjp(_of_structures(body, free), *primals, has_aux=has_aux)


def vjp_results(begun: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors in that."""
    return (begun[0], *begun[2:])


def vjp_gradients(begun: tuple[Any, ...], cotangents: Any, options: dict[str, Any]) -> Any:
    return begun[1](_as_written(cotangents), **options)


def _as_written(value: Any) -> Any:
    """FX may hand on lists and dicts of a graph as immutable ones, which functorch tells from others."""
    if isinstance(value, dict):
        return {key: _as_written(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return (list if isinstance(value, list) else tuple)(_as_written(item) for item in value)
    return value


def hooked(tensor: torch.Tensor, body: torch.fx.GraphModule, free: Sequence[torch.Tensor]) -> Any:
    """`tensor.register_hook` of the body. Nothing where a compiler found that nobody needs gradients."""
    return tensor.register_hook(lambda grad: body(grad, *free)) if tensor.requires_grad else None


def unhooked(handle: Any) -> None:
    if handle is not None:
        handle.remove()


def _of_structures(body: torch.fx.GraphModule, free: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """The body as a function of the structures that the program gave; it takes their tensors alone."""

    def function(*arguments: Any) -> Any:
        tensors = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
        return body(*tensors, *free)

    return function


_applied: weakref.WeakKeyDictionary[type, Callable[..., Any]] = weakref.WeakKeyDictionary()


def application(cls: type[torch.autograd.Function]) -> Callable[..., Any]:
    """`cls.apply`, as a function by the name of the class that keeps the class from nothing."""
    known = _applied.get(cls)
    if known is not None:
        return known
    reference = weakref.ref(cls)

    def apply(*args: Any) -> Any:
        alive: Any = reference()
        if alive is None:
            raise RuntimeError("the autograd function of this graph is gone")
        return alive.apply(*args)

    apply.__name__ = cls.__name__ if cls.__name__.isidentifier() else "apply"
    apply.__qualname__ = cls.__qualname__
    _applied[cls] = apply
    return apply
