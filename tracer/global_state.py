"""The global state of torch that a graph depends on unseen: read at capture, checked in one call before each run.

`GlobalStateGuard` of torch sees grad mode, autocast, default dtype, determinism, precision of matrix products, threads.
Added here: function and dispatch modes (a default device is one), saved-tensor hooks, anomaly mode, the levels of
forward AD and functorch, inference mode. As in `native.py` there is a fallback in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._device import DeviceContext

from .holding import weak_reference
from .native import HAS_NATIVE, USE_NATIVE, Check
from .torch_private import (
    GlobalStateGuard,
    bf16_reduction,
    dispatch_mode_at,
    dispatch_modes,
    forward_ad_level,
    forward_ad_module,
    fp16_reduction,
    function_mode_at,
    function_modes,
    functorch_level,
    saved_tensor_hooks,
    torch_function_all_disabled,
    torch_function_enabled,
)


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
        self.native = GlobalStateGuard() if HAS_NATIVE else None

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
