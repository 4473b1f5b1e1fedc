"""Models whose inputs change: batches, sequences and images through Linear, convolutions, attention, embeddings."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .catalogue import made, size


@made("the batch through Linear and LayerNorm", lambda k: (torch.randn(size(k), 8),))
def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


@made("batch and image through convolutions", lambda k: (torch.randn(size(k), 3, 12 + size(k, 2), 12 + size(k, 4)),))
def conv_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, 2),
    ).eval()  # fmt: skip


@made("the batch through a BatchNorm that counts", lambda k: (torch.randn(size(k), 8),))
def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())


@made("batch and sequence through a layer of a transformer", lambda k: (torch.randn(size(k), size(k, 3), 16),))
def transformer_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)


class Attention(nn.Module):
    """With a causal mask of the sequence's size."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        n, s, width = x.shape
        q, k, v = self.qkv(x).view(n, s, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, s, width))


@made("batch and sequence through attention", lambda k: (torch.randn(size(k), size(k, 3), 16),))
def attention() -> nn.Module:
    return Attention()


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 8), nn.Embedding(32, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        mask = (tokens != 0).unsqueeze(-1)
        return self.head((x * mask).sum(1) / mask.sum(1).clamp(min=1))


@made("batch and sequence of an embedding", lambda k: (torch.randint(0, 50, (size(k), size(k, 3))),))
def embedding() -> nn.Module:
    return Classifier()


@made("the sequence through a GRU's cell", lambda k: (torch.randn(2 + k % 3, 4, 8),))
def recurrent() -> Any:
    cell = nn.GRUCell(8, 8)

    def run(xs: Tensor) -> Tensor:
        h = torch.zeros(4, 8)
        for x in xs:
            h = cell(x, h)
        return h

    return run


@made("the size of an upsampled image", lambda k: (torch.randn(1, 2, size(k, 1), size(k, 1)), 8 + size(k)))
def upsampled() -> Any:
    conv = nn.Conv2d(2, 2, 1)

    def run(x: Tensor, height: int) -> Tensor:
        return F.interpolate(conv(x), size=(height, 2 * height), mode="bilinear")

    return run


class Decoder(nn.Module):
    """One token at a call; keys and values of the earlier ones are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.qkv, self.head = nn.Embedding(20, 8), nn.Linear(8, 24), nn.Linear(8, 20)

    def forward(self, token: Tensor, cache: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = self.qkv(self.tokens(token)).chunk(3, -1)
        keys, values = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        x = (q @ keys.mT / 8**0.5).softmax(-1) @ values
        return self.head(x).argmax(-1), (keys, values)


def decoding(k: int) -> tuple[Any, ...]:
    return torch.randint(0, 20, (2, 1)), (torch.randn(2, k + 3, 8), torch.randn(2, k + 3, 8))


@made("the cache of a decoder", decoding)
def decoder() -> nn.Module:
    return Decoder()


class Trainer:
    """A step of SGD; forward and loss are compiled, backward runs behind them."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


@made("the batch of a training step", lambda k: (torch.randn(size(k), 8), torch.randint(0, 3, (size(k),))))
def training_step() -> Any:
    return Trainer().step


class WithPaths(nn.Module):
    """A part of the layers is skipped, as in stochastic depth."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])

    def forward(self, x: Tensor, depth: int) -> Tensor:
        for layer in self.layers[:depth]:
            x = x + layer(x).relu()
        return x


@made("how many of the layers run", lambda k: (torch.randn(4, 8), 2 + k % 3))
def layers_that_run() -> nn.Module:
    return WithPaths()
