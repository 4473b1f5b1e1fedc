"""Branches one way of which only raises: no break, and what the program refuses is refused by the original bytecode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributions as D
from torch import nn

import tracer
from tests.support import check, check_calls, compilations, compile_with


@pytest.fixture(autouse=True)
def validation(monkeypatch):
    """TorchDynamo switches it off in the whole process, whenever it compiles something."""
    monkeypatch.setattr(D.Distribution, "_validate_args", True)


def r(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def leaf(*shape):
    return r(*shape).requires_grad_()


def whole(fn, *inputs, **options):
    check(fn, *inputs, backend="eager", fullgraph=True, **options)


def positive(x):
    y = x * 2
    if not (x > 0).all():
        raise ValueError(f"not all of {tuple(x.shape)} are positive")
    return y.log()


#: as text, since pytest rewrites the assertions of its own files
ASSERTED = """
def asserted(x):
    assert x.sum() > 0, "the sum"
    assert not x.isnan().any() and x.max() < 100
    return x.sqrt()
"""
namespace: dict[str, Any] = {}
exec(ASSERTED, namespace)
asserted = namespace["asserted"]


def either(x, y):
    if (x < 0).any() or (y < 0).any():
        raise ValueError("negative") from None
    return x + y


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        y = self.layer(x)
        if torch.isnan(y).any():
            raise FloatingPointError("nan")
        return self.layer(y.relu())


@pytest.mark.parametrize(
    "fn, inputs",
    [(positive, [r(4).abs()]), (asserted, [r(4).abs()]), (either, [r(4).abs(), r(4).abs()]), (Checked(), [leaf(2, 3)])],
)
def test_one_graph_where_nothing_is_raised(fn, inputs):
    whole(fn, *inputs)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_what_is_refused_is_refused_by_plain_python(fullgraph):
    fine, refused = r(4).abs(), -r(4).abs()
    compiled = compile_with(positive, backend="eager", fullgraph=fullgraph)
    for x in (fine, refused, fine, refused):
        if x is fine:
            assert torch.equal(compiled(x), (x * 2).log())
        else:
            with pytest.raises(ValueError, match=r"not all of \(4,\) are positive") as caught:
                compiled(x)
            assert [entry.name for entry in caught.traceback][1:] == ["positive"]
    assert compilations(positive, (fine,), (fine + 1,)) == 1


def caught(x):
    total = x.sum()
    try:
        if x[0] < 0:
            raise ValueError
        y = x * 2
    except ValueError:
        y = x - total
    finally:
        total = total + 1
    return y, total


def test_the_programs_own_handlers():
    check_calls(caught, (r(3).abs(),), (-r(3).abs(),), (r(3).abs(),), backend="eager")


def drawn(x):
    noise = torch.rand_like(x)
    if (x < 0).any():
        raise ValueError
    return x + noise, torch.rand(2)


def test_random_numbers_are_given_back():
    compiled = compile_with(drawn, backend="eager", fullgraph=True)
    for x in (r(3).abs(), -r(3).abs()):
        states = []
        for fn in (drawn, compiled):
            torch.manual_seed(3)
            try:
                result = fn(x)
            except ValueError:
                result = None
            states.append((result, torch.get_rng_state()))
        (plain, plain_state), (ours, our_state) = states
        assert (plain is None) == (ours is None) == bool((x < 0).any())
        assert torch.equal(plain_state, our_state)
        assert plain is None or all(map(torch.equal, plain, ours))


def written_before(x, y):
    x.add_(1)
    if (y < 0).any():
        raise ValueError
    return x + y


def written_behind(x, y):
    if (y < 0).any():
        raise ValueError
    z = y * 2
    x.add_(1)
    return x + z


@pytest.mark.parametrize("fn", [written_before, written_behind])
def test_a_graph_that_writes_does_not_go_past_the_branch(fn):
    check_calls(fn, (r(3), r(3).abs()), (r(3), -r(3).abs()), backend="eager")
    report = tracer.explain(fn)(r(3), r(3).abs())
    assert [b.title for b in report.breaks] == ["branch on a tensor"]


calls: list[str] = []


def changes_python(x, out):
    out.append(x + 1)
    if (x < 0).any():
        raise ValueError
    out.append(x + 2)
    return len(out)


def test_effects_come_behind_the_decision():
    check_calls(changes_python, (r(3).abs(), []), (-r(3).abs(), []), backend="eager")


@torch.compiler.allow_in_graph
def told(x):
    calls.append("told")
    return x + 1


def tells(x):
    y = told(x)
    if (x < 0).any():
        raise ValueError
    return y


def test_nothing_of_the_users_runs_twice():
    compiled = compile_with(tells, backend="eager")
    for _ in range(2):
        calls.clear()
        with pytest.raises(ValueError):
            compiled(-r(3).abs())
    assert calls == ["told"]


def test_what_is_raised_again_and_again_is_a_branch_like_any():
    compiled = compile_with(caught, backend="eager")
    for _ in range(12):
        compiled(-r(3).abs())
    report = tracer.explain(compiled)(-r(3).abs())
    assert "branch on a tensor" in [b.title for b in report.breaks]
    check(caught, -r(3).abs(), backend="eager")


def not_alone(x):
    if (x > 0).all():
        x = x + 1
    else:
        raise ValueError("all") if x.shape[0] == 1 else TypeError("some")
    return x * 2


def test_several_ways_to_raise():
    check_calls(not_alone, (r(3).abs(),), (-r(3).abs(),), (-r(1).abs(),), backend="eager")
    whole(not_alone, r(3).abs())


def of_several(x):
    if x:
        raise ValueError
    return x + 1


def test_a_tensor_without_truth_value():
    check(of_several, r(3), backend="eager")
    check(of_several, torch.zeros(1, 1), backend="eager", fullgraph=True)


class Refuses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        if (x < 0).any():
            raise ValueError("negative")
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def in_function(x):
    return Refuses.apply(x) + 1


def in_checkpoint(x):
    return torch.utils.checkpoint.checkpoint(positive, x, use_reentrant=False)


@pytest.mark.parametrize("fn", [in_function, in_checkpoint])
def test_within_what_torch_calls(fn):
    for x in (r(3).abs().requires_grad_(), (-r(3).abs()).requires_grad_()):
        check(fn, x, backend="eager")


# torch.distributions ------------------------------------------------------------------------------------------------
def normal(x, y):
    d = D.Normal(x, y.exp())
    s = d.rsample()
    return s, d.log_prob(s).sum(-1), d.entropy(), d.mean, d.variance


def categorical(x, y):
    d = D.Categorical(logits=x)
    a = d.sample()
    return a, d.log_prob(a), d.entropy(), D.kl_divergence(d, D.Categorical(probs=y.softmax(-1)))


def composed(x, y):
    d = D.TransformedDistribution(D.Independent(D.Normal(x, y.exp()), 1), [D.transforms.TanhTransform()])
    s = d.rsample((2,))
    mixed = D.MixtureSameFamily(D.Categorical(logits=x), D.Laplace(x, y.exp()))
    return s, d.log_prob(s.clamp(-0.9, 0.9)), mixed.log_prob(x[:, 0])


def others(x, y):
    drawn = D.Bernoulli(logits=x), D.Gamma(x.exp(), y.exp()), D.Poisson(y.exp()), D.OneHotCategorical(logits=x)
    more = D.Beta(x.exp(), y.exp()).rsample(), D.Laplace(x, 1.0).sample()
    return [(d.log_prob(d.sample()), d.mean) for d in drawn], more


@pytest.mark.parametrize("fn", [normal, categorical, composed, others])
def test_distributions(fn):
    whole(fn, leaf(4, 3), r(4, 3))


def invalid(x, y):
    return D.Normal(x, y).log_prob(x)


def test_invalid_arguments_of_distributions():
    check_calls(invalid, (r(3), r(3).abs()), (r(3), -r(3).abs()), (r(3) * float("nan"), r(3).abs()), backend="eager")


def test_validation_stays_on_for_everybody_else():
    compile_with(normal, backend="eager")(r(2, 3), r(2, 3))
    with pytest.raises(ValueError):
        D.Normal(0.0, -1.0)
