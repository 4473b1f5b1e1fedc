"""Compile a function, call it, see what was compiled."""

import torch

import tracer

tracer.install()


@tracer.compile
def step(x: torch.Tensor, weight: torch.Tensor, times: int) -> torch.Tensor:
    for i in range(times):
        x = torch.tanh(x @ weight) + i
    return x.mean(dim=0)


x, weight = torch.randn(4, 8), torch.randn(8, 8)
print(step(x, weight, 3))                  # captures, compiles, and runs compiled
print(step(x + 1, weight, 3))              # checks the guards and runs the same region
print(tracer.explain(step)(x, weight, 3))  # the region as the Python text that runs, its guards, its graph
