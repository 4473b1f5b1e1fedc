"""Functions of the standard library whose result depends on their arguments alone: called at capture."""

from __future__ import annotations

import binascii
import bisect
import cmath
import fnmatch
import json
import keyword
import math
import os
import re
import string
import struct
import sys
import textwrap
import types
import unicodedata
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Source
from .base import Value, wraps_object
from .builtin_registry import builtin
from .callables import HeldFunction
from .constants import ConstantValue, call_pure, plain, traced
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

#: modules written in C of which every function is pure
_MODULES: tuple[ModuleType, ...] = (math, cmath, unicodedata, binascii)
#: pure functions written in Python, which need not be read, and single ones written in C
_FUNCTIONS: tuple[Any, ...] = (
    re.split, re.findall, re.escape, re.match, re.fullmatch, re.search, re.compile,
    string.capwords, textwrap.dedent, textwrap.indent, textwrap.fill, textwrap.shorten, textwrap.wrap,
    keyword.iskeyword, fnmatch.fnmatch, fnmatch.fnmatchcase, json.dumps, json.loads,
    struct.pack, struct.unpack, struct.calcsize, zlib.crc32, zlib.adler32,
    str.maketrans, os.fspath, sys.intern, bisect.bisect_left, bisect.bisect_right,
)  # fmt: skip


def known(ctx: Context, value: Value, what: str) -> Any:
    """The plain object that the value is; a tensor's value is only known at run time."""
    real = ctx.real(value)
    if isinstance(real, TensorValue):
        raise GraphBreak("tensor value is read", f"{what} of {real}", "use the torch function of that name")
    return plain(ctx, real)


def pure(function: Callable[..., Any], name: str) -> Callable[..., Value]:
    """The handler that calls a pure function on plain objects."""

    def handler(ctx: Context, *args: Value, **kwargs: Value) -> Value:
        simple = [real for real in map(ctx.real, args) if isinstance(real, ConstantValue)]
        if not kwargs and len(simple) == len(args):
            return traced(ctx, function, *simple)
        arguments = [known(ctx, a, name) for a in args]
        return call_pure(ctx, function, *arguments, **{k: known(ctx, v, name) for k, v in kwargs.items()})

    return handler


def _functions_of(module: ModuleType) -> list[Any]:
    return [f for f in vars(module).values() if type(f) is types.BuiltinFunctionType]


for _function in (f for module in _MODULES for f in _functions_of(module) if f is not math.prod):  # of sizes: a size
    builtin(_function)(pure(_function, _function.__qualname__))


class PureFunctionValue(HeldFunction):
    """A pure function written in Python: called, not read."""

    __slots__ = ("handler",)

    kind = "pure function"

    def __init__(self, function: Any, handler: Callable[..., Value], source: Source | None) -> None:
        super().__init__(function, source)
        self.handler = handler

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.handler(ctx, *args, **kwargs)


def register(function: Any, handler: Callable[..., Value]) -> None:
    """The handler answers for calls of this function, be it written in C or in Python."""
    if not isinstance(function, types.FunctionType):
        builtin(function)(handler)
        return

    def builder(ctx: Context, obj: Any, source: Source) -> Value:
        ctx.guard(Kind.IS, source, obj)
        return PureFunctionValue(obj, handler, source)

    wraps_object(function)(builder)


for _function in _FUNCTIONS:
    register(_function, pure(_function, _function.__qualname__))
