"""The global state of torch that a graph depends on unseen: read at capture, checked before each run.

`GlobalStateGuard` of torch sees grad mode, autocast, default dtype, determinism, precision of matrix products, threads.
Added here: function and dispatch modes (a default device is one), saved-tensor hooks, anomaly mode, the levels of
forward AD and functorch, inference mode, jit's tracing. As in `native.py` there is a fallback in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
    jit_tracing,
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


def _dispatch_modes() -> tuple[object, ...]:
    return tuple(_mode(dispatch_mode_at(i)) for i in range(dispatch_modes()))


def _hooks() -> object:
    """Are there any? Which ones is no matter: none is part of a graph (see backends/compiling.py)."""
    return None if saved_tensor_hooks(True) is None else "some"


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
    "function modes": _function_modes,
    "dispatch modes": _dispatch_modes,
    "jit tracing": jit_tracing,
    "functorch level": functorch_level,
    "forward AD level": forward_ad_level,
    "saved-tensor hooks": _hooks,
    "anomaly mode": lambda: torch.is_anomaly_check_nan_enabled() if torch.is_anomaly_enabled() else None,
    "deterministic fill": lambda: torch.are_deterministic_algorithms_enabled()
    and torch.utils.deterministic.fill_uninitialized_memory,
    "cuDNN precision": _cudnn_precision,
    "CUDA device": _cuda_device,
}


#: What sees or changes the records of the autograd engine, and nothing else.
_OF_AUTOGRAD = frozenset(["saved-tensor hooks", "anomaly mode"])


class GlobalState:
    """The global state of torch in this thread when it was made: everything that a captured graph depends on unseen."""

    __slots__ = ("facts", "native")

    def __init__(self) -> None:
        self.facts = {name: read() for name, read in (_NATIVE_FACTS | _OTHER_FACTS).items()}
        self.native = GlobalStateGuard() if HAS_NATIVE else None

    def without_autograd(self) -> GlobalState:
        """This state for a graph of which autograd records nothing: without what only acts on such records."""
        state = GlobalState.__new__(GlobalState)
        state.facts = {name: fact for name, fact in self.facts.items() if name not in _OF_AUTOGRAD}
        state.native = self.native
        return state

    def __repr__(self) -> str:
        return "the global state of torch"

    def differences(self) -> list[str]:
        """In words, what is otherwise now."""
        return [f"{name}: {now}, was {before}" for name, before, now in self.changes()]

    def changes(self) -> list[tuple[str, Any, Any]]:
        """What is otherwise now: each fact's name, what it was and what it is."""
        readers = _NATIVE_FACTS | _OTHER_FACTS
        now = {name: readers[name]() for name in self.facts}
        return [(name, self.facts[name], now[name]) for name in now if now[name] != self.facts[name]]

    def refusal(self) -> str | None:
        """Why nothing can be captured in this state, if so."""
        if self.facts["dispatch modes"]:
            return "a torch dispatch mode is active"
        modes: Any = self.facts["function modes"]
        if any(isinstance(mode, Same) for mode in modes):
            return "a torch function mode is active"
        if self.facts["functorch level"] is not None:
            return "a functorch transform is active"
        if self.facts["forward AD level"] != -1:
            return "a forward-mode AD level is active"
        return None


class StateCondition(NamedTuple):
    """A condition of a region: `text` with one name in it, that of `constant`; `name` is what to call it."""

    text: str
    name: str
    constant: Any


def state_conditions(
    state: GlobalState, *, tensors_checked: bool, native: bool = USE_NATIVE
) -> tuple[StateCondition, ...]:
    """Conditions that together say: the global state is this one.

    `tensors_checked`: a tensor check follows, which sees dispatch keys, and so dispatch modes, functorch's levels,
    inference mode and jit's tracing.
    """
    facts = state.facts
    if not native or state.native is None:
        readers = {name: read for name, read in (_NATIVE_FACTS | _OTHER_FACTS).items() if name in facts}
        return (StateCondition("{}()", "state", _plain_state_check(facts, readers)),)
    names = dict.fromkeys(name for name in _OTHER_FACTS if name in facts)
    if tensors_checked:
        for name in _SEEN_IN_KEYS:
            if facts[name] == _IDLE[name]:
                del names[name]
    if not facts["deterministic algorithms"]:
        del names["deterministic fill"]
    if not torch.cuda.is_available():
        del names["cuDNN precision"]
    if not torch.cuda.is_available() or torch.cuda.device_count() == 1:
        del names["CUDA device"]
    quick = [_QUICK[name] for name in names if name in _QUICK and facts[name] == _IDLE[name]]
    others = {name: _OTHER_FACTS[name] for name in names if name not in _QUICK or facts[name] != _IDLE[name]}
    if others:
        quick.append(StateCondition("{}()", "other_state", _plain_state_check(facts, others)))
    return (StateCondition("{}()", "state", state.native.check), *quick)


#: What some facts usually are.
_IDLE: dict[str, object] = {
    "function modes": (), "dispatch modes": (), "forward AD level": -1, "saved-tensor hooks": None,
    "anomaly mode": None, "inference mode": False, "functorch level": None, "jit tracing": False,
}  # fmt: skip
#: What shows in the dispatch keys of the thread unless it is idle.
_SEEN_IN_KEYS = ("dispatch modes", "functorch level", "inference mode", "jit tracing")
#: How to see that they still are: the quickest way for each.
_QUICK = {
    "function modes": StateCondition("not {}()", "function_modes", function_modes),
    "dispatch modes": StateCondition("not {}()", "dispatch_modes", dispatch_modes),
    "forward AD level": StateCondition("{}._current_level < 0", "forward_ad", forward_ad_module),
    "saved-tensor hooks": StateCondition("{}(True) is None", "saved_tensor_hooks", saved_tensor_hooks),
    "anomaly mode": StateCondition("not {}()", "anomaly_mode", torch.is_anomaly_enabled),
    "inference mode": StateCondition("not {}()", "inference_mode", torch.is_inference_mode_enabled),
    "functorch level": StateCondition("{}() is None", "functorch_level", functorch_level),
    "jit tracing": StateCondition("not {}()", "tracing", jit_tracing),
}


def state_check(state: GlobalState, *, tensors_checked: bool, native: bool = USE_NATIVE) -> Check:
    """`check()`: is the global state this one?"""
    conditions = state_conditions(state, tensors_checked=tensors_checked, native=native)
    text = " and ".join(c.text.format(f"c{n}") for n, c in enumerate(conditions))
    check: Check = eval(f"lambda: {text}", {f"c{n}": c.constant for n, c in enumerate(conditions)})
    return check


def _plain_state_check(facts: dict[str, object], readers: dict[str, Callable[[], object]]) -> Check:
    expected = tuple((read, facts[name]) for name, read in readers.items())
    if len(expected) == 1:
        [(only, value)] = expected
        return lambda: only() == value

    def check() -> bool:
        return all(read() == value for read, value in expected)

    return check
