"""An asyncio server loop that batches requests: an `async def` with a queue, compiled with one decorator.

    python examples/server.py                            # Inductor where a C++ compiler is found
    python examples/server.py --backend eager --quick    # captured, but not compiled

`serve` waits for a request, takes what else is in the queue, stacks it, calls the model and gives each request its
answer, until it is cancelled. It is started once, stays a coroutine function, and runs compiled in its own frame: each
`await` is a graph break, and so is reading the answers; from one to the other the loop's body is one region. Answers
must be those of plain Python, within a tolerance that is 0 with the backend "eager", or the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import statistics
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from command_line import CLOCKS, new_parser, parsed
from torch import Tensor, nn

import tracer

QUICK = {"requests": 6, "clients": 6, "most": 4, "rounds": 2, "width": 16}
Answer = tuple[int, float]


@dataclass
class Request:
    features: Tensor
    answer: asyncio.Future[Answer]


Requests = asyncio.Queue[Request]


@tracer.compile
async def serve(model: Callable[[Tensor], Tensor], requests: Requests, most: int, sizes: list[int]) -> None:
    """Answer requests, up to so many at a time; the sizes of the batches are noted."""
    try:
        while True:
            batch = [await requests.get()]
            while len(batch) < most and not requests.empty():
                batch.append(await requests.get())
            with torch.no_grad():
                inputs = torch.stack([request.features for request in batch])
                inputs = (inputs - inputs.mean(dim=1, keepdim=True)) / inputs.std(dim=1, keepdim=True)
                best = torch.softmax(model(inputs), dim=1).max(dim=1)
            for request, label, score in zip(batch, best.indices.tolist(), best.values.tolist(), strict=True):
                request.answer.set_result((label, score))
            sizes.append(len(batch))
    finally:
        print(f"  served {sum(sizes)} requests in {len(sizes)} batches of {sorted(set(sizes))}")


async def client(requests: Requests, features: Sequence[Tensor], answers: list[Answer]) -> None:
    """One request after the other, each when the one before is answered."""
    for row in features:
        request = Request(row, asyncio.get_running_loop().create_future())
        await requests.put(request)
        answers.append(await request.answer)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + nn.functional.silu(self.linear(self.norm(x)))


def network(width: int, layers: int, labels: int = 10) -> nn.Sequential:
    return nn.Sequential(*(Block(width) for _ in range(layers)), nn.Linear(width, labels)).eval()


@dataclass
class Side:
    """One way to serve."""

    name: str
    serve: Callable[..., Coroutine[Any, Any, None]]
    model: Callable[[Tensor], Tensor]
    answers: list[list[Answer]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def run(self, features: Sequence[Sequence[Tensor]], options: argparse.Namespace) -> None:
        """Serve these clients, each with requests of its own; the time of one request is noted."""
        clock = CLOCKS[options.clock]
        asyncio.run(self._run(features, options.most, clock))
        self.seconds[-1] /= sum(map(len, features))

    async def _run(self, features: Sequence[Sequence[Tensor]], most: int, clock: Callable[[], float]) -> None:
        requests: Requests = asyncio.Queue()
        self.answers = [[] for _ in features]
        server = asyncio.create_task(self.serve(self.model, requests, most, []))
        start = clock()
        await asyncio.gather(*(client(requests, *pair) for pair in zip(features, self.answers, strict=True)))
        self.seconds.append(clock() - start)
        server.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await server


def furthest(one: Side, other: Side) -> float:
    """The largest difference of two scores of the same request; infinite where labels differ."""
    pairs = [pair for both in zip(one.answers, other.answers, strict=True) for pair in zip(*both, strict=True)]
    if any(a[0] != b[0] for a, b in pairs):
        return float("inf")
    return max(abs(a[1] - b[1]) for a, b in pairs)


def tell(sides: Sequence[Side], options: argparse.Namespace) -> None:
    eager = statistics.median(sides[0].seconds)
    print(f"\n{'':24}{'request':>10}{'requests/s':>12}{'to eager':>10}")
    for side in sides:
        median = statistics.median(side.seconds)
        print(f"{side.name:24}{median * 1e3:8.3f}ms{1 / median:12.0f}{median / eager:10.3f}")
    odd, even = (statistics.median(sides[0].seconds[i::2]) for i in (0, 1))
    print(f"(medians of {options.rounds} rounds in turn; noise: eager's odd and even rounds {odd / even:.3f})")
    print(f"regions: {tracer.counters()['regions']}, breaks: {', '.join(sorted(tracer.counters()['breaks']))}")


def parse_options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--requests", type=int, default=20, help="requests of each client")
    parser.add_argument("--most", type=int, default=8, help="requests of a batch")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=64)
    return parsed(parser, QUICK)


def main() -> int:
    options = parse_options()
    tracer.install(options.backend)
    assert inspect.iscoroutinefunction(serve)
    torch.manual_seed(0)
    model = network(options.width, options.layers)
    plain = tracer.original(serve)
    sides = [Side("eager", plain, model), Side("torchgraft", serve, model),
             Side("torch.compile (model)", plain, torch.compile(model, backend=options.backend))]
    tolerance = 0.0 if options.backend == "eager" else 1e-5
    print(f"backend {options.backend}, {torch.get_num_threads()} threads, torch {torch.__version__}", flush=True)
    good = True
    for i in range(options.rounds + 2):  # two are warm-up
        features = torch.randn(options.clients, options.requests, options.width).unbind()
        for side in sides[i % 3:] + sides[:i % 3]:
            with contextlib.redirect_stdout(None) if i or side is sides[2] else contextlib.nullcontext():
                side.run(features, options)
        good = good and all(furthest(sides[0], side) <= tolerance for side in sides[1:])
    for side in sides:
        del side.seconds[:2]
    print(f"every answer {'equal to' if good else 'MUST BE, BUT IS NOT, EQUAL TO'} eager's (tolerance {tolerance:g})")
    tell(sides, options)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
