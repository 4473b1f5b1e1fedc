"""NumPy: scalars are constants, functions of plain numbers are called at capture; arrays are left to the program."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from .. import numpy_names
from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Call, Source
from .base import Value, wraps, wraps_object
from .builtin_registry import builtin, name_of
from .callables import HeldFunction
from .constants import ConstantValue, call_pure, plain
from .objects import OpaqueValue
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


class NumPyFunction(HeldFunction):
    """One that only computes."""

    __slots__ = ()

    kind = "NumPy function"

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        values = [ctx.real(value) for value in (*args, *kwargs.values())]
        for value in values:
            if isinstance(value, TensorValue):
                raise GraphBreak("tensor becomes a NumPy array", f"{name_of(self.function)}() of {value}")
            if isinstance(value, ArrayValue):
                raise GraphBreak("NumPy array is used", f"{name_of(self.function)}() of {value}")
        named = {name: plain(ctx, value) for name, value in kwargs.items()}
        function = partial(numpy_names.computed, self.function)
        return call_pure(ctx, function, *[plain(ctx, value) for value in args], **named)


class ArrayValue(OpaqueValue):
    """An array from outside."""

    __slots__ = ()

    kind = "NumPy array"

    def refuse(self, title: str, what: str = "", hint: str = "") -> NoReturn:
        """Whatever it is that no other opaque object is asked either, it is NumPy's business."""
        super().refuse("NumPy array is used", what, hint)


def _build_function(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.IS, source, obj)
    return NumPyFunction(obj, source)


def _build_scalar(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    same = ctx.hold(numpy_names.is_same_scalar)
    ctx.guard(Kind.EXPRESSION, Call(same, (source, ctx.hold(obj, "scalar"))), True)
    return ConstantValue(obj)


def _build_array(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    return ArrayValue(obj, source)


for _function in numpy_names.pure_functions():
    wraps_object(_function)(_build_function)
for _type in numpy_names.SCALARS:
    wraps(_type)(_build_scalar)

    def _make(ctx: Context, value: Value, /, *, scalar_type: type = _type) -> Value:
        return call_pure(ctx, partial(numpy_names.computed, scalar_type), plain(ctx, value))

    builtin(_type)(_make)
wraps(numpy_names.ARRAY)(_build_array)
