"""Modules that change between calls, containers, hooks, parametrizations, buffers; NumPy beside torch."""

from __future__ import annotations

import copy
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.profiler import record_function

import tracer
from tests.support import CountingBackend, check, check_calls, compile_with


def r(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def whole(fn, *inputs, **options):
    check(fn, *inputs, fullgraph=True, **options)


def call(m, x):
    return m(x)


def in_steps(make, changes, x, *, backward=True, backend="eager", fullgraph=True):
    """Call a plain and a compiled model; after each call change both in the same way. The graphs that were compiled."""
    torch.manual_seed(0)
    plain = make()
    compiled = copy.deepcopy(plain)
    counting = CountingBackend()
    f = compile_with(call, backend=counting, fullgraph=fullgraph)
    for change in [None, None, *changes]:
        if change is not None:
            change(plain)
            change(compiled)
        results = []
        for model, run in ((plain, call), (compiled, f)):
            dtype = next(model.parameters()).dtype
            given = x.detach().to(dtype).requires_grad_(backward)
            result = run(model, given)
            if backward:
                result.sum().backward()
            results.append((result, given.grad, [p.grad for p in model.parameters()], list(model.buffers())))
        torch.testing.assert_close(*results, rtol=0, atol=0)
        assert results[0][0].requires_grad == results[1][0].requires_grad
    return counting.frame_count


def mlp():
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))


def test_submodules_swapped():
    def swap(m):
        m[1] = nn.Tanh()

    def replace(m):
        torch.manual_seed(1)
        m[0] = nn.Linear(3, 3)

    assert in_steps(mlp, [replace, swap, replace, lambda m: m.append(nn.Sigmoid())], r(2, 3)) >= 3


def test_parameters_replaced_moved_and_frozen():
    def new_weight(m):
        m[0].weight = nn.Parameter(torch.ones(3, 3))

    def freeze(m):
        m[0].weight.requires_grad_(False)

    def thaw(m):
        m[0].weight.requires_grad_(True)

    changes = [new_weight, freeze, thaw, lambda m: m.double(), lambda m: m.float(), lambda m: m.requires_grad_(False)]
    assert in_steps(mlp, changes, r(2, 3)) >= 4


def test_half_and_bfloat16_between_calls():
    assert in_steps(mlp, [lambda m: m.bfloat16(), lambda m: m.half(), lambda m: m.to(torch.float32)], r(2, 3)) == 3


def test_training_and_evaluation():
    def make():
        return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    assert in_steps(make, [lambda m: m.eval(), lambda m: m.train(), lambda m: m.eval()], r(4, 3)) == 2


def test_hooks_registered_later_and_removed():
    handles: dict[int, list] = {}

    def add(m):
        seen = handles.setdefault(id(m), [])
        seen.append(m[0].register_forward_hook(lambda mod, args, out: out * 2))
        seen.append(m[0].register_forward_pre_hook(lambda mod, args: (args[0] + 1,)))

    def remove(m):
        for handle in handles.pop(id(m)):
            handle.remove()

    assert in_steps(mlp, [add, remove, add], r(2, 3)) >= 2


@pytest.mark.parametrize("kind", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_backward_hooks(kind):
    def hook(m, *gradients):
        return tuple(None if g is None else g * 2 for g in gradients[0])

    in_steps(mlp, [lambda m: getattr(m[0], kind)(hook)], r(2, 3), fullgraph=False)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.inner, self.outer = nn.Embedding(5, 3), nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, i):
        h = self.table(i)
        return self.outer(h + torch.relu(self.inner(h)))


def test_backward_hooks_are_hung_on_nodes_that_no_compiler_makes_one(installed_eager):
    """Of a model and a layer in it, whose hook is set up behind an operator, in the same region."""

    def side(compiled):
        torch.manual_seed(0)
        model, seen = Residual(), []
        if compiled:
            tracer.compile(model, backend="aot_eager")
        for module in (model.inner, model):
            module.register_full_backward_hook(lambda module, given, results: seen.append((given, results)))
            for _ in range(3):
                model(torch.arange(4)).sin().sum().backward()
        return seen, [p.grad for p in model.parameters()]

    torch.testing.assert_close(side(compiled=True), side(compiled=False))


