"""Torch's own modules, hooks, parametrizations and optimizers: what is not captured must still run right."""

from __future__ import annotations

import copy
import functools
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import tracer
from tests.comparing import Comparison
from tests.support import CountingBackend, check, check_calls

whole = functools.partial(check, fullgraph=True)
X = torch.arange(6.0).reshape(2, 3)


def r(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("n", torch.zeros(3))
        self.register_buffer("none", None)
        self.extra = [nn.Linear(3, 3), nn.ReLU()]
        self.by_name = {"a": nn.Linear(3, 3)}
        self.cache = None

    def forward(self, x):
        self.n += 1
        self.n.add_(x.mean(0))
        for e in self.extra:
            x = e(x)
        x = self.by_name["a"](x)
        self.cache = x
        self.none = x.sum(0).detach()
        return self.lin(x) + next(self.parameters()).sum() + self.lin.weight.shape[0]


def test_m():
    torch.manual_seed(0)
    check(lambda m, x: m(x), M(), X, calls=1)


def test_m_eval():
    def f(m, x):
        m.eval()
        a = m.lin(x)
        m.train()
        m.lin.requires_grad_(True)
        return a, m.training

    check(f, M(), X)


def test_m_inside_changes():
    def f(m, x):
        m.register_buffer("late", x + 1)
        m.add_module("new", nn.Identity())
        m.more = nn.ReLU()
        del m.cache
        return m.more(m.new(x)) + m.late

    check(f, M(), X, calls=1)


def test_zero_grad():
    def f(m, x):
        m.lin(x).sum().backward()
        m.zero_grad()
        return m.lin.weight.grad

    check(f, M(), X)


def test_apply():
    def f(m, x):
        m.apply(lambda mod: setattr(mod, "seen", True))
        return m.lin.seen, x + 1

    check(f, M(), X)


class WithState(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("passing", torch.zeros(2), persistent=False)
        self.tied = self.layers[0]
        self.extra = 3

    def get_extra_state(self):
        return {"extra": self.extra}

    def set_extra_state(self, state):
        self.extra = state["extra"] + 1

    def forward(self, x):
        self.steps += 1
        return self.layers(x)


def names_of_state(m, x):
    s = m.state_dict()
    return sorted(s), s._metadata["layers.1"], x + 1


def state_given_back(m, x):
    y = m(x)
    return y, m.state_dict(), m.state_dict(keep_vars=True), m.state_dict(prefix="m.", destination={"given": x})


def state_written(m, x):
    with torch.no_grad():
        for name, value in m.state_dict().items():
            if name.endswith("bias"):
                value.mul_(2).add_(1)
    return m(x)


def average(m, x):
    return torch.func.functional_call(m, {k: v * 0.5 for k, v in m.state_dict().items() if "bias" in k}, (x,))


@pytest.mark.parametrize("fn", [names_of_state, state_given_back, state_written, average])
def test_state_dict(fn):
    check(fn, WithState(), r(4, 3), backend="eager", fullgraph=True, backward=fn is not state_given_back)


def loads(m, other, x):
    found = m.load_state_dict(other.state_dict(), strict=False)
    return m(x), found, m.extra


def test_load_state_dict():
    check(loads, WithState(), WithState(), r(4, 3), backend="eager", fullgraph=True)
    check(loads, WithState(), nn.Linear(3, 3), r(4, 3), backend="eager")
    check(lambda m, s, x: (m.load_state_dict(s), m(x)), nn.Linear(3, 3), {"weight": r(3, 3)}, r(4, 3), backend="eager")
    state = nn.Linear(3, 3).state_dict()
    check(lambda m, s, x: (m.load_state_dict(s, assign=True), m(x)), nn.Linear(3, 3), state, r(4, 3), backend="eager")


def test_the_state_of_many_tensors_is_not_read():
    def fn(m):
        return len(m.state_dict()) + m.list[0]

    for count, titles in ((100, []), (130, ["module is not supported"])):
        model = nn.Module()
        model.list = nn.ParameterList([torch.zeros(1)] * count)
        check(fn, model, backend="eager", calls=2)
        compiled = tracer.compile(fn, backend="eager", inplace=False)
        assert [b.title for b in tracer.explain(compiled)(model).breaks] == titles


def test_state_dict_that_changes():
    def change(m, n):
        if n == 1:
            m.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.update(hooked=prefix))
        if n == 2:
            m.register_buffer("more", torch.ones(2))
        if n == 3:
            m.layers[1]._version = 7
        if n == 4:
            m._register_state_dict_hook(lambda module, state, prefix, metadata: {"all": prefix})

    def fn(m, x, n):
        return m.state_dict(), m(x)

    plain, ours = WithState(), WithState()
    ours.load_state_dict(plain.state_dict())
    ours.extra = plain.extra
    compiled = tracer.compile(fn, backend="eager")
    x = r(4, 3)
    for n in range(5):
        change(plain, n)
        change(ours, n)
        Comparison().same(fn(plain, x, n), compiled(ours, x, n), f"change {n}")


def with_attributes(x):
    made = OrderedDict(a=x)
    made.note, made.other, made.itself = x + 1, OrderedDict(), made
    made.other.back = [made]
    copied = made.copy()
    del made.note
    return made["a"] + 1, made, hasattr(copied, "other"), hasattr(made, "note"), getattr(made, "note", 5)


def test_attributes_of_ordered_dicts():
    check(with_attributes, X, backend="eager", fullgraph=True)

    def fn(given, x):
        return getattr(given, "note", None), hasattr(given, "other"), x + 1, copy.copy(given)

    without, with_note = OrderedDict(a=1), OrderedDict(a=1)
    with_note.note = 3
    check_calls(fn, (without, X), (with_note, X), (without, X), backend="eager")


def test_recursive():
    class R(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.l = nn.Linear(3, 3)
            self.child = R(d - 1) if d else None

        def forward(self, x):
            x = self.l(x)
            return x if self.child is None else self.child(x)

    whole(lambda m, x: m(x), R(3), X)


def test_module_attr_write_in_child_loop():
    class C(nn.Module):
        def __init__(self):
            super().__init__()
            self.ms = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

        def forward(self, x):
            for i, layer in enumerate(self.ms):
                layer.last = i
                x = layer(x)
                layer.seen = getattr(layer, "seen", 0) + 1
            return x

    whole(lambda m, x: m(x), C(), X, calls=4)


def test_property_on_module():
    class C(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))
            self._k = 2

        @property
        def k(self):
            return self._k

        @k.setter
        def k(self, v):
            self._k = v

        @property
        def broken(self):
            return self.nothing

        def forward(self, x):
            self.k = self.k + 1
            return x * self.w * self.k, hasattr(self, "broken")

    check(lambda m, x: m(x), C(), X)


def test_wrapped_sub_call():
    class A(nn.Module):
        def __call__(self, x):
            return super().__call__(x) + 1

        def forward(self, x):
            return x * 2

    whole(lambda m, x: m(x), A(), X)


def test_forward_hooks_kw():
    m = nn.Linear(3, 3)
    m.register_forward_pre_hook(lambda mod, a, k: ((a[0] * 2,), k), with_kwargs=True)
    m.register_forward_hook(lambda mod, a, k, r: r + 1, with_kwargs=True, always_call=True)
    check(lambda m, x: m(x), m, X)


def test_backward_hook():
    m = nn.Linear(3, 3)
    m.register_full_backward_hook(lambda mod, gi, go: None)
    check(lambda m, x: m(x), m, X.clone().requires_grad_(), backward=True)


def test_weight_norm():
    m = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    check(lambda m, x: m(x), m, X, calls=2)


def test_lazy():
    m = nn.LazyLinear(4)
    m(X)
    check(lambda m, x: m(x), m, X)


def test_modules_that_hold_more():
    tracer.install()

    def lstm(m, x):
        return m(x[None])

    rnn = nn.LSTM(3, 4, batch_first=True)
    compiled = tracer.compile(lstm, backend="eager", inplace=False)
    for _ in range(3):
        torch.testing.assert_close(compiled(rnn, X), lstm(rnn, X), rtol=0, atol=0)


def test_functional_call():
    def f(m, x):
        return torch.func.functional_call(m, {"weight": torch.ones(3, 3)}, (x,))

    check(f, nn.Linear(3, 3), X)


def test_hook_added_and_removed_inside():
    def f(m, x):
        handle = m.register_forward_hook(lambda mod, args, result: result + 1)
        y = m(x)
        handle.remove()
        return y, m(x)

    check(f, nn.Linear(3, 3), X)


def test_mha():
    m = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(2, 3, 4)
    check(lambda m, x: m(x, x, x), m, x)


def test_transformer_layer():
    m = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    x = torch.randn(2, 3, 4)
    check(lambda m, x: m(x), m, x)
    check(lambda m, x: m(x), m.eval(), x)


def test_bn_conv():
    m = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    check(lambda m, x: m(x), m, torch.randn(2, 1, 4, 4))


def test_losses():
    ce, mse = nn.CrossEntropyLoss(), nn.MSELoss()
    whole(lambda x, t: ce(x, t) + mse(x, x + 1), torch.randn(4, 3), torch.tensor([0, 1, 2, 0]))


def test_fx_graphmodule():
    m = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    check(lambda m, x: m(x), m, X)


def test_autograd_function():
    class Sq(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    check(lambda x: Sq.apply(x) + 1, X.clone().requires_grad_(), backward=True)


def test_checkpoint():
    m = nn.Linear(3, 3)
    check(lambda m, x: checkpoint(m, x, use_reentrant=False), m, X.clone().requires_grad_(), backward=True)


def test_optimizer():
    m = nn.Linear(3, 3)
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)

    def f(m, o, x):
        o.zero_grad()
        loss = m(x).sum()
        loss.backward()
        o.step()
        return loss

    check(f, m, o, X)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "NAdam", "RAdam", "Adamax", "Rprop"])
