"""What was compiled, and why again, made readable. Plain data and text; what it prints is what runs."""

from __future__ import annotations

from .explain import BreakReport, EntryReport, RegionReport, Report, plain_report, report_on
from .recompiles import RecompileReport, recompiles_of
from .summary import BreakSummary, FunctionSummary, Summary, summarize

__all__ = [
    "BreakReport", "BreakSummary", "EntryReport", "FunctionSummary", "RecompileReport", "RegionReport", "Report",
    "Summary", "plain_report", "recompiles_of", "report_on", "summarize",
]  # fmt: skip
