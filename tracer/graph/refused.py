"""Calls that must not run on fake tensors: each would leave the graph, or change torch's state at capture.

What the fake mode refuses by itself (values, data-dependent shapes) needs no entry here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..errors import GraphBreak
from ..numpy_names import SCALARS
from ..torch_private import can_be_named, set_saved_tensor_hooks

_AUTOGRAD = "backward is run"
_AUTOGRAD_FUNCTION = "custom autograd function is called"
_HOOK = "hook is registered on a tensor"
_STATE = "autograd state of a tensor is changed"
_HISTORY = "autograd state of a tensor is read"
_MEMORY = "tensor memory is accessed"
_VALUES = "tensor value is read"
_NUMPY = "tensor becomes a NumPy array"

#: methods and attributes of tensors, by name: the break's title
METHODS: dict[str, str] = {
    "backward": _AUTOGRAD,
    "register_hook": _HOOK,
    "register_post_accumulate_grad_hook": _HOOK,
    "retain_grad": _STATE,
    "requires_grad_": _STATE,
    "detach_": _STATE,
    "grad": _HISTORY,
    "_grad": _HISTORY,
    "grad_fn": _HISTORY,
    "_version": _HISTORY,
    "_base": _HISTORY,
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
    "share_memory_": _MEMORY,
    "set_": _MEMORY,
    "resize_": _MEMORY,
    "resize_as_": _MEMORY,
    "set_data": _MEMORY,
    "rename_": "kind of tensor is not supported",
    "numpy": _NUMPY,
    "__array__": _NUMPY,
    "tolist": _VALUES,
    "__repr__": _VALUES,
    "__str__": _VALUES,
    "__format__": _VALUES,
    "__reduce_ex__": _VALUES,
    "__deepcopy__": "object is copied",
    "__contains__": _VALUES,
}

_FUNCTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (_AUTOGRAD, ("autograd.grad", "autograd.backward")),
    (
        "random state is set or read",
        (
            "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "random.manual_seed",
            "random.seed", "random.initial_seed", "random.get_rng_state", "random.set_rng_state", "random.fork_rng",
            "cuda.manual_seed", "cuda.manual_seed_all", "cuda.seed", "cuda.seed_all", "cuda.initial_seed",
            "cuda.get_rng_state", "cuda.set_rng_state",
        ),
    ),
    (
        "device is synchronized or switched",
        ("cuda.synchronize", "cuda.current_stream", "cuda.set_device", "cuda.empty_cache"),
    ),
    (_MEMORY, ("from_numpy", "frombuffer", "from_file", "from_dlpack", "utils.dlpack.from_dlpack")),
    (
        "global state of torch is changed",
        (
            "set_default_dtype", "set_default_device", "set_default_tensor_type", "set_printoptions", "set_num_threads",
            "set_num_interop_threads", "set_flush_denormal", "set_float32_matmul_precision", "set_grad_enabled",
            "set_anomaly_enabled", "autograd.set_detect_anomaly", "use_deterministic_algorithms",
            "set_deterministic_debug_mode", "set_warn_always", "set_autocast_enabled", "set_autocast_dtype",
            "set_autocast_cache_enabled", "clear_autocast_cache", "autocast_increment_nesting",
            "autocast_decrement_nesting",
        ),
    ),
    (
        "kind of tensor is not supported",
        ("quantize_per_tensor", "quantize_per_channel", "quantize_per_tensor_dynamic"),
    ),
    ("file is read or written", ("save", "load", "jit.save", "jit.load")),
)  # fmt: skip


def _functions() -> Iterator[tuple[Callable[..., Any], str]]:
    apply = getattr(torch.autograd.Function.apply, "__func__", None)
    if apply is not None:  # before torch 2.14, where it was written in Python
        yield apply, _AUTOGRAD_FUNCTION
    for registers in set_saved_tensor_hooks:
        yield registers, "global state of torch is changed"
    for name, title in METHODS.items():
        method = getattr(torch.Tensor, name, None)
        if callable(method):
            yield method, title
            yield inspect.unwrap(method), title
    for title, names in _FUNCTIONS:
        for name in names:
            function: Any = torch
            for part in name.split("."):
                function = getattr(function, part, None)
            if function is not None:
                yield function, title
                yield inspect.unwrap(function), title


FUNCTIONS: dict[Callable[..., Any], str] = dict(_functions())


def refuse(target: Any, args: tuple[Any, ...]) -> None:
    """Raise GraphBreak for a call that cannot be in a graph."""
    if target is getattr:
        name = args[1]
        title = METHODS.get(name)
    elif target.__class__ is str:
        name, title = target, METHODS.get(target)
    else:
        name, title = getattr(target, "__name__", target), FUNCTIONS.get(target)
    if title is not None:
        raise GraphBreak(title, f".{name}" if name in METHODS else f"{name}()")
    if name == "apply" and is_autograd_function(getattr(target, "__self__", None)):
        raise GraphBreak("custom autograd function is called", target.__self__.__qualname__)
    if name in _FROM_DATA and _holds_numpy(args):  # its type would be that of the NumPy number
        raise GraphBreak("argument cannot be in a graph", f"a NumPy number in {name}()")
    if target.__class__ is not str and not can_be_named(target):
        raise GraphBreak("torch function is no operator", f"a graph cannot name {target!r}")


#: functions that make tensors of data, and take their dtype from it
_FROM_DATA = frozenset(["tensor", "as_tensor", "asarray", "new_tensor", "scalar_tensor", "result_type"])


def _holds_numpy(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_holds_numpy, value))
    return type(value) in SCALARS


def is_autograd_function(owner: object) -> bool:
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)
