"""FunctionStarts by `sys.settrace`: on every Python, at a price for all of it while something is watched.

A trace function that is there already is chained: it sees every event as before, and its local trace functions are
used. One that is set later takes over, as it would without us; then nothing is seen from here, and nothing breaks.
"""

from __future__ import annotations

import atexit
import dis
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from .starts import Watcher

#: after so many calls that are nobody's concern
_LOOK_AT_CLOCK = 4096


@dataclass(slots=True)
class _Watched:
    code: weakref.ref[CodeType]
    watcher: Watcher
    start: int | None = None


class _Trace:
    """The trace function itself: tells `starts` of calls, and passes all on to the one that was there before."""

    __slots__ = ("before", "looked", "quiet", "starts", "watched")

    def __init__(self, starts: SetTraceStarts, before: Callable[[FrameType, str, Any], Any] | None) -> None:
        self.starts: SetTraceStarts | None = starts
        self.before = before
        self.watched = starts._watched
        self.quiet, self.looked = 0, _LOOK_AT_CLOCK

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.starts is None:
            now: Any = sys.gettrace()
            if now is self:  # in a thread that could not be reached when it was all over
                before: Any = self.before
                sys.settrace(before)
        elif event == "call":
            if id(frame.f_code) in self.watched:
                self.starts._on_call(frame)
            else:
                self.quiet += 1
                if self.quiet > self.looked:
                    self.quiet = 0
                    self.starts._end_if_quiet()
        return None if self.before is None else self.before(frame, event, arg)


class SetTraceStarts:
    """See `FunctionStarts`. Sees the thread that watches first, and threads started after that.

    patience: when for so many seconds no watched function has started it ends by itself, until the next `watch`.
    None: it goes on.
    """

    writes_locals_back = True

    def __init__(self, patience: float | None = None) -> None:
        self._patience = patience
        self._told = time.monotonic()
        self._watched: dict[int, _Watched] = {}
        self._trace: _Trace | None = None  # of the thread that watched first
        self._trace_of_threads: _Trace | None = None  # of threads that start later

    @staticmethod
    def available() -> bool:
        return True

    def watch(self, code: CodeType, watcher: Watcher) -> None:
        key, watched = id(code), self._watched

        def gone(ref: weakref.ref[CodeType]) -> None:
            if key in watched and watched[key].code is ref:
                del watched[key]

        watched[key] = _Watched(weakref.ref(code, gone), watcher)
        self._told = time.monotonic()
        if self._trace is None:
            of_this_thread: Any = sys.gettrace()
            of_threads: Any = threading.gettrace()
            self._trace, self._trace_of_threads = _Trace(self, of_this_thread), _Trace(self, of_threads)
            threading.settrace(self._trace_of_threads)
            sys.settrace(self._trace)
            atexit.register(self._end)  # a trace function must not run while modules are emptied

    def get_ready(self) -> None:
        pass

    def forget(self, code: CodeType) -> None:
        self._watched.pop(id(code), None)

    def close(self) -> None:
        self._end()
        self._watched.clear()

    def _end(self) -> None:
        atexit.unregister(self._end)
        mine, of_threads = self._trace, self._trace_of_threads
        if mine is None or of_threads is None:
            return
        # Whoever chained us goes on through us: from now on that only passes things on.
        mine.starts = of_threads.starts = None
        before: Any = mine.before
        before_of_threads: Any = of_threads.before
        if sys.gettrace() is mine:
            sys.settrace(before)
        if threading.gettrace() is of_threads:
            threading.settrace(before_of_threads)
        self._trace = self._trace_of_threads = None

    def _end_if_quiet(self) -> None:
        if self._patience is not None and time.monotonic() - self._told > self._patience:
            self._end()

    def _on_call(self, frame: FrameType) -> None:
        watched = self._watched.get(id(frame.f_code))
        if watched is None:
            return
        self._told = time.monotonic()
        if watched.start is None:
            watched.start = _start_offset(frame.f_code)
        # A generator that goes on is a "call" too, at a later RESUME.
        if frame.f_lasti == watched.start and watched.watcher(frame.f_code, frame):
            self._watched.pop(id(frame.f_code), None)


def _start_offset(code: CodeType) -> int:
    """Where the first RESUME stands: there a frame is when its start is traced."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RESUME":
            return instruction.offset
    raise ValueError(f"{code.co_qualname} has no RESUME")
