"""The graph builder: what it records, what it refuses, what it undoes, and that it touches nothing real."""

from __future__ import annotations

import copy
import functools
import operator
import random
import types
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.tracer.graph_programs import PROGRAMS, Program, normal, parameter
from tests.tracer.recording import Torch, outputs_of, record
from tracer import errors
from tracer.graph.builder import GraphBuilder, GraphTensor
from tracer.graph.fakes import ObservingFakeMode
from tracer.torch_private import FakeTensor


def name_of(value: object) -> str:
    """A test's id: no address in it, both test processes must find the same."""
    return getattr(value, "__name__", None) or str(value)



def builder_with(*tensors: torch.Tensor) -> tuple[Any, ...]:
    builder = GraphBuilder()
    return (builder, *(builder.add_input(tensor, f"x{i}") for i, tensor in enumerate(tensors)))


def global_state() -> tuple[Any, ...]:
    return (
        torch.get_rng_state().tolist(),
        random.getstate(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.get_default_dtype(),
        torch.is_autocast_cache_enabled(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),
        torch._C._only_lift_cpu_tensors(),
    )


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_capture_changes_nothing_real(program: Program) -> None:
    inputs, untouched = program.inputs(), program.inputs()
    versions = [tensor._version for tensor in inputs]
    before = global_state()
    record(program.function, inputs)
    assert global_state() == before
    assert [tensor._version for tensor in inputs] == versions
    for tensor, same in zip(inputs, untouched, strict=True):
        assert torch.equal(tensor.detach(), same.detach())
        assert (tensor.requires_grad, tensor.stride()) == (same.requires_grad, same.stride())
        assert not tensor.is_leaf or tensor.grad is None


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_outputs_are_described_as_they_are(program: Program) -> None:
    """Each output's metadata, and what it shares with inputs and other outputs, is what real tensors have."""
    inputs = program.inputs()
    capture = record(program.function, inputs)
    capture.module.graph.lint()
    used = capture.examples()
    before = [tensor.detach().clone() for tensor in used]
    results = outputs_of(program.function(Torch(), *inputs))
    assert len(results) == len(capture.outputs)
    for place, (real, output) in enumerate(zip(results, capture.outputs, strict=True)):
        assert (real.shape, real.stride(), real.storage_offset()) == (
            output.shape,
            output.stride,
            output.storage_offset,
        )
        assert (real.dtype, real.device, real.requires_grad) == (output.dtype, output.device, output.requires_grad)
        assert real.is_leaf == output.is_leaf
        same = [index for index, tensor in enumerate(used) if tensor is real]
        assert same == ([] if output.same_as_input is None else [output.same_as_input])
        assert output.shares_with == tuple(i for i, tensor in enumerate(used) if storage(tensor) == storage(real))
        assert output.shares_with_outputs == tuple(i for i in range(place) if storage(results[i]) == storage(real))
    changed = [i for i, (old, new) in enumerate(zip(before, used, strict=True)) if not torch.equal(old, new.detach())]
    assert set(changed) <= set(capture.mutates_inputs)
    assert capture.uses_rng == program.random


@pytest.mark.parametrize(
    "name, expected",
    [
        ("in_place_on_input", {0}),
        ("in_place_on_intermediate", set()),
        ("aliased_inputs_changed", {0, 1, 2}),
        ("writes_through_view", {0}),
        ("through_data", {0}),
        ("batch_norm", {3, 4, 5}),
        ("batch_norm_eval", set()),
        ("instance_norm", {1, 2}),
        ("embedding_renormed", {1}),
        ("out_argument", {1}),
        ("foreach", {0, 1}),
        ("dropout", set()),
        ("views", set()),
    ],
)
def test_written_inputs(name: str, expected: set[int]) -> None:
    program = next(program for program in PROGRAMS if program.name == name)
    inputs = program.inputs()
    capture = record(program.function, inputs)
    position = {id(tensor): index for index, tensor in enumerate(inputs)}
    assert {position[id(capture.examples()[index])] for index in capture.mutates_inputs} == expected


def test_tensors_keep_their_identity() -> None:
    builder, x, w = builder_with(normal(3, 3), parameter(3, 3))
    y = builder.call(operator.add, (x, 1))
    assert y is not x
    assert builder.call("add_", (y, 1), method=True) is y
    assert builder.call(operator.imul, (y, w)) is y
    assert builder.call("contiguous", (y,), method=True) is y
    assert builder.call(F.dropout, (y, 0.5, False)) is y
    z = builder.call(torch.empty_like, (x,))
    assert builder.call(torch.add, (x, 1), {"out": z}) is z
    assert builder.call("detach", (x,), method=True) is not x
    values, indices = builder.call(torch.max, (x, 1))
    assert type(values) is type(indices) is GraphTensor
    split = builder.call("split", (x, 1), method=True)
    assert type(split) is tuple and len({id(part) for part in split}) == 3
    top = builder.call("topk", (x, 2), method=True)
    assert type(top) is torch.return_types.topk and top.values.fake.shape == (3, 2)


def test_parameters_stay_parameters() -> None:
    leaf = normal(3, grad=True)
    _, w, view, history, plain = builder_with(parameter(3), leaf[1:], leaf * 2, normal(3))
    assert isinstance(w.fake, torch.nn.Parameter) and w.fake.requires_grad and w.fake.is_leaf
    assert view.fake._is_view() and view.fake.requires_grad and not view.fake.is_leaf
    assert history.fake.requires_grad and not history.fake.is_leaf
    assert not plain.fake.requires_grad and not isinstance(plain.fake, torch.nn.Parameter)


def _kinds() -> dict[str, list[torch.Tensor]]:
    base, leaf = normal(4, 6), normal(4, 6, grad=True)
    return {
        "plain": [normal(3), normal(2, 3, dtype=torch.bfloat16), torch.tensor(3), normal(0, 4)],
        "parameter": [parameter(3, 4), torch.nn.Parameter(torch.arange(3), requires_grad=False)],
        "strides": [
            torch.empty_strided((3, 4), (1, 3)),
            normal(2, 3, 4, 5).to(memory_format=torch.channels_last),
        ],
        "view first": [base.view(24), base, base[1:].t()],
        "base first": [base, base.view(24), base[1:].t(), base.expand(2, 4, 6)],
        "same storage": [base, base.detach(), base.data, torch.nn.Parameter(base)],
        "history": [leaf, leaf * 2, leaf[0], (leaf * 2)[0]],
        "conj": [normal(3, dtype=torch.complex64).conj(), normal(3, dtype=torch.complex64)],
    }


ATTRIBUTES = "shape dtype device requires_grad is_leaf layout is_sparse _is_param fake_device item_memo constant"
METHODS = "stride storage_offset is_conj is_neg is_inference _is_view is_contiguous"


@pytest.mark.parametrize("kind", _kinds())
def test_fakes_of_inputs_are_as_torch_makes_them(kind: str) -> None:
    """The short cut for plain tensors leaves nothing out, and both ways agree on which tensors share storage."""
    tensors = _kinds()[kind]
    ours = [tensor.fake for tensor in builder_with(*tensors)[1:]]
    mode = ObservingFakeMode(GraphBuilder().shape_env)
    theirs = [mode.from_tensor(tensor, static_shapes=True) for tensor in tensors]
    for our, their in zip(ours, theirs, strict=True):
        for fake in (our, their):
            assert type(fake) is FakeTensor
        for name in ATTRIBUTES.split():
            assert getattr(our, name, None) == getattr(their, name, None), name
        for name in METHODS.split():
            assert getattr(our, name)() == getattr(their, name)(), name
        assert our.untyped_storage().nbytes() == their.untyped_storage().nbytes()
        assert torch._C._dispatch_keys(our) == torch._C._dispatch_keys(their)
    pairs = [(a, b) for a in range(len(tensors)) for b in range(a)]
    for a, b in pairs:
        assert (storage(ours[a]) == storage(ours[b])) == (storage(tensors[a]) == storage(tensors[b]))


def test_gradients_of_inputs_are_left_alone() -> None:
    w = parameter(3)
    w.grad = torch.ones(3)
    _, fake = builder_with(w)
    assert fake.fake.grad is None


def test_answers_are_not_recorded() -> None:
    builder, x = builder_with(normal(3, 4))
    assert builder.call("size", (x,), method=True) == torch.Size([3, 4])
    assert builder.call("dim", (x,), method=True) == 2
    assert builder.call(torch.is_floating_point, (x,)) is True
    assert builder.call(getattr, (x, "dtype")) is torch.float32
    assert builder.call(getattr, (x, "is_leaf")) is True
    assert builder.finish([]).operators == 0


def test_unused_inputs_and_dead_code_go() -> None:
    x, y, z = normal(3), normal(3), normal(3)
    builder, a, b, c = builder_with(x, y, z)
    builder.call(operator.add, (b, 1))
    capture = builder.finish([builder.call(operator.mul, (a, c))])
    assert capture.operators == 1
    assert [id(tensor) for tensor in capture.examples()] == [id(x), id(z)]
    assert capture.inputs == (a, c)
    assert [node.op for node in capture.graph.nodes] == ["placeholder", "placeholder", "call_function", "output"]


def test_dead_code_that_does_something_stays() -> None:
    builder, a, b, condition = builder_with(normal(3), normal(3), torch.tensor(True))
    builder.call("add_", (b, 1), method=True)
    builder.call(torch.rand_like, (a,))
    builder.call(torch._assert_async, (condition,))
    capture = builder.finish([builder.call(operator.neg, (a,))])
    assert capture.operators == 4 and capture.mutates_inputs == (1,) and capture.uses_rng


def test_attention_without_dropout_is_not_random() -> None:
    builder, x = builder_with(normal(1, 2, 4, 8))
    y = builder.call(F.scaled_dot_product_attention, (x, x, x), {"dropout_p": 0.0})
    assert not builder.random
    builder.call(F.scaled_dot_product_attention, (x, x, y), {"dropout_p": 0.5})
    assert builder.random


def test_names_are_readable() -> None:
    builder = GraphBuilder()
    for text in ('self._modules["fc"]._parameters["weight"]', "x", "x", "1", "self.a[0]", "", "def"):
        builder.add_input(normal(1), text)
    names = [tensor.node.name for tensor in builder.inputs]
    assert names[:3] == ["self_fc_weight", "x", "x_1"] and len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)


