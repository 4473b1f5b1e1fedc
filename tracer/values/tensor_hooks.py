"""Hooks on tensors that the region makes: the function becomes a body, which autograd calls with the gradient.

A hook on a tensor from outside, or one whose handle the program keeps, is a break: to autograd a region that Inductor
compiled is one node, and such a hook belongs to what is around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..graph.bodies import Handle, OpenBody
from ..graph.handles import record_end_of_hook, record_hook
from .base import Value
from .bodies import body_tensor, capture_body
from .constants import ConstantValue, constant
from .tensors import METHOD_MEANINGS, TensorValue

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class HookHandle(Value):
    """What `register_hook` gives."""

    __slots__ = ("handle", "tensor")

    kind = "handle of a hook"
    has_identity = True

    def __init__(self, tensor: TensorValue, handle: Handle) -> None:
        super().__init__()
        self.tensor, self.handle = tensor, handle

    def truth(self, ctx: Context) -> bool:
        return True

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "remove":
            return RemoveHook(self)
        self.refuse("attribute cannot be read", f".{name}")

    def reconstruct(self, out: ExitWriter) -> str:
        raise _broken(self.tensor, "its handle is kept")


class RemoveHook(Value):
    """`handle.remove`"""

    __slots__ = ("owner",)

    kind = "method of the handle of a hook"

    def __init__(self, owner: HookHandle) -> None:
        super().__init__()
        self.owner = owner

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args or kwargs or ctx.open_bodies:
            self.refuse("arguments do not fit the call")
        record_end_of_hook(ctx.graph, self.owner.handle)
        return constant(None)


def _broken(tensor: TensorValue, why: str) -> GraphBreak:
    """The region ends where the tensor is made: what watches it must be between two regions."""
    graph_break = GraphBreak("hook is registered on a tensor", f".register_hook(): {why}")
    graph_break.end_behind = tensor.born
    return graph_break


def register_hook(ctx: Context, tensor: TensorValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """`tensor.register_hook(function)`"""
    if kwargs or len(args) != 1 or tensor.source is not None or not tensor.fake.requires_grad:
        return None
    function = ctx.real(args[0])
    if ctx.open_bodies:
        raise GraphBreak("function given to torch has effects", "it registers a hook")

    def run(opened: OpenBody) -> Value:
        with ctx.graph.fake_mode:
            gradient = torch.empty_like(tensor.fake, requires_grad=False)
        return function.call(ctx, [body_tensor(ctx, opened, gradient)], {})

    try:
        captured = capture_body(ctx, run, "the hook")
    except GraphBreak as graph_break:
        raise _broken(tensor, f"{graph_break.title}: {graph_break.details}") from graph_break
    result: Any = captured.result
    if not (isinstance(result, ConstantValue) and result.value is None) and not (
        isinstance(result, TensorValue) and result.fake.shape == tensor.fake.shape
    ):
        raise _broken(tensor, f"the hook gives {result}")
    return ctx.born(HookHandle(tensor, record_hook(ctx.graph, tensor.graph_tensor, captured.body)))


METHOD_MEANINGS["register_hook"] = register_hook

__all__ = ["HookHandle"]
