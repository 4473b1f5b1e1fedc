"""Methods of builtin containers: `method_<name>` of the value's class is what the real method does."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar

from .base import Value

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class MethodsByName(Value):
    """A value whose class holds its methods as `method_<name>(ctx, *args, **kwargs)`."""

    __slots__ = ()

    #: the builtin type whose methods these are
    builtin: ClassVar[Any]

    def getattr(self, ctx: Context, name: str) -> Value:
        if hasattr(type(self), f"method_{name}"):
            return BuiltinMethod(self, name)
        if name == "__class__":
            cls = self.python_type(ctx)
            return ctx.wrap(cls, ctx.hold(cls))
        if not hasattr(self.builtin, name):
            ctx.raise_(AttributeError(f"{self.builtin.__name__!r} object has no attribute {name!r}"))
        self.refuse(f"attribute .{name}")


class BuiltinMethod(Value):
    """A bound method of a builtin container."""

    __slots__ = ("name", "receiver")

    kind = "builtin method"

    def __init__(self, receiver: Value, name: str) -> None:
        super().__init__()
        self.receiver, self.name = receiver, name

    def __str__(self) -> str:
        return f"{self.receiver}.{self.name}"

    def truth(self, ctx: Context) -> bool:
        return True

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        method = getattr(self.receiver, f"method_{self.name}")
        wanted = method.__code__
        required = wanted.co_argcount - 2 - len(method.__defaults__ or ())
        most = None if wanted.co_flags & inspect.CO_VARARGS else wanted.co_argcount - 2
        if len(args) < required or (most is not None and len(args) > most):
            self.refuse("call with this number of arguments")
        known = set(wanted.co_varnames[wanted.co_argcount :][: wanted.co_kwonlyargcount])
        if not set(kwargs) <= known and not wanted.co_flags & inspect.CO_VARKEYWORDS:
            self.refuse("call with these keywords")
        return method(ctx, *args, **kwargs)

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.text(self.receiver)}.{self.name}"
