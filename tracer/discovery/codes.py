"""Code objects of functions, and the function objects that run them."""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Iterator
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from ..holding import is_a, type_dict, type_mro
from ..originals import original_code
from ..torch_dynamo import is_disabled

#: Special methods that compute; the others make, compare, copy or describe objects.
_COMPUTING = frozenset(["__call__", "__getitem__", "__iter__", "__next__", "__aiter__", "__anext__"])
_FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
#: So many objects are looked at behind one name: wrappers within wrappers.
_WRAPPED = 64


def is_function(code: CodeType) -> bool:
    """Is it what a `def` or `lambda` makes, and may it compute? Comprehensions, class bodies and the like are not."""
    name = code.co_name
    if code.co_flags & _FUNCTION != _FUNCTION or (name.startswith("<") and name != "<lambda>"):
        return False
    special = name.startswith("__") and name.endswith("__")
    return not special or name in _COMPUTING


def codes_within(code: CodeType) -> Iterator[CodeType]:
    """This code object and all that are nested in it, functions or not."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_within(constant)


def mentions_torch(code: CodeType) -> bool:
    """Does it, or what is nested in it, import torch or name it?"""
    return any(name == "torch" or name.startswith("torch.") for inner in codes_within(code) for name in inner.co_names)


def functions_behind(found: object) -> Iterator[FunctionType]:
    """The functions that a name stands for: itself, what it wraps, what its closure holds. None that is disabled."""
    todo: list[Any] = [found]
    seen = set[int]()
    while todo and len(seen) < _WRAPPED:
        obj = todo.pop()
        if id(obj) in seen:
            continue
        seen.add(id(obj))
        if type(obj) is FunctionType:
            if is_disabled(obj):
                continue
            yield obj
            todo += [vars(obj).get("__wrapped__"), *(_content(cell) for cell in obj.__closure__ or ())]
        elif issubclass(type(obj), (staticmethod, classmethod, MethodType)):
            todo.append(obj.__func__)
        elif is_a(obj, property):
            todo += [obj.fget, obj.fset, obj.fdel]
        elif issubclass(type(obj), (functools.partial, functools.partialmethod, functools.cached_property)):
            todo.append(obj.func)
        elif type(obj) is _CACHED:
            todo.append(vars(obj).get("__wrapped__"))


_CACHED: Any = type(functools.lru_cache(lambda: None))


def _content(cell: CellType) -> object:
    try:
        found = cell.cell_contents
    except ValueError:
        return None
    return found if type(found) in (FunctionType, MethodType) else None


_qualname: Any = vars(type)["__qualname__"].__get__


def functions_of_class(cls: type) -> Iterator[FunctionType]:
    """Its own, not those it inherits; of nested classes too."""
    for value in list(type_dict(cls).values()):
        if is_a(value, type):
            if _qualname(value).startswith(f"{_qualname(cls)}."):
                yield from functions_of_class(value)
        else:
            yield from functions_behind(value)


def functions_of_module(module: ModuleType) -> Iterator[FunctionType]:
    """Those that it defines, not those that it imports."""
    namespace = module.__dict__
    for value in list(namespace.values()):
        if is_a(value, type):
            if type_dict(value).get("__module__") == module.__name__:
                yield from functions_of_class(value)
        else:
            for function in functions_behind(value):
                if function.__globals__ is namespace:
                    yield function


def is_making_module(frame: FrameType) -> bool:
    """Does the frame run the `__init__` of a module's class?"""
    code = frame.f_code
    if code.co_name != "__init__":
        return False
    found: object = None
    if "<locals>" in code.co_qualname:
        found = type(frame.f_locals.get(code.co_varnames[0])) if code.co_argcount else None
    else:
        first, *names = code.co_qualname.split(".")[:-1] or [""]
        found = frame.f_globals.get(first)
        for name in names:
            found = type_dict(found).get(name) if is_a(found, type) else None
    return is_a(found, type) and torch.nn.Module in type_mro(found)


def functions_running(code: CodeType, frame: FrameType, self: object) -> list[FunctionType]:
    """The function objects with this code, one of which the frame runs: by its name, by its class, else by a search.

    The search asks the garbage collector, which takes some 50 ms where there are a million objects.
    """
    names = code.co_qualname.split(".")
    if "<locals>" not in names:
        found = _by_name(code, frame.f_globals.get(names[0]), names[1:])
        if found:
            return found
    for cls in type_mro(type(self)) if code.co_argcount else ():
        found = _with(code, type_dict(cls).get(code.co_name))
        if found:
            return found
    return [f for f in gc.get_referrers(code) if type(f) is FunctionType and original_code(f.__code__) is code]


def _by_name(code: CodeType, found: object, names: list[str]) -> list[FunctionType]:
    for name in names:
        if not is_a(found, type):
            return []
        found = type_dict(found).get(name)
    return _with(code, found)


def _with(code: CodeType, found: object) -> list[FunctionType]:
    return [f for f in functions_behind(found) if original_code(f.__code__) is code]