def test_arguments_of_every_kind() -> None:
    """They come out of the generated code as they went in."""
    x = normal(4, 5)
    builder, a = builder_with(x)
    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (operator.getitem, ((slice(None, None, 2), ..., None, 1),), {}),
        (operator.getitem, ([0, 2],), {}),
        (torch.sum, (), {"dim": [0], "keepdim": True, "dtype": torch.float64}),
        (torch.Tensor.to, (float,), {}),
        (torch.Tensor.to, (torch.device("cpu"),), {"memory_format": torch.preserve_format}),
        (torch.mul, (2 - 1j,), {}),
        (torch.clamp, (float("-inf"), 1e-30), {}),
        (torch.full_like, (float("nan"),), {}),
        (torch.permute, (torch.Size([1, 0]),), {}),
        (torch.quantile, (0.5,), {"interpolation": "lower"}),
        (torch.add, (x.new_tensor(3).item(),), {}),
    ]
    outputs = [builder.call(target, (a, *args), kwargs) for target, args, kwargs in calls]
    capture = builder.finish(outputs)
    results = capture.module(x)
    for (target, args, kwargs), result in zip(calls, results, strict=True):
        torch.testing.assert_close(result, target(x, *args, **kwargs), equal_nan=True, rtol=0, atol=0)


