"""A function and its arguments, as the command line names them: `module:function`, `--args "torch.ones(3), n=2"`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch


class Wrong(Exception):
    """A question that cannot be answered; the message says what to do."""


def load(target: str) -> tuple[Any, ModuleType]:
    """The object that `module:expression` or `file.py:expression` names, and its module.

    Mostly a function's name; any expression over the module's names will do: `models:Net(3)`, `train:Trainer.step`.
    """
    where, colon, expression = _split(target)
    if not colon or not where or not expression.strip():
        raise Wrong(f"{target!r} names no function: write module:function, or file.py:function")
    module = load_module(where)
    try:
        return eval(expression, module.__dict__), module
    except Exception as error:
        raise Wrong(_of_the_user(f"{expression!r} is not to be had in {where}", error)) from error


def _split(target: str) -> tuple[str, str, str]:
    """At the first colon behind a file's name, which may have one itself, or else at the first."""
    at = target.find(".py:")
    if at >= 0:
        return target[: at + 3], ":", target[at + 4 :]
    return target.partition(":")


def load_module(where: str) -> ModuleType:
    try:
        if where.endswith(".py"):
            return _load_file(where)
        _may_import_from(os.getcwd())
        return importlib.import_module(where)
    except Wrong:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (where == error.name or where.startswith(f"{error.name}.")):
            raise Wrong(f"there is no module {where!r}: run this where it can be imported, or name its file") from error
        raise Wrong(_of_the_user(f"{where} cannot be imported", error)) from error
    except Exception as error:
        raise Wrong(_of_the_user(f"{where} cannot be imported", error)) from error


def _load_file(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise Wrong(f"there is no file {path!r}")
    name = os.path.splitext(os.path.basename(path))[0]
    _may_import_from(os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _may_import_from(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def arguments(text: str | None, inputs: str | None, module: ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """From `--args`, a call's arguments as Python; or from `--inputs`, the name of an object that holds them."""
    if text is not None and inputs is not None:
        raise Wrong("give --args or --inputs, not both")
    if inputs is not None:
        return _held(load(inputs)[0])
    torch.manual_seed(0)  # so that two runs see the same
    names = {"torch": torch, **module.__dict__, "_arguments": lambda *args, **kwargs: (args, kwargs)}
    try:
        found: tuple[tuple[Any, ...], dict[str, Any]] = eval(f"_arguments({text or ''})", names)
    except Exception as error:
        raise Wrong(_of_the_user(f"--args {text!r} is no list of arguments", error)) from error
    return found


def _held(found: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A function that gives them, a tuple or list of them, a mapping of them by name, or the one there is."""
    if callable(found) and not isinstance(found, torch.Tensor):
        found = found()
    if isinstance(found, (tuple, list)):
        return tuple(found), {}
    if isinstance(found, Mapping):
        return (), dict(found)
    return (found,), {}


def _of_the_user(what: str, error: BaseException) -> str:
    """With the line of the user's that raised, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames and frames[-1].filename != __file__ else ""
    return f"{what}: {type(error).__name__}: {error}{at}"
