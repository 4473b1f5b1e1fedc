"""What is known before each canonical instruction: stack, bound and live locals, cells, exceptions being handled.

One forward pass over the flow graph (exception edges included) to a fixpoint, and one backward pass for liveness.
`Decoded` answers with it; this file knows instructions only. Sets of names are bit masks over `slots`, the frame's
slots in order: a slot holds a local, or the cell of a variable that closures share.
"""
from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from .instructions import JUMP_OPNAMES, TERMINAL_OPNAMES, Handler, Instruction, RewriterError, effect


class AnalysisError(RewriterError):
    """Code whose paths do not agree on what lies on the stack or which exceptions are being handled."""


class Kind(enum.Enum):
    """What a stack slot holds."""

    OBJECT = 1
    NULL = 2
    MAYBE_NULL = 3

    def __repr__(self) -> str:
        return self.name


OBJECT, NULL, MAYBE_NULL = Kind.OBJECT, Kind.NULL, Kind.MAYBE_NULL
_KINDS = (OBJECT, OBJECT, NULL, MAYBE_NULL)


class StackSlot(NamedTuple):
    kind: Kind
    #: Indices of the instructions that may have pushed it; none for what the interpreter pushes for a handler.
    producers: frozenset[int]
    #: It may be a cell that LOAD_FAST_AND_CLEAR saved (bit 1), or anything else (bit 0).
    cell: int = 1


class State(NamedTuple):
    """Before an instruction. Of the masks `some` holds what is true on some path, `every` what is on every path."""

    stack: tuple[StackSlot, ...]
    bound_every: int
    bound_some: int
    cells_every: int
    cells_some: int
    #: PUSH_EXC_INFOs whose exception is being handled, the innermost last.
    entered: tuple[int, ...]
    #: Some instruction that can raise, or no exception at all, leads here. Else this is a handler that never runs, and
    #: `entered` and the cells are the innermost of what its range shows.
    firm: bool


#: The interpreter pushes these two before it goes to a handler.
_FOR_HANDLER = StackSlot(OBJECT, frozenset())
#: Cannot raise, not even by a signal: a jump and a NOP can (RESUME is one).
_NEVER_RAISE = frozenset({
    "POP_TOP", "COPY", "SWAP", "PUSH_NULL", "LOAD_CONST", "STORE_FAST", "LOAD_FAST_AND_CLEAR", "LOAD_CLOSURE",
    "MAKE_CELL", "COPY_FREE_VARS", "POP_EXCEPT", "PUSH_EXC_INFO", "STORE_DEREF",
})
_SPECIAL = frozenset({
    "COPY", "SWAP", "PUSH_NULL", "LOAD_FAST_AND_CLEAR", "STORE_FAST", "DELETE_FAST", "MAKE_CELL", "COPY_FREE_VARS",
    "PUSH_EXC_INFO", "POP_EXCEPT",
})


