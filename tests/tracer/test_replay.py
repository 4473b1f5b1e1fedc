"""Replay around the recorder: buffers, copies, aliases, writes, ownership of results, re-recording, freeing.

The CPU's recorder overwrites the results of a recording at each replay, and those of younger ones with NaN: each test
here is wrong in its numbers where a copy, a clone or a check is missing.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import tracer
from tests.tracer import replaying
from tests.tracer.graph_programs import PROGRAMS, Program
from tests.tracer.replaying import Tensor, counted, notes, replayed, same
from tests.tracer.test_backends import compare
from tracer.backends import StraightCall, free_recordings, lookup, toolchain
from tracer.backends.replay.recorder import CpuRecorder
from tracer.backends.replay.recording import Plan

pytestmark = pytest.mark.usefixtures("installed_with_defaults")


@pytest.fixture
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_programs(program: Program, inner: str) -> None:
    """Seven calls: warm-up, recording, replays, each with results of the one before still held."""
    compare(program, replaying.backend(inner=inner), exact=inner == "eager" and not program.train, calls=7)


# results --------------------------------------------------------------------------------------------------------------
def test_results_that_are_held_are_not_overwritten(no_grad: None) -> None:
    def double(x: Tensor) -> Tensor:
        return x * 2

    fn = replayed(double)
    inputs = [torch.full((3,), float(n)) for n in range(9)]
    same([fn(x) for x in inputs], [x * 2 for x in inputs])
    assert counted("replays") >= 5 and counted("not_replayed") == {"its caller holds the last result": 1}


@pytest.mark.parametrize("hold", [
    lambda out: out[1:], lambda out: out.detach(), lambda out: out.untyped_storage(), lambda out: out.numpy(),
    lambda out: torch.utils.dlpack.to_dlpack(out), lambda out: [out.view(3, 1)],
], ids=["view", "detached", "storage", "numpy", "dlpack", "in a list"])  # fmt: skip
def test_whatever_refers_to_the_memory_holds_it(hold: Any) -> None:
    fn = replaying.site(lambda x: (x * 2,))
    for n in range(2):
        fn(torch.full((3,), float(n)))
    held = hold(fn(torch.full((3,), 2.0))[0])
    assert fn.replays == 2
    fn(torch.full((3,), 7.0))
    assert fn.replays == 2 and fn.refused["its caller holds the last result"] == 1
    del held
    fn(torch.full((3,), 7.0))
    assert fn.replays == 3


def test_one_of_two_results_that_are_one_tensor_holds_it() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y, y[1:], y[1:]

    for place in range(4):
        fn = replaying.site(program)
        held = []
        for n in range(7):
            held.append(fn(torch.full((3,), float(n)))[place])
        same(held, [torch.full((3 if place < 2 else 2,), 2.0 * n) for n in range(7)])


def test_autograd_sees_a_write_to_a_result_that_shares_memory() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y[1:]

    for keep in (False, True):
        fn = replaying.site(program)
        held = [fn(torch.randn(3)) for _ in range(5)] if keep else []
        for _ in range(6):
            whole, part = fn(torch.randn(3))
            weight = torch.ones(2, requires_grad=True)
            loss = (weight * part).sum()
            whole.zero_()
            assert not part.any()
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
            del whole, part, loss
        assert fn.replays >= 4 and len(held) == 5 * keep


def test_somebody_else_holds_a_result_when_it_is_recorded() -> None:
    """As long as he does, a caller could not be told from him: the place is cloned."""
    others: list[Tensor] = []

    def program(x: Tensor) -> tuple[Tensor]:
        others.append(x * 2)
        return (others[-1],)

    fn = replaying.site(program)
    held = []
    for n in range(8):
        held.append(fn(torch.full((3,), float(n)))[0])
        if n == 3:
            others.clear()
    same(held, [torch.full((3,), 2.0 * n) for n in range(8)])


def test_a_result_that_nobody_holds_is_not_cloned() -> None:
    fn = replaying.site(lambda x: (x * 2,))
    places = {fn(torch.randn(3))[0].data_ptr() for _ in range(6)}
    first = fn(torch.randn(3))[0].data_ptr()
    assert all(fn(torch.randn(3))[0].data_ptr() == first for _ in range(5)) and first in places


def test_a_kept_place_is_cloned_alone() -> None:
    """Of two results the one that callers hold is cloned, the other is not."""
    fn = replaying.site(lambda x: (x * 2, x + 1))
    held = []
    for n in range(6):
        first, second = fn(torch.full((3,), float(n)))
        held.append(first)
        place = second.data_ptr()
        del first, second
    same(held, [torch.full((3,), 2.0 * n) for n in range(6)])
    second = fn(torch.zeros(3))[1]
    assert second.data_ptr() == place and fn.recordings[0].kept == {0}


def test_the_first_result_is_held_for_ever() -> None:
    fn = replaying.site(lambda x: (x * 2,))
    kept = [fn(torch.full((3,), float(n)))[0] for n in range(3)]
    for n in range(10):
        same(fn(torch.full((3,), float(n)))[0], torch.full((3,), 2.0 * n))
    same(kept, [torch.full((3,), 2.0 * n) for n in range(3)])
    assert fn.replays >= 9


@pytest.mark.parametrize("make", [
    lambda x: (x * 2)[:1].expand(4, 3), lambda x: (x * 2)[:, ::2], lambda x: (x * 2).t(),
], ids=["expanded", "with gaps", "transposed"])  # fmt: skip
def test_strides_of_results(make: Any) -> None:
    fn = replaying.site(lambda x: (make(x),))
    inputs = [torch.randn(2, 3) for _ in range(6)]
    held = [fn(x)[0] for x in inputs]
    same(held, [make(x) for x in inputs])
    assert [out.stride() for out in held] == [make(x).stride() for x in inputs]
    assert len({out.data_ptr() for out in held}) == 6 and fn.recordings[0].kept == {0}


def test_static_outputs_are_the_same_memory() -> None:
    fn = replaying.site(lambda x: (x * 2,), plan=Plan(static_outputs=True))
    results = [fn(torch.full((3,), float(n)))[0] for n in range(5)]
    same(results[1:], [torch.full((3,), 8.0)] * 4)
    assert not fn.refused


def test_results_of_another_region_are_not_overwritten() -> None:
    """A recording runs in memory that was free when it was made: where younger ones have their results."""
    recorder = CpuRecorder()
    older, younger = (replaying.site(lambda x: (x * 2,), recorder) for _ in range(2))
    x = torch.ones(3)
    for fn in (older, older, younger, younger):
        fn(x)
    for n in range(4):
        held = younger(torch.full((3,), float(n)))[0]
        same(older(x)[0], x * 2)
        same(held, torch.full((3,), 2.0 * n))
    assert older.refused == {"it would overwrite what another region's caller holds": 1} and older.replays >= 3


def test_static_results_of_another_region_make_it_record_again() -> None:
    recorder = CpuRecorder()
    older = replaying.site(lambda x: (x * 2,), recorder)
    younger = replaying.site(lambda x: (x * 2,), recorder, Plan(static_outputs=True))
    x = torch.ones(3)
    for fn in (older, older, younger, younger):
        fn(x)
    held, birth = younger(x * 3)[0], older.recordings[0].birth
    same(older(x)[0], x * 2)
    same(held, x * 6)
    assert older.recordings[0].birth > birth and not older.refused


def test_results_outlive_their_recording() -> None:
    recorder = CpuRecorder()
    older, younger = (replaying.site(lambda x: (x * 2,), recorder) for _ in range(2))
    x = torch.ones(3)
    for fn in (older, older, younger, younger):
        fn(x)
    held = younger(x * 3)[0]
    younger.free()
    same(older(x)[0], x * 2)
    same(held, x * 6)


# aliases --------------------------------------------------------------------------------------------------------------
def test_aliases_stay_aliases(no_grad: None) -> None:
    weight = torch.randn(4)

    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return x, x[1:], y, y.view(-1)[2:], y.t(), weight

    fn = replayed(program)
    kept = []
    for n in range(6):
        x = torch.randn(3, 4)
        results, expected = fn(x), program(x)
        same(results, expected)
        assert results[0] is x and results[5] is weight
        places = [result.untyped_storage().data_ptr() for result in results]
        assert places[1] == x.untyped_storage().data_ptr() and places[2] == places[3] == places[4] != places[1]
        results[2].zero_()
        assert not results[3].any() and not results[4].any()
        results[1].fill_(n)
        assert (x[1:] == n).all()
        kept.append(results[3])
    assert counted("replays") >= 3


def test_conjugates_are_refused(no_grad: None) -> None:
    """The bit that says so is not in the memory that is given out."""

    def program(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x * 2
        return y, y.conj(), y.conj().imag

    fn = replayed(program)
    for _ in range(5):
        x = torch.randn(3, dtype=torch.complex64)
        same(fn(x), program(x))
    assert "a result is a tensor of a special kind" in notes(fn)


def test_results_without_memory_are_tensors_of_their_own(no_grad: None) -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x, x.view(-1), x * 2, y + 1

    fn = replayed(program)
    held = []
    for _ in range(6):
        x = torch.ones(0, 3)
        given, view, made, _ = fn(x, torch.ones(2))
        assert given is x and view.untyped_storage()._cdata == x.untyped_storage()._cdata
        held.append(made)
    assert len({id(made) for made in held}) == 6
    assert counted("replays") >= 3


@pytest.mark.parametrize("give_up", [
    lambda result: result.untyped_storage().resize_(0), lambda result: result.resize_(4096),
], ids=["storage", "tensor"])  # fmt: skip
def test_a_caller_gives_up_the_memory_of_a_result(give_up: Any) -> None:
    """Resizing a result lets go of the memory that the recording writes."""
    fn = replaying.site(lambda x: (x * 2,))
    for n in range(12):
        x = torch.full((3,), float(n))
        [result] = fn(x)
        same(result, x * 2)
        if n % 3 == 2:
            give_up(result)
        del result
    assert counted("replays") >= 2


def test_constants_of_the_graph_are_given_as_they_are() -> None:
    constant = torch.ones(3)
    fn = replaying.site(lambda x: (constant, x * 2), plan=Plan(constants=(constant,)))
    assert all(fn(torch.zeros(3))[0] is constant for _ in range(5)) and fn.replays == 4


# inputs ---------------------------------------------------------------------------------------------------------------
def test_writes_are_copied_back_and_counted(no_grad: None) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        y[0].mul_(3)
        return x + y

    fn = replayed(program)
    cache, plain = torch.ones(2, 3), torch.ones(2, 3)  # at the same place at each call: read where it is
    for n in range(6):
        x, also = torch.full((2, 3), float(n)), torch.full((2, 3), float(n))
        before = x._version, cache._version
        same(fn(x, cache), program(also, plain))
        same([x, cache], [also, plain])
        assert x._version > before[0] and cache._version > before[1]
    assert counted("replays") >= 3


def test_what_moves_is_recorded_again_and_copied_then() -> None:
    def add(x: Tensor, y: Tensor) -> tuple[Tensor]:
        y.add_(x)
        return (y * 2,)

    fn = replaying.site(add, plan=Plan(mutated=frozenset([1])), replay_warm_up=2)
    y = torch.zeros(3)
    for n in range(1, 5):
        same(fn(torch.ones(3), y)[0], torch.full((3,), 2.0 * n))
    assert fn.recordings[0].inputs.static == (1,)
    others = [torch.zeros(3) for _ in range(4)]
    for other in others:
        same(fn(torch.ones(3), other)[0], torch.full((3,), 2.0))
    assert len(fn.recordings) == 2 and fn.recordings[1].inputs.static == ()
    same(y, torch.full((3,), 4.0))


def test_parameters_are_read_where_they_are(no_grad: None) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    plain = tracer.original(model)
    tracer.compile(model, backend="cudagraph", options=replaying.options())
    for step in range(8):
        model[0].weight.mul_(0.5)  # in place: the recording sees it
        if step == 4:
            model[0].weight.data = torch.randn(4, 4)  # elsewhere: it is recorded again
        if step == 6:
            model[1].running_mean = torch.randn(4)
        x = torch.randn(2, 4)
        same(model(x), plain(x))
    [site] = [region.compiled.call for region in tracer.api.runtime.state_of(model).regions]
    assert len(site.recordings[0].inputs.static) == 6 and len(site.recordings[0].inputs.copied) == 1


def test_module_state_is_told_by_the_graph(no_grad: None) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3))
            self.register_buffer("scale", torch.randn(3))
            self.plain = torch.randn(3)

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight + self.scale * self.plain

    model = Model()
    tracer.compile(model, backend="eager")
    model(torch.randn(3))
    [region] = tracer.api.runtime.state_of(model).regions
    graph = region.capture.graph
    names = [graph.inputs[at].node.name for at in graph.static_inputs]
    assert len(names) == 2 and "weight" in names[0] and "scale" in names[1]


@pytest.mark.parametrize("make", [
    lambda n: torch.full((1, 3), float(n)).expand(4, 3), lambda n: torch.arange(24.0).add(n).view(4, 6)[:, ::2],
    lambda n: torch.arange(12.0).add(n).view(3, 4).t(), lambda n: torch.full((3, 9), float(n))[:, :1],
    lambda n: torch.full((1, 9), float(n))[:, :1],
], ids=["expanded", "with gaps", "transposed", "one column", "one number"])  # fmt: skip
def test_strides_of_inputs(make: Any) -> None:
    seen = set()

    def program(x: Tensor) -> tuple[Tensor]:
        seen.add(x.stride())
        return (x.sum(1),)

    fn = replaying.site(program)
    for n in range(5):
        same(fn(make(n))[0], make(n).sum(1))
    assert fn.replays == 4 and len(seen) == 1


@pytest.mark.parametrize(("make", "reason"), [
    (lambda: [torch.arange(6.0).as_strided((4, 3), (1, 1))], "an input overlaps itself"),
    (lambda: [torch.randn(3, dtype=torch.complex64).conj()], "an input is a tensor of a special kind"),
    (lambda: [torch.empty(3, device="meta")], "an input is on the device meta"),
    (lambda: [torch.Generator()], "an input is a Generator"),
    (lambda: [torch.randn(3, requires_grad=True)], "an input requires grad, and the backend has no hook for training"),
    (lambda: [3], "it has no tensors as inputs"),
], ids=["overlaps", "conjugate", "meta", "generator", "grad", "none"])  # fmt: skip
def test_inputs_that_are_refused(make: Any, reason: str) -> None:
    fn = replaying.site(lambda x: (x,))
    given = make()
    assert all(fn(*given)[0] is given[0] for _ in range(4))
    assert fn.refused == {reason: 4} and not fn.recordings


def test_a_written_input_that_shares_memory_is_not_split() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor]:
        x.add_(1)
        return (y * 1,)

    fn = replaying.site(program, plan=Plan(mutated=frozenset([0])))
    for _ in range(4):
        base = torch.zeros(6)
        same(fn(base[:3], base[1:4])[0], torch.tensor([1.0, 1.0, 0.0]))
    assert "an input is written whose memory another input shares" in fn.refused
    base, fn = torch.zeros(6), replaying.site(program, plan=Plan(mutated=frozenset([0])), static=(0, 1))
    for n in range(1, 5):
        same(fn(base[:3], base[1:4])[0], torch.tensor([float(n), float(n), 0.0]))
    assert fn.replays == 3 and not fn.refused


def test_changing_the_shape_of_an_input_is_refused() -> None:
    fn = replaying.site(lambda x: (x.t_() * 1,))
    for _ in range(4):
        x = torch.randn(2, 3)
        assert fn(x)[0].shape == x.shape == (3, 2)
    assert fn.refused == {"it changes the shape of an input": 3}


def test_inference_mode() -> None:
    def double(x: Tensor) -> Tensor:
        return x * 2

    fn = replayed(double)
    with torch.inference_mode():
        inputs = [torch.randn(3) for _ in range(6)]
        same([fn(x) for x in inputs], [x * 2 for x in inputs])
    assert counted("replays") >= 3


# sizes and numbers ----------------------------------------------------------------------------------------------------
def test_a_recording_for_each_size(no_grad: None) -> None:
    def program(x: Tensor) -> Tensor:
        return x * 2 + x.shape[0]

    fn = tracer.compile(
        program, backend="cudagraph", dynamic=True, options=replaying.options(max_replay_shapes=3), inplace=False
    )
    for size in (4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7):
        x = torch.randn(size, 3)
        same(fn(x), program(x))
    assert counted("recordings") == 3
    assert counted("not_replayed")["more combinations of sizes than max_replay_shapes"] == 3


# what cannot be recorded ----------------------------------------------------------------------------------------------
class Failing(CpuRecorder):
    def record(self, *arguments: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")


def test_a_failing_recorder_is_a_counted_reason() -> None:
    fn = replaying.site(lambda x: (x * 2,), Failing())
    for n in range(5):
        same(fn(torch.full((3,), float(n)))[0], torch.full((3,), 2.0 * n))
    [(reason, calls)] = fn.refused.items()
    assert calls == 4 and "RuntimeError: operation not permitted" in reason and "and more" not in reason


def test_what_computes_nothing_is_not_recorded() -> None:
    fn = replaying.site(lambda x: (x[1:], x))
    for _ in range(4):
        x = torch.randn(3)
        assert fn(x)[1] is x
    assert fn.refused == {"it computes nothing": 3}


def test_nothing_that_a_recording_casts_is_kept_by_autocast(no_grad: None) -> None:
    """A cast that was recorded holds numbers only while the recording runs, and one that it reads may be gone then."""
    cached = []

    class Asking(CpuRecorder):
        def record(self, *arguments: Any) -> Any:
            cached.append(torch.is_autocast_cache_enabled())
            return super().record(*arguments)

    weight = nn.Parameter(torch.randn(3, 3))
    fn = replaying.site(lambda x, w: (x @ w,), Asking(), static=(1,))
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(4):
            x = torch.randn(2, 3)
            same(fn(x, weight)[0], x @ weight)
            assert torch.is_autocast_cache_enabled()
    assert cached == [False] and fn.replays == 3


def test_reasons_are_in_explain(no_grad: None) -> None:
    def synchronises(x: Tensor) -> Tensor:
        return x[torch.nonzero(x > 0).flatten()]

    tracer.install(capture_dynamic_output_shape_ops=True)
    fn = replayed(synchronises)
    x = torch.randn(9)
    for _ in range(3):
        same(fn(x), synchronises(x))
    assert "nonzero waits for the device (4 calls)" in str(tracer.explain(fn)(x))
    assert counted("not_replayed")["nonzero waits for the device"] == 4

    on_cuda = tracer.compile(synchronises, backend="cudagraph", options={"inner": "eager"}, inplace=False)
    on_cuda(x)
    assert "there are tensors on the device cpu in it (2 calls)" in str(tracer.explain(on_cuda)(x))


def test_auto_is_what_it_was_on_cpu(no_grad: None) -> None:
    def double(x: Tensor) -> Tensor:
        return x * 2

    fn = tracer.compile(double, backend="auto", options={"inner": "eager"}, inplace=False)
    x = torch.randn(3)
    same(fn(x), x * 2)
    [region] = tracer.api.runtime.state_of(fn).regions
    assert region.compiled.call.__code__.co_filename.startswith("<eval_with_key>") and notes(fn) == ""


def test_an_inner_backend_without_a_hook_for_training() -> None:
    def double(x: Tensor) -> Tensor:
        return x * 2

    fn = replayed(double, inner="aot_eager_decomp_partition")
    x = torch.randn(3, requires_grad=True)
    fn(x).sum().backward()
    assert "has no hook for training" in notes(fn)


def test_options_are_checked() -> None:
    for wrong in ({"recorder": "tpu"}, {"max_replay_shapes": 0}, {"replay_sizes": [0]}, {"inner": "cudagraph"}):
        with pytest.raises(ValueError):
            tracer.compile(lambda x: x, backend="cudagraph", options=wrong)
    for sizes in (8, "8", [2, "8"], [2.0]):
        with pytest.raises(ValueError, match="replay_sizes must be a list of positive ints"):
            tracer.compile(lambda x: x, backend="cudagraph", options={"replay_sizes": sizes})
    with pytest.raises(ValueError, match=r"replay has no option 'replay_trail'; there are .*replay_trial"):
        tracer.compile(lambda x: x, backend="cudagraph", options={"replay_trail": 0})
    with pytest.raises(TypeError, match="static_outputs"):
        tracer.compile(lambda x: x, backend="cudagraph", options={"static_outputs": 1})
    with pytest.raises(RuntimeError, match="no_such"):
        tracer.compile(lambda x: x, backend="auto", options={"inner": "inductor", "no_such": 1})


# the trial ------------------------------------------------------------------------------------------------------------
class Clocked(CpuRecorder):
    """A clock that goes on by what each run costs: the inner callable 1 s, a replay as said."""

    def __init__(self, replay: float) -> None:
        self.now, self.replay = 0.0, replay

    def inner(self, x: Tensor) -> tuple[Tensor]:
        self.now += 1
        return (x * 2,)

    def record(self, run: Any, *rest: Any) -> Any:
        def timed(given: list[Any]) -> Any:
            self.now += self.replay - 1
            return run(given)

        return super().record(timed, *rest)

    def clock(self, device: torch.device) -> float:
        return self.now


@pytest.mark.parametrize("replay", [3.0, 0.5])
def test_a_slower_replay_is_switched_off(replay: float) -> None:
    recorder = Clocked(replay)
    fn = replaying.site(recorder.inner, recorder, replay_trial=3)
    for n in range(12):
        same(fn(torch.full((3,), float(n)))[0], torch.full((3,), 2.0 * n))
    figures = f"replay {1e6 * replay:.1f} us, inner callable 1000000.0 us"
    assert any(figures in line for line in fn.notes()), fn.notes()
    assert bool(fn.recordings) == (replay < 1) == (fn.off is None)
    assert replay < 1 or fn.refused == {f"its replay is slower ({figures})": 4}
    assert replay > 1 or fn.replays == 8


# freeing --------------------------------------------------------------------------------------------------------------
def test_recordings_go_with_their_model(no_grad: None) -> None:
    model = nn.Linear(4, 4)
    tracer.compile(model, backend="cudagraph", options=replaying.options())
    for _ in range(4):
        model(torch.randn(2, 4))
    assert counted("recordings") == 1 and counted("replay_bytes") == 2 * 2 * 4 * 4
    gone = weakref.ref(model.weight)
    del model
    gc.collect()
    assert gone() is None and counted("recordings") == 0 and counted("replay_bytes") == 0


def test_recordings_go_with_their_function_and_at_reset(no_grad: None) -> None:
    def make() -> Any:
        def double(x: Tensor) -> Tensor:
            return x * 2

        return replayed(double)

    fn = make()
    for _ in range(4):
        fn(torch.randn(3))
    assert counted("replay_bytes") == 24
    tracer.reset()
    assert counted("replay_bytes") == 0
    for _ in range(4):
        fn(torch.randn(3))
    assert counted("recordings") == 1
    del fn
    gc.collect()
    assert counted("recordings") == 0


def test_a_pool_without_recordings_is_a_new_one() -> None:
    recorder = CpuRecorder()
    first, second = (replaying.site(lambda x: (x * 2,), recorder) for _ in range(2))
    x = torch.ones(3)
    for fn in (first, second, first, second):
        fn(x)
    pool = first.recordings[0].pool
    assert pool is second.recordings[0].pool and (memory := pool.memory()) is pool.memory()
    first.free()
    assert pool.memory() is memory
    second.free()
    assert pool.memory() is not memory


# threads --------------------------------------------------------------------------------------------------------------
def test_another_call_under_way_runs_the_inner_callable() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(CpuRecorder):
        def order(self, before: Any, device: torch.device) -> Any:
            if threading.current_thread() is not threading.main_thread():
                entered.set()
                assert go_on.wait(10)

    fn = replaying.site(lambda x: (x * 2,), Slow())
    for _ in range(2):
        fn(torch.ones(3))
    results: list[Tensor] = []
    thread = threading.Thread(target=lambda: results.append(fn(torch.full((3,), 5.0))[0]))
    thread.start()
    assert entered.wait(10)
    same(fn(torch.full((3,), 7.0))[0], torch.full((3,), 14.0))
    go_on.set()
    thread.join()
    same(results[0], torch.full((3,), 10.0))
    assert fn.refused == {"another call was under way": 1}


def test_recordings_are_freed_within_a_call() -> None:
    """By what the collector frees, say: the call goes on, and later ones are recorded anew."""
    now = False

    def program(x: Tensor) -> tuple[Tensor]:
        if now:
            free_recordings()
        return (x * 2,)

    fn = replaying.site(program)
    for n in range(12):
        now = n % 6 == 5
        same(fn(torch.full((3,), float(n)))[0], torch.full((3,), 2.0 * n))
    now = False
    for _ in range(3):
        same(fn(torch.ones(3))[0], torch.full((3,), 2.0))
    assert counted("replays") > 0 and counted("not_replayed") == {}


# the default ----------------------------------------------------------------------------------------------------------
def test_default_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = lookup(None, options={"epilogue_fusion": False} if toolchain.missing_for_inductor() is None else None)
    assert found.name == "auto" and found.replay is not None and not found.replay.everywhere and found.inner is not None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert lookup(None).replay is None
    assert lookup(None, options={"replay_sizes": [2]}).name == "auto"


needs_compiler = pytest.mark.skipif(toolchain.missing_for_inductor() is not None, reason="nothing to compile with")
CUDA_GRAPHS: list[dict[str, Any]] = [
    {"mode": "reduce-overhead"}, {"mode": "max-autotune"}, {"options": {"triton.cudagraphs": True}},
]  # fmt: skip
NO_CUDA_GRAPHS: list[dict[str, Any]] = [
    {}, {"mode": "default"}, {"mode": "max-autotune-no-cudagraphs"}, {"options": {"triton.cudagraphs": False}},
]  # fmt: skip


@pytest.mark.parametrize("asked", CUDA_GRAPHS, ids=str)
def test_a_mode_that_asks_for_cuda_graphs_leaves_them_to_replay(asked: dict[str, Any]) -> None:
    """Inductor's own would be recorded within a recording."""
    for name in ("inductor", *(["auto", "cudagraph"] if toolchain.missing_for_inductor() is None else [])):
        found = lookup(name, **asked)
        assert found.name == name and found.replay is not None and found.inner is not None
        assert found.replay.recorder == "cuda" and found.inner.replay is None
        config = found.inner.compiler.__wrapped__.config  # type: ignore[attr-defined]
        assert config["triton.cudagraphs"] is False
        assert ("max_autotune" in config) == (asked.get("mode") == "max-autotune")


