"""torch.utils.checkpoint: the function becomes a body, which one node of the graph checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils import checkpoint as checkpoint_code

from ..errors import GraphBreak
from ..graph.opaque import checkpointed
from .base import Value
from .bodies import capture_body, take_outputs
from .objects import known
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

#: keyword arguments of its own that a graph can hold
_OPTIONS = frozenset(["use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop"])


@known(checkpoint_code.checkpoint)
def call_checkpoint(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    options = {name: ctx.real(value).as_python(ctx) for name, value in kwargs.items() if name in _OPTIONS}
    rest = {name: value for name, value in kwargs.items() if name not in _OPTIONS}
    context = rest.pop("context_fn", None)
    reentrant = options.get("use_reentrant")
    if type(reentrant) is not bool or not args or (reentrant and rest) or "function" in rest:
        raise GraphBreak("Python raises or warns here", "checkpoint() without use_reentrant, or called unusually")
    if context is not None and ctx.real(context).as_python(ctx) is not checkpoint_code.noop_context_fn:
        raise GraphBreak("argument cannot be in a graph", "context_fn of checkpoint()")
    if not reentrant and ctx.hook_setting is not None and ctx.hook_setting.content is not None:
        raise GraphBreak("Python raises or warns here", "checkpoint() where saved-tensor hooks are disabled")
    function, given = args[0], args[1:]
    tensors = [value.graph_tensor for value in map(ctx.real, given) if isinstance(value, TensorValue)]
    first = list(dict.fromkeys(tensors))
    what = "the function given to checkpoint()"
    try:
        captured = capture_body(
            ctx, lambda _: function.call(ctx, given, rest), what, first=first, other_mode=reentrant
        )
    except GraphBreak as graph_break:
        graph_break.in_given_function = True
        raise
    results: Any = ctx.graph.call(checkpointed, (captured.body, len(first), options, *captured.body.free))
    return take_outputs(ctx, captured, results)
