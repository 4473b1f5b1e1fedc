"""Torch function modes that a program enters: the one that torch's own create_block_mask needs, and no other.

Under `TransformGetItemToIndex` indexing by tensors reads no value, so that functions of indices can be mapped by vmap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import GraphBreak
from ..torch_private import indexing_by_tensors, pop_function_mode, push_function_mode
from .base import Value
from .objects import known

if TYPE_CHECKING:
    from ..interpreter.context import Context

#: its module, which is loaded late, and its name
_INDEXING = ("torch._dynamo._trace_wrapped_higher_order_op", "TransformGetItemToIndex")


@known(push_function_mode)
def push_mode(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    cls = ctx.real(args[0]).python_type(ctx)
    if (cls.__module__, cls.__qualname__) != _INDEXING:
        raise GraphBreak("torch mode is active", f"{cls.__qualname__} is entered")
    before = ctx.graph.around_calls
    ctx.graph.around_calls = indexing_by_tensors
    ctx.function_modes.append((args[0], before))
    ctx.modes.append(ctx.root_index())

    def undo() -> None:
        ctx.modes.pop()
        ctx.function_modes.pop()
        ctx.graph.around_calls = before

    ctx.on_rollback(undo)
    return args[0]


@known(pop_function_mode)
def pop_mode(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not ctx.function_modes:
        raise GraphBreak("torch mode is active", "a mode is left that was entered outside")
    entered, at = ctx.function_modes.pop(), ctx.modes.pop()
    ctx.graph.around_calls = entered[1]

    def undo() -> None:
        ctx.modes.append(at)
        ctx.function_modes.append(entered)
        ctx.graph.around_calls = indexing_by_tensors

    ctx.on_rollback(undo)
    return entered[0]
