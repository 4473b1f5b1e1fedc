"""Sizes of tensors change: batches, sequences, images, masks, caches, beams, and sizes that depend on data."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .catalogue import made, program, size


def rows(k: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size(k), 16), torch.randn(16, 8)


@program("the batch", rows)
def batch(x: Tensor, weight: Tensor) -> Tensor:
    return torch.tanh(x @ weight).softmax(-1)


@program("the sequence", lambda k: (torch.randn(2, size(k), 16),))
def sequence(x: Tensor) -> Tensor:
    return (x @ x.transpose(1, 2) / 4).softmax(-1) @ x


@program("both", lambda k: (torch.randn(size(k), size(k, 5), 16),))
def batch_and_sequence(x: Tensor) -> Tensor:
    flat = x.view(x.shape[0] * x.shape[1], 16)
    return (flat - flat.mean(0)).view(x.shape[0], x.shape[1], 16)


@program("two sizes that are equal in the first calls", lambda k: (torch.randn(size(k), size(k, 0 if k < 3 else 4)),))
def equal_then_different(x: Tensor) -> Tensor:
    return x.sum(0).sin().sum() + x.mean(1)


@program("a size that is 0 or 1 now and then", lambda k: ((torch.randn((4, 1, 7, 0, 5, 1, 9, 8, 0, 3, 2, 6)[k], 8)),))
def size_0_and_1(x: Tensor) -> Tensor:
    return torch.cat([x.relu(), -x]).sum(0)


@program("height and width", lambda k: (torch.randn(2, 3, 16 + size(k), 16 + size(k, 3)), torch.randn(4, 3, 3, 3)))
def image(x: Tensor, weight: Tensor) -> Tensor:
    x = F.conv2d(x, weight, padding=1).relu()
    return F.max_pool2d(x, 2).mean((2, 3))


@program("a size in a view and a permutation", lambda k: (torch.randn(size(k), size(k, 2), 12),))
def heads(x: Tensor) -> Tensor:
    n, s, width = x.size()
    split = x.view(n, s, 3, width // 3).permute(0, 2, 1, 3)
    return split.reshape(n * 3, s, -1).cumsum(1).flatten(1)


@program("positions of as many as there are", lambda k: (torch.randn(2, size(k), 8),))
def positions(x: Tensor) -> Tensor:
    at = torch.arange(x.shape[1], dtype=x.dtype).unsqueeze(1)
    scale = torch.exp(torch.arange(0, 8, 2) * (-math.log(10000.0) / 8))
    return x + torch.cat([(at * scale).sin(), (at * scale).cos()], -1)


@program("a causal mask of the sequence's size", lambda k: (torch.randn(2, size(k), 8),))
def causal_mask(x: Tensor) -> Tensor:
    n = x.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    scores = (x @ x.mT).masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ x


def padded(k: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size(k), size(k, 1), 8), torch.randint(1, size(k, 1) + 1, (size(k),))


@program("a mask of lengths", padded)
def padding_mask(x: Tensor, lengths: Tensor) -> Tensor:
    mask = torch.arange(x.shape[1])[None, :] < lengths[:, None]
    return (x * mask.unsqueeze(-1)).sum(1) / lengths.unsqueeze(1)


@program("the sizes of what is put together", lambda k: (torch.randn(size(k), 4), torch.randn(size(k, 7), 4)))
def put_together(x: Tensor, y: Tensor) -> Tensor:
    both = torch.cat([x, y, x[:2]])
    return both / both.shape[0] + both.amax(0)


@program("where a tensor is split", lambda k: (torch.randn(2 * size(k), 4),))
def split(x: Tensor) -> Tensor:
    half = x.shape[0] // 2
    first, second = x[:half], x[half:]
    return first * second.flip(0) + x[-1]


@program("the sizes of the tensors of a list", lambda k: ([torch.randn(size(k, i), 4) for i in range(3)],))
def sizes_in_a_list(xs: list[Tensor]) -> Tensor:
    return torch.stack([x.mean(0) for x in xs]).cumsum(0) * len(xs)


@program("strides too: the input is transposed", lambda k: (torch.randn(8, size(k)).t(), torch.randn(8, 4)))
def transposed(x: Tensor, weight: Tensor) -> Tensor:
    return (x @ weight).relu() + x.sum(1, keepdim=True)


@program("two sizes that are broadcast", lambda k: (torch.randn(size(k), 1), torch.randn(1, size(k, 6))))
def distances(x: Tensor, y: Tensor) -> Tensor:
    return (x - y).square().sqrt().amin(1)


@program("padding up to a multiple of 8", lambda k: (torch.randn(2, size(k)),))
def padded_to_8(x: Tensor) -> Tensor:
    return F.pad(x, (0, -x.shape[1] % 8)).view(2, -1, 8).sum(-1)


@program("a mean by the size", lambda k: (torch.randn(size(k), 5),))
def mean_by_size(x: Tensor) -> Tensor:
    return x.sum(0) / x.shape[0] + math.sqrt(x.numel())


@program("a branch on a size", lambda k: (torch.randn(size(k), 5),))
def branch_on_size(x: Tensor) -> Tensor:
    return x.sin().sum(0) if x.shape[0] > 8 else x.cos().mean(0)


@program("a size given as a number", lambda k: (torch.randn(4, 20), size(k)))
def crop(x: Tensor, length: int) -> Tensor:
    return x[:, :length].softmax(-1)


@program("sizes of new tensors, given as numbers", lambda k: (torch.randn(4), size(k), size(k, 3)))
def new_tensors(x: Tensor, n: int, m: int) -> Tensor:
    return torch.zeros(n, 4) + x + torch.full((m, 1), 2.0).sum()


@program("the k of topk", lambda k: (torch.randn(3, 20), size(k)))
def top_k(x: Tensor, k: int) -> Tensor:
    values, indices = x.topk(k, -1)
    return values.softmax(-1) + indices


@program("the beam", lambda k: (torch.randn(size(k), 12), torch.randn(size(k)), size(k)))
def beam_width(scores: Tensor, totals: Tensor, width: int) -> tuple[Tensor, ...]:
    every = (scores.log_softmax(-1) + totals[:, None]).view(-1)
    best, at = every.topk(width)
    return best, at // scores.shape[1], at % scores.shape[1]


class Cache:
    """Keys and values of all steps so far."""

    def __init__(self) -> None:
        self.keys, self.values = torch.zeros(2, 3, 8), torch.zeros(2, 3, 8)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.keys = torch.cat([self.keys, k], 1)
        self.values = torch.cat([self.values, v], 1)
        return (q @ self.keys.mT / 8**0.5).softmax(-1) @ self.values


@made("a cache that grows", lambda k: tuple(torch.randn(3, 2, 1, 8)))
def growing_kv_cache() -> Any:
    return Cache().attend


class StaticCache:
    """Of a fixed size; the place is a number."""

    def __init__(self) -> None:
        self.keys, self.length = torch.zeros(2, 32, 8), 3

    def attend(self, q: Tensor, k: Tensor) -> Tensor:
        self.keys[:, self.length] = k
        self.length += 1
        return (q @ self.keys[:, : self.length].mT).softmax(-1)


@made("how much of a cache is filled", lambda k: (torch.randn(2, 1, 8), torch.randn(2, 8)))
def filled_kv_cache() -> Any:
    return StaticCache().attend


@program("repetitions", lambda k: (torch.randn(3, 4), size(k)))
def repeated(x: Tensor, times: int) -> Tensor:
    return x.repeat(times, 1).view(times, 3, 4).cumsum(0) + x.expand(times, 3, 4)


# sizes and numbers that depend on data -------------------------------------------------------------------------------
@program("how many are selected", lambda k: (torch.randn(10 + k),))
def selected(x: Tensor) -> Tensor:
    positive = x[x > 0]
    return positive.exp() / (positive.sum() + 1)


@program("a number read from a tensor", lambda k: (torch.randn(6),))
def read_number(x: Tensor) -> Tensor:
    largest = x.abs().max().item()
    return x / (largest + 1.0)


@program("lengths read from a tensor", lambda k: (torch.randn(4, 20), torch.tensor(size(k))))
def read_length(x: Tensor, length: Tensor) -> Tensor:
    return x[:, : int(length)].sum(-1)
