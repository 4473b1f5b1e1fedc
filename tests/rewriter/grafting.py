"""Graft whole functions for tests: every code object within, with slots of a given kind at given places."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import CodeType, FunctionType
from typing import Any

from rewriter.decode import Decoded, decode
from rewriter.graft import graft
from rewriter.layouts import enterable, entry_layout, landing_layout
from rewriter.region import KEEP, UNBOUND
from rewriter.text import compile_slot, new_slot

Maker = Callable[[Decoded, int, dict[str, Any]], FunctionType]
Places = Callable[[Decoded], Collection[int]]


def everywhere(decoded: Decoded) -> Collection[int]:
    return enterable(decoded)


def start_only(decoded: Decoded) -> Collection[int]:
    return [decoded.start] if decoded.start in enterable(decoded) else []


def nowhere(decoded: Decoded) -> Collection[int]:
    return []


def none_slot(decoded: Decoded, index: int, namespace: dict[str, Any]) -> FunctionType:
    return new_slot(f"slot_{index}", entry_layout(decoded, index).parameters, namespace)


def text_slot(decoded: Decoded, index: int, namespace: dict[str, Any], body: str, **constants: object) -> FunctionType:
    slot = none_slot(decoded, index, namespace)
    parameters = ", ".join(entry_layout(decoded, index).parameters)
    slot.__code__ = compile_slot(f"def slot({parameters}):\n    {body}\n", constants, register=False)
    return slot


def guarded_slot(decoded: Decoded, index: int, namespace: dict[str, Any]) -> FunctionType:
    """A region whose guard is false."""
    return text_slot(decoded, index, namespace, "if k_guard(): return k_wrong", k_guard=lambda: False, k_wrong=())


def identity_slot(keep: bool) -> Maker:
    """A region that lands where it began, with the values it was given (or KEEP where that is allowed)."""

    def make(decoded: Decoded, index: int, namespace: dict[str, Any]) -> FunctionType:
        entry, landing = entry_layout(decoded, index), landing_layout(decoded, index)
        given = dict(zip(entry.locals, entry.parameters, strict=False))
        values = [str(index)]
        for name in landing.locals:
            may_keep = name in landing.checked and (keep or name not in given)
            values.append("k_KEEP" if may_keep else given[name])
        values += [name for name in entry.parameters if name[0] == "s" and name[1:].isdigit()]
        return text_slot(decoded, index, namespace, f"return ({', '.join(values)},)", k_KEEP=KEEP)

    return make


def graft_code(code: CodeType, namespace: dict[str, Any], places: Places, make: Maker, **options: Any) -> CodeType:
    nested = tuple(
        graft_code(value, namespace, places, make, **options) if isinstance(value, CodeType) else value
        for value in code.co_consts
    )
    code = code.replace(co_consts=nested)
    decoded = decode(code)
    slots = {index: make(decoded, index, namespace) for index in places(decoded)}
    return graft(decoded, slots, **options)


def grafted(function: FunctionType, places: Places, make: Maker, **options: Any) -> FunctionType:
    """A function like `function`, with grafted code."""
    code = graft_code(function.__code__, function.__globals__, places, make, **options)
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    for name in ("__kwdefaults__", "__doc__", "__qualname__", "__module__", "__annotations__"):
        setattr(copy, name, getattr(function, name))
    copy.__dict__.update(function.__dict__)
    return copy


__all__ = ["UNBOUND", "everywhere", "grafted", "guarded_slot", "identity_slot", "none_slot", "nowhere", "start_only"]
