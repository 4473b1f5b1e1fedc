"""Named tuples: tuples whose classes, written by people or generated, have methods and properties of their own."""

from __future__ import annotations

import types
from collections import namedtuple
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..guards import MISSING, Kind
from ..holding import type_dict, type_mro
from ..sources import Attr, Source
from .attributes import own_dict
from .base import Value, wraps
from .constants import ConstantValue, constant
from .lookup import C_METHODS, class_attribute, find, get_from_instance, layout_root, special
from .objects import BINARY_NAMES, COMPARE_NAMES, known
from .sequences import TupleValue, build_named_tuple

if TYPE_CHECKING:
    from ..interpreter.context import Context

_FIELD = type(type_dict(namedtuple("_Example", "a"))["a"])
#: verbs that capture takes from tuple itself: a class with one of its own is refused
_TUPLES_OWN = (
    "__iter__",
    "__len__",
    "__getitem__",
    "__contains__",
    "__bool__",
    "__hash__",
    "__getattribute__",
    "__getattr__",
)


class NamedTupleValue(TupleValue):
    """An instance of a class made by `typing.NamedTuple` or `collections.namedtuple`, or of a subclass.

    A subclass without `__slots__` has a dict: one from outside is guarded to be empty, nothing is put into a new one.
    """

    __slots__ = ()

    kind = "named tuple"

    def getattr(self, ctx: Context, name: str) -> Value:
        raw = class_attribute(ctx, self.cls, name)
        if raw is MISSING:
            ctx.raise_(AttributeError(f"{self.cls.__name__!r} object has no attribute {name!r}"))
        if type(raw) is _FIELD:
            return self._items[list(self.cls._fields).index(name)]  # type: ignore[attr-defined]
        if type(raw) in (*C_METHODS, types.GetSetDescriptorType):
            return super().getattr(ctx, name)
        return get_from_instance(ctx, raw, name, self, self.cls)

    def _asked(self, ctx: Context, name: str, other: Value) -> Value | None:
        method = special(ctx, self, self.cls, name)
        result = constant(NotImplemented) if method is None else ctx.real(method.call(ctx, [other], {}))
        return None if isinstance(result, ConstantValue) and result.value is NotImplemented else result

    def _is_own(self, ctx: Context, name: str) -> bool:
        return type(class_attribute(ctx, self.cls, name)) is types.FunctionType

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        for name in ([f"__i{BINARY_NAMES[op]}__"] if inplace else []) + [f"__{BINARY_NAMES[op]}__"]:
            if self._is_own(ctx, name):
                return self._asked(ctx, name, other)
        return super().binary(ctx, op, other)

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        if self._is_own(ctx, name := f"__r{BINARY_NAMES[op]}__"):
            return self._asked(ctx, name, other)
        return super().reflected(ctx, op, other)

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if self._is_own(ctx, COMPARE_NAMES[op]):
            return self._asked(ctx, COMPARE_NAMES[op], other)
        return super().compare(ctx, op, other)

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        method = special(ctx, self, self.cls, "__call__")
        if method is None:
            ctx.raise_(TypeError(f"{self.cls.__name__!r} object is not callable"))
        return method.call(ctx, args, kwargs)


def check_class(ctx: Context, cls: type) -> None:
    """Is it a named tuple's class, which leaves to tuple what makes it a sequence?"""
    if layout_root(cls) is not tuple or not isinstance(type_dict_fields(cls), tuple):
        raise GraphBreak("subclass of tuple", cls.__qualname__, "")
    for name in _TUPLES_OWN:
        if class_attribute(ctx, cls, name) is not find(tuple, name):
            raise GraphBreak("subclass of tuple", f"{cls.__qualname__} has its own {name}", "")


def type_dict_fields(cls: type) -> Any:
    return next((type_dict(base)["_fields"] for base in type_mro(cls) if "_fields" in type_dict(base)), None)


@known(tuple.__new__)
def tuple_new(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """As a named tuple's `__new__` and `_make` call it."""
    cls = ctx.real(args[0]).as_python(ctx)
    if kwargs or len(args) > 2:
        raise GraphBreak("call with wrong arguments", "tuple.__new__()", "")
    items = ctx.real(args[1]).unpack(ctx) if len(args) > 1 else []
    if cls is tuple:
        return ctx.born(TupleValue(items))
    check_class(ctx, cls)
    return ctx.born(NamedTupleValue(items, cls=cls))


@wraps(tuple, family=True)
def build_tuple_subclass(ctx: Context, obj: Any, source: Source) -> Value:
    """Torch's own result tuples are left to sequences.py."""
    cls = type(obj)
    if isinstance(obj, torch.Size) or hasattr(cls, "n_sequence_fields"):
        return build_named_tuple(ctx, obj, source)
    value = build_named_tuple(ctx, obj, source)
    assert isinstance(value, TupleValue)
    check_class(ctx, cls)
    if own_dict(obj):
        raise GraphBreak("named tuple with attributes of its own", str(source), "")
    if own_dict(obj) is not None:
        ctx.guard(Kind.FALSY, Attr(source, "__dict__"))
    return NamedTupleValue(value.items(ctx), source, cls)
