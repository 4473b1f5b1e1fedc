"""`super()`: attributes found behind a class in the MRO of an object's type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import MISSING, NOWHERE, Kind
from ..holding import is_immutable_type, type_dict, type_mro
from ..sources import Attr, Item
from .base import Value
from .classes import ClassValue, constructs
from .functions import CellValue
from .lookup import get_from_class, get_from_instance, same_bases

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class SuperValue(Value):
    """`super(cls, obj)`; `start` is the class whose MRO is searched: the type of `obj`, or `obj`, a class, itself."""

    __slots__ = ("cls", "obj", "start")

    kind = "super object"

    def __init__(self, ctx: Context, cls: type, obj: Value) -> None:
        super().__init__()
        self.cls, self.obj = cls, ctx.real(obj)
        is_class = isinstance(self.obj, ClassValue) and issubclass(self.obj.cls, cls)
        self.start: type = self.obj.cls if is_class and isinstance(self.obj, ClassValue) else self.obj.python_type(ctx)
        if not issubclass(self.start, cls):
            ctx.raise_(TypeError("super(type, obj): obj must be an instance or subtype of type"))

    def python_type(self, ctx: Context) -> type:
        return super

    def truth(self, ctx: Context) -> bool:
        return True

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "__class__":
            return ctx.wrap(super, ctx.hold(super))
        raw = attribute_behind(ctx, self.start, self.cls, name)
        if raw is MISSING:
            ctx.raise_(AttributeError(f"'super' object has no attribute {name!r}"))
        if isinstance(self.obj, ClassValue) and self.obj.cls is self.start:
            return get_from_class(ctx, raw, name, self.start, self.obj)
        return get_from_instance(ctx, raw, name, self.obj, self.start)

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(super)}({out.hold(self.cls)}, {out.text(self.obj)})"


def attribute_behind(ctx: Context, start: type, cls: type, name: str) -> Any:
    """What the classes behind `cls` in the MRO of `start` hold under a name, or MISSING; guarded."""
    mro = type_mro(start)
    same_bases(ctx, start)
    behind = mro[mro.index(cls) + 1 :]
    owner = next((at for at, base in enumerate(behind) if name in type_dict(base)), len(behind))
    raw: Any = MISSING if owner == len(behind) else type_dict(behind[owner])[name]
    if behind and behind == type_mro(behind[0]):
        if not is_immutable_type(behind[0]):
            ctx.guard(Kind.TYPE_ATTR, NOWHERE, (behind[0], name, raw))
        return raw
    for base in behind[:owner]:
        if not is_immutable_type(base):
            ctx.guard(Kind.LACKS_KEY, Attr(ctx.hold(base), "__dict__"), name)
    if raw is not MISSING and not is_immutable_type(behind[owner]):
        ctx.guard(Kind.IS, Item(Attr(ctx.hold(behind[owner]), "__dict__"), name), raw)
    return raw


def super_attr(ctx: Context, super_function: Value, cls: Value, instance: Value, name: str) -> Value:
    """`super(cls, instance).name`"""
    return ctx.real(ctx.real(super_function).call(ctx, [cls, instance], {})).getattr(ctx, name)


@constructs(super)
def make_super(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not args and not kwargs:
        args = _found_in_frame(ctx)
    if len(args) != 2 or kwargs:
        raise GraphBreak("super() cannot be resolved", f"{len(args)} arguments")
    cls = ctx.real(args[0])
    if not isinstance(cls, ClassValue):
        ctx.raise_(TypeError(f"super() argument 1 must be a type, not {cls.python_type(ctx).__name__}"))
    return SuperValue(ctx, cls.cls, args[1])


def _found_in_frame(ctx: Context) -> list[Value]:
    """What `super()` looks for in the calling frame: the `__class__` cell and the first argument."""
    frame = ctx.frames[-1]
    if "__class__" not in frame.cells or not frame.code.co_argcount:
        raise GraphBreak("super() cannot be resolved", f"{frame.code.co_qualname} is no method")
    first = frame.code.co_varnames[0]
    found = [_content(ctx, frame.cells["__class__"])]
    found.append(_content(ctx, frame.cells[first]) if first in frame.cells else frame.locals.get(first))
    if None in found:
        raise GraphBreak("super() cannot be resolved", f"the first argument of {frame.code.co_qualname} was deleted")
    return [value for value in found if value is not None]


def _content(ctx: Context, cell: Value) -> Value | None:
    real = ctx.real(cell)
    return real.content if isinstance(real, CellValue) else None


__all__ = ["SuperValue", "super_attr"]