def test_hooks_of_parameters_and_tensors():
    def triple(p):
        p.grad.mul_(3)

    def hook(m):
        m[0].weight.register_hook(lambda g: g * 2)
        m[2].weight.register_post_accumulate_grad_hook(triple)

    in_steps(mlp, [hook], r(2, 3))


def test_hooks_with_keywords_and_global_hooks():
    m = nn.Linear(3, 3)
    m.register_forward_pre_hook(lambda mod, a, k: (a, k), with_kwargs=True)
    m.register_forward_hook(lambda mod, a, k, out: out + 1, with_kwargs=True, prepend=True)
    whole(call, m, r(2, 3), backward=True)
    whole(lambda m, x: m(input=x), m, r(2, 3))
    m = mlp()
    compiled = compile_with(call, backend="eager")
    handle = None
    for i in range(4):
        if i == 2:
            handle = nn.modules.module.register_module_forward_hook(lambda mod, args, out: out * 2)
        try:
            assert torch.equal(compiled(m, r(2, 3)), m(r(2, 3)))
        finally:
            if i == 3:
                handle.remove()


def test_hooks_that_record():
    class Recorder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = nn.Linear(3, 3), {}
            self.layer.register_forward_hook(self.record)

        def record(self, mod, args, out):
            self.seen["out"] = out.detach()

        def forward(self, x):
            return self.layer(x)

    whole(call, Recorder(), r(2, 3))


def test_state_dict_hooks():
    m = nn.Linear(3, 3)
    m.register_state_dict_pre_hook(lambda mod, prefix, keep: None)
    m.register_load_state_dict_post_hook(lambda mod, keys: None)

    def f(m, x):
        m.load_state_dict(m.state_dict())
        return m(x), sorted(m.state_dict())

    check(f, m, r(2, 3))


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.pl = nn.ParameterList([nn.Parameter(torch.ones(3) * i) for i in range(3)])
        self.pd = nn.ParameterDict({"a": nn.Parameter(torch.ones(3)), "b": nn.Parameter(torch.zeros(3))})
        self.ml = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.md = nn.ModuleDict({"r": nn.ReLU(), "l": nn.Linear(3, 3)})
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 3)))

    def forward(self, x):
        for p in self.pl:
            x = x + p
        x = x * self.pl[1] + self.pd["a"] + self.pd.b
        for _, p in self.pd.items():
            x = x + p
        for layer in [*self.ml, self.ml[-1], *self.ml[1:], *reversed(self.ml)]:
            x = layer(x)
        x = self.md["r"](x)
        for k in self.md:
            x = self.md[k](x)
        x = x + ("zz" in self.md) + len(self.seq) + len(self.pl) + len(self.md)
        x = self.seq(x) + self.seq[0](x) + self.seq[1][1](x)
        for layer in (*self.md.values(), *self.seq, *self.children()):
            if isinstance(layer, nn.Linear):
                x = layer(x)
        x = x + sum(p.sum() for p in self.parameters())
        for name, p in self.named_parameters():
            x = x + p.mean() * name.count("weight")
        for _, module in self.named_modules():
            if isinstance(module, nn.Linear):
                x = x + module.weight.sum()
        x = x + self.get_submodule("seq.0").weight.sum() + self.get_parameter("pd.a")
        return x.to(next(self.parameters()).dtype)


def test_containers():
    whole(call, Containers(), r(2, 3), backward=True, tolerance=(1e-6, 1e-6))


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).T


def symmetric():
    m = nn.Linear(3, 3)
    nn.utils.parametrize.register_parametrization(m, "weight", Symmetric())
    return m


@pytest.mark.parametrize(
    "make",
    [
        lambda: parametrizations.weight_norm(nn.Linear(3, 3)),
        lambda: parametrizations.spectral_norm(nn.Linear(3, 3)),
        lambda: parametrizations.orthogonal(nn.Linear(3, 3)),
        symmetric,
        lambda: nn.utils.spectral_norm(nn.Linear(3, 3)),
    ],
    ids=["weight_norm", "spectral_norm", "orthogonal", "own", "old spectral_norm"],
)
def test_parametrizations(make):
    torch.manual_seed(0)
    whole(call, make(), r(2, 3), backward=True)


