"""Functions and classes written in C, as values: whoever needs them imports them from here, with every handler loaded.

Torch's operators become nodes; the handlers of `builtin_registry` answer for the rest; what nobody answers for is a
break at its call.
"""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

import torch

from ..guards import Kind
from ..sources import Attr, Source
from . import (
    builtin_functions,
    builtin_operators,
    builtin_types,
    deques,
    enums,
    iterator_products,
    iterator_tools,
    iterators,
    named_tuples,
    pure_functions,
)
from .base import Value, wraps
from .builtin_registry import call_builtin, call_class_method, call_type, name_of
from .callables import HeldFunction
from .lookup import UnboundMethod
from .torch_functions import torch_function

if TYPE_CHECKING:
    from ..interpreter.context import Context

#: what a builtin method may be bound to and be found again as its attribute
_RECEIVERS = frozenset([
    list, dict, set, tuple, frozenset, str, bytes, int, float, complex, bool, range, OrderedDict, defaultdict,
])  # fmt: skip
#: modules that register handlers
FAMILIES = (
    builtin_functions, builtin_operators, builtin_types, deques, enums, iterator_products, iterator_tools,
    iterators, named_tuples, pure_functions,
)  # fmt: skip


class BuiltinValue(HeldFunction):
    """A function written in C."""

    __slots__ = ()

    kind = "builtin function"

    def __str__(self) -> str:
        return f"{name_of(self.function)}()"

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return call_builtin(ctx, self.function, args, kwargs)


@wraps(types.BuiltinFunctionType)
def build_builtin(ctx: Context, obj: Any, source: Source) -> Value:
    """A builtin function, or a builtin method bound to an object, which is found again as that object's attribute."""
    value = torch_function(ctx, obj, source)
    if value is not None:
        return value
    owner = obj.__self__
    if type(owner) not in _RECEIVERS and not isinstance(owner, torch.Tensor):
        ctx.guard(Kind.IS, source, obj)
        return BuiltinValue(obj, source)
    ctx.guard(Kind.TYPE, source, type(obj))
    ctx.guard(Kind.EQUALS, Attr(source, "__name__"), obj.__name__)
    return ctx.real(ctx.real(ctx.wrap(owner, Attr(source, "__self__"))).getattr(ctx, obj.__name__))


@wraps(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
def build_method_descriptor(ctx: Context, obj: Any, source: Source) -> Value:
    value = torch_function(ctx, obj, source)
    if value is not None:
        return value
    ctx.guard(Kind.IS, source, obj)
    return UnboundMethod(obj, source)


__all__ = ["BuiltinValue", "call_builtin", "call_class_method", "call_type"]