class Analysis:
    """Of one code object. Everything is worked out when it is made; the queries only look up."""

    def __init__(
        self,
        instructions: Sequence[Instruction],
        handler_of: Sequence[Handler | None],
        slots: Sequence[str],
        arguments: Iterable[str],
        free: Iterable[str],
    ) -> None:
        self.instructions, self.handler_of, self.slots = instructions, handler_of, slots
        self.bit = {name: 1 << number for number, name in enumerate(slots)}
        self.arguments, self.free = self.mask(arguments), self.mask(free)
        self.before: list[State | None] = [None] * len(instructions)
        self.leaders = self._leaders()
        self._entry: dict[int, State] = {}
        self._pending: list[int] = []
        self._forward()
        self.live = self._live()
        self._names: dict[int, frozenset[str]] = {}

    def mask(self, names: Iterable[str]) -> int:
        mask = 0
        for name in names:
            mask |= self.bit[name]
        return mask

    def names(self, mask: int) -> frozenset[str]:
        found = self._names.get(mask)
        if found is None:
            found = self._names[mask] = frozenset(name for name in self.slots if mask & self.bit[name])
        return found

    def state(self, index: int) -> State:
        state = self.before[index]
        if state is None:
            raise AnalysisError(f"{self.instructions[index]} is never reached")
        return state

    def _leaders(self) -> frozenset[int]:
        """Where a block begins: at targets, behind jumps, and where another handler begins to protect."""
        leaders = {0}
        previous: Handler | None = None
        for instruction, handler in zip(self.instructions, self.handler_of, strict=True):
            if instruction.target is not None:
                leaders.add(instruction.target)
            if instruction.opname in JUMP_OPNAMES or instruction.opname in TERMINAL_OPNAMES:
                leaders.add(instruction.index + 1)
            if handler is not previous:
                leaders.add(instruction.index)
                if handler is not None:
                    leaders.add(handler.target)
                previous = handler
        return frozenset(leaders)

    # forward: stacks, bound locals, cells, exceptions

    def _forward(self) -> None:
        self._merge(0, State((), self.arguments, self.arguments, 0, 0, (), True))
        while self._pending:
            self._block(heappop(self._pending))

    def _merge(self, leader: int, new: State) -> None:
        old = self._entry.get(leader)
        if old is not None:
            new = self._join(leader, old, new)
            if new == old:
                return
        self._entry[leader] = new
        if leader not in self._pending:
            heappush(self._pending, leader)

    def _join(self, leader: int, old: State, new: State) -> State:
        stack = old.stack
        if stack != new.stack:
            if len(stack) != len(new.stack):
                raise self._error(leader, f"stack is {len(stack)} deep on one path and {len(new.stack)} on another")
            stack = tuple(map(self._join_slot, stack, new.stack, (leader,) * len(stack)))
        entered, cells_every, cells_some = old.entered, old.cells_every, old.cells_some
        if new.firm:
            if not old.firm:
                entered, cells_every, cells_some = new.entered, new.cells_every, new.cells_some
            elif entered != new.entered:
                raise self._error(leader, f"exceptions {entered} are handled on one path and {new.entered} on another")
            cells_every, cells_some = cells_every & new.cells_every, cells_some | new.cells_some
        elif not old.firm:
            entered = max(old.entered, new.entered, key=len)
        return State(
            stack, old.bound_every & new.bound_every, old.bound_some | new.bound_some, cells_every, cells_some, entered,
            old.firm or new.firm,
        )

    def _join_slot(self, old: StackSlot, new: StackSlot, leader: int) -> StackSlot:
        if old == new:
            return old
        producers = old.producers | new.producers
        if old.kind is not new.kind and any(
            self.instructions[producer].opname != "LOAD_FAST_AND_CLEAR" for producer in producers
        ):
            raise self._error(leader, f"the stack holds {old.kind.name} on one path and {new.kind.name} on another")
        return StackSlot(_KINDS[old.kind.value | new.kind.value], producers, old.cell | new.cell)

    def _error(self, index: int, message: str) -> AnalysisError:
        return AnalysisError(f"at {self.instructions[index]}: {message}")

    def _block(self, leader: int) -> None:
        """Run the block from its entry state; hand what comes out of it to what follows, its handler included."""
        state = self._entry[leader]
        stack = list(state.stack)
        handler = self.handler_of[leader]
        protected = _Protected(self, handler) if handler is not None else None
        index = leader
        while True:
            instruction = self.instructions[index]
            self.before[index] = state
            if protected is not None:
                protected.before(instruction, state)
            if instruction.target is not None:
                jumped = list(stack)
                self._plain(instruction, jumped, *effect(instruction.opname, instruction.arg, jump=True))
                self._merge(instruction.target, state._replace(stack=tuple(jumped)))
            if instruction.opname in _SPECIAL:
                state = self._special(instruction, stack, state)
            else:
                self._plain(instruction, stack, *effect(instruction.opname, instruction.arg))
                state = State(tuple(stack), *state[1:])
                if instruction.opname == "LOAD_FAST" and not state.bound_every & self.bit[instruction.arg]:
                    bit = self.bit[instruction.arg]  # it was bound, or this would not be reached
                    state = state._replace(bound_every=state.bound_every | bit, bound_some=state.bound_some | bit)
            index += 1
            if instruction.opname in TERMINAL_OPNAMES:
                break
            if index == len(self.instructions):
                raise self._error(index - 1, "the code ends behind it")
            if index in self.leaders:
                self._merge(index, state)
                break
        if protected is not None:
            protected.end(state)

    def _plain(self, instruction: Instruction, stack: list[StackSlot], takes: int, gives: int) -> None:
        if takes > len(stack):
            raise self._error(instruction.index, f"takes {takes} from a stack of {len(stack)}")
        if takes:
            del stack[-takes:]
        if gives:
            stack += (StackSlot(OBJECT, frozenset((instruction.index,))),) * gives

    def _special(self, instruction: Instruction, stack: list[StackSlot], state: State) -> State:
        """What moves or pushes more than plain objects, or changes slots of the frame."""
        _, bound_every, bound_some, cells_every, cells_some, entered, firm = state
        opname, arg, index = instruction.opname, instruction.arg, instruction.index
        reach = arg if opname in ("COPY", "SWAP") else opname in ("STORE_FAST", "PUSH_EXC_INFO", "POP_EXCEPT")
        if reach > len(stack):
            raise self._error(index, f"reaches below a stack of {len(stack)}")
        if opname == "COPY":
            stack.append(stack[-arg])
        elif opname == "SWAP":
            stack[-arg], stack[-1] = stack[-1], stack[-arg]
        elif opname == "PUSH_NULL":
            stack.append(StackSlot(NULL, frozenset((index,))))
        elif opname == "PUSH_EXC_INFO":
            stack.insert(len(stack) - 1, StackSlot(OBJECT, frozenset((index,))))
            entered = (*entered, index)
        elif opname == "POP_EXCEPT":
            if not entered:
                raise self._error(index, "no exception is being handled")
            stack.pop()
            entered = entered[:-1]
        elif opname == "COPY_FREE_VARS":
            bound_every, bound_some, cells_every, cells_some = (
                bits | self.free for bits in (bound_every, bound_some, cells_every, cells_some))
        else:
            bit = self.bit[arg]
            kind, cell = 0, 1  # of what the slot of the frame holds afterwards; for DELETE_FAST and CLEAR: nothing
            if opname == "STORE_FAST":
                stored = stack.pop()
                kind, cell = stored.kind.value, stored.cell
            elif opname == "MAKE_CELL":
                kind, cell = 1, 2
            elif opname == "LOAD_FAST_AND_CLEAR":
                saved = _KINDS[bool(bound_some & bit) | (not bound_every & bit) << 1]
                holds = bool(cells_some & bit) << 1 | (not cells_every & bit)
                stack.append(StackSlot(saved, frozenset((index,)), holds))
            bound_every = bound_every | bit if kind == 1 else bound_every & ~bit
            bound_some = bound_some | bit if kind & 1 else bound_some & ~bit
            cells_every = cells_every | bit if cell == 2 else cells_every & ~bit
            cells_some = cells_some | bit if cell & 2 else cells_some & ~bit
        return State(tuple(stack), bound_every, bound_some, cells_every, cells_some, entered, firm)

    # backward: live locals

    def _live(self) -> list[int]:
        """For every instruction the slots that some path reads before it writes them."""
        leaders = sorted(leader for leader in self.leaders if leader < len(self.instructions))
        ends = [*leaders[1:], len(self.instructions)]
        live = [0] * len(self.instructions)
        changed = True
        while changed:
            changed = False
            for leader, end in zip(reversed(leaders), reversed(ends), strict=True):
                before = live[leader]
                self._live_block(live, leader, end)
                changed = changed or live[leader] != before
        return live

    def _live_block(self, live: list[int], leader: int, end: int) -> None:
        handler = self.handler_of[leader]
        at_handler = live[handler.target] if handler is not None else 0
        last = self.instructions[end - 1]
        out = live[end] if last.opname not in TERMINAL_OPNAMES and end < len(live) else 0
        if last.target is not None:
            out |= live[last.target]
        for index in range(end - 1, leader - 1, -1):
            instruction = self.instructions[index]
            opname = instruction.opname
            if opname == "STORE_FAST":
                out &= ~self.bit[instruction.arg]
            elif opname in ("LOAD_FAST", "LOAD_CLOSURE", "DELETE_FAST", "LOAD_FAST_AND_CLEAR", "MAKE_CELL"):
                out |= self.bit[instruction.arg]
            out |= at_handler
            live[index] = out