@pytest.mark.parametrize("old", [nn.utils.weight_norm, lambda m: prune.l1_unstructured(m, "weight", 0.3)])
def test_what_a_pre_hook_computes(old):
    """These set a tensor with a history as an attribute, so that such a module cannot be copied."""
    results = []
    for run in (call, compile_with(call, backend="eager", fullgraph=True)):
        torch.manual_seed(0)
        m = old(nn.Linear(3, 3))
        for _ in range(3):
            y = run(m, r(2, 3))
            y.sum().backward()
        results.append((y, [p.grad for p in m.parameters()]))
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_parametrizations_cached():
    def f(m, x):
        with nn.utils.parametrize.cached():
            return m(m(x))

    check(f, symmetric(), r(2, 3), backward=True)


def test_lazy_modules():
    m = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    m(r(2, 3))
    whole(call, m, r(2, 3), backward=True)


def test_a_lazy_module_that_is_made_by_the_call():
    torch.manual_seed(0)
    m = nn.LazyLinear(4)
    compiled = compile_with(call, backend="eager")
    first = compiled(m, r(2, 3))
    assert not isinstance(m, nn.LazyLinear)
    for _ in range(3):
        assert torch.equal(compiled(m, r(2, 3)), first)
    assert torch.equal(first, m(r(2, 3)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, i):
        return self.out(self.embed(i))


def test_tied_weights():
    whole(call, Tied(), torch.arange(3), backward=True)
    m = Tied()
    compiled = compile_with(call, backend="eager", fullgraph=True)
    for _ in range(2):
        compiled(m, torch.arange(3))
    m.out.weight = nn.Parameter(torch.ones(5, 3))
    assert torch.equal(compiled(m, torch.arange(3)), m(torch.arange(3)))


def test_functional_call():
    functional = torch.func.functional_call
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    whole(lambda m, x: functional(m, {"0.weight": x[:1].expand(3, 3) * 1, "0.bias": x[0]}, (x,)), m, r(2, 3))
    state = ({"0.weight": torch.ones(3, 3)}, {"0.bias": torch.ones(3)})
    whole(lambda m, x: functional(m, state, (x,), tie_weights=True), m, r(2, 3))
    whole(
        lambda m, x: functional(m, {k: v * 1 for k, v in [*m.named_parameters(), *m.named_buffers()]}, (x,)), m, r(2, 3)
    )
    check(lambda m, x: nn.utils.stateless.functional_call(m, {"0.weight": torch.ones(3, 3)}, (x,)), m, r(2, 3))


def test_what_changes_a_module_inside():
    def toggled(m, x):
        m.weight.requires_grad_(False)
        y = m(x)
        m.weight.requires_grad_(True)
        return y

    def doubled(m, x):
        m.double()
        y = m(x.double())
        m.float()
        return y

    def replaced(m, x):
        m.weight = nn.Parameter(m.weight.detach() * 2)
        return m(x)

    def filled(m, x):
        nn.init.ones_(m.weight)
        return m(x)

    for f in (toggled, doubled, replaced, filled):
        check(f, nn.Linear(3, 3), r(2, 3))
    whole(lambda x: nn.Sequential(nn.ReLU(), nn.Identity())(x), r(2, 3))


def test_an_encoder_layer_pads_as_torch_compile_does():
    """Torch's encoder computes padded positions where it is told that it is compiled, and gives zeros elsewhere."""
    torch.manual_seed(0)
    m = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1).eval()
    x, padding = r(2, 3, 4), torch.tensor([[False, False, True], [False, False, False]])
    with torch.no_grad():
        plain = m(x, src_key_padding_mask=padding)
        compiled = compile_with(lambda m, x, p: m(x, src_key_padding_mask=p), backend="eager")(m, x, padding)
    torch.testing.assert_close(compiled[~padding], plain[~padding])


def test_fake_tensors_stand_for_real_ones():
    from torch._subclasses.fake_tensor import FakeTensor

    whole(lambda m, x: (x + 1, isinstance(x, FakeTensor), isinstance(m.weight, FakeTensor)), nn.Linear(3, 3), r(2, 3))


def test_modules_die():
    m = mlp()
    compiled = compile_with(lambda m, x: torch.utils.checkpoint.checkpoint(m, x, use_reentrant=False), backend="eager")
    for _ in range(3):
        compiled(m, r(2, 3))
    dead = weakref.ref(m)
    del m
    assert dead() is None


