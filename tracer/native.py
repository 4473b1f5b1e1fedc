"""The checks that torch does natively, each with a fallback in plain Python: tensors, global state, storage overlap.

`TensorGuards` and `GlobalStateGuard` of torch are fast and see most of what matters. What they don't see is added
here: of tensors whether one is a leaf; of the global state function and dispatch modes (a default device is one),
saved-tensor hooks, anomaly mode, the level of forward AD and of functorch, inference mode. `TORCHGRAFT_NATIVE=0` in
the environment selects the fallbacks, as does a torch without the native checks; both refuse the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .errors import InternalError
from .holding import weak_reference
from .torch_private import (
    GlobalStateGuard,
    TensorGuards,
    bf16_reduction,
    dispatch_keys,
    dispatch_mode_at,
    dispatch_modes,
    forward_ad_level,
    forward_ad_module,
    fp16_reduction,
    function_mode_at,
    function_modes,
    functorch_level,
    saved_tensor_hooks,
    thread_dispatch_keys,
    torch_function_all_disabled,
    torch_function_enabled,
)

_has_native = TensorGuards is not None and GlobalStateGuard is not None

USE_NATIVE = _has_native and os.environ.get("TORCHGRAFT_NATIVE") != "0"

Check = Callable[..., bool]


# tensors --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class TensorFacts:
    """What a graph takes for granted of a tensor; holds the tensor itself weakly."""

    type: type[Any]
    dtype: torch.dtype
    device: torch.device
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    requires_grad: bool
    keys: int
    thread_keys: tuple[int, int]  # dispatch keys that the thread adds and takes away
    conjugate: bool
    negative: bool
    leaf: bool | None  # None: either will do
    reference: Callable[[], torch.Tensor | None] = field(repr=False)

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorFacts:
        if tensor.layout is not torch.strided or is_traceable_wrapper_subclass(tensor):
            raise InternalError(f"no tensor guard for a {tensor.layout} {type(tensor).__qualname__}")
        reference = weak_reference(tensor)
        assert reference is not None
        # What was captured of a parameter that is a leaf holds for any: in-place changes under autograd were an error.
        either = not tensor.requires_grad or (type(tensor) is torch.nn.Parameter and tensor.is_leaf)
        return cls(
            type(tensor), tensor.dtype, tensor.device, tuple(tensor.shape), tuple(tensor.stride()),
            tensor.requires_grad, dispatch_keys(tensor), thread_dispatch_keys(), tensor.is_conj(), tensor.is_neg(),
            None if either else tensor.is_leaf, reference,
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.type.__name__} {self.dtype} {self.shape} on {self.device}"

    def differences(self, value: object) -> list[str]:
        """In words, how a value differs from these facts; the first is the plainest."""
        if type(value) is not self.type:
            return [f"type {type(value).__qualname__}, was {self.type.__qualname__}"]
        assert isinstance(value, torch.Tensor)
        if value.layout is not torch.strided:
            return [f"layout {value.layout}, was torch.strided"]
        now = TensorFacts.of(value)
        names = ("dtype", "device", "shape", "stride", "requires_grad", "conjugate", "negative", "keys", "thread_keys")
        found = [f"{n} {getattr(now, n)}, was {getattr(self, n)}" for n in names if getattr(now, n) != getattr(self, n)]
        if self.leaf is not None and value.is_leaf != self.leaf:
            found.append(f"is_leaf {value.is_leaf}, was {self.leaf}")
        return found


def tensors_check(facts: Sequence[TensorFacts], *, native: bool = USE_NATIVE) -> Check:
    """`check(*tensors)`: are these different tensors, each as its facts say, in a thread with these dispatch keys?

    To be made in the global state that the region was captured in.
    """
    tensors = [f.reference() for f in facts]
    leaves = [(position, f.leaf) for position, f in enumerate(facts) if f.leaf is not None]
    if not native or not _has_native or any(t is None for t in tensors):
        return _plain_tensors_check(facts)
    check: Check = TensorGuards(
        *tensors,
        dynamic_dims_sizes=[list(f.shape) for f in facts],
        dynamic_dims_strides=[list(f.stride) for f in facts],
    ).check
    return _with_leaves(check, leaves) if leaves else check


def _with_leaves(check: Check, leaves: list[tuple[int, bool]]) -> Check:
    def check_with_leaves(*tensors: Any) -> bool:
        return check(*tensors) and all(tensors[position].is_leaf is leaf for position, leaf in leaves)

    return check_with_leaves


def _plain_tensors_check(facts: Sequence[TensorFacts]) -> Check:
    facts = tuple(facts)

    def check(*tensors: Any) -> bool:
        if len(tensors) != len(facts) or len(set(map(id, tensors))) != len(tensors):
            return False
        thread_keys = thread_dispatch_keys()
        if any(f.thread_keys != thread_keys for f in facts):
            return False
        return all(map(_matches, tensors, facts))

    return check


def _matches(tensor: Any, facts: TensorFacts) -> bool:
    return (
        type(tensor) is facts.type
        and dispatch_keys(tensor) == facts.keys
        and tensor.layout is torch.strided
        and tensor.shape == facts.shape
        and tensor.dtype is facts.dtype
        and tensor.stride() == facts.stride
        and tensor.device == facts.device
        and tensor.requires_grad is facts.requires_grad
        and tensor.is_conj() is facts.conjugate
        and tensor.is_neg() is facts.negative
        and (facts.leaf is None or tensor.is_leaf is facts.leaf)
    )


# storage overlap ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Overlap:
    """Which of some tensors share memory: how many bytes each spans, and (i, j, bytes from i to j) of each pair."""

    extents: tuple[int, ...]
    pairs: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, tensors: Sequence[torch.Tensor]) -> Overlap:
        extents = tuple(map(_extent, tensors))
        return cls(extents, _overlapping([t.data_ptr() for t in tensors], extents))

    def check(self, *tensors: torch.Tensor) -> bool:
        """Do these tensors, whose shapes and strides were checked, overlap exactly so?"""
        return _overlapping([t.data_ptr() for t in tensors], self.extents) == self.pairs


def _extent(tensor: torch.Tensor) -> int:
    """How many bytes a tensor spans, from its first element to behind its last."""
    if tensor.numel() == 0:
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (1 + last) * tensor.dtype.itemsize


def _overlapping(starts: Sequence[int], extents: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    order = sorted((i for i, extent in enumerate(extents) if extent), key=starts.__getitem__)
    found = []
    for at, i in enumerate(order):
        end = starts[i] + extents[i]
        for j in order[at + 1 :]:
            if starts[j] >= end:
                break
            found.append((i, j, starts[j] - starts[i]) if i < j else (j, i, starts[i] - starts[j]))
    return tuple(sorted(found))


# global state ---------------------------------------------------------------------------------------------------------
class Same:
    """An object that is only compared by identity, and not kept alive where that can be."""

    __slots__ = ("_get", "_strong")

    def __init__(self, value: Any) -> None:
        reference = weak_reference(value)
        self._get = reference if reference is not None else lambda: value
        self._strong = reference is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and (mine := self._get()) is not None and mine is other._get()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"a {type(self._get()).__qualname__}"


def _mode(mode: Any) -> object:
    if type(mode) is DeviceContext:
        return "device", mode.device
    return Same(mode)


def _function_modes() -> tuple[object, ...]:
    return tuple(_mode(function_mode_at(i)) for i in range(function_modes()))


def _modes() -> tuple[object, object]:
    return _function_modes(), tuple(_mode(dispatch_mode_at(i)) for i in range(dispatch_modes()))


def _hooks() -> object:
    hooks = saved_tensor_hooks(True)
    return None if hooks is None else tuple(map(Same, hooks))


def _autocast() -> tuple[object, ...]:
    enabled = [(d, torch.get_autocast_dtype(d)) for d in AUTOCAST_DEVICES if torch.is_autocast_enabled(d)]
    return (*enabled, torch.is_autocast_cache_enabled())


def _supports_autocast(device: str) -> bool:
    try:
        torch.is_autocast_enabled(device)
        torch.get_autocast_dtype(device)
    except RuntimeError:
        return False
    return True


AUTOCAST_DEVICES = tuple(d for d in ("cpu", "cuda", "mps", "xpu", "hpu", "xla", "mtia") if _supports_autocast(d))


def _float32_precision() -> object:
    """What matrix products may do to float32; read per backend where both of torch's ways to set it were mixed."""
    try:
        return torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32
    except RuntimeError:
        return torch.backends.cuda.matmul.fp32_precision