class _Protected:
    """What a block hands to the handler that protects it: its states at every point, cut to the handler's depth."""

    def __init__(self, analysis: Analysis, handler: Handler) -> None:
        self.analysis, self.handler = analysis, handler
        self.bound_every, self.bound_some = -1, 0
        self.cells_every, self.cells_some = -1, 0
        #: Stack below the handler's depth, exceptions, whether an instruction that can raise was met with them.
        self.met: list[tuple[tuple[StackSlot, ...], tuple[int, ...], bool]] = []

    def before(self, instruction: Instruction, state: State) -> None:
        depth = self.handler.depth
        if len(state.stack) < depth:
            raise self.analysis._error(instruction.index, f"{self.handler} wants more than {len(state.stack)} objects")
        raises = instruction.opname not in _NEVER_RAISE
        met = (state.stack[:depth], state.entered, raises)
        if not self.met or self.met[-1][:2] != met[:2]:
            self.met.append(met)
        elif raises:
            self.met[-1] = met
        self.bound_every &= state.bound_every
        self.bound_some |= state.bound_some
        if raises:
            self.cells_every &= state.cells_every
            self.cells_some |= state.cells_some

    def end(self, state: State) -> None:
        self.bound_every &= state.bound_every
        self.bound_some |= state.bound_some
        pushed = (_FOR_HANDLER, _FOR_HANDLER) if self.handler.lasti else (_FOR_HANDLER,)
        firm = state.firm and any(raises for _, _, raises in self.met)
        if not firm:
            self.cells_every, self.cells_some = state.cells_every, state.cells_some
        for stack, entered, raises in self.met:
            self.analysis._merge(
                self.handler.target,
                State(
                    (*stack, *pushed), self.bound_every, self.bound_some, self.cells_every, self.cells_some, entered,
                    state.firm and raises,
                ),
            )
