"""decode and analysis over real code: every code object of a sample of the standard library and torch, or of all of it.

One test that goes over the corpus once: its parts are told apart by the function that fails, and counted, so that none
of them passes because it met nothing. With TORCHGRAFT_CORPUS=all it takes some minutes.
"""

from __future__ import annotations

import dis
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rewriter.analysis import MAYBE_NULL, NULL, OBJECT
from rewriter.decode import CANONICAL_OPNAMES, Decoded, Instruction, decode
from rewriter.instructions import JUMP_OPNAMES, TERMINAL_OPNAMES, effect
from tests.rewriter.corpus import codes

INLINES_COMPREHENSIONS = sys.version_info >= (3, 12)


def test_corpus() -> None:
    met: Counter[str] = Counter()
    opnames: set[str] = set()
    for code in codes():
        decoded = decode(code)
        met["codes"] += 1
        opnames.update(instruction.opname for instruction in decoded.instructions)
        originals = [o for o in dis.get_instructions(code) if o.opname not in ("CACHE", "EXTENDED_ARG")]
        instructions_point_at_units(decoded)
        handlers_protect_whole_units(decoded)
        slots_are_those_of_the_frame(decoded)
        positions_are_those_of_the_originals(decoded, originals)
        met["effects"] += effects_agree_with_dis(decoded, originals)
        met["as deep as the compiler says"] += stack_is_as_deep_as_the_compiler_says(decoded)
        met["nulls"] += only_calls_take_nulls(decoded)
        met["maybe nulls"] += maybe_nulls_are_saved_locals(decoded)
        met["loads"] += names_are_where_they_can_be(decoded)
        met["certain"] += what_the_compiler_proves_bound_is_certainly_bound(decoded, originals)
    assert opnames <= CANONICAL_OPNAMES
    assert len(opnames) > 80
    assert met["codes"] > 500
    assert met["effects"] > 20000
    assert met["as deep as the compiler says"] > 0.95 * met["codes"]
    assert met["nulls"] > 2000 and met["loads"] > 5000
    assert (met["maybe nulls"] > 0) == INLINES_COMPREHENSIONS
    assert (met["certain"] > 5000) == (sys.version_info >= (3, 12))


def instructions_point_at_units(decoded: Decoded) -> None:
    instructions, starts = decoded.instructions, set(decoded.unit_starts())
    assert [instruction.index for instruction in instructions] == list(range(len(instructions)))
    for instruction in instructions:
        assert (instruction.target is not None) == (instruction.opname in JUMP_OPNAMES), instruction
        assert instruction.target is None or instruction.target in starts, instruction
        assert instruction.unit in starts and instruction.unit <= instruction.index, instruction
    assert instructions[-1].opname in TERMINAL_OPNAMES, decoded
    assert decoded.start in starts, decoded


def handlers_protect_whole_units(decoded: Decoded) -> None:
    starts = {*decoded.unit_starts(), len(decoded.instructions)}
    end = 0
    for handler in decoded.handlers:
        assert end <= handler.start < handler.end, (decoded, handler)
        assert {handler.start, handler.end, handler.target} <= starts, (decoded, handler)
        end = handler.end


def slots_are_those_of_the_frame(decoded: Decoded) -> None:
    name_of: Any = getattr(decoded.code, "_varname_from_oparg")  # noqa: B009  # no type stub knows it
    found = [name_of(number) for number in range(len(decoded.slots))]
    assert len(set(decoded.slots)) == len(decoded.slots), decoded
    named_anew = [pair for pair in zip(decoded.slots, found, strict=True) if pair[0] != pair[1]]
    assert all(ours.lstrip(".") == theirs and found.count(theirs) == 2 for ours, theirs in named_anew), decoded


def positions_are_those_of_the_originals(decoded: Decoded, originals: list[dis.Instruction]) -> None:
    positions = {original.offset: original.positions for original in originals}
    for instruction in decoded.instructions:
        assert instruction.positions == positions[instruction.offset], (decoded, instruction)


def grouped(
    decoded: Decoded, originals: list[dis.Instruction]
) -> Iterator[tuple[list[Instruction], list[dis.Instruction]]]:
    """Canonical instructions beside the originals that they stand for (both halves of a super-instruction together)."""
    groups = [list(group) for _, group in itertools.groupby(decoded.instructions, key=lambda i: i.offset)]
    bounds = [group[0].offset for group in groups[1:]] + [len(decoded.code.co_code)]
    taken = 0
    for group, bound in zip(groups, bounds, strict=True):
        end = taken
        while end < len(originals) and originals[end].offset < bound:
            end += 1
        yield group, originals[taken:end]
        taken = end


