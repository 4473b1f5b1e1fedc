"""The contract of both ways to see function starts."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Protocol

from ..errors import TorchgraftError

#: Called with a code object that starts and its frame, whose arguments are bound; True: do not tell me again.
#: Must be idempotent: other tools can make a finished event fire again.
Watcher = Callable[[CodeType, FrameType], bool]


class NoToolId(TorchgraftError):
    """Every tool id of sys.monitoring that we may use is taken by another tool."""


class FunctionStarts(Protocol):
    """Tells watchers of the starts of single code objects. A resumed generator does not start.

    Code objects are watched by identity and held weakly; equal ones are not the same.
    """

    #: Before 3.13: are the locals in `f_locals` those of the frame, once the watcher has returned?
    writes_locals_back: bool

    def get_ready(self) -> None:
        """Raises NoToolId where nothing can be watched."""

    def watch(self, code: CodeType, watcher: Watcher) -> None:
        """From now on call `watcher` when this code object starts, in place of an earlier watcher of it."""

    def forget(self, code: CodeType) -> None:
        """No more calls for this code object."""

    def close(self) -> None:
        """Undo everything. Further calls of `watch` begin anew."""
