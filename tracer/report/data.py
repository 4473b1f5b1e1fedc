"""What a report holds: frozen data, copied out of a function's state, with the three ways to show it.

`text.py` makes text of it, `html.py` a page, `to_dict` what JSON takes.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from ..cache import BreakRecord
from ..errors import UserLine
from . import html
from . import text as words_of
from .recompiles import RecompileReport


@dataclass(frozen=True)
class NodeRow:
    """A row of a graph's table. op: torch.fx's.  code: the node as a line of Python.  shape, dtype: of its result."""

    op: str
    name: str
    target: str
    inputs: tuple[str, ...]
    code: str
    shape: str
    dtype: str


@dataclass(frozen=True)
class RegionReport:
    """One region. number: as its text and `explain_recompiles` give it.  text: its part of the slot's text.

    guards: each condition in words, with the user's line that needs it.  graph: its code.  table: its nodes.
    hits: how often it ran.  seconds: what its capture and its backend took.
    trial: how a small region did against the original bytecode.
    remark: what there is to say of how it was captured.
    notes: of a region with replay, its recordings, and what was not replayed and why.
    """

    guards: tuple[tuple[str, UserLine | None], ...]
    graph: str
    operators: int
    effects: tuple[str, ...]
    ends: str
    backend: str
    hits: int
    capture_seconds: float
    backend_seconds: float
    number: int = 0
    text: str = ""
    table: tuple[NodeRow, ...] = ()
    trial: str = ""
    remark: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EntryReport:
    """One entry: the text behind it is what runs there.

    offset: of its instruction in the function's own code.  misses: how often no region fitted.  plain: how often none
    did since the entry gets no more: it is at its limit, or nothing more is compiled there.
    """

    index: int
    line: int
    text: str
    state: str
    regions: tuple[RegionReport, ...]
    offset: int = 0
    misses: int = 0
    plain: int = 0


@dataclass(frozen=True)
class BreakReport:
    """A graph break: why, where, what to do, and how often a capture met it."""

    title: str
    details: str
    hint: str
    stack: tuple[UserLine, ...]
    count: int
    entry: int = 0

    @classmethod
    def of(cls, record: BreakRecord) -> BreakReport:
        return cls(record.title, record.details, record.hint, record.stack, record.count, record.entry)

    def __str__(self) -> str:
        return "\n".join(line for _, line in words_of.break_lines(self))


@dataclass(frozen=True)
class CodeLine:
    """A canonical instruction of the function. marks: what stands there: "entry", "landing", "break"."""

    index: int
    offset: int
    line: int | None
    opname: str
    argument: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """What is compiled of one function. `result` is what the explained call gave, `exception` what it raised instead.

    `regions`, `entries`, `breaks`, `recompiles`, `bytecode` and `callees` (private copies of callees that broke) hold
    what is printed. call_seconds: what the explained call took, compile_seconds: what of that went into captures and
    backends.  source: the function's text, where it can be had.  how: what the call was, if it was run to its end.

    In a terminal `print(report)` has colours (not with NO_COLOR in the environment); `report.text()` never has.
    """

    function: str
    filename: str
    line: int
    result: Any
    entries: tuple[EntryReport, ...]
    breaks: tuple[BreakReport, ...]
    errors: tuple[str, ...]
    callees: tuple[Report, ...]
    exception: BaseException | None = None
    note: str = ""
    bytecode: tuple[CodeLine, ...] = ()
    recompiles: RecompileReport | None = None
    call_seconds: float | None = None
    compile_seconds: float = 0.0
    source: str = field(default="", repr=False)
    how: str = ""

    @property
    def regions(self) -> tuple[RegionReport, ...]:
        return tuple(region for entry in self.entries for region in entry.regions)

    @property
    def operators(self) -> int:
        return sum(region.operators for region in self.regions)

    @property
    def hits(self) -> int:
        return sum(region.hits for region in self.regions)

    @property
    def misses(self) -> int:
        """How often no region fitted, and a capture was tried or a reason not to was found."""
        return sum(entry.misses for entry in self.entries)

    @property
    def plain_calls(self) -> int:
        """How often an entry that gets no more regions was reached by what none of them fits."""
        return sum(entry.plain for entry in self.entries)

    def why_nothing(self) -> tuple[str, ...]:
        """Why nothing is compiled, in words, if so; else nothing."""
        if self.regions or any(callee.regions for callee in self.callees):
            return ()
        found = [self.note] if self.note else []
        found += self.errors
        found += [f"graph break: {b.title}" + (f": {b.details}" if b.details else "") for b in self.breaks]
        if self.recompiles is not None:
            reasons = [": ".join(filter(None, (r.outcome, r.reason))) for r in self.recompiles.not_compiled]
            found += [reason for reason in dict.fromkeys(reasons) if reason]
        if not found and any(entry.misses for entry in self.entries):
            found.append("the captures found no operator on tensors that a region could run")
        if not found and self.exception is not None:
            found.append("the call raised before anything was captured")
        return tuple(found) or ("no call of it has come to an entry yet",)

    # showing --------------------------------------------------------------------------------------------------------
    def summary(self) -> str:
        """A line for each function, the breaks by title, what the call raised, and why nothing is compiled, if so."""
        return words_of.plain(words_of.summary_lines(self))

    def text(self, *, colour: bool = False) -> str:
        """All of it."""
        lines = words_of.report_lines(self)
        return words_of.coloured(lines) if colour else words_of.plain(lines)

    def __str__(self) -> str:
        return self.text(colour=in_terminal())

    def _repr_html_(self) -> str:
        return html.fragment(self)

    @overload
    def to_html(self) -> str: ...

    @overload
    def to_html(self, path: str | os.PathLike[str]) -> Path: ...

    def to_html(self, path: str | os.PathLike[str] | None = None) -> Path | str:
        """One self-contained page, written to `path`, which it gives; without a path it gives the page's text."""
        if path is None:
            return html.page(self)
        written = Path(path)
        written.write_text(html.page(self), encoding="utf-8")
        return written

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON takes it.

        Keys: function, filename, line, source; result (its type) and exception (its text), or None; note; how; errors;
        hits, misses, plain_calls, operators; seconds: {call, compile}; why_nothing; bytecode, entries (with regions,
        and these with guards and graph), breaks, recompiles, callees: lists of what the dataclasses of the same name
        hold. A user's line is {filename, line, function}.
        """
        return {
            "function": self.function, "filename": self.filename, "line": self.line, "source": self.source,
            "result": None if self.result is None else type(self.result).__qualname__,
            "exception": None if self.exception is None else words_of.exception_text(self.exception),
            "note": self.note, "how": self.how, "errors": list(self.errors), "operators": self.operators,
            "hits": self.hits, "misses": self.misses, "plain_calls": self.plain_calls,
            "seconds": {"call": self.call_seconds, "compile": self.compile_seconds},
            "why_nothing": list(self.why_nothing()),
            "bytecode": [plain_data(line) for line in self.bytecode],
            "entries": [_entry(entry) for entry in self.entries],
            "breaks": [plain_data(met) for met in self.breaks],
            "recompiles": [] if self.recompiles is None else [plain_data(r) for r in self.recompiles.recompiles],
            "callees": [callee.to_dict() for callee in self.callees],
        }  # fmt: skip


def _entry(entry: EntryReport) -> dict[str, Any]:
    found: dict[str, Any] = plain_data(entry)
    for region, data in zip(entry.regions, found["regions"], strict=True):
        data["guards"] = [{"text": guard, "needed_by": plain_data(line)} for guard, line in region.guards]
        data["graph"] = {"code": data.pop("graph"), "table": data.pop("table")}
    return found


def plain_data(value: Any) -> Any:
    """Dataclasses as dicts, tuples as lists."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [plain_data(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain_data(item) for key, item in value.items()}
    return value


def in_terminal() -> bool:
    """Does what is printed now go to a terminal that shows colours?"""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):  # None, or closed
        return False


__all__ = ["BreakReport", "CodeLine", "EntryReport", "NodeRow", "RegionReport", "Report", "in_terminal"]
