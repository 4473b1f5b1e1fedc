"""Tensors of all kinds and the functions on them: what becomes a graph, and what breaks and is right all the same."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import tracer
from tests.support import CountingBackend, check, check_calls, compile_with


def r(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def leaf(*shape):
    return r(*shape).requires_grad_()


X = r(2, 3)


def whole(fn, *inputs, **options):
    check(fn, *inputs, fullgraph=True, **options)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint8, torch.int64])
def test_dtypes(dtype):
    x = (X * 3).to(dtype)
    whole(lambda x: (x + 1, x * 2.5, x.abs(), x.to(torch.float32).sum(), x == 1, x.sum(), 2 - x, x.max()), x)
    whole(lambda x, y: (x + y, torch.promote_types(x.dtype, y.dtype), torch.result_type(x, y), x / 2, x // 2), x, X)


def test_bool_and_complex():
    whole(lambda x: (x & ~x | x, x.sum(), x.any(), x.all(), x ^ x, x.float() * 2), X > 0)
    z = torch.complex(X, X + 1)
    whole(lambda z: (z.real, z.imag, z.conj(), z.abs(), z.angle(), torch.view_as_real(z), z.H, z * 2j, z @ z.mH), z)
    whole(lambda x: (torch.fft.fft(x).abs(), torch.fft.irfft(torch.fft.rfft(x), n=3)), X)


@pytest.mark.parametrize("number", [complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0), complex(1, -0.0)])
def test_complex_numbers_keep_the_signs_of_their_zeros(number):
    def f(x, number):
        return torch.view_as_real(torch.full((1,), number)), torch.view_as_real(x * number)

    plain = f(X, number)
    for found, wanted in zip(compile_with(f, backend="eager")(X, number), plain, strict=True):
        assert torch.equal(found.signbit(), wanted.signbit())


def test_shapes_of_all_kinds():
    whole(lambda x: (x + 1, x.reshape(1), x[None], x.expand(3), torch.stack([x, x]), x.item), torch.tensor(2.0))
    whole(lambda x: (x + 1, x.sum(), x.reshape(3, 0), torch.cat([x, x]), x.mean()), torch.empty(0, 3))
    whole(lambda x: (x.expand(4, 2, 3) + 1, x.t().contiguous(), x.t()[1:], x.as_strided((2, 2), (1, 2))), X)
    whole(lambda x: (x.unfold(1, 2, 1), x.permute(1, 0).is_contiguous(), x.stride()), X)
    for x in (X[:1].expand(4, 3), X.t(), X[:, ::2], X[1]):
        whole(lambda x: (x * 2, x.is_contiguous(), x.stride(), x.storage_offset()), x)
    whole(
        lambda x: (len(x), x.size(-1), x.shape[1:], x.shape.numel(), x.ndim, x.numel(), x.dtype, x.device, x.size()), X
    )


def test_out_and_in_place():
    def given(x, out):
        torch.add(x, 1, out=out)
        return out * 2

    def fresh(x):
        out = torch.empty_like(x)
        torch.add(x, 1, out=out)
        return out

    def resized(x):
        out = torch.empty(0)
        torch.add(x, 1, out=out)
        return out * 2

    def views(x):
        x.t().add_(1)
        x[0].mul_(2)
        x.view(-1)[1:].zero_()
        return x

    def items(x):
        x = x.clone()
        x[x > 0] = 5.0
        x[0, 1:] += 2
        x[..., None, 0] = 1
        return x

    whole(given, X.clone(), torch.empty(2, 3))
    whole(fresh, X)
    check(resized, X)
    whole(views, X.clone())
    whole(items, X)
    whole(lambda x: x.add_(1).mul_(2), X.clone())


def test_indexing():
    index = torch.tensor([0, 1])
    whole(lambda x: (x[[0, 1]], x[index], x[:, [0, 2]], x[..., -1], x[None], x[::1, 1:], x[True], x[(0, 1)]), X)
    whole(lambda x: (x.split(1), x.chunk(2), x.unbind(1), torch.tensor_split(x, 2, 1), list(x), [*x.T]), X)
    whole(
        lambda x: x.scatter_add(1, torch.zeros(2, 3, dtype=torch.long), x).gather(
            1, torch.ones(2, 1, dtype=torch.long)
        ),
        X,
    )


def test_functions():
    whole(lambda x: (torch.einsum("ij,kj->ik", x, x), torch.einsum(x, [0, 1], x, [2, 1], [0, 2])), X)
    whole(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), r(1, 2, 4, 8))
    whole(lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), r(1, 2, 4, 8))
    whole(lambda x: F.interpolate(x, size=(4, 4), mode="bilinear", antialias=True), r(1, 1, 3, 3))
    whole(lambda x: F.grid_sample(x, F.affine_grid(torch.eye(2, 3)[None], [1, 1, 3, 3])), r(1, 1, 3, 3))
    whole(lambda x: (x.max(1), x.sort(1).indices, x.topk(2)[0], torch.linalg.svd(x).S, x.min(dim=1).values), X)
    whole(lambda x: (torch.linalg.inv(x @ x.T + torch.eye(2)), torch.linalg.norm(x), torch.linalg.qr(x).Q), X)
    whole(lambda x: F.one_hot(x, 5), torch.arange(3))
    whole(lambda x: (torch.meshgrid(x[0], x[1], indexing="ij"), torch.cdist(x, x), torch.broadcast_tensors(x, x[0])), X)
    whole(lambda x: torch._foreach_add([x, x[0]], 1.0), X)
    whole(lambda x: x + torch.tensor([1.0, 2.0, 3.0]) + torch.full((3,), 2.0) + torch.arange(3) + torch.eye(3)[0], X)
    whole(lambda x: x.new_zeros(3) + x.new_tensor([1.0, 2, 3]) + torch.zeros_like(x) + x.new_empty(0).sum(), X)
    whole(lambda x: (x.to("cpu"), x.to(torch.float64), x.to(x), x.double(), x.type_as(x), x.to(dtype=torch.half)), X)
    whole(lambda x: x.masked_fill(x > 0, torch.finfo(x.dtype).min), X)
    whole(lambda x: torch.stack(list(map(torch.sin, x))), X)
    whole(lambda x: x + torch.rand_like(x) + torch.randn(3) + torch.randperm(3) + torch.bernoulli(x.sigmoid()), X)


DATA_DEPENDENT = {
    "where": lambda x: torch.where(x > 0)[0] + 1,
    "nonzero": lambda x: (x > 0).nonzero() + 1,
    "nonzero as tuple": lambda x: x.nonzero(as_tuple=True)[0] + 1,
    "unique": lambda x: torch.unique(x) + 1,
    "unique with inverse": lambda x: torch.unique(x, return_inverse=True, return_counts=True)[1] + 1,
    "unique_consecutive": lambda x: torch.unique_consecutive(x) + 1,
    "mask": lambda x: x[x > 0] + 1,
    "masked_select": lambda x: x.masked_select(x > 0) * 2,
    "item": lambda x: x.sum().item() * 2,
    "tolist": lambda x: x.tolist(),
    "int": lambda x: int(x.sum()) + 1,
    "one_hot": lambda x: F.one_hot((x > 0).long()),
    "repeat_interleave": lambda x: x.repeat_interleave(torch.tensor([1, 2]), 0),
    "bincount": lambda x: torch.bincount((x > 0).flatten().long()),
    "contains": lambda x: 1 in x,
    "repr": lambda x: repr(x * 2),
    "tensor of tensors": lambda x: torch.tensor([x[0, 0], x[0, 1]]),
}


@pytest.mark.parametrize("name", DATA_DEPENDENT)
def test_what_depends_on_values_breaks(name):
    f = DATA_DEPENDENT[name]
    check_calls(lambda x: f(x * 2), (X,), (X + 1,), (-X.abs(),), (X,))
    with pytest.raises(tracer.GraphBreak):
        compile_with(lambda x: f(x * 2), backend="eager", fullgraph=True)(X)


def test_kinds_that_break():
    check(lambda x: (x * 2).to_dense() + 1, X.to_sparse())
    check(lambda x: x.to_sparse().to_dense() + 1, X)
    check(lambda x: torch.sparse.mm(x.to_sparse(), x.T) * 2, X)
    check(lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize() + 1, X)
    check(lambda x: x.apply_(lambda a: a + 1), X.clone())
    check(lambda x, g: x + torch.rand(3, generator=g), X, torch.Generator().manual_seed(3))
    check(lambda x: nested(x).sum(), X)
    check(lambda x: torch.Tensor([1, 2, 3]) + x + torch.FloatTensor([1.0, 2, 3]), X)
    check(lambda x: x[torch.LongTensor([0, 1])], X)


def nested(x):
    return torch.nested.to_padded_tensor(torch.nested.nested_tensor([x, x[:1]]), 0.0)


class Plain(torch.Tensor):
    pass


class Scaled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 2 if func is torch.add else result


class Like:
    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = [a.tensor if isinstance(a, Like) else a for a in args]
        return func(*args, **(kwargs or {})) + 1


class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) * (2 if func is torch.sin else 1)


def test_subclasses_and_modes():
    def same(f, *inputs):
        """Subclasses have no deepcopy, so that `check` is out."""
        compiled = compile_with(f, backend="eager")
        for _ in range(3):
            expected, found = f(*inputs), compiled(*inputs)
            assert type(expected) is type(found)
            assert torch.equal(torch.as_tensor(expected), torch.as_tensor(found))

    for cls in (Plain, Scaled):
        same(lambda x: torch.add(x * 2, 1), X.as_subclass(cls))
        same(lambda x, cls=cls: torch.add(x.as_subclass(cls), 1), X)
        same(lambda x, y: torch.add(x * 2, y), X, X.as_subclass(cls))
    same(lambda x, like: torch.add(x * 2, like), X, Like(X))

    def in_mode(x):
        y = x * 2
        with Mode():
            z = torch.sin(y)
        return z + torch.sin(y)

    same(in_mode, X)
    compiled = compile_with(lambda x: torch.sin(x), backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(X), torch.sin(X))
        with Mode():
            assert torch.equal(compiled(X), X.sin() * 2)


@torch.library.custom_op("torchgraft_tests::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("torchgraft_tests::double_", mutates_args={"x"})
def double_(x: torch.Tensor) -> None:
    x.mul_(2)


@torch.library.custom_op("torchgraft_tests::sine", mutates_args=())
def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


sine.register_fake(torch.empty_like)
sine.register_autograd(
    lambda ctx, g: g * ctx.saved_tensors[0].cos() * 3,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@torch.library.custom_op("torchgraft_tests::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x + 3


def test_custom_operators():
    def in_place(x):
        y = x.clone()
        double_(y)
        return y

    whole(lambda x: double(x) + 1, X)
    whole(lambda x: torch.ops.torchgraft_tests.double(x) + 1, X)
    whole(lambda x: torch.ops.torchgraft_tests.double.default(x) + 1, X)
    whole(in_place, X)
    whole(lambda x: sine(x * 2) + 1, leaf(2, 3), backward=True)
    check(lambda x: no_fake(x * 2) + 1, X)


def asks(x):
    told = (
        torch.compiler.is_compiling(),
        torch.compiler.is_dynamo_compiling(),
        torch._dynamo.is_compiling(),
        torch._dynamo.external_utils.is_compiling(),
        torch._utils.is_compiling(),
    )
    return x + 1, told, torch.jit.is_scripting(), torch.jit.is_tracing(), torch.compiler.is_exporting()


def test_compiling_is_told():
    _, told, *rest = compile_with(asks, backend="eager", fullgraph=True)(X)
    assert all(told), told
    assert not any(rest)
    assert not any(asks(X)[1])


@torch.compiler.disable
def disabled(x):
    return x + torch.compiler.is_compiling()


@torch.compiler.disable(recursive=False)
def disabled_alone(x):
    return x + 1


@torch.compiler.allow_in_graph
def allowed(x, n=1, more=()):
    """Neither a capture of ours nor torch.compile's could read this."""
    exec("y = x + n", namespace := {"x": x, "n": n})
    return namespace["y"], [other * 2 for other in more]


