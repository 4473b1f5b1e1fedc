"""The page's third step: later calls, whose guards are asked one by one of the real cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from ..guard_values import describe
from ..guards import Guard, Kind
from ..interpreter.showing import cut, shown_object
from ..native import TensorFacts, fact
from ..translate.decisions import Decision
from ..translate.visiting import Asked, Visit
from .recording import guard_text, place

Json = dict[str, Any]


def another_batch(arguments: Sequence[Any]) -> tuple[Any, ...] | None:
    """The same arguments with one row more in all tensors that have as many as the first; None without any."""
    sizes = [a.shape[0] for a in arguments if type(a) is torch.Tensor and a.dim() and a.shape[0]]
    if not sizes:
        return None
    return tuple(
        _one_more(a) if type(a) is torch.Tensor and a.dim() and a.shape[0] == sizes[0] else a for a in arguments
    )


def _one_more(tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        longer = torch.cat([tensor.detach(), tensor.detach()[:1]])
    return longer.requires_grad_(tensor.requires_grad)


def arguments_text(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Arguments of a call, in words."""
    given = [shown_object(a)[1] for a in args]
    return ", ".join([*given, *(f"{name}={shown_object(a)[1]}" for name, a in kwargs.items())])


def call_row(title: str, arguments: str, visits: Sequence[Visit], decisions: Sequence[Decision], raised: str) -> Json:
    """One later call: each visit of a slot, with the guards that were asked, and what came of it."""
    left = list(decisions)
    rows = []
    for visit in visits:
        if visit.inner:
            continue
        row = _visit(visit)
        mine = next((d for d in left if not row["hit"] and _is_of(d, visit)), None)
        if mine is not None:
            left.remove(mine)
            row.update(_decided(mine))
        rows.append(row)
    return {"title": title, "arguments": arguments, "visits": rows, "raised": raised}


def _is_of(decision: Decision, visit: Visit) -> bool:
    state = visit.state
    return decision.code is state.original and decision.offset == state.decoded.instructions[visit.entry.index].offset


def _visit(visit: Visit) -> Json:
    fits = bool(visit.asked) and not visit.asked[-1].found.failed and not visit.asked[-1].found.unasked
    return {
        "function": visit.state.name, "file": os.path.basename(visit.state.filename), "entry": visit.entry.index,
        "line": visit.entry.line, "regions": [_region(asked) for asked in visit.asked], "hit": fits,
        "ran": None if visit.ran is None else visit.ran.compiled.number, "text": visit.entry.text,
        "graph": [] if visit.ran is None or not fits else _graph(visit),
    }  # fmt: skip


def _graph(visit: Visit) -> list[str]:
    assert visit.ran is not None
    graph = visit.ran.capture.graph
    return [] if graph is None else [node.name for node in graph.graph.nodes]


def _decided(decision: Decision) -> Json:
    row: Json = {"decision": decision.decision, "reason": decision.reason, "made": decision.region}
    record = decision.recompile
    if record is not None:
        row["record"] = {
            "earlier": record.earlier, "held": record.held, "of": record.of, "guard": guard_text(record.guard),
            "old": record.old, "new": record.new, "line": place(record.needed_by), "hint": record.hint,
        }  # fmt: skip
    return row


def _region(asked: Asked) -> Json:
    failed, unasked = set(map(id, asked.found.failed)), set(map(id, asked.found.unasked))
    rows = [_guard(guard, asked, id(guard) in failed, id(guard) in unasked) for guard in asked.guards]
    return {"number": asked.region.compiled.number, "guards": rows, "held": asked.found.held, "of": asked.found.of}


def _guard(guard: Guard, asked: Asked, failed: bool, unasked: bool) -> Json:
    row: Json = {
        "kind": guard.kind.value, "text": cut(guard_text(str(guard))), "line": place(guard.line),
        "ok": not failed and not unasked, "asked": not unasked, "condition": asked.conditions[id(guard)],
    }  # fmt: skip
    if unasked:
        return row
    if id(guard) in asked.values:
        row["parts"] = _parts(guard, asked.values[id(guard)], failed)
    elif failed:
        first = guard is asked.found.guard
        row["parts"] = [_part(guard.kind.value, asked.found.old, asked.found.new, False)] if first else []
    return row


def _part(name: str, expected: str, seen: str, ok: bool) -> Json:
    return {"name": name, "expected": cut(expected), "seen": cut(seen), "ok": ok}


def _parts(guard: Guard, value: Any, failed: bool) -> list[Json]:
    """What a guard compares: of a tensor each fact for itself."""
    if guard.kind is Kind.TENSOR and isinstance(guard.expected, TensorFacts):
        return _tensor_parts(guard.expected, value)
    if guard.kind is Kind.EQUALS:
        return [_part("value", describe(guard.expected), describe(value), not failed)]
    if guard.kind is Kind.TYPE:
        return [_part("type", describe(guard.expected), describe(type(value)), not failed)]
    if guard.kind is Kind.LENGTH:
        return [_part("length", str(guard.expected), str(len(value)), not failed)]
    if guard.kind is Kind.IS:
        return [_part("object", guard_text(describe(guard.expected)), shown_object(value)[1], not failed)]
    return []


def _tensor_parts(facts: TensorFacts, value: Any) -> list[Json]:
    changes = {name: (before, now) for name, before, now in facts.changes(value)}
    if "type" in changes or "layout" in changes:
        return [_part(name, fact(before), fact(now), False) for name, (before, now) in changes.items()]
    parts = []
    for name in ("shape", "dtype", "device", "requires_grad"):
        before, now = changes.pop(name, (getattr(facts, name), None))
        seen = now if now is not None else tuple(value.shape) if name == "shape" else before
        parts.append(_part(name, _words(before), _words(seen), now is None))
    if any(not part["ok"] for part in parts):
        changes.pop("stride", None)  # it follows from the sizes
    return parts + [_part(name, _words(before), _words(now), False) for name, (before, now) in changes.items()]


def _words(value: Any) -> str:
    return fact(value).removeprefix("torch.")