def test_numpy_numbers_and_enums_are_plain_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    x = normal(3)
    builder, a = builder_with(x)
    capture = builder.finish([builder.call(operator.mul, (a, numpy.float64(2.5)))])
    assert torch.equal(capture.module(x)[0], x * 2.5)


@pytest.mark.parametrize(
    "target, args, method",
    [
        ("item", (), True),
        ("tolist", (), True),
        ("__bool__", (), True),
        ("__int__", (), True),
        ("numpy", (), True),
        ("data_ptr", (), True),
        ("nonzero", (), True),
        ("backward", (), True),
        ("requires_grad_", (), True),
        ("untyped_storage", (), True),
        ("set_", (), True),
        ("unique", (), True),
        ("to_sparse", (), True),
        (torch.nonzero, (), False),
        (torch.equal, (1,), False),
        (operator.getitem, ("mask",), False),
        (getattr, ("grad_fn",), False),
        (getattr, ("_version",), False),
        (torch.Tensor.item, (), False),
        (torch.Tensor.backward, (), False),
        (torch.autograd.grad, (1,), False),
        (torch.bernoulli, ("generator",), False),
        (torch.masked_select, ("mask",), False),
        (torch.from_numpy, (), False),
        (print, (), False),
    ],
    ids=name_of,
)
def test_what_cannot_be_captured_breaks(target: Any, args: tuple[Any, ...], method: bool) -> None:
    x = normal(3, grad=target in (torch.autograd.grad, "backward"))
    one = target in ("item", "__bool__", "__int__", torch.Tensor.item)
    builder, a = builder_with(torch.tensor(1) if one else x)
    mask = builder.call(operator.gt, (a, 0))
    special = {"mask": mask, "generator": torch.Generator()}
    mark, nodes = builder.mark(), len(builder.graph.nodes)
    arguments = [special.get(argument, argument) if isinstance(argument, str) else argument for argument in args]
    arguments = [a if argument == 1 else argument for argument in arguments]
    before = global_state()
    with pytest.raises(errors.GraphBreak) as caught:
        builder.call(target, (a, *arguments), method=method)
    assert caught.value.title and global_state() == before
    assert len(builder.graph.nodes) == nodes and builder.can_undo(mark)


