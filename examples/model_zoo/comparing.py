"""How far two calls of the same model are apart: types of what they return, values, gradients, buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

#: Relative to a tensor's largest element. Models take other paths while they are compiled (a mask that is made or left
#: out, another formula), so that even a backend which runs the graph as it is rounds differently at times.
NEAR = 1e-4
#: Objects of these are walked into.
LIBRARIES = ("transformers", "timm", "torchvision")


@dataclass(frozen=True)
class Outcome:
    """What one call left: results as (path, type, leaf), gradients and buffers by name."""

    result: list[tuple[str, str, Any]]
    gradients: dict[str, Tensor | None]
    buffers: dict[str, Tensor]


@dataclass(frozen=True)
class Agreement:
    """`text` is "equal", the largest difference and where it is, or what has another type."""

    text: str
    agrees: bool


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Each part with its path and type; tensors are copies, so that what happens later doesn't change them."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, Tensor):
        yield path, f"{kind} {value.dtype} {tuple(value.shape)} {value.requires_grad}", value.detach().clone()
    elif isinstance(value, Mapping):
        yield path, f"{kind} {list(value)}", None
        for key, part in value.items():
            yield from flat(part, f"{path}[{key!r}]")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield path, f"{kind} of {len(value)}", None
        for i, part in enumerate(value):
            yield from flat(part, f"{path}[{i}]")
    elif kind.startswith(LIBRARIES) and not kind.endswith("Config") and hasattr(value, "__dict__"):
        yield path, f"{kind} {sorted(vars(value))}", None
        for key, part in vars(value).items():
            yield from flat(part, f"{path}.{key}")
    else:
        yield path, kind, value if isinstance(value, (bool, int, float, str, torch.dtype)) else None


def loss_of(result: Any) -> Tensor | None:
    """A number to which every differentiable tensor of a result contributes, each element with its own weight."""
    total: Tensor | None = None
    for tensor in tensors(result):
        if not tensor.requires_grad:
            continue
        real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        weights = torch.linspace(0.5, 1.5, real.numel()).reshape(real.shape)
        part = (real.float() * weights).mean()
        total = part if total is None else total + part
    return total


def tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)


def agreement(expected: Sequence[Outcome], found: Sequence[Outcome]) -> Agreement:
    """Over all calls."""
    worst, where = 0.0, ""
    for number, (one, other) in enumerate(zip(expected, found, strict=True), 1):
        kinds = [[part[:2] for part in outcome.result] for outcome in (one, other)]
        if kinds[0] != kinds[1]:
            parts = next(((a, b) for a, b in zip(*kinds, strict=False) if a != b), (len(kinds[0]), len(kinds[1])))
            return Agreement(f"call {number}: {parts[0]} and {parts[1]}", False)
        results = [{path: leaf for path, _, leaf in outcome.result} for outcome in (one, other)]
        for what, (a, b) in {"result": results, "gradient": (one.gradients, other.gradients),
                             "buffer": (one.buffers, other.buffers)}.items():
            for name, leaf in a.items():
                difference = _difference(leaf, b.get(name))
                if difference > worst:
                    worst, where = difference, f"{what} {name}"
    return Agreement("equal", True) if not where else Agreement(f"{worst:.1e} {where}", worst <= NEAR)


def _difference(one: Any, other: Any) -> float:
    """0 only for what is equal bit by bit (any NaN equals another); infinite where there is no number."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return 0.0 if type(one) is type(other) and (one == other or one != one) else float("inf")
    if one.dtype != other.dtype or one.shape != other.shape:
        return float("inf")
    if torch.equal(one, other):
        return 0.0
    a, b = (torch.view_as_real(t) if t.is_complex() else t.double() for t in (one, other))
    if not torch.equal(a.isfinite(), b.isfinite()):
        return float("inf")
    finite = a.isfinite()
    apart = (a[finite] - b[finite]).abs().max() if finite.any() else torch.zeros(())
    return float(apart / a[finite].abs().max().clamp(min=1e-12)) if apart else 0.0
