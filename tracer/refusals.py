"""Why a region did not fit: how many of its guards held, the one that failed first, and what it found.

All guards are asked, not only those in front of the first that fails. Behind one that failed, a condition is only asked
if nothing that it fetches rests on what was found otherwise: so no code of the user's runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from . import log
from .guard_sources import Numbers
from .guard_text import seen_now, value_now, why_false
from .guard_values import describe
from .guard_writer import Condition, is_instance_dict
from .guards import BASES, MISSING, Guard, Kind
from .holding import short_name
from .native import fact
from .sources import Source

#: So many conditions are one piece of code: most hold, and parsing is what costs.
_TOGETHER = 64


@dataclass(frozen=True)
class Refusal:
    """Why a region did not fit.

    guard: the first that failed; None where it can't be said, since all hold by now.  seen: what it found, in words.
    changes: of a tensor or the global state, what is otherwise: its name, what it was, what it is.
    held, of: how many guards held, of how many.  failed: those that do not hold.  unasked: those that were not asked,
    since they rest on one that does not hold.
    """

    guard: Guard | None
    seen: str
    held: int
    of: int
    changes: tuple[tuple[str, Any, Any], ...] = ()
    failed: tuple[Guard, ...] = ()
    unasked: tuple[Guard, ...] = ()

    @property
    def old(self) -> str:
        if self.guard is None:
            return ""
        if self.changes:
            return "; ".join(f"{name} {fact(before)}" for name, before, _ in self.changes)
        if self.guard.kind is Kind.TYPE_ATTR:
            raw = self.guard.expected.raw
            if self.guard.expected.name == BASES:
                return ", ".join(map(short_name, self.guard.expected.bases))
            return "none" if raw is MISSING else describe(raw)
        if self.guard.kind in (Kind.LENGTH, Kind.TYPE):
            return f"{self.guard.kind.value} {describe(self.guard.expected)}"
        if self.guard.kind is Kind.SHAPE:
            return "true"
        if self.guard.kind is Kind.EXPRESSION:
            return str(self.guard.expected)
        if self.guard.kind in (Kind.TRUTHY, Kind.FALSY):
            return self.guard.kind.value
        if self.guard.kind is Kind.NO_OVERLAP:
            return "the overlap that there was"
        return describe(self.guard.expected)

    @property
    def new(self) -> str:
        if self.changes:
            return "; ".join(f"{name} {fact(now)}" for name, _, now in self.changes)
        return self.seen

    def __str__(self) -> str:
        if self.guard is None:
            return "unknown (what it looks at has changed again)"
        line = self.guard.line
        return f"{self.guard}, now {self.seen}" + ("" if line is None else f", needed by {line}")


class Conditions:
    """The conditions of a region and their constants; some are made one piece of code when they are first asked."""

    def __init__(self, conditions: Sequence[Condition], constants: Mapping[str, Any]) -> None:
        self.constants = constants
        self.pieces = [_Piece(conditions[at : at + _TOGETHER]) for at in range(0, len(conditions), _TOGETHER)]


class _Piece:
    def __init__(self, conditions: Sequence[Condition]) -> None:
        self.conditions = conditions
        self._code: CodeType | None = None

    def all_hold(self, scope: dict[str, Any]) -> bool:
        if self._code is None:
            self._code = compile(" and ".join(f"({c.text})" for c in self.conditions), "<guards>", "eval")
        try:
            return bool(eval(self._code, scope))
        except Exception:
            return False


def examine(
    guards: Sequence[Guard],
    conditions: Conditions,
    arguments: Mapping[str, Any],
    namespace: Mapping[str, Any],
    where: str = "",
) -> Refusal:
    """Ask all guards of a region about a slot's arguments and globals. Never raises. `where`: for the log."""
    found = _Examination({**namespace, **arguments, **conditions.constants})
    try:
        for piece in conditions.pieces:
            found.ask_all(piece)
        changes = found.changes()
    except Exception:
        log.guards.debug("%s: could not say which guard failed", where, exc_info=True)
        changes = ()
    guard, seen = found.first or (None, "")
    failed = tuple(found.failed)
    unasked_ids = found.not_held - set(map(id, failed))
    unasked = tuple(guard for guard in guards if id(guard) in unasked_ids)
    return Refusal(guard, seen, len(guards) - len(found.not_held), len(guards), changes, failed, unasked)


