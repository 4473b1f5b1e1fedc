"""Compile a function, call it, see what was compiled: python examples/quickstart.py [--backend eager]"""

import argparse

import torch

import tracer

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--backend", help="any that torch.compile knows (default: inductor with a C++ compiler)")
tracer.install(parser.parse_args().backend)


@tracer.compile
def step(x: torch.Tensor, weight: torch.Tensor, times: int) -> torch.Tensor:
    for i in range(times):
        x = torch.tanh(x @ weight) + i
    return x.mean(dim=0)


x, weight = torch.randn(4, 8), torch.randn(8, 8)
print(step(x, weight, 3))                  # the first call captures, compiles and already runs compiled
print(step(x + 1, weight, 3))              # the second one checks its guards and runs the same region
print(tracer.explain(step)(x, weight, 2))  # another number of rounds is another region: their text, guards and graphs
