"""What torch does with functions in a compiled function: hooks on tensors, vjp, transforms made outside, modes."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import and_masks, create_block_mask, create_mask, flex_attention

import tracer
from tests.support import CountingBackend, check, compile_with

BACKENDS = {"eager": None, "aot_eager": (1e-5, 1e-6)}
every_backend = pytest.mark.parametrize("backend", BACKENDS)


def r(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def leaf(*shape):
    return r(*shape).requires_grad_()


def whole(fn, *inputs, backend="eager", **options):
    check(fn, *inputs, backend=backend, fullgraph=True, tolerance=BACKENDS[backend], **options)


def broken(fn, *inputs):
    """The titles and details of the breaks, and how many graphs there are."""
    backend = CountingBackend()
    compiled = compile_with(fn, backend=backend)
    report = tracer.explain(compiled)(*inputs)
    assert all(b.stack and b.hint for b in report.breaks)
    return {b.title: b.details for b in report.breaks}, backend.frame_count


# hooks --------------------------------------------------------------------------------------------------------------
@every_backend
def test_hooks_on_tensors_of_the_region(backend):
    def later(x):
        y = x * 2
        z = y.exp()
        y.register_hook(lambda g: g * 3)
        return y.sin() + z

    def with_free_tensors(x):
        y = x * 2
        k = y.detach() + 1

        def hook(g):
            return g * k.sum()

        y.register_hook(hook)
        return y.sin(), y

    def several(x):
        y = x * 2
        y.register_hook(lambda g: None)
        y.register_hook(lambda g: g + 1)
        y.register_hook(lambda g: g * 2)
        return y.sin() + y.cos()

    def removed(x):
        y = x * 2
        handle = y.register_hook(lambda g: g * 3)
        z = y.sin()
        handle.remove()
        return z

    for function in (later, with_free_tensors, several, removed):
        whole(function, leaf(3), backward=True, backend=backend)


@every_backend
def test_a_hook_that_nothing_needs(backend):
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return y.detach() + 1

    whole(f, leaf(3), backend=backend)


def test_hooks_that_break():
    seen = []

    def effects(x):
        y = x * 2
        z = y.exp()
        y.register_hook(lambda g: seen.append(g))
        return y.sin() + z

    def kept(x):
        y = x * 2
        z = y.exp()
        handle = y.register_hook(lambda g: g * 3)
        print("break")
        handle.remove()
        return y.sin() + y.cos() + z

    def on_input(x):
        x.register_hook(lambda g: g * 3)
        return x.sin()

    for function, calls in ((kept, 3), (on_input, 2)):
        check(function, leaf(3), backward=True, calls=calls)
    titles, graphs = broken(effects, leaf(3))
    assert "hook is registered on a tensor" in titles and graphs == 2
    compile_with(effects, backend="eager")(x := leaf(3)).sum().backward()
    assert len(seen) == 1 and torch.allclose(x.grad, 2 * ((2 * x).cos() + (2 * x).exp()))
    assert broken(on_input, leaf(3)) == ({"hook is registered on a tensor": ".register_hook()"}, 1)


# torch.func ---------------------------------------------------------------------------------------------------------
def pull(x):
    out, pullback = torch.func.vjp(lambda a: a.sin() * 2, x)
    return pullback(torch.ones_like(out))[0] + 1, out


def pull_with_aux(x):
    out, pullback, aux = torch.func.vjp(lambda a, b: ((a * b).sum(), {"k": a + b}), x, x + 1, has_aux=True)
    return out, aux, pullback(torch.tensor(2.0)), pullback(torch.tensor(3.0))


def pull_structures(x):
    _, pullback = torch.func.vjp(lambda a: {"k": [a["p"].sin()]}, {"p": x})
    return pullback({"k": [x]})


def jacobian_by_hand(x):
    out, pullback = torch.func.vjp(lambda a: a.sin() * 2, x)
    return torch.vmap(pullback)(torch.eye(3)), out


@every_backend
@pytest.mark.parametrize("function", [pull, pull_with_aux, pull_structures, jacobian_by_hand])
def test_vjp(function, backend):
    whole(function, r(3), backend=backend)


@every_backend
def test_vjp_trains(backend):
    weight = leaf(3)

    def f(x, w):
        out, pullback = torch.func.vjp(lambda a: (a * w).sin() * 2, x)
        return pullback(out)[0].sum()

    whole(f, leaf(3), weight, backward=True, backend=backend)


def test_vjp_whose_function_outlives_the_region():
    def f(x):
        out, pullback = torch.func.vjp(lambda a: a.sin() * 2, x * 2)
        print("between")
        return pullback(out)[0] + 1

    check(f, r(3))


OUTSIDE = r(4)
each = torch.vmap(lambda a: a.sin().sum() * OUTSIDE)
gradient = torch.func.grad(lambda a: (a**2).sum())
gradients = torch.vmap(gradient, in_dims=1, out_dims=1)
both = torch.func.grad_and_value(lambda a, b: ((a**2 * b).sum(), a), argnums=(0, 1), has_aux=True)
DERIVATIVES = [
    transform(lambda a: (a**3).sum()) for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian)
]


@torch.vmap
def decorated(a):
    return a.sin().sum()


@partial(torch.vmap, in_dims=(0, None))
def decorated_with_options(a, b):
    return a @ b


def test_transforms_made_outside():
    whole(lambda x: each(x) + 1, r(3, 4))
    whole(lambda x: (decorated(x), gradient(x), gradients(x)), r(3, 4))
    whole(lambda x, y: decorated_with_options(x, y) + 1, r(3, 4), r(4, 2))
    whole(lambda x, y: both(x, y), r(3), r(3))
    whole(lambda x: [derivative(x) for derivative in DERIVATIVES], r(3))

    def inside(x):
        @torch.vmap
        def mapped(a):
            return a.sin().sum()

        return mapped(x) + 1

    whole(inside, r(3, 4))


# attention ----------------------------------------------------------------------------------------------------------
CHOSEN = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@every_backend
def test_sdpa_kernel(backend):
    def one(q):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, q, q) + 1

    def several(q, chosen):
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            y = F.scaled_dot_product_attention(q, q, q) + 1
        with sdpa_kernel(CHOSEN) as entered:
            y = y * F.scaled_dot_product_attention(q, q, q)
        with torch.nn.attention.sdpa_kernel(chosen):
            return y * F.scaled_dot_product_attention(q, q, q), entered

    def left_by_an_exception(q):
        try:
            with sdpa_kernel(SDPBackend.MATH):
                y = F.scaled_dot_product_attention(q, q, q) + 1
                raise ValueError(3)
        except ValueError:
            return y * 2

    q = r(1, 2, 8, 16)
    whole(one, q, backend=backend)
    whole(several, q.clone().requires_grad_(), SDPBackend.MATH, backend=backend, backward=True)
    whole(left_by_an_exception, q, backend=backend)


def test_sdpa_kernel_is_what_the_graph_runs_in():
    def f(q):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, q, q) * tells()

    seen = []

    def tells():
        return 1

    def backend(graph, inputs):
        def run(*given):
            class Watch(torch.fx.Interpreter):
                def call_function(self, target, args, kwargs):
                    if target is F.scaled_dot_product_attention:
                        seen.append((torch.backends.cuda.math_sdp_enabled(), torch.backends.cuda.flash_sdp_enabled()))
                    return super().call_function(target, args, kwargs)

            return Watch(graph).run(*given)

        return run

    compiled = compile_with(f, backend=backend, fullgraph=True)
    before = torch.backends.cuda.flash_sdp_enabled()
    compiled(r(1, 2, 8, 16)), compiled(r(1, 2, 8, 16))
    assert seen == [(True, False)] * 2 and torch.backends.cuda.flash_sdp_enabled() == before


def test_a_break_under_sdpa_kernel():
    def f(q):
        with sdpa_kernel(SDPBackend.MATH):
            y = F.scaled_dot_product_attention(q, q, q) + 1
            print(torch.backends.cuda.flash_sdp_enabled())
            return F.scaled_dot_product_attention(y, q, q) + 1

    check(f, r(1, 2, 8, 16))


@every_backend
def test_block_masks_made_inside(backend):
    def causal(b, h, i, j):
        return i >= j

    def attend(q, document):
        def same(b, h, i, j):
            return document[i] == document[j]

        mask = create_block_mask(and_masks(same, causal), 1, 2, 128, 128, device="cpu")
        return flex_attention(q, q, q, block_mask=mask), mask.kv_num_blocks

    whole(attend, r(1, 2, 128, 16), torch.arange(128) // 32, backend=backend)
    whole(lambda q: q + create_mask(causal, 1, 1, 3, 3, device="cpu").sum(), r(3), backend=backend)


def test_a_block_mask_whose_function_breaks():
    def f(q):
        def tells(b, h, i, j):
            print("mask")
            return i >= j

        return create_block_mask(tells, None, None, 128, 128, device="cpu").kv_indices + q

    check(f, r(1))


# flags --------------------------------------------------------------------------------------------------------------
@every_backend
def test_a_tensor_that_requires_gradients_already(backend):
    def f(x, y):
        x.requires_grad_()
        z = x * 2
        z.requires_grad_(True)
        x.requires_grad = True
        y.requires_grad_(requires_grad=False)
        return z.sin() + y

    whole(f, leaf(3), r(3), backward=True, backend=backend)


def test_a_tensor_that_becomes_a_leaf():
    def f(x):
        y = x.detach() * 2
        y.requires_grad = True
        return (y * 3).sum(), y

    check(f, r(3), backward=True)
    assert broken(f, r(3))[0] == {"attribute cannot be set": ".requires_grad of tensor mul [3]"}

    def of_a_result(x):
        y = x * 2
        y.requires_grad_(False)
        return y

    def set_of_a_result(x):
        y = x * 2
        y.requires_grad = True
        return y

    check(of_a_result, leaf(3))
    check(set_of_a_result, leaf(3))


def test_a_setting_that_torch_itself_defines():
    def f(x):
        y = x * 2
        torch.set_default_dtype(torch.float32)
        return y + 1

    check(f, r(3))
    assert broken(f, r(3))[0] == {"global state of torch is changed": "torch.set_default_dtype()"}


# statistics in checkpoints ------------------------------------------------------------------------------------------
class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.inner, x * 2, use_reentrant=False).sum()


@every_backend
def test_batch_norm_in_a_checkpoint(backend):
    """It is computed twice, so its statistics move twice; no graph of a compiler would do that."""
    check(Normed(), leaf(5, 4), backward=True, backend=backend, tolerance=BACKENDS[backend])
    titles, graphs = broken(Normed(), leaf(5, 4))
    assert titles.keys() == {"function given to torch has effects"}
    assert graphs == 3  # what is computed twice is one of them
    assert "a tensor that it did not make" in titles["function given to torch has effects"]
    whole(Normed().eval(), leaf(5, 4), backward=True, backend=backend)


def test_saved_tensor_hooks_break_by_their_title():
    def f(x):
        y = x * 2
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            z = (y * y).sum()
        return z + 1

    check(f, leaf(3), backward=True)
    titles, _ = broken(f, leaf(3))
    assert titles.keys() == {"global state of torch is changed"}
    assert "saved_tensors_default_hooks" in titles["global state of torch is changed"] and "pybind" not in str(titles)


def test_what_torch_does_not_want_compiled_is_named_alone():
    """Not what TorchDynamo's machinery does around it."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], 0.1)

    def step(x):
        x = x * 2
        optimizer.zero_grad()
        return x + 1

    met, _ = broken(step, torch.ones(3))
    assert met == {"library function is called": "Optimizer.zero_grad"}