class _Examination:
    """Conditions asked one by one; what rests on something that was found otherwise is not."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self.first: tuple[Guard, str] | None = None
        self.not_held: set[int] = set()
        self.failed: list[Guard] = []
        self._number = Numbers()
        self._otherwise: set[int] = set()
        self._known: dict[int, bool] = {}
        self._anything_may_be = False

    def ask_all(self, piece: _Piece) -> None:
        """One evaluation where all of them may be asked, and hold."""
        if any(map(self._must_not_be_asked, piece.conditions)) or not piece.all_hold(self.scope):
            for condition in piece.conditions:
                self.ask(condition)

    def _must_not_be_asked(self, condition: Condition) -> bool:
        if not self._otherwise:
            return False
        return self._anything_may_be or any(map(self._rests_on_it, _sources(condition.guards)))

    def ask(self, condition: Condition) -> None:
        if self._must_not_be_asked(condition):
            self.not_held.update(map(id, condition.guards))
            return
        reason = why_false(condition, self.scope)
        if reason is None:
            return
        self.first = self.first or reason
        failed = [guard for guard in condition.guards if guard is reason[0] or self._differs(guard)]
        self.not_held.update(map(id, failed))
        self.failed += failed
        # Another descriptor in the class may make reading any attribute run code.
        self._anything_may_be = any(guard.kind is Kind.TYPE_ATTR for guard in failed)
        self._known.clear()
        for source in _sources(failed):
            self._otherwise.add(self._number(source))
            if is_instance_dict(source):  # what it has not is looked for elsewhere
                self._otherwise.update(map(self._number, source.bases()))

    def _differs(self, guard: Guard) -> bool:
        try:
            return guard.kind is not Kind.TENSOR or seen_now(guard, self.scope) is not None
        except Exception:
            return True

    def _rests_on_it(self, source: Source) -> bool:
        number = self._number(source)
        if number not in self._known:
            self._known[number] = number in self._otherwise or any(map(self._rests_on_it, source.bases()))
        return self._known[number]

    def changes(self) -> tuple[tuple[str, Any, Any], ...]:
        """Of the guard that failed first, where it is one about many facts."""
        if self.first is None:
            return ()
        guard = self.first[0]
        if guard.kind is Kind.STATE:
            return tuple(guard.expected.changes())
        if guard.kind is not Kind.TENSOR:
            return ()
        return _telling(guard.expected.changes(value_now(guard.source, self.scope)))


def _telling(changes: list[tuple[str, Any, Any]]) -> tuple[tuple[str, Any, Any], ...]:
    """Strides that follow from other sizes say nothing."""
    facts = {name: (before, now) for name, before, now in changes}
    if "shape" in facts and "stride" in facts and all(map(_is_dense, facts["shape"], facts["stride"])):
        return tuple(change for change in changes if change[0] != "stride")
    return tuple(changes)


def _is_dense(shape: Sequence[int | None], stride: Sequence[int | None]) -> bool:
    """As far as it is said."""
    step: int | None = 1
    for size, found in zip(reversed(shape), reversed(stride), strict=True):
        if None not in (step, found) and size != 1 and found != step:
            return False
        step = None if step is None or size is None else step * size
    return True


def _sources(guards: Iterable[Guard]) -> Iterable[Source]:
    """All that these guards look at."""
    for guard in guards:
        yield guard.source
        if isinstance(guard.expected, Source):
            yield guard.expected
        elif guard.kind is Kind.NO_OVERLAP:
            yield from guard.expected[0]
