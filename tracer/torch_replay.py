"""Private torch API of replay (`backends/replay`): who refers to a storage, cuBLAS's memory, and the callables that
AOTAutograd and Inductor make for the two sides of a training step.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._guards import TracingContext

from .torch_private import HIGHER_ORDER

__all__ = [
    "COUNTS_STORAGE_USES", "AroundCompiled", "aot_around", "asks_for_cudagraphs", "boxed_call",
    "clear_cublas_workspaces", "end_allocation", "foreach_copy", "inductor_around", "is_boxed", "is_higher_order",
    "nothing_is_donated", "saved_from", "storage_uses", "without_cudagraphs", "written_arguments",
]  # fmt: skip

#: copies many tensors into as many others, in one call where the device has a kernel for it
foreach_copy = torch._foreach_copy_


def storage_uses(storage: torch.UntypedStorage) -> int:
    """How many refer to a storage: tensors and what C++ holds, and Python, of which torch counts one for all."""
    return torch._C._storage_Use_Count(storage._cdata) + sys.getrefcount(storage)


#: can it be told at all?
COUNTS_STORAGE_USES = hasattr(torch._C, "_storage_Use_Count")


def clear_cublas_workspaces() -> None:
    """Let go of the memory that cuBLAS keeps for each stream; it gets it anew when it needs it."""
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()


def end_allocation(device: torch.device, pool: Any) -> None:
    """Behind a capture that failed: the allocator gives nothing of the pool to it any more, if it still would."""
    end, release = (getattr(torch._C, name, None) for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"))
    if end is None or release is None:
        return
    try:
        end(device.index, pool)
    except RuntimeError:  # it has been told already, and who holds the pool lets go of it
        return
    release(device.index, pool)


#: (is it a backward graph, graph, example inputs, the compiled callable of one list) -> such a callable
AroundCompiled = Callable[[bool, torch.fx.GraphModule, Sequence[Any], Callable[..., Any]], Callable[..., Any]]


def inductor_around(wrapped: Callable[..., Any], around: AroundCompiled) -> Callable[..., Any]:
    """Inductor as `inductor_backend` gives it, with `around` each callable that it makes below AOTAutograd.

    AOTAutograd's own cache would give callables back which `around` never saw: it is off meanwhile. Inductor's isn't.
    A backward that writes to what was saved for it (donated buffers) could not read it where the forward left it.
    """
    module = importlib.import_module("torch._inductor.compile_fx")
    cache = importlib.import_module("torch._functorch.config")

    def inner_compile(graph: torch.fx.GraphModule, examples: Sequence[Any], **rest: Any) -> Callable[..., Any]:
        compiled = module.compile_fx_inner(graph, examples, **rest)
        return around(bool(rest.get("is_backward")), graph, examples, compiled)

    def compiler(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        patches = {**_config_of(wrapped), "triton.cudagraphs": False}
        with cache.patch(enable_autograd_cache=False, donated_buffer=False):
            return module.compile_fx(graph, examples, inner_compile=inner_compile, config_patches=patches)

    return compiler


def _config_of(compiler: Callable[..., Any]) -> dict[str, Any]:
    """Inductor's options, of what `inductor_backend` gave."""
    return getattr(getattr(compiler, "__wrapped__", compiler), "config", {})


def asks_for_cudagraphs(compiler: Callable[..., Any]) -> bool:
    """Would Inductor record its callables itself: by its mode and options, else by its setting for all compiles?"""
    asked = _config_of(compiler).get("triton.cudagraphs")
    if asked is None:
        config = sys.modules.get("torch._inductor.config")  # else only the environment can have set it
        asked = os.environ.get("TORCHINDUCTOR_CUDAGRAPHS") == "1" if config is None else config.triton.cudagraphs
    return bool(asked)


def without_cudagraphs(compiler: Callable[..., Any]) -> None:
    """Recordings are made elsewhere. What a mode asks for beside them stays."""
    _config_of(compiler)["triton.cudagraphs"] = False


def aot_around(around: AroundCompiled) -> Callable[..., Any]:
    """The backend aot_eager, with `around` each graph that AOTAutograd gives out."""
    debugging = importlib.import_module("torch._dynamo.backends.debugging")

    def making(backward: bool) -> Callable[..., Any]:
        def compiler(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
            def boxed(inputs: list[Any]) -> Any:
                return graph.forward(*inputs)

            return around(backward, graph, examples, boxed_call(boxed))

        return compiler

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        return debugging.aot_eager(graph, examples, fw_compiler=making(False), bw_compiler=making(True))

    return backend


def boxed_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Says to AOTAutograd that the function takes one list."""
    function._boxed_call = True  # type: ignore[attr-defined]
    return function


def is_boxed(function: Callable[..., Any]) -> bool:
    """Does it take one list, which it empties?"""
    return bool(getattr(function, "_boxed_call", False))


def saved_from() -> int | None:
    """While AOTAutograd compiles a forward graph: from which of its results on they are saved for the backward."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return None if metadata is None else metadata.num_forward


def nothing_is_donated() -> None:
    """While AOTAutograd compiles a forward graph: its backward may run again (`retain_graph`), so it writes to nothing
    that is saved for it. Torch refuses such a backward unless its list of donated buffers is there and empty.
    """
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is not None and hasattr(metadata, "bw_donated_idxs"):
        metadata.bw_donated_idxs = []


def written_arguments(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The nodes that this one writes to, as its operator's schema says."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
        return
    for at, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[at] if at < len(node.args) else node.kwargs.get(argument.name)
            for written in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(written, torch.fx.Node):
                    yield written


def is_higher_order(target: object) -> bool:
    return isinstance(target, HIGHER_ORDER)
