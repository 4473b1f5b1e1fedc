"""What works on autograd inside of a compiled function: custom functions, checkpoints, torch.func, modes, hooks."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch._vmap_internals import _vmap
from torch.autograd import Function
from torch.autograd.functional import hessian, hvp, jacobian
from torch.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import tracer
from tests.support import CountingBackend, check, check_calls, compile_with
from tracer.torch_private import allow_saved_tensor_hooks, forbid_saved_tensor_hooks, saved_tensor_hooks_forbidden

#: the graph as it is, and traced through by AOTAutograd, whose results have another grad_fn
BACKENDS = {"eager": {}, "aot_eager": {"tolerance": (1e-5, 1e-6)}}
every_backend = pytest.mark.parametrize("backend", BACKENDS)


def r(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def leaf(*shape):
    return r(*shape).requires_grad_()


def whole(fn, *inputs, backend="eager", **options):
    check(fn, *inputs, backend=backend, fullgraph=True, **BACKENDS[backend], **options)


SCALE = 2.5


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return SCALE * x * g


class Separate(Function):
    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k * 3, None


class InPlace(Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.n, None


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Several(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        positive = x > 0
        ctx.mark_non_differentiable(positive)
        return x * y, positive, 3

    @staticmethod
    def backward(ctx, g, *rest):
        x, y = ctx.saved_tensors
        return g * y if ctx.needs_input_grad[0] else None, g * x


@every_backend
def test_custom_functions(backend):
    whole(lambda x: Square.apply(x * 2) + 1, leaf(2, 3), backward=True, backend=backend)
    whole(lambda x: Separate.apply(x * 2, 3) + 1, leaf(2, 3), backward=True, backend=backend)
    whole(lambda x: InPlace.apply(x * 2, 3) + 1, leaf(2, 3), backward=True, backend=backend)
    whole(lambda x: StraightThrough.apply(x * 2) + 1, leaf(2, 3), backward=True, backend=backend)
    whole(lambda x: StraightThrough.apply(x * 2) + 1, r(2, 3), backend=backend)
    whole(lambda x, y: Several.apply(x * 2, y), leaf(2, 3), leaf(2, 3), backward=True, backend=backend)
    whole(lambda x, y: Several.apply(x * 2, y), leaf(2, 3), r(2, 3), backward=True, backend=backend)


class Once(Function):
    @staticmethod
    def forward(ctx, *tensors):
        ctx.shapes = [t.shape for t in tensors]
        return sum(t.sum() for t in tensors)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return tuple(g.expand(shape) * 2 for shape in ctx.shapes)


class Inherited(Once):
    pass


class Cast(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, scale=2.0, flag=None):
        ctx.scale = scale
        return x * scale

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        return g * ctx.scale, None, None


@every_backend
def test_custom_functions_as_they_are_written(backend):
    whole(lambda x: Once.apply(x * 2, x), leaf(2, 3), backward=True, backend=backend)
    whole(lambda x: Inherited.apply(x * 2, x), leaf(2, 3), backward=True, backend=backend)
    whole(lambda x: Cast.apply(x * 2, 3.0), leaf(2, 3), backward=True, backend=backend)
    def nested(m, x):
        return checkpoint(Cast.apply, m(x), use_reentrant=False)

    whole(nested, MLP, leaf(2, 3), backward=True, backend=backend)


def test_a_global_that_backward_reads_is_guarded():
    global SCALE
    tracer.install()
    compiled = tracer.compile(lambda x: Square.apply(x * 1.0), backend="aot_eager", inplace=False, fullgraph=True)
    try:
        for SCALE in (2.5, 4.0, 2.5):
            x = torch.ones(3, requires_grad=True)
            compiled(x).sum().backward()
            assert torch.equal(x.grad, torch.full((3,), SCALE))
    finally:
        SCALE = 2.5


CALLS = []


class Counting(Function):
    @staticmethod
    def forward(ctx, x):
        CALLS.append(1)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        print("backward", end="")
        return g * 2


class Weighted(Function):
    weight = torch.tensor(3.0)

    @staticmethod
    def forward(ctx, x):
        return x * Weighted.weight

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_custom_functions_with_effects_break():
    CALLS.clear()
    compiled = compile_with(lambda x: Counting.apply(x * 2) + 1, backend="eager")
    for _ in range(3):
        compiled(leaf(2))
    assert len(CALLS) == 3
    check(lambda x: Weighted.apply(x * 2) + 1, leaf(2), backward=True)
    with pytest.raises(tracer.GraphBreak, match="custom autograd function is called"):
        compile_with(lambda x: Weighted.apply(x * 2) + 1, backend="eager", fullgraph=True)(leaf(2))


MLP = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
DROPS = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.4), nn.Linear(3, 3))


@every_backend
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant, backend):
    use = functools.partial(checkpoint, use_reentrant=reentrant)
    whole(lambda m, x: use(m, x) + 1, MLP, leaf(2, 3), backward=True, backend=backend)
    whole(lambda m, x: use(lambda a: (m(a).sin(), a * 2), x), MLP, leaf(2, 3), backward=True, backend=backend)
    whole(lambda m, x: use(m, use(m, x)), MLP, leaf(2, 3), backward=True, backend=backend)
    whole(lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=reentrant), MLP, leaf(2, 3), backward=True,
          backend=backend)  # fmt: skip
    whole(lambda m, x: use(m, x), MLP, r(2, 3), backend=backend, backward=not reentrant)
    whole(lambda m, x: use(lambda a, b: {"a": [a * b], "n": None}, x, m[0].weight[0]), MLP, leaf(2, 3), backward=True,
          backend=backend)  # fmt: skip


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, mask=None):
        return self.layer(x) * mask, None


@every_backend
def test_checkpoints_as_they_are_written(backend):
    def blocks(blocks, x):
        mask = x.detach() > 0
        for block in blocks:
            x = checkpoint(functools.partial(block.__call__, mask=mask), x, use_reentrant=False)[0]
        return x

    def around(m, x):
        with torch.autocast("cpu", torch.bfloat16):
            return checkpoint(m, x, use_reentrant=False) * 2

    def inside(m, x):
        def body(x, k=None):
            with torch.autocast("cpu", torch.bfloat16):
                y = m(x)
            with torch.no_grad():
                z = y * k
            return y.float() + z

        return checkpoint(body, x, use_reentrant=False, k=x * 2) * 2

    whole(blocks, nn.ModuleList([Block() for _ in range(3)]), leaf(2, 3), backward=True, backend=backend)
    for f in (around, inside):
        check(f, MLP, leaf(2, 3), fullgraph=True, backend=backend, tolerance=(0.02, 0.02), backward=True)


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm, self.last = nn.Linear(3, 3), nn.BatchNorm1d(3), None

    def forward(self, x):
        self.last = self.norm(self.layer(x))
        return self.last


def test_what_a_checkpointed_module_keeps():
    check(lambda m, x: checkpoint(m, x, use_reentrant=False) * 2, Keeps(), leaf(4, 3), backward=True)
    check(lambda m, x: checkpoint(m.norm, x, use_reentrant=False) * 2, Keeps(), leaf(4, 3), backward=True)


def squares(x):
    return (x * x.sin()).cos()


def jacobian_inside(x):
    return jacobian(squares, x * 2) + 1, jacobian(squares, x, vectorize=True)


def forward_mode_inside(x):
    return jacobian(squares, x, vectorize=True, strategy="forward-mode") * 2


def hessian_inside(x):
    return hessian(lambda y: squares(y).sum(), x) * 2, hvp(lambda y: squares(y).sum(), x, x)


@every_backend
@pytest.mark.parametrize("function", [jacobian_inside, forward_mode_inside, hessian_inside])
def test_what_autograd_functional_is_given_runs_plain(function, backend):
    """Its gradients are differentiated, and batched by a vmap of torch's own: no compiled graph bears either."""
    check(function, r(3), backend=backend, **BACKENDS[backend])
    assert {b.title for b in tracer.explain(function)(r(3)).breaks} == {"library function is called"}


