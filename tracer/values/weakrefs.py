"""Weak references: those from outside, and those that a program makes to objects from outside.

Calling one fetches the object again at each run. A reference without a callback is the same object each time it is
made, as long as the object lives, so one that a region makes is one from outside like any other. Dicts and sets of
weak references (`WeakKeyDictionary`, `WeakSet`) are looked up in by such a one.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ..guards import Kind
from ..sources import Call, Source
from .base import Value, wraps
from .builtin_registry import builtin
from .lookup import class_attribute

if TYPE_CHECKING:
    from ..interpreter.context import Context


class WeakReferenceValue(Value):
    """A `weakref.ref` object, or one of a subclass that is called like it."""

    __slots__ = ("reference",)

    kind = "weak reference"
    has_identity = True

    def __init__(self, reference: weakref.ref[Any], source: Source) -> None:
        super().__init__(source)
        self.reference = reference

    @property
    def object(self) -> weakref.ref[Any]:
        return self.reference

    def python_type(self, ctx: Context) -> type:
        return type(self.reference)

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if other is not self:
            self.refuse("operator is not supported for these types", f"{op} of")  # their objects are compared
        return None

    def key(self, ctx: Context) -> Hashable:
        """A reference hashes and compares as its object does: by identity, or this is refused."""
        obj = self.reference()
        if obj is None or type(self.reference) is not weakref.ref or not _goes_by_identity(ctx, obj):
            self.refuse("key is not supported")
        return self

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


def _goes_by_identity(ctx: Context, obj: object) -> bool:
    return (
        class_attribute(ctx, type(obj), "__eq__") is object.__eq__
        and class_attribute(ctx, type(obj), "__hash__") is object.__hash__
    )


@wraps(weakref.ref, weakref.KeyedRef)
def build_weak_reference(ctx: Context, obj: weakref.ref[Any], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    return WeakReferenceValue(obj, source)


@builtin(weakref.ref)
def ref(ctx: Context, obj: Value, callback: Value | None = None, /) -> Value:
    real = ctx.real(obj)
    referent = getattr(real, "object", None)
    if callback is not None or referent is None or real.source is None or isinstance(real, WeakReferenceValue):
        real.refuse("object is made by C code", "weakref.ref()")
    try:
        found = weakref.ref(referent)
    except TypeError as error:  # of slots, or of a class written in C: the program's own error
        ctx.raise_(TypeError(str(error)))
    return ctx.real(ctx.wrap(found, Call(ctx.hold(weakref.ref), (real.source,))))
