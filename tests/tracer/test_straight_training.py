"""The straight way for graphs that autograd records: right in everything that autograd may be asked, and taken.

Plain Python is the judge; where numbers are compared bit for bit, AOTAutograd's own node is.
"""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import tracer
from tests.support import in_threads
from tracer import torch_aot, torch_inductor
from tracer.api import runtime
from tracer.backends import toolchain
from tracer.backends.straight_training import StraightTraining

needs_compiler = pytest.mark.skipif(toolchain.missing_for_inductor() is not None, reason="no C++ compiler")
compiles = pytest.mark.compiles


def program(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Saves inputs and what is between; one result is a view for autograd's eyes, one has no gradient."""
    hidden = F.linear(x, w, b)
    wide = hidden.exp()
    return hidden, (wide * x).sum(-1), wide.argmax(-1)


def given(*, grads: str = "xwb", seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"x": (2, 3, 4), "w": (4, 4), "b": (4,)}
    return [torch.randn(shapes[name], generator=generator).requires_grad_(name in grads) for name in "xwb"]


def loss_of(results: Sequence[Tensor]) -> Tensor:
    return results[0].sin().sum() + (results[1] ** 2).sum()


def straight_calls(function: Any) -> list[StraightTraining]:
    state = runtime.state_of(function)
    assert state is not None
    calls = [region.compiled.call for region in state.regions]
    return [call for call in calls if isinstance(call, StraightTraining)]


def warm(function: Callable[..., Any], make: Callable[[], Sequence[Tensor]], times: int = 5) -> None:
    for _ in range(times):
        results = function(*make())
        together = results if isinstance(results, tuple) else (results,)
        sum(r.sum() for r in together if r.requires_grad).backward()  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def installed() -> Iterator[None]:
    tracer.install(backend="inductor", small_region=0)
    tracer.reset()
    yield
    tracer.uninstall()


@pytest.fixture(scope="module")
def compiled(installed: None) -> Any:
    """`program`, warm: it goes straight, forward and backward."""
    function = tracer.compile(program, inplace=False)
    warm(function, given)
    [call] = straight_calls(function)
    assert call.is_settled and not call.reason
    assert call.backward is not None and call.backward.is_settled and not call.backward.reason
    return function


# taken ----------------------------------------------------------------------------------------------------------------
@needs_compiler
@compiles
def test_it_is_taken_and_gives_the_same_bits(compiled: Any) -> None:
    [call] = straight_calls(compiled)
    layered_ran: list[str] = []
    function = call.function
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_fwd_fn", "_bwd_fn"):
            patch.setattr(function, name, lambda *_, name=name: layered_ran.append(name))
        for seed in range(3):
            ours, plain = given(seed=seed), given(seed=seed)
            results, expected = compiled(*ours), program(*plain)
            assert results[0].grad_fn.name() == "CompiledFunctionBackward"
            loss_of(results).backward()
            loss_of(expected).backward()
            torch.testing.assert_close([t.grad for t in ours], [t.grad for t in plain])
            torch.testing.assert_close(results, expected)
    assert not layered_ran
    ours, theirs = given(), given()
    results, expected = compiled(*ours), call._layered(*theirs)
    assert all(map(torch.equal, results, expected))
    loss_of(results).backward()
    loss_of(expected).backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(ours, theirs, strict=True))  # type: ignore[arg-type]


