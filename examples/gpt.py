"""A small GPT, written as people write them, and text to train it on that every Python ships."""

from __future__ import annotations

from dataclasses import dataclass
from pydoc_data import topics

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    vocabulary: int
    context: int = 64
    layers: int = 4
    heads: int = 4
    width: int = 128
    dropout: float = 0.0
    bias: bool = True


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=config.bias)
        self.out = nn.Linear(config.width, config.width, bias=config.bias)
        self.out_dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.size()
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(batch, length, width)
        return self.out_dropout(self.out(y))


class FeedForward(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.up = nn.Linear(config.width, 4 * config.width, bias=config.bias)
        self.down = nn.Linear(4 * config.width, config.width, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.down(F.gelu(self.up(x))))


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width, bias=config.bias)
        self.attention = Attention(config)
        self.feed_forward_norm = nn.LayerNorm(config.width, bias=config.bias)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        x = x + self.feed_forward(self.feed_forward_norm(x))
        return x


class GPT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocabulary, config.width)
        self.position_embedding = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width, bias=config.bias)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.token_embedding.weight
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        _, length = tokens.size()
        if length > self.config.context:
            raise ValueError(f"{length} tokens do not fit into a context of {self.config.context}")
        positions = torch.arange(length, device=tokens.device)
        x = self.dropout(self.token_embedding(tokens) + self.position_embedding(positions))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if targets is None:
            return self.head(x[:, [-1], :]), None
        logits = self.head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    @torch.no_grad()
    def generate(self, prompt: Tensor, count: int, temperature: float = 0.8, top_k: int = 20) -> Tensor:
        """Continue a prompt: the window moves on by one token at each step, and so keeps its length."""
        window = prompt[:, -self.config.context:]
        tokens = [prompt]
        for _ in range(count):
            logits, _ = self(window)
            logits = logits[:, -1, :] / temperature
            smallest = torch.topk(logits, top_k).values[:, [-1]]
            logits[logits < smallest] = -float("inf")
            following = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            tokens.append(following)
            window = torch.cat((window[:, 1:], following), dim=1)
        return torch.cat(tokens, dim=1)


class Text:
    """Python's own help texts, by characters; the last tenth is kept from training."""

    def __init__(self) -> None:
        text = "\n".join(topics.topics.values())
        self.characters = sorted(set(text))
        number = {character: i for i, character in enumerate(self.characters)}
        tokens = torch.tensor([number[character] for character in text])
        cut = len(tokens) * 9 // 10
        self.train, self.rest = tokens[:cut], tokens[cut:]

    def batch(self, size: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        starts = torch.randint(len(self.train) - length - 1, (size,), generator=generator).tolist()
        inputs = torch.stack([self.train[i:i + length] for i in starts])
        targets = torch.stack([self.train[i + 1:i + 1 + length] for i in starts])
        return inputs, targets

    def decode(self, tokens: Tensor) -> str:
        return "".join(self.characters[i] for i in tokens.tolist())
