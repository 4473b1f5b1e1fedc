"""Backends: what turns a captured graph into something that runs."""

from .compiling import Compiled
from .registry import Backend, lookup, names
from .replay import free_all as free_recordings
from .replay import totals as replay_totals
from .straight import StraightCall
from .whole import compile_graph

__all__ = [
    "Backend", "Compiled", "StraightCall", "compile_graph", "free_recordings", "lookup", "names", "replay_totals",
]  # fmt: skip
