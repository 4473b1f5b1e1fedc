"""One step of text generation: a token goes in, the keys and values of all earlier ones are in a static cache."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpt import GPT, Block


class Decoder(nn.Module):
    """A GPT whose attention reads, and writes at one position, keys and values that it keeps as buffers."""

    keys: Tensor
    values: Tensor

    def __init__(self, model: GPT, batch: int = 1) -> None:
        super().__init__()
        self.model = model
        config = model.config
        shape = (config.layers, batch, config.heads, config.context, config.width // config.heads)
        weight = model.head.weight
        self.register_buffer("keys", torch.zeros(shape, device=weight.device, dtype=weight.dtype))
        self.register_buffer("values", torch.zeros(shape, device=weight.device, dtype=weight.dtype))
        self.register_buffer("places", torch.arange(config.context, device=weight.device))

    def forward(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Logits for what follows: `tokens` has one for each row of the batch, `position` is a tensor of one number."""
        model = self.model
        x = model.token_embedding(tokens)[:, None] + model.position_embedding(position)
        seen = (self.places <= position)[None, None, None]
        for number, block in enumerate(model.blocks):
            x = x + self._attention(block, block.attention_norm(x), number, position, seen)
            x = x + block.feed_forward(block.feed_forward_norm(x))
        return model.head(model.norm(x))[:, -1]

    def _attention(self, block: Block, x: Tensor, number: int, position: Tensor, seen: Tensor) -> Tensor:
        attention = block.attention
        batch, _, width = x.size()
        q, k, v = attention.qkv(x).split(width, dim=2)
        q, k, v = (t.view(batch, 1, attention.heads, width // attention.heads).transpose(1, 2) for t in (q, k, v))
        keys, values = self.keys[number], self.values[number]
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
        return attention.out(y.transpose(1, 2).contiguous().view(batch, 1, width))
