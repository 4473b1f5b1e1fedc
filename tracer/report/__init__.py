"""What was compiled, and why again, made readable. Plain data and text; what it prints is what runs."""

from __future__ import annotations

from .data import BreakReport, CodeLine, EntryReport, NodeRow, RegionReport, Report
from .explain import compile_seconds, plain_report, report_on, source_of
from .recompiles import RecompileReport, recompiles_of
from .summary import BreakSummary, FunctionSummary, Summary, summarize

__all__ = [
    "BreakReport", "BreakSummary", "CodeLine", "EntryReport", "FunctionSummary", "NodeRow", "RecompileReport",
    "RegionReport", "Report", "Summary", "compile_seconds", "plain_report", "recompiles_of", "report_on", "source_of",
    "summarize",
]  # fmt: skip
