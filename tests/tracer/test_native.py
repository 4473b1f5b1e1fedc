"""Native checks and their fallbacks: each property that a graph relies on is changed alone, and must be seen."""

from __future__ import annotations

import contextlib
import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tracer.errors import InternalError
from tracer.global_state import GlobalState, state_check
from tracer.native import HAS_NATIVE, Overlap, TensorFacts, tensors_check

BOTH = pytest.mark.parametrize("native", [pytest.param(True, id="native"), pytest.param(False, id="plain")])


def test_the_native_checks_are_there() -> None:
    assert HAS_NATIVE, "this torch lacks them: the parameter `native` of the tests below means nothing"


# tensors --------------------------------------------------------------------------------------------------------------
class Subclass(torch.Tensor):
    pass


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def complex_tensor() -> torch.Tensor:
    return torch.randn(3, 4, dtype=torch.complex64)


def inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.randn(3, 4)


Make = Callable[[], Any]


def plain() -> torch.Tensor:
    return torch.randn(3, 4)


CHANGED: dict[str, tuple[Make, Make]] = {
    "dtype": (plain, lambda: torch.randn(3, 4, dtype=torch.float64)),
    "device": (plain, lambda: torch.randn(3, 4, device="meta")),
    "size of a dimension": (plain, lambda: torch.randn(3, 5)),
    "number of dimensions": (plain, lambda: torch.randn(3, 4, 1)),
    "strides": (plain, lambda: torch.randn(4, 3).t()),
    "gap between rows": (plain, lambda: torch.randn(3, 5)[:, :4]),
    "requires_grad on": (plain, lambda: leaf(3, 4)),
    "requires_grad off": (lambda: leaf(3, 4), plain),
    "leaf to computed": (lambda: leaf(3, 4), lambda: leaf(3, 4) * 2),
    "computed to leaf": (lambda: leaf(3, 4) * 2, lambda: leaf(3, 4)),
    "parameter": (lambda: leaf(3, 4), lambda: nn.Parameter(plain())),
    "no parameter": (lambda: nn.Parameter(plain()), lambda: leaf(3, 4)),
    "frozen parameter": (lambda: nn.Parameter(plain()), lambda: nn.Parameter(plain(), requires_grad=False)),
    "subclass": (plain, lambda: plain().as_subclass(Subclass)),
    "conjugate bit": (complex_tensor, lambda: complex_tensor().conj()),
    "negative bit": (lambda: complex_tensor().imag, lambda: complex_tensor().conj().imag),
    "sparse": (plain, lambda: plain().to_sparse()),
    "inference tensor": (plain, inference_tensor),
    "no inference tensor": (inference_tensor, plain),
    "no tensor": (plain, lambda: 3),
    "None": (plain, lambda: None),
}


@BOTH
@pytest.mark.parametrize("what", CHANGED)
def test_a_changed_property_is_seen(what: str, native: bool) -> None:
    make, other = CHANGED[what]
    seen, again, changed = make(), make(), other()
    check = tensors_check([TensorFacts.of(seen)], native=native)
    assert check(seen) is True
    assert check(again) is True, "what is the same in all that matters must pass"
    assert check(changed) is False
    assert check(seen) is True


@BOTH
def test_values_views_and_offsets_do_not_matter(native: bool) -> None:
    check = tensors_check([TensorFacts.of(plain())], native=native)
    for same in (torch.zeros(3, 4), torch.randn(6, 4)[3:], torch.randn(13)[1:].view(3, 4)):
        assert check(same) is True


@BOTH
def test_changes_in_place(native: bool) -> None:
    for change in (
        lambda t: t.requires_grad_(),
        lambda t: t.resize_(3, 5),
        lambda t: t.t_(),
        lambda t: setattr(t, "data", t.data.double()),
        lambda t: setattr(t, "data", torch.randn(5, 5)),
    ):
        tensor = plain()
        check = tensors_check([TensorFacts.of(tensor)], native=native)
        assert check(tensor)
        change(tensor)
        assert check(tensor) is False


