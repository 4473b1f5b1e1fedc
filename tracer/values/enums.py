"""Members of enumerations: constants, whose classes may have methods and properties written by people."""

from __future__ import annotations

import enum
import types
from typing import TYPE_CHECKING, Any

from ..guards import MISSING, Kind
from ..sources import Attr, Item, Source
from .attributes import own_dict
from .base import Value, wraps
from .constants import PYTHON_RESULTS, ConstantMethod, ConstantValue, call_pure, constant, is_constant, is_plain, plain
from .lookup import C_METHODS, class_attribute, class_object, get_from_instance
from .members import is_of_enum_module
from .objects import BINARY_NAMES, COMPARE_NAMES
from .stepping import PositionIterator

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

#: what Python asks the other operand
_REFLECTED = {
    "<": ("__gt__",), "<=": ("__ge__",), ">": ("__lt__",), ">=": ("__le__",),
    "==": ("__eq__",), "!=": ("__ne__", "__eq__"),
}  # fmt: skip
_UNARY = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}


class EnumValue(ConstantValue):
    """A member of an enumeration. What the enum module wrote is pure; all else is the user's code, and is inlined."""

    __slots__ = ()

    kind = "member of an enumeration"

    def __str__(self) -> str:
        member = f"{type(self.value).__qualname__}.{self.value._name_}"  # its repr may be the user's
        return member if self.source is None else f"{self.source} ({member})"

    def getattr(self, ctx: Context, name: str) -> Value:
        cls = type(self.value)
        raw = class_attribute(ctx, cls, name)
        if name in ("name", "value", "_name_", "_value_") and is_of_enum_module(raw):
            return _part(ctx, getattr(self.value, name), self, name)
        if raw is MISSING:
            return self._own(ctx, name)
        if name == "__class__":
            return class_object(ctx, cls)
        if type(raw) in C_METHODS or (type(raw) is types.FunctionType and is_of_enum_module(raw)):
            return ConstantMethod(self, name)
        return get_from_instance(ctx, raw, name, self, cls)

    def is_same(self, ctx: Context, other: Value) -> bool:
        return isinstance(other, EnumValue) and other.value is self.value

    def _own(self, ctx: Context, name: str) -> Value:
        """What `__new__` or `__init__` of the class put on the member."""
        own = own_dict(self.value) or {}
        source = Attr(ctx.hold(self.value), "__dict__")
        if name not in own:
            if own_dict(self.value) is not None:
                ctx.guard(Kind.LACKS_KEY, source, name)
            ctx.raise_(AttributeError(f"{type(self.value).__name__!r} object has no attribute {name!r}"))
        ctx.guard(Kind.HAS_KEY, source, name)
        return ctx.wrap(own[name], Item(source, name))

    def _users(self, ctx: Context, name: str) -> Value | None:
        """A special method that the user wrote."""
        raw = class_attribute(ctx, type(self.value), name)
        if type(raw) is not types.FunctionType or is_of_enum_module(raw):
            return None
        return ctx.real(get_from_instance(ctx, raw, name, self, type(self.value)))

    def _asked(self, ctx: Context, method: Value, *args: Value) -> Value | None:
        result = ctx.real(method.call(ctx, list(args), {}))
        return None if isinstance(result, ConstantValue) and result.value is NotImplemented else result

    def truth(self, ctx: Context) -> bool:
        method = self._users(ctx, "__bool__") or self._users(ctx, "__len__")
        return super().truth(ctx) if method is None else ctx.real(method.call(ctx, [], {})).truth(ctx)

    def length(self, ctx: Context) -> Value:
        method = self._users(ctx, "__len__")
        return super().length(ctx) if method is None else call_pure(ctx, int, plain(ctx, method.call(ctx, [], {})))

    def getitem(self, ctx: Context, key: Value) -> Value:
        method = self._users(ctx, "__getitem__")
        return super().getitem(ctx, key) if method is None else method.call(ctx, [key], {})

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        method = self._users(ctx, "__contains__")
        return super().contains(ctx, item) if method is None else ctx.real(method.call(ctx, [item], {})).truth(ctx)

    def iterate(self, ctx: Context) -> Value:
        method = self._users(ctx, "__iter__")
        if method is not None:
            return method.call(ctx, [], {})
        if isinstance(self.value, enum.Flag):
            return ctx.born(FlagIterator(self))
        return super().iterate(ctx)

    def unpack(self, ctx: Context) -> list[Value]:
        if self._users(ctx, "__iter__") is None and not isinstance(self.value, enum.Flag):
            return super().unpack(ctx)
        return Value.unpack(self, ctx)

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        method = self._users(ctx, f"__{BINARY_NAMES[op]}__")
        return super().binary(ctx, op, other) if method is None else self._asked(ctx, method, other)

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        method = self._users(ctx, f"__r{BINARY_NAMES[op]}__")
        return super().reflected(ctx, op, other) if method is None else self._asked(ctx, method, other)

    def unary(self, ctx: Context, op: str) -> Value:
        method = self._users(ctx, _UNARY[op])
        return super().unary(ctx, op) if method is None else method.call(ctx, [], {})

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        method = self._users(ctx, COMPARE_NAMES[op])
        if method is not None:
            return self._asked(ctx, method, other)
        if op == "!=" and (method := self._users(ctx, "__eq__")) is not None:
            same = self._asked(ctx, method, other)
            return None if same is None else constant(not same.truth(ctx))
        if isinstance(other, EnumValue) and any(other._users(ctx, name) is not None for name in _REFLECTED[op]):
            self.refuse("operation is not supported", "comparison", "the other enumeration compares in its own way")
        return super().compare(ctx, op, other)

    def key(self, ctx: Context) -> object:
        if self._users(ctx, "__hash__") is not None or self._users(ctx, "__eq__") is not None:
            self.refuse("key is not supported")
        return super().key(ctx)

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        method = self._users(ctx, "__call__")
        return call_pure(ctx, self.as_python(ctx)) if method is None else method.call(ctx, args, kwargs)

    def call_method(self, ctx: Context, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        method = self._users(ctx, name)
        if method is not None:
            return method.call(ctx, args, kwargs)
        if name == "__repr__" and not is_plain(self.value.value):
            self.refuse("operation is not supported", "text", "the member's value may have a text of its own")
        text = None
        if name == "__format__" and class_attribute(ctx, type(self.value), name) is enum.Enum.__format__:
            text = self._users(ctx, "__str__")
        if text is not None:
            return call_pure(ctx, str.__format__, *[plain(ctx, part) for part in (text.call(ctx, [], {}), *args)])
        return super().call_method(ctx, name, args, kwargs)


class FlagIterator(PositionIterator):
    """The generator of a flag's members."""

    __slots__ = ("flag",)

    def __init__(self, flag: EnumValue) -> None:
        super().__init__([EnumValue(member) for member in flag.value])
        self.flag = flag

    def python_type(self, ctx: Context) -> type:
        return types.GeneratorType

    def rebuilt(self, out: ExitWriter) -> str:
        return f"{out.hold(iter)}({out.text(self.flag)})"


def _part(ctx: Context, part: Any, member: EnumValue, name: str) -> Value:
    if not is_constant(part):
        member.refuse("attribute cannot be read", f".{name}", "it is no plain value")
    return member_value(part) if isinstance(part, enum.Enum) else constant(part)


def member_value(member: enum.Enum) -> EnumValue:
    return EnumValue(member)


@wraps(enum.Enum, family=True)
def build_member(ctx: Context, obj: enum.Enum, source: Source) -> Value:
    ctx.guard(Kind.IS, source, obj)
    return EnumValue(obj, source)


PYTHON_RESULTS[enum.Enum] = lambda ctx, obj, leaf: EnumValue(obj)
