"""Functions that Python's library makes anew for each use, known by their code: what calling one means."""

from __future__ import annotations

import dataclasses
import reprlib
from typing import TYPE_CHECKING, Any

from .base import Value
from .constants import constant
from .functions import CODE_MEANINGS, FunctionValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


def _repr_once(ctx: Context, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The wrapper that `reprlib.recursive_repr` makes: "..." for an object whose text is being made already.

    It remembers objects by `id`, which is known only at run time; the frames that are being read tell the same.
    """
    cells = dict(zip(function.code.co_freevars, function.closure, strict=True))
    user_function: Any = ctx.real(_content(ctx, cells["user_function"]))
    for frame in ctx.frames:
        if frame.function is user_function and args:
            first = frame.locals.get(frame.code.co_varnames[0])
            if first is not None and ctx.real(first) is ctx.real(args[0]):
                return _content(ctx, cells["fillvalue"]) if "fillvalue" in cells else constant("...")
    return user_function.call(ctx, args, kwargs)


def _content(ctx: Context, cell: Value) -> Any:
    return ctx.real(cell).content  # type: ignore[attr-defined]


def _text(obj: Any) -> str:
    return ""


_wrappers: list[Any] = [reprlib.recursive_repr()(_text)]
if hasattr(dataclasses, "_recursive_repr"):
    _wrappers.append(dataclasses._recursive_repr(_text))
for _wrapper in _wrappers:
    CODE_MEANINGS[id(_wrapper.__code__)] = _wrapper.__code__, _repr_once