def test_many_steps_of_an_optimizer_are_exact(name):
    """Torch's own optimizers compute less exactly where they are told that they are compiled."""

    def train(m, o, x):
        for _ in range(20):
            o.zero_grad()
            m(x).square().sum().backward()
            o.step()

    tracer.install()
    results = []
    for compile_with in (lambda f: f, lambda f: tracer.compile(f, backend="eager", inplace=False)):
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
        compile_with(train)(m, getattr(torch.optim, name)(m.parameters(), lr=0.003), X)
        results.append([p.detach().clone() for p in m.parameters()])
    assert all(map(torch.equal, *results))


class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                print(end="")
                p.add_((p.grad.sign() * p.abs().sqrt()), alpha=-group["lr"])


def test_a_step_of_the_users_own_optimizer_is_compiled_around_its_breaks():
    tracer.install()
    m = nn.Linear(3, 3)
    o = Own(m.parameters())

    @tracer.compile(backend=(backend := CountingBackend()))
    def train(x, steps):
        for _ in range(steps):
            o.zero_grad()
            m(x).square().sum().backward()
            o.step()

    train(X, 6)
    assert sum("sign" in str(graph.graph) for graph in backend.graphs) >= 1


def test_adam():
    m = nn.Linear(3, 3)
    o = torch.optim.AdamW(m.parameters())
    s = torch.optim.lr_scheduler.StepLR(o, 1)

    def f(m, o, s, x):
        o.zero_grad()
        loss = m(x).sum()
        loss.backward()
        o.step()
        s.step()
        return loss

    # torch's own step takes another way where torch.compiler.is_compiling(): powers of tensors, not of numbers
    check(f, m, o, s, X, tolerance=(1e-6, 1e-7))
