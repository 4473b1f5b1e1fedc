"""Watch the calls of slots for a while: what each region's guards say of the very arguments, and what came of it.

While somebody watches, a slot's code calls a `Visitor`, which looks, and then runs the code that was written for the
slot. Nothing is left of it afterwards; calls that nobody watches run what they always run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from rewriter.text import compile_slot

from ..cache import CodeState, EntryState, Region
from ..guard_text import value_now
from ..guards import Guard
from ..refusals import Refusal
from .recompiles import refusal
from .serving import Translator


@dataclass(eq=False)
class Asked:
    """One region at one visit: why it does not fit, if it does not; and its guards, each with what is there now.

    values: by the identity of a guard, what its source gave, where that was asked.  conditions: the text that asks it.
    """

    region: Region
    found: Refusal
    guards: tuple[Guard, ...]
    values: dict[int, Any]
    conditions: dict[int, str]


@dataclass(eq=False)
class Visit:
    """One call of a slot. asked: its regions, in the order in which they are tried, up to the one that fits.

    ran: the region that ran.  inner: it is a visit within another one, of the region that this made.
    """

    entry: EntryState
    state: CodeState
    inner: bool
    asked: list[Asked] = field(default_factory=list)
    ran: Region | None = None


@contextlib.contextmanager
def visits(translator: Translator, root: CodeState) -> Iterator[list[Visit]]:
    """Note the calls of all slots of a function and of its private callees, until the end of the block."""
    found: list[Visit] = []
    open_visits: list[Visit] = []

    def dress(entry: EntryState, slot: FunctionType, code: CodeType) -> CodeType:
        state = entry.state
        if state is None or state.family is not root.family:
            return code
        visitor = _visitor(entry, state, slot, code, found, open_visits)
        parameters = ", ".join(entry.layout.parameters)
        text = f"def slot({parameters}):\n    return k_visitor({parameters})\n"
        return compile_slot(text, {"k_visitor": visitor}, register=False)

    _rewrite(translator, root, dress)
    try:
        yield found
    finally:
        _rewrite(translator, root, None)


def _rewrite(translator: Translator, root: CodeState, dress: Any) -> None:
    """The slots of the whole family anew, with or without."""
    with translator.lock.at_rest():
        translator.grafter.dress = dress
        for state in {id(state): state for state in (root, *root.family.live())}.values():
            for entry in list(state.entries.values()):
                translator.grafter.write(state, entry)


def _visitor(
    entry: EntryState,
    state: CodeState,
    slot: FunctionType,
    code: CodeType,
    found: list[Visit],
    open_visits: list[Visit],
) -> Callable[..., Any]:
    real = FunctionType(code, slot.__globals__, slot.__name__)

    def visit(*arguments: Any) -> Any:
        noted = Visit(entry, state, bool(open_visits) and open_visits[-1].entry is entry)
        found.append(noted)
        hits = {id(region): region.hits for region in entry.regions}
        for region in entry.regions:
            if entry.can_run_in(slot, region.capture.exit):
                noted.asked.append(asked(state, entry, region, arguments))
                if not noted.asked[-1].found.failed and not noted.asked[-1].found.unasked:
                    break
        open_visits.append(noted)
        try:
            return real(*arguments)
        finally:
            open_visits.pop()
            ran = [region for region in entry.regions if region.hits > hits.get(id(region), 0)]
            noted.ran = ran[0] if ran else None

    return visit


def asked(state: CodeState, entry: EntryState, region: Region, arguments: tuple[Any, ...]) -> Asked:
    """All guards of a region, about these arguments of its slot. No code of the user's runs."""
    found = refusal(state, entry, region, arguments)
    conditions = region.conditions
    assert conditions is not None
    named = dict(zip(entry.layout.parameters, arguments, strict=True))
    scope = {**state.globals, **named, **conditions.constants}
    written = [condition for piece in conditions.pieces for condition in piece.conditions]
    listed = {id(guard): guard for condition in written for guard in condition.guards}
    texts = {id(guard): condition.text for condition in reversed(written) for guard in condition.guards}
    unasked = set(map(id, found.unasked))
    values = {}
    for key, guard in listed.items():
        if key not in unasked and guard.kind.row.has_source:
            with contextlib.suppress(Exception):  # what is not there has no value
                values[key] = value_now(guard.source, scope)
    return Asked(region, found, tuple(listed.values()), values, texts)
