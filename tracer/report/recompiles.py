"""Why functions were compiled again, or not: `explain_recompiles`' report, copied out of the records."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..cache import CodeState, Recompile


@dataclass(frozen=True)
class RecompileReport:
    """The misses of one function for which there were regions already, oldest first; and those of its private callees.

    recompiles: all of them (`Recompile`), `compiled` and `not_compiled` those that ended so.
    """

    function: str
    filename: str
    line: int
    recompiles: tuple[Recompile, ...]
    callees: tuple[RecompileReport, ...] = ()

    @property
    def compiled(self) -> tuple[Recompile, ...]:
        return tuple(record for record in self.recompiles if record.outcome == "compiled")

    @property
    def not_compiled(self) -> tuple[Recompile, ...]:
        return tuple(record for record in self.recompiles if record.outcome != "compiled")

    def __str__(self) -> str:
        lines = self.lines()
        for callee in self.callees:
            first, *rest = str(callee).splitlines()
            lines += [f"  private copy of {first}", *(f"    {line}" for line in rest)]
        return "\n".join(lines)

    def lines(self) -> list[str]:
        """Its own, without those of callees."""
        compiled, others = len(self.compiled), sum(record.count for record in self.not_compiled)
        lines = [
            f"{self.function} ({self.filename}:{self.line}): {compiled} recompile{'' if compiled == 1 else 's'}"
            + (f", {others} call{'' if others == 1 else 's'} that got no region" if others else "")
        ]
        for record in self.recompiles:
            lines += _lines(record)
        return lines


def _lines(record: Recompile) -> list[str]:
    what = f"compiled, region {record.made}" if record.made is not None else f"not compiled: {record.outcome}"
    what += f" ({record.reason})" if record.reason else ""
    what += f", {record.count} times" if record.count > 1 else ""
    lines = [f"  line {record.line}: {what}"]
    if record.earlier is None:
        return [*lines, "    nothing was compiled here before"]
    lines.append(f"    nearest: region {record.earlier}, of which {record.held} of {record.of} guards held")
    if not record.guard:
        return [*lines, "    failed:  unknown (what it looks at has changed again)"]
    lines += [f"    failed:  {record.guard}", f"    was:     {record.old}", f"    is:      {record.new}"]
    lines += [f"    needed by {record.needed_by}"] if record.needed_by is not None else []
    return [*lines, f"    hint:    {record.hint}"]


def recompiles_of(state: CodeState, *, callees: bool = True) -> RecompileReport:
    """What is on record now."""
    copies = state.family.live() if callees else ()
    inner = [recompiles_of(copy, callees=False) for copy in copies if copy is not state]
    records = tuple(dataclasses.replace(record) for record in list(state.recompiles))
    return RecompileReport(
        state.name, state.filename, state.line, records, tuple(report for report in inner if report.recompiles)
    )
