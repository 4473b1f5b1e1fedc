"""The pipeline of one compile: a miss or first start -> capture -> graph -> text -> slot; new entries after a break."""

from __future__ import annotations

from .places import is_worth_it, successors, take_arguments
from .serving import Translator

__all__ = ["Translator", "is_worth_it", "successors", "take_arguments"]
