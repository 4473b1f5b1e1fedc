"""A code object -> canonical instructions, the same on every Python (ARCHITECTURE.md, "Canonical instructions").

Above `versions`, `instructions`, `lowering` and `analysis`; all that reads bytecode, captures included, reads what this
file gives. `co_code` never shows specialised or instrumented instructions, so it does not matter here what runs or
watches a function.
"""
from __future__ import annotations

import inspect
import opcode
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from . import versions
from .analysis import Analysis, AnalysisError, Kind
from .instructions import CANONICAL_OPNAMES, JUMP_OPNAMES, DecodeError, Handler, Instruction, Positions
from .lowering import LOWERINGS, SUPER_INSTRUCTIONS, Lowering, Names, Pieces, refuse

__all__ = ["CANONICAL_OPNAMES", "AnalysisError", "DecodeError", "Decoded", "Handler", "Instruction", "Kind", "decode"]

#: What `co_code` may hold: no pseudo-instruction of the compiler, nothing instrumented.
REAL_OPCODES = {name: op for name, op in opcode.opmap.items() if op < 256 and not name.startswith("INSTRUMENTED_")}
_EXTENDED_ARG = REAL_OPCODES["EXTENDED_ARG"]
_RESUME = REAL_OPCODES["RESUME"]
_CALL = REAL_OPCODES["CALL"]
_KW_NAMES = REAL_OPCODES.get("KW_NAMES")
_PUSH_NULL = REAL_OPCODES["PUSH_NULL"]
_LOAD_GLOBAL = REAL_OPCODES["LOAD_GLOBAL"]
_COMPARE_OP = REAL_OPCODES["COMPARE_OP"]
_CALL_FUNCTION_EX = REAL_OPCODES["CALL_FUNCTION_EX"]
_PREFIXES = frozenset(REAL_OPCODES[name] for name in versions.CALL_PREFIXES if name in REAL_OPCODES)
_LOWERINGS: list[Lowering] = [LOWERINGS.get(name) or refuse(name) for name in opcode.opname[:256]]
_SUPER: dict[int, tuple[Lowering, Lowering]] = {
    REAL_OPCODES[name]: (LOWERINGS[first], LOWERINGS[second])
    for name, (first, second) in SUPER_INSTRUCTIONS.items()
    if name in REAL_OPCODES
}
#: Jump -> whether it goes back. Each counts from behind its own caches. (3.14's END_ASYNC_FOR never jumps: its
#: argument is for monitoring.)
_JUMPS: dict[int, bool] = {
    op: "BACKWARD" in name for name, op in REAL_OPCODES.items() if op in opcode.hasjrel and name != "END_ASYNC_FOR"
}
#: FOR_ITER and SEND jump behind what stands at their targets: canonically they drop the iterator themselves.
_AT_TARGET: dict[int, tuple[int, ...]] = {
    REAL_OPCODES["FOR_ITER"]: tuple(REAL_OPCODES[name] for name in versions.FOR_END),
    REAL_OPCODES["SEND"]: tuple(REAL_OPCODES[name] for name in versions.SEND_END),
}


#: What `_Walk.run` does not just lower.
_SPECIAL = frozenset({*_PREFIXES, *_SUPER, *_JUMPS, _CALL, _CALL_FUNCTION_EX, _RESUME})
_SPECIAL |= {_COMPARE_OP} if versions.COMPARE_TO_BOOL_BIT else set()
#: Makes an Instruction of a tuple with all fields; half the time of calling the class.
_new: Callable[[type[Instruction], tuple[Any, ...]], Instruction] = tuple.__new__

_TO_BOOL: Pieces = (("TO_BOOL", None),)

READS_FRAME = frozenset({"locals", "vars", "dir", "eval", "exec", "breakpoint", "_getframe", "currentframe"})


