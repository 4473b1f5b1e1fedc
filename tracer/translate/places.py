"""Questions about places and captures that need no state."""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterable
from types import CodeType, FrameType, FunctionType
from typing import Any

from rewriter.decode import Decoded
from rewriter.handlers import only_tidies
from rewriter.instructions import TERMINAL_OPNAMES
from rewriter.layouts import enterable, wide_landable
from rewriter.loops import loops, loops_around
from rewriter.region import EntryLayout

from ..cache import Family
from ..graph.capture import Callee, Capture, ClosureCallee
from ..originals import original_code

SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
#: A function of more units than this is long, with loops and without. Landings everywhere cost 0.2 to 0.4 ms a unit.
LONG, LONG_WITH_LOOPS = 150, 2000
#: A capture never breaks at these, or so seldom that a frame which is running may go without a landing there.
PLAIN = frozenset(
    "NOP POP_TOP COPY SWAP PUSH_NULL LOAD_CONST LOAD_FAST STORE_FAST LOAD_FAST_AND_CLEAR LOAD_CLOSURE LOAD_DEREF "
    "STORE_DEREF LOAD_GLOBAL MAKE_CELL BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_SLICE BUILD_STRING LIST_APPEND "
    "LIST_EXTEND MAP_ADD IS_OP UNARY_NOT MAKE_FUNCTION SET_FUNCTION_ATTRIBUTE PUSH_EXC_INFO RERAISE "
    "BINARY_OP COMPARE_OP LOAD_ATTR UNPACK_SEQUENCE".split()
)
#: What only goes on elsewhere, or always breaks: no capture begins there.
PASSED = frozenset(
    ["JUMP", "PREP_RERAISE_STAR", "WITH_EXCEPT_START", "RERAISE", "CLEANUP_THROW", "END_ASYNC_FOR"]
)


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


def handlers(decoded: Decoded, index: int) -> list[int]:
    """Where execution goes if this instruction raises, and the function doesn't end."""
    handler = decoded.handler_at(index)
    while handler is not None and only_tidies(decoded, handler.target):
        handler = decoded.handler_at(handler.target)
    return [] if handler is None else [handler.target]


def first_enterable(decoded: Decoded, indices: Iterable[int]) -> set[int]:
    """These places, each replaced by the first ones behind it where an entry can stand and a capture can begin."""
    instructions = decoded.instructions
    return first_among(decoded, indices, {i for i in enterable(decoded) if instructions[i].opname not in PASSED})


def first_among(decoded: Decoded, indices: Iterable[int], places: Container[int]) -> set[int]:
    """These places, each replaced by the first ones behind it that are among some others."""
    todo, seen, found = list(indices), set(), set()
    while todo:
        index = todo.pop()
        if index in seen:
            continue
        seen.add(index)
        if index in places:
            found.add(index)
        # A user's iterator may be captured, any other is advanced by the original.
        if index not in found or decoded.instructions[index].opname == "FOR_ITER":
            todo += successors(decoded, index)
    return found


def behind(decoded: Decoded, captured: Capture) -> list[int]:
    """What follows the instruction that broke, or the place itself where a region ends for another reason."""
    if captured.goes_on is not None:
        raises_again = only_tidies(decoded, captured.goes_on)
        return handlers(decoded, captured.goes_on) if raises_again else [captured.goes_on]
    if captured.graph_break is None:
        landing = captured.exit.landing
        unit = [i.opname for i in decoded.instructions[landing : landing + 2] if i.unit == landing]
        if "RETURN_VALUE" in unit:
            return []
        return handlers(decoded, landing) if "RERAISE" in unit else [landing]
    landing, at = captured.exit.landing, captured.graph_break.at
    if at is None or at == landing:
        return behind_break(decoded, landing)
    # It broke where no region can land, in a handler for example: the original runs from the landing to there.
    return behind_break(decoded, at) + handlers(decoded, landing)


def behind_break(decoded: Decoded, index: int) -> list[int]:
    """What may follow an instruction that the original bytecode runs."""
    return successors(decoded, index) + handlers(decoded, index)


def running_places(decoded: Decoded) -> tuple[set[int], set[int]]:
    """Entries and landings for the first call of a function, wherever it may break.

    A frame keeps its code object, so these must be there before anything is known of what breaks. None, two empty sets,
    for a long function: there they cost more than is lost when its first calls run plain behind a break.
    """
    heads = {loop.head for loop in loops(decoded)}
    stays = bool(heads) or bool(decoded.code.co_flags & SUSPENDS)
    if len(decoded.unit_starts()) > (LONG_WITH_LOOPS if stays else LONG):
        return set(), set()
    last = {i.unit: i.opname for i in decoded.instructions if decoded.stack_at(i.unit) is not None}  # of each unit
    breaking = {unit for unit in last if last[unit] not in PLAIN}
    calls = {unit for unit in breaking if last[unit].startswith("CALL")}
    landings = breaking | heads | {behind for unit in calls for behind in successors(decoded, unit)}
    landings |= {unit for unit, opname in last.items() if opname == "RETURN_VALUE"}
    wanted = [behind for unit in breaking for behind in behind_break(decoded, unit)]
    tries = {h.start for h in decoded.handlers if not only_tidies(decoded, h.target)}  # a region rather begins within
    return first_enterable(decoded, [*heads, *tries, *wanted]), landings & wide_landable(decoded)


def changing_parameters(decoded: Decoded, layout: EntryLayout) -> frozenset[str]:
    """What a slot in a loop is given, and otherwise by each iteration: locals that the loop assigns, the stack."""
    within = {unit for loop in loops_around(decoded, layout.index) for unit in loop.body}
    if not within:
        return frozenset()
    assigned = {i.arg for i in decoded.instructions if i.unit in within and i.opname == "STORE_FAST"}
    parameters = dict(zip(layout.locals, layout.parameters, strict=False))
    stack = layout.parameters[len(layout.locals) + len(layout.cells) :]
    return frozenset(parameters[name] for name in assigned & parameters.keys()).union(stack)


def take_arguments(frame: FrameType, names: Iterable[str]) -> tuple[Any, ...] | None:
    """The values of these locals of a frame that is just starting; None if one has no value."""
    found = frame.f_locals
    if not all(name in found for name in names):
        return None
    arguments = tuple(found[name] for name in names)
    if type(found) is dict:  # before 3.13 this snapshot stays with the frame, and would keep the arguments alive
        found.clear()
    return arguments


def is_worth_it(captured: Capture, family: Family) -> bool:
    """Does a region do what the original bytecode doesn't do as fast? A private callee may have regions of its own."""
    return captured.graph is not None or captured.spares or any(
        isinstance(value, (Callee, ClosureCallee)) and not family.is_idle(value.original)
        for value in captured.constants.values()
    )


def code_of(function: FunctionType) -> CodeType:
    """The code that a function's author wrote."""
    return original_code(function.__code__)