@BOTH
def test_a_parameter_stays_the_same_when_its_module_is_trained(native: bool) -> None:
    linear = nn.Linear(4, 4)
    check = tensors_check([TensorFacts.of(linear.weight)], native=native)
    linear(torch.randn(2, 4)).sum().backward()
    torch.optim.SGD(linear.parameters(), lr=0.1).step()
    assert check(linear.weight) is True
    assert check(linear.half().weight) is False


@BOTH
def test_several_tensors(native: bool) -> None:
    a, b = plain(), torch.randn(5)
    check = tensors_check([TensorFacts.of(a), TensorFacts.of(b)], native=native)
    assert check(a, b) is True
    assert check(plain(), torch.randn(5)) is True
    assert check(a, torch.randn(6)) is False
    assert check(b, a) is False


@BOTH
def test_one_tensor_in_two_places_is_refused(native: bool) -> None:
    a, b = plain(), plain()
    check = tensors_check([TensorFacts.of(a), TensorFacts.of(b)], native=native)
    assert check(a, b) is True
    assert check(a, a) is False


@BOTH
@pytest.mark.parametrize("mode", [torch.inference_mode, lambda: torch.autocast("cpu"), "vmap", "functional grad"])
def test_dispatch_keys_of_the_thread(mode: Any, native: bool) -> None:
    tensor = plain()
    check = tensors_check([TensorFacts.of(tensor)], native=native)
    seen: list[bool] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(check(tensor))
        return x.sum()

    if mode == "vmap":
        torch.vmap(look)(torch.randn(2, 3))
    elif mode == "functional grad":
        torch.func.grad(look)(torch.randn(3))
    else:
        with mode():
            look(plain())
    assert seen == [False]
    assert check(tensor) is True


def test_the_fallback_serves_where_a_tensor_died() -> None:
    facts = TensorFacts.of(plain())
    gc.collect()
    assert facts.reference() is None
    check = tensors_check([facts], native=True)
    assert check(plain()) is True
    assert check(torch.randn(4, 3)) is False


@BOTH
def test_checks_keep_no_tensor_alive(native: bool) -> None:
    tensor = plain()
    facts = TensorFacts.of(tensor)
    check = tensors_check([facts], native=native)
    reference = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert reference() is None
    assert check(plain()) is True


def test_what_has_no_guard() -> None:
    with pytest.raises(InternalError, match="sparse"):
        TensorFacts.of(plain().to_sparse())


def test_differences_in_words() -> None:
    facts = TensorFacts.of(plain())
    assert facts.differences(plain()) == []
    assert facts.differences(torch.randn(3, 5))[0] == "shape (3, 5), was (3, 4)"
    assert facts.differences(torch.randn(3, 4, dtype=torch.float64))[0] == "dtype torch.float64, was torch.float32"
    assert facts.differences(3) == ["type int, was Tensor"]
    assert TensorFacts.of(leaf(3) * 2).differences(leaf(3)) == ["is_leaf True, was False"]


# storage overlap ------------------------------------------------------------------------------------------------------
def test_overlap() -> None:
    base = torch.zeros(20)
    apart = Overlap.of((base[:5], torch.zeros(5))).checker()
    assert apart(base[:5], base[5:10]) and apart(base[5:10], base[:5])
    assert not apart(base[:5], base[4:9])
    assert not apart(base[:5], base[:5])
    together = Overlap.of((base[:5], base[2:7])).checker()
    assert together(base[:5], base[2:7]) and together(base[10:15], base[12:17])
    assert not together(base[:5], base[3:8])
    assert not together(base[2:7], base[:5])
    assert not together(base[:5], torch.zeros(5))


def test_overlap_of_three() -> None:
    base = torch.zeros(20)
    seen = Overlap.of((base[:5], base[10:], base[3:8])).checker()
    assert seen(base[:5], base[10:], base[3:8])
    assert seen(base[:5], torch.zeros(10), base[3:8])
    assert not seen(base[:5], torch.zeros(10), torch.zeros(5))
    assert not seen(base[:5], base[6:16], base[3:8])


PLACES = st.lists(st.integers(0, 20), min_size=4, max_size=4)