def test_cuda_graphs_are_asked_for_by_name_or_for_all_compiles() -> None:
    for asked in NO_CUDA_GRAPHS:
        assert lookup("inductor", **asked).replay is None
    with torch._inductor.config.patch({"triton.cudagraphs": True}):
        assert lookup("inductor").replay is not None
        assert lookup("inductor", options={"triton.cudagraphs": False}).replay is None
        found = lookup("cudagraph", options={"inner": "inductor"}).inner
        assert found is not None and found.compiler.__wrapped__.config["triton.cudagraphs"] is False  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="Unexpected optimization option static_outputs"):
        lookup("inductor", options={"static_outputs": True})


@needs_compiler
@pytest.mark.compiles
def test_reduce_overhead_replays_and_says_so(no_grad: None) -> None:
    """Here with the recorder of tests; results that are held stay what they are, unlike Inductor's own."""

    def program(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).relu()

    own = {"recorder": "cpu", "replay_trial": 0, "replay_warm_up": 1}
    fn = tracer.compile(program, backend="inductor", options={"triton.cudagraphs": True, **own}, inplace=False)
    w = torch.randn(8, 8)
    inputs = [torch.randn(4, 8) for _ in range(6)]
    held = [fn(x, w) for x in inputs]
    torch.testing.assert_close(held, [program(x, w) for x in inputs])
    assert counted("replays") >= 3
    assert "replay: region: " in str(tracer.explain(fn)(inputs[0], w))


@needs_compiler
@pytest.mark.parametrize("asked", CUDA_GRAPHS[::2], ids=str)
@pytest.mark.parametrize("grad", [False, True])
def test_reduce_overhead_on_the_cpu_is_inductor(asked: dict[str, Any], grad: bool) -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).relu()

    fn = tracer.compile(program, backend="inductor", inplace=False, **asked)
    x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=grad)
    for _ in range(3):
        torch.testing.assert_close(fn(x, w), program(x, w))
    [region] = tracer.api.runtime.state_of(fn).regions
    assert grad or isinstance(region.compiled.call, StraightCall)
    assert counted("not_replayed") == {}
    assert "replay: not replayed, none of its tensors is on cuda" in str(tracer.explain(fn)(x, w))
