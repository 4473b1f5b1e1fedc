"""Every canonical instruction is handled or refused, once, and no other name is known."""

from __future__ import annotations

import pytest

from rewriter.instructions import CANONICAL_OPNAMES
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
