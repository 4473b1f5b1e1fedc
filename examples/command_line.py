"""What the examples that run several sides in turn ask of the command line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import torch

from tracer.backends import lookup

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def new_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all of them have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", help="any that torch.compile knows (default: inductor with a C++ compiler)")
    parser.add_argument("--threads", type=int, help="threads of torch (default: as many as torch takes)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--quick", action="store_true", help="very small, for a test")
    return parser


def parsed(parser: argparse.ArgumentParser, quick: Mapping[str, Any]) -> argparse.Namespace:
    """The options; `quick` are the values that `--quick` sets. Torch takes its threads."""
    options = parser.parse_args()
    for name, value in quick.items() if options.quick else ():
        setattr(options, name, value)
    options.backend = options.backend or lookup(None).name
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    return options
