"""Functions that are known by their identity: capture knows what they mean, and a region holds them as constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..guards import Kind
from ..sources import Attr, Item, Source
from .base import Value
from .constants import call_pure, constant
from .function_dicts import DESCRIPTIONS, describes, description

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

_DESCRIPTION = frozenset(["__name__", "__qualname__", "__module__", "__doc__"])


class HeldFunction(Value):
    """A function whose identity is guarded where the value is made. What calling it means, the subclasses say."""

    __slots__ = ("function",)

    kind = "function"

    def __init__(self, function: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.function = function

    def __str__(self) -> str:
        name = getattr(self.function, "__qualname__", None) or getattr(self.function, "__name__", self.function)
        return f"{self.kind} {name}"

    def python_type(self, ctx: Context) -> type:
        return type(self.function)

    def as_python(self, ctx: Context) -> Any:
        return self.function

    def truth(self, ctx: Context) -> bool:
        return True

    def key(self, ctx: Context) -> object:
        return self.function

    def is_same(self, ctx: Context, other: Value) -> bool:
        return isinstance(other, HeldFunction) and other.function is self.function

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if op not in ("==", "!=") or not isinstance(other, HeldFunction):
            return None
        return constant((other.function == self.function) == (op == "=="))

    def getattr(self, ctx: Context, name: str) -> Value:
        if name in _DESCRIPTION:
            return call_pure(ctx, getattr, self.function, name)
        if describes(self.function, name):
            return description(ctx, self, self.source or ctx.hold(self.function), name)
        if name in getattr(self.function, "__dict__", ()):
            attributes = Attr(self.source or ctx.hold(self.function), "__dict__")
            ctx.guard(Kind.HAS_KEY, attributes, name)
            return ctx.wrap(vars(self.function)[name], Item(attributes, name))
        if (name in DESCRIPTIONS or name == "__dict__") and not hasattr(self.function, name):
            ctx.raise_(AttributeError(f"{type(self.function).__name__!r} object has no attribute {name!r}"))
        return super().getattr(ctx, name)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.hold(self.function)
