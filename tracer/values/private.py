"""Private copies: what runs in a function's stead where the program goes on behind a region, with its own regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..graph.capture import Callee, ClosureCallee
from ..holding import lives_for_ever
from ..sources import Held

if TYPE_CHECKING:
    from ..interpreter.exits import ExitWriter
    from .functions import FunctionValue

#: Packages of Python's own that compute nothing with tensors, whatever their functions do before they break.
_LEFT_ALONE = frozenset(
    "asyncio concurrent ctypes email http importlib inspect json linecache logging multiprocessing pathlib pickle "
    "queue random re selectors shutil signal socket sqlite3 ssl subprocess tempfile threading time traceback unittest "
    "urllib uuid warnings xml zipfile".split()
)

#: Modules of torch that are just so, or give a function to autograd in a way (twice backwards, under an old vmap) that
#: no compiled graph bears.
_LEFT_ALONE_IN_TORCH = (
    "torch.profiler", "torch.autograd.profiler", "torch.amp", "torch._dynamo", "torch._inductor", "torch._functorch",
    "torch._higher_order_ops", "torch._compile", "torch._guards", "torch._ops", "torch._subclasses", "torch._library",
    "torch.compiler", "torch.fx.traceback", "torch.fx.experimental", "torch.utils.checkpoint",
    "torch.autograd.functional", "torch._vmap_internals",
)  # fmt: skip
#: Optimizers of torch compute otherwise where they are told that they are compiled (Adam: its bias in float32, on
#: tensors), and a rate that a scheduler changes would be a number of the graph. What leads to any optimizer's step,
#: also a user's, is in the first of these modules.
_OPTIMIZERS = "torch.optim."
_AROUND_STEPS = frozenset(["torch.optim.optimizer", "torch.optim.lr_scheduler", "torch.optim.swa_utils"])


def is_not_read(function: FunctionValue) -> bool:
    """Does it compute otherwise where it is told that it is compiled? Then not even a whole call of it is captured."""
    module = function.globals.get("__name__")
    return isinstance(module, str) and module.startswith(_OPTIMIZERS) and module not in _AROUND_STEPS


def is_left_alone(function: FunctionValue) -> bool:
    """May it be read, but not have a private copy, since compiling parts of it would give nothing?"""
    module = function.globals.get("__name__")
    if not isinstance(module, str):
        return False
    if is_not_read(function):
        return True
    return module.partition(".")[0] in _LEFT_ALONE or module.startswith(_LEFT_ALONE_IN_TORCH)


def has_own_copy(function: FunctionValue) -> bool:
    """Is it the same function at each call, with one copy? Else the region makes the copy from what it finds."""
    known, pinned = function.function, function.source is None or isinstance(function.source, Held)
    return known is not None and not known.__closure__ and (pinned or lives_for_ever(known))


def private_text(out: ExitWriter, function: FunctionValue) -> str:
    """The function, for a place that does nothing but call it: its private copy where it can have one.

    A function that is another object at each call gets its copy from the region, with its cells and defaults.
    """
    if is_left_alone(function):
        return out.text(function)
    if has_own_copy(function):
        assert function.function is not None
        return out.hold(Callee(function.function), f"callee_{function.function.__name__}")
    maker = out.hold(ClosureCallee(function.code, function.globals), f"callee_{function.code.co_name}")
    return f"{maker}({out.text(function)})"
