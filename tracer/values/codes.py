"""Code objects: what a decorator or a signature reads from `function.__code__`.

A compiled function's code object is a grafted one at run time. What is read here is the author's: the same names and
numbers, without the locals that the graft adds.
"""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING

from ..guards import MISSING, Kind
from ..sources import Source
from .base import Value, wraps
from .constants import constant, is_constant

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class CodeValue(Value):
    """A code object that does not change: a CODE or IS guard, or the region itself, says which it is."""

    __slots__ = ("code",)

    kind = "code object"
    has_identity = True

    def __init__(self, code: CodeType, source: Source | None = None) -> None:
        super().__init__(source)
        self.code = code

    def python_type(self, ctx: Context) -> type:
        return CodeType

    def truth(self, ctx: Context) -> bool:
        return True

    def is_same(self, ctx: Context, other: Value) -> bool:
        return isinstance(other, CodeValue) and self.code is other.code

    def getattr(self, ctx: Context, name: str) -> Value:
        found = getattr(self.code, name) if name.startswith("co_") and hasattr(self.code, name) else MISSING
        if found is MISSING or not is_constant(found):
            self.refuse("attribute cannot be read", f".{name}")
        return constant(found)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.hold(self.code)


@wraps(CodeType)
def build_code(ctx: Context, obj: CodeType, source: Source) -> Value:
    ctx.guard(Kind.IS, source, obj)
    return CodeValue(obj, source)
