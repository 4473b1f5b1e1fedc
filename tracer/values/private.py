"""Private copies: what runs in a function's stead where the program goes on behind a region, with its own regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..graph.capture import Callee

if TYPE_CHECKING:
    from ..interpreter.exits import ExitWriter
    from .functions import FunctionValue

#: Packages of Python's own that compute nothing with tensors, whatever their functions do before they break.
_LEFT_ALONE = frozenset(
    "asyncio concurrent ctypes email http importlib inspect json linecache logging multiprocessing pathlib pickle "
    "queue random re selectors shutil signal socket sqlite3 ssl subprocess tempfile threading time traceback unittest "
    "urllib uuid warnings xml zipfile".split()
)

#: Modules of torch that are just so.
_LEFT_ALONE_IN_TORCH = ("torch.profiler", "torch.autograd.profiler", "torch.amp")


def is_left_alone(function: FunctionValue) -> bool:
    """May it be read, but not have a private copy, since there would be nothing to compile in it?"""
    module = function.globals.get("__name__")
    if not isinstance(module, str):
        return False
    return module.partition(".")[0] in _LEFT_ALONE or module.startswith(_LEFT_ALONE_IN_TORCH)


def private_text(out: ExitWriter, function: FunctionValue) -> str:
    """The function, for a place that does nothing but call it: its private copy where it can have one."""
    made_anew = function.source is not None and function.closure
    if function.function is None or made_anew or is_left_alone(function):
        return out.text(function)
    return out.hold(Callee(function.function), f"callee_{function.function.__name__}")
