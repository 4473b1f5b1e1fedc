"""Discovery: functions of modules that the user names are opted in by themselves, when they start with tensors in hand.

`codes.py` finds code objects and functions, `hands.py` says what a frame was given, `targets.py` reads what the user
asks for, `importing.py` sees modules that are imported later, `discovery.py` watches and decides, `report.py` tells.
Above `events`; who opts in is a parameter, so nothing here knows how a function is compiled.
"""

from __future__ import annotations

from .discovery import Discovery
from .report import Discovered, FoundFunction
from .targets import Filter, Target

__all__ = ["Discovered", "Discovery", "Filter", "FoundFunction", "Target"]
