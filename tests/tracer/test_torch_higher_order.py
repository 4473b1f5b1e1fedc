"""Torch's operators that take functions, and functions that torch marks: cond, while_loop, flex_attention, ..."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import tracer
from tests.support import CountingBackend, check, compile_with

every_backend = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def r(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def graphs(f, *calls, backend="eager", grads=False):
    """Compare with plain calls; how many graphs were compiled, each of which must hold the operator."""
    counting = CountingBackend()
    count = compile_with(f, backend=counting, fullgraph=True)
    compiled = compile_with(f, backend=backend, fullgraph=True)
    for call in calls:
        given = [x.clone().requires_grad_(grads and x.is_floating_point()) for x in call]
        expected = [x.clone().requires_grad_(grads and x.is_floating_point()) for x in call]
        count(*call)
        results, plain = compiled(*given), f(*expected)
        torch.testing.assert_close(results, plain)
        if grads:
            results.sum().backward()
            plain.sum().backward()
            torch.testing.assert_close([x.grad for x in given], [x.grad for x in expected])
    return counting.frame_count


SHIFT = r(3)


@every_backend
def test_cond(backend):
    def f(x, y):
        def grows(a):
            return a * 2 + y, {"more": a.sum()}

        def shrinks(a):
            return a / 2 - SHIFT, {"more": a.mean()}

        first, rest = torch.cond(x.sum() > 0, grows, shrinks, (x,))
        return first + 1, rest["more"]

    assert graphs(f, (r(2, 3).abs(), r(3)), (-r(2, 3).abs(), r(3)), backend=backend) == 1


def test_cond_of_a_number_takes_one_branch():
    def f(x, flag=True):
        return torch.cond(flag, lambda a: a + 1, lambda a: a - 1, (x,))

    assert graphs(f, (r(3),)) == 1


@every_backend
def test_cond_trains(backend):
    def f(x, y):
        return torch.cond(x.sum() > 0, lambda a: (a * y).sin(), lambda a: (a + y).cos(), (x,))

    assert graphs(f, (r(3).abs(), r(3)), (-r(3).abs(), r(3)), backend=backend, grads=True) == 1


@every_backend
def test_while_loop(backend):
    def f(x, step):
        return while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * step + SHIFT), (torch.tensor(0), x))

    assert graphs(f, (r(3), r(3)), (r(3) + 1, r(3)), backend=backend) == 1


@every_backend
def test_flex_attention(backend):
    slopes, q = r(2), r(1, 2, 128, 16)

    def causal(b, h, i, j):
        return i >= j

    mask = create_block_mask(causal, None, None, 128, 128, device="cpu")
    assert graphs(lambda q: flex_attention(q, q + 1, q, block_mask=mask), (q,), (q + 1,), backend=backend) == 1
    assert (
        graphs(lambda q: flex_attention(q, q, q, lambda s, b, h, i, j: s + (i - j) * slopes[h]), (q,), backend=backend)
        == 1
    )
    with_lse = graphs(lambda q: flex_attention(q, q, q, return_lse=True), (q,), backend=backend)
    assert with_lse == 1


def test_a_branch_with_effects_breaks():
    seen = []

    def f(x):
        def branch(a):
            seen.append(1)
            return a + 1

        return torch.cond(x.sum() > 0, branch, branch, (x,))

    with pytest.raises(tracer.GraphBreak, match="function given to torch has effects"):
        compile_with(f, backend="eager", fullgraph=True)(r(3))


def test_vmap_with_a_structure_of_dimensions():
    def f(x, y, z):
        pair = torch.func.vmap(lambda p, q: (p[0] * q, p[1]["k"] + q.sum()), in_dims=((0, {"k": None}), 1))
        return pair((x, {"k": y}), z)

    check(f, torch.randn(3, 4), torch.randn(2), torch.randn(4, 3), fullgraph=True)
