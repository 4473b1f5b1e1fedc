"""What the libraries of models do in their functions, in small: captured whole, compared with plain Python."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

import torch

from tests.support import check

whole = functools.partial(check, fullgraph=True)
X = torch.arange(6.0).reshape(2, 3)


class Layer:
    def forward(self, x: Any) -> Any:
        return x + 1


def named(obj: Any) -> str:
    """As torchvision notes what is used."""
    name = obj.__class__.__name__
    if isinstance(obj, FunctionType):
        name = obj.__name__
    torch._C._log_api_usage_once(f"{obj.__module__}.{name}")
    return name


def test_usage_is_noted() -> None:
    def noted(x: Any) -> Any:
        return x * len(named(named)) + len(named(Layer())), named(noted)

    whole(noted, X)


def test_class_of_everything() -> None:
    def classes(x: Any) -> Any:
        def inner() -> None: ...

        objects = [inner, named, Layer().forward, len, torch.relu, [].append, functools.partial(named, 1), range(2), x,
                   torch, Layer, (i for i in ()), {}.keys(), functools]
        assert Layer().forward.__call__(x) is not x
        return [obj.__class__.__name__ for obj in objects], x.relu()

    whole(classes, X)


def test_attention_without_gradients() -> None:
    """MultiheadAttention asks whether a dispatch mode traces it."""
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)

    def attend(x: Any) -> Any:
        with torch.no_grad():
            return attention(x, x, x, need_weights=False)[0]

    whole(attend, x)


class Sliced(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers[:2]:
            x = layer(x)
        return x, torch.nn.CrossEntropyLoss()(x, torch.tensor([0, 1]))


def test_modules_made_inside_though_dynamo_notes_them() -> None:
    """Once TorchDynamo was used in a process, `Module.__init__` is a function of its own."""
    torch.manual_seed(0)
    torch.compile(torch.nn.Linear(3, 3), backend="eager")(X)
    assert torch.nn.Module.__init__.__module__ == "torch._dynamo.mutation_guard"
    whole(Sliced(), X, backward=True)


class Router(torch.nn.Module):
    """As mixtures of experts that choose in another precision: the layer is what it shall be already."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        self.dtype = torch.float32

    def forward(self, x: Any) -> Any:
        self.classifier = self.classifier.to(self.dtype).to(x.device).to(x)
        return self.classifier(x)


def test_to_what_it_is_already() -> None:
    torch.manual_seed(0)
    whole(Router(), X, backward=True)
    moved = Router()
    moved.dtype = torch.float64
    check(moved, X.double())
