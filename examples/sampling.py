"""Sample from a small GPT, token by token: a generator function, compiled with one decorator.

    python examples/sampling.py                            # Inductor where a C++ compiler is found
    python examples/sampling.py --backend eager --quick    # captured, but not compiled

`sample` yields each token as soon as it is drawn. It stays a generator function: its caller may send another
temperature into it, which recompiles nothing, or close it when it has read enough. Between two `yield`s the model and
the drawing run as a compiled region. torch.compile compiles no generator function; the model alone, compiled by it, is
measured for comparison. The tokens must be those of plain Python with the same seed, or the exit status is 1.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import torch
from command_line import CLOCKS, new_parser, parsed
from gpt import GPT, Config, Text
from torch import Tensor
from torch.nn import functional as F

import tracer

QUICK = {"tokens": 6, "rounds": 2, "layers": 1, "width": 16, "context": 8}
Sample = Generator[int, float | None, str]


@tracer.compile
def sample(model: Callable[..., tuple[Tensor, None]], prompt: Tensor, count: int, temperature: float = 0.8,
           top_k: int = 20) -> Sample:  # fmt: skip
    """The next tokens, one by one. What is sent in is the temperature from there on; returns why it ended."""
    window, drawn = prompt, 0
    try:
        while drawn < count:
            with torch.no_grad():
                logits, _ = model(window)
                best = torch.topk(logits[:, -1, :] / temperature, top_k)
                chosen = torch.multinomial(F.softmax(best.values, dim=-1), num_samples=1)
                token = best.indices.gather(1, chosen)
                window = torch.cat((window[:, 1:], token), dim=1)
            drawn += 1
            warmer = yield token.item()
            if warmer is not None:
                temperature = warmer
    finally:
        lengths.append(drawn)
    return f"all {drawn} tokens"


#: How many tokens each sample has drawn, also those that were closed.
lengths: list[int] = []


def read(samples: Sample, stop_after: int) -> tuple[list[int], int]:
    """Read the sample, warmer after every third token, and close it behind so many; with how many it says it drew."""
    tokens = [next(samples)]
    while len(tokens) < stop_after:
        tokens.append(samples.send(0.5 + len(tokens) / 100 if len(tokens) % 3 == 0 else None))
    samples.close()
    return tokens, lengths.pop()


@dataclass
class Side:
    """One way to sample."""

    name: str
    sample: Callable[..., Sample]
    model: Callable[..., tuple[Tensor, None]]
    seconds: list[float] = field(default_factory=list)

    def tokens(self, prompt: Tensor, count: int) -> list[int]:
        torch.manual_seed(3)
        found = list(self.sample(self.model, prompt, count))
        assert lengths.pop() == count
        return found

    def interrupted(self, prompt: Tensor, count: int) -> tuple[list[int], int]:
        torch.manual_seed(4)
        return read(self.sample(self.model, prompt, 10 * count), count)

    def run(self, prompt: Tensor, count: int, clock: Callable[[], float]) -> None:
        start = clock()
        self.tokens(prompt, count)
        self.seconds.append((clock() - start) / count)


def sides_of(options: argparse.Namespace, vocabulary: int) -> list[Side]:
    torch.manual_seed(0)
    model = GPT(Config(vocabulary, context=options.context, layers=options.layers, width=options.width)).eval()
    plain = tracer.original(sample)
    return [Side("eager", plain, model), Side("torchgraft", sample, model),
            Side("torch.compile (model)", plain, torch.compile(model, backend=options.backend))]


def same(sides: list[Side], prompt: Tensor, count: int) -> bool:
    """Do all sides draw the same tokens, read to their end and interrupted?"""
    eager, *others = sides
    good = True
    whole, interrupted = eager.tokens(prompt, count), eager.interrupted(prompt, count)
    for side in others:
        for what, found, expected in (("whole", side.tokens(prompt, count), whole),
                                      ("interrupted", side.interrupted(prompt, count), interrupted)):
            print(f"{side.name}, {what} sample: {'equal to' if found == expected else 'DIFFERS FROM'} eager's",
                  flush=True)
            good = good and found == expected
    return good


def measure(sides: list[Side], prompt: Tensor, options: argparse.Namespace) -> None:
    for i in range(options.rounds):
        start = i % len(sides)
        for side in sides[start:] + sides[:start]:
            side.run(prompt, options.tokens, CLOCKS[options.clock])
    eager = statistics.median(sides[0].seconds)
    print(f"\n{'':24}{'token':>10}{'tokens/s':>10}{'to eager':>10}")
    for side in sides:
        median = statistics.median(side.seconds)
        print(f"{side.name:24}{median * 1e3:8.3f}ms{1 / median:10.0f}{median / eager:10.3f}")
    odd, even = (statistics.median(sides[0].seconds[i::2]) for i in (0, 1))
    print(f"(medians of {options.rounds} rounds of {options.tokens} tokens in turn; noise: eager's odd and even rounds "
          f"{odd / even:.3f})")


def parse_options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--context", type=int, default=32)
    return parsed(parser, QUICK)


def main() -> int:
    options = parse_options()
    tracer.install(options.backend)
    text = Text()
    prompt = text.rest[:options.context][None]
    sides = sides_of(options, len(text.characters))
    print(f"backend {options.backend}, {torch.get_num_threads()} threads, torch {torch.__version__}", flush=True)
    assert inspect.isgeneratorfunction(sample)
    good = same(sides, prompt, options.tokens)
    compiled = tracer.counters()["compilations"]
    measure(sides, prompt, options)
    report = tracer.explain(sample)(sides[1].model, prompt, 1)
    for entry in report.entries:
        for region in entry.regions:
            print(f"sample, region at line {entry.line}: {region.operators} operators, {region.hits} runs")
    print(f"breaks: {', '.join(sorted({found.title for found in report.breaks}))}; compiled while it was measured: "
          f"{tracer.counters()['compilations'] - compiled}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
