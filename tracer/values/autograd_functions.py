"""Custom autograd functions: `Function.apply` is one node of the graph, which calls the class for real.

What `forward` and `backward` do is read once and then forgotten, guards apart: they must do nothing but compute with
what they are given, since a compiler traces them once and the guards must cover what they read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from .. import torch_private
from ..errors import CannotUndo, GraphBreak, OperatorFailed
from ..graph.opaque import application
from .base import Mutable, Raised, Value, next_serial
from .bodies import refuse_effects, tensors_in
from .classes import ClassValue
from .constants import ConstantValue, constant
from .lookup import class_attribute, find
from .objects import known
from .tensors import TensorValue, call_graph
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

Function = torch.autograd.Function
#: methods of `ctx` that only tell autograd something
_TELLING = frozenset(["mark_dirty", "mark_non_differentiable", "set_materialize_grads", "save_for_forward"])


class FunctionContext(Mutable):
    """The `ctx` of one call; `content` are the attributes that were set on it."""

    __slots__ = ("cls", "inputs")

    kind: ClassVar[str] = "ctx of an autograd function"
    has_identity = True

    def __init__(self, cls: type, inputs: list[Value]) -> None:
        super().__init__({"saved_tensors": TupleValue([])})
        self.cls, self.inputs = cls, inputs

    def getattr(self, ctx: Context, name: str) -> Value:
        if name in self.content:
            return self.content[name]
        if name in _TELLING or name == "save_for_backward":
            return ContextMethod(self, name)
        if name == "needs_input_grad":
            return TupleValue([constant(_needs_grad(ctx, value)) for value in self.inputs])
        self.refuse("custom autograd function is called", f".{name}")

    def setattr(self, ctx: Context, name: str, value: Value) -> None:
        if hasattr(torch.autograd.function.FunctionCtx, name) or name in ("saved_tensors", "needs_input_grad"):
            self.refuse("custom autograd function is called", f"setting .{name}")
        ctx.change(self, {**self.content, name: value})


class ContextMethod(Value):
    __slots__ = ("context", "name")

    kind: ClassVar[str] = "method of the ctx of an autograd function"

    def __init__(self, context: FunctionContext, name: str) -> None:
        super().__init__()
        self.context, self.name = context, name

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.name == "save_for_backward":
            if not all(isinstance(v, TensorValue) or _is_none(v) for v in map(ctx.real, args)):
                self.refuse("custom autograd function is called", "saving what is no tensor")
            ctx.change(self.context, {**self.context.content, "saved_tensors": TupleValue(args)})
        return constant(None)


def _is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None


def _needs_grad(ctx: Context, value: Value) -> bool:
    real = ctx.real(value)
    return isinstance(real, TensorValue) and real.fake.requires_grad


def apply(ctx: Context, cls_value: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`cls.apply(*args)`"""
    cls_value = ctx.real(cls_value)
    if kwargs or not isinstance(cls_value, ClassValue):
        raise GraphBreak("custom autograd function is called", f"{cls_value}, with keyword arguments")
    cls: Any = cls_value.cls
    if cls is torch_private.HOOKED_BY_NODE:
        raise GraphBreak("custom autograd function is called", f"{cls.__qualname__}, for its node, which gets a hook")
    if cls.__dict__.get("generate_vmap_rule") or not issubclass(cls, Function):
        raise GraphBreak("custom autograd function is called", cls.__qualname__)
    _read(ctx, cls_value, cls, args)
    return call_graph(ctx, application(cls), args, {})


def _read(ctx: Context, cls_value: ClassValue, cls: type, args: list[Value]) -> None:
    """Interpret forward and backward, keep the guards and forget the rest; GraphBreak where that is not safe."""
    for argument in args:
        ctx.real(argument)
    mark, inputs, written = ctx.mark(), len(ctx.graph.inputs), len(ctx.changes_made)
    start, name = next_serial(), cls.__qualname__
    fixed, ctx.numbers_are_fixed = ctx.numbers_are_fixed, True
    ctx.open_bodies += 1
    try:
        _run(ctx, cls_value, cls, args)
        refuse_effects(ctx, start, written, name)
        if len(ctx.graph.inputs) != inputs:
            raise GraphBreak("custom autograd function is called", f"{name} uses a tensor that it is not given")
        guards = list(ctx.guards)[mark[1] :]
        ctx.rollback(mark)
    except GraphBreak as graph_break:
        reason = f"{name}: {graph_break.title}: {graph_break.details}"
        if graph_break.title == "custom autograd function is called":
            reason = graph_break.details
        raise GraphBreak("custom autograd function is called", reason) from graph_break
    except (CannotUndo, Raised, OperatorFailed) as error:
        raise GraphBreak("custom autograd function is called", f"{name}: {error}") from error
    finally:
        ctx.numbers_are_fixed = fixed
        ctx.open_bodies -= 1
    for guard in guards:
        ctx.guards.add(guard.kind, guard.source, guard.expected, guard.line)


def _run(ctx: Context, cls_value: ClassValue, cls: type, args: list[Value]) -> None:
    """What autograd does at a call, and at the backward pass of its results."""
    context = ctx.born(FunctionContext(cls, args))
    recording = torch.is_grad_enabled() and any(_needs_grad(ctx, argument) for argument in args)
    ctx.graph.set_state("grad", False)
    combined = class_attribute(ctx, cls, "setup_context") is find(Function, "setup_context")
    forward = ctx.real(cls_value.getattr(ctx, "forward"))
    if combined:
        result = ctx.real(forward.call(ctx, [context, *args], {}))
    else:
        result = ctx.real(forward.call(ctx, list(args), {}))
        setup = ctx.real(cls_value.getattr(ctx, "setup_context"))
        setup.call(ctx, [context, TupleValue(args), result], {})
    if not recording:
        return
    outputs = result.items(ctx) if isinstance(result, TupleValue) else [result]
    gradients: list[Value] = []
    for output in outputs:
        tensors = tensors_in(ctx, output) if isinstance(ctx.real(output), TensorValue) else []
        gradients.append(call_graph(ctx, torch.ones_like, [tensors[0]], {}) if tensors else constant(None))
    if class_attribute(ctx, cls, "vjp") is not find(Function, "vjp"):
        raise GraphBreak("custom autograd function is called", f"{cls.__qualname__} has a vjp()")
    backward = ctx.real(cls_value.getattr(ctx, "backward"))
    backward.call(ctx, [context, *gradients], {})


@known(*{getattr(Function.apply, "__func__", Function.apply)})
def apply_written_in_python(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Before torch 2.14 `apply` is a class method written in Python."""
    return apply(ctx, args[0], args[1:], kwargs)


ClassValue.apply_autograd_function = staticmethod(apply)  # type: ignore[method-assign, assignment]
