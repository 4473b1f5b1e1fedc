"""Emit entries and landings. Graft decides where; how they look is here.

What an entry does, in the middle of whatever stack there is:

    push the slot, then what its layout names (locals, cells, copies of stack slots); call it
    None: pop it and go on; else, behind the body:
    keep the tuple in `.r`, drop the entry's stack, compare `.r[0]` with the landings' indices, jump to the one meant

A landing binds locals and rebuilds the stack. Wide answers are bound before the landing is chosen. Temporaries of ours
are bound only between these instructions, where no user code runs, since `locals()` would show them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import FunctionType

from .assemble import Assembler, Cover, Label
from .decode import Decoded
from .region import KEEP, NONE, UNBOUND, EntryLayout, LandingLayout, WrongExit
from .splice import Splice
from .units import Positions
from .versions_emit import (
    COMPARE,
    JUMP_IF_FALSE,
    JUMP_IF_NOT_NONE,
    JUMP_IF_TRUE,
    LOAD_CELL,
    LOAD_CHECKED,
    call,
    subscript,
    take_local,
    with_null,
)


class Emitter:
    """Writes entries and landings of one code object. `depth` is the deepest stack that was needed."""

    def __init__(self, decoded: Decoded, assembler: Assembler) -> None:
        self.assembler = assembler
        self.depth = decoded.code.co_stacksize
        self.result = assembler.temporary(".r")
        self.slot_index = {name: number for number, name in enumerate(decoded.slots)}
        # What is written behind the body later: (where to go on, the handler that holds there).
        self.unbound: list[tuple[Label, Label, Cover | None]] = []
        self.spliced: list[tuple[Splice, dict[str, tuple[str, int]], Label, Label, Label, Positions, Cover | None]] = []

    def need(self, depth: int) -> None:
        self.depth = max(self.depth, depth)

    def entry(self, layout: EntryLayout, slot: FunctionType, exit_: Label) -> None:
        """In front of the instruction: call the slot; jump to `exit_` with its tuple on the stack, or go on."""
        assembler = self.assembler
        assembler.emit_all(with_null((("LOAD_CONST", assembler.constant(slot)),)))
        height = len(layout.stack) + 2
        for name in layout.locals:
            if name in layout.checked:
                self._load_checked(name, height)
            else:
                assembler.original_op("LOAD_FAST", self.slot_index[name])
            height += 1
        for name in layout.cells:
            assembler.original_op(LOAD_CELL, self.slot_index[name])
            height += 1
        for place, is_object in enumerate(layout.stack):
            if is_object:
                assembler.emit("COPY", height - place)
                height += 1
        assembler.emit_all(call(len(layout.parameters)))
        assembler.emit("COPY", 1)
        assembler.jump(JUMP_IF_NOT_NONE, exit_)
        assembler.emit("POP_TOP")
        self.need(height + 2)

    def spliced_entry(self, splice: Splice, exit_: Label) -> None:
        """In front of the instruction: put what needs it into temporaries, go to the slot's code behind the body."""
        assembler, layout = self.assembler, splice.layout
        height = len(layout.stack)
        kept = splice.parameters_kept()
        frame: dict[str, tuple[str, int]] = {}
        places = [place for place, is_object in enumerate(layout.stack) if is_object]
        loads = [("LOAD_FAST", self.slot_index[name]) for name in layout.locals]
        loads += [(LOAD_CELL, self.slot_index[name]) for name in layout.cells]
        for number, name in enumerate(layout.parameters):
            if name not in kept:
                frame[name] = loads[number]
                continue
            if number < len(layout.locals) and layout.locals[number] in layout.checked:
                self._load_checked(layout.locals[number], height)
            elif number < len(loads):
                assembler.original_op(*loads[number])
            else:
                assembler.emit("COPY", height - places[number - len(loads)])
            assembler.emit("STORE_FAST", assembler.temporary(f".{name}"))
        start, back = assembler.label(), assembler.label()
        assembler.jump("JUMP_FORWARD", start)
        assembler.place(back)
        self.spliced.append((splice, frame, start, back, exit_, assembler.positions, assembler.cover))
        self.need(height + splice.code.co_stacksize + 3)

    def splices(self) -> None:
        """Behind the body: the code of slots, and what follows it, as behind a call."""
        assembler = self.assembler
        for splice, frame, start, back, exit_, positions, cover in self.spliced:
            assembler.positions, assembler.cover = positions, cover
            assembler.place(start)
            done = assembler.label()
            temporaries = splice.write(assembler, frame, done)
            assembler.place(done)
            for temporary in temporaries:
                assembler.emit("PUSH_NULL")
                assembler.emit("STORE_FAST", temporary)
            assembler.emit("COPY", 1)
            assembler.jump(JUMP_IF_NOT_NONE, exit_)
            assembler.emit("POP_TOP")
            assembler.jump("JUMP_BACKWARD_NO_INTERRUPT", back)

    def _load_checked(self, name: str, height: int) -> None:
        """Push a local, or UNBOUND. No instruction tests for it, so the load may raise, into a handler of ours."""
        assembler = self.assembler
        handler, back = assembler.label(), assembler.label()
        around = assembler.cover
        assembler.cover = Cover(handler, height, False)
        assembler.original_op(LOAD_CHECKED, self.slot_index[name])
        assembler.cover = around
        assembler.place(back)
        self.unbound.append((handler, back, around))

    def unbound_handlers(self) -> None:
        """Behind the body. The exception was raised, never handled: no PUSH_EXC_INFO, so only debuggers see it."""
        for handler, back, around in self.unbound:
            self.assembler.cover = around
            self.assembler.place(handler)
            self.assembler.emit("POP_TOP")
            self.assembler.load_constant(UNBOUND)
            self.assembler.jump("JUMP_BACKWARD_NO_INTERRUPT", back)

    def direct_exit(self, target: Label) -> None:
        """Behind the body, the answer of a direct slot on an otherwise empty stack: back into the body with it."""
        assembler = self.assembler
        is_none = assembler.label()
        assembler.emit("COPY", 1)
        assembler.load_constant(NONE)
        assembler.emit("IS_OP", 0)
        assembler.jump(JUMP_IF_TRUE, is_none)
        assembler.jump("JUMP_BACKWARD_NO_INTERRUPT", target)
        assembler.place(is_none)
        assembler.emit("POP_TOP")
        assembler.load_constant(None)
        assembler.jump("JUMP_BACKWARD_NO_INTERRUPT", target)
        self.need(3)

    def exit(self, layout: EntryLayout, tree: Label, *, wide: bool = False) -> None:
        """Behind the body, the tuple on the entry's stack: drop the stack, push the landing's index, go and choose."""
        assembler = self.assembler
        assembler.emit("STORE_FAST", self.result)
        for is_object in reversed(layout.stack):
            if is_object:
                assembler.emit("POP_TOP")
            else:
                assembler.emit("STORE_FAST", assembler.temporary(".n"))  # a NULL: POP_TOP would crash
        if not wide:
            assembler.emit("LOAD_FAST", self.result)
            assembler.load_constant(0)
            assembler.emit(*subscript())
        assembler.jump("JUMP_FORWARD", tree)

    def bind_wide(self, names: Sequence[str]) -> None:
        """The tuple `(index, stack, *names)` in `.r`: bind the names, keep the stack in `.k`, push the index."""
        assembler = self.assembler
        index, stack = assembler.temporary(".i"), assembler.temporary(".k")
        assembler.emit_all(take_local(self.result))
        assembler.emit("UNPACK_SEQUENCE", 2 + len(names))
        assembler.emit("STORE_FAST", index)
        assembler.emit("STORE_FAST", stack)
        for name in names:
            self._bind(name, checked=True)
        assembler.emit_all(take_local(index))
        self.need(len(names) + 5)

    def land_wide(self, layout: LandingLayout, names: Collection[str], target: Label) -> None:
        """Wide names are bound: make sure of those that must be, rebuild the stack, jump back into the body."""
        assembler = self.assembler
        for name in layout.locals:
            if name in names and name not in layout.checked:
                assembler.original_op(LOAD_CHECKED, self.slot_index[name])
                assembler.emit("POP_TOP")
        assembler.emit_all(take_local(assembler.temporary(".k")))
        assembler.emit("UNPACK_SEQUENCE", sum(layout.stack))
        self._push(layout.stack)
        assembler.jump("JUMP_BACKWARD_NO_INTERRUPT", target)
        self.need(len(layout.stack) + 3)

    def choose(self, landings: Sequence[tuple[int, Label]], wrong: Label) -> None:
        """A landing's index is on the stack: jump to the landing, in a number of steps that grows like a logarithm."""
        assembler = self.assembler
        self.need(4)
        if not landings:
            assembler.emit("POP_TOP")
            return
        if len(landings) > 1:
            middle = len(landings) // 2
            lower = assembler.label()
            assembler.emit("COPY", 1)
            assembler.load_constant(landings[middle][0])
            assembler.emit_all(COMPARE["<"])
            assembler.jump(JUMP_IF_TRUE, lower)
            self.choose(landings[middle:], wrong)
            assembler.place(lower)
            self.choose(landings[:middle], wrong)
            return
        assembler.load_constant(landings[0][0])
        assembler.emit_all(COMPARE["=="])
        assembler.jump(JUMP_IF_FALSE, wrong)
        assembler.jump("JUMP_FORWARD", landings[0][1])

    def wrong_exit(self) -> None:
        self.assembler.load_constant(WrongExit)
        self.assembler.emit("RAISE_VARARGS", 1)

    def landing(self, layout: LandingLayout, target: Label) -> None:
        """Bind locals, rebuild the stack, jump back into the body."""
        assembler = self.assembler
        assembler.emit_all(take_local(self.result))
        assembler.emit("UNPACK_SEQUENCE", layout.width)
        assembler.emit("POP_TOP")
        for name in layout.locals:
            self._bind(name, name in layout.checked)
        self._push(layout.stack)
        assembler.jump("JUMP_BACKWARD_NO_INTERRUPT", target)
        self.need(max(layout.width, len(layout.stack)) + 3)

    def _bind(self, name: str, checked: bool) -> None:
        assembler, local = self.assembler, self.slot_index[name]
        if not checked:
            assembler.emit("STORE_FAST", local)
            return
        bind, done = assembler.label(), assembler.label()
        assembler.emit("COPY", 1)
        assembler.load_constant(KEEP)
        assembler.emit("IS_OP", 0)
        assembler.jump(JUMP_IF_FALSE, bind)
        assembler.emit("POP_TOP")
        assembler.jump("JUMP_FORWARD", done)
        assembler.place(bind)
        assembler.emit("STORE_FAST", local)
        assembler.emit("LOAD_FAST", local)
        assembler.load_constant(UNBOUND)
        assembler.emit("IS_OP", 0)
        assembler.jump(JUMP_IF_FALSE, done)
        assembler.emit("DELETE_FAST", local)
        assembler.place(done)

    def _push(self, stack: tuple[bool, ...]) -> None:
        """The objects lie there already, the bottom one on top: turn them round, with the NULLs between them."""
        assembler, objects = self.assembler, sum(stack)
        if objects == 2 and len(stack) == 2:
            assembler.emit("SWAP", 2)
            return
        if objects == 1:
            below = stack.index(True)
            for place in range(len(stack) - 1):
                assembler.emit("PUSH_NULL")
                if place < below:
                    assembler.emit("SWAP", 2)
            return
        kept = [assembler.temporary(f".s{number}") for number in range(objects)]
        for temporary in kept:
            assembler.emit("STORE_FAST", temporary)
        following = iter(kept)
        for is_object in stack:
            if is_object:
                assembler.emit_all(take_local(next(following)))
            else:
                assembler.emit("PUSH_NULL")