def test_own_autograd_functions_do_not_run_at_capture() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("user code ran")

    builder, x = builder_with(normal(3))
    with pytest.raises(errors.GraphBreak, match="autograd function"):
        builder.call(Square.apply, (x,))


def test_functions_that_generated_code_cannot_reach() -> None:
    """FX writes functions of torch by their path; one that is not there would fail at each call of the graph."""

    def add_one(x: Any) -> Any:
        return x + 1

    inner = functools.partial(add_one)
    hidden = types.FunctionType(add_one.__code__, globals(), "add_one")
    hidden.__module__ = "torch.nn.functional"
    shadowed = types.FunctionType(add_one.__code__, globals(), "relu")
    shadowed.__module__ = "torch.nn.functional"
    x = normal(3)
    builder, a = builder_with(x)
    for target in (inner, hidden, shadowed):
        with pytest.raises(errors.GraphBreak, match="cannot name"):
            builder.call(target, (a,))
    capture = builder.finish([builder.call(add_one, (a,))])
    assert torch.equal(capture.module(x)[0], x + 1)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.bool, torch.int32], ids=name_of)
def test_values_of_inputs_are_never_baked_in(dtype: torch.dtype) -> None:
    """Not even of zero-dimensional ones, for which torch keeps the value in a memo in some modes."""
    value = torch.tensor(1, dtype=dtype)
    builder, x = builder_with(value)
    for method in ("item", "__int__", "__float__", "__bool__", "tolist"):
        with pytest.raises(errors.GraphBreak):
            builder.call(method, (x,), method=True)
    with pytest.raises(errors.GraphBreak):
        builder.call(torch.arange, (x,))


def test_values_of_literals_are_known() -> None:
    builder = GraphBuilder()
    x = builder.call(torch.tensor, (7,))
    assert builder.call("item", (x,), method=True) == 7


@pytest.mark.parametrize(
    "target, args, error",
    [
        (operator.matmul, (1,), RuntimeError),
        (torch.mm, (1,), RuntimeError),
        ("view", (7,), RuntimeError),
        (operator.getitem, (99,), IndexError),
        (torch.sum, ("nonsense",), TypeError),
        ("no_such_method", (), AttributeError),
        (torch.cat, (), TypeError),
    ],
    ids=name_of,
)
def test_errors_of_the_user_are_told_from_breaks(target: Any, args: tuple[Any, ...], error: type[Exception]) -> None:
    builder, x, w = builder_with(normal(3, 4), normal(3, 4))
    arguments = [w if argument == 1 else argument for argument in args]
    with pytest.raises(errors.OperatorFailed) as caught:
        builder.call(target, (x, *arguments), method=isinstance(target, str))
    assert isinstance(caught.value.original, error)