class _Walk:
    """One pass over a code object's instructions, and what it has found so far."""

    def __init__(self, code: CodeType) -> None:
        self.code, self.body = code, code.co_code
        self.names = Names(code)
        #: Each unit: its canonical pieces, offset, target's offset (of the piece that jumps) or -1.
        self.rows: list[tuple[Pieces, int, int]] = []
        #: Offset at which a unit starts, prefixes and EXTENDED_ARG included -> its first canonical index.
        self.unit_at: dict[int, int] = {}
        #: Number of pieces so far.
        self.size = 0
        self.start = -1

    def run(self) -> None:
        body, names, rows, unit_at, end = self.body, self.names, self.rows, self.unit_at, len(self.body)
        begin = offset = extended = 0
        previous = (0, 0)
        first = -1  # of a unit that KW_NAMES or PRECALL began
        keywords: tuple[str, ...] | None = None
        while offset < end:
            op, arg = body[offset], body[offset + 1] | extended
            if op == _EXTENDED_ARG:
                extended = arg << 8
                offset += 2
                continue
            behind = offset + 2
            while behind < end and not body[behind]:  # CACHE is opcode 0
                behind += 2
            unit_at[begin] = self.size
            if op not in _SPECIAL:
                pieces = _LOWERINGS[op](arg, names)
                rows.append((pieces, offset, -1))
                self.size += len(pieces)
            elif op in _PREFIXES:
                first = offset if first < 0 else first
                keywords = names.consts[arg] if op == _KW_NAMES else keywords
            elif op == _CALL:
                pieces = (("CALL", arg),) if keywords is None else (("LOAD_CONST", keywords), ("CALL_KW", arg))
                rows.append((pieces, offset if first < 0 else first, -1))
                self.size += len(pieces)
                first, keywords = -1, None
            else:
                self.special(op, arg, offset, behind, previous)
            previous = (op, arg)
            begin = offset = behind
            extended = 0
        unit_at[end] = self.size

    def special(self, op: int, arg: int, offset: int, behind: int, previous: tuple[int, int]) -> None:
        """Super-instructions, jumps, and what must be noted."""
        if op in _SUPER:
            first, second = _SUPER[op]
            self.rows.append((first(arg >> 4, self.names), offset, -1))
            self.rows.append((second(arg & 15, self.names), offset, -1))
            self.size += 2
            return
        if op == _COMPARE_OP and arg & versions.COMPARE_TO_BOOL_BIT:  # a region may end between the two
            self.rows.append((_LOWERINGS[op](arg & ~versions.COMPARE_TO_BOOL_BIT, self.names), offset, -1))
            self.rows.append((_TO_BOOL, offset, -1))
            self.size += 2
            return
        target = -1
        if op == _CALL_FUNCTION_EX and versions.CALL_FUNCTION_EX_TAKES_NULL:
            has_keywords = not pushes_null(*previous)
            call = ("CALL_FUNCTION_EX", has_keywords)
            pieces: Pieces = (call,) if has_keywords else (("POP_TOP", None), call)
        else:
            pieces = _LOWERINGS[op](arg, self.names)
        if op in _JUMPS:
            target = self.behind_loop(op, behind - 2 * arg if _JUMPS[op] else behind + 2 * arg)
        self.rows.append((pieces, offset, target))
        self.size += len(pieces)
        if op == _RESUME and self.start < 0:
            self.start = self.size

    def behind_loop(self, op: int, target: int) -> int:
        for expected in _AT_TARGET.get(op, ()):
            if target >= len(self.body) or self.body[target] != expected:
                raise self.error(f"no {opcode.opname[expected]} at offset {target}, the target of {opcode.opname[op]}")
            target += 2
        return target

    def at(self, offset: int) -> int:
        index = self.unit_at.get(offset)
        if index is None:
            raise self.error(f"no instruction at offset {offset}")
        return index

    def error(self, message: str) -> DecodeError:
        return DecodeError(f"{self.code.co_qualname} ({self.code.co_filename}:{self.code.co_firstlineno}): {message}")

    def instructions(self) -> tuple[Instruction, ...]:
        positions: list[Positions] = list(self.code.co_positions())
        found: list[Instruction] = []
        index = 0
        for pieces, offset, jump in self.rows:
            unit, where = index, positions[offset >> 1]
            for opname, arg in pieces:
                target = self.at(jump) if jump >= 0 and opname in JUMP_OPNAMES else None
                found.append(_new(Instruction, (index, opname, arg, target, unit, offset, where)))
                index += 1
        return tuple(found)

    def handlers(self) -> tuple[Handler, ...]:
        return tuple(
            Handler(self.at(start), self.at(end), self.at(target), depth, lasti)
            for start, end, target, depth, lasti in exception_table(self.code)
        )


