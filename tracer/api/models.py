"""Modules: compile one instance in place, or a copy that shares everything but its own dicts.

`nn.Module.__call__` looks for `_compiled_call_impl` in the instance and calls that instead of `_call_impl`; that one
attribute is all that changes. It goes by itself when the module is pickled or copied. What is compiled is a small
function made for the model, its root, with `forward` inlined.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from rewriter.decode import decode

from ..torch_private import CALL_IMPL, COMPILED_CALL, called_plainly, module_call_impl
from ..watching import Keeper

#: The dicts and sets that every module has for itself.
_OWN = frozenset(name for name, value in vars(torch.nn.Module()).items() if type(value) in (dict, OrderedDict, set))
#: What a compiled model runs in the place of `_call_impl`: the same where there are no hooks, without the closure that
#: makes a cell of every local. `nn.Module.__call__` doesn't say which module it is. Usually only one has this call in
#: its dict, as the number of references to it shows; else the caller's frame is asked, which audit hooks make slow.
_ROOT = """
def _call_impl(*args, **kwargs):
    self = model()
    if references(call()) != alone or self is None or self._compiled_call_impl is not call():
        self = called_as(frame(1))
    return (self.forward if called_plainly(self) else call_impl.__get__(self))(*args, **kwargs)
"""


class CompiledCall(functools.partial[Any], Keeper):
    """What stands in a model's `_compiled_call_impl`. There is no frame of its own between caller and root."""

    def __reduce__(self) -> Any:
        # A module whose own __getstate__ keeps this: what is pickled or copied is plain.
        return types.NoneType, ()


def make_root(model: torch.nn.Module, call_impl: types.FunctionType) -> tuple[types.FunctionType, int]:
    """A function for this model to be compiled, and the place of its first entry.

    It holds the model weakly. The replicas of DataParallel share the original's attributes, and each must be called as
    itself.
    """
    code = _root_code(call_impl.__code__)
    found = max(i.index for i in decode(code).instructions if i.opname == "STORE_FAST" and i.arg == "self")
    return _root(model, call_impl, code, _references_when_alone()), found + 1


def _root(
    model: torch.nn.Module, call_impl: types.FunctionType, code: types.CodeType, alone: object
) -> types.FunctionType:
    reference = weakref.ref(model)

    def called_as(caller: types.FrameType) -> torch.nn.Module:
        found = _self_of(caller)
        if isinstance(found, torch.nn.Module):
            there = found.__dict__.get(COMPILED_CALL)
            if isinstance(there, CompiledCall) and there.func is root():
                return found
        original = reference()
        if original is None:
            raise ReferenceError("the compiled model is gone")
        return original

    plainly = called_plainly if call_impl is CALL_IMPL else _never
    namespace: dict[str, Any] = {
        "__name__": call_impl.__module__, "__builtins__": __builtins__, "frame": sys._getframe, "model": reference,
        "references": sys.getrefcount, "alone": alone, "called_as": called_as, "called_plainly": plainly,
        "call_impl": call_impl,
    }  # fmt: skip
    function = types.FunctionType(code, namespace)
    root = weakref.ref(function)
    return function


def _new_call(root: types.FunctionType) -> CompiledCall:
    """To be held by dicts of modules alone, so that its references can be counted."""
    call = CompiledCall(root)
    root.__globals__["call"] = weakref.ref(call)
    return call


def _self_of(frame: types.FrameType) -> object:
    found = frame.f_locals
    self = found.get("self")
    if type(found) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        found.clear()  # before 3.13 this snapshot stays with the frame, and would keep all that it names alive
    return self


class _Seen:
    """Compared with a number, it takes note of it."""

    number = 0

    def __ne__(self, number: object) -> bool:
        assert isinstance(number, int)
        self.number = number
        return False


@functools.cache
def _references_when_alone() -> int:
    """How many references there are to a CompiledCall while one module has it and calls it: tried out."""
    model, seen = torch.nn.Identity(), _Seen()
    root = _root(model, CALL_IMPL, _root_code(CALL_IMPL.__code__), seen)
    model.__dict__[COMPILED_CALL] = _new_call(root)
    model(None)
    return seen.number


def _never(model: torch.nn.Module) -> bool:
    """A class with a `_call_impl` of its own is always called through it."""
    return False


def _root_code(call_impl: types.CodeType) -> types.CodeType:
    """The code of `_ROOT`, at the lines of `_call_impl`, so that tracebacks read as those of a plain call."""
    call = next((i for i in dis.get_instructions(call_impl) if i.opname == "CALL_FUNCTION_EX"), None)
    place = call.positions if call is not None else None
    tree = ast.parse(_ROOT)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.lineno = node.end_lineno = call_impl.co_firstlineno
        elif hasattr(node, "lineno") and place is not None and place.lineno is not None:
            for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
                setattr(node, name, getattr(place, name) or 0)
    module = compile(tree, call_impl.co_filename, "exec", dont_inherit=True)
    [code] = [constant for constant in module.co_consts if isinstance(constant, types.CodeType)]
    return code.replace(co_qualname=call_impl.co_qualname)


class CompiledModel:
    """One model that was compiled in place, held weakly; knows how to put it back."""

    def __init__(self, model: torch.nn.Module, gone: Callable[[int], None]) -> None:
        key = id(model)
        self.reference = weakref.ref(model, lambda _: gone(key))
        function: Any = module_call_impl(model)
        if type(function) is not types.FunctionType:
            raise TypeError(f"{type(model).__qualname__}._call_impl is no plain function, so it cannot be compiled")
        # The root lives as long as the attribute that holds it, or this record.
        self.private, self.start = make_root(model, function)
        self._before: Any = model.__dict__.get(COMPILED_CALL)

    def _is_there(self, model: torch.nn.Module) -> bool:
        there = model.__dict__.get(COMPILED_CALL)
        return isinstance(there, CompiledCall) and there.func is self.private

    def put(self) -> None:
        model = self.reference()
        if model is not None and not self._is_there(model):
            model.__dict__[COMPILED_CALL] = _new_call(self.private)

    def take_away(self) -> None:
        model = self.reference()
        if model is None or not self._is_there(model):
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