@given(st.lists(st.integers(0, 4), min_size=4, max_size=4), st.lists(PLACES, min_size=2, max_size=8))
def test_overlap_when_some_of_them_move(sizes: list[int], places: list[list[int]]) -> None:
    """What a check knows from earlier calls changes no answer."""
    base = torch.zeros(25)

    def at(starts: list[int]) -> list[torch.Tensor]:
        return [base[start : start + size] for start, size in zip(starts, sizes, strict=True)]

    for apart in (Overlap.of(at(places[0])), Overlap.of(at([0, 5, 10, 15]))):
        check = apart.checker()
        for starts in places:
            assert check(*at(starts)) == apart.checker()(*at(starts)) == (Overlap.of(at(starts)).pairs == apart.pairs)


def test_overlap_of_transposed_and_empty() -> None:
    matrix = torch.zeros(4, 5)
    columns = Overlap.of((matrix[:, 0], matrix[:, 1])).checker()  # their ranges interleave: taken for overlapping
    assert columns(matrix[:, 0], matrix[:, 1])
    assert not columns(matrix[:, 0], torch.zeros(4, 5)[:, 1])
    assert not columns(matrix[:, 1], matrix[:, 1])
    empty = Overlap.of((torch.zeros(0), matrix)).checker()
    assert empty(torch.zeros(0), matrix)


# global state ---------------------------------------------------------------------------------------------------------
class FunctionMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def setting(set_: Callable[[Any], object], get: Callable[[], Any], value: Any) -> Iterator[None]:
    old = get()
    assert old != value
    set_(value)
    try:
        yield
    finally:
        set_(old)


def attribute(owner: Any, name: str, value: Any) -> contextlib.AbstractContextManager[None]:
    return setting(lambda v: setattr(owner, name, v), lambda: getattr(owner, name), value)


@contextlib.contextmanager
def default_device() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


matmul = torch.backends.cuda.matmul
STATES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast cache": lambda: setting(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled, False),
    "default dtype": lambda: setting(torch.set_default_dtype, torch.get_default_dtype, torch.float64),
    "default device": default_device,
    "device context": lambda: torch.device("meta"),
    "function mode": FunctionMode,
    "dispatch mode": DispatchMode,
    "torch function off": torch._C.DisableTorchFunction,
    "torch function off for subclasses": torch._C.DisableTorchFunctionSubclass,
    "saved-tensor hooks": torch.autograd.graph.save_on_cpu,
    "anomaly mode": lambda: torch.autograd.set_detect_anomaly(True),
    "dual level": forward_ad.dual_level,
    "deterministic": lambda: setting(
        torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled, True
    ),
    "matmul precision": lambda: setting(
        torch.set_float32_matmul_precision, torch.get_float32_matmul_precision, "medium"
    ),
    "matmul TF32": lambda: attribute(matmul, "allow_tf32", True),
    "fp16 reduction": lambda: attribute(matmul, "allow_fp16_reduced_precision_reduction", False),
    "bf16 reduction": lambda: attribute(matmul, "allow_bf16_reduced_precision_reduction", False),
    "threads": lambda: setting(torch.set_num_threads, torch.get_num_threads, torch.get_num_threads() + 1),
}


@BOTH
@pytest.mark.parametrize("tensors_checked", [False, True])
@pytest.mark.parametrize("what", STATES)
def test_a_changed_state_is_seen(what: str, native: bool, tensors_checked: bool) -> None:
    sample = plain()
    # since torch 2.15 a precision that was never set is not the same as one that was set to what it is
    torch.set_float32_matmul_precision(torch.get_float32_matmul_precision())
    state = GlobalState()
    check = state_check(state, tensors_checked=tensors_checked, native=native)
    tensors = tensors_check([TensorFacts.of(sample)], native=native) if tensors_checked else lambda _: True

    def holds() -> bool:
        return check() and tensors(sample)

    assert holds() is True
    with STATES[what]():
        assert holds() is False
        assert state.differences()
    assert holds() is True
    assert state.differences() == []


@BOTH
@pytest.mark.parametrize("what", STATES)
def test_a_state_that_was_captured_may_end(what: str, native: bool) -> None:
    """Captured in the special state: it holds there, and not outside."""
    with STATES[what]():
        check = state_check(GlobalState(), tensors_checked=False, native=native)
        assert check() is True
    assert check() is False


