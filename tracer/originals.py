"""Which code object a grafted one was made from, by identity. Whoever reads a function's bytecode asks here first.

Low in the layers, because guards (is this still that function's code?) and the interpreter ask, long before a cache exists.
"""

from __future__ import annotations

import weakref
from types import CodeType, FunctionType

from .errors import InternalError

#: id(grafted) -> (grafted, original): weakly, so that a dropped function is freed.
_known: dict[int, tuple[weakref.ref[CodeType], weakref.ref[CodeType]]] = {}


def remember(grafted: CodeType, original: CodeType) -> None:
    key = id(grafted)

    def gone(ref: weakref.ref[CodeType]) -> None:
        if key in _known and _known[key][0] is ref:
            del _known[key]

    _known[key] = weakref.ref(grafted, gone), weakref.ref(original)


def is_grafted(code: CodeType) -> bool:
    found = _known.get(id(code))
    return found is not None and found[0]() is code


def original_code(code: CodeType) -> CodeType:
    """The code as its author wrote it: what was grafted, or `code` itself where that is no graft of ours."""
    if not is_grafted(code):
        return code
    original = _known[id(code)][1]()
    if original is None:
        raise InternalError(f"the original code of {code.co_qualname} is gone while its graft is in use")
    return original


def plain_copy(function: FunctionType, *, own_code: bool = False) -> FunctionType:
    """A function like this one with its original code, or with a code object of its own that is equal to it."""
    code = original_code(function.__code__)
    copy = FunctionType(
        code.replace() if own_code else code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.__kwdefaults__ = None if function.__kwdefaults__ is None else dict(function.__kwdefaults__)
    copy.__dict__.update(function.__dict__)
    for name in ("__annotate__", "__annotations__", "__type_params__"):  # what there is, on this Python
        value = getattr(function, name, None)
        if value:
            setattr(copy, name, dict(value) if isinstance(value, dict) else value)
    return copy