# NumPy --------------------------------------------------------------------------------------------------------------
def test_numpy_numbers():
    whole(lambda x: x * np.sqrt(x.shape[1]), r(2, 3))
    whole(lambda x: x.reshape(np.prod(x.shape)), r(2, 3))
    whole(lambda x: x * np.pi + np.float64(2.0), r(2, 3))
    whole(lambda x: (x + 1, np.sqrt(2), np.int32(3), np.float32(1.5) * 2, np.log2(8) > 2), r(2, 3))
    whole(lambda x: (x + 1, int(np.ceil(2.5)), float(np.float32(0.1))), r(2, 3))
    check(lambda x: torch.tensor(np.float64(1.0)) + x, r(2, 3))
    check_calls(
        lambda x, a: (x * a, a), *[(r(2, 3), a) for a in (np.float32(2), np.float32(2), np.float64(3), np.int64(2))]
    )
    check_calls(lambda x, a: x * a, *[(r(2, 3), np.float32(a)) for a in (1, float("nan"), float("nan"), 2)])
    check(lambda x: {np.int64(1): x}[1], r(2, 3))
    check(lambda x: x + np.sqrt(-1.0), r(2, 3), check_warnings=True)


def test_numpy_arrays():
    array = np.arange(3.0, dtype=np.float32)
    check(lambda x, a: (x + 1, np.sin(a), a.sum()), r(2, 3), array)
    check(lambda x, a: x * torch.from_numpy(a), r(2, 3), array)
    check(lambda x, a: torch.as_tensor(a) + x, r(2, 3), array)
    check(lambda x: (x * 2).numpy() + 1, r(2, 3))
    check(lambda x: torch.from_numpy(np.tanh(x.numpy())) + 1, r(2, 3))
    check(lambda x, a: (x + 1, a), r(2, 3), array)
    check(lambda x, a: (x * 2).detach().numpy() * a, r(2, 3), array)

    def written(x, a):
        y = x * 2
        a += 1
        return y.sum(), a

    check(written, r(2, 3), array)


@pytest.mark.parametrize("use", [
    lambda a: a * 2, lambda a: 2 * a, lambda a: a.shape, lambda a: a.sum(), lambda a: a[0], lambda a: len(a), np.sum,
    lambda a: a > 0, lambda a: a @ a, lambda a: -a, str, lambda a: a.__setitem__(0, 3), lambda a: a.astype("int32"),
])  # fmt: skip
def test_what_is_done_with_arrays_breaks_with_one_title(use):
    def f(x, a):
        y = x * 2
        return use(a), y + 1

    check(f, r(3), np.ones(3, dtype="float32"))
    with pytest.raises(tracer.GraphBreak, match="NumPy array is used") as caught:
        compile_with(f, backend="eager", fullgraph=True)(r(3), np.ones(3, dtype="float32"))
    assert "torch.from_numpy" in caught.value.hint and caught.value.stack[0].function.endswith("f")


def test_a_break_ends_at_the_array():
    with pytest.raises(tracer.GraphBreak, match="becomes a NumPy array"):
        compile_with(lambda x: np.sin(x * 2), backend="eager", fullgraph=True)(r(3))


# profilers -----------------------------------------------------------------------------------------------------------
@record_function("decorated")
def decorated(x):
    return x * 3


def recorded(x):
    with record_function("outer") as outer:
        with record_function("inner", "with arguments"):
            y = x * 2
        entered = record_function("kept")
        entered.__enter__()
    try:
        with record_function("raising"):
            raise ValueError
    except ValueError:
        y = y + 1
    return decorated(y), outer.name, outer.args, entered.name, list(vars(outer)), entered.record is not None


def recorded_around_a_break(x):
    with record_function("outer"):
        x = x * 2
        print(end="")
        x = x * 2
    return x + 1


def names_recorded(fn, x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        fn(x)
    known = {"outer", "inner", "raising", "decorated", "kept"}
    return sorted(event.name for event in profile.events() if event.name in known)


def test_records_of_a_profiler():
    check(recorded, r(3), backend="eager", fullgraph=True)
    check(recorded_around_a_break, r(3), backend="eager")
    for fn in (recorded, recorded_around_a_break):
        compiled = compile_with(fn, backend="eager")
        compiled(r(3))
        assert names_recorded(compiled, r(3)) == names_recorded(fn, r(3))
        compiled(r(3))
    with pytest.raises(TypeError):
        compile_with(lambda x: record_function(), backend="eager")(r(3))
