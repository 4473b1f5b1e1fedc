"""Backends: what turns a captured graph into something that runs."""

from .compiling import Compiled, compile_graph
from .registry import Backend, lookup, names

__all__ = ["Backend", "Compiled", "compile_graph", "lookup", "names"]
