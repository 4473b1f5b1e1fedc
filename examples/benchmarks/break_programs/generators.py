"""Generators: what runs between their yields is compiled, and whoever uses them sees generators."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import torch
from torch import Tensor

from .catalogue import ITEM, length, matrix, program, two


def listed(function: Callable[..., Iterator[Any]], *arguments: Any) -> Any:
    iterator = function(*arguments)
    return type(iterator).__name__, list(iterator)


def steps(k: int) -> tuple[Any, ...]:
    return *two(k), length(k)


@program("yield in a loop", steps, drive=listed, breaks=2, iterations=length)
def yields(x: Tensor, weight: Tensor, count: int) -> Iterator[Tensor]:
    for i in range(count):
        x = torch.tanh(x @ weight)
        x = x - x.mean()
        yield x * 2
        x = x + 0.1
        print("resumed", i)
        x = x.sin()


FACTORS = [torch.full((64,), factor) for factor in (0.5, 2.0, 0.25)]


def sending(function: Callable[..., Generator[Any, Any, Any]], *arguments: Any) -> Any:
    generator = function(*arguments)
    found = [next(generator)]
    found += map(generator.send, FACTORS)
    generator.close()
    return found


@program("send: what comes in is used", two, drive=sending, breaks=1, iterations=4)
def sent(x: Tensor, weight: Tensor) -> Generator[Tensor, Tensor, None]:
    total = torch.zeros(64)
    while True:
        x = torch.relu(x @ weight)
        total = total + x.mean(0)
        factor = yield total.tanh()
        x = x * factor + 0.1
        total = total * 0.5


def throwing(function: Callable[..., Generator[Any, Any, Any]], *arguments: Any) -> Any:
    generator = function(*arguments)
    found = [next(generator), generator.throw(ValueError("one")), next(generator), generator.throw(ValueError("two"))]
    generator.close()
    return found


@program("throw: handled in the generator, with tensor work", two, drive=throwing, breaks=1, iterations=4)
def thrown(x: Tensor, weight: Tensor) -> Generator[tuple[Tensor, str], None, None]:
    note = "none"
    while True:
        x = torch.sin(x @ weight)
        try:
            yield x.square(), note
            x = x + 1
            note = "plain"
        except ValueError as error:
            x = x.cos() - x.mean()
            note = str(error)
        x = x / x.norm()


def closing(function: Callable[..., Generator[Any, Any, Any]], *arguments: Any) -> Any:
    generator = function(*arguments)
    found = [next(generator), next(generator)]
    generator.close()
    return found


@program("close: finally with tensor work", lambda k: (*two(k), [None]), drive=closing, breaks=1, iterations=2)
def closed(x: Tensor, weight: Tensor, last: list[Any]) -> Generator[Tensor, None, None]:
    try:
        while True:
            x = torch.sigmoid(x @ weight)
            x = x - x.amin()
            yield x * 3
            x = x.tanh()
    finally:
        last[0] = (x.cos() + x.sin()).sum(0)


def inner(x: Tensor, count: int) -> Generator[Tensor, Any, Tensor]:
    total = torch.zeros(64)
    for _ in range(count):
        x = torch.roll(x.cos(), 1, 0)
        total = total + x.mean(0)
        yield total * 2
    return total.exp()


@program("yield from, with a return value", steps, drive=listed, breaks=3, iterations=length, around=4)
def delegating(x: Tensor, weight: Tensor, count: int) -> Generator[Tensor, Any, None]:
    x = torch.tanh(x @ weight)
    result = yield from inner(x, count)
    yield (result.log1p() * x).sum(0)


def with_value(function: Callable[..., Generator[Any, Any, Any]], *arguments: Any) -> Any:
    generator = function(*arguments)
    found = []
    while True:
        try:
            found.append(next(generator))
        except StopIteration as end:
            return found, end.value


@program("return with a value; .item() between yields", steps, drive=with_value, breaks=2, iterations=length,
         itself=(ITEM,))
def returning(x: Tensor, weight: Tensor, count: int) -> Generator[float, None, Tensor]:
    for _ in range(count):
        x = torch.tanh(x @ weight)
        size = (x.square().mean() + 1).sqrt().item()
        x = x * 0.5
        yield size
        x = x - x.mean()
    return x.exp().sum(0)


@program("a generator that is handed out", two, breaks=1, drive=lambda f, *a: [t for g in f(*a) for t in g],
         iterations=3, around=2)
def handed_out(x: Tensor, weight: Tensor) -> list[Iterator[Tensor]]:
    hidden = (x @ weight).tanh()
    return [inner(hidden.sin(), 3)]


def tokens(k: int) -> tuple[Any, ...]:
    return torch.randint(64, (1,)), matrix(), matrix() * 0.2, length(k) * 2


@program("token by token: argmax, .item(), yield", tokens, drive=listed, breaks=2, iterations=lambda k: length(k) * 2,
         itself=(ITEM,))
def sampling(token: Tensor, table: Tensor, weight: Tensor, limit: int) -> Iterator[int]:
    state = torch.zeros(1, 64)
    for _ in range(limit):
        state = torch.tanh(table[token] + state @ weight)
        logits = state @ table.t()
        token = logits.log_softmax(-1).argmax(-1)
        yield token.item()
