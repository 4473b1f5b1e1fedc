"""The programs of the table in dynamic.py, by what changes from call to call."""

from __future__ import annotations

from . import changing_models, changing_numbers, changing_sizes, changing_structure
from .catalogue import CALLS, PROGRAMS, Program

assert changing_models and changing_numbers and changing_sizes and changing_structure

__all__ = ["CALLS", "PROGRAMS", "Program"]
