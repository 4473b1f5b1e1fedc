"""The straight way to what Inductor compiled: taken where the layers around it did nothing, right everywhere else."""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing._internal.two_tensor import TwoTensor

import tracer
from tests.support import in_threads
from tests.tracer.recording import record
from tracer import torch_inductor, torch_private
from tracer.api import runtime
from tracer.backends import StraightCall, straight, toolchain
from tracer.backends.loosened import loosened

needs_compiler = pytest.mark.skipif(toolchain.missing_for_inductor() is not None, reason="no C++ compiler")


@pytest.fixture
def inductor() -> Iterator[None]:
    tracer.install(backend="inductor", small_region=0)
    tracer.reset()
    yield
    tracer.uninstall()


def calls_of(function: Any) -> list[Any]:
    """What the regions of a compiled function call."""
    state = runtime.state_of(function)
    assert state is not None
    return [region.compiled.call for region in state.regions]


def memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


# with Inductor --------------------------------------------------------------------------------------------------------
def pointwise(x: Tensor, y: Tensor) -> Tensor:
    return (x + y).sin() * 2 - y


def written(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(y)
    return x.sum() + y


def cache_step(x: Tensor, y: Tensor) -> Tensor:
    x.index_copy_(0, torch.tensor([1]), y[:1] + 1)
    return x @ y


def views(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    z = x * y
    return x[1:], z, z.view(-1)


def given_back(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x, x + y


def resized(x: Tensor, y: Tensor) -> Tensor:
    x.unsqueeze_(0)
    return x + y


def transposed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return (x + y).t(), (x - y).t().contiguous()


def same_twice(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x * 1.0, (x + y).cos(), (x + y).cos()


#: name -> function, are the layers left out
PROGRAMS: dict[str, tuple[Callable[..., Any], bool]] = {
    "pointwise": (pointwise, True),
    "written": (written, True),
    "cache_step": (cache_step, True),
    "views": (views, False),
    "given_back": (given_back, True),
    "resized": (resized, False),
    "transposed": (transposed, True),
    "same_twice": (same_twice, True),
}


def together(results: Any) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else list(results)


@needs_compiler
@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_does_what_plain_python_does(name: str, grad: bool, inductor: None) -> None:
    """Values, strides, views, identities, and how often inputs were written: in the first calls and in later ones."""
    function, straightly = PROGRAMS[name]
    compiled = tracer.compile(function, inplace=False)
    with torch.set_grad_enabled(grad):
        for seed in range(4):
            torch.manual_seed(seed)
            ours = torch.randn(4, 4), torch.randn(4, 4)
            plain = ours[0].clone(), ours[1].clone()
            versions = [t._version for t in ours]
            results, expected = together(compiled(*ours)), together(function(*plain))
            assert torch.is_grad_enabled() == grad
            for result, want in zip([*results, *ours], [*expected, *plain], strict=True):
                torch.testing.assert_close(result, want)
                assert (result.stride(), result.requires_grad) == (want.stride(), want.requires_grad)
                assert [t is result._base for t in ours] == [t is want._base for t in plain]
                assert [t is result for t in ours] == [t is want for t in plain]
                assert [memory(t) == memory(result) for t in ours] == [memory(t) == memory(want) for t in plain]
                assert [memory(r) == memory(result) for r in results] == [memory(r) == memory(want) for r in expected]
            counts = [t._version - before for t, before in zip(ours, versions, strict=True)]
            assert [count > 0 for count in counts] == [t._version > 0 for t in plain]
    [call] = calls_of(compiled)
    if isinstance(call, StraightCall):
        assert call.is_settled and bool(call.reason) != straightly, call.reason
    else:
        assert not straightly


@needs_compiler
def test_nothing_stands_between_the_region_and_the_kernels(inductor: None) -> None:
    compiled = tracer.compile(pointwise, inplace=False)
    x = torch.randn(4, 4)
    with torch.no_grad():
        for _ in range(3):
            compiled(x, x + 1)
    [call] = calls_of(compiled)
    assert type(call.boxed.__self__).__name__ == "Runner"  # the class in the module that Inductor wrote
    state = runtime.state_of(compiled)
    assert state is not None
    [entry] = state.entries.values()
    assert "k_graph([x, y])" in entry.text
    codes = [entry.code_of(slot) for slot in entry._slots()]
    assert all(any(constant is call.boxed for constant in code.co_consts) for code in codes[:1])


@needs_compiler
def test_autocast_keeps_the_layers(inductor: None) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return F.linear(x, w).relu()

    compiled = tracer.compile(function, inplace=False)
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(4):
            result, expected = compiled(x, w), function(x, w)
            assert result.dtype == expected.dtype == torch.bfloat16
            torch.testing.assert_close(result, expected, rtol=2e-2, atol=2e-2)
    [call] = calls_of(compiled)
    assert "autocast" in call.reason


@needs_compiler
def test_random_numbers_are_drawn_anew(inductor: None) -> None:
    def function(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5) + torch.rand_like(x)

    compiled = tracer.compile(function, options={"fallback_random": True}, inplace=False)
    x = torch.ones(100)
    with torch.no_grad():
        for seed in range(4):
            torch.manual_seed(seed)
            first, second = compiled(x), compiled(x)
            torch.manual_seed(seed)
            torch.testing.assert_close([first, second], [function(x), function(x)])
            assert not torch.equal(first, second)


@needs_compiler
def test_inputs_with_gradients_and_results_without(inductor: None) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x * y).argmax(-1), x.detach() * 2

    compiled = tracer.compile(function, inplace=False)
    for _ in range(4):
        x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
        torch.testing.assert_close(compiled(x, y), function(x, y))
        assert torch.is_grad_enabled()
    [call] = calls_of(compiled)
    assert type(call) is StraightCall and call.is_settled and not call.reason


@needs_compiler
def test_inputs_that_begin_anywhere_in_memory(inductor: None) -> None:
    compiled = tracer.compile(pointwise, inplace=False)
    store = torch.randn(70)
    with torch.no_grad():
        for offset in (0, 1, 3, 5, 4, 2):
            x, y = store[offset : offset + 64].view(8, 8), store[5 - offset : 69 - offset].view(8, 8)
            torch.testing.assert_close(compiled(x, y), pointwise(x, y))
    assert len(calls_of(compiled)) == 1


@needs_compiler
def test_tensors_of_inference_mode(inductor: None) -> None:
    compiled = tracer.compile(written, inplace=False)
    with torch.inference_mode():
        for _ in range(4):
            x, y = torch.randn(4, 4), torch.randn(4, 4)
            plain = x.clone()
            torch.testing.assert_close((compiled(x, y), x), (written(plain, y), plain))


@needs_compiler
def test_second_region_beside_a_settled_one(inductor: None) -> None:
    compiled = tracer.compile(pointwise, dynamic=False, inplace=False)
    with torch.no_grad():
        for size in (3, 3, 3, 5, 3, 5, 5, 3):
            x, y = torch.randn(size), torch.randn(size)
            torch.testing.assert_close(compiled(x, y), pointwise(x, y))
    assert [call.is_settled for call in calls_of(compiled)] == [True, True]


@needs_compiler
def test_threads_in_the_first_call(inductor: None) -> None:
    compiled = tracer.compile(pointwise, inplace=False)

    def work(seed: int) -> None:
        x, y = torch.randn(16, 16) + seed, torch.randn(16, 16)
        with torch.no_grad():
            for _ in range(20):
                torch.testing.assert_close(compiled(x, y), pointwise(x, y))

    in_threads(work)


# what the layers do, in small -----------------------------------------------------------------------------------------
class Graph:
    """Stands for what Inductor compiled."""

    def __init__(self) -> None:
        self.calls = 0
        self.current_callable = self.run

    def run(self, inputs: list[Any]) -> tuple[Tensor, ...]:
        self.calls += 1
        x, *_ = inputs
        inputs.clear()
        return (x + 1,)


class Known:
    """A capture whose results have memory of their own."""

    inputs = outputs = ()


Layer = Callable[[Graph, list[Any]], Sequence[Tensor]]


def plainly(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    return list(graph.current_callable(inputs))


def another_input(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    return graph.current_callable([inputs[0].clone()])


def one_more(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    return graph.current_callable([*inputs, 7])


def another_result(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    return [graph.current_callable(inputs)[0].view(-1)]


def twice(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    graph.current_callable(list(inputs))
    return graph.current_callable(inputs)


def never(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    return (inputs[0] + 1,)


def writing_behind(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    x = inputs[0]
    results = graph.current_callable(inputs)
    x.mul_(1)
    return results


def writing_before(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    inputs[0].mul_(1).mul_(1)
    return graph.current_callable(inputs)


def without_autocast(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    with torch.autocast("cpu", enabled=not torch.is_autocast_enabled("cpu")):
        return graph.current_callable(inputs)


def with_grad(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    with torch.enable_grad():
        return graph.current_callable(inputs)


def leaving_grad_off(graph: Graph, inputs: list[Any]) -> Sequence[Tensor]:
    torch._C._set_grad_enabled(False)
    return graph.current_callable(inputs)


#: layer -> what is said of it
LAYERS: dict[Layer, str] = {
    plainly: "",
    another_input: "other inputs",
    one_more: "other inputs",
    another_result: "results are made",
    twice: "not called once",
    never: "not called once",
    writing_behind: "written behind",
    writing_before: "written before",
    without_autocast: "another state",
    with_grad: "grad mode",
    leaving_grad_off: "afterwards",
}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_that_does_something_stays(layer: Layer) -> None:
    graph, entered = Graph(), []

    def layered(*inputs: Any) -> Sequence[Tensor]:
        entered.append(inputs)
        return layer(graph, list(inputs))

    call = StraightCall(Known(), layered, graph)  # type: ignore[arg-type]
    grad = layer is leaving_grad_off
    for _ in range(5):
        with torch.set_grad_enabled(grad):
            x = torch.zeros(2, 2)
            assert torch.equal(call(x)[0].view(2, 2), torch.ones(2, 2))
    assert call.reason.find(LAYERS[layer]) >= 0 and bool(call.reason) == bool(LAYERS[layer])
    assert graph.current_callable == graph.run
    assert len(entered) == (5 if LAYERS[layer] else 1)


def two(rows: int) -> Any:
    return TwoTensor(torch.randn(rows, 4), torch.randn(rows, 4))


def twice_and(x: Any, y: Any) -> tuple[Any]:
    return ((x * 2 + y).sin(),)


def both_agree(found: Any, *inputs: Any) -> None:
    """As a TwoTensor computes it: each of its two tensors for itself."""
    assert type(found) is TwoTensor
    for half in ("a", "b"):
        [expected] = twice_and(*(getattr(given, half, given) for given in inputs))
        torch.testing.assert_close(getattr(found, half), expected)


@needs_compiler
@pytest.mark.parametrize("first", [two, lambda rows: torch.randn(rows, 4)], ids=["both", "one"])
def test_a_subclass_keeps_the_layers(first: Callable[[int], Any], inductor: None) -> None:
    """Torch's own: what is compiled takes the tensors in it, and its results are put together behind."""
    with torch.no_grad():
        module = torch.fx.symbolic_trace(lambda x, y: twice_and(x, y))
        layered = torch_private.inductor_backend(None, None, None)(module, [first(3), two(3)])
        graph = torch_inductor.compiled_below(layered)
        assert graph is not None
        call = StraightCall(Known(), layered, graph)  # type: ignore[arg-type]
        for _ in range(4):
            inputs = first(3), two(3)
            both_agree(call(*inputs)[0], *inputs)
    assert call.is_settled and "other inputs reach the compiled graph" in call.reason


@needs_compiler
def test_a_subclass_behind_plain_tensors(inductor: None) -> None:
    """What was compiled for plain tensors, and goes the straight way by now, is not called with it."""
    compiled = tracer.compile(twice_and, inplace=False)
    with torch.no_grad():
        for turn in range(8):
            if turn in (4, 6):
                inputs = two(3), two(3)
                both_agree(compiled(*inputs)[0], *inputs)
            else:
                x, y = torch.randn(3, 4), torch.randn(3, 4)
                torch.testing.assert_close(compiled(x, y), twice_and(x, y))
    assert [call.is_settled and not call.reason for call in calls_of(compiled)] == [True]


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_what_the_straight_way_does_itself(grad: bool, counted: bool) -> None:
    """It switches the grad mode off, and counts versions of inputs that are written."""
    modes = []

    class Noting(Graph):
        def run(self, inputs: list[Any]) -> tuple[Tensor, ...]:
            modes.append(torch.is_grad_enabled())
            if len(inputs) > 1:
                raise ValueError("no luck")
            return super().run(inputs)

    graph = Noting()

    def layered(*inputs: Any) -> Sequence[Tensor]:
        if counted:
            torch.autograd.graph.increment_version(inputs[0])
        with torch.no_grad():
            return graph.current_callable(list(inputs))

    call = StraightCall(Known(), layered, graph)  # type: ignore[arg-type]
    with torch.set_grad_enabled(grad):
        for _ in range(3):
            x = torch.zeros(2)
            call(x)
            assert torch.is_grad_enabled() == grad and x._version == int(counted)
        assert not call.reason
        with pytest.raises(ValueError, match="no luck"):
            call.boxed([torch.zeros(2), 1])
        assert torch.is_grad_enabled() == grad
    assert modes == [False] * 4


def test_a_layer_that_is_there_once_only_is_forgotten() -> None:
    """As torch watches custom operators in the first call."""
    graph, first = Graph(), [True]

    def layered(*inputs: Any) -> Sequence[Tensor]:
        with torch.autocast("cpu", enabled=bool(first) and bool(first.pop())):
            return graph.current_callable(list(inputs))

    call = StraightCall(Known(), layered, graph)  # type: ignore[arg-type]
    for _ in range(3):
        call(torch.zeros(2))
    assert not call.reason and call.boxed == graph.run


def test_a_first_call_that_fails_leaves_no_trace() -> None:
    graph = Graph()
    failing = [True]

    def layered(*inputs: Any) -> Sequence[Tensor]:
        results = graph.current_callable(list(inputs))
        if failing:
            raise ValueError(failing.pop())
        return results

    call = StraightCall(Known(), layered, graph)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="True"):
        call(torch.zeros(2))
    assert graph.current_callable == graph.run and not call.is_settled
    call(torch.zeros(2))
    assert call.is_settled and not call.reason


def test_who_is_told_that_it_is_settled_may_be_busy() -> None:
    graph, told = Graph(), list[bool]()

    def settled(call: StraightCall) -> bool:
        told.append(call.is_settled)
        return len(told) > 2

    call = StraightCall(Known(), lambda *inputs: graph.current_callable(list(inputs)), graph)  # type: ignore[arg-type]
    call.on_settled, old = settled, call.boxed
    for _ in range(6):
        old([torch.zeros(2)])
    assert told == [True, True, True]


def test_where_two_graphs_or_none_are_found_nothing_is_left_out() -> None:
    torch_inductor.importlib.import_module("torch._inductor.output_code")

    def layered(*inputs: Any) -> Any:
        return inputs

    assert torch_inductor.compiled_below(layered) is None
    assert straight.torch_inductor is torch_inductor


# checks of inputs -----------------------------------------------------------------------------------------------------
WRITTEN = """
import torch


class Runner:
    def call(self, args):
        a, b = args
        args.clear()
        assert_size_stride(a, (2, 2), (2, 1), 'input')
        assert_size_stride_grouped((a, b), ((2, 2), (2, 2)), ((2, 1), (2, 1)), 'input')
        buf0 = torch.mm(a, b)
        assert_size_stride(buf0, (2, 2), (2, 1), 'torch.ops.aten.mm.default')
        assert_size_stride_grouped((a, buf0), ((2, 2), (2, 2)), ((2, 1), (2, 1)), 'both')
        raise_at_line(14)
        return (buf0, )

    def other(self):
        pass
"""


def test_only_checks_of_inputs_are_left_out() -> None:
    asked, lines = [], []

    def note(*arguments: Any) -> None:
        asked.append(arguments[-1])

    names = {"assert_size_stride": note, "assert_size_stride_grouped": note}
    names["raise_at_line"] = lambda line: lines.append((line, sys._getframe(1).f_lineno))
    exec(compile(WRITTEN, "written", "exec"), names)
    runner = names["Runner"]()  # type: ignore[call-arg]

    class Compiled:
        source_code = WRITTEN

    call = torch_inductor.without_input_checks(Compiled, runner.call)
    x = torch.ones(2, 2)
    assert torch.equal(call([x, x])[0], x @ x)
    assert asked == ["torch.ops.aten.mm.default", "both"] and lines[0][0] == lines[0][1]
    runner.call([x, x])
    assert len(asked) == 6


@pytest.mark.parametrize("text", [None, "", WRITTEN.replace("(self, args)", "(self, given)"), "x = (\n" * 20], ids=str)
def test_what_looks_otherwise_is_left_as_it_is(text: str | None) -> None:
    names: dict[str, Any] = {}
    exec(compile(WRITTEN, "written", "exec"), names)

    class Compiled:
        source_code = text

    call = names["Runner"]().call
    assert torch_inductor.without_input_checks(Compiled, call) is call
    assert torch_inductor.without_input_checks(Compiled, len) is len


# products with a bias -------------------------------------------------------------------------------------------------
def linears(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    first = F.linear(x, w, b)
    return first, F.linear(x, w, bias=b).relu(), F.linear(x, w), F.linear(input=first, weight=w, bias=b[:1].expand(4))


@needs_compiler
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((4,), torch.float32), ((3, 4), torch.float32), ((2, 3, 4), torch.float64), ((3, 4), torch.bfloat16)],
    ids=str,
)
def test_products_with_a_bias(shape: tuple[int, ...], dtype: torch.dtype, inductor: None) -> None:
    compiled = tracer.compile(linears, inplace=False)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else {}
    with torch.no_grad():
        for _ in range(3):
            arguments = [torch.randn(size, dtype=dtype) for size in (shape, (4, 4), (4,))]
            torch.testing.assert_close(compiled(*arguments), linears(*arguments), **tolerance)
    [region] = state_of(compiled).regions
    assert region.capture.graph.module.code.count("sub") == 0  # what explain shows is what the program wrote


def state_of(function: Any) -> Any:
    state = runtime.state_of(function)
    assert state is not None
    return state


def test_which_products_are_written_otherwise() -> None:
    def count(*tensors: Tensor, autocast: bool = False) -> int:
        capture = record(lambda torch_, *given: linears(*given), list(tensors))
        with torch.autocast("cpu", enabled=autocast):
            module = loosened(capture)
        found = sum(node.target is operator.neg for node in module.graph.nodes)
        assert (module is capture.module) == (found == 0)
        return found

    x, w, b = torch.randn(3, 4), torch.randn(4, 4), torch.randn(4)
    with torch.no_grad():
        assert count(x, w, b) == 3
        assert count(x, w, b, autocast=True) == 0
        assert count(x.half(), w.half(), b.half()) == 0
    assert count(x, w.requires_grad_(), b) == 0  # its backward wants the product as it is


# mode and options -----------------------------------------------------------------------------------------------------
def function(x: Tensor) -> Tensor:
    return x + 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "no-such-mode"},
        {"mode": 3},
        {"options": {"no_such_option": 1}},
        {"options": {"max_autotune": "yes"}},
        {"mode": "default", "options": {"max_autotune": True}},
        {"options": {"triton-cudagraphs": True}},
    ],
    ids=str,
)
def test_wrong_modes_and_options_raise_what_torch_compile_raises(wrong: dict[str, Any]) -> None:
    with pytest.raises(Exception) as theirs:
        torch.compile(function, **wrong)
    with pytest.raises(Exception) as ours:
        tracer.compile(function, backend="inductor", inplace=False, **wrong)
    assert type(ours.value) is type(theirs.value) and str(ours.value) == str(theirs.value)


@needs_compiler
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_run_on_the_cpu(mode: str, inductor: None) -> None:
    assert mode in torch._inductor.list_mode_options()
    compiled = tracer.compile(function, mode=mode, inplace=False)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(8)
            torch.testing.assert_close(compiled(x), function(x))
    [call] = calls_of(compiled)
    assert call.is_settled and not call.reason


# a second process -----------------------------------------------------------------------------------------------------
_PROGRAM = """
import json, sys
import torch, tracer
from torch._inductor import codecache
read = []
plain = codecache.build_code_hash
codecache.build_code_hash = lambda *arguments: (read.append(1), plain(*arguments))[1]
tracer.install(backend="inductor")

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8, 4))

    def forward(self, x):
        return x @ self.weight  # no kernel of its own, so no C++ compiler takes its time

net = tracer.compile(Net())
result = net(torch.arange(16.0).view(2, 8))
result.sum().backward()
from torch._dynamo.utils import counters
found = {**counters["inductor"], **counters["aot_autograd"], "read": bool(read), "result": net.weight.grad.tolist()}
print(json.dumps(found))
"""


@needs_compiler
@pytest.mark.compiles
def test_a_second_process_starts_warm(tmp_path: Path) -> None:
    """Nothing is compiled there, for inference and training, and torch's own files are not read to find that out."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCHGRAFT_STRICT": "1"}
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=300
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    cold, warm = found
    assert cold["fxgraph_cache_miss"] == 2 and not cold.get("fxgraph_cache_hit")
    assert warm["fxgraph_cache_hit"] == 2 and not warm.get("fxgraph_cache_miss")
    assert warm["autograd_cache_hit"] == 1 and not warm.get("fxgraph_cache_bypass")
    assert warm["result"] == cold["result"]
    if hasattr(torch_inductor.importlib.import_module("torch._inductor.codecache").torch_key, "set"):
        assert cold["read"] and not warm["read"]


def test_a_changed_installation_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_package_of_a_test"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "code.py").write_text("x = 1")
    monkeypatch.syspath_prepend(str(tmp_path))

    def signature() -> str | None:
        return torch_inductor._signature(package.name)

    before = signature()
    assert before is not None and signature() == before
    (package / "inner" / "code.py").write_text("x = 2 ")
    changed = signature()
    assert changed != before
    os.utime(package / "inner" / "code.py", ns=(1, 1))
    assert signature() not in (before, changed)
    (package / "inner" / "more.py").write_text("")
    assert len({before, changed, signature()}) == 3
    assert torch_inductor._signature("no_such_package_of_a_test") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"torch_key": 3}'])
def test_a_damaged_file_of_keys_does_no_harm(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code_cache = torch_inductor.importlib.import_module("torch._inductor.codecache")
    monkeypatch.setattr(code_cache, "cache_dir", lambda: str(tmp_path))
    file = tmp_path / torch_inductor._FILE
    file.write_text(text)
    torch_inductor._recall()()
    if hasattr(code_cache.torch_key, "set"):
        kept = json.loads(file.read_text())["torch_key"]
        assert kept == [torch_inductor._signature("torch"), "bytes", code_cache.torch_key().hex()]
