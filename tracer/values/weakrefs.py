"""Weak references from outside: calling one fetches the object again at each run."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ..guards import Kind
from ..sources import Call, Source
from .base import Value, wraps

if TYPE_CHECKING:
    from ..interpreter.context import Context


class WeakReferenceValue(Value):
    """A `weakref.ref` object without a subclass's behaviour."""

    __slots__ = ("reference",)

    kind = "weak reference"
    has_identity = True

    def __init__(self, reference: weakref.ref[Any], source: Source) -> None:
        super().__init__(source)
        self.reference = reference

    def python_type(self, ctx: Context) -> type:
        return weakref.ref

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if other is not self:
            self.refuse("operator is not supported for these types", f"{op} of")  # their objects are compared
        return None

    def truth(self, ctx: Context) -> bool:
        return True

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args or kwargs:
            self.refuse("arguments do not fit the call")
        assert self.source is not None
        obj = self.reference()
        if obj is not None and not ctx.keeps_everything():
            # A region keeps what it was given, so what dies in plain Python would be found alive.
            self.refuse("weak reference is called", "something was let go before")
        return ctx.wrap(obj, Call(self.source, ()))


@wraps(weakref.ref)
def build_weak_reference(ctx: Context, obj: weakref.ref[Any], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, weakref.ref)
    return WeakReferenceValue(obj, source)
