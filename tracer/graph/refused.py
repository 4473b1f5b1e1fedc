"""Calls that must not run on fake tensors: each would leave the graph, or change torch's state at capture.

What the fake mode refuses by itself (values, data-dependent shapes) needs no entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..errors import GraphBreak
from ..torch_private import can_be_named

Reason = tuple[str, str]

_AUTOGRAD: Reason = ("autograd engine in the graph", "call it outside of the compiled function")
_HOOK: Reason = ("tensor hook", "register hooks outside of the compiled function")
_STATE: Reason = ("change of a tensor's autograd state", "make that change outside of the compiled function")
_MEMORY: Reason = ("access to a tensor's memory", "use operators on the tensor instead")
_STORAGE: Reason = ("change of a tensor's storage", "make a new tensor instead")
_VALUES: Reason = ("values of a tensor", "keep the value a tensor, or read it outside of the compiled function")
_GENERATOR: Reason = ("state of a random generator", "seed outside of the compiled function")
_WAIT: Reason = ("device synchronisation", "")

#: methods and attributes of tensors, by name
METHODS: dict[str, Reason] = {
    "backward": _AUTOGRAD,
    "register_hook": _HOOK,
    "register_post_accumulate_grad_hook": _HOOK,
    "retain_grad": _STATE,
    "requires_grad_": _STATE,
    "detach_": _STATE,
    "grad": ("gradient of a tensor of the graph", "read .grad outside of the compiled function"),
    "_grad": ("gradient of a tensor of the graph", "read .grad outside of the compiled function"),
    "grad_fn": ("autograd graph of a tensor", ""),
    "_version": ("version counter of a tensor", ""),
    "_base": ("base of a view", ""),
    "_backward_hooks": _HOOK,
    "data_ptr": _MEMORY,
    "const_data_ptr": _MEMORY,
    "mutable_data_ptr": _MEMORY,
    "is_shared": _MEMORY,
    "is_pinned": _MEMORY,
    "is_set_to": _MEMORY,
    "_is_view": _MEMORY,
    "storage": _MEMORY,
    "untyped_storage": _MEMORY,
    "_typed_storage": _MEMORY,
    "__dlpack__": _MEMORY,
    "__cuda_array_interface__": _MEMORY,
    "__array_interface__": _MEMORY,
    "pin_memory": _MEMORY,
    "share_memory_": _STORAGE,
    "set_": _STORAGE,
    "resize_": _STORAGE,
    "resize_as_": _STORAGE,
    "set_data": _STORAGE,
    "rename_": ("named tensor", "names are not captured"),
    "numpy": _VALUES,
    "__array__": _VALUES,
    "tolist": _VALUES,
    "__repr__": _VALUES,
    "__str__": _VALUES,
    "__format__": _VALUES,
    "__reduce_ex__": _VALUES,
    "__deepcopy__": _VALUES,
    "__contains__": _VALUES,
}

_FUNCTIONS: tuple[tuple[Reason, tuple[str, ...]], ...] = (
    (_AUTOGRAD, ("autograd.grad", "autograd.backward")),
    (
        _GENERATOR,
        (
            "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "random.manual_seed",
            "random.seed", "random.initial_seed", "random.get_rng_state", "random.set_rng_state", "random.fork_rng",
            "cuda.manual_seed", "cuda.manual_seed_all", "cuda.seed", "cuda.seed_all", "cuda.initial_seed",
            "cuda.get_rng_state", "cuda.set_rng_state",
        ),
    ),
    (_WAIT, ("cuda.synchronize", "cuda.current_stream", "cuda.set_device", "cuda.empty_cache", "cpu.synchronize")),
    (_MEMORY, ("from_numpy", "frombuffer", "from_file", "from_dlpack", "utils.dlpack.from_dlpack")),
    (
        ("change of torch's global state", "change it outside of the compiled function"),
        (
            "set_default_dtype", "set_default_device", "set_default_tensor_type", "set_printoptions", "set_num_threads",
            "set_num_interop_threads", "set_flush_denormal", "set_float32_matmul_precision", "set_grad_enabled",
            "set_anomaly_enabled", "autograd.set_detect_anomaly", "use_deterministic_algorithms",
            "set_deterministic_debug_mode", "set_warn_always", "set_autocast_enabled", "set_autocast_dtype",
            "set_autocast_cache_enabled", "clear_autocast_cache", "autocast_increment_nesting",
            "autocast_decrement_nesting",
        ),
    ),
    (("reading or writing a file", "do it outside of the compiled function"), ("save", "load", "jit.save", "jit.load")),
)  # fmt: skip


def _functions() -> Iterator[tuple[Callable[..., Any], Reason]]:
    for name, reason in METHODS.items():
        method = getattr(torch.Tensor, name, None)
        if callable(method):
            yield method, reason
    for reason, names in _FUNCTIONS:
        for name in names:
            function: Any = torch
            for part in name.split("."):
                function = getattr(function, part, None)
            if function is not None:
                yield function, reason


FUNCTIONS: dict[Callable[..., Any], Reason] = dict(_functions())


def refuse(target: Any, args: tuple[Any, ...]) -> None:
    """Raise GraphBreak for a call that cannot be in a graph."""
    if target is getattr:
        name = args[1]
        reason = METHODS.get(name)
    elif target.__class__ is str:
        name, reason = target, METHODS.get(target)
    else:
        try:
            name, reason = getattr(target, "__name__", target), FUNCTIONS.get(target)
        except TypeError:
            raise GraphBreak("call of an unhashable object", repr(type(target))) from None
    if reason is not None:
        raise GraphBreak(reason[0], str(name), reason[1])
    if name == "apply" and _is_autograd_function(getattr(target, "__self__", None)):
        raise GraphBreak("custom autograd function", target.__self__.__qualname__, "call it outside of the graph")
    if target.__class__ is not str and not can_be_named(target):
        raise GraphBreak("function that a graph cannot name", repr(target), "call it outside of the compiled function")


def _is_autograd_function(owner: object) -> bool:
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)