def test_in_place_on_a_leaf_that_requires_grad_fails() -> None:
    builder, w = builder_with(parameter(3))
    with pytest.raises(errors.OperatorFailed, match="leaf"):
        builder.call("add_", (w, 1), method=True)


@pytest.mark.parametrize(
    "tensor",
    [torch.eye(3).to_sparse(), torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)],
    ids=["sparse", "quantized"],
)
def test_inputs_that_a_fake_cannot_stand_for(tensor: torch.Tensor) -> None:
    with pytest.raises(errors.GraphBreak):
        GraphBuilder().add_input(tensor, "x")


def test_subclasses() -> None:
    class Special(torch.Tensor):
        pass

    class Weight(torch.nn.Parameter):
        pass

    with pytest.raises(errors.GraphBreak, match="subclass"):
        GraphBuilder().add_input(torch.ones(3).as_subclass(Special), "x")
    _, w, b = builder_with(Weight(torch.ones(3)), torch.nn.Buffer(torch.ones(3)))
    assert isinstance(w.fake, torch.nn.Parameter) and not isinstance(b.fake, torch.nn.Parameter)


def test_constants_belong_to_the_graph() -> None:
    table = normal(3)
    builder, x = builder_with(normal(3))
    constant = builder.get_constant(table)
    assert builder.get_constant(table) is constant
    with pytest.raises(errors.GraphBreak, match="constant"):
        builder.call("add_", (constant, 1), method=True)
    capture = builder.finish([builder.call(operator.add, (x, constant))])
    assert torch.equal(capture.module(torch.zeros(3))[0], table)


# marks ----------------------------------------------------------------------------------------------------------------
def test_rollback_takes_back_nodes_inputs_and_writes() -> None:
    x = normal(3)
    builder, a = builder_with(x)
    kept = builder.call(operator.add, (a, 1))
    mark = builder.mark()
    b = builder.add_input(normal(3, seed=1), "late")
    c = builder.call(torch.rand_like, (a,))
    builder.call("add_", (a, 1), method=True)
    builder.call("max", (builder.call(operator.mul, (b, c)), 0), method=True)
    builder.set_state("grad", False)
    builder.set_state("autocast", "cpu", torch.bfloat16, True, True)
    builder.get_constant(normal(3, seed=2))
    assert builder.can_undo(mark)
    builder.rollback(mark)
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    capture = builder.finish([kept])
    capture.graph.lint()
    assert (capture.operators, capture.mutates_inputs, capture.uses_rng) == (1, (), False)
    assert not capture.end_state and len(capture.inputs) == 1 and not list(capture.module.buffers())
    assert torch.equal(capture.module(x)[0], x + 1)


def test_an_input_can_come_back_after_a_rollback() -> None:
    x, y = normal(3), normal(3, seed=1)
    builder, a = builder_with(x)
    mark = builder.mark()
    first = builder.add_input(y, "y")
    builder.call("add_", (first, 1), method=True)
    builder.rollback(mark)
    second = builder.add_input(y, "y")
    capture = builder.finish([builder.call(operator.sub, (a, second))])
    assert capture.mutates_inputs == () and torch.equal(capture.module(x, y)[0], x - y)


def gains_history(builder: GraphBuilder, x: GraphTensor, w: GraphTensor) -> None:
    builder.call("mul_", (x, w), method=True)


def gains_history_through_a_view(builder: GraphBuilder, x: GraphTensor, w: GraphTensor) -> None:
    flat_x, flat_w = (builder.call("view", (tensor, -1), method=True) for tensor in (x, w))
    builder.call("mul_", (flat_x, flat_w), method=True)


def changes_shape(builder: GraphBuilder, x: GraphTensor, w: GraphTensor) -> None:
    builder.call("t_", (x,), method=True)


def changes_rank(builder: GraphBuilder, x: GraphTensor, w: GraphTensor) -> None:
    builder.call("unsqueeze_", (x, 0), method=True)


