"""Guards to text: the conditions at the head of a region, and which guard it was that failed.

What several conditions or the graph call fetch is bound once, to a temporary `g0`, `g1`, ...
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from .guard_kinds import WRITERS
from .guard_values import describe
from .guard_writer import Condition, Writer
from .guards import BASES, Guard, Kind, type_attribute
from .holding import Constants, held, type_mro
from .native import USE_NATIVE
from .quick_writer import write_quick
from .sources import Held, Source
from .watching import Watch


@dataclass(frozen=True, slots=True)
class GuardText:
    """The conditions in order, and what comes behind them: how a source is fetched, and the arguments of the graph."""

    conditions: tuple[Condition, ...]
    render: Callable[[Source], str]
    inputs: tuple[str, ...]
    quick: QuickText | None = None


@dataclass(frozen=True, slots=True)
class QuickText:
    """What is asked first, as long as the model is watched; behind the full conditions `watch` is told of the model."""

    conditions: tuple[Condition, ...]
    render: Callable[[Source], str]
    watch: str
    root: str
    watch_object: Watch


def write_guards(
    guards: Sequence[Guard],
    constants: Constants,
    *,
    fetched: Sequence[Source] = (),
    inputs: Sequence[Source] = (),
    taken: Collection[str] = (),
    original_code: Callable[[types.CodeType], types.CodeType] | None = None,
    native: bool = USE_NATIVE,
    hits: list[int] | None = None,
    written: Sequence[Source] = (),
) -> GuardText:
    """The conditions of frozen guards.

    hits: counts the region's calls; without it no model is watched.  written: dicts that its effects change.

    fetched: sources that the region needs besides, written with `GuardText.render`.  inputs: those of the graph.
    taken: names that temporaries must not have.
    original_code: gives the code that a function had before it was grafted, for CODE guards.
    """
    counting = Writer(guards, Constants(), WRITERS, original_code, native, None, inputs)
    counting.write_all()
    for source in fetched:
        counting.text(source)
    counting.arguments()
    writer = Writer(guards, constants, WRITERS, original_code, native, counting, inputs, taken)
    writer.write_all()
    arguments = writer.arguments()
    found = None if hits is None else write_quick(writer, counting, WRITERS, inputs, [*taken], hits, written)
    quick = None
    if found is not None:
        names = found.watch_name, found.root_name
        quick = QuickText(tuple(found.conditions), found.text, *names, found.watch)
    return GuardText(tuple(writer.conditions), writer.text, arguments, quick)


def guard_text(guards: Sequence[Guard], **options: Any) -> tuple[list[str], dict[str, Any]]:
    """The conditions in order, and their constants."""
    constants = Constants()
    text = write_guards(guards, constants, **options)
    return [c.text for c in text.conditions], constants.values


def why_false(condition: Condition, scope: dict[str, Any]) -> tuple[Guard, str] | None:
    """Which guard of a condition that does not hold it is, and what is there now; None where it holds."""
    try:
        if eval(condition.text, scope):
            return None
    except Exception as error:
        return condition.guards[0], f"{type(error).__name__}: {error}"
    for guard in condition.guards:
        seen = seen_now(guard, scope)
        if seen is not None:
            return guard, seen
    return condition.guards[0], "something else"


def seen_now(guard: Guard, scope: dict[str, Any]) -> str | None:
    """What is there now; None for one of several tensors that is as it was."""
    if guard.kind is Kind.STATE:
        return "; ".join(guard.expected.differences()) or None
    if guard.kind is Kind.TYPE_ATTR:
        cls = held(guard.expected.cls)
        if guard.expected.name == BASES:
            return describe(type_mro(cls) if cls is not None else None)
        return describe(type_attribute(cls, guard.expected.name) if cls is not None else None)
    if guard.kind is Kind.NO_OVERLAP:
        return "another overlap"
    if guard.kind is Kind.SHAPE:
        parts = [base for base in guard.source.bases() if not isinstance(base, Held)]
        return ", ".join(f"{part} is {value_now(part, scope)}" for part in parts)
    value = value_now(guard.source, scope)
    if guard.kind is Kind.TENSOR:
        return "; ".join(guard.expected.differences(value)) or None
    if guard.kind in (Kind.TYPE, Kind.IS) and type(value) is not type(held(guard.expected)):
        return f"type {describe(type(value))}"
    if guard.kind is Kind.LENGTH:
        return f"length {len(value)}"
    return describe(value)


def value_now(source: Source, scope: dict[str, Any]) -> Any:
    """What is there now."""
    constants = Constants()
    text = Writer((), constants, WRITERS, None, False, Writer((), constants, WRITERS, None, False, None)).text(source)
    return eval(text, scope | constants.values)
