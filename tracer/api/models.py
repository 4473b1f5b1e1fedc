"""Modules: compile one instance in place, or a copy that shares everything but its own dicts.

`nn.Module.__call__` looks for `_compiled_call_impl` in the instance and calls that instead of `_call_impl`; that one
attribute is all that changes. It goes by itself when the module is pickled or copied.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from ..originals import plain_copy
from ..torch_private import COMPILED_CALL, module_call_impl

#: The dicts and sets that every module has for itself.
_OWN = frozenset(name for name, value in vars(torch.nn.Module()).items() if type(value) in (dict, OrderedDict, set))


class CompiledCall:
    """What stands in a model's `_compiled_call_impl`: a private copy of `_call_impl`, called with the model.

    It holds the model weakly, and looks for it in the caller's frame first: the replicas of DataParallel share the
    original's attributes, and each must be called as itself.
    """

    __slots__ = ("__weakref__", "_model", "private")

    def __init__(self, model: torch.nn.Module, private: types.FunctionType) -> None:
        self._model = weakref.ref(model)
        self.private = private

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        model = sys._getframe(1).f_locals.get("self")
        if not isinstance(model, torch.nn.Module) or model.__dict__.get(COMPILED_CALL) is not self:
            model = self._model()
            if model is None:
                raise ReferenceError("the compiled model is gone")
        return self.private(model, *args, **kwargs)

    def __reduce__(self) -> Any:
        # A module whose own __getstate__ keeps this: what is pickled or copied is plain.
        return types.NoneType, ()


class CompiledModel:
    """One model that was compiled in place, held weakly; knows how to put it back."""

    def __init__(self, model: torch.nn.Module, gone: Callable[[int], None]) -> None:
        key = id(model)
        self.reference = weakref.ref(model, lambda _: gone(key))
        function: Any = module_call_impl(model)
        if type(function) is not types.FunctionType:
            raise TypeError(f"{type(model).__qualname__}._call_impl is no plain function, so it cannot be compiled")
        # The private copy lives as long as the attribute that holds it, or this record.
        self.call = CompiledCall(model, plain_copy(function, own_code=True))
        self._before: Any = model.__dict__.get(COMPILED_CALL)

    @property
    def private(self) -> Any:
        return self.call.private

    def put(self) -> None:
        model = self.reference()
        if model is not None:
            model.__dict__[COMPILED_CALL] = self.call

    def take_away(self) -> None:
        model = self.reference()
        if model is None or model.__dict__.get(COMPILED_CALL) is not self.call:
            return
        if self._before is None:
            del model.__dict__[COMPILED_CALL]
        else:
            model.__dict__[COMPILED_CALL] = self._before


def copy_module(model: torch.nn.Module) -> torch.nn.Module:
    """A module of the same class with dicts of its own that hold the same parameters, buffers, submodules and hooks."""
    cls: Any = type(model)
    copy: torch.nn.Module = cls.__new__(cls)
    for name, value in model.__dict__.items():
        copy.__dict__[name] = value.copy() if name in _OWN else value
    copy.__dict__.pop(COMPILED_CALL, None)
    return copy
