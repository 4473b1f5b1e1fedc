"""Being told when a function starts, before its first instruction runs. What differs between Pythons is in here.

`monitoring.py` (PEP 669) costs nothing for code that nobody watches; `settrace.py` works on every Python, and slows all
of it down while it is on.
"""

from __future__ import annotations

from .monitoring import MonitoringStarts
from .settrace import SetTraceStarts
from .starts import FunctionStarts, NoToolId, Watcher

__all__ = [
    "FunctionStarts", "MonitoringStarts", "NoToolId", "SetTraceStarts", "Watcher", "cheap_starts", "discovery_starts",
]  # fmt: skip


def cheap_starts() -> FunctionStarts | None:
    """The way that costs nothing elsewhere, or None where this Python has none."""
    return MonitoringStarts() if MonitoringStarts.available() else None


def discovery_starts() -> FunctionStarts:
    """Some way, whatever it costs: for starts of functions that were not opted in."""
    return cheap_starts() or SetTraceStarts()
