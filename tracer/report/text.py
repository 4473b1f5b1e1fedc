"""A report as text, line by line, each with what it is: colours in a terminal say the same again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import told_where
from .words import counted, took

if TYPE_CHECKING:
    from .data import BreakReport, CodeLine, EntryReport, RegionReport, Report

#: (what it is, the text)
Line = tuple[str, str]

#: as SGR parameters
COLOURS = {
    "head": "1", "entry": "1;36", "region": "1;32", "guard": "33", "effect": "35", "graph": "34", "break": "1;31",
    "hint": "36", "error": "1;31", "dim": "2", "recompile": "1;33",
}  # fmt: skip


def plain(lines: Iterable[Line]) -> str:
    return "\n".join(text for _, text in lines)


def coloured(lines: Iterable[Line]) -> str:
    return "\n".join(_painted(COLOURS.get(style, ""), text) for style, text in lines)


def _painted(code: str, text: str) -> str:
    stripped = text.lstrip(" ")
    indent = text[: len(text) - len(stripped)]
    return f"{indent}\x1b[{code}m{stripped}\x1b[0m" if code and stripped else text


def exception_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


# the whole report -----------------------------------------------------------------------------------------------------
def head(report: Report) -> str:
    return (
        f"{report.function} ({report.filename}:{report.line}): {counted(len(report.regions), 'region')}, "
        f"{counted(report.operators, 'operator')}, {counted(len(report.breaks), 'break')}"
    )


def _ending(report: Report) -> list[Line]:
    if report.exception is None:
        return []
    return [("error", f"  the call raised {exception_text(report.exception)}")]


def _why_nothing(report: Report) -> list[Line]:
    return [("error", f"  nothing is compiled: {reason}") for reason in report.why_nothing()]


def summary_lines(report: Report) -> list[Line]:
    lines: list[Line] = [("head", head(report)), *_ending(report), *_why_nothing(report)]
    seen: dict[str, str] = {}
    for each in (report, *report.callees):
        for met in each.breaks:
            seen.setdefault(_what(met), told_where(met.stack))
    lines += [("break", f"  break: {what}" + (f"   [{where}]" if where else "")) for what, where in seen.items()]
    if report.plain_calls:
        lines.append(("recompile", f"  {_ran_plain(report.plain_calls)}"))
    lines += [("head", f"  private copy of {head(callee)}") for callee in report.callees]
    return lines


def _ran_plain(count: int) -> str:
    return f"ran plain: {counted(count, 'time')} no region fitted and none was made"


def report_lines(report: Report) -> list[Line]:
    lines: list[Line] = [("head", head(report))]
    if report.note:
        lines.append(("hint", f"  {report.note}"))
    lines += [*_ending(report), *_numbers(report)]
    if report.note not in (why := report.why_nothing()) or len(why) > 1:
        lines += _why_nothing(report)
    for entry in report.entries:
        lines += entry_lines(entry)
    for met in report.breaks:
        lines += break_lines(met)
    lines += recompile_lines(report)
    lines += [("error", f"  error: {text}") for text in report.errors]
    lines += code_lines(report.bytecode)
    for callee in report.callees:
        first, *others = report_lines(callee)
        lines += [("head", f"  private copy of {first[1]}"), *((style, f"    {text}") for style, text in others)]
    return lines


def _numbers(report: Report) -> list[Line]:
    parts = [report.how] if report.how else []
    if report.call_seconds is not None:
        parts.append(f"this call took {took(report.call_seconds)}")
        if report.compile_seconds:
            parts[-1] += f", {took(report.compile_seconds)} of it captures and backends"
    if report.regions:
        parts.append(f"{counted(report.hits, 'hit')}, {_misses(report.misses)}")
    lines = [("dim", f"  {'; '.join(parts)}")] if parts else []
    if report.plain_calls:
        lines.append(("recompile", f"  {_ran_plain(report.plain_calls)}"))
    return lines


def _misses(n: int) -> str:
    return counted(n, "miss")


# its parts ------------------------------------------------------------------------------------------------------------
def entry_lines(entry: EntryReport) -> list[Line]:
    lines: list[Line] = [("entry", f"  entry {entry.index}, line {entry.line}: {entry.state}")]
    if entry.regions:
        code = entry.text.splitlines()
        lines += [("dim" if line.lstrip().startswith("#") else "", f"      {line}") for line in code]
    for region in entry.regions:
        lines += region_lines(region)
    return lines


def region_lines(region: RegionReport) -> list[Line]:
    lines: list[Line] = [(
        "region",
        f"    region {region.number} ({counted(region.hits, 'hit')}): {counted(region.operators, 'operator')}, "
        f"backend {region.backend or 'none'}, captured in {took(region.capture_seconds)}, "
        f"compiled in {took(region.backend_seconds)}",
    )]  # fmt: skip
    lines += [("", f"      {told}") for told in (region.trial, region.remark) if told]
    lines += [("", f"      replay: {note}") for note in region.notes]
    for text, line in region.guards:
        lines.append(("guard", f"      guard {text}" + ("" if line is None else f"   [{line}]")))
    lines += [("effect", f"      effect {text}") for text in region.effects]
    lines.append(("", f"      ends {region.ends}"))
    if region.graph:
        lines += [("graph", "      graph"), *(("", f"        {line}") for line in region.graph.strip().splitlines())]
        lines += [("dim", f"        {line}") for line in table(region)]
    return lines


def table(region: RegionReport) -> list[str]:
    """The graph's nodes in columns."""
    rows = [("node", "op", "target", "inputs", "result")]
    rows += [
        (row.name, row.op, row.target, ", ".join(row.inputs), " ".join(filter(None, (row.dtype, row.shape))))
        for row in region.table
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _what(met: BreakReport) -> str:
    return met.title + (f": {met.details}" if met.details else "")


def break_lines(met: BreakReport) -> list[Line]:
    lines: list[Line] = [("break", f"  break: {_what(met)} (met {counted(met.count, 'time')})")]
    lines += [("hint", f"    hint: {met.hint}")] if met.hint else []
    return [*lines, *(("dim", f"    at {line}") for line in reversed(met.stack))]


def recompile_lines(report: Report) -> list[Line]:
    found = report.recompiles
    if found is None or not found.recompiles:
        return []
    first, *others = found.lines()
    return [("recompile", f"  {first}"), *(("", f"  {line}") for line in others)]


def code_lines(code: Iterable[CodeLine]) -> list[Line]:
    """The function's own instructions, and what stands there."""
    lines: list[Line] = []
    before = None
    for each in code:
        where = f"{each.line}" if each.line != before and each.line is not None else ""
        marks = f"   <- {', '.join(each.marks)}" if each.marks else ""
        style = "break" if "break" in each.marks else "entry" if each.marks else "dim"
        lines.append((style, f"    {where:>5} {each.index:>5}  {each.opname:<22} {each.argument}".rstrip() + marks))
        before = each.line
    head = "  bytecode (line, canonical instruction; regions stand at entries, and end at landings)"
    return [("head", head), *lines] if lines else []
