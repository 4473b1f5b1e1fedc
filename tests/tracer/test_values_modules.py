"""nn.Module instances: attributes, calls, hooks, containers, state; and that a changed module is never stale."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.support import CountingBackend, check, check_calls, compile_with

whole = functools.partial(check, fullgraph=True)
X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Block(nn.Module):
    scale = 2.0

    mean: Any

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.register_buffer("mean", torch.ones(width))
        self.bias = nn.Parameter(torch.ones(width))
        self.calls = 0
        self.shared = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x)) * self.scale + self.bias - self.mean


class Counting(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.mean = self.mean * 0.5 + x.mean(0)
        self.last = x.shape[0]
        return super().forward(x)


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(2)])
        self.sequence = nn.Sequential(nn.Linear(4, 4), nn.GELU())

    def forward(self, x: torch.Tensor, which: str = "a") -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        for i in range(len(self.layers)):
            x = self.layers[i](x) + self.layers[-1].bias
        for name, module in self.named.items():
            if name == which:
                x = module(x)
        for weight in self.weights:
            x = x * weight
        return self.sequence(x)


def test_forward() -> None:
    whole(lambda m, x: m(x), Block(), X)


def test_backward() -> None:
    whole(lambda m, x: m(x).sum(), Block(), X, backward=True)


def test_containers() -> None:
    model = Stack()
    check_calls(lambda m, x, w: m(x, w), (model, X, "a"), (model, X, "b"), fullgraph=True)


def test_effects() -> None:
    whole(lambda m, x: m(x), Counting(), X)


def test_modes() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))

    def f(m: nn.Module, x: torch.Tensor, training: bool) -> Any:
        m.train(training)
        return m(x), m.training, m[0].training

    check_calls(f, (model, X, True), (model, X, False), (model, X, True))


def test_parameters_and_children() -> None:
    def f(m: nn.Module, x: torch.Tensor) -> Any:
        total = sum(p.sum() for p in m.parameters())
        names = [name for name, _ in m.named_parameters()]
        kinds = [type(c).__name__ for c in m.children()]
        count = len(list(m.modules()))
        buffers = [name for name, _ in m.named_buffers()]
        return total + x, names, kinds, count, buffers

    whole(f, Stack(), X)


def test_shared_children_and_parameters() -> None:
    model = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    model[1].weight = model[0].weight
    model.append(model[0])
    whole(lambda m, x: [layer(x).sum() for layer in m], model, X)


def test_missing_attribute() -> None:
    def f(m: nn.Module, x: torch.Tensor) -> Any:
        return x + 1, hasattr(m, "nothing"), getattr(m, "shared", 3), getattr(m, "absent", 3)

    whole(f, Block(), X)


def test_own_getattr() -> None:
    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

    whole(lambda m, x: m.linear(x) + m.scale, Wrapper(Block()), X)


# hooks --------------------------------------------------------------------------------------------------------------
def test_hooks() -> None:
    seen: list[int] = []

    def before(module: nn.Module, args: Any) -> Any:
        return (args[0] + 1,)

    def after(module: nn.Module, args: Any, result: Any) -> Any:
        seen.append(len(args))
        return result * 2

    model = Block()
    model.linear.register_forward_pre_hook(before)
    model.register_forward_hook(after)
    check(lambda m, x: m(x), model, X)


CHANGES: dict[str, Callable[[nn.Module], object]] = {
    "scale": lambda m: setattr(m, "scale", 5.0),
    "class scale": lambda m: setattr(type(m), "scale", 3.0),
    "late hook": lambda m: m.linear.register_forward_hook(lambda *a: a[2] + 1),
    "global hook": lambda m: HANDLES.append(nn.modules.module.register_module_forward_hook(lambda *a: a[2] * 3)),
    "swapped child": lambda m: setattr(m, "linear", nn.Identity()),
    "other child": lambda m: setattr(m, "linear", nn.Linear(4, 4)),
    "new parameter": lambda m: setattr(m, "bias", nn.Parameter(torch.zeros(4))),
    "data": lambda m: setattr(m.bias, "data", torch.full((4,), 9.0)),
    "half": lambda m: m.double(),
    "frozen": lambda m: m.requires_grad_(False),
    "forward": lambda m: setattr(m, "forward", lambda x: x - 7),
    "child's forward": lambda m: setattr(m.linear, "forward", lambda x: x - 7),
    "class forward": lambda m: setattr(type(m), "forward", lambda self, x: x * 0),
    "buffer": lambda m: setattr(m, "mean", torch.zeros(4)),
    "buffer gone": lambda m: m._buffers.pop("mean") is None or m.__dict__.update(mean=torch.ones(4) * 3),
    "hidden parameter": lambda m: m.__dict__.update(bias=4.0),
    "property": lambda m: setattr(type(m), "bias", property(lambda self: 2.0)),
    "own getattr": lambda m: setattr(
        type(m), "__getattribute__", lambda self, n: 1.0 if n == "scale" else object.__getattribute__(self, n)
    ),
    "eval": lambda m: m.eval(),
}
HANDLES: list[Any] = []


def fresh() -> nn.Module:
    """A model of a class of its own, so that its class may be changed."""

    class Own(Block):
        pass

    torch.manual_seed(3)
    return Own()


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_never_stale(name: str) -> None:
    plain, compiled_model = fresh(), fresh()

    def f(m: nn.Module, x: torch.Tensor) -> Any:
        return m(x)

    backend = CountingBackend()
    compiled = compile_with(f, backend=backend)
    try:
        for _ in range(2):
            torch.testing.assert_close(compiled(compiled_model, X), f(plain, X), rtol=0, atol=0)
        assert backend.frame_count == 1 and backend.calls == 2
        x = X.double() if name == "half" else X
        torch.manual_seed(7)
        CHANGES[name](plain)
        torch.manual_seed(7)
        CHANGES[name](compiled_model)
        for _ in range(2):
            expected = f(plain, x)
            found = compiled(compiled_model, x)
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
            assert found.requires_grad == expected.requires_grad
    finally:
        while HANDLES:
            HANDLES.pop().remove()


def test_another_instance_is_a_hit() -> None:
    backend = CountingBackend()
    compiled = compile_with(lambda m, x: m(x), backend=backend)
    for model in (Block(), Block(), Block()):
        torch.testing.assert_close(compiled(model, X), model(X), rtol=0, atol=0)
    assert backend.frame_count == 1 and backend.calls == 3


def test_module_made_inside_is_refused() -> None:
    def f(x: torch.Tensor) -> Any:
        torch.manual_seed(0)
        return nn.Linear(4, 4)(x)

    check(f, X)


def test_method_of_module() -> None:
    class Model(Block):
        def loss(self, x: torch.Tensor) -> torch.Tensor:
            return self(x).square().mean()

    model = Model()
    check(Model.loss, model, X, fullgraph=True, backward=True)


# children by position -------------------------------------------------------------------------------------------------
class Chained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.ReLU()])

    def forward(self, x: torch.Tensor, loud: bool = False) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            if loud:
                print(end="")
        return x


def _reorder(layers: nn.ModuleList) -> None:
    first = layers._modules.pop("0")
    layers._modules["0"] = first


REGISTRY_CHANGES: dict[str, Any] = {
    "swapped": lambda layers: layers.__setitem__(1, nn.Linear(4, 4, bias=False)),
    "of another class": lambda layers: layers.__setitem__(1, nn.Tanh()),
    "more": lambda layers: layers.append(nn.Linear(4, 4)),
    "fewer": lambda layers: layers.pop(0),
    "in another order": _reorder,
    "with other names": lambda layers: setattr(
        layers, "_modules", {f"x{key}": child for key, child in layers._modules.items()}
    ),
    "the same one twice": lambda layers: layers.__setitem__(1, layers[0]),
}


@pytest.mark.parametrize("change", REGISTRY_CHANGES)
@pytest.mark.parametrize("loud", [False, True])
def test_children_by_position(change: str, loud: bool) -> None:
    model = Chained()
    compiled = compile_with(model, backend="eager", inplace=False)
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(compiled(X, loud), model(X, loud))
        REGISTRY_CHANGES[change](model.layers)
        for _ in range(3):
            assert torch.equal(compiled(X, loud), model(X, loud))


def test_children_by_position_and_by_name() -> None:
    def f(m: Chained, x: torch.Tensor) -> Any:
        first, *others = m.layers
        iterator = iter(m.layers._modules.values())
        same = next(iterator) is first, m.layers[0] is first, m.layers._modules["0"] is first
        names = [name for name, _ in m.layers.named_children()]
        left = next(iterator)(x), type(iterator).__name__
        return first(x), len(others), same, names, left

    check_calls(f, (Chained(), X), (Chained(), X), fullgraph=True)


def test_a_registry_that_changes_while_it_is_iterated() -> None:
    def f(m: Chained, x: torch.Tensor) -> Any:
        seen = []
        for layer in m.layers._modules.values():
            seen.append(type(layer).__name__)
            x = layer(x)
            if len(seen) == 1:
                m.layers._modules["late"] = layer
        return x, seen

    def plain(m: Chained) -> str:
        try:
            f(m, X)
        except RuntimeError as error:
            return str(error)
        return ""

    compiled = compile_with(f, backend="eager")
    for _ in range(3):
        with pytest.raises(RuntimeError) as raised:
            compiled(Chained(), X)
        assert str(raised.value) == plain(Chained())
