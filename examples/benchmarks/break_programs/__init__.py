"""The programs of the table in breaks.py, by topic. Each is a small function as people write them."""

from __future__ import annotations

from . import callees, coroutines, exceptions, flow, generators, loops, managers, opaque
from .catalogue import PROGRAMS, Program

assert callees and coroutines and exceptions and flow and generators and loops and managers and opaque

__all__ = ["PROGRAMS", "Program"]
