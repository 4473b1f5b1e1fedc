"""From a function's state to a report: copied out, so that it stays as it was when the call ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..cache import BreakRecord, CodeState, EntryState, Region, Registry
from ..errors import UserLine


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


@dataclass(frozen=True)
class RegionReport:
    """One region. `guards`: each condition in words, with the user's line that needs it."""

    guards: tuple[tuple[str, UserLine | None], ...]
    graph: str
    operators: int
    effects: tuple[str, ...]
    ends: str
    backend: str
    hits: int
    capture_seconds: float
    backend_seconds: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"    region ({_counted(self.hits, 'hit')}): {_counted(self.operators, 'operator')}, "
                 f"backend {self.backend or 'none'}, captured in {1e3 * self.capture_seconds:.1f} ms, "
                 f"compiled in {1e3 * self.backend_seconds:.1f} ms"]
        lines += [f"      guard {text}" + ("" if line is None else f"   [{line}]") for text, line in self.guards]
        lines += [f"      effect {text}" for text in self.effects]
        lines.append(f"      ends {self.ends}")
        lines += [f"      replay {note}" for note in self.notes]
        if self.graph:
            lines += ["      graph", *(f"        {line}" for line in self.graph.strip().splitlines())]
        return "\n".join(lines)


@dataclass(frozen=True)
class EntryReport:
    """One entry: the text behind it is what runs there."""

    index: int
    line: int
    text: str
    state: str
    regions: tuple[RegionReport, ...]

    def __str__(self) -> str:
        lines = [f"  entry {self.index}, line {self.line}: {self.state}"]
        if self.regions:
            lines += [f"      {line}" for line in self.text.splitlines()]
        return "\n".join([*lines, *map(str, self.regions)])


@dataclass(frozen=True)
class BreakReport:
    """A graph break: why, where, what to do, and how often a capture met it."""

    title: str
    details: str
    hint: str
    stack: tuple[UserLine, ...]
    count: int

    @classmethod
    def of(cls, record: BreakRecord) -> BreakReport:
        return cls(record.title, record.details, record.hint, record.stack, record.count)

    def __str__(self) -> str:
        text = f"  break: {self.title}" + (f": {self.details}" if self.details else "")
        lines = [f"{text} (met {_counted(self.count, 'time')})", *([f"    hint: {self.hint}"] if self.hint else [])]
        return "\n".join([*lines, *(f"    at {line}" for line in reversed(self.stack))])


@dataclass(frozen=True)
class Report:
    """What is compiled of one function. `result` is what the explained call gave, `exception` what it raised instead.

    `regions`, `entries`, `breaks` and `callees` (private copies of callees that broke) hold what is printed.
    """

    function: str
    filename: str
    line: int
    result: Any
    entries: tuple[EntryReport, ...]
    breaks: tuple[BreakReport, ...]
    errors: tuple[str, ...]
    callees: tuple[Report, ...]  # private copies of callees that broke
    exception: BaseException | None = None
    note: str = ""

    @property
    def regions(self) -> tuple[RegionReport, ...]:
        return tuple(region for entry in self.entries for region in entry.regions)

    def summary(self) -> str:
        """A line for each function, the breaks by title, and what the call raised."""
        lines = [self._head(), *self._ending()]
        seen: dict[str, UserLine | None] = {}
        for report in (self, *self.callees):
            for met in report.breaks:
                where = met.stack[-1] if met.stack else None
                seen.setdefault(met.title + (f": {met.details}" if met.details else ""), where)
        lines += [f"  break: {what}" + ("" if line is None else f"   [{line}]") for what, line in seen.items()]
        lines += [f"  private copy of {callee._head()}" for callee in self.callees]
        return "\n".join(lines)

    def _head(self) -> str:
        operators = sum(region.operators for region in self.regions)
        return (f"{self.function} ({self.filename}:{self.line}): {_counted(len(self.regions), 'region')}, "
                f"{_counted(operators, 'operator')}, {_counted(len(self.breaks), 'break')}")

    def _ending(self) -> list[str]:
        if self.exception is None:
            return []
        return [f"  the call raised {type(self.exception).__name__}: {self.exception}"]

    def __str__(self) -> str:
        lines = [self._head(), *([f"  {self.note}"] if self.note else []), *self._ending()]
        lines += map(str, self.entries)
        lines += map(str, self.breaks)
        lines += [f"  error: {text}" for text in self.errors]
        for callee in self.callees:
            first, *others = str(callee).splitlines()
            lines += [f"  private copy of {first}", *(f"    {line}" for line in others)]
        return "\n".join(lines)


def report_on(
    state: CodeState,
    result: Any,
    registry: Registry,
    *,
    callees: bool = True,
    exception: BaseException | None = None,
) -> Report:
    """What is there now. The private copies of one compile are listed with its root, once each."""
    entries = [] if state.cold else [_entry(entry) for _, entry in sorted(state.entries.items())]
    breaks = [BreakReport.of(record) for record in state.breaks.values()]
    copies = state.family.live() if callees else ()
    note = ""
    if state.cold:
        note = f"not called often enough yet to be compiled ({_counted(state.called, 'call')} so far)"
    inner = [report_on(copy, None, registry, callees=False) for copy in copies if copy is not state]
    return Report(
        state.name, state.filename, state.line, result, tuple(entries), tuple(breaks), tuple(state.errors),
        tuple(inner), exception, note,
    )  # fmt: skip


def plain_report(fn: Any, result: Any, why: str) -> Report:
    """Of a function that ran plain."""
    code = getattr(getattr(fn, "forward", fn), "__code__", None)
    name, (filename, line) = getattr(fn, "__qualname__", type(fn).__qualname__), ("", 0)
    if code is not None:
        filename, line = code.co_filename, code.co_firstlineno
    return Report(name, filename, line, result, (), (), (why,), ())


def _entry(entry: EntryState) -> EntryReport:
    if entry.limit_told:
        what = "at its limit of regions"
    elif entry.dead:
        what = "nothing more is compiled here"
    elif entry.regions:
        what = _counted(len(entry.regions), "region")
    else:
        what = f"reached {_counted(entry.reached, 'time')}, nothing compiled yet"
    return EntryReport(entry.index, entry.line, entry.text, what, tuple(map(_region, entry.regions)))


def _region(region: Region) -> RegionReport:
    captured = region.capture
    ends = f"at instruction {captured.exit.landing}"
    if captured.graph_break is not None:
        ends += f", because of a break: {captured.graph_break.title}"
    graph = captured.graph
    return RegionReport(
        guards=tuple((str(guard), guard.line) for guard in captured.guards),
        graph="" if graph is None else graph.module.code,
        operators=0 if graph is None else graph.operators,
        effects=(*captured.setup, *captured.effects),
        ends=ends,
        backend=region.backend,
        hits=region.hits,
        capture_seconds=region.capture_seconds,
        backend_seconds=region.backend_seconds,
        notes=tuple(notes()) if (notes := getattr(region.compiled.call, "notes", None)) is not None else (),
    )
