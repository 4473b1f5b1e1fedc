"""Compiled regular expressions, and matches of known texts: immutable objects, whose methods are pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from ..guards import Kind
from ..sources import Source
from .base import Value, wraps
from .constants import PYTHON_RESULTS, call_pure, constant, from_python, plain
from .objects import OpaqueValue
from .stepping import PositionIterator

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
