"""Neither sizes nor numbers change but what the program is made of: lists, dicts, strings, enumerations, dtypes."""

from __future__ import annotations

import enum
from typing import Any

import torch
from torch import Tensor

from .catalogue import program, size


@program("the length of a list", lambda k: ([torch.randn(4) for _ in range(2 + k % 4)],))
def list_length(xs: list[Tensor]) -> Tensor:
    total = xs[0]
    for x in xs[1:]:
        total = total * 0.5 + x
    return total


@program("how many arguments there are", lambda k: tuple(torch.randn(4) for _ in range(1 + k % 3)))
def arguments(*xs: Tensor) -> Tensor:
    return torch.stack(xs).amax(0)


NAMES = ("loss", "aux", "reg", "kl", "norm")


@program("the keys of a dict", lambda k: ({name: torch.randn(4) for name in NAMES[: 2 + k % 3]},))
def dict_keys(losses: dict[str, Tensor]) -> Tensor:
    return torch.stack([value.sum() for name, value in losses.items() if name != "aux"]).sum()


def with_meta(k: int) -> tuple[dict[str, Any]]:
    return ({"x": torch.randn(4), f"id{k}": k, "path": f"file{k}.png", "size": (k, k)},)


@program("keys that are not read", with_meta)
def dict_keys_not_read(sample: dict[str, Any]) -> Tensor:
    return sample["x"].sigmoid() * 2


@program("a string that chooses", lambda k: (torch.randn(4), ("relu", "tanh", "gelu")[k % 3]))
def string(x: Tensor, activation: str) -> Tensor:
    return getattr(torch.nn.functional, activation)(x) * 2


@program("a string that is only handed on", lambda k: (torch.randn(4), f"file{k}.png"), fewer=True)
def string_handed_on(x: Tensor, path: str) -> tuple[str, Tensor]:
    return path, x.softmax(0)


class Reduction(enum.Enum):
    MEAN = "mean"
    SUM = "sum"
    NONE = "none"


@program("a member of an enumeration", lambda k: (torch.randn(4), list(Reduction)[k % 3]))
def enumeration(x: Tensor, reduction: Reduction) -> Tensor:
    x = x.square()
    if reduction is Reduction.MEAN:
        return x.mean()
    return x.sum() if reduction is Reduction.SUM else x


@program("flags", lambda k: (torch.randn(4), k % 2 == 0, k % 3 == 0))
def flags(x: Tensor, causal: bool, scaled: bool) -> Tensor:
    x = x.cumsum(0) if causal else x.flip(0)
    return x * 0.5 if scaled else x


@program("an optional argument", lambda k: (torch.randn(4), torch.randn(4) if k % 2 else None))
def optional(x: Tensor, bias: Tensor | None) -> Tensor:
    return x.sin() if bias is None else x.sin() + bias


@program("the dtype", lambda k: (torch.randn(4).to((torch.float32, torch.float64, torch.bfloat16)[k % 3]),))
def dtype(x: Tensor) -> Tensor:
    return x.exp() + 1


@program("the number of dimensions", lambda k: (torch.randn(*(2, 3, 4, 5)[: 1 + k % 3], size(k)),))
def dimensions(x: Tensor) -> Tensor:
    return x.flatten().norm() + x.sum(-1)
