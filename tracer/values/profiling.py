"""torch.profiler.record_function: nothing but a name that a profiler notes. No region is captured for one that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.autograd.profiler import record_function

from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Call
from ..torch_private import begin_record, profiler_runs
from .base import Value
from .constants import ConstantValue, constant
from .objects import ObjectValue, known

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class RecordHandle(Value):
    """What a record_function keeps while it is entered. One that leaves the region is begun there."""

    __slots__ = ("args", "name")

    kind = "record of a profiler"
    has_identity = True

    def __init__(self, name: Value, args: Value) -> None:
        super().__init__()
        self.name, self.args = name, args

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(begin_record)}({out.text(self.name)}, {out.text(self.args)})"


def _object(ctx: Context, args: list[Value], what: str) -> ObjectValue:
    found = ctx.real(args[0])
    if not isinstance(found, ObjectValue) or profiler_runs():
        raise GraphBreak("library function is called", f"record_function.{what}, while a profiler runs")
    ctx.guard(Kind.EXPRESSION, Call(ctx.hold(profiler_runs), ()), False)
    return found


#: what every fresh one holds, by name
_FRESH = vars(record_function(""))


@known(record_function.__init__)
def initialise(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Known, since it asks `typing` for something that is cached at the first time."""
    record = ctx.real(args[0])
    given = dict(zip(("name", "args"), args[1:], strict=False)) | kwargs
    fits = len(args) <= 3 and len(given) == len(args) - 1 + len(kwargs) and {"name"} <= given.keys() <= {"name", "args"}
    if not isinstance(record, ObjectValue) or not fits:
        raise GraphBreak("arguments do not fit the call", "record_function()")
    for name, value in {**{name: constant(value) for name, value in _FRESH.items()}, **given}.items():
        record.setattr(ctx, name, value)
    return constant(None)


@known(record_function.__enter__)
def enter(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    record = _object(ctx, args, "__enter__")
    name, more = (ctx.real(record.getattr(ctx, attribute)) for attribute in ("name", "args"))
    if not isinstance(name, ConstantValue) or type(name.value) is not str or not isinstance(more, ConstantValue):
        raise GraphBreak("Python raises or warns here", "record_function is given what is no text")
    record.setattr(ctx, "record", ctx.born(RecordHandle(name, more)))
    return record


@known(record_function.__exit__)
def leave(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    record = _object(ctx, args, "__exit__")
    if not isinstance(ctx.real(record.getattr(ctx, "record")), RecordHandle):
        raise GraphBreak("library function is called", "record_function.__exit__, entered before")
    return constant(None)


__all__ = ["RecordHandle"]
