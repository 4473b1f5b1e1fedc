"""Generators that the region makes and consumes itself: a suspended frame of the interpreter."""

from __future__ import annotations

from types import GeneratorType
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from .base import Mutable, Value
from .builtin_methods import MethodsByName
from .constants import constant

if TYPE_CHECKING:
    from ..interpreter.context import Context


class GeneratorValue(MethodsByName, Mutable):
    """`frame` is the interpreter's; `content` its saved state, None when it has ended."""

    __slots__ = ("frame", "started")

    kind = "generator"
    builtin = GeneratorType
    has_identity = True

    def __init__(self, frame: Any) -> None:
        super().__init__(frame.save())
        self.frame = frame

    def python_type(self, ctx: Context) -> type:
        return GeneratorType

    def truth(self, ctx: Context) -> bool:
        return True

    def iterate(self, ctx: Context) -> Value:
        return self

    def next(self, ctx: Context) -> Value | None:
        return self.send(ctx, constant(None))[0]

    def send(self, ctx: Context, sent: Value) -> tuple[Value | None, Value]:
        """(item, None) or, at the end, (None, the generator's return value)."""
        if self.content is None:
            return None, constant(None)
        return ctx.resume(self, sent)

    def method_close(self, ctx: Context) -> Value:
        if self.content is not None and self.holds_finally():
            raise GraphBreak("generator is left inside try or with", str(self))
        ctx.change(self, None)
        return constant(None)

    def holds_finally(self) -> bool:
        """Would dropping it now run code of the user's?"""
        return self.content is not None and self.frame.suspended_in_handler(self.content)
