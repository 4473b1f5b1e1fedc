"""What was compiled, made readable: `explain`'s report. Plain data and text; what it prints is what runs."""

from __future__ import annotations

from .explain import BreakReport, EntryReport, RegionReport, Report, plain_report, report_on

__all__ = ["BreakReport", "EntryReport", "RegionReport", "Report", "plain_report", "report_on"]
