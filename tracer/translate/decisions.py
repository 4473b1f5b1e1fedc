"""Callbacks that are told what is decided at each miss: a capture, a recompile, or that the call runs plain.

A hit decides nothing, so nothing is told of it and it costs nothing. Callbacks are called once the compile lock is free
again, before the fresh region runs, in the thread and within the call of the user's function.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from .. import log
from ..cache import BreakRecord, CodeState, EntryState, Recompile, Region
from ..errors import GraphBreak
from ..originals import original_code

#: frames between a callback and the user's: the slot's, the helper's, and some of ours
DEPTH = 24


@dataclass(frozen=True)
class Decision:
    """What was decided when no region fitted.

    decision: "capture" (the first region of an entry), "recompile" (another one) or "skip" (this call runs plain from
    here).  reason: for a skip why; for a recompile the guard that failed.
    code: the function's code as its author wrote it, `frame.f_code` being the grafted one.  offset: where in it the
    entry stands, which is what `f_lasti` is in plain Python.  line: the entry's.
    locals: a copy of the frame's, without temporaries of ours.
    region: the number of the new region.  recompile: as in `explain_recompiles`, where there was a region before.
    graph_break: why the region ends, or why there is none.
    """

    decision: str
    reason: str
    function: str
    filename: str
    line: int
    code: CodeType
    offset: int
    locals: dict[str, Any] = field(repr=False)
    region: int | None = None
    recompile: Recompile | None = None
    graph_break: BreakRecord | None = None


Callback = Callable[[FrameType, Decision], object]


class Pending:
    """One decision under way; this one is told to nobody."""

    def skip(self, reason: str) -> None:
        """It runs plain, and no capture was tried."""

    def noted(self, record: Recompile) -> None:
        """Why no region fits."""

    def broke(self, error: GraphBreak) -> None:
        """The capture met this break."""

    def settled(self, outcome: str, reason: str, made: Region | None) -> None:
        """What came of it, as in `Recompile`."""

    def tell(self) -> None:
        """It is decided."""


NOBODY = Pending()


class Decisions:
    """Who is told, and whether this thread is telling right now: decisions within a callback are told to nobody."""

    def __init__(self) -> None:
        self.callbacks: list[Callback] = []
        self._telling = threading.local()

    def about(self, state: CodeState, entry: EntryState | None, frame: FrameType | None = None) -> Pending:
        """A decision that begins. frame: the user's; without one it is looked for among the callers."""
        if not self.callbacks or getattr(self._telling, "on", False):
            return NOBODY
        frame = frame if frame is not None else users_frame(state)
        return NOBODY if frame is None else Told(self, state, entry, frame)

    def call(self, frame: FrameType, decision: Decision) -> None:
        self._telling.on = True
        try:
            for callback in list(self.callbacks):
                try:
                    callback(frame, decision)
                except Exception as error:
                    where = f"{decision.function} ({decision.filename}:{decision.line})"
                    log.errors.warning("%s: a callback of tracer.on_capture raised %s", where, log.told(error))
                    log.errors.debug("%s: a callback of tracer.on_capture raised", where, exc_info=error)
        finally:
            self._telling.on = False


def users_frame(state: CodeState) -> FrameType | None:
    """The innermost frame that runs this function: above the slot whose miss is served."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(DEPTH):
        if frame is None or original_code(frame.f_code) is state.original:
            return frame
        frame = frame.f_back
    return None


class Told(Pending):
    """One that somebody wants to know of."""

    def __init__(self, decisions: Decisions, state: CodeState, entry: EntryState | None, frame: FrameType) -> None:
        self._decisions, self._state, self._entry, self._frame = decisions, state, entry, frame
        self._again = entry is not None and bool(entry.regions)
        self._reason = ""
        self._region: Region | None = None
        self._record: Recompile | None = None
        self._break: BreakRecord | None = None
        self._outcome = "skip"

    def skip(self, reason: str) -> None:
        self._reason = reason

    def noted(self, record: Recompile) -> None:
        self._record = record

    def broke(self, error: GraphBreak) -> None:
        self._break = BreakRecord.of(error, -1 if self._entry is None else self._entry.index)

    def settled(self, outcome: str, reason: str, made: Region | None) -> None:
        self._outcome, self._reason = outcome, reason
        self._region = made

    def tell(self) -> None:
        state, record = self._state, self._record
        index = state.first if self._entry is None else self._entry.index
        if self._region is not None:
            decision = "recompile" if self._again else "capture"
            reason = record.why() if self._again and record is not None else ""
        else:
            decision, reason = "skip", self._why_not()
        found = Decision(
            decision, reason, state.name, state.filename, state.line if self._entry is None else self._entry.line,
            state.original, state.decoded.instructions[index].offset, locals_of(self._frame),
            None if self._region is None else self._region.compiled.number,
            dataclasses.replace(record) if record is not None and record.earlier is not None else None, self._break,
        )  # fmt: skip
        self._decisions.call(self._frame, found)

    def _why_not(self) -> str:
        if self._outcome == "skip":
            return self._reason
        parts = [self._outcome, self._reason]
        if self._break is not None and self._outcome == "nothing to compile":
            parts.append(": ".join(filter(None, ("graph break", self._break.title, self._break.details))))
        return ": ".join(filter(None, parts))


def locals_of(frame: FrameType) -> dict[str, Any]:
    """A frame's locals, without temporaries of ours, whose names no program can write."""
    found = frame.f_locals
    return {name: found[name] for name in list(found) if not name.startswith(".")}
