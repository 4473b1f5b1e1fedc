"""Each backend does what plain Python does: results, gradients, changes of inputs, aliases; and fails with its name."""

from __future__ import annotations

import logging
import random
import sysconfig
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support import in_threads
from tests.tracer.graph_programs import PROGRAMS, Program, normal, parameter
from tests.tracer.recording import Torch, outputs_of, record
from tests.tracer.test_graph import global_state
from tracer import errors, torch_private
from tracer.backends import Backend, compile_graph, lookup, names, registry, toolchain

Tensors = list[torch.Tensor]
BY_NAME = {program.name: program for program in PROGRAMS}
needs_compiler = pytest.mark.skipif(toolchain.missing_for_inductor() is not None, reason="no C++ compiler")


def gradients(outputs: Tensors, inputs: Tensors) -> list[torch.Tensor | None]:
    """Of the sum of all outputs that have one, weighted so that no two places are alike."""
    total = torch.zeros(())
    for place, output in enumerate(outputs):
        if output.requires_grad:
            weights = torch.arange(output.numel(), dtype=torch.float64).view(output.shape).add(place).cos()
            total = total + (output * weights).abs().sum() if output.is_complex() else total + (output * weights).sum()
    leaves = [tensor for tensor in inputs if tensor.requires_grad and tensor.is_leaf]
    if not total.requires_grad or not leaves:
        return []
    return list(torch.autograd.grad(total, leaves, allow_unused=True, retain_graph=True))


def compare(program: Program, backend: Backend, *, exact: bool, calls: int = 2) -> None:
    ours, plain = program.inputs(), program.inputs()
    capture = record(program.function, ours)
    position = {id(tensor): index for index, tensor in enumerate(ours)}
    used = [position[id(tensor)] for tensor in capture.examples()]
    before = global_state()
    compiled = compile_graph(capture, backend)
    assert global_state() == before
    for _ in range(calls):  # what the first call did to its inputs, the second one sees
        torch.manual_seed(3)
        results = list(compiled(*(ours[index] for index in used)))
        rng = torch.get_rng_state()
        torch.manual_seed(3)
        expected = outputs_of(program.function(Torch(), *plain))
        assert torch.is_grad_enabled()
        if exact:
            assert torch.equal(rng, torch.get_rng_state())
        if program.random and not exact:
            return  # other backends draw in another order
        same(results, expected, exact)
        same([tensor.detach() for tensor in ours], [tensor.detach() for tensor in plain], exact)
        for result, want, output in zip(results, expected, capture.outputs, strict=True):
            assert (result.requires_grad, result.stride()) == (want.requires_grad, want.stride())
            if exact or output.same_as_input is None:  # the caller knows the input, and takes it from where it came
                assert [t is result for t in ours] == [t is want for t in plain]
            shared = [storage(t) == storage(result) for t in ours]
            assert shared == [storage(t) == storage(want) for t in plain], output
        if program.train:
            same(gradients(results, ours), gradients(expected, plain), exact)


def same(results: Any, expected: Any, exact: bool) -> None:
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {}
    torch.testing.assert_close(results, expected, equal_nan=True, **tolerance)


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_eager_is_exact(program: Program) -> None:
    compare(program, lookup("eager"), exact=True)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_aot_eager(program: Program) -> None:
    compare(program, lookup("aot_eager"), exact=False)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_inductor(name: str) -> None:
    compare(BY_NAME[name], lookup("inductor"), exact=False)


@needs_compiler
def test_inductor_trains() -> None:
    compare(BY_NAME["matmul_chain"], lookup("inductor"), exact=False)


def graph_of(*inputs: torch.Tensor) -> Any:
    return record(lambda torch_, *tensors: F.relu(sum(tensors[1:], tensors[0] * 2)), list(inputs))


# what a backend is given ----------------------------------------------------------------------------------------------
def test_a_callable_gets_what_torch_compile_gives_it() -> None:
    """The same kinds of nodes, placeholders in the order of use, and the very tensors of the call as examples."""
    seen: list[tuple[torch.fx.GraphModule, Tensors, Any]] = []

    def backend(module: torch.fx.GraphModule, examples: Tensors) -> Callable[..., Any]:
        context = torch_private.TracingContext.try_get()
        seen.append((module, examples, context))
        return module.forward

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.linear(x, w).sin()
        y.add_(1)
        return y, y.max(1)[0]

    inputs = [normal(3, 4), parameter(5, 4)]
    want = torch.compile(function, backend=backend)(*inputs)
    torch._dynamo.reset()
    compiled = compile_graph(record(lambda torch_, *tensors: function(*tensors), inputs), lookup(backend))
    same(list(compiled(*inputs)), list(want), exact=True)
    theirs, ours = seen
    assert isinstance(ours[0], torch.fx.GraphModule) and isinstance(ours[1], type(theirs[1]))
    for (module, examples, context), other in ((ours, theirs), (theirs, ours)):
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        assert len(placeholders) == len(examples)
        assert [id(example) for example in examples] == [id(tensor) for tensor in inputs]
        fakes = [node.meta["example_value"] for node in placeholders]
        assert [type(fake).__name__ for fake in fakes] == ["FakeTensor", "FakeTensor"]
        assert [fake.shape for fake in fakes] == [tensor.shape for tensor in inputs]
        assert context is not None and context.fake_mode.shape_env is not None
        operators = [node.target for node in module.graph.nodes if node.op.startswith("call")]
        assert operators == [node.target for node in other[0].graph.nodes if node.op.startswith("call")]


