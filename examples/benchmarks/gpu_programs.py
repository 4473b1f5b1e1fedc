"""The programs of gpu.py: each makes a model, and runs one step of it on the n-th of a row of inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from gpt import GPT, Config
from resnet import ResNet
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Program:
    """model: made anew, always with the same parameters.  inputs: of the n-th step, floats in the dtype that is asked.

    step: runs one, and gives what is compared. trains: with gradients, and an optimizer that is not compiled.
    """

    name: str
    model: Callable[[bool], nn.Module]
    inputs: Callable[[int, bool, torch.dtype], tuple[Tensor, ...]]
    trains: bool = False


class Pointwise(nn.Module):
    """What a call costs that computes next to nothing."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (x + y) * 2.0 - 1.0


class Decoder(nn.Module):
    """A GPT that decodes one token for each row, with keys and values of earlier ones in buffers that stay in place."""

    def __init__(self, batch: int, layers: int, heads: int, width: int, context: int, vocabulary: int) -> None:
        super().__init__()
        self.heads, self.layers = heads, layers
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * layers + 1)])
        self.qkv = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(layers)])
        self.out = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.up = nn.ModuleList([nn.Linear(width, 4 * width) for _ in range(layers)])
        self.down = nn.ModuleList([nn.Linear(4 * width, width) for _ in range(layers)])
        self.head = nn.Linear(width, vocabulary, bias=False)
        shape = (layers, batch, heads, context, width // heads)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))
        self.register_buffer("places", torch.arange(context))

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        batch = token.shape[0]
        x = self.tokens(token) + self.positions(position)
        seen = (self.places <= position).view(1, 1, 1, -1)
        for layer in range(self.layers):
            q, k, v = self.qkv[layer](self.norms[2 * layer](x)).view(batch, 3, self.heads, 1, -1).unbind(1)
            self.keys[layer].index_copy_(2, position, k)
            self.values[layer].index_copy_(2, position, v)
            y = F.scaled_dot_product_attention(q, self.keys[layer], self.values[layer], attn_mask=seen)
            x = x + self.out[layer](y.reshape(batch, -1))
            x = x + self.down[layer](F.gelu(self.up[layer](self.norms[2 * layer + 1](x))))
        return self.head(self.norms[-1](x))


def pointwise(small: bool) -> nn.Module:
    return Pointwise()


def mlp(small: bool) -> nn.Module:
    width = 16 if small else 512
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(width, width), nn.ReLU())))


def decoder(batch: int) -> Callable[[bool], nn.Module]:
    def make(small: bool) -> nn.Module:
        return Decoder(batch, 2, 2, 32, 16, 50) if small else Decoder(batch, 12, 12, 768, 512, 32_000)

    return make


def resnet(small: bool) -> nn.Module:
    return ResNet((1, 1, 1, 1), 8, 10) if small else ResNet((2, 2, 2, 2), 64, 1000)


class Losses(nn.Module):
    """A GPT's loss."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gpt = GPT(config)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        return self.gpt(tokens, targets)[1]


class Classified(nn.Module):
    """A classifier's loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor, classes: Tensor) -> Tensor:
        return F.cross_entropy(self.model(images), classes)


def transformer(small: bool) -> nn.Module:
    return Losses(Config(50, 16, 2, 2, 32) if small else Config(32_000, 256, 6, 8, 512))


def _generator(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(step)


def normal(*shape: int) -> Callable[[int, bool, torch.dtype], tuple[Tensor, ...]]:
    """As many tensors of this shape as the program takes (two); the first alone for models of one input."""

    def inputs(step: int, small: bool, dtype: torch.dtype) -> tuple[Tensor, ...]:
        return tuple(torch.randn(shape, generator=_generator(2 * step + i)).to(dtype) for i in range(2))

    return inputs


def rows(step: int, small: bool, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return (torch.randn(64, 16 if small else 512, generator=_generator(step)).to(dtype),)


def tokens(batch: int) -> Callable[[int, bool, torch.dtype], tuple[Tensor, ...]]:
    def inputs(step: int, small: bool, dtype: torch.dtype) -> tuple[Tensor, ...]:
        token = torch.randint(50 if small else 32_000, (batch,), generator=_generator(step))
        return token, torch.tensor([step % (16 if small else 512)])

    return inputs


def images(step: int, small: bool, dtype: torch.dtype) -> tuple[Tensor, ...]:
    size = (8, 3, 64, 64) if small else (32, 3, 160, 160)
    generator = _generator(step)
    given = torch.randn(size, generator=generator).to(dtype)
    return given, torch.randint(10 if small else 1000, (size[0],), generator=generator)


def sentences(step: int, small: bool, dtype: torch.dtype) -> tuple[Tensor, ...]:
    size, most = ((2, 16), 50) if small else ((8, 256), 32_000)
    found: Any = torch.randint(most, (2, *size), generator=_generator(step))
    return found[0], found[1]


PROGRAMS = (
    Program("dispatch", pointwise, normal(64, 64)),
    Program("MLP", mlp, rows),
    Program("GPT decode, batch 1", decoder(1), tokens(1)),
    Program("GPT decode, batch 8", decoder(8), tokens(8)),
    Program("ResNet training", lambda small: Classified(resnet(small)), images, trains=True),
    Program("Transformer training", transformer, sentences, trains=True),
)
