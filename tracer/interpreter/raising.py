"""Branches on a tensor one way of which does nothing but raise: capture goes the other way (graph/expectations.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rewriter.decode import Instruction

from ..values.tensors import TensorValue

if TYPE_CHECKING:
    from .frame import Frame

_JUMPS = {"POP_JUMP_IF_TRUE": True, "POP_JUMP_IF_FALSE": False}
#: how a way may end, beside by raising
_ENDS = frozenset(
    "RETURN_VALUE YIELD_VALUE RETURN_GENERATOR SEND FOR_ITER RERAISE PREP_RERAISE_STAR END_ASYNC_FOR GET_AWAITABLE "
    "CLEANUP_THROW".split()
)
#: a way that is longer than so many instructions does more than raise
_LONGEST = 300


def expected_truth(frame: Frame, value: TensorValue) -> bool | None:
    """The truth value of a tensor that the next instruction branches on, if the other way only raises.

    None: it is a branch like any. Else the region counts on it.
    """
    ctx = frame.ctx
    truth = truth_that_goes_on(frame.instructions, frame.ip)
    if truth is None or ctx.open_bodies or not ctx.request.history.expects:
        return None
    return truth if ctx.graph.expect(value.graph_tensor, truth) else None


def truth_that_goes_on(instructions: Sequence[Instruction], index: int) -> bool | None:
    """The bool on the stack with which the branch at this instruction does not raise; None where both ways go on."""
    negated = instructions[index].opname == "UNARY_NOT"
    jump = instructions[index + negated]
    jumps_if = _JUMPS.get(jump.opname)
    if jumps_if is None or jump.target is None:
        return None
    raises_there, raises_behind = only_raises(instructions, jump.target), only_raises(instructions, jump.index + 1)
    if raises_there == raises_behind:
        return None
    return (jumps_if == raises_behind) != negated


def only_raises(instructions: Sequence[Instruction], start: int) -> bool:
    """Does whatever begins at this instruction end in a `raise`, with no loop and nothing that suspends the frame?"""
    ways, seen = [start], set[int]()
    while ways:
        index = ways.pop()
        while index not in seen and instructions[index].opname != "RAISE_VARARGS":
            seen.add(index)
            instruction = instructions[index]
            target = instruction.target
            if instruction.opname in _ENDS or len(seen) > _LONGEST or (target is not None and target <= index):
                return False
            if target is not None and instruction.opname != "JUMP":
                ways.append(target)
            index = target if target is not None and instruction.opname == "JUMP" else index + 1
    return True