# what autograd may be asked -------------------------------------------------------------------------------------------
def retained(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    loss = loss_of(function(x, w, b))
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    return [t.grad for t in (x, w, b)]


def several_forwards(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    losses = [loss_of(function(x * n, w, b)) for n in range(3)]
    for n in (1, 0, 2):
        losses[n].backward()
    return [t.grad for t in (x, w, b)]


def one_result_unused(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    first = torch.autograd.grad(function(x, w, b)[0].sum(), (x, w, b), allow_unused=True)
    second = torch.autograd.grad(function(x, w, b)[1].sum(), (x, w, b))
    return [torch.zeros_like(t) if g is None else g for t, g in zip((x, w, b), first, strict=True)], second


def some_gradients(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    return torch.autograd.grad(loss_of(function(x, w, b)), (b,))


def gradients_of_other_layouts(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    hidden, other, _ = function(x, w, b)
    transposed = torch.arange(24.0).view(4, 3, 2).permute(2, 1, 0)
    torch.autograd.backward((hidden, other), (transposed, torch.arange(6.0).view(3, 2).t()))
    hidden, other, _ = function(x, w, b)
    (hidden.sum() + other.sum()).backward()
    hidden, other, _ = function(x, w, b)
    torch.autograd.backward((hidden, other), (hidden.detach()[:1].expand(2, 3, 4), torch.ones(4, 6)[::2, ::2]))
    return [t.grad for t in (x, w, b)]


def hooked(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    seen: list[Tensor] = []
    hidden, other, _ = function(x, w, b)
    other.register_hook(lambda gradient: gradient * 2)
    other.retain_grad()
    x.register_hook(lambda gradient: gradient + 1)
    other.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs[0]))
    loss_of((hidden, other)).backward()
    return [t.grad for t in (x, w, b, other)], len(seen)


def in_anomaly_mode(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    loss = loss_of(function(x, w, b))
    with torch.autograd.detect_anomaly(check_nan=True):
        loss.backward()
        loss_of(function(x, w, b)).backward()
    with pytest.raises(RuntimeError, match="nan values"), torch.autograd.detect_anomaly(check_nan=True):
        (function(x, w, b)[0] * float("nan")).sum().backward()
    return [t.grad for t in (x, w, b)]


def checkpointed(reentrant: bool) -> Callable[..., Any]:
    def run(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
        for _ in range(3):
            loss_of(checkpoint(function, x, w, b, use_reentrant=reentrant)).backward()
        return [t.grad for t in (x, w, b)]

    run.__name__ = f"checkpointed-{reentrant}"
    return run


kept_as_arrays = saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy)


def saved_elsewhere(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    for _ in range(4):
        with save_on_cpu():
            loss = loss_of(function(x, w, b))
        with kept_as_arrays:
            other = loss_of(function(x * 2, w, b))
        loss.backward()
        other.backward()
    return [t.grad for t in (x, w, b)]


def in_another_thread(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    loss = loss_of(function(x, w, b))
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    return [t.grad for t in (x, w, b)]


def backward_in_other_states(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    amp = torch.autocast("cpu", dtype=torch.bfloat16, enabled=function is not program)  # eager's is for other products
    found = []
    for state in (torch.no_grad(), amp, torch.inference_mode(), torch.enable_grad()):
        loss = loss_of(function(x, w, b))
        with state:
            found.append([g.clone() for g in torch.autograd.grad(loss, (x, w, b))])
    return found


def of_gradients(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    """A backward within a backward."""

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Tensor) -> Tensor:
            ctx.save_for_backward(t)
            return t.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            with torch.enable_grad():
                inner = ctx.saved_tensors[0].detach().requires_grad_()
                [found] = torch.autograd.grad(loss_of(function(inner, w, b)), inner)
            return gradient + found

    loss_of(function(Twice.apply(x), w, b)).backward()
    return [t.grad for t in (x, w, b)]


def leaves_and_others(function: Any, x: Tensor, w: Tensor, b: Tensor) -> Any:
    """Inputs that are views, or the same tensor, or results of the function itself."""
    double = (torch.cat([x, x]) * 2)[1:3]
    hidden, other, _ = function(double, w.t().t(), b)
    again = function(hidden, w, b)
    (loss_of(again) + other.sum()).backward()
    return [t.grad for t in (x, w, b)]


USES = [
    checkpointed(reentrant=False), checkpointed(reentrant=True), retained, several_forwards, one_result_unused,
    some_gradients, gradients_of_other_layouts, hooked, in_anomaly_mode, saved_elsewhere, in_another_thread,
    backward_in_other_states, of_gradients, leaves_and_others,
]  # fmt: skip


@needs_compiler
@compiles
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("use", USES)
def test_what_autograd_is_asked(use: Callable[..., Any], compiled: Any) -> None:
    torch.testing.assert_close(use(compiled, *given()), use(program, *given()))
    assert not [call.reason for call in straight_calls(compiled) if call.reason]
    assert not any(call.backward.reason for call in straight_calls(compiled) if call.backward is not None)


@needs_compiler
@compiles
def test_a_second_derivative_is_refused_as_by_the_layers(compiled: Any) -> None:
    ours, plain = given(), given()
    [first] = torch.autograd.grad(loss_of(compiled(*ours)), ours[0], create_graph=True)
    [expected] = torch.autograd.grad(loss_of(program(*plain)), plain[0], create_graph=True)
    torch.testing.assert_close(first, expected)
    assert first.requires_grad
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()
    loss_of(compiled(*ours)).backward()  # and the next is as ever


@needs_compiler
@compiles
def test_a_second_derivative_of_a_graph_that_is_not_kept(compiled: Any) -> None:
    tensors = given()
    loss = loss_of(compiled(*tensors))
    [first] = torch.autograd.grad(loss, tensors[0], create_graph=True, retain_graph=False)
    assert first.requires_grad
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()


@needs_compiler
@compiles
def test_a_kept_graph_whose_saved_tensors_a_backward_may_write(installed: None) -> None:
    """Inductor writes gradients where saved tensors were; AOTAutograd's backward refuses a kept graph then."""

    def function(x: Tensor) -> Tensor:
        return (x * 2).exp().sin()

    compiled = tracer.compile(function, inplace=False)
    warm(compiled, lambda: [torch.ones(8, requires_grad=True)])
    [call] = straight_calls(compiled)
    x = torch.linspace(0, 1, 8).requires_grad_()
    [expected] = torch.autograd.grad(function(x).sum(), x)
    loss = compiled(x).sum()
    asked = call.backward._layered  # type: ignore[union-attr]
    seen: list[Any] = []
    call.backward._layered = lambda *given: seen.append(1) or asked(*given)  # type: ignore[union-attr, func-returns-value]
    try:
        for keep in (True, True, False):
            torch.testing.assert_close(torch.autograd.grad(loss, x, retain_graph=keep)[0], expected)
    except RuntimeError as error:
        assert "donated" in str(error)
    assert seen


@needs_compiler
@compiles
def test_memory_is_free_while_the_compiled_backward_runs(compiled: Any) -> None:
    [call, *_] = straight_calls(compiled)
    assert call.backward is not None
    run, alive = call.backward._run, list[bool]()
    assert run is not None

    def watched(inputs: list[Any]) -> Sequence[Any]:
        own = [weakref.ref(t) for t in inputs if not t.requires_grad]
        copies = [t.clone() for t in inputs]
        inputs.clear()
        alive.extend(reference() is not None for reference in own)
        return run(copies)

    results = compiled(*given())
    loss = loss_of([result * 1 for result in results[:2]])
    del results
    call.backward._run = watched
    try:
        loss.backward()
    finally:
        call.backward._run = run
    assert alive and not any(alive)


@needs_compiler
@compiles
@pytest.mark.parametrize("which", [0, 1])
def test_what_was_saved_and_then_written(which: int, compiled: Any) -> None:
    for function in (compiled, program):
        tensors = given()
        loss = loss_of(function(*tensors))
        with torch.no_grad():
            tensors[which].mul_(2)
        with pytest.raises(RuntimeError, match="inplace operation"):
            loss.backward()


@needs_compiler
@compiles
def test_results_may_be_written(compiled: Any) -> None:
    """They are no views for autograd, and those without a gradient are plain tensors."""
    for function in (compiled, program):
        _, other, index = function(*given())
        assert not index.requires_grad and index.grad_fn is None
        assert not any(result._is_view() for result in function(*given())[1:])
        other.mul_(2).sum().backward()
        index.add_(1)


@needs_compiler
@compiles
def test_nothing_is_held_behind_a_backward(compiled: Any) -> None:
    def references() -> list[weakref.ref[Any]]:
        tensors = given()
        results = compiled(*tensors)
        alive = [weakref.ref(t) for t in (*tensors, *results)]
        saved = [weakref.ref(t) for t in results[0].grad_fn.saved_tensors if not t.requires_grad]
        assert saved and all(reference() is not None for reference in saved)
        loss = loss_of(results)
        loss.backward()
        del results
        assert not any(reference() is not None for reference in saved)
        return alive

    assert all(reference() is None for reference in references())


@needs_compiler
@compiles
def test_gradients_are_not_copied(compiled: Any) -> None:
    """What the compiled backward gives becomes `.grad` itself, as it does with the layers."""
    tensors = given()
    made: list[int] = []
    results = compiled(*tensors)
    results[0].grad_fn.register_hook(lambda inputs, outputs: made.extend(g.data_ptr() for g in inputs))
    loss_of(results).backward()
    assert made == [t.grad.data_ptr() for t in tensors]  # type: ignore[union-attr]


@needs_compiler
@compiles
def test_hooks_on_saved_tensors_are_asked_as_by_the_layers(compiled: Any) -> None:
    asked: list[tuple[str, torch.Size]] = []

    def noting(what: str) -> Callable[[Tensor], Tensor]:
        return lambda t: asked.append((what, t.shape)) or t  # type: ignore[func-returns-value]

    def asked_by(function: Any) -> list[tuple[str, torch.Size]]:
        with saved_tensors_hooks(noting("pack"), noting("unpack")):
            for _ in range(5):
                asked.clear()
                loss_of(function(*given())).backward()
        return list(asked)

    [call, *_] = straight_calls(compiled)
    assert asked_by(compiled) == asked_by(call._layered)
    assert {what for what, _ in asked} == {"pack", "unpack"}


@needs_compiler
@compiles
def test_a_backward_in_another_state_is_refused_as_by_the_layers(compiled: Any) -> None:
    loss = loss_of(compiled(*given()))
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="use_deterministic_algorithms"):
            loss.backward()
    finally:
        torch.use_deterministic_algorithms(False)


@needs_compiler
@compiles
def test_transforms_around_it(compiled: Any) -> None:
    x, w, b = given(grads="")
    ours = torch.func.grad(lambda x: loss_of(compiled(x, w, b)))(x)
    torch.testing.assert_close(ours, torch.func.grad(lambda x: loss_of(program(x, w, b)))(x))
    mapped = torch.vmap(lambda x: compiled(x, w, b)[1])(torch.stack([x, x]))
    torch.testing.assert_close(mapped, torch.vmap(lambda x: program(x, w, b)[1])(torch.stack([x, x])))
    with dual_level():
        dual = unpack_dual(compiled(make_dual(x, x), w, b)[1])
        torch.testing.assert_close(dual, unpack_dual(program(make_dual(x, x), w, b)[1]))


@needs_compiler
@compiles
def test_threads_in_the_first_calls(installed: None) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).sin() * y

    compiled = tracer.compile(function, inplace=False)
    compiled(torch.ones(3, requires_grad=True), torch.ones(3))

    def work(seed: int) -> None:
        for n in range(30):
            x, y = torch.full((3,), seed + 1.0, requires_grad=True), torch.arange(3.0) + n
            gradients = [torch.autograd.grad(f(x, y).sum(), x)[0] for f in (compiled, function)]
            torch.testing.assert_close(*gradients)

    in_threads(work)
    [call] = straight_calls(compiled)
    assert call.backward is not None and call.backward.is_settled and not call.backward.reason


@needs_compiler
@compiles
def test_a_dropped_function_is_freed(installed: None) -> None:
    def make() -> tuple[Any, weakref.ref[Any], weakref.ref[Any]]:
        model = torch.nn.Linear(4, 4)
        compiled = tracer.compile(model)
        for _ in range(4):
            compiled(torch.ones(2, 4)).sum().backward()
        copied = copy.deepcopy(model)
        copied(torch.ones(2, 4)).sum().backward()
        [call] = straight_calls(compiled)
        assert call.is_settled and not call.reason
        return copied, weakref.ref(model), weakref.ref(call)

    copied, model, call = make()
    gc.collect()
    assert model() is None
    del copied
    tracer.reset()
    gc.collect()
    assert call() is None


# programs -------------------------------------------------------------------------------------------------------------
def with_a_view(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    return x * y, z[1:]


def under_autocast(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    return (F.linear(x, z) * y,)


def written_and_more(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    """An input is written, one is given back, one has no gradient of this graph, one result has none."""
    y.add_(1)
    with torch.no_grad():
        factor = (x * 2).sum()
    return z.cos() * factor * y, x.detach() * 3, x, y


norm = torch.nn.BatchNorm1d(4)


def normalized(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    return (norm(x * y + z).relu(),)


#: program -> why the layers stay
PROGRAMS: dict[Callable[..., Any], str] = {
    with_a_view: "results are made",
    under_autocast: "autocast",
    written_and_more: "",
    normalized: "",
}


@needs_compiler
@compiles
@pytest.mark.parametrize("program", PROGRAMS)
def test_where_the_layers_stay(program: Callable[..., Any], installed: None) -> None:
    compiled = tracer.compile(program, inplace=False)
    amp = program is under_autocast
    tolerance, nodes = 2e-2 if amp else 1e-4, list[list[bool]]()

    def side(function: Callable[..., Any], seed: int) -> tuple[Any, Any]:
        """What must be equal, and what may differ by rounding."""
        generator = torch.Generator().manual_seed(seed)
        tensors = [torch.randn(4, 4, generator=generator).requires_grad_(name != "y") for name in "xyz"]
        norm.reset_running_stats()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            results = list(function(*tensors))
        if function is compiled:
            nodes.append([node is None for node, _ in results[0].grad_fn.next_functions])
        sum(result.sin().sum() for result in results if result.requires_grad).backward()  # type: ignore[union-attr]
        about = [(r.requires_grad, r._is_view(), r.stride(), any(r is t for t in tensors)) for r in results]
        numbers = results, [t.grad for t in tensors], list(map(torch.clone, norm.buffers()))
        return (about, [t._version > 0 for t in tensors]), numbers

    for seed in range(5):
        (ours, numbers), (plain, expected) = side(compiled, seed), side(program, seed)
        assert ours == plain
        torch.testing.assert_close(numbers, expected, rtol=tolerance, atol=tolerance)
    assert all(inputs == nodes[0] for inputs in nodes)
    [call] = straight_calls(compiled)
    assert call.is_settled and bool(call.reason) == bool(PROGRAMS[program]) and PROGRAMS[program] in call.reason
    if not call.reason:
        assert call.backward is not None and call.backward.is_settled and not call.backward.reason


@needs_compiler
@compiles
def test_sizes_that_change(installed: None) -> None:
    def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        hidden = F.linear(x, w).sin()
        return hidden * x.shape[0], hidden.sum(0)

    compiled, w = tracer.compile(function, dynamic=True, inplace=False), torch.randn(4, 4, requires_grad=True)
    for rows in (3, 5, 7, 30, 2, 11):
        x = torch.randn(rows, 4, requires_grad=True)
        gradients = []
        for each in (compiled, function):
            wide, short = each(x, w)
            loss = (wide.t().contiguous() ** 2).mean() + (short * 2).sum()
            gradients.append((wide, short, torch.autograd.grad(loss, (x, w))))
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
    [call] = straight_calls(compiled)
    assert not call.reason and call.backward is not None and call.backward.is_settled and not call.backward.reason


# what the layers do, in small -----------------------------------------------------------------------------------------
class Layers:
    """AOTAutograd's function around two graphs, with something that a layer does beside that."""

    def __init__(self, what: str = "") -> None:
        self.what, self.layered = what, 0
        below = torch_inductor.InsteadOfCompiled

        def forward(inputs: list[Any]) -> tuple[Any, ...]:
            x, y = inputs[:2]
            inputs.clear()
            return x * y, (x > y), x, y, 2

        def backward(inputs: list[Any]) -> tuple[Any, ...]:
            number, x, y, gradient = inputs[:4]
            inputs.clear()
            scale = 2 if self.what == "gradient laid out and scaled" else 1
            return gradient * y * (number / 2 / scale), gradient * x

        class CompiledFunction(torch.autograd.Function):
            compiled_fw = compiled_bw = None

            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                return self.forward(ctx, list(inputs))

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                self.function.compiled_bw = self.backward_graph
                return self.backward(ctx, list(gradients))

        self.function, self.forward_graph, self.backward_graph = CompiledFunction, below(forward), below(backward)
        CompiledFunction.compiled_fw = self.forward_graph

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        x, y = inputs
        self.layered += 1
        if self.what == "outside":
            self.forward_graph([x, y])
        y = y.detach() if self.what == "detached" else y
        result, mask = self.function.apply(x.view_as(x) if self.what == "another input" else x, y)
        return (result * 1 if self.what == "another node" else result), mask

    def forward(self, ctx: Any, inputs: list[Any]) -> Any:
        with torch.autocast("cpu", enabled=self.what == "autocast"):
            for _ in range({"twice": 2, "outside": 0}.get(self.what, 1)):
                left = self.forward_graph([*inputs, 7] if self.what == "one more input" else list(inputs))
        if self.what == "outside":
            left = inputs[0] * inputs[1], inputs[0] > inputs[1], *inputs, 2
        result, mask, x, y, number = left
        if self.what == "behind":
            y.detach().mul_(1)
        ctx.save_for_backward(x, y, *[result] * (self.what == "one more saved"))
        ctx.symints, ctx.opaque_objects, ctx._tensors_no_vc_check = [number], [], []
        if self.what == "unknown":
            ctx.seed = 1
        if self.what == "a clone":
            result = result.clone()
        ctx.mark_non_differentiable(mask)
        return result, mask

    def backward(self, ctx: Any, gradients: list[Any]) -> Any:
        self.layered += 1
        x, y = ctx.saved_tensors[:2]
        gradient = gradients[0]
        if self.what == "gradient scaled":
            gradient = gradient * 1
        elif self.what == "gradient laid out":
            gradient = torch.empty_strided((2, 2), (1, 2)).copy_(gradient)
        elif self.what == "gradient laid out and scaled":
            gradient = torch.empty_strided((2, 2), (1, 2)).copy_(gradient * 2)
        ctx.maybe_clear_saved_tensors()
        with torch.autocast("cpu", enabled=self.what == "autocast behind"):
            given = [*ctx.symints, x.clone() if self.what == "saved cloned" else x, y, gradient]
            results = self.backward_graph(given)
        return (results[0].clone(), results[1]) if self.what == "gradient cloned" else results


class Known:
    """A capture with two results."""

    class Output:
        shape = stride = (2, 2)
        same_as_input = None
        shares_with = shares_with_outputs = ()
        dtype = None

    inputs, outputs = (), (Output, Output)


#: what the layers do -> what is said of it: of the forward, of the backward
DONE: dict[str, tuple[str, str]] = {
    "": ("", ""),
    "detached": ("", ""),
    "another input": ("other inputs", ""),
    "one more input": ("other inputs", ""),
    "twice": ("not called once", ""),
    "outside": ("outside of its node", ""),
    "behind": ("written behind", ""),
    "autocast": ("autocast", ""),
    "another node": ("no autograd function", ""),
    "a clone": ("results are made", ""),
    "one more saved": ("keeps something unknown", ""),
    "unknown": ("keeps something unknown", ""),
    "saved cloned": ("", "other inputs"),
    "gradient scaled": ("", "other inputs"),
    "gradient laid out": ("", ""),
    "gradient laid out and scaled": ("", "other inputs"),
    "gradient cloned": ("", "gradients are made"),
    "autocast behind": ("", "autocast"),
}


@pytest.mark.parametrize("what", DONE)
def test_a_layer_that_does_something_stays(what: str) -> None:
    layers = Layers(what)
    call = StraightTraining(Known(), layers)  # type: ignore[arg-type]
    for n in range(1, 7):
        before = layers.layered
        x, y = torch.full((2, 2), n + 1.0, requires_grad=True), torch.full((2, 2), 3.0, requires_grad=True)
        result, mask = call(x, y)
        assert torch.equal(result, x * y) and torch.equal(mask, x > y) and not mask.requires_grad
        gradients = torch.arange(4.0).view(2, 2)
        if what != "another node":
            assert [node is None for node, _ in result.grad_fn.next_functions] == [False, what == "detached"]
        [gradient] = torch.autograd.grad(result, x, gradients)
        assert torch.equal(gradient, gradients * 3)
    forward, backward = DONE[what]
    assert forward in call.reason and bool(forward) == bool(call.reason)
    if not forward:
        assert call.backward is not None
        assert backward in call.backward.reason and bool(backward) == bool(call.backward.reason)
    assert layers.layered - before == (2 if forward else 1 if backward else 0)
    assert layers.forward_graph.current_callable.__name__ == "forward"
    assert layers.backward_graph.current_callable.__name__ == "backward"


@pytest.mark.parametrize("missing", ["compiled_bw", "CAN_STAND_IN"])
def test_where_torch_looks_otherwise_the_layers_stay(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = Layers()
    if missing == "CAN_STAND_IN":
        monkeypatch.setattr(torch_aot, missing, False)
    else:
        monkeypatch.setattr(torch_aot, "function_behind", lambda results: None)
    call = StraightTraining(Known(), layers)  # type: ignore[arg-type]
    for _ in range(4):
        x = torch.ones(2, 2, requires_grad=True)
        call(x, torch.ones(2, 2))[0].sum().backward()
        assert torch.equal(x.grad, torch.ones(2, 2))  # type: ignore[arg-type]
    assert "no autograd function" in call.reason
