"""Graft whole functions for tests: every code object within, with slots of a given kind at given places."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import CodeType, FunctionType
from typing import Any

from rewriter.decode import Decoded, decode
from rewriter.graft import graft
from rewriter.layouts import (
    context_of,
    enterable,
    entry_layout,
    landable,
    landing_layout,
    wide_landable,
    wide_locals,
)
from rewriter.region import KEEP
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
    slot = new_slot(f"slot_{index}", entry_layout(decoded, index).parameters, namespace)
    slot.lands = []  # type: ignore[attr-defined]
    return slot


def text_slot(decoded: Decoded, index: int, namespace: dict[str, Any], body: str, **constants: object) -> FunctionType:
    slot = none_slot(decoded, index, namespace)
    parameters = ", ".join(entry_layout(decoded, index).parameters)
    slot.__code__ = compile_slot(f"def slot({parameters}):\n    {body}\n", constants, register=False)
    del slot.lands  # type: ignore[attr-defined]
    return slot


def guarded_slot(decoded: Decoded, index: int, namespace: dict[str, Any]) -> FunctionType:
    """A region whose guard is false."""
    body = "if k_guard(): return k_wrong"
    slot = text_slot(decoded, index, namespace, body, k_guard=lambda: False, k_wrong=())
    slot.lands = []  # type: ignore[attr-defined]
    return slot


def identity_slot(keep: bool, full: bool = False) -> Maker:
    """A region that lands where it began, with the values it was given (or KEEP where that is allowed)."""

    def make(decoded: Decoded, index: int, namespace: dict[str, Any]) -> FunctionType:
        entry, landing = entry_layout(decoded, index), landing_layout(decoded, ~index if full else index)
        given = dict(zip(entry.locals, entry.parameters, strict=False))
        values = [str(landing.index)]
        for name in landing.locals:
            may_keep = name in landing.checked and (keep or name not in given)
            values.append("k_KEEP" if may_keep else given[name])
        values += [name for name in entry.parameters if name[0] == "s" and name[1:].isdigit()]
        slot = text_slot(decoded, index, namespace, f"return ({', '.join(values)},)", k_KEEP=KEEP)
        slot.lands = [landing.index]  # type: ignore[attr-defined]
        return slot

    return make


def wide_answer(decoded: Decoded, index: int, values: dict[str, str], stack: list[str | None]) -> list[str]:
    """The items of a wide answer: what is not among the values stays as it is."""
    objects = "".join(f"{value}, " for value in stack if value)
    return [str(index), f"({objects})", *[values.get(name, "k_KEEP") for name in wide_locals(decoded)]]


def wide_identity_slot(decoded: Decoded, index: int, namespace: dict[str, Any]) -> FunctionType:
    """A region that lands where it began, with the values it was given, in a wide answer."""
    if index not in wide_landable(decoded):
        return none_slot(decoded, index, namespace)
    entry = entry_layout(decoded, index)
    stack = [f"s{place}" if slot else None for place, slot in enumerate(entry.stack)]
    values = wide_answer(decoded, index, dict(zip(entry.locals, entry.parameters, strict=False)), stack)
    slot = text_slot(decoded, index, namespace, f"return ({', '.join(values)},)", k_KEEP=KEEP)
    slot.lands = [index]  # type: ignore[attr-defined]
    return slot


def step_slot(limit: int, ran: list[int], *, wide: bool = False) -> Maker:
    """A region that does what the next few simple instructions do, and lands behind them (`ran` counts)."""

    def make(decoded: Decoded, index: int, namespace: dict[str, Any]) -> FunctionType:
        found = _Steps(decoded, index, wide).run(limit)
        if found is None:
            return none_slot(decoded, index, namespace)
        values, constants = found
        body = f"k_ran({index}); return ({', '.join(values)},)"
        slot = text_slot(decoded, index, namespace, body, k_ran=ran.append, k_KEEP=KEEP, **constants)
        slot.lands = [int(values[0])]  # type: ignore[attr-defined]
        return slot

    return make


class _Steps:
    """A capture in miniature: the expressions that stand for locals and stack slots."""

    def __init__(self, decoded: Decoded, index: int, wide: bool) -> None:
        self.decoded, self.at, self.wide = decoded, index, wide
        self.places = wide_landable(decoded) if wide else landable(decoded)
        entry = entry_layout(decoded, index)
        self.locals = dict(zip(entry.locals, entry.parameters, strict=False))
        self.maybe_unbound = set(entry.checked)
        self.cells = dict(zip(entry.cells, entry.parameters[len(entry.locals) :], strict=False))
        self.stack: list[str | None] = [f"s{place}" if slot else None for place, slot in enumerate(entry.stack)]
        self.constants: dict[str, object] = {}
        self.bound: set[str] = set()
        self.context = context_of(decoded, index)

    def run(self, limit: int) -> tuple[list[str], dict[str, object]] | None:
        best = None
        for step in range(limit):
            if step and self.at in self.places and context_of(self.decoded, self.at) == self.context:
                best = self.values(), dict(self.constants)
            if not self.step():
                break
        return best

    def values(self) -> list[str]:
        """The landing, full where a local that nobody reads any more was bound, and what it takes."""
        if self.wide:
            return wide_answer(self.decoded, self.at, self.locals, self.stack)
        layout = landing_layout(self.decoded, self.at)
        if self.bound - set(layout.locals):
            layout = landing_layout(self.decoded, ~self.at)
        found = [self.locals.get(name) for name in layout.locals]
        assert all(value or name in layout.checked for name, value in zip(layout.locals, found, strict=True))
        return [str(layout.index), *[value or "k_KEEP" for value in found], *[value for value in self.stack if value]]

    def step(self) -> bool:
        instruction, stack = self.decoded.instructions[self.at], self.stack
        arg = instruction.arg
        match instruction.opname:
            case "NOP":
                pass
            case "LOAD_FAST" if arg in self.locals and arg not in self.maybe_unbound:
                stack.append(self.locals[arg])
            case "STORE_FAST" if stack[-1] is not None:
                self.locals[arg] = str(stack.pop())
                self.bound.add(arg)
                self.maybe_unbound.discard(arg)
            case "LOAD_CONST":
                name = f"k_{len(self.constants)}"
                self.constants[name] = arg
                stack.append(name)
            case "LOAD_CLOSURE" if arg in self.cells:
                stack.append(self.cells[arg])
            case "PUSH_NULL":
                stack.append(None)
            case "POP_TOP" if stack[-1] is not None:
                stack.pop()
            case "COPY" if stack[-arg] is not None:
                stack.append(stack[-arg])
            case "SWAP":
                stack[-arg], stack[-1] = stack[-1], stack[-arg]
            case "BUILD_TUPLE" if arg:
                parts = [stack.pop() for _ in range(arg)][::-1]
                stack.append(f"({', '.join(map(str, parts))},)")
            case "JUMP":
                self.at = instruction.target
                return True
            case _:
                return False
        self.at += 1
        return True


def graft_code(
    code: CodeType, namespace: dict[str, Any], places: Places, make: Maker, *, inline: bool = False,
    precise: bool = True, **options: Any
) -> CodeType:
    """`precise`: with those landings only that the slots use, else with one everywhere."""

    def constant(value: object) -> object:
        if not isinstance(value, CodeType):
            return value
        return graft_code(value, namespace, places, make, inline=inline, precise=precise, **options)

    code = code.replace(co_consts=tuple(map(constant, code.co_consts)))
    decoded = decode(code)
    slots = {index: make(decoded, index, namespace) for index in places(decoded)}
    lands: dict[int, list[int]] = {i: slot.lands for i, slot in slots.items() if hasattr(slot, "lands")}
    if precise and len(lands) == len(slots):
        options = {"landings": [], "exits": lands, **options}
    if inline:
        return graft(decoded, {}, inline={index: slot.__code__ for index, slot in slots.items()}, **options)
    return graft(decoded, slots, **options)


def grafted(function: FunctionType, places: Places, make: Maker, **options: Any) -> FunctionType:
    """A function like `function`, with grafted code."""
    code = graft_code(function.__code__, function.__globals__, places, make, **options)
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    for name in ("__kwdefaults__", "__doc__", "__qualname__", "__module__", "__annotations__"):
        setattr(copy, name, getattr(function, name))
    copy.__dict__.update(function.__dict__)
    return copy