def exception_table(code: CodeType) -> list[tuple[int, int, int, int, bool]]:
    """(start, end, target, depth, lasti) in bytes, end exclusive; in the code they are numbers of six-bit digits."""
    numbers: list[int] = []
    number = 0
    for byte in code.co_exceptiontable:
        number = number << 6 | byte & 63
        if not byte & 64:
            numbers.append(number)
            number = 0
    entries = zip(*(iter(numbers),) * 4, strict=True)
    return [
        (2 * start, 2 * (start + size), 2 * target, rest >> 1, bool(rest & 1))
        for start, size, target, rest in entries
    ]


def pushes_null(op: int, arg: int) -> bool:
    """Whether a NULL is on top behind the instruction (3.14 folds that of the empty kwargs into a LOAD_GLOBAL)."""
    return op == _PUSH_NULL or (op == _LOAD_GLOBAL and bool(arg & 1))


class Decoded:
    """A code object's canonical instructions. Made by `decode`; what is worked out about it is kept with it."""

    __slots__ = ("_shared", "arguments", "cells", "code", "free", "handlers", "instructions", "slots", "start")

    def __init__(self, code: CodeType, shared: _Shared) -> None:
        self.code = code
        self._shared = shared
        self.instructions = shared.instructions
        self.handlers = shared.handlers
        #: Where the start entry stands: behind the first RESUME.
        self.start = shared.start
        #: The frame's slots in order (an argument that is a cell has one), no name twice.
        self.slots = shared.slots
        #: Names that are bound when the function starts (those that are in `cells` too move into their cells).
        self.arguments = shared.arguments
        self.cells, self.free = shared.cells, shared.free

    def handler_at(self, index: int) -> Handler | None:
        return self._shared.handler_of[index]

    def index_at(self, offset: int) -> int:
        """The unit at an offset of `co_code`, such as a frame's `f_lasti`; of two halves the first."""
        return self._shared.unit_of(offset)

    def unit_starts(self) -> list[int]:
        return [instruction.index for instruction in self.instructions if instruction.unit == instruction.index]

    def stack_at(self, index: int) -> tuple[Kind, ...] | None:
        """What lies on the stack before an instruction, bottom first; None if it is never reached."""
        state = self._shared.analysis().before[index]
        return None if state is None else tuple([slot.kind for slot in state.stack])

    def producers_at(self, index: int) -> tuple[frozenset[int], ...] | None:
        """Which instructions may have pushed each slot of `stack_at` (none: the interpreter, for a handler)."""
        state = self._shared.analysis().before[index]
        return None if state is None else tuple([slot.producers for slot in state.stack])

    def bound_at(self, index: int) -> frozenset[str]:
        """The locals that are certainly bound. A name whose slot may hold a cell is no local there."""
        return self._shared.locals_in(index, self._shared.analysis().state(index).bound_every)

    def maybe_bound_at(self, index: int) -> frozenset[str]:
        return self._shared.locals_in(index, self._shared.analysis().state(index).bound_some)

    def live_at(self, index: int) -> frozenset[str]:
        """The locals that some path reads before it writes them; all, where the function may look at its own frame."""
        live = -1 if self._shared.reads_frame else self._shared.analysis().live[index]
        return self._shared.locals_in(index, live)

    def cells_at(self, index: int) -> frozenset[str]:
        """The cell and free variables whose slot certainly holds the cell (an inlined comprehension may borrow it)."""
        analysis = self._shared.analysis()
        return analysis.names(analysis.state(index).cells_every)

    def unclear_at(self, index: int) -> frozenset[str]:
        """The names whose slot holds a cell on one path and none on another: no place for an entry or landing."""
        analysis = self._shared.analysis()
        state = analysis.state(index)
        return analysis.names(state.cells_some & ~state.cells_every)

    def handlers_entered(self, index: int) -> tuple[int, ...]:
        """The PUSH_EXC_INFOs whose exception is being handled, the innermost last."""
        return self._shared.analysis().state(index).entered

    def __repr__(self) -> str:
        return f"<Decoded {self.code.co_qualname}: {len(self.instructions)} instructions>"


