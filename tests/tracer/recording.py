"""Record a plain Python function into a GraphBuilder, without the interpreter: what its tests need of it, and no more.

The function takes a `Torch` first, by which it changes torch's state: on real tensors it does so, in a recording the
change becomes nodes. Everything else reaches the builder through `__torch_function__`.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tracer.graph.builder import FxCapture, GraphBuilder, GraphTensor


class Torch:
    """State changes and constructors on real tensors."""

    def call(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    @contextlib.contextmanager
    def grad(self, enabled: bool) -> Iterator[None]:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(enabled)
        yield
        torch.set_grad_enabled(before)

    @contextlib.contextmanager
    def mode(self, kind: str, *arguments: Any) -> Iterator[None]:
        if kind == "inference_mode":
            with torch.inference_mode(*arguments):
                yield
        else:
            device, dtype, enabled, cache = arguments
            with torch.autocast(device, dtype, enabled, cache):
                yield


class RecordingTorch(Torch):
    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder

    def call(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return call(self.builder, target, args, kwargs)

    @contextlib.contextmanager
    def grad(self, enabled: bool) -> Iterator[None]:
        before = torch.is_grad_enabled()
        self.builder.set_state("grad", enabled)
        yield
        self.builder.set_state("grad", before)

    @contextlib.contextmanager
    def mode(self, kind: str, *arguments: Any) -> Iterator[None]:
        entered = self.builder.set_state(kind, *arguments)
        assert entered is not None
        yield
        self.builder.leave_state(entered)


class Recorded:
    """Stands for a tensor of the graph in the recorded function."""

    def __init__(self, builder: GraphBuilder, tensor: GraphTensor) -> None:
        self.builder, self.tensor = builder, tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        builder = next(item.builder for item in _flat((args, kwargs or {})) if isinstance(item, Recorded))
        return call(builder, func, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "device", "is_leaf", "requires_grad", "ndim"):
            return getattr(self.tensor.fake, name)
        if callable(getattr(torch.Tensor, name)):
            return lambda *args, **kwargs: call(self.builder, name, (self, *args), kwargs, method=True)
        return call(self.builder, getattr, (self, name))

    def __setitem__(self, key: Any, value: Any) -> None:
        call(self.builder, operator.setitem, (self, key, value))


def _operator(name: str, function: Callable[..., Any]) -> None:
    setattr(Recorded, name, lambda self, *args: call(self.builder, function, (self, *args)))


_OPERATORS = """
    add sub mul truediv floordiv mod pow matmul neg invert and_ or_ xor lt gt le ge eq ne getitem iadd isub imul
"""
for _name in _OPERATORS.split():
    _operator(f"__{_name.rstrip('_')}__", getattr(operator, _name))
_operator("__rmul__", lambda a, b: b * a)
_operator("__radd__", lambda a, b: b + a)
_operator("__rsub__", torch.rsub)
Recorded.__hash__ = object.__hash__  # type: ignore[method-assign]


def call(builder: GraphBuilder, target: Any, args: Any, kwargs: Any = None, *, method: bool = False) -> Any:
    result = builder.call(target, _unwrapped(tuple(args)), _unwrapped(dict(kwargs or {})), method=method)
    return _wrapped(builder, result)


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Recorded):
        return value.tensor
    if type(value) in (list, tuple):
        return type(value)(_unwrapped(item) for item in value)
    if type(value) is dict:
        return {key: _unwrapped(item) for key, item in value.items()}
    if type(value) is slice:
        return slice(_unwrapped(value.start), _unwrapped(value.stop), _unwrapped(value.step))
    return value


def _wrapped(builder: GraphBuilder, value: Any) -> Any:
    if isinstance(value, GraphTensor):
        return Recorded(builder, value)
    if type(value) in (list, tuple):
        return type(value)(_wrapped(builder, item) for item in value)
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return type(value)([_wrapped(builder, item) for item in value])
    return value


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, dict):
        yield from _flat(list(value.values()))
    else:
        yield value


def record(function: Callable[..., Any], inputs: list[torch.Tensor]) -> FxCapture:
    """The function's graph. It returns tensors, in a tuple or list or alone."""
    with GraphBuilder() as builder:
        tensors = [Recorded(builder, builder.add_input(tensor, f"x[{i}]")) for i, tensor in enumerate(inputs)]
        result = function(RecordingTorch(builder), *tensors)
        return builder.finish([item.tensor for item in outputs_of(result)])


def outputs_of(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