@pytest.mark.parametrize("change", [gains_history, gains_history_through_a_view, changes_shape, changes_rank])
def test_what_cannot_be_undone(change: Any) -> None:
    builder, x, w = builder_with(normal(3, 4), parameter(3, 4))
    early = builder.mark()
    change(builder, x, w)
    assert not builder.can_undo(early)
    with pytest.raises(errors.CannotUndo):
        builder.rollback(early)
    late = builder.mark()
    builder.call(operator.add, (w, 1))
    builder.rollback(late)
    assert not builder.can_undo(early)


def test_writing_a_known_literal_cannot_be_undone() -> None:
    """Torch computes such writes for real, on the literal's value."""
    builder = GraphBuilder()
    x = builder.call(torch.tensor, (7,))
    mark = builder.mark()
    builder.call("add_", (x, 1), method=True)
    assert not builder.can_undo(mark)


def test_leaving_an_older_mode_cannot_be_undone() -> None:
    builder = GraphBuilder()
    entered = builder.set_state("autocast", "cpu", torch.bfloat16, True, True)
    mark = builder.mark()
    builder.leave_state(entered)
    assert not builder.can_undo(mark)
    builder.close()


# state ----------------------------------------------------------------------------------------------------------------
def test_state_is_put_back_and_reported() -> None:
    x = parameter(3)
    before = global_state()
    builder, a = builder_with(x)
    builder.set_state("grad", False)
    y = builder.call(operator.mul, (a, 2))
    builder.set_state("autocast", "cpu", torch.bfloat16, True, True)
    capture = builder.finish([y, builder.call(operator.add, (a, 1))])
    assert global_state() == before
    assert capture.end_state.grad_enabled is False
    assert capture.end_state.entered == (("autocast", ("cpu", torch.bfloat16, True, True)),)
    assert capture.changes_state
    results = capture.module(x)
    assert global_state() == before and not results[0].requires_grad


def test_close_gives_the_state_back() -> None:
    before = global_state()
    with pytest.raises(ZeroDivisionError), GraphBuilder() as builder:
        builder.set_state("inference_mode", True)
        builder.set_state("grad", False)
        raise ZeroDivisionError
    assert global_state() == before
    builder.close()
    assert global_state() == before


def test_modes_are_left_innermost_first() -> None:
    with GraphBuilder() as builder:
        outer = builder.set_state("autocast", "cpu", torch.bfloat16, True, True)
        inner = builder.set_state("inference_mode", True)
        with pytest.raises(errors.InternalError):
            builder.leave_state(outer)
        builder.leave_state(inner)
        builder.leave_state(outer)


@pytest.mark.parametrize("ambient", [True, False])
def test_idle_grad_modes_go(ambient: bool) -> None:
    with torch.set_grad_enabled(ambient):
        builder, a = builder_with(normal(3))
        for enabled in (False, True, False, ambient):
            builder.set_state("grad", enabled)
        y = builder.call(operator.add, (a, 1))
        builder.set_state("grad", not ambient)
        builder.set_state("grad", ambient)
        capture = builder.finish([y])
    assert not capture.changes_state and len(capture.graph.nodes) == 3


def test_a_compiled_capture_holds_no_input() -> None:
    x = normal(3)
    builder, a = builder_with(x)
    capture = builder.finish([builder.call(operator.add, (a, 1))])
    del builder
    reference = weakref.ref(x)
    del x
    assert capture.examples() == [reference()]
    capture.release()
    assert reference() is None
    with pytest.raises(errors.InternalError, match="freed"):
        capture.examples()


def test_a_builder_finishes_once() -> None:
    builder, x = builder_with(normal(3))
    builder.finish([x])
    with pytest.raises(errors.InternalError):
        builder.finish([x])


def test_inference_tensors() -> None:
    with torch.inference_mode():
        x = normal(3)
        builder, a = builder_with(x)
        assert builder.call("add_", (a, 1), method=True) is a
        capture = builder.finish([builder.call(operator.mul, (a, 2))])
        assert capture.mutates_inputs == (0,) and a.fake.is_inference()
    assert copy.copy(capture.outputs[0]).requires_grad is False
