"""Every canonical instruction is handled or refused, once, and no other name is known."""

from __future__ import annotations

import dis
import opcode

import pytest

from rewriter.instructions import CANONICAL_OPNAMES
from rewriter.lowering import LOWERINGS, SUPER_INSTRUCTIONS
from rewriter.lowering import REFUSED as NOT_IN_CODE
from tracer.breaks import BREAKS
from tracer.errors import InternalError
from tracer.interpreter import opcodes
from tracer.interpreter.frame import HANDLERS, REFUSED, handles, refuses

assert opcodes


def test_handled_and_refused_are_all_canonical_instructions() -> None:
    assert set(HANDLERS) | set(REFUSED) == CANONICAL_OPNAMES


def test_no_instruction_is_both_handled_and_refused() -> None:
    assert not set(HANDLERS) & set(REFUSED)


def test_each_refusal_has_a_reason() -> None:
    assert all(len(reason.split()) > 2 for reason in REFUSED.values())


def test_an_instruction_is_handled_or_refused_not_both() -> None:
    with pytest.raises(InternalError, match="take it out of refuses"):
        handles(next(iter(REFUSED)))(HANDLERS["JUMP"])
    with pytest.raises(InternalError, match="both handled and refused"):
        refuses("because it is", "JUMP")


def test_every_opcode_of_this_python_is_handled_or_refused_with_a_title() -> None:
    """`dis` is asked, so that an opcode of a new Python is missed here and not by a user."""
    hidden = {"CACHE", "EXTENDED_ARG", "KW_NAMES", "PRECALL"}  # parts of the instruction that follows or goes before
    real = {name for name, number in dis.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")}
    real -= set(getattr(opcode, "_specialized_opmap", {}))
    unknown = real - set(LOWERINGS) - set(SUPER_INSTRUCTIONS) - set(NOT_IN_CODE) - hidden
    assert not unknown, "say in rewriter/lowering.py what these are in canonical instructions"
    assert set(REFUSED.values()) <= set(BREAKS), "each refusal has a title that docs/breaks.md explains"