@torch.compiler.assume_constant_result
def assumed(of=1):
    return 3 * of


@torch.compiler.assume_constant_result
def counted():
    ASSUMED.append(1)
    return 15


@torch.compiler.assume_constant_result
def assumed_tensor():
    return TABLE


@torch.compiler.assume_constant_result
def assumed_wrongly():
    raise KeyError("no such result")


ASSUMED = []
TABLE = torch.arange(3.0)


def test_marks():
    check(lambda x: disabled(x * 2) * 2, X)
    check(lambda x: disabled_alone(x * 2) * 2, X)
    whole(lambda x: allowed(x * 2)[0] * 2, X)
    whole(lambda x: allowed(x * 2, 3, more=[x, x + 1]), X)
    whole(lambda x: x * assumed() + assumed(of=2), X)
    whole(lambda x: (assumed_tensor() * 2, assumed_tensor(), x + 1), X)
    check(lambda x: (x * 2, assumed_wrongly())[0], X)
    check(lambda x: (torch._dynamo.graph_break(), x + 1)[1], X)
    check(lambda x: (torch.compiler.cudagraph_mark_step_begin(), x + 1)[1], X)


def test_marked_functions_are_not_read():
    backend = CountingBackend()
    compiled = compile_with(lambda x: (allowed(x)[0] * 2, x * counted()), backend=backend, fullgraph=True)
    for _ in range(3):
        result, five = compiled(X)
        assert torch.equal(result, (X + 1) * 2) and torch.equal(five, X * 15)
    assert len(ASSUMED) == 1
    assert any(node.target is allowed for node in backend.graphs[0].graph.nodes)
    compiled = compile_with(lambda x: allowed(x)[0].sum(), backend="aot_eager", fullgraph=True)
    leaf = X.clone().requires_grad_()
    compiled(leaf).backward()
    assert torch.equal(leaf.grad, torch.ones_like(X))


