"""New instances of subclasses of `property`, such as torch.distributions makes to tell attributes of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from .base import Value
from .builtin_registry import builtin_class_method
from .constants import constant
from .objects import ObjectValue, check_creation

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

_FUNCTIONS = ("fget", "fset", "fdel")


class PropertyObject(ObjectValue):
    """Its three functions are contents like slots. Its text belongs to C code, which takes it from one of these."""

    __slots__ = ()

    kind = "property"

    def getattr(self, ctx: Context, name: str) -> Value:
        if name in ("__doc__", "__name__", "__isabstractmethod__"):
            self.refuse("attribute cannot be read", f".{name}")
        return super().getattr(ctx, name)

    def call_c_method(self, ctx: Context, raw: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if raw is property.__init__:
            given = dict(zip((*_FUNCTIONS, "doc"), args, strict=False)) | kwargs
            if len(args) > 4 or len(given) < len(args) + len(kwargs) or not given.keys() <= {*_FUNCTIONS, "doc"}:
                raise GraphBreak("arguments do not fit the call", "property.__init__()")
            functions = {vars(property)[name]: given.get(name, constant(None)) for name in _FUNCTIONS}
            ctx.change(self, {**self.content, **functions})
            return constant(None)
        if raw.__objclass__ is object:
            return super().call_c_method(ctx, raw, args, kwargs)
        raise GraphBreak("method written in C is called", f"{raw.__qualname__}() of {self}")

    def reconstruct(self, out: ExitWriter) -> str:
        self.refuse("object cannot be rebuilt")


@builtin_class_method(property, "__new__")
def property_new(ctx: Context, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    real = ctx.real(cls).as_python(ctx)
    check_creation(ctx, real, property)
    made: PropertyObject = ctx.born(PropertyObject(real))
    ctx.change(made, dict.fromkeys((vars(property)[name] for name in _FUNCTIONS), constant(None)))
    return made


__all__ = ["PropertyObject"]
