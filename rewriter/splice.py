"""Put the code of a slot in place of the call of it: the same instructions, on the entry's stack, in the user's frame.

Saves the call, about 60 ns. The slot's parameters become the locals and cells that they are, where the slot does not
bind them anew, or else temporaries; its locals become temporaries, unbound again at its end, but seen in `locals()` and
`f_locals` while it runs; its returns become jumps; its handlers keep their ranges, deeper by the entry's stack. What it
did not handle itself the entry's own handler gets, as it would from the call.
"""

from __future__ import annotations

import inspect
from types import CodeType

from .assemble import Assembler, Cover, Label
from .decode import decode
from .region import EntryLayout, SlotMismatch
from .units import Unit, units
from .versions_emit import CONSTANTS, LOCALS_PLUS, NAME_SHIFT


class Splice:
    """The code of one slot, to be written into one graft."""

    def __init__(self, code: CodeType, layout: EntryLayout) -> None:
        if code.co_cellvars or code.co_freevars or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
            raise SlotMismatch(f"{code.co_name}: code with cells or yields cannot be inlined")
        self.code, self.layout = code, layout
        self.units = units(code)
        decoded = decode(code)
        #: Locals by the index in the slot's frame: those that the slot binds itself, or that the frame has not as such.
        self.assigned = {i.arg for i in decoded.instructions if i.opname in ("STORE_FAST", "DELETE_FAST")}
        self.assigned |= {i.arg for i in decoded.instructions if i.opname == "LOAD_FAST_AND_CLEAR"}
        for instruction in decoded.instructions:
            stack = decoded.stack_at(instruction.index)
            if instruction.opname == "RETURN_VALUE" and stack is not None and len(stack) != 1:
                raise SlotMismatch(f"{code.co_name}: returns with {len(stack)} objects on its stack")

    def parameters_kept(self) -> set[str]:
        """The parameters that need a temporary: bound anew, passed from the stack, or perhaps unbound in the frame."""
        layout = self.layout
        names = layout.parameters
        plain = {name for name, local in zip(names, layout.locals, strict=False) if local not in layout.checked}
        plain.update(names[len(layout.locals) : len(layout.locals) + len(layout.cells)])
        return {name for name in names if name not in plain or name in self.assigned}

    def write(self, assembler: Assembler, frame: dict[str, tuple[str, int]], done: Label) -> list[int]:
        """Write the body. `frame`: how each parameter is loaded. The result is on the stack at `done`.

        Returns the temporaries that may be bound then.
        """
        temporary = {name: assembler.temporary(f".{name}") for name in self.code.co_varnames if name not in frame}
        height = len(self.layout.stack)
        labels = [assembler.label() for _ in self.units]
        outer = assembler.cover
        for unit, label in zip(self.units, labels, strict=True):
            assembler.place(label)
            handler = unit.handler
            assembler.cover = outer
            if handler is not None:
                assembler.cover = Cover(labels[handler.target], handler.depth + height, handler.lasti)
            self._unit(assembler, unit, labels, frame, temporary, done)
        assembler.cover = outer
        return list(temporary.values())

    def _unit(
        self,
        assembler: Assembler,
        unit: Unit,
        labels: list[Label],
        frame: dict[str, tuple[str, int]],
        temporary: dict[str, int],
        done: Label,
    ) -> None:
        name, arg = unit.name, unit.arg
        for prefix, count in unit.before:
            assembler.emit(prefix, self._constant(assembler, count) if prefix in CONSTANTS else count)
        if unit.target >= 0:
            assembler.jump(name, labels[unit.target])
        elif name == "RESUME":
            assembler.emit("NOP")
        elif name == "RETURN_VALUE":
            assembler.jump("JUMP_FORWARD", done)
        elif name == "RETURN_CONST":
            assembler.emit("LOAD_CONST", self._constant(assembler, arg))
            assembler.jump("JUMP_FORWARD", done)
        elif name in CONSTANTS:
            assembler.emit(name, self._constant(assembler, arg))
        elif name in NAME_SHIFT:
            shift = NAME_SHIFT[name]
            low = arg & ((1 << shift) - 1)
            assembler.emit(name, assembler.name(self.code.co_names[arg >> shift]) << shift | low)
        elif name in LOCALS_PLUS:
            local = self.code.co_varnames[arg]
            if local in frame:
                assembler.original_op(*frame[local])
            else:
                assembler.emit(name, temporary[local])
        else:
            assembler.emit(name, arg)

    def _constant(self, assembler: Assembler, number: int) -> int:
        return assembler.constant(self.code.co_consts[number])
