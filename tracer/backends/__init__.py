"""Backends: what turns a captured graph into something that runs."""

from .compiling import Compiled, compile_graph
from .registry import Backend, lookup, names
from .straight import StraightCall

__all__ = ["Backend", "Compiled", "StraightCall", "compile_graph", "lookup", "names"]
