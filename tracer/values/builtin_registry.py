"""Who answers for a function or class that is written in C: one handler for each, found by identity.

A handler is a plain function `(ctx, *args, **kwargs) -> Value` whose signature is that of the real one; a call that
does not fit it is refused, so that CPython itself complains.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak, InternalError
from .base import Value

if TYPE_CHECKING:
    from ..interpreter.context import Context

Handler = Callable[..., Value]

#: by identity; the objects are kept, so no identity is used again
_handlers: dict[int, tuple[object, Handler]] = {}
#: class methods of builtin classes, of which each lookup makes a new object
_class_methods: dict[tuple[type, str], Handler] = {}


def builtin(*functions: Any) -> Callable[[Handler], Handler]:
    """Register a handler for these functions or classes."""

    def register(handler: Handler) -> Handler:
        for function in functions:
            if id(function) in _handlers:
                raise InternalError(f"two handlers for {function!r}")
            _handlers[id(function)] = function, handler
        return handler

    return register


def builtin_class_method(cls: type, name: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        _class_methods[cls, name] = handler
        return handler

    return register


def handler_of(function: Any) -> Handler | None:
    found = _handlers.get(id(function))
    if found is not None and found[0] is function:
        return found[1]
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):
        return _class_methods.get((owner, function.__name__))
    return None


def call_builtin(ctx: Context, function: Any, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
    """Call a function or class that is written in C (or known to be pure)."""
    handler = handler_of(function)
    if handler is None:
        raise GraphBreak("function written in C is called", name_of(function))
    return call_handler(ctx, handler, name_of(function), args, kwargs or {})


def call_type(ctx: Context, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What calling a builtin class gives; None for a class that is none of ours."""
    handler = handler_of(cls)
    return None if handler is None else call_handler(ctx, handler, cls.__name__, args, kwargs)


def call_class_method(
    ctx: Context, cls: type, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value | None:
    """`cls.name(...)` of a builtin class; None for one that is none of ours."""
    handler = _class_methods.get((cls, name))
    return None if handler is None else call_handler(ctx, handler, f"{cls.__name__}.{name}", args, kwargs)


def call_handler(ctx: Context, handler: Handler, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not _fits(handler, len(args), kwargs):
        given = f"{name}() with {len(args)} arguments {', '.join(kwargs)}"
        raise GraphBreak("arguments do not fit the call", given.rstrip())
    return handler(ctx, *args, **kwargs)


def _fits(handler: Handler, given: int, kwargs: dict[str, Value]) -> bool:
    """Would the real one take these arguments? The handler's first parameter is the context."""
    code = handler.__code__
    names = code.co_varnames[1 : code.co_argcount]
    if given > len(names) and not code.co_flags & inspect.CO_VARARGS:
        return False
    by_keyword = names[max(0, code.co_posonlyargcount - 1) :]
    taken = set(by_keyword) | set(code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount])
    if not code.co_flags & inspect.CO_VARKEYWORDS and not set(kwargs) <= taken:
        return False
    if set(names[:given]) & set(kwargs) & set(by_keyword):
        return False
    required = names[: len(names) - len(handler.__defaults__ or ())]
    return all(name in kwargs for name in required[given:])


def name_of(function: Any) -> str:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or repr(function)
    if name.startswith("pybind11_"):  # that of a class of pybind11's own, which says nothing
        name = function.__name__
    return name if module in (None, "builtins") else f"{module}.{name}"