def canonical_effect(group: list[Instruction], jump: bool) -> int:
    """How much deeper the stack is behind the group, or where it jumps to."""
    depth = 0
    for instruction in group:
        here = jump and instruction.target is not None
        taken, given = effect(instruction.opname, instruction.arg, jump=here)
        depth += given - taken
        if here:
            break
    return depth


def original_effect(originals: list[dis.Instruction], jump: bool) -> int:
    return sum(dis.stack_effect(original.opcode, original.arg, jump=jump) for original in originals)


def effects_agree_with_dis(decoded: Decoded, originals: list[dis.Instruction]) -> int:
    compared = 0
    for group, here in grouped(decoded, originals):
        names = {original.opname for original in here}
        if "END_FOR" in names:
            assert [instruction.opname for instruction in group] == ["NOP"]
            continue
        if names & {"RETURN_GENERATOR", "RETURN_VALUE"}:  # counted otherwise on some Pythons
            assert canonical_effect(group, jump=False) == (1 if "RETURN_GENERATOR" in names else -1)
            continue
        assert canonical_effect(group, jump=False) == original_effect(here, jump=False), (decoded, here)
        compared += 1
        if any(instruction.target is not None for instruction in group):
            # FOR_ITER and SEND end without their iterator, which dis leaves to what stands at the target.
            expected = -1 if names & {"FOR_ITER", "SEND"} else original_effect(here, jump=True)
            assert canonical_effect(group, jump=True) == expected, (decoded, here)
    return compared


def stack_is_as_deep_as_the_compiler_says(decoded: Decoded) -> bool:
    """Paths agree, or the first question raises. The compiler may count what it removed."""
    stacks = [decoded.stack_at(index) for index in decoded.unit_starts()]
    deepest = max(len(stack) for stack in stacks if stack is not None)
    size = decoded.code.co_stacksize
    assert deepest <= size, decoded
    return deepest == size


def only_calls_take_nulls(decoded: Decoded) -> int:
    """A call takes a NULL, or it is put back into its slot (3.14: or dropped); nothing else ever takes one."""
    nulls = 0
    for instruction in decoded.instructions:
        stack = decoded.stack_at(instruction.index)
        if stack is None or instruction.opname in ("SWAP", "STORE_FAST"):
            continue
        taken, _ = effect(instruction.opname, instruction.arg)
        kinds = stack[len(stack) - taken :]
        if instruction.opname in ("CALL", "CALL_KW", "CALL_FUNCTION_EX"):
            nulls += NULL in kinds[:2]
            kinds = kinds[2:]
        if instruction.opname == "POP_TOP" and sys.version_info >= (3, 14):
            kinds = ()  # an exit function's NULL, a call's empty kwargs
        assert set(kinds) <= {OBJECT}, (decoded, instruction, stack)
    return nulls


def maybe_nulls_are_saved_locals(decoded: Decoded) -> int:
    met = 0
    for index in decoded.unit_starts():
        stack, producers = decoded.stack_at(index), decoded.producers_at(index)
        for kind, pushers in zip(stack or (), producers or (), strict=True):
            if kind is MAYBE_NULL:
                met += 1
                assert {decoded.instructions[pusher].opname for pusher in pushers} == {"LOAD_FAST_AND_CLEAR"}
    return met


def names_are_where_they_can_be(decoded: Decoded) -> int:
    names, loads = frozenset(decoded.slots), 0
    for instruction in decoded.instructions:
        index = instruction.index
        if decoded.stack_at(index) is None:
            continue
        bound, maybe, live = decoded.bound_at(index), decoded.maybe_bound_at(index), decoded.live_at(index)
        assert bound <= maybe <= names and live <= names, (decoded, instruction)
        assert not decoded.cells_at(index) & maybe, (decoded, instruction)
        assert not decoded.unclear_at(index), (decoded, instruction)
        if instruction.opname == "LOAD_FAST":
            loads += 1
            assert instruction.arg in live, (decoded, instruction)
        elif instruction.opname in ("LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF"):
            assert instruction.arg in decoded.cells_at(index), (decoded, instruction)
    return loads


def what_the_compiler_proves_bound_is_certainly_bound(decoded: Decoded, originals: list[dis.Instruction]) -> int:
    """Since 3.12 it checks only the loads whose local it can't prove to be bound."""
    if sys.version_info < (3, 12):
        return 0
    certain = 0
    checked = {original.offset for original in originals if original.opname == "LOAD_FAST_CHECK"}
    for instruction in decoded.instructions:
        if instruction.opname != "LOAD_FAST" or instruction.offset in checked:
            continue
        if decoded.stack_at(instruction.index) is not None:
            assert instruction.arg in decoded.bound_at(instruction.index), (decoded, instruction)
            certain += 1
    return certain
