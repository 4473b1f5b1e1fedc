"""Questions about places and captures that need no state."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FrameType, FunctionType
from typing import Any

from rewriter.decode import Decoded
from rewriter.instructions import TERMINAL_OPNAMES
from rewriter.layouts import enterable

from ..graph.capture import Callee, Capture
from ..originals import original_code


def successors(decoded: Decoded, index: int) -> list[int]:
    """Where execution may go behind the unit that holds an instruction, handlers aside."""
    instructions = decoded.instructions
    at = unit = instructions[index].unit
    found = []
    while at < len(instructions) and instructions[at].unit == unit:
        target = instructions[at].target
        if target is not None:
            found.append(target)
        at += 1
    if instructions[at - 1].opname not in TERMINAL_OPNAMES and at < len(instructions):
        found.append(at)
    return found


def first_enterable(decoded: Decoded, indices: Iterable[int]) -> set[int]:
    """These places, each replaced by the first ones behind it where an entry can stand."""
    possible, todo = enterable(decoded), list(indices)
    seen: set[int] = set()
    found: set[int] = set()
    while todo:
        index = todo.pop()
        if index in seen:
            continue
        seen.add(index)
        if index in possible:
            found.add(index)
        else:
            todo += successors(decoded, index)
    return found


def behind(decoded: Decoded, captured: Capture) -> list[int]:
    """What follows the instruction that broke, or at which a region ends for another reason."""
    at = captured.exit.landing
    if captured.graph_break is not None and captured.graph_break.at is not None:
        at = captured.graph_break.at
    return successors(decoded, at)


def take_arguments(frame: FrameType, names: Iterable[str]) -> tuple[Any, ...] | None:
    """The values of these locals of a frame that is just starting; None if one has no value."""
    found = frame.f_locals
    if not all(name in found for name in names):
        return None
    arguments = tuple(found[name] for name in names)
    if type(found) is dict:  # before 3.13 this snapshot stays with the frame, and would keep the arguments alive
        found.clear()
    return arguments


def is_worth_it(captured: Capture) -> bool:
    """Does a region do what the original bytecode doesn't do as fast? A private callee has regions of its own."""
    return captured.graph is not None or any(isinstance(value, Callee) for value in captured.constants.values())


def code_of(function: FunctionType) -> CodeType:
    """The code that a function's author wrote."""
    return original_code(function.__code__)
