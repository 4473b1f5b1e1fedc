"""From a function's state to a report: copied out, so that it stays as it was when the call ended."""

from __future__ import annotations

import functools
import inspect
import re
from types import CodeType
from typing import Any

import torch
import torch.fx

from ..cache import CodeState, EntryState, Region, Registry
from ..interpreter.showing import argument_text, node_added
from .data import BreakReport, CodeLine, EntryReport, NodeRow, RegionReport, Report
from .recompiles import recompiles_of
from .words import counted

#: where a region's part of a slot's text begins
_REGION = re.compile(r"^    # region (\d+):", re.MULTILINE)


def report_on(
    state: CodeState,
    result: Any,
    registry: Registry,
    *,
    callees: bool = True,
    exception: BaseException | None = None,
    call_seconds: float | None = None,
    compile_seconds: float = 0.0,
    note: str = "",
    how: str = "",
) -> Report:
    """What is there now. The private copies of one compile are listed with its root, once each."""
    entries = [] if state.cold else [_entry(state, entry) for _, entry in sorted(state.entries.items())]
    breaks = [BreakReport.of(record) for record in state.breaks.values()]
    copies = state.family.live() if callees else ()
    if state.cold:
        note = f"not called often enough yet to be compiled ({counted(state.called, 'call')} so far)"
    inner = [report_on(copy, None, registry, callees=False) for copy in copies if copy is not state]
    return Report(
        state.name, state.filename, state.line, result, tuple(entries), tuple(breaks), tuple(state.errors),
        tuple(inner), exception, note, _bytecode(state), recompiles_of(state, callees=False), call_seconds,
        compile_seconds, source_of(state.original), how,
    )  # fmt: skip


def plain_report(
    fn: Any, result: Any, why: str, call_seconds: float | None = None, exception: BaseException | None = None
) -> Report:
    """Of a function that ran plain."""
    inner = fn
    while isinstance(inner, functools.partial):
        inner = inner.func
    code = getattr(getattr(inner, "forward", inner), "__code__", None)
    name, (filename, line) = getattr(inner, "__qualname__", type(inner).__qualname__), ("", 0)
    if code is not None:
        filename, line = code.co_filename, code.co_firstlineno
    return Report(name, filename, line, result, (), (), (why,), (), exception, call_seconds=call_seconds)


def compile_seconds(state: CodeState) -> float:
    """What captures and backends took for all regions that are there, those of private copies among them."""
    states = {id(each): each for each in (state, *state.family.live())}
    regions = [region for each in states.values() for region in each.regions]
    return sum(region.capture_seconds + region.backend_seconds for region in regions)


def source_of(code: CodeType) -> str:
    """The text of a function; "" where it is not to be had."""
    try:
        return inspect.getsource(code)
    except (OSError, TypeError, IndexError, SyntaxError):
        return ""


def _entry(state: CodeState, entry: EntryState) -> EntryReport:
    if entry.limit_told:
        what = "at its limit of regions"
    elif entry.dead:
        what = entry.figures[-1] if entry.figures else "nothing more is compiled here"
    elif entry.regions:
        what = counted(len(entry.regions), "region")
    else:
        what = f"reached {counted(entry.reached, 'time')}, nothing compiled yet"
    parts = _parts(entry.text)
    regions = tuple(_region(region, parts.get(region.compiled.number, "")) for region in entry.regions)
    offset = state.decoded.instructions[entry.index].offset
    return EntryReport(entry.index, entry.line, entry.text, what, regions, offset, entry.reached, entry.plain[0])


def _parts(text: str) -> dict[int, str]:
    """By a region's number, its part of a slot's text."""
    starts = list(_REGION.finditer(text))
    ends = [*(match.start() for match in starts[1:]), text.rfind("    return k_miss(")]
    return {int(match[1]): text[match.start() : end] for match, end in zip(starts, ends, strict=False)}


def _region(region: Region, text: str) -> RegionReport:
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
        trial=region.figures,
        remark=region.capture.remark,
        number=region.compiled.number,
        text=text,
        table=() if graph is None else tuple(map(_row, graph.graph.nodes)),
        notes=_notes(region),
    )


def _notes(region: Region) -> tuple[str, ...]:
    """Of its replay: what was clear when it was compiled, and what happened since."""
    remarks = () if region.capture.graph is None else region.capture.graph.remarks
    notes = getattr(region.compiled.call, "notes", None)
    return *remarks, *(() if notes is None else notes())


def _row(node: torch.fx.Node) -> NodeRow:
    found = node_added(node)
    return NodeRow(found.op, found.name, found.target, found.inputs, found.text, found.shape, found.dtype)


def _bytecode(state: CodeState) -> tuple[CodeLine, ...]:
    """The function's own code in canonical instructions, which is how texts of regions count."""
    decoded = state.decoded
    entries = {index for index, entry in state.entries.items() if entry.regions}
    landings = {region.capture.exit.landing for region in state.regions}
    breaks = {r.capture.exit.landing for r in state.regions if r.capture.graph_break is not None}
    places = {"entry": entries, "landing": landings, "break": breaks}
    lines = []
    for each in decoded.instructions:
        marks = [name for name, found in places.items() if each.index in found]
        text = argument_text(each)
        lines.append(CodeLine(each.index, each.offset, each.positions[0], each.opname, text, tuple(marks)))
    return tuple(lines)
