"""A report as HTML: a fragment for notebooks, whose style touches nothing else, and a self-contained page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserLine
from .text import exception_text
from .words import counted, took

if TYPE_CHECKING:
    from .data import BreakReport, EntryReport, RegionReport, Report


@cache
def _style() -> str:
    return (Path(__file__).parent / "assets" / "report.css").read_text(encoding="utf-8")


def page(report: Report) -> str:
    """One file: no script, nothing from elsewhere."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(report.function)}: what torchgraft compiled</title>"
        "<style>body{margin:0 auto;padding:24px;max-width:1100px;background:#fff}"
        "@media (prefers-color-scheme:dark){body{background:#12151c}}</style></head>"
        f"<body>{fragment(report)}</body></html>\n"
    )


def fragment(report: Report) -> str:
    """What a notebook shows."""
    return f'<div class="tg-report"><style>{_style()}</style>{_body(report)}</div>'


def _body(report: Report) -> str:
    parts = [
        f"<h2>{escape(report.function)}</h2>",
        f'<div class="where">{escape(report.filename)}:{report.line}</div>',
        _facts(report),
        *(f'<p class="notice error">nothing is compiled: {escape(why)}</p>' for why in report.why_nothing()),
    ]
    if report.note and report.note not in report.why_nothing():
        parts.append(f'<p class="notice hint">{escape(report.note)}</p>')
    if report.how:
        parts.append(f'<p class="notice dim">{escape(report.how)}</p>')
    if report.exception is not None:
        parts.append(f'<p class="notice error">the call raised {escape(exception_text(report.exception))}</p>')
    if report.plain_calls:
        times = counted(report.plain_calls, "time")
        parts.append(f'<p class="notice">at a limit: {times} no region fitted and none was made</p>')
    parts += [f'<p class="notice error">error: {escape(text)}</p>' for text in report.errors]
    parts += map(_entry, report.entries)
    parts += [_breaks(report.breaks), _recompiles(report), _code(report)]
    for callee in report.callees:
        title = f"private copy of {escape(callee.function)}"
        parts.append(f"<details><summary>{title}</summary>{_body(callee)}</details>")
    return "".join(parts)


def _facts(report: Report) -> str:
    facts = [
        (str(len(report.regions)), "region" if len(report.regions) == 1 else "regions"),
        (str(report.operators), "operator" if report.operators == 1 else "operators"),
        (str(len(report.breaks)), "break" if len(report.breaks) == 1 else "breaks"),
        (str(report.hits), "hit" if report.hits == 1 else "hits"),
        (str(report.misses), "miss" if report.misses == 1 else "misses"),
    ]
    if report.call_seconds is not None:
        facts.append((took(report.call_seconds), "this call"))
    if report.compile_seconds:
        facts.append((took(report.compile_seconds), "of it captures and backends"))
    return '<ul class="facts">' + "".join(f"<li><b>{n}</b><span>{what}</span></li>" for n, what in facts) + "</ul>"


def _entry(entry: EntryReport) -> str:
    head = f'<h3><span class="entry">entry {entry.index}</span>, line {entry.line}: {escape(entry.state)}</h3>'
    if not entry.regions:
        return head
    text = f"<details open><summary>the text that runs</summary><pre>{escape(entry.text.rstrip())}</pre></details>"
    return head + text + "".join(map(_region, entry.regions))


def _region(region: RegionReport) -> str:
    title = (
        f'<span class="region">region {region.number}</span>: {counted(region.hits, "hit")}, '
        f"{counted(region.operators, 'operator')}, {counted(len(region.guards), 'guard')}"
    )
    times = (
        f'<p class="dim">backend {escape(region.backend or "none")}; captured in {took(region.capture_seconds)}, '
        f"compiled in {took(region.backend_seconds)}; ends {escape(region.ends)}</p>"
    )
    told = [*(text for text in (region.trial, region.remark) if text), *(f"replay: {note}" for note in region.notes)]
    parts = [times, *(f'<p class="dim">{escape(text)}</p>' for text in told)]
    if region.guards:
        rows = [(f'<code class="guard">{escape(text)}</code>', _place(line)) for text, line in region.guards]
        parts += ["<h4>guards</h4>", _table(("what must hold", "needed by"), rows)]
    if region.effects:
        parts += ["<h4>effects</h4>", f'<pre class="effect">{escape(chr(10).join(region.effects))}</pre>']
    if region.table:
        nodes = [
            (f'<code class="graph">{escape(r.code)}</code>', r.op, escape(f"{r.dtype} {r.shape}")) for r in region.table
        ]
        parts += ["<h4>graph</h4>", _table(("node", "op", "result"), nodes)]
        parts.append(f"<details><summary>the graph's code</summary><pre>{escape(region.graph.strip())}</pre></details>")
    return f"<details open><summary>{title}</summary>{''.join(parts)}</details>"


def _breaks(breaks: Sequence[BreakReport]) -> str:
    if not breaks:
        return ""
    parts = ["<h3>breaks</h3>"]
    for met in breaks:
        what = f'<b class="break">{escape(met.title)}</b>' + (f": {escape(met.details)}" if met.details else "")
        hint = f"<div>hint: {escape(met.hint)}</div>" if met.hint else ""
        stack = "".join(f'<div class="where">{escape(str(line))}</div>' for line in reversed(met.stack))
        count = f'<span class="dim"> (met {counted(met.count, "time")})</span>'
        parts.append(f'<div class="notice">{what}{count}{hint}{stack}</div>')
    return "".join(parts)


def _recompiles(report: Report) -> str:
    found = report.recompiles
    if found is None or not found.recompiles:
        return ""
    return f"<h3>recompiles</h3><pre>{escape(chr(10).join(found.lines()))}</pre>"


def _code(report: Report) -> str:
    source = f"<details><summary>source</summary><pre>{escape(report.source.rstrip())}</pre></details>"
    rows = [
        (
            "" if line.line is None else str(line.line), str(line.index), str(line.offset),
            f"<code>{line.opname} {escape(line.argument)}</code>",
            f'<span class="marks entry">{", ".join(line.marks)}</span>',
        )
        for line in report.bytecode
    ]  # fmt: skip
    code = _table(("line", "instruction", "offset", "", ""), rows) if rows else ""
    whole = f"<details><summary>bytecode</summary>{code}</details>" if code else ""
    return (source if report.source else "") + whole


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{cells}</tr>{body}</table></div>'


def _place(line: UserLine | None) -> str:
    return "" if line is None else f'<span class="where">{escape(str(line))}</span>'
