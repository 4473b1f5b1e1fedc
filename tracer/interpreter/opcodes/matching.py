"""`match`: what the patterns for sequences, mappings and classes ask; literals and captures are other opcodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from rewriter.decode import Instruction

from ...errors import GraphBreak
from ...guards import Kind
from ...holding import is_immutable_type, type_flags
from ...sources import Call, Literal, Operation
from ...values.base import Value
from ...values.builtins import call_builtin
from ...values.constants import constant
from ...values.hashing import hash_key
from ...values.tuples import TupleValue
from ..frame import Frame, handles

if TYPE_CHECKING:
    from ..context import Context

SEQUENCE: Final = 1 << 5  # Py_TPFLAGS_SEQUENCE
MAPPING: Final = 1 << 6  # Py_TPFLAGS_MAPPING
MATCH_SELF: Final = 1 << 22  # _Py_TPFLAGS_MATCH_SELF: `case int(n)` binds the subject


class NothingValue(Value):
    """What `get` and `getattr` give here where there is nothing. User code may hand it on, not look at it."""

    __slots__ = ()

    kind = "placeholder for what a pattern does not find"


NOTHING = NothingValue()


@handles("MATCH_SEQUENCE")
def match_sequence(frame: Frame, ins: Instruction) -> None:
    frame.push(constant(_collection(frame) == SEQUENCE))


@handles("MATCH_MAPPING")
def match_mapping(frame: Frame, ins: Instruction) -> None:
    frame.push(constant(_collection(frame) == MAPPING))


def _collection(frame: Frame) -> int:
    """Is the subject's class a SEQUENCE or a MAPPING? A flag of the class, which `abc.register` may still set."""
    ctx = frame.ctx
    cls = ctx.real(frame.stack[-1]).python_type(ctx)
    both = SEQUENCE | MAPPING
    flag = type_flags(cls) & both
    if not is_immutable_type(cls):
        flags = Call(ctx.hold(type_flags, "flags"), (ctx.hold(cls),))
        ctx.guard(Kind.EXPRESSION, Operation("==", Operation("&", flags, Literal(both)), Literal(flag)), True)
    return flag


@handles("MATCH_KEYS")
def match_keys(frame: Frame, ins: Instruction) -> None:
    """[subject, keys] -> [subject, keys, tuple of the items, or None where a key is missing]"""
    ctx = frame.ctx
    subject, keys = ctx.real(frame.stack[-2]), ctx.real(frame.stack[-1]).unpack(ctx)
    seen: set[object] = set()
    items = []
    for key in keys:
        if (hashed := hash_key(ctx, key)) in seen:
            _refuse_error(f"mapping pattern checks duplicate key {key}")
        seen.add(hashed)
        item = subject.call_method(ctx, "get", [key, NOTHING], {})
        if ctx.real(item) is NOTHING:
            frame.push(constant(None))
            return
        items.append(item)
    frame.push(ctx.born(TupleValue(items)))


@handles("MATCH_CLASS")
def match_class(frame: Frame, ins: Instruction) -> None:
    """[subject, class, names of the keyword patterns] -> [tuple of the attributes, or None]"""
    ctx = frame.ctx
    by_keyword, class_value, subject = frame.pop_real().unpack(ctx), frame.pop_real(), frame.pop_real()
    cls = class_value.as_python(ctx)
    if not isinstance(cls, type):
        _refuse_error(f"called match pattern must be a class, not {class_value}")
    if not ctx.real(call_builtin(ctx, isinstance, [subject, class_value])).truth(ctx):
        frame.push(constant(None))
        return
    found: list[Value] = []
    names = _positional(ctx, class_value, cls, ins.arg) if ins.arg else []
    if names is None:
        found.append(subject)
        names = []
    names += [name.as_python(ctx) for name in map(ctx.real, by_keyword)]
    if len(set(names)) < len(names):
        # CPython complains when it comes to the second, after it has fetched what stands before
        _refuse_error(f"{cls.__name__}() got multiple sub-patterns for an attribute")
    for name in names:
        item = call_builtin(ctx, getattr, [subject, constant(name), NOTHING])
        if ctx.real(item) is NOTHING:
            frame.push(constant(None))
            return
        found.append(item)
    frame.push(ctx.born(TupleValue(found)))


def _positional(ctx: Context, class_value: Value, cls: type, count: int) -> list[str] | None:
    """The attributes that positional patterns stand for, by `__match_args__`; None: the subject itself."""
    declared = ctx.real(call_builtin(ctx, getattr, [class_value, constant("__match_args__"), NOTHING]))
    names: list[str] = []
    if declared is not NOTHING:
        if declared.python_type(ctx) is not tuple:
            _refuse_error(f"{cls.__name__}.__match_args__ must be a tuple")
        names = [ctx.real(name).as_python(ctx) for name in declared.unpack(ctx)[:count]]
    elif type_flags(cls) & MATCH_SELF and count == 1:
        return None
    if len(names) < count:
        _refuse_error(f"{cls.__name__}() accepts fewer than {count} positional sub-patterns")
    if any(type(name) is not str for name in names):
        _refuse_error("__match_args__ elements must be strings")
    return names


def _refuse_error(what: str) -> NoReturn:
    """The pattern is wrong: the original bytecode raises, in its own words."""
    raise GraphBreak("Python raises or warns here", what, "mend the pattern")
