"""A function with a graph break: what stands before and after it is compiled, and the break is explained.

    python examples/graph_break.py
"""

from __future__ import annotations

import torch
from torch import Tensor

import tracer


def normalize(x: Tensor, verbose: bool) -> Tensor:
    x = x - x.mean()
    scale = x.abs().max().item()  # a Python number from a tensor's value: the graph ends here, and a next one begins
    if verbose:
        print(f"scaled by {scale:.3f}")
    return torch.relu(x / scale) + 1


def main() -> None:
    tracer.install(backend="eager")
    compiled = tracer.compile(normalize, inplace=False)
    x = torch.linspace(-3, 5, 6)
    for verbose in (True, False, True):
        assert torch.equal(compiled(x, verbose), normalize(x, verbose)), "compiled and plain must agree"

    print(f"\n{tracer.explain(compiled)(x, True)}\n")

    strict = tracer.compile(normalize, fullgraph=True, inplace=False)
    try:
        strict(x, False)
    except tracer.GraphBreak as broken:
        print(f"with fullgraph=True:\n{broken}")


if __name__ == "__main__":
    main()
