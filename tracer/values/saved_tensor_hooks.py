"""Whether hooks on saved tensors may be set (`torch.autograd.graph.disable_saved_tensors_hooks`).

A graph is the same either way, but for what would set such hooks: a checkpoint. Setting hooks is a break.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import GraphBreak
from ..sources import Call
from ..torch_private import allow_saved_tensor_hooks, forbid_saved_tensor_hooks, saved_tensor_hooks_forbidden
from .base import Mutable, Value
from .constants import ConstantValue, constant
from .objects import known

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class HookSetting(Mutable):
    """`content` is the message with which setting hooks fails; None: it does not."""

    __slots__ = ()

    kind: ClassVar[str] = "setting of saved-tensor hooks"

    def effects(self, out: ExitWriter) -> Iterable[str]:
        if self.content == self.original:
            return []
        if self.content is None:
            return [f"{out.hold(allow_saved_tensor_hooks)}()"]
        return [f"{out.hold(forbid_saved_tensor_hooks)}({out.constant(self.content)})"]


def setting(ctx: Context) -> HookSetting:
    """As it is now; guarded to have been the same when the region begins."""
    if ctx.hook_setting is None:
        source = Call(ctx.hold(saved_tensor_hooks_forbidden), ())
        found: Any = ctx.real(ctx.wrap(saved_tensor_hooks_forbidden(), source))
        ctx.hook_setting = HookSetting(found.as_python(ctx), source)
        ctx.on_rollback(lambda: setattr(ctx, "hook_setting", None))
    return ctx.hook_setting


def _set(ctx: Context, message: str | None) -> Value:
    ctx.asked_state = True
    if ctx.has_saved_tensor_hooks:
        raise GraphBreak("global state of torch is changed", "saved-tensor hooks, of which some are set")
    ctx.change(setting(ctx), message)
    return constant(None)


@known(saved_tensor_hooks_forbidden)
def get_message(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if args or kwargs:
        raise GraphBreak("arguments do not fit the call", "_saved_tensors_hooks_get_disabled_error_message()")
    return constant(setting(ctx).content)


@known(forbid_saved_tensor_hooks)
def forbid(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    message = ctx.real(args[0]) if len(args) == 1 and not kwargs else None
    if not isinstance(message, ConstantValue) or type(message.value) is not str:
        raise GraphBreak("arguments do not fit the call", "_saved_tensors_hooks_disable()")
    return _set(ctx, message.as_python(ctx))


@known(allow_saved_tensor_hooks)
def allow(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if args or kwargs:
        raise GraphBreak("arguments do not fit the call", "_saved_tensors_hooks_enable()")
    return _set(ctx, None)


__all__ = ["HookSetting", "setting"]