class _Shared:
    """What every Decoded of one code object shares. It must not hold the code, so that a dropped one is freed."""

    def __init__(self, code: CodeType) -> None:
        walk = _Walk(code)
        walk.run()
        if walk.start < 0:
            raise walk.error("no RESUME")
        self.start, self.unit_at, self.slots = walk.start, walk.unit_at, walk.names.slots
        self.instructions = walk.instructions()
        self.handlers = walk.handlers()
        self.handler_of: list[Handler | None] = [None] * len(self.instructions)
        for handler in self.handlers:
            self.handler_of[handler.start:handler.end] = [handler] * (handler.end - handler.start)
        self.arguments = arguments(code)
        self.cells, self.free = walk.names.cells, walk.names.free
        #: It names something that shows a frame's locals, so that each of them may be looked at.
        self.reads_frame = not READS_FRAME.isdisjoint(code.co_names)
        self._analysis: Analysis | None = None
        self._unit_of: dict[int, int] | None = None
        if versions.LOAD_FAST_LOADS_CELLS and any(
            instruction.opname == "LOAD_FAST_AND_CLEAR" and instruction.arg in walk.names.shared
            for instruction in self.instructions
        ):
            self.instructions = self.loads_of_locals()

    def loads_of_locals(self) -> tuple[Instruction, ...]:
        """Where an inlined comprehension uses a cell's slot for a local of its own, a load is no load of the cell."""
        analysis = self.analysis()
        return tuple(
            instruction._replace(opname="LOAD_FAST")
            if instruction.opname == "LOAD_CLOSURE"
            and (state := analysis.before[instruction.index]) is not None
            and not state.cells_some & analysis.bit[instruction.arg]
            else instruction
            for instruction in self.instructions
        )

    def analysis(self) -> Analysis:
        if self._analysis is None:
            self._analysis = Analysis(self.instructions, self.handler_of, self.slots, self.arguments, self.free)
        return self._analysis

    def unit_of(self, offset: int) -> int:
        if self._unit_of is None:
            # Reversed: of a super-instruction's halves the first wins. `unit_at` knows where prefixes are.
            self._unit_of = {instruction.offset: instruction.unit for instruction in reversed(self.instructions)}
            self._unit_of.update(self.unit_at)
        return self._unit_of[offset]

    def locals_in(self, index: int, mask: int) -> frozenset[str]:
        analysis = self.analysis()
        return analysis.names(mask & ~analysis.state(index).cells_some)


def arguments(code: CodeType) -> tuple[str, ...]:
    collected = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + collected]


#: id(code) -> (the code, weakly; what its Decodeds share). By identity: `code == code.replace()`.
_cache: dict[int, tuple[weakref.ref[CodeType], _Shared]] = {}


def decode(code: CodeType) -> Decoded:
    """The canonical instructions of `code`; raises DecodeError where it isn't what this Python's compiler makes."""
    found = _cache.get(id(code))
    if found is not None and found[0]() is code:
        return Decoded(code, found[1])
    shared = _Shared(code)
    key = id(code)
    _cache[key] = (weakref.ref(code, lambda _: _cache.pop(key, None)), shared)
    return Decoded(code, shared)
