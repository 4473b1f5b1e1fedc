"""types.SimpleNamespace and its subclasses: objects whose class is written in C, and whose state is their dict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Source
from .attributes import GENERIC_ATTRIBUTES
from .base import Value, wraps
from .builtin_registry import builtin_class_method
from .classes import ClassValue, constructs, instantiate
from .constants import call_pure, constant, plain
from .lookup import layout_root
from .objects import ObjectValue, OpaqueValue, check_creation

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class NamespaceObject(ObjectValue):
    """An instance of SimpleNamespace or of a subclass."""

    __slots__ = ()

    kind = "namespace"

    @property
    def type_name(self) -> str:
        return "types.SimpleNamespace" if self.cls is SimpleNamespace else super().type_name

    def call_c_method(self, ctx: Context, raw: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if raw in GENERIC_ATTRIBUTES:
            return super().call_c_method(ctx, GENERIC_ATTRIBUTES[raw], args, kwargs)
        if raw is SimpleNamespace.__init__ and not args:
            for name, value in kwargs.items():
                self.store_own(ctx, name, value)
            return constant(None)
        if raw in (SimpleNamespace.__eq__, SimpleNamespace.__ne__) and len(args) == 1:
            return self._compared(ctx, "==" if raw is SimpleNamespace.__eq__ else "!=", ctx.real(args[0]))
        if raw is SimpleNamespace.__repr__ and self.cls is SimpleNamespace:
            return call_pure(ctx, repr, SimpleNamespace(**plain(ctx, self._own(ctx))))
        if raw.__objclass__ is object:
            return super().call_c_method(ctx, raw, args, kwargs)
        raise GraphBreak("method written in C is called", f"{raw.__qualname__}() of {self}")

    def _own(self, ctx: Context) -> Value:
        attributes = self.instance_dict(ctx)
        assert attributes is not None
        return attributes

    def _compared(self, ctx: Context, op: str, other: Value) -> Value:
        result = self._own(ctx).compare(ctx, op, other._own(ctx)) if isinstance(other, NamespaceObject) else None
        return constant(NotImplemented) if result is None else result

    def reconstruct(self, out: ExitWriter) -> str:
        empty = f"{out.hold(SimpleNamespace.__new__)}({out.hold(self.cls)})"
        return out.fill(self, empty, lambda: self._filled(out, empty))


@builtin_class_method(SimpleNamespace, "__new__")
def namespace_new(ctx: Context, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    real = ctx.real(cls).as_python(ctx)
    check_creation(ctx, real, SimpleNamespace)
    return ctx.born(NamespaceObject(real))


@constructs(SimpleNamespace)
def namespace(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return instantiate(ctx, ClassValue(SimpleNamespace, ctx.hold(SimpleNamespace)), args, kwargs)


@wraps(SimpleNamespace, family=True)
def build_namespace(ctx: Context, obj: SimpleNamespace, source: Source) -> Value:
    cls = type(obj)
    ctx.guard(Kind.TYPE, source, cls)
    return NamespaceObject(cls, obj, source) if layout_root(cls) is SimpleNamespace else OpaqueValue(obj, source)
