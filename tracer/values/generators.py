"""Generators, coroutines and asynchronous generators that the region makes: suspended frames of the interpreter.

A generator may be consumed in the region as well. One of any kind that has not begun can be handed on: at run time its
function is called again, which runs nothing of it. What runs later is the function's private copy, with regions of its
own between the yields or awaits.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..errors import GraphBreak
from .base import Mutable, Raised, Value
from .builtin_methods import MethodsByName
from .constants import ConstantValue, constant
from .private import private_text

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter
    from .functions import FunctionValue


class SuspendedValue(Mutable):
    """`frame` is the interpreter's; `content` its saved state, None when it has ended."""

    __slots__ = ("frame",)

    builtin: ClassVar[Any]
    has_identity = True

    def __init__(self, frame: Any) -> None:
        super().__init__(frame.save())
        self.frame = frame

    def __str__(self) -> str:
        return f"{self.kind} {self.frame.function.qualname}"

    def python_type(self, ctx: Context) -> type:
        return self.builtin

    def truth(self, ctx: Context) -> bool:
        return True

    def holds_finally(self) -> bool:
        """Would dropping it now run code of the user's?"""
        return self.content is not None and self.frame.suspended_in_handler(self.content)

    def reconstruct(self, out: ExitWriter) -> str:
        if self.content is None or not self.frame.is_fresh(self.content):
            self.refuse("object cannot be rebuilt", "the progress")
        return call_text(out, self.frame.function, self.content.locals)


class GeneratorValue(MethodsByName, SuspendedValue):
    """A generator, which the region may consume."""

    __slots__ = ()

    kind = "generator"
    builtin = GeneratorType

    def iterate(self, ctx: Context) -> Value:
        return self

    def next(self, ctx: Context) -> Value | None:
        return self.send(ctx, constant(None))[0]

    def send(self, ctx: Context, sent: Value) -> tuple[Value | None, Value]:
        """(item, None) or, at the end, (None, the generator's return value)."""
        if self.content is None:
            return None, constant(None)
        return ctx.resume(self, sent)

    def method_send(self, ctx: Context, value: Value) -> Value:
        item, result = self.send(ctx, ctx.real(value))
        return raise_end(ctx, result) if item is None else item

    def method___next__(self, ctx: Context) -> Value:
        return self.method_send(ctx, constant(None))

    def method_throw(self, ctx: Context, exception: Value, *older: Value) -> Value:
        """Of an exception; `older`: as it is called before Python 3.12, with class, exception and traceback."""
        thrown = ctx.real(older[0] if older else exception)
        if not issubclass(thrown.python_type(ctx), BaseException):
            self.refuse("operation is not supported", "throw() of a class")
        if self.content is None:
            raise Raised(thrown)
        item, result = ctx.resume(self, constant(None), thrown)
        return raise_end(ctx, result) if item is None else item

    def method_close(self, ctx: Context) -> Value:
        if self.content is not None and self.holds_finally():
            raise GraphBreak("generator is left inside try or with", str(self))
        ctx.change(self, None)
        return constant(None)


def raise_end(ctx: Context, result: Value) -> NoReturn:
    """The StopIteration with which an iterator ends."""
    result = ctx.real(result)
    if isinstance(result, ConstantValue):
        ctx.raise_(StopIteration() if result.value is None else StopIteration(result.as_python(ctx)))
    raise GraphBreak("Python raises or warns here", f"StopIteration with {result}")


class CoroutineValue(SuspendedValue):
    """A coroutine, which the region makes but never begins: awaiting it is a break."""

    __slots__ = ()

    kind = "coroutine"
    builtin = CoroutineType

    def next(self, ctx: Context) -> Value | None:
        raise GraphBreak("coroutine is suspended or called", f"await of {self}")

    def effects(self, out: ExitWriter) -> Iterable[str]:
        """It is made even if nobody holds it any more: Python warns of one that nobody awaited."""
        out.text(self)
        return ()


class AsyncGeneratorValue(SuspendedValue):
    """An asynchronous generator, which the region makes but never begins."""

    __slots__ = ()

    kind = "asynchronous generator"
    builtin = AsyncGeneratorType


def call_text(out: ExitWriter, function: FunctionValue, bound: dict[str, Value]) -> str:
    """A call of the function with the locals that an earlier call has bound."""
    code = function.code
    positional, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names, after = code.co_varnames, named
    arguments = [out.text(bound[name]) for name in names[:positional]]
    if code.co_flags & inspect.CO_VARARGS:
        arguments.append(f"*{out.text(bound[names[after]])}")
        after += 1
    # not `name=...`: names are changed where regions meet in one text
    pairs = [f"{name!r}: {out.text(bound[name])}" for name in names[positional:named]]
    if pairs:
        arguments.append("**{" + ", ".join(pairs) + "}")
    if code.co_flags & inspect.CO_VARKEYWORDS:
        arguments.append(f"**{out.text(bound[names[after]])}")
    return f"{private_text(out, function)}({', '.join(arguments)})"
