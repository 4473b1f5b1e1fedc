"""FunctionStarts by PEP 669 (`sys.monitoring`, Python 3.12 and later): local PY_START events, nothing global.

Global events together with threads in generators can crash CPython, and would cost every function of the program.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass
from types import CodeType
from typing import Any

from .starts import NoToolId, Watcher

monitoring: Any = getattr(sys, "monitoring", None)
TOOL_NAME = "torchgraft"
#: 0, 1 and 2 belong to debuggers, coverage and profilers; 6 and 7 to the interpreter.
_IDS = (5, 3, 4)


@dataclass(slots=True)
class _Watched:
    code: weakref.ref[CodeType]
    watcher: Watcher


class MonitoringStarts:
    """See `FunctionStarts`. The tool id is taken at the first `watch` and freed by `close`."""

    writes_locals_back = False

    def __init__(self) -> None:
        self._tool: int | None = None
        self._watched: dict[int, _Watched] = {}

    @staticmethod
    def available() -> bool:
        return monitoring is not None

    @property
    def tool(self) -> int | None:
        return self._tool

    def get_ready(self) -> None:
        if self._tool is None:
            self._tool = _take_tool_id()
            monitoring.register_callback(self._tool, monitoring.events.PY_START, self._on_start)

    def watch(self, code: CodeType, watcher: Watcher) -> None:
        self.get_ready()
        key, watched = id(code), self._watched

        def gone(ref: weakref.ref[CodeType]) -> None:
            if key in watched and watched[key].code is ref:
                del watched[key]

        watched[key] = _Watched(weakref.ref(code, gone), watcher)
        # Off and on again: a location that an earlier watcher was done with is disabled until then.
        monitoring.set_local_events(self._tool, code, 0)
        monitoring.set_local_events(self._tool, code, monitoring.events.PY_START)

    def forget(self, code: CodeType) -> None:
        if self._watched.pop(id(code), None) is not None:
            monitoring.set_local_events(self._tool, code, 0)

    def close(self) -> None:
        if self._tool is None:
            return
        for watched in list(self._watched.values()):
            code = watched.code()
            if code is not None:  # freeing the tool id alone would leave it firing for whoever takes the id next
                monitoring.set_local_events(self._tool, code, 0)
        self._watched.clear()
        monitoring.register_callback(self._tool, monitoring.events.PY_START, None)
        monitoring.free_tool_id(self._tool)
        self._tool = None

    def _on_start(self, code: CodeType, offset: int) -> Any:
        watched = self._watched.get(id(code))
        if watched is None or watched.watcher(code, sys._getframe(1)):
            return monitoring.DISABLE
        return None


def _take_tool_id() -> int:
    for tool in _IDS:
        if monitoring.get_tool(tool) is not None:
            continue
        try:
            monitoring.use_tool_id(tool, TOOL_NAME)
        except ValueError:  # another thread was faster
            continue
        return tool
    taken = ", ".join(f"{tool}: {monitoring.get_tool(tool)}" for tool in _IDS)
    raise NoToolId(f"no tool id of sys.monitoring is free ({taken}); turn one of these tools off, or free its id")