@BOTH
def test_functorch_levels(native: bool) -> None:
    outside = state_check(GlobalState(), tensors_checked=False, native=native)
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(outside())
        seen.append(state_check(GlobalState(), tensors_checked=False, native=native)())
        return x

    torch.vmap(look)(torch.zeros(2))
    assert seen == [False, True]


@BOTH
@pytest.mark.parametrize("tensors_checked", [False, True])
def test_jit_tracing(native: bool, tensors_checked: bool) -> None:
    sample = torch.ones(2)
    check = state_check(GlobalState(), tensors_checked=tensors_checked, native=native)
    tensors = tensors_check([TensorFacts.of(sample)], native=native)
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(check() and (not tensors_checked or tensors(x)))
        return x + 1

    look(sample)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(look, (sample,), check_trace=False)
    assert seen == [True, False]


@BOTH
def test_dtype_of_autocast(native: bool) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check = state_check(GlobalState(), tensors_checked=False, native=native)
        assert check()
    with torch.autocast("cpu", dtype=torch.float16):
        assert not check()


@BOTH
def test_devices_of_contexts(native: bool) -> None:
    with torch.device("meta"):
        check = state_check(GlobalState(), tensors_checked=False, native=native)
    with torch.device("meta"):
        assert check(), "another context of the same device is the same state"
    with torch.device("cpu"):
        assert not check()
    with torch.device("meta"), torch.device("cpu"):
        assert not check()


@BOTH
def test_which_mode_and_hooks(native: bool) -> None:
    mode = FunctionMode()
    with mode:
        check = state_check(GlobalState(), tensors_checked=False, native=native)
        assert check()
    with mode:
        assert check()
    with FunctionMode():
        assert not check()
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with hooks:
        check = state_check(GlobalState(), tensors_checked=False, native=native)
        assert check()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert check()
    assert not check()


@BOTH
def test_anomaly_mode_without_checks(native: bool) -> None:
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        check = state_check(GlobalState(), tensors_checked=False, native=native)
        assert check()
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        assert not check()


def test_refusals() -> None:
    assert GlobalState().refusal() is None
    with torch.device("cpu"):
        assert GlobalState().refusal() is None
    for what, word in {
        "function mode": "function mode", "dispatch mode": "dispatch mode", "dual level": "forward-mode",
    }.items():  # fmt: skip
        with STATES[what]():
            assert word in (GlobalState().refusal() or "")
    refusals: list[str | None] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        refusals.append(GlobalState().refusal())
        return x

    torch.vmap(look)(torch.zeros(2))
    assert refusals == ["a functorch transform is active"]


def test_mixed_ways_to_set_precision_do_not_raise() -> None:
    old = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        state = GlobalState()
        assert state_check(state, tensors_checked=False, native=True)()
        assert state_check(state, tensors_checked=False, native=False)()
        matmul.fp32_precision = "ieee"
        assert not state_check(state, tensors_checked=False, native=False)()
    finally:
        matmul.fp32_precision = old


@BOTH
@pytest.mark.parametrize("tensors_checked", [False, True])
def test_a_state_without_autograd(native: bool, tensors_checked: bool) -> None:
    """For a graph that records nothing: what only looks at records is left out, and everything else is not."""
    state = GlobalState().without_autograd()
    check = state_check(state, tensors_checked=tensors_checked, native=native)
    left_out = {"saved-tensor hooks", "anomaly mode"}
    sample = plain()
    tensors = tensors_check([TensorFacts.of(sample)], native=native)
    for what, context in STATES.items():
        with context():
            holds = check() and (not tensors_checked or tensors(sample))
            assert holds is (what in left_out), what
            assert bool(state.differences()) is (what not in left_out), what
    assert check()


@BOTH
def test_another_thread_has_its_own_state(native: bool) -> None:
    check = state_check(GlobalState(), tensors_checked=False, native=native)
    seen: list[bool] = []
    with torch.no_grad():
        thread = Thread(target=lambda: seen.append(check()))
        thread.start()
        thread.join()
        assert check() is False
    assert seen == [True]
