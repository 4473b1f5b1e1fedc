"""The marks of TorchDynamo that are honoured here, and how a grafted function is kept from it.

A program may call torch.compile as well. TorchDynamo reads the code of what is called, and cannot read a graft, which
has slots among its constants: so it breaks at a call of a grafted function, and leaves the frames alone.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch

#: the module whose functions stand around what torch.compile was given
WRAPPERS = "torch._dynamo.eval_frame"
#: the attribute with which torch.compiler.disable marks a function, and so does ours
DISABLED = "_torchdynamo_disable"
#: ... and that of torch.compiler.assume_constant_result
CONSTANT_RESULT = "_dynamo_marked_constant"


class _Grafted(enum.Enum):
    """What a grafted function has under `DISABLED`: TorchDynamo stops there, since it cannot read the code."""

    GRAFTED = "its code is grafted"


def is_disabled(function: FunctionType) -> bool:
    """Did somebody mark it, by torch.compiler.disable or ours?"""
    return vars(function).get(DISABLED, _Grafted.GRAFTED) is not _Grafted.GRAFTED


def hide_from_dynamo(function: FunctionType) -> None:
    """A function that torch.compile compiles is to break where it calls this one."""
    vars(function).setdefault(DISABLED, _Grafted.GRAFTED)


def show_to_dynamo(function: FunctionType) -> None:
    """It may read it again."""
    if vars(function).get(DISABLED) is _Grafted.GRAFTED:
        del vars(function)[DISABLED]


def never_traced_by_dynamo(code: CodeType) -> None:
    """Frames that run this code are left alone, with all that they call, where TorchDynamo watches frames start.

    Nothing happens on a torch that has no such way: TorchDynamo tries the frame then, and says that it cannot.
    """
    native: Any = getattr(torch._C, "_dynamo", None)
    frames: Any = getattr(native, "eval_frame", None)
    try:
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))
    except (AttributeError, TypeError):
        return


def is_allowed_in_graph(function: Callable[..., Any]) -> bool:
    """Is it marked by torch.compiler.allow_in_graph? Nothing is where TorchDynamo was never imported."""
    allowed: Any = getattr(sys.modules.get("torch._dynamo.trace_rules"), "_allowed_callable_ids", None)
    return allowed is not None and id(function) in allowed
