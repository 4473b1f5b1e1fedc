"""Functions that are given to functions of torch's and that become graphs of their own: checkpoints, torch.func, ...

The function is interpreted like any call, and what it recorded is then cut out of the graph. It must do nothing but
compute: whatever it changes that was there before would be changed once at capture and not when the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import GraphBreak
from ..graph.bodies import Body, OpenBody, graph_tensors
from ..graph.builder import GraphTensor
from .base import Mutable, Value, next_serial
from .constants import ConstantValue
from .mappings import DictValue, new_dict
from .sequences import ListValue
from .tensors import TensorValue
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context



class Captured(NamedTuple):
    """A body, what the function gave, and the tensors in that, None for those that were there before."""

    body: Body
    result: Value
    outputs: list[TensorValue | None]


def capture_body(
    ctx: Context,
    run: Callable[[OpenBody], Value],
    what: str,
    *,
    first: Sequence[GraphTensor] = (),
    other_mode: bool = True,
    handles: bool = False,
) -> Captured:
    """Run something (it interprets the function's call) and take what it recorded out of the graph.

    The body returns the function's result as the real structure that it is. `first`, `handles`: see OpenBody.close.
    `other_mode`: torch may call the function in another grad mode than this one.
    A break inside of the function is one of this call, since the function runs plainly then.
    """
    start, changes, asked = next_serial(), len(ctx.changes_made), ctx.asked_grad_mode
    opened = OpenBody(ctx.graph)
    ctx.open_bodies += 1
    try:
        result = ctx.real(run(opened))
        made = opened.tensors_made()
    except GraphBreak as graph_break:
        graph_break.stack = ctx.user_stack()
        raise
    finally:
        ctx.open_bodies -= 1
        opened.leave()
    refuse_effects(ctx, start, changes, what)
    if other_mode and ctx.asked_grad_mode and not asked:
        raise GraphBreak("function given to torch has effects", f"{what} asks for the grad mode")
    returned = structure(ctx, result)
    outputs = [tensor if id(tensor.graph_tensor) in made else None for tensor in tensors_in(ctx, result)]
    return Captured(opened.close(returned, first, handles=handles), result, outputs)


def refuse_effects(ctx: Context, start: int, changes: int, what: str) -> None:
    """Raise GraphBreak where something was changed since that was there before, unless it was changed back."""
    first: dict[int, tuple[Mutable, Any]] = {}
    for value, before in ctx.changes_made[changes:]:
        if value.source is not None or value.serial < start:
            first.setdefault(id(value), (value, before))
    for value, before in first.values():
        if not _is_as_before(ctx, value, before):
            raise GraphBreak("function given to torch has effects", f"{what} changes {value}")


def _is_as_before(ctx: Context, value: Mutable, before: Any) -> bool:
    if not isinstance(value, DictValue) or not isinstance(before, dict):
        return value.content is before
    for key in value.content.keys() | before.keys():
        entry = value.content.get(key) or before[key]
        base = None if value.base is None else value._from_base(ctx, key, entry.key)
        was, now = (content[key].item if key in content else base for content in (before, value.content))
        if was is not now and (was is None or now is None or ctx.real(was) is not ctx.real(now)):
            return False
    return True


def tensors_in(ctx: Context, value: Value) -> list[TensorValue]:
    """The tensors in a plain structure, in the order in which torch lists its leaves."""
    value = ctx.real(value)
    if isinstance(value, TensorValue):
        return [value]
    if isinstance(value, ConstantValue):
        return []
    return [tensor for item in _items(ctx, value) for tensor in tensors_in(ctx, item)]


def _items(ctx: Context, value: Value) -> list[Value]:
    if isinstance(value, (TupleValue, ListValue)):
        return list(value.items(ctx))
    if type(value) is DictValue:
        return [entry.item for entry in value.entries(ctx).values()]
    raise GraphBreak("result cannot be in a graph", str(value), "give back tensors, and tuples, lists or dicts of them")


def structure(ctx: Context, value: Value) -> Any:
    """The real structure with a GraphTensor for each tensor."""
    value = ctx.real(value)
    if isinstance(value, TensorValue):
        return value.graph_tensor
    if isinstance(value, ConstantValue):
        return value.as_python(ctx)
    if isinstance(value, TupleValue) and value.cls is tuple:
        return tuple(structure(ctx, item) for item in value.items(ctx))
    if isinstance(value, ListValue):
        return [structure(ctx, item) for item in value.items(ctx)]
    if type(value) is DictValue:
        entries = value.entries(ctx).values()
        return {ctx.real(entry.key).as_python(ctx): structure(ctx, entry.item) for entry in entries}
    raise GraphBreak("argument cannot be in a graph", str(value))


def rebuilt(ctx: Context, value: Value, change: Callable[[TensorValue], Value]) -> Value:
    """The same structure with other tensors."""
    value = ctx.real(value)
    if isinstance(value, TensorValue):
        return change(value)
    if isinstance(value, ConstantValue):
        return value
    if isinstance(value, TupleValue) and value.cls is tuple:
        return ctx.born(TupleValue([rebuilt(ctx, item, change) for item in value.items(ctx)]))
    if isinstance(value, ListValue):
        return ctx.born(ListValue([rebuilt(ctx, item, change) for item in value.items(ctx)]))
    if type(value) is DictValue:
        entries = value.entries(ctx).values()
        return ctx.born(new_dict(ctx, [(entry.key, rebuilt(ctx, entry.item, change)) for entry in entries]))
    raise GraphBreak("argument cannot be in a graph", str(value))


def body_tensor(ctx: Context, opened: OpenBody, fake: Any) -> TensorValue:
    """An argument of the body."""
    argument = opened.argument(fake)
    return ctx.tensor(argument, TensorValue)  # type: ignore[return-value]


def take_outputs(ctx: Context, captured: Captured, results: Any) -> Value:
    """The function's own result, its tensors computed by a call of the body that gave `results`."""
    for value, tensor in zip(captured.outputs, graph_tensors(results), strict=True):
        if value is not None and value.graph_tensor is not tensor:
            ctx.move_tensor(value, tensor)
    return captured.result


__all__ = ["Captured", "body_tensor", "capture_body", "rebuilt", "structure", "take_outputs"]
