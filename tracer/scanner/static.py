"""What can be said of a function's bytecode without running it."""

from __future__ import annotations

from typing import Any

from rewriter.decode import Decoded, Instruction
from rewriter.instructions import effect

from .report import ScannedInstruction

#: Canonical instructions that tensors answer: operators, items, iteration, truth, attributes (`x.T`), calls.
TENSORS_ANSWER = frozenset([
    "UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE", "TO_BOOL", "BINARY_OP", "COMPARE_OP", "CONTAINS_OP",
    "BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR", "GET_ITER", "UNPACK_SEQUENCE", "UNPACK_EX", "GET_LEN",
    "LOAD_ATTR", "STORE_ATTR", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC",
    "CONVERT_VALUE",
])  # fmt: skip


def rows(decoded: Decoded) -> list[ScannedInstruction]:
    return [_row(decoded, instruction) for instruction in decoded.instructions]


def _row(decoded: Decoded, instruction: Instruction) -> ScannedInstruction:
    taken, given = effect(instruction.opname, instruction.arg)
    stack = decoded.stack_at(instruction.index)
    return ScannedInstruction(
        instruction.index, instruction.offset, instruction.positions[0], instruction.opname,
        argument(decoded, instruction), taken, given, None if stack is None else len(stack),
        instruction.opname in TENSORS_ANSWER and stack is not None,
    )  # fmt: skip


def argument(decoded: Decoded, instruction: Instruction) -> str:
    """The argument in few words; a jump's is the offset to which it goes."""
    if instruction.target is not None:
        return f"to {decoded.instructions[instruction.target].offset}"
    arg: Any = instruction.arg
    if arg is None and instruction.opname != "LOAD_CONST":
        return ""
    if instruction.opname == "LOAD_CONST":
        return f"code {arg.co_name}" if type(arg).__name__ == "code" else repr(arg)
    return arg if isinstance(arg, str) else str(arg)