def test_a_callable_gets_mode_and_options_as_torch_compile_passes_them() -> None:
    seen = []

    def backend(module: Any, examples: Any, **options: Any) -> Any:
        seen.append(options)
        return module.forward

    for options in ({}, {"mode": "default"}, {"mode": "fast"}, {"options": {"a": 1}}):
        compile_graph(graph_of(normal(3)), lookup(backend, **options))  # type: ignore[arg-type]
        torch.compile(lambda x: x + 1, backend=backend, **options)(normal(3))  # type: ignore[call-overload]
        torch._dynamo.reset()
    assert seen[::2] == seen[1::2] == [{}, {}, {"mode": "fast"}, {"options": {"a": 1}}]


def test_a_graph_without_operators_reaches_no_backend() -> None:
    """As with torch.compile."""

    def backend(module: Any, examples: Any) -> Any:
        raise AssertionError

    x = normal(3)
    assert compile_graph(record(lambda torch_, x: x, [x]), lookup(backend))(x)[0] is x


# names ----------------------------------------------------------------------------------------------------------------
def test_every_name_of_torch_is_known() -> None:
    assert set(torch.compiler.list_backends(exclude_tags=())) | set(registry.BUILT_IN) == set(names())
    for name in names():
        assert callable(lookup(name).compiler) and lookup(name).name == name


@pytest.mark.parametrize("name", ["aot_eager_decomp_partition", "eager_noexcept", "aot_eager_default_partitioner"])
def test_names_of_the_registry_compile(name: str) -> None:
    if name not in names():
        pytest.skip("not in this torch")
    compare(BY_NAME["matmul_chain"], lookup(name), exact=False)


