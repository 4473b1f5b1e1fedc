"""What came of a whole run, in a few lines: what was compiled, broke, was recompiled, and how much ran compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..cache import CodeState
from ..discovery import Discovered
from ..errors import told_where

#: So many functions, breaks and recompiles are listed; the rest is counted.
_LISTED = 12


@dataclass(frozen=True)
class FunctionSummary:
    """A function: its own regions and those of private copies of it. runs: how often they ran, all together."""

    function: str
    filename: str
    line: int
    regions: int
    operators: int
    runs: int
    operators_run: int
    capture_seconds: float
    backend_seconds: float
    backends: tuple[str, ...]
    recompiles: tuple[str, ...]
    errors: tuple[str, ...]

    def __str__(self) -> str:
        return (f"{self.function} ({self.filename}:{self.line}): {_count(self.regions, 'region')}, "
                f"{_count(self.operators, 'operator')}, {_count(self.runs, 'run')}")


@dataclass(frozen=True)
class BreakSummary:
    """A graph break, where it is, and how many captures met it."""

    title: str
    details: str
    hint: str
    where: str
    count: int

    def __str__(self) -> str:
        details = f": {self.details}" if self.details else ""
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.title}{details}{times} at {self.where}"


@dataclass(frozen=True)
class Summary:
    """functions: those with regions, the busiest first.  breaks: those met most often first.  counters: as ever."""

    functions: tuple[FunctionSummary, ...]
    breaks: tuple[BreakSummary, ...]
    recompiles: tuple[str, ...]
    errors: tuple[str, ...]
    discovered: Discovered
    counters: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        found, functions = self.discovered, self.functions
        lines = [self._compiled(), *_listed(functions)]
        lines += [f"  broke       {_count(len(self.breaks), 'graph break')}", *_listed(self.breaks)]
        lines += [f"  recompiled  {_count(len(self.recompiles), 'time')}", *_listed(self.recompiles)]
        runs, operators = sum(f.runs for f in functions), sum(f.operators_run for f in functions)
        lines.append(f"  saved       {_count(runs, 'run')} of regions: {_count(operators, 'operator')} ran in compiled "
                     "graphs, not one by one from Python")
        plain = self.counters.get("fallbacks", 0)
        lines.append(f"  ran plain   {_count(plain, 'time')} no region fitted and none was made")
        if found.modules:
            lines.append(f"  discovered  {_count(len(found.chosen), 'function')} opted in of "
                         f"{len(found.chosen) + len(found.others) + found.watching + found.idle} watched in "
                         f"{_count(len(found.modules), 'module')}")
        lines += [f"  not found   module {name} was named, and never imported" for name in found.missing]
        lines += [f"  error       {error}" for error in self.errors]
        return "\n".join(lines)

    def _compiled(self) -> str:
        functions = self.functions
        if not functions:
            return "  compiled    nothing"
        names = sorted({name for f in functions for name in f.backends if name})
        capture, backend = sum(f.capture_seconds for f in functions), sum(f.backend_seconds for f in functions)
        by = f" by {', '.join(names)}" if names else ""
        return (f"  compiled    {_count(sum(f.regions for f in functions), 'region')} of "
                f"{_count(len(functions), 'function')}: captured in {capture:.1f} s, compiled in {backend:.1f} s{by}")


def summarize(states: Iterable[CodeState], discovered: Discovered, counters: Mapping[str, Any]) -> Summary:
    """What is there now, and what is remembered of regions that went."""
    by_place: dict[tuple[str, str, int], list[CodeState]] = {}
    for state in states:
        by_place.setdefault((state.name, state.filename, state.line), []).append(state)
    functions = [_function(*place, found) for place, found in by_place.items() if any(s.made for s in found)]
    functions.sort(key=lambda f: (-f.operators_run, f.function))
    everything = [state for found in by_place.values() for state in found]
    recompiles = [f"{s.place(r.line)}: {r.why()}" for s in everything for r in s.recompiles if r.made is not None]
    return Summary(
        functions=tuple(functions),
        breaks=tuple(sorted(_breaks(everything), key=lambda b: (-b.count, b.title, b.where))),
        recompiles=tuple(recompiles),
        errors=tuple(f"{state.place()}: {error}" for state in everything for error in state.errors),
        discovered=discovered,
        counters=dict(counters),
    )


def _function(name: str, filename: str, line: int, states: list[CodeState]) -> FunctionSummary:
    made = [region for state in states for region in state.made]
    recompiles = (r for state in states for r in state.recompiles if r.made is not None)
    return FunctionSummary(
        name, filename, line,
        regions=len(made),
        operators=sum(region.operators for region in made),
        runs=sum(region.runs[0] for region in made),
        operators_run=sum(region.runs[0] * region.operators for region in made),
        capture_seconds=sum(region.capture_seconds for region in made),
        backend_seconds=sum(region.backend_seconds for region in made),
        backends=tuple(sorted({region.backend for region in made})),
        recompiles=tuple(str(record) for record in recompiles),
        errors=tuple(error for state in states for error in state.errors),
    )  # fmt: skip


def _breaks(states: list[CodeState]) -> Iterator[BreakSummary]:
    """By title and the user's line: private copies meet what their originals met."""
    found: dict[tuple[str, str, str], BreakSummary] = {}
    for state in states:
        for record in state.breaks.values():
            where = told_where(record.stack) or state.place()
            key = record.title, record.details, where
            count = record.count + (found[key].count if key in found else 0)
            found[key] = BreakSummary(record.title, record.details, record.hint, where, count)
    yield from found.values()


def _listed(items: Iterable[object]) -> list[str]:
    texts = [f"    {item}" for item in items]
    return texts if len(texts) <= _LISTED else [*texts[:_LISTED], f"    ... and {len(texts) - _LISTED} more"]


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