def _cudnn_precision() -> object:
    try:
        return torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return torch.backends.cudnn.conv.fp32_precision


def _cuda_device() -> object:
    return torch.cuda.current_device() if torch.cuda.is_initialized() and torch.cuda.device_count() > 1 else None


_NATIVE_FACTS: dict[str, Callable[[], object]] = {  # what GlobalStateGuard sees
    "grad mode": torch.is_grad_enabled,
    "default dtype": torch.get_default_dtype,
    "autocast": _autocast,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "warn only": torch.is_deterministic_algorithms_warn_only_enabled,
    "float32 matmul precision": _float32_precision,
    "fp16 reduction": fp16_reduction,
    "bf16 reduction": bf16_reduction,
    "number of threads": torch.get_num_threads,
    "torch function": torch_function_enabled,
    "torch function switched off": torch_function_all_disabled,
}
_OTHER_FACTS: dict[str, Callable[[], object]] = {
    "inference mode": torch.is_inference_mode_enabled,
    "function and dispatch modes": _modes,
    "functorch level": functorch_level,
    "forward AD level": forward_ad_level,
    "saved-tensor hooks": _hooks,
    "anomaly mode": lambda: torch.is_anomaly_check_nan_enabled() if torch.is_anomaly_enabled() else None,
    "deterministic fill": lambda: torch.are_deterministic_algorithms_enabled()
    and torch.utils.deterministic.fill_uninitialized_memory,
    "cuDNN precision": _cudnn_precision,
    "CUDA device": _cuda_device,
}


