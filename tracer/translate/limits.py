"""May an entry get one more region? Limits, and what the user asked for at a recompile, in one place.

The answer is data: go on, run plain, or raise (only once a capture has shown that there is something to compile).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..cache import CodeState, EntryState, Recompile, Registry
from ..config import Settings, Stance
from ..errors import RecompileError, RecompileLimit, TorchgraftError


@dataclass(frozen=True)
class Verdict:
    """outcome: "" where it may be compiled, else as `Recompile.outcome`. error: to be raised, if that is to be."""

    outcome: str = ""
    reason: str = ""
    error: TorchgraftError | None = None


GO_ON = Verdict()


def recompile_limit(state: CodeState, settings: Settings) -> int:
    """How many regions an entry of this state may have."""
    limit = state.options.recompile_limit
    return settings.recompile_limit if limit is None else limit


def compile_after(state: CodeState, settings: Settings) -> int:
    """At which call a function of this state is compiled."""
    after = state.options.compile_after
    return settings.compile_after if after is None else after


def raises_at_limit(state: CodeState, settings: Settings) -> bool:
    """With `fullgraph` too, as under torch.compile: nothing may run plain."""
    return settings.fail_on_recompile_limit_hit or state.options.fullgraph


def may_raise(state: CodeState, settings: Settings, stance: Stance) -> bool:
    """May `verdict` answer with an error for an entry without regions?"""
    return stance.name == "fail_on_recompile" or raises_at_limit(state, settings)


def verdict(
    state: CodeState, entry: EntryState, record: Recompile, registry: Registry, settings: Settings, stance: Stance
) -> Verdict:
    """For a miss of this entry."""
    if not stance.compiles and stance.name != "fail_on_recompile":
        return Verdict("stance", stance.name)
    if stance.name == "eager_then_compile" and entry.reached < 2:
        return Verdict("stance", "eager_then_compile: the first time")
    if stance.name == "fail_on_recompile":
        return _raise(state, record, "the stance is 'fail_on_recompile'")
    if settings.error_on_recompile and entry.regions:
        return _raise(state, record, "error_on_recompile is set")
    reason = _full(state, entry, registry, settings)
    if not reason:
        return GO_ON
    error = RecompileLimit(f"{state.place(entry.line)} is at its limit, {reason}: {record.why()}")
    return Verdict("limit", reason, error if raises_at_limit(state, settings) else None)


def _raise(state: CodeState, record: Recompile, why: str) -> Verdict:
    what = "compiled for the first time" if record.earlier is None else "recompiled"
    text = f"{state.place(record.line)} would be {what}, and {why}: {record.why()}"
    return Verdict("raised", why, RecompileError(text + (f". Hint: {record.hint}" if record.hint else "")))


def _full(state: CodeState, entry: EntryState, registry: Registry, settings: Settings) -> str:
    """Which limit is reached, if one is."""
    limit = recompile_limit(state, settings)
    if len(entry.regions) >= limit:
        return f"recompile_limit={limit}"
    limit = settings.accumulated_recompile_limit
    if registry.regions_of_code(state) >= limit:
        return f"accumulated_recompile_limit={limit}"
    if entry.made >= limit:
        return f"accumulated_recompile_limit={limit}, with regions that went with an object which they needed"
    return ""