def test_the_vmap_of_autograd():
    compiled = compile_with(squares, backend="eager")
    x = r(2, 3)
    assert torch.equal(_vmap(compiled)(x), _vmap(squares)(x))


def hooks_disabled(x):
    with disable_saved_tensors_hooks("outer"):
        with disable_saved_tensors_hooks("inner"):
            y = x * 2
        asked = saved_tensor_hooks_forbidden()
        y = y.sin()
    return y, asked, saved_tensor_hooks_forbidden()


def hooks_disabled_around_a_break(x):
    forbid_saved_tensor_hooks("no hooks")
    y = x * 2
    print(end="")
    asked = saved_tensor_hooks_forbidden()
    allow_saved_tensor_hooks()
    return y, asked


def checkpoint_without_hooks(x):
    with disable_saved_tensors_hooks("no hooks"):
        return CHECKPOINT(torch.sin, x * 2)


def hooks_without_hooks(x):
    with disable_saved_tensors_hooks("no hooks"), saved_tensors_hooks(lambda t: t, lambda t: t):
        return x * 2


def test_saved_tensor_hooks_that_are_disabled():
    whole(hooks_disabled, leaf(3), backward=True)
    for function in (hooks_disabled_around_a_break, checkpoint_without_hooks, hooks_without_hooks):
        check(function, leaf(3))
        assert saved_tensor_hooks_forbidden() is None
    compiled = compile_with(hooks_disabled, backend="eager")
    compiled(leaf(3))
    with disable_saved_tensors_hooks("outermost"):
        assert compiled(leaf(3))[1:] == ("outer", "outermost")
    with saved_tensors_hooks(lambda t: t, lambda t: t), pytest.raises(RuntimeError):
        compiled(leaf(3))


