"""Write a code object: instructions with labels, handlers and positions, finished through bytecode's ConcreteBytecode.

Working at this level, and not with `bytecode.Bytecode`, keeps what the original had: the order of names and constants,
the handlers' depths, and the identity of constants (`Bytecode` merges equal ones).
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from types import CodeType
from typing import Any, NamedTuple

from bytecode import ConcreteBytecode, ConcreteInstr
from bytecode.concrete import ExceptionTableEntry
from bytecode.flags import CompilerFlags
from bytecode.instr import InstrLocation

from .lines import is_wide, location_table
from .region import UnknownOpcode, WildJump
from .units import Positions
from .versions_emit import BACKWARD_JUMPS, CACHES, CALL_PREFIXES, HAS_ARGUMENT, LOCALS_PLUS, OPCODE

Label = int


class Cover(NamedTuple):
    """The handler of an instruction: like units.Handler, with a label for a target."""

    target: Label
    depth: int
    lasti: bool


class Op(NamedTuple):
    name: str
    arg: int
    target: Label  # -1: none
    positions: Positions
    cover: Cover | None


class Assembler:
    """Collects instructions. `positions` and `cover` hold for all that is emitted until they are set anew."""

    def __init__(self, original: CodeType) -> None:
        self.original = original
        self.ops: list[Op] = []
        self.positions: Positions = (original.co_firstlineno, None, None, None)
        self.cover: Cover | None = None
        self.temporaries: list[str] = []
        self._places: list[int] = []  # of each label: the number of the op it stands before
        self._prefixes: list[int] = []
        self._names: list[str] = list(original.co_names)
        self._constants: list[Any] = list(original.co_consts)
        self._constant_numbers: dict[int, int] = {}

    def constant(self, value: object) -> int:
        """The number of a constant; the very same object comes back, never an equal one."""
        number = self._constant_numbers.setdefault(id(value), len(self._constants))
        if number == len(self._constants):
            self._constants.append(value)
        return number

    def name(self, name: str) -> int:
        """The number of a global's or attribute's name."""
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)

    def temporary(self, name: str) -> int:
        """The index of a local of ours; no name of the original code clashes with it."""
        taken = (*self.original.co_varnames, *self.original.co_cellvars, *self.original.co_freevars)
        while name in taken:
            name = "." + name
        if name not in self.temporaries:
            self.temporaries.append(name)
        return self.original.co_nlocals + self.temporaries.index(name)

    def label(self) -> Label:
        self._places.append(-1)
        return len(self._places) - 1

    def place(self, label: Label) -> None:
        if self._places[label] >= 0:
            raise WildJump(f"label {label} placed twice")
        self._places[label] = len(self.ops)

    def unit_at(self, label: Label) -> int:
        """The number of the unit at a label; KW_NAMES and PRECALL are part of their CALL's."""
        return self._places[label] - self._prefixes[self._places[label]]

    def emit(self, name: str, arg: int = 0) -> None:
        self.ops.append(Op(name, arg, -1, self.positions, self.cover))

    def emit_all(self, ops: tuple[tuple[str, int], ...]) -> None:
        for name, arg in ops:
            self.ops.append(Op(name, arg, -1, self.positions, self.cover))

    def original_op(self, name: str, arg: int) -> None:
        """An instruction of the original: the indices of its cells and free variables move behind our temporaries."""
        if name in LOCALS_PLUS and arg >= self.original.co_nlocals:
            arg = -1 - arg  # settled when all temporaries are known
        self.ops.append(Op(name, arg, -1, self.positions, self.cover))

    def jump(self, name: str, target: Label) -> None:
        self.ops.append(Op(name, 0, target, self.positions, self.cover))

    def load_constant(self, value: object) -> None:
        self.emit("LOAD_CONST", self.constant(value))

    def finish(self, stacksize: int) -> CodeType:
        unknown = sorted({op.name for op in self.ops} - OPCODE.keys())
        if unknown:
            raise UnknownOpcode(f"{', '.join(unknown)}: no instruction of this Python's compiler")
        self._prefixes = list(accumulate((op.name in CALL_PREFIXES for op in self.ops), initial=0))
        args, starts = self._resolve()
        concrete = ConcreteBytecode(
            consts=tuple(self._constants),
            names=tuple(self._names),
            varnames=(*self.original.co_varnames, *self.temporaries),
            exception_table=self._table(starts),
        )
        _copy_attributes(concrete, self.original)
        concrete[:] = self._instructions(args)
        code = concrete.to_code(stacksize=stacksize, compute_exception_stack_depths=False)
        if any(map(is_wide, {op.positions for op in self.ops})):
            lengths = (after - start for start, after in pairwise(starts))
            runs = zip(lengths, (op.positions for op in self.ops), strict=True)
            code = code.replace(co_linetable=location_table(self.original.co_firstlineno, runs))
        return code

    def _resolve(self) -> tuple[list[int], list[int]]:
        """The argument of each op, and where it starts (in code units, EXTENDED_ARGs included); and the end."""
        extra = len(self.temporaries)
        args = [op.arg if op.arg >= 0 else -1 - op.arg + extra for op in self.ops]
        sizes = [_size(arg) + CACHES[op.name] for op, arg in zip(self.ops, args, strict=True)]
        jumps = [k for k, op in enumerate(self.ops) if op.target >= 0]
        while True:
            starts, at = [], 0
            for size in sizes:
                starts.append(at)
                at += size
            starts.append(at)
            grown = False
            for k in jumps:
                args[k] = self._distance(k, starts)
                size = _size(args[k]) + CACHES[self.ops[k].name]
                if size > sizes[k]:  # never shrink: so this ends
                    sizes[k], grown = size, True
            if not grown:
                return args, starts

    def _distance(self, k: int, starts: list[int]) -> int:
        op = self.ops[k]
        place = self._places[op.target]
        if not 0 <= place < len(self.ops):
            raise WildJump(f"{op.name} at line {op.positions[0]} has no target")
        distance = starts[place] - starts[k + 1]
        if op.name in BACKWARD_JUMPS:
            distance = -distance
        if distance < 0:
            raise WildJump(f"{op.name} at line {op.positions[0]} cannot jump that way")
        return distance

    def _table(self, starts: list[int]) -> list[ExceptionTableEntry]:
        """One entry for each run of instructions with the same handler."""
        table, first = [], 0
        for k in range(1, len(self.ops) + 1):
            if k < len(self.ops) and self.ops[k].cover == self.ops[first].cover:
                continue
            cover = self.ops[first].cover
            if cover is not None:
                target = starts[self._places[cover.target]]
                table.append(ExceptionTableEntry(starts[first], starts[k] - 1, target, cover.depth, cover.lasti))
            first = k
        return table

    def _instructions(self, args: list[int]) -> list[ConcreteInstr]:
        locations: dict[Positions, InstrLocation] = {}
        caches: dict[Positions, ConcreteInstr] = {}
        instructions = []
        for op, arg in zip(self.ops, args, strict=True):
            location = locations.get(op.positions)
            if location is None:
                location = locations[op.positions] = _location(op.positions)
                caches[op.positions] = ConcreteInstr("CACHE", 0, location=location)
            if op.name in HAS_ARGUMENT:
                instructions.append(ConcreteInstr(op.name, arg, location=location))
            else:
                instructions.append(ConcreteInstr(op.name, location=location))
            if CACHES[op.name]:
                instructions.extend([caches[op.positions]] * CACHES[op.name])
        return instructions


def _size(arg: int) -> int:
    """Code units of an instruction without its caches."""
    return 1 if arg < 1 << 8 else 2 if arg < 1 << 16 else 3 if arg < 1 << 24 else 4


def _location(positions: Positions) -> InstrLocation:
    line, end_line, column, end_column = positions
    if line is None or column is None or end_column is None:
        return InstrLocation(line, None, None, None)
    return InstrLocation(line, end_line, column, end_column)


def _copy_attributes(concrete: ConcreteBytecode, code: CodeType) -> None:
    concrete.name, concrete.qualname, concrete.filename = code.co_name, code.co_qualname, code.co_filename
    concrete.flags = CompilerFlags(code.co_flags)
    concrete.argcount = code.co_argcount
    concrete.posonlyargcount = code.co_posonlyargcount
    concrete.kwonlyargcount = code.co_kwonlyargcount
    concrete.first_lineno = code.co_firstlineno
    concrete.freevars, concrete.cellvars = list(code.co_freevars), list(code.co_cellvars)
