"""What `install(discover=[...])` may name, and which modules that covers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias

import torch

from .codes import codes_within, functions_behind, functions_of_class, mentions_torch

#: a module's name (with all below it) or "*", a module, a class, a function or method, or a model
Target: TypeAlias = str | ModuleType | type | Callable[..., Any] | torch.nn.Module
#: asked of each function before it is opted in
Filter = Callable[[FunctionType], bool]

#: Nothing of these is ever discovered: what torch does with tensors is operators to us.
_NEVER = frozenset(["torch", "torchgen", "functorch", "triton", "tracer", "rewriter", "bytecode"])
_KINDS = "names of modules, modules, classes, functions, methods and models"
_INSTALLED = ("site-packages", "dist-packages")


def is_never(module: str) -> bool:
    return module.partition(".")[0] in _NEVER


class Targets:
    """All that was asked for so far."""

    def __init__(self) -> None:
        #: names of modules, each with all below it
        self.names: dict[str, None] = {}
        self.everything = False

    def add(self, targets: Iterable[Target] | Target) -> list[FunctionType]:
        """Take note of names; gives the functions that were named themselves, or as a class or a model."""
        one = isinstance(targets, (str, ModuleType, type)) or callable(targets)
        if not one and (isinstance(targets, (bytes, bytearray)) or not isinstance(targets, Iterable)):
            raise TypeError(f"discover takes one or several of {_KINDS}, not {targets!r}")
        names: list[str] = []
        functions: list[FunctionType] = []
        several: Any = [targets] if one else targets
        for target in several:
            if isinstance(target, ModuleType):
                names.append(target.__name__)
            elif isinstance(target, str):
                names.append(target)
            else:
                functions += _functions_of(target)
        for name in names:
            _check(name)
        self.everything = self.everything or "*" in names
        self.names.update(dict.fromkeys(name for name in names if name != "*"))
        return functions

    def names_it(self, module: str) -> bool:
        """Is the module one of those named, or below one?"""
        return any(module == name or module.startswith(f"{name}.") for name in self.names) and not is_never(module)

    def may_want(self, module: str) -> bool:
        if self.names_it(module):
            return True
        return self.everything and not is_never(module) and module.partition(".")[0] not in sys.stdlib_module_names

    def wants(self, module: str, filename: str | None, code: Iterable[CodeType]) -> bool:
        """Of what nobody named, and that is installed, only modules count that mention torch."""
        if self.names_it(module):
            return True
        if not self.may_want(module):
            return False
        return not any(part in (filename or "") for part in _INSTALLED) or any(map(mentions_torch, code))


def _check(name: str) -> None:
    if name != "*" and not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"discover: {name!r} is no name of a module")
    if is_never(name):
        raise ValueError(f"discover: functions of {name!r} are never discovered; name the modules that use it")


def _functions_of(target: Any) -> list[FunctionType]:
    if not callable(target) and not isinstance(target, (staticmethod, classmethod, property)):
        raise TypeError(f"discover takes {_KINDS}, not {target!r}")
    if isinstance(target, torch.nn.Module):
        classes = {cls: None for module in target.modules() for cls in type(module).__mro__}
        found = [f for cls in classes if not is_never(cls.__module__) for f in functions_of_class(cls)]
    elif isinstance(target, type):
        found = [f for cls in target.__mro__ if not is_never(cls.__module__) for f in functions_of_class(cls)]
    else:
        found = list(functions_behind(target))
    found = [function for function in found if not is_never(function.__globals__.get("__name__", ""))]
    if not found:
        raise ValueError(
            f"discover: {target!r} has no Python functions of its own; name modules, classes or functions that use "
            "torch, or compile it: tracer.compile(...)"
        )
    return found


def codes_of(functions: Iterable[FunctionType], original: Callable[[CodeType], CodeType]) -> Iterator[CodeType]:
    """Their code as its author wrote it, and what is nested in that."""
    for function in functions:
        yield from codes_within(original(function.__code__))