def test_lookup_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="no backend is named 'induktor'"):
        lookup("induktor")
    with pytest.raises(TypeError, match="name or a callable"):
        lookup(3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Either mode or options"):
        lookup("inductor", mode="max-autotune", options={"max_autotune": True})
    with pytest.raises(RuntimeError, match="no_such_option"):
        lookup("inductor", options={"no_such_option": 1})
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        lookup("inductor", mode="no-such-mode")


def test_lookup_of_a_backend_is_itself() -> None:
    backend = lookup("eager")
    assert lookup(backend) is backend


@needs_compiler
def test_inductor_takes_options(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    compile_fx = torch_private.importlib.import_module("torch._inductor.compile_fx")

    def spy(module: Any, examples: Any, config_patches: dict[str, Any] | None = None, **rest: Any) -> Any:
        seen.append(dict(config_patches or {}))
        return module.forward

    monkeypatch.setattr(compile_fx, "compile_fx", spy)
    compile_graph(graph_of(normal(3)), lookup("inductor", options={"epilogue_fusion": False}))
    compile_graph(graph_of(normal(3)), lookup("inductor", mode="max-autotune-no-cudagraphs"))
    assert seen[0] == {"epilogue_fusion": False} and seen[1]["max_autotune"] is True


# the default ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def fresh_default() -> Any:
    registry._has_inductor.cache_clear()
    toolchain.missing_for_inductor.cache_clear()
    yield
    registry._has_inductor.cache_clear()
    toolchain.missing_for_inductor.cache_clear()


@needs_compiler
def test_default_is_inductor(fresh_default: None) -> None:
    assert lookup(None).name == "inductor"


@pytest.mark.parametrize("compiler", [None, "no-such-compiler", "false"])
def test_default_without_a_compiler(
    compiler: str | None, fresh_default: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning that says what to install, and the next best backend."""
    monkeypatch.setattr(toolchain, "cpp_compiler_command", lambda: compiler)
    with caplog.at_level(logging.WARNING, logger="tracer"):
        assert lookup(None).name == lookup(None).name == "aot_eager"
    headers = Path(sysconfig.get_paths()["include"], "Python.h").exists()
    wanted = "C++ compiler" if compiler != "false" or headers else "header files"  # "false" is a compiler that fails
    assert len(caplog.records) == 1 and wanted in caplog.text and "install" in caplog.text


@pytest.mark.parametrize("backend", [None, "auto", "cudagraph"])
def test_modes_and_options_without_a_compiler(
    backend: str | None, fresh_default: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands in for Inductor has none; wrong ones are wrong there, too."""
    monkeypatch.setattr(toolchain, "cpp_compiler_command", lambda: None)
    for given in ({"mode": "reduce-overhead"}, {"options": {"epilogue_fusion": False}}):
        x = normal(3)
        [result] = compile_graph(graph_of(x), lookup(backend, **given))(x)
        assert torch.equal(result, F.relu(x * 2))
    with pytest.raises(RuntimeError, match="no_such_mode"):
        lookup(backend, mode="no_such_mode")
    with pytest.raises(RuntimeError, match="no_such_option"):
        lookup(backend, options={"no_such_option": 1})


def test_compiler_is_found_by_inductors_own_rule() -> None:
    config = torch_private.importlib.import_module("torch._inductor.config")
    with config.patch({"cpp.cxx": ("no-such-compiler",)}):
        assert torch_private.cpp_compiler_command() is None


# failures -------------------------------------------------------------------------------------------------------------
def broken(module: Any, examples: Any) -> Any:
    torch.set_grad_enabled(False)
    random.random()
    torch.rand(3)
    raise ZeroDivisionError("no luck")


def test_a_failing_backend_is_named_and_leaves_no_trace() -> None:
    before = global_state()
    with pytest.raises(errors.BackendFailed, match=r"'broken'.*no luck") as caught:
        compile_graph(graph_of(normal(3)), lookup(broken))
    assert isinstance(caught.value.__cause__, ZeroDivisionError) and caught.value.original is caught.value.__cause__
    assert global_state() == before


def test_a_backend_must_return_a_callable() -> None:
    with pytest.raises(errors.BackendFailed, match="cannot be called"):
        compile_graph(graph_of(normal(3)), lookup(lambda module, examples: 3))  # type: ignore[arg-type, return-value]


def test_interrupts_pass() -> None:
    def interrupted(module: Any, examples: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_graph(graph_of(normal(3)), lookup(interrupted))


@pytest.mark.parametrize("kind", ["grad", "autocast", "inference_mode"])
def test_a_failing_graph_leaves_no_state_behind(kind: str) -> None:
    def function(torch_: Torch, x: Any, index: Any) -> Any:
        y = x * 2
        if kind == "grad":
            with torch_.grad(False):
                return y[index] + 1
        arguments = ("cpu", torch.bfloat16, True, True) if kind == "autocast" else (True,)
        with torch_.mode(kind, *arguments), torch_.grad(False):
            return y[index] + 1

    x = normal(3)
    compiled = compile_graph(record(function, [x, torch.tensor([0])]), lookup("eager"))
    before = global_state()
    for _ in range(2):
        assert compiled(x, torch.tensor([2]))[0].shape == (1,)
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([7]))
        assert global_state() == before


# costs and threads ----------------------------------------------------------------------------------------------------
def test_eager_has_nothing_around_the_graph() -> None:
    capture = graph_of(normal(3))
    compiled = compile_graph(capture, lookup("eager"))
    assert isinstance(compiled, types.MethodType) and compiled.__self__ is capture.module
    assert compiled.__func__.__code__.co_filename.startswith("<eval_with_key>")
    assert isinstance(compiled(normal(3)), tuple)


@pytest.mark.parametrize("name", ["aot_eager", pytest.param("inductor", marks=needs_compiler)])
def test_torch_dynamo_stays_out(name: str) -> None:
    """No frame is handed to it, neither at the compile nor at a call, and no wrapper of it is called."""
    counters = torch_private.importlib.import_module("torch._dynamo.utils").counters
    counters.clear()
    x = normal(3, grad=True)
    compiled = compile_graph(graph_of(x), lookup(name))
    assert not hasattr(compiled, "_torchdynamo_orig_callable")
    compiled(x)[0].sum().backward()
    assert not counters["frames"]
    assert torch._C._dynamo.eval_frame.get_eval_frame_callback() is None


def test_threads_compile_at_the_same_time() -> None:
    backend = lookup("aot_eager")
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        start.wait()
        for n in range(5):
            x = normal(2 + n, seed=seed).requires_grad_()
            with torch.set_grad_enabled(seed % 2 == 0):
                result = compile_graph(graph_of(x), backend)(x)[0]
                assert torch.equal(result, F.relu(x * 2)) and result.requires_grad == (seed % 2 == 0)

    in_threads(work)


@needs_compiler
@pytest.mark.parametrize("grad", [False, True])
def test_results_that_inductor_makes_one_are_made_two(grad: bool) -> None:
    """It leaves out `* 1.0` and computes equal expressions once: what is written to one would show in the other."""

    def function(torch: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 1.0, x.sin(), x.sin(), x.view(-1), x[:1] * 1.0

    x = normal(3, 4).requires_grad_(grad)
    compiled = compile_graph(record(function, [x]), lookup("inductor"))
    for _ in range(2):
        results = compiled(x)
        places = [result.untyped_storage().data_ptr() for result in results]
        assert len({*places}) == 5 and places[3] == x.untyped_storage().data_ptr()
        expected = function(torch, x)
        same(list(results), list(expected), exact=False)
