"""Every canonical instruction is handled or refused, once, and no other name is known."""

from __future__ import annotations

from rewriter.instructions import CANONICAL_OPNAMES
from tracer.interpreter import opcodes
from tracer.interpreter.frame import HANDLERS, REFUSED

assert opcodes


def test_handled_and_refused_are_all_canonical_instructions() -> None:
    assert set(HANDLERS) | set(REFUSED) == CANONICAL_OPNAMES


def test_no_instruction_is_both_handled_and_refused() -> None:
    assert not set(HANDLERS) & set(REFUSED)


def test_each_refusal_has_a_reason() -> None:
    assert all(len(reason.split()) > 2 for reason in REFUSED.values())
