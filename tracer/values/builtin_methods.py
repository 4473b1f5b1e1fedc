"""Methods of builtin containers: `method_<name>` of the value's class is what the real method does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import BuiltinMethodType
from typing import TYPE_CHECKING, Any, ClassVar

from .base import Value
from .constants import constant

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class MethodsByName(Value):
    """A value whose class holds its methods as `method_<name>(ctx, *args, **kwargs)`."""

    __slots__ = ()

    #: the builtin type whose methods these are
    builtin: ClassVar[Any]

    def reversed(self, ctx: Context) -> Value:
        """`reversed(self)`"""
        self.refuse("operation is not supported", "reversed()")

    def getattr(self, ctx: Context, name: str) -> Value:
        if hasattr(type(self), f"method_{name}"):
            return BuiltinMethod(self, name)
        if name in VERBS and hasattr(self.builtin, name):
            return SpecialMethod(self, name)
        if name == "__class__":
            cls = self.python_type(ctx)
            return ctx.wrap(cls, ctx.hold(cls))
        if not hasattr(self.builtin, name):
            ctx.raise_(AttributeError(f"{self.builtin.__name__!r} object has no attribute {name!r}"))
        self.refuse("attribute cannot be read", f".{name}")


class BuiltinMethod(Value):
    """A bound method of a builtin container."""

    __slots__ = ("name", "receiver")

    kind = "builtin method"

    def __init__(self, receiver: Value, name: str) -> None:
        super().__init__()
        self.receiver, self.name = receiver, name

    def __str__(self) -> str:
        return f"{self.receiver}.{self.name}"

    def python_type(self, ctx: Context) -> type:
        return BuiltinMethodType

    def truth(self, ctx: Context) -> bool:
        return True

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if not isinstance(other, BuiltinMethod) or op not in ("==", "!="):
            return None
        same = ctx.real(other.receiver) is ctx.real(self.receiver) and other.name == self.name
        return constant(same == (op == "=="))

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "__self__":
            return self.receiver
        return constant(self.name) if name == "__name__" else super().getattr(ctx, name)

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        method = getattr(self.receiver, f"method_{self.name}")
        wanted = method.__code__
        required = wanted.co_argcount - 2 - len(method.__defaults__ or ())
        most = None if wanted.co_flags & inspect.CO_VARARGS else wanted.co_argcount - 2
        if len(args) < required or (most is not None and len(args) > most):
            self.refuse("arguments do not fit the call")
        known = set(wanted.co_varnames[wanted.co_argcount :][: wanted.co_kwonlyargcount])
        if not set(kwargs) <= known and not wanted.co_flags & inspect.CO_VARKEYWORDS:
            self.refuse("arguments do not fit the call")
        return method(ctx, *args, **kwargs)

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.text(self.receiver)}.{self.name}"


def _nothing(result: None) -> Value:
    return constant(None)


def _contains(receiver: Value, ctx: Context, item: Value) -> Value:
    found = receiver.contains(ctx, item)
    return constant(found) if isinstance(found, bool) else found


def _compares(sign: str) -> Callable[..., Value]:
    def compare(receiver: Value, ctx: Context, other: Value) -> Value:
        return receiver.compare(ctx, sign, ctx.real(other)) or constant(NotImplemented)

    return compare


#: special methods that mean one verb of the value
VERBS: dict[str, Callable[..., Value]] = {
    "__len__": lambda receiver, ctx: receiver.length(ctx),
    "__contains__": _contains,
    "__iter__": lambda receiver, ctx: receiver.iterate(ctx),
    "__getitem__": lambda receiver, ctx, key: receiver.getitem(ctx, key),
    "__setitem__": lambda receiver, ctx, key, item: _nothing(receiver.setitem(ctx, key, item)),
    "__delitem__": lambda receiver, ctx, key: _nothing(receiver.delitem(ctx, key)),
    "__reversed__": lambda receiver, ctx: receiver.reversed(ctx),
    "__eq__": _compares("=="),
    "__ne__": _compares("!="),
}


class SpecialMethod(BuiltinMethod):
    """`container.__len__` and its like, got by name."""

    __slots__ = ()

    def python_type(self, ctx: Context) -> type:
        return type(getattr(self.receiver.builtin(), self.name))  # type: ignore[attr-defined]

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        verb = VERBS[self.name]
        if kwargs or len(args) != verb.__code__.co_argcount - 2:
            self.refuse("arguments do not fit the call")
        return verb(self.receiver, ctx, *args)
