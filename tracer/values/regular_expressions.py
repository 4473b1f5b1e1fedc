"""Compiled regular expressions, and matches of known texts: immutable objects, whose methods are pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from ..guards import Kind
from ..sources import Source
from .base import Value, wraps
from .constants import PYTHON_RESULTS, ConstantValue, call_pure, constant, from_python, plain
from .objects import OpaqueValue
from .pure_functions import pure, register
from .stepping import PositionIterator
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class RegularValue(Value):
    """A pattern or a match."""

    __slots__ = ("object",)

    has_identity = True
    #: methods that are called at capture, and attributes that are read
    methods: ClassVar[frozenset[str]]
    attributes: ClassVar[frozenset[str]]

    def __init__(self, obj: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.object = obj

    def __str__(self) -> str:
        return f"{self.kind} {self.object!r}"

    def python_type(self, ctx: Context) -> type:
        return type(self.object)

    def as_python(self, ctx: Context) -> Any:
        return self.object

    def truth(self, ctx: Context) -> bool:
        return True

    def key(self, ctx: Context) -> object:
        return self.object

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if op not in ("==", "!=") or not isinstance(other, RegularValue):
            return None
        return constant((self.object == other.object) == (op == "=="))

    def getattr(self, ctx: Context, name: str) -> Value:
        if name in self.methods:
            return RegularMethod(self, name)
        if name in self.attributes:
            return from_python(ctx, getattr(self.object, name))
        if not hasattr(self.object, name):
            return call_pure(ctx, getattr, self.object, name)
        self.refuse("attribute cannot be read", f".{name}")

    def reconstruct(self, out: ExitWriter) -> str:
        return out.hold(self.object)

    def is_same(self, ctx: Context, other: Value) -> bool:
        return isinstance(other, RegularValue) and other.object is self.object


class PatternValue(RegularValue):
    """A compiled pattern."""

    __slots__ = ()

    kind = "pattern"
    methods = frozenset(["match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"])
    attributes = frozenset(["pattern", "flags", "groups"])


class MatchValue(RegularValue):
    """A match of a text that is known."""

    __slots__ = ()

    kind = "match"
    methods = frozenset(["group", "groups", "groupdict", "start", "end", "span", "expand", "__getitem__"])
    attributes = frozenset(["pos", "endpos", "lastindex", "lastgroup", "string", "re", "regs"])

    def reconstruct(self, out: ExitWriter) -> str:
        self.refuse("object cannot be rebuilt")  # each search gives another object

    def getitem(self, ctx: Context, key: Value) -> Value:
        return call_pure(ctx, self.object.__getitem__, plain(ctx, key))


class RegularMethod(Value):
    """A bound method of a pattern or match."""

    __slots__ = ("name", "receiver")

    kind = "method of a regular expression"

    def __init__(self, receiver: RegularValue, name: str) -> None:
        super().__init__()
        self.receiver, self.name = receiver, name

    def truth(self, ctx: Context) -> bool:
        return True

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.name in ("sub", "subn") and len(args) in (2, 3) and not kwargs and _is_called(ctx, args[0]):
            return replaced(ctx, self.receiver.object, self.name, *args)
        method = getattr(self.receiver.object, self.name)
        found = [plain(ctx, arg) for arg in args]
        named = {name: plain(ctx, value) for name, value in kwargs.items()}
        if self.name == "finditer":
            return match_iterator(ctx, method, found, named)
        return call_pure(ctx, method, *found, **named)

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.text(self.receiver)}.{self.name}"


class MatchIterator(PositionIterator):
    """What `finditer` gives."""

    __slots__ = ("arguments", "keywords", "method")

    def __init__(self, method: Any, arguments: list[Any], keywords: dict[str, Any]) -> None:
        super().__init__([MatchValue(match) for match in method(*arguments, **keywords)])
        self.method, self.arguments, self.keywords = method, arguments, keywords

    def python_type(self, ctx: Context) -> type:
        return type(re.finditer("", ""))

    def rebuilt(self, out: ExitWriter) -> str:
        arguments = [out.hold(argument) for argument in self.arguments]
        arguments += [f"{name}={out.hold(argument)}" for name, argument in self.keywords.items()]
        return f"{out.hold(self.method)}({', '.join(arguments)})"


def match_iterator(ctx: Context, method: Any, args: list[Any], kwargs: dict[str, Any]) -> Value:
    call_pure(ctx, lambda: method(*args, **kwargs) and None)  # raises what it raises
    return ctx.born(MatchIterator(method, args, kwargs))


def _is_called(ctx: Context, replacement: Value) -> bool:
    return not isinstance(ctx.real(replacement), ConstantValue)


def replaced(ctx: Context, pattern: Any, name: str, function: Value, text: Value, count: Value | None = None) -> Value:
    """`pattern.sub(function, text)` or `subn`: what stands for each match, the function says."""
    whole, most = plain(ctx, text), 0 if count is None else plain(ctx, count)
    pieces, at, times = [], 0, 0
    for match in pattern.finditer(whole):
        if times == most > 0:
            break
        ctx.spend(1)
        found = ctx.real(function.call(ctx, [ctx.born(MatchValue(match))], {}))
        new = plain(ctx, found)
        if type(new) is not type(whole) or type(most) is not int or most < 0:
            found.refuse("operation is not supported", f"{name}()")
        pieces += [whole[at : match.start()], new]
        at, times = match.end(), times + 1
    result = from_python(ctx, whole[:0].join([*pieces, whole[at:]]))
    return result if name == "sub" else TupleValue([result, constant(times)])


def _substitution(function: Any) -> None:
    name = function.__name__
    others = pure(function, name)

    def handler(ctx: Context, *args: Value, **kwargs: Value) -> Value:
        if len(args) != 3 or not _is_called(ctx, args[1]) or not kwargs.keys() <= {"count", "flags"}:
            return others(ctx, *args, **kwargs)
        flags = [plain(ctx, kwargs["flags"])] if "flags" in kwargs else []
        pattern = ctx.real(call_pure(ctx, re.compile, plain(ctx, args[0]), *flags)).as_python(ctx)
        return replaced(ctx, pattern, name, args[1], args[2], kwargs.get("count"))

    register(function, handler)


_substitution(re.sub)
_substitution(re.subn)


@wraps(re.Pattern)
def build_pattern(ctx: Context, obj: re.Pattern[Any], source: Source) -> Value:
    ctx.guard(Kind.IS, source, obj)
    return PatternValue(obj, source)


@wraps(re.Match)
def build_match(ctx: Context, obj: re.Match[Any], source: Source) -> Value:
    """One from outside is another object each time: nothing but its type is known."""
    ctx.guard(Kind.TYPE, source, re.Match)
    return OpaqueValue(obj, source)


PYTHON_RESULTS[re.Pattern] = lambda ctx, obj, leaf: PatternValue(obj)
PYTHON_RESULTS[re.Match] = lambda ctx, obj, leaf: ctx.born(MatchValue(obj))