@torch.autocast("cpu", dtype=torch.bfloat16)
def cast(x):
    return x @ x.t()


def test_autocast():
    def block(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x.t()

    def blocks(x):
        with torch.autocast("cpu", enabled=False), torch.amp.autocast("cpu", torch.bfloat16):
            y = x @ x.t()
            with torch.autocast("cpu", enabled=False):
                return y, y.float() @ y.float(), torch.is_autocast_enabled("cpu")

    for f in (block, blocks, cast, lambda x: cast(x) + 1):
        whole(f, X)
    compiled = compile_with(lambda x: x @ x.t(), backend="eager", fullgraph=True)
    for dtype in (None, torch.bfloat16, torch.float16, None):
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            assert compiled(X).dtype == (X @ X.t()).dtype


def test_defaults_and_random_state():
    def dtype(x):
        torch.set_default_dtype(torch.float64)
        try:
            y = torch.ones(3)
        finally:
            torch.set_default_dtype(torch.float32)
        return x + y

    def device(x):
        with torch.device("meta"):
            y = torch.empty(3)
        return x + 1, y.shape, y.device

    def forked(x):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            y = torch.rand(3)
        return x + y, torch.rand(3)

    def seeded(x):
        torch.manual_seed(3)
        return x + torch.rand(3)

    for f in (dtype, device, forked, seeded):
        check(f, X)
    compiled = compile_with(lambda x: x + torch.ones(3), backend="eager", fullgraph=True)
    for default in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(default)
        try:
            assert compiled(X).dtype == default
        finally:
            torch.set_default_dtype(torch.float32)
    compiled = compile_with(lambda x: (x + 1, torch.ones(3)), backend="eager", fullgraph=True)
    for name in ("cpu", "meta", "cpu"):
        with torch.device(name):
            assert compiled(X)[1].device.type == name


def test_shapes_are_broadcast_without_tensors():
    def f(x, y):
        shape = torch.broadcast_shapes(x.shape, y.shape, (1,))
        return x.expand(shape) + y, shape, type(shape) is torch.Size, torch.broadcast_shapes((2,), (3, 1)), x * shape[0]

    def wrong(x, y):
        try:
            return torch.broadcast_shapes(x.shape, y.shape)
        except RuntimeError as error:
            return str(error), x + 1

    sizes = [(3, 1), (4, 5), (6, 1), (6, 7), (1, 3)]
    for dynamic in (None, True, False):
        check_calls(f, *[(torch.randn(n, 1), torch.randn(n, k)) for n, k in sizes], fullgraph=True, dynamic=dynamic)
        check_calls(wrong, *[(torch.randn(n, 2), torch.randn(n, 3)) for n in (2, 3, 4)], dynamic=dynamic)


def values_of_sparse(x):
    s = x.to_sparse()
    return s.coalesce().values().sum(), torch.sparse.mm(s, x) + 1


def test_views_of_sparse_tensors():
    check(values_of_sparse, torch.eye(4) * 2, backend="eager")


# torch's oldest ways to make a tensor ---------------------------------------------------------------------------------
def legacy_sizes(x):
    made = x.new(x.shape), x.new(x.shape[:1]), x.new(2, 3), torch.Tensor.new(x, x.shape), torch.Tensor(x.shape)
    return [tensor.fill_(1) for tensor in (*made, torch.Tensor(2, 3), torch.LongTensor(2), torch.Tensor())]


def legacy_data(x):
    made = x.new([2, 3]), x.new((1.0, 2.0)), x.new([[1, 2], [3, 4]]), torch.Tensor([1, 2.5]), torch.Tensor([[1], [2]])
    return *made, torch.LongTensor([1.5, 2]), torch.BoolTensor([True]), torch.Tensor([]), torch.HalfTensor([1])


def legacy_types(x):
    return x.type(torch.LongTensor), x.type(torch.DoubleTensor) + 1, x.type()


@pytest.mark.parametrize("fn", [legacy_sizes, legacy_data, legacy_types])
def test_legacy_constructors(fn):
    check(fn, torch.arange(6.0).view(3, 2), backend="eager", fullgraph=True)


@pytest.mark.parametrize("given", [2.5, [300], [1e60], [1, None], -1, [torch.ones(())], torch.ones(2)])
def test_what_legacy_constructors_refuse(given):
    check(lambda x: (torch.ByteTensor(given), x + 1), torch.ones(2), backend="eager")
    check(lambda x: (torch.Tensor(given), x + 1), torch.ones(2), backend="eager")
