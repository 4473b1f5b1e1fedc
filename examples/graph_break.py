"""A function with graph breaks: what was compiled around them, and what torchgraft says about them.

    python examples/graph_break.py                      # backend eager: here it is the capture that counts
    python examples/graph_break.py --backend inductor

`clip` prints in its middle and branches on a tensor's value. Neither can be part of a graph, so a region ends there,
the function's own bytecode does the one thing, and a next region begins behind it.
"""

from __future__ import annotations

import argparse
import sys

import torch
from torch import Tensor

import tracer


def clip(x: Tensor, limit: float) -> Tensor:
    x = x - x.mean()
    norm = x.square().sum().sqrt()
    print("the norm is measured")
    scaled = x * (limit / norm)
    if norm > limit:
        return torch.relu(scaled) + 1
    return torch.relu(x) + 1


def clip_in_one_graph(x: Tensor, limit: float) -> Tensor:
    """The same without breaks: no print, and the branch is a `torch.where`."""
    x = x - x.mean()
    norm = x.square().sum().sqrt()
    return torch.relu(torch.where(norm > limit, x * (limit / norm), x)) + 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="eager", help="any that torch.compile knows (default: eager)")
    options = parser.parse_args()
    tracer.install(backend=options.backend)
    small, large = torch.linspace(-0.1, 0.2, 6), torch.linspace(-3, 5, 6)

    expected = {x: clip(x, 1.0) for x in (small, large)}

    compiled = tracer.compile(clip, inplace=False)
    for x in (small, large) * 3:  # what follows a break is compiled when it is reached a second time
        torch.testing.assert_close(compiled(x, 1.0), expected[x])
    print(f"\nWhat runs now:\n{tracer.explain(compiled)(large, 1.0)}")

    strict = tracer.compile(clip, fullgraph=True, inplace=False)
    try:
        strict(large, 1.0)
    except tracer.GraphBreak as refused:
        print(f"\nWith fullgraph=True the first break is an error:\n{refused}")

    whole = tracer.compile(clip_in_one_graph, fullgraph=True)
    for x in (small, large):
        torch.testing.assert_close(whole(x, 1.0), expected[x])
    report = tracer.explain(whole)(large, 1.0)
    print(f"\nWithout print and branch: {len(report.regions)} region, {len(report.breaks)} breaks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