CHECKPOINT = functools.partial(checkpoint, use_reentrant=False)


@every_backend
@pytest.mark.parametrize("reentrant", [True, False])
def test_a_function_that_cannot_be_a_body_gets_a_private_copy(backend, reentrant):
    """BatchNorm moves its statistics twice, as in eager mode, and is compiled for both times."""

    def normed(m, x):
        return checkpoint(m.norm, x * 2, use_reentrant=reentrant).sin()

    def with_output(m, x):
        def body(y):
            z = m.layer(y)
            print(end="")
            return m.norm(z).cos()

        return checkpoint(body, x, use_reentrant=reentrant) * 2

    def partly(m, x):
        return CHECKPOINT(m.norm.__call__, x) + CHECKPOINT(m.norm, x)

    for function in (normed, with_output, partly):
        check(function, Keeps(), leaf(4, 3), backward=True, backend=backend, **BACKENDS[backend])
        [copy, *_] = tracer.explain(function)(Keeps(), leaf(4, 3)).callees
        assert copy.operators


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_repeats_the_random_numbers(reentrant):
    whole(lambda m, x: checkpoint(m, x, use_reentrant=reentrant), DROPS, leaf(2, 3), backward=True)


def test_checkpoint_computes_again_in_backward():
    backend = CountingBackend()
    compiled = compile_with(lambda m, x: checkpoint(m, x, use_reentrant=False), backend=backend, fullgraph=True)
    saved = []

    def pack(tensor):
        saved.append(tensor.shape)
        return tensor

    x = torch.randn(64, 3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        MLP(x)
    plain = len(saved)
    saved.clear()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        compiled(MLP, x)
    assert len(saved) < plain


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_of_what_asks_for_the_grad_mode(reentrant):
    """The reentrant kind calls the function without autograd first."""

    def f(x):
        return checkpoint(lambda a: a.sin() if torch.is_grad_enabled() else a.sin() * 1, x * 2, use_reentrant=reentrant)

    check(f, leaf(3), backward=True, fullgraph=not reentrant)


def test_checkpoint_of_what_has_effects_breaks():
    seen = []

    def body(x):
        seen.append(1)
        return x.sin()

    compiled = compile_with(lambda x: checkpoint(body, x * 2, use_reentrant=False) + 1, backend="eager")
    for _ in range(3):
        compiled(leaf(2))
    assert len(seen) == 3
    with pytest.raises(tracer.GraphBreak, match="function given to torch has effects"):
        compile_with(lambda x: checkpoint(body, x, use_reentrant=False), backend="eager", fullgraph=True)(leaf(2))


F = torch.func


def params(m):
    return {name: p.detach() for name, p in m.named_parameters()}


@every_backend
def test_transforms(backend):
    run = functools.partial(whole, backend=backend)
    x = r(2, 3)
    run(lambda x: F.grad(lambda a: (a * a).sum())(x) + 1, x)
    run(lambda x: F.grad_and_value(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x + 1), x)
    run(lambda x: F.grad(lambda a: ((a * a).sum(), a * 2), has_aux=True)(x), x)
    run(lambda x: F.vmap(lambda a: a * a.sum())(x) + 1, x)
    run(lambda x: torch.vmap(lambda a, b: a * b, in_dims=(0, None), out_dims=1)(x, x[0]) + 1, x)
    run(lambda x: F.vmap(F.vmap(lambda a: a * a))(x), x)
    run(lambda x: F.jvp(lambda a: a.sin(), (x,), (x,)), x)
    run(lambda x: F.jacrev(lambda a: a.sin())(x), x)
    run(lambda x: F.jacfwd(lambda a: a.sin())(x), x)
    run(lambda x: F.hessian(lambda a: a.sin().sum())(x), x)
    run(lambda x: F.jacfwd(F.jacrev(lambda a: a.sin().sum()))(x), x)
    run(lambda x, y: F.grad(lambda a: (a * y).sum())(x) + 1, x, x + 1)
    run(lambda x, y: F.grad(lambda a: (a * y).sum())(x) + 1, x, leaf(2, 3), backward=True)
    run(lambda x: F.grad(F.grad(lambda a: (a**3).sum().sin()))(x[0, 0]), x)


@every_backend
def test_gradients_of_single_examples(backend):
    def f(m, x):
        def loss(p, a):
            return F.functional_call(m, p, (a,)).sum()

        return F.vmap(F.grad(loss), in_dims=(None, 0))(params(m), x)

    whole(f, MLP, r(2, 3), backend=backend)


def test_a_transform_is_handed_on():
    def f(x):
        g = F.grad(lambda a: (a * a).sum())
        print(end="")
        return g(x), g

    compiled = compile_with(f, backend="eager")
    for _ in range(3):
        value, g = compiled(torch.ones(3))
        assert torch.equal(value, torch.full((3,), 2.0))
        assert torch.equal(g(torch.ones(3)), torch.full((3,), 2.0))


def test_a_function_that_draws_numbers_is_told_off_by_vmap():
    check(lambda x: F.vmap(lambda a: a + torch.rand(3))(x), r(2, 3))
    whole(lambda x: F.vmap(lambda a: a + torch.rand(3), randomness="different")(x), r(2, 3))
    whole(lambda x: F.vmap(lambda a: a + torch.rand(3), randomness="same")(x), r(2, 3))


@torch.no_grad()
def without(x):
    return x * 2


@torch.inference_mode()
def inference(x):
    return x * 2


@torch.enable_grad()
def recorded(x):
    return x * 2


@torch.set_grad_enabled(False)
def switched_off(x):
    return x * 2


def test_modes():
    def managers(x):
        with torch.no_grad():
            y = x * 2
        with torch.enable_grad():
            z = x * y
        with torch.inference_mode():
            w = x * 3
        return z, y, w.sum()

    def function(x):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        y = x * 2
        torch.set_grad_enabled(before)
        return y * x

    whole(managers, leaf(2, 3))
    whole(function, leaf(2, 3), backward=True)
    for decorated in (without, recorded, inference, switched_off):
        whole(decorated, leaf(2, 3))
        whole(lambda x, f=decorated: f(x), leaf(2, 3))


def test_what_is_a_break():
    def hook(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return y.sin()

    def hook_of_input(x):
        handle = x.register_hook(lambda g: g * 3)
        y = (x * 2).sin()
        y.sum().backward()
        handle.remove()
        return y

    def retained(x):
        y = x * 2
        y.retain_grad()
        y.sin().sum().backward()
        return y.grad

    def saved(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t * 2):
            return (x * x).sin()

    def kept_on_cpu(x):
        with torch.autograd.graph.save_on_cpu():
            return (x * x).sin()

    def twice(x):
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g

    for f in (hook, saved, kept_on_cpu, twice):
        check(f, leaf(2, 3), backward=True)
    for f in (hook_of_input, retained):
        check(f, leaf(2, 3))


@every_backend
def test_double_backward(backend):
    """Through a compiled graph: AOTAutograd's own graphs refuse it, the eager backend computes it."""
    compiled = compile_with(lambda x: (x**3).sin().sum(), backend=backend, fullgraph=True)
    for _ in range(3):
        x = leaf(3)
        (g,) = torch.autograd.grad(compiled(x), x, create_graph=True)
        (expected,) = torch.autograd.grad((x**3).sin().sum(), x, create_graph=True)
        torch.testing.assert_close(g, expected)
        if backend == "aot_eager":
            with pytest.raises(RuntimeError, match="double backward"):
                g.sum().backward()
        else:
            second = torch.autograd.grad(g.sum(), x)[0]
            torch.testing.assert_close(second, torch.autograd.grad(expected.sum(), x)[0])


def test_changing_inputs_and_modes():
    def f(x):
        return Square.apply(x) + checkpoint(torch.sin, x, use_reentrant=False)

    check_calls(f, (leaf(2, 3),), (r(2, 3),), (leaf(4),), (leaf(2, 3),), backward=True)


def test_a_view_becomes_an_input_behind_the_call_that_gave_its_base_a_history():
    """Its fake is made before that call, so that it gets the history as the real view does."""
    weight = leaf(3)

    def f(x, row):
        x.mul_(weight)
        return x.requires_grad, row.requires_grad, row * 2

    def results(fn):
        x = r(2, 3)
        *told, y = fn(x, x[0])
        y.sum().backward()
        return told, y, weight.grad.clone(), x

    expected = results(f)
    weight.grad = None
    told, y, grad, x = results(compile_with(f, backend="eager", fullgraph=True))
    assert told == expected[0] == [True, True]
    torch.testing.assert_close((y, grad, x), expected[1:])
