"""What describes a function besides its code: its `__dict__`, annotations and the like, which decorators copy.

A function's `__dict__` is no dict here that could be stored, or changed in other ways than by items: its attributes are
read one by one, and a second view of them would have to be kept equal.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..guards import Kind
from ..sources import Attr, Item, Source
from .base import Value
from .builtin_methods import MethodsByName
from .constants import constant
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

#: What a function has besides its dict, and decorators set anew; the type that a value must have.
OF_THE_TYPE: dict[str, type] = {
    "__module__": object, "__doc__": object, "__name__": str, "__qualname__": str, "__annotations__": dict,
    "__type_params__": tuple, "__annotate__": object,
}  # fmt: skip
#: those which may be computed when they are read
DESCRIPTIONS = frozenset(["__annotations__", "__annotate__", "__type_params__"])


def describes(function: Any, name: str) -> bool:
    """Is this one of `DESCRIPTIONS` that this function has, or its dict?"""
    return (name in DESCRIPTIONS or name == "__dict__") and name in dir(type(function))


def description(ctx: Context, value: Any, source: Source, name: str) -> Value:
    """Such an attribute of a function from outside, `value.function`, which is guarded to be this one."""
    if name == "__dict__":
        return FunctionDict(value, source)
    if name == "__annotations__" and "__annotate__" in vars(FunctionType):  # reading it may run the user's code
        value.refuse("attribute cannot be read", f".{name}")
    return ctx.wrap(getattr(value.function, name), Attr(source, name))


class FunctionDict(MethodsByName):
    """owner: the value of the function. source: of that, where it is from outside."""

    __slots__ = ("owner",)

    kind = "function's __dict__"
    builtin = dict

    def __init__(self, owner: Any, source: Source | None = None) -> None:
        super().__init__(None if source is None else Attr(source, "__dict__"))
        self.owner = owner

    def __str__(self) -> str:
        return f"__dict__ of {self.owner}"

    def python_type(self, ctx: Context) -> type:
        return dict

    def _items(self, ctx: Context) -> dict[str, Value]:
        """Every attribute; of a function from outside the names are guarded."""
        if self.source is None:
            return {name: v for name, v in self.owner.attributes.items() if name not in OF_THE_TYPE}
        real = vars(self.owner.function)
        ctx.guard(Kind.KEYS, self.source, tuple(real))
        return {name: ctx.wrap(attribute, Item(self.source, name)) for name, attribute in real.items()}

    def pairs(self, ctx: Context) -> list[tuple[Value, Value]]:
        return [(constant(name), item) for name, item in self._items(ctx).items()]

    def truth(self, ctx: Context) -> bool:
        return bool(self._items(ctx))

    def length(self, ctx: Context) -> Value:
        return constant(len(self._items(ctx)))

    def contains(self, ctx: Context, item: Value) -> bool:
        return _name(ctx, item) in self._items(ctx)

    def iterate(self, ctx: Context) -> Value:
        return TupleValue([constant(name) for name in self._items(ctx)]).iterate(ctx)

    def getitem(self, ctx: Context, key: Value) -> Value:
        items, name = self._items(ctx), _name(ctx, key)
        return items[name] if name in items else ctx.raise_(KeyError(name))

    def setitem(self, ctx: Context, key: Value, value: Value) -> None:
        name = _name(ctx, key)
        if name in OF_THE_TYPE:
            self.refuse("attribute cannot be set", f"item {name}")
        self.owner.setattr(ctx, name, value)

    def method_get(self, ctx: Context, key: Value, default: Value | None = None, /) -> Value:
        if self.contains(ctx, key):
            return self.getitem(ctx, key)
        return constant(None) if default is None else default

    def method_update(self, ctx: Context, other: Value | None = None, /, **kwargs: Value) -> Value:
        pairs = [] if other is None else ctx.real(other).pairs(ctx)
        if pairs is None:
            self.refuse("arguments do not fit the call")
        for key, value in [*pairs, *((constant(name), value) for name, value in kwargs.items())]:
            self.setitem(ctx, key, value)
        return constant(None)


def _name(ctx: Context, key: Value) -> str:
    name = ctx.real(key).as_python(ctx)
    if type(name) is not str:
        ctx.real(key).refuse("key is not supported", "use as a function's attribute")
    return name
