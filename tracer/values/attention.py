"""torch.nn.attention.sdpa_kernel: which kernels attention may use is a state that the graph enters and leaves."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Source
from ..torch_private import SDP_BACKEND
from .base import Value, wraps
from .constants import ConstantValue, constant
from .managers import ModeManager
from .mappings import new_dict
from .objects import known_once_loaded

if TYPE_CHECKING:
    from ..interpreter.context import Context


class SdpaKernel(ModeManager):
    """One call's manager. It is a generator in torch: good for one `with`."""

    __slots__ = ("used",)

    def __init__(self, backends: tuple[str, ...], set_priority: bool) -> None:
        super().__init__(contextlib._GeneratorContextManager, "sdpa_kernel", (backends, set_priority))
        self.used = False

    def __str__(self) -> str:
        return "torch.nn.attention.sdpa_kernel"

    def begin(self, ctx: Context) -> Value:
        if self.used:
            self.refuse("Python raises or warns here", "entering it twice:")
        super().begin(ctx)
        self.used = True
        ctx.on_rollback(lambda: setattr(self, "used", False))
        return ctx.born(new_dict(ctx, []))

    def end(self, ctx: Context) -> Value:
        super().end(ctx)
        return constant(False)


@known_once_loaded("torch.nn.attention", "sdpa_kernel")
def make_sdpa_kernel(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = {**dict(zip(("backends", "set_priority"), args, strict=False)), **kwargs}
    if len(args) > 2 or not {"backends"} <= given.keys() <= {"backends", "set_priority"}:
        raise GraphBreak("arguments do not fit the call", "sdpa_kernel()")
    backends = ctx.real(given["backends"])
    set_priority = ctx.real(given["set_priority"]).as_python(ctx) if "set_priority" in given else False
    several = [backends] if isinstance(backends, ConstantValue) else [ctx.real(b) for b in backends.unpack(ctx)]
    found: list[Any] = [value.as_python(ctx) for value in several]
    if type(set_priority) is not bool or any(type(backend) is not SDP_BACKEND for backend in found):
        raise GraphBreak("context manager is not supported", "sdpa_kernel() of what is no backend")
    return ctx.born(SdpaKernel(tuple(dict.fromkeys(backend.name for backend in found)), set_priority))


@wraps(SDP_BACKEND)
def build_backend(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.IS, source, obj)
    return ConstantValue(obj)
