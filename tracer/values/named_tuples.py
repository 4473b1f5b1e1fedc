"""Named tuples and torch's result tuples: tuples whose class adds names, and maybe methods and properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..guards import MISSING, Kind
from ..sources import Attr, Source
from .base import Value, wraps
from .builtin_registry import builtin_class_method
from .container_objects import build_container, new_container
from .lookup import class_attribute, find, get_from_instance
from .tuples import TupleValue, build_tuple, structure_fields

if TYPE_CHECKING:
    from ..interpreter.context import Context

#: what a subclass must leave as it is on a tuple, because values do it themselves
_TUPLE_METHODS = (
    "__getitem__", "__iter__", "__len__", "__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__",
    "__hash__", "__add__", "__mul__", "__rmul__", "__getattribute__", "index", "count",
)  # fmt: skip
_MISSING_ON_TUPLES = ("__bool__", "__getattr__", "__radd__", "__iadd__", "__imul__")


class NamedTupleValue(TupleValue):
    """An instance of a class made by `namedtuple` or `NamedTuple`, or of a subclass that adds to it."""

    __slots__ = ()

    kind = "named tuple"

    def getattr(self, ctx: Context, name: str) -> Value:
        fields = getattr(self.cls, "_fields", None) or structure_fields(self.cls)
        if name in fields:
            return self.items(ctx)[fields.index(name)]
        if hasattr(tuple, name):
            return super().getattr(ctx, name)
        raw = class_attribute(ctx, self.cls, name)
        if raw is MISSING:
            ctx.raise_(AttributeError(f"{self.cls.__name__!r} object has no attribute {name!r}"))
        return get_from_instance(ctx, raw, name, self, self.cls)


def is_named_tuple(cls: type) -> bool:
    """Is it a tuple with names and nothing that changes what a tuple does?"""
    if not (hasattr(cls, "_fields") or hasattr(cls, "n_sequence_fields")):
        return False
    plain = all(find(cls, name) is find(tuple, name) for name in _TUPLE_METHODS if name != "__getattribute__")
    return plain and all(find(cls, name) is MISSING for name in _MISSING_ON_TUPLES)


@wraps(tuple, family=True)
def build_named_tuple(ctx: Context, obj: tuple[Any, ...], source: Source) -> Value:
    cls = type(obj)
    if not is_named_tuple(cls) or (cls.__dictoffset__ and vars(obj)):
        return build_container(ctx, obj, source)
    plain = build_tuple(ctx, obj, source)
    if cls.__dictoffset__:
        ctx.guard(Kind.FALSY, Attr(source, "__dict__"))
    return NamedTupleValue(plain.unpack(ctx), source, cls)


@builtin_class_method(tuple, "__new__")
def tuple_new(ctx: Context, cls: Value, items: Value | None = None, /) -> Value:
    """`tuple.__new__(cls, items)`, by which named tuples are made."""
    real = ctx.real(cls).as_python(ctx)
    found = [] if items is None else ctx.real(items).unpack(ctx)
    if real is tuple:
        return ctx.born(TupleValue(found))
    if not isinstance(real, type) or not issubclass(real, tuple):
        ctx.real(cls).refuse("object is made by C code", "tuple.__new__()")
    if not is_named_tuple(real) or not hasattr(real, "_make"):
        return new_container(ctx, real, tuple, found)
    return ctx.born(NamedTupleValue(found, cls=real))
