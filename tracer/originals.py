"""Which code object a grafted one was made from, by identity. Whoever reads a function's bytecode asks here first.

Low in the layers, because guards (is this still that function's code?) and the interpreter ask, who know of no cache.
"""

from __future__ import annotations

import weakref
from types import CodeType, FunctionType

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
    """The code as its author wrote it: what was grafted, or `code` itself where that is no graft of ours.

    Guards ask this at run time, so it never raises. A graft that outlived its original (a function that somebody made
    from the grafted code by hand) stands for itself.
    """
    found = _known.get(id(code))
    if found is None or found[0]() is not code:
        return code
    return found[1]() or code


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
    annotate = getattr(function, "__annotate__", None)
    if annotate is not None:  # reading __annotations__ would run it
        setattr(copy, "__annotate__", annotate)  # noqa: B010
    elif function.__annotations__:
        copy.__annotations__ = dict(function.__annotations__)
    if getattr(function, "__type_params__", ()):
        copy.__type_params__ = function.__type_params__
    return copy
