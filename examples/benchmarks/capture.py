"""How long capture takes with a backend that costs nothing (constant.py), for torchgraft and for torch.compile.

Each round executes the program's source anew, so that its functions, classes and code objects are fresh ones, forgets
what was compiled before, and times the first call, of one side and then of the other.

    python examples/benchmarks/capture.py             # exit status 1 if a goal is missed
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from constant import constant_backend
from timing import ratio, shown, table

import tracer

EXAMPLES = Path(__file__).resolve().parents[1]
GOAL = 1 / 2


def fresh_module(path: Path) -> types.ModuleType:
    """A module of its own from a source file."""
    return executed(path.read_text(encoding="utf-8"), str(path))


def executed(source: str, name: str) -> types.ModuleType:
    module = types.ModuleType("fresh")
    module.__file__ = name
    sys.modules["fresh"] = module  # dataclass() looks its class's module up
    exec(compile(source, name, "exec"), vars(module))
    return module


def gpt() -> tuple[Any, tuple[Any, ...]]:
    """Twelve layers, with the loss."""
    module = fresh_module(EXAMPLES / "gpt.py")
    model = module.GPT(module.Config(vocabulary=96, layers=12, width=64, context=32))
    tokens = torch.randint(96, (2, 32))
    return model, (tokens, tokens)


def resnet() -> tuple[Any, tuple[Any, ...]]:
    """The shape of ResNet-50, training."""
    module = fresh_module(EXAMPLES / "resnet.py")
    return module.ResNet(width=8, classes=10), (torch.randn(2, 3, 32, 32),)


def operators() -> tuple[Any, tuple[Any, ...]]:
    """Two hundred operators in a row."""
    kinds = ("x = x + y", "x = torch.sin(x)", "x = x * 0.5", "x = x.relu()", "y = x - y")
    body = "\n    ".join(kinds[i % len(kinds)] for i in range(200))
    module = executed(f"import torch\n\ndef function(x, y):\n    {body}\n    return x, y\n", "<200 operators>")
    return module.function, (torch.randn(8), torch.randn(8))


PROGRAMS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "12-layer GPT": gpt, "ResNet-50 shape": resnet, "200 operators": operators}


def ours(fn: Any) -> Any:
    return tracer.compile(fn, backend=constant_backend)


def theirs(fn: Any) -> Any:
    return torch.compile(fn, backend=constant_backend)


def first_call(make: Callable[[], tuple[Any, tuple[Any, ...]]], compiler: Callable[[Any], Any]) -> float:
    """Seconds of the first call of a fresh copy."""
    torch._dynamo.reset()
    tracer.reset()
    torch.manual_seed(0)
    fn, arguments = make()
    compiled = compiler(fn)
    gc.collect()
    start = time.perf_counter()
    compiled(*arguments)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tracer.install()
    rows, missed = [], 0
    for name, make in PROGRAMS.items():
        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        first_call(make, ours), first_call(make, theirs)  # what is imported and set up once is not capture
        for i in range(options.rounds):
            for side in ("ours", "theirs") if i % 2 else ("theirs", "ours"):
                times[side].append(first_call(make, ours if side == "ours" else theirs))
        found = ratio(times["ours"], times["theirs"])
        medians = [shown(statistics.median(times[side])) for side in ("ours", "theirs")]
        rows.append([name, *medians, f"{found:.3f}", f"{GOAL:.3f}", "yes" if found <= GOAL else "NO"])
        missed += found > GOAL
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, medians of {options.rounds} fresh captures\n")
    print(table(["time of capture", "torchgraft", "torch.compile", "ratio", "goal", "met"], rows))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