class GlobalState:
    """The global state of torch in this thread when it was made: everything that a captured graph depends on unseen."""

    __slots__ = ("facts", "native")

    def __init__(self) -> None:
        self.facts = {name: read() for name, read in (_NATIVE_FACTS | _OTHER_FACTS).items()}
        self.native = GlobalStateGuard() if _has_native else None

    def __repr__(self) -> str:
        return "the global state of torch"

    def differences(self) -> list[str]:
        """In words, what is otherwise now."""
        now = {name: read() for name, read in (_NATIVE_FACTS | _OTHER_FACTS).items()}
        return [f"{name}: {now[name]}, was {self.facts[name]}" for name in now if now[name] != self.facts[name]]

    def refusal(self) -> str | None:
        """Why nothing can be captured in this state, if so."""
        modes: Any = self.facts["function and dispatch modes"]
        of_functions, of_dispatch = modes
        if of_dispatch:
            return "a torch dispatch mode is active"
        if any(isinstance(mode, Same) for mode in of_functions):
            return "a torch function mode is active"
        if self.facts["functorch level"] is not None:
            return "a functorch transform is active"
        if self.facts["forward AD level"] != -1:
            return "a forward-mode AD level is active"
        return None


def state_check(state: GlobalState, *, tensors_checked: bool, native: bool = USE_NATIVE) -> Check:
    """`check()`: is the global state this one? `tensors_checked`: a tensor check follows, which sees dispatch keys."""
    facts = state.facts
    if not native or state.native is None:
        return _plain_state_check(facts, _NATIVE_FACTS | _OTHER_FACTS)
    names = set(_OTHER_FACTS) - {*_QUICK_FACTS, "function and dispatch modes"}
    if tensors_checked:  # inference mode and functorch change the dispatch keys
        names -= {name for name in ("inference mode", "functorch level") if not facts[name]}
    if not facts["deterministic algorithms"]:
        names.discard("deterministic fill")
    if not torch.cuda.is_available():
        names -= {"cuDNN precision", "CUDA device"}
    elif torch.cuda.device_count() == 1:
        names.discard("CUDA device")
    check = _quick_state_check(state)
    if not names:
        return check
    rest = _plain_state_check(facts, {name: _OTHER_FACTS[name] for name in names})
    return lambda: check() and rest()


#: What the quick check looks at beside the modes, and what it takes for usual.
_QUICK_FACTS: dict[str, object] = {"forward AD level": -1, "saved-tensor hooks": None, "anomaly mode": None}


def _quick_state_check(state: GlobalState) -> Check:
    """One call for the usual state, in which most of what the native check overlooks is not at work."""
    modes: Any = state.facts["function and dispatch modes"]
    assert state.native is not None
    same: Check = state.native.check
    if any(state.facts[name] != idle for name, idle in _QUICK_FACTS.items()) or modes[1]:
        names = (*_QUICK_FACTS, "function and dispatch modes")
        rest = _plain_state_check(state.facts, {name: _OTHER_FACTS[name] for name in names})
        return lambda: same() and rest()
    expected, count = modes[0], len(modes[0])
    count_function_modes, count_dispatch_modes, hooks = function_modes, dispatch_modes, saved_tensor_hooks
    anomaly, level = torch.is_anomaly_enabled, forward_ad_module

    def check() -> bool:
        return (
            same()
            and count_function_modes() == count
            and count_dispatch_modes() == 0
            and hooks(True) is None
            and not anomaly()
            and level._current_level < 0  # what forward_ad_level gives, without the call
        )

    if not count:
        return check
    return lambda: check() and _function_modes() == expected


def _plain_state_check(facts: dict[str, object], readers: dict[str, Callable[[], object]]) -> Check:
    expected = tuple((read, facts[name]) for name, read in readers.items())
    if len(expected) == 1:
        [(only, value)] = expected
        return lambda: only() == value

    def check() -> bool:
        return all(read() == value for read, value in expected)

    return check
