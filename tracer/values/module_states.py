"""`state_dict()` and `load_state_dict()` of modules: read as code like any, unless there is too much of it.

Each tensor costs a capture some milliseconds, and is no faster copied in a region than in plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..errors import GraphBreak
from .base import Value
from .functions import function_from_code
from .modules import ModuleValue
from .objects import known

if TYPE_CHECKING:
    from ..interpreter.context import Context

Module = torch.nn.Module
#: so many tensors are read
LARGEST_STATE = 128


def _tensors_below(module: torch.nn.Module, met: set[int]) -> int:
    """How many there are; counts no further than is asked for, and runs no code of the user's."""
    if id(module) in met or len(met) > LARGEST_STATE:
        return 0
    met.add(id(module))
    own = vars(module)
    children = [child for child in own.get("_modules", {}).values() if child is not None]
    here = len(own.get("_parameters", ())) + len(own.get("_buffers", ()))
    return here + sum(_tensors_below(child, met) for child in children)


def _read_if_small(name: str) -> None:
    original = vars(Module)[name]

    @known(original)
    def call(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        module = ctx.real(args[0]) if args else None
        if isinstance(module, ModuleValue) and module.object is not None:
            met: set[int] = set()
            if _tensors_below(module.object, met) > LARGEST_STATE or len(met) > LARGEST_STATE:
                raise GraphBreak("module is not supported", f"{name}() of {module}, which holds many tensors")
        return function_from_code(ctx, original, ctx.hold(original)).call(ctx, args, kwargs)


for _name in ("state_dict", "load_state_dict"):
    _read_if_small(_name)
