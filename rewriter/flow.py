"""Follow what a graft added: stack, bound locals and handlers on every path from an entry back into the body."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from types import CodeType
from typing import Any, NamedTuple

from .analysis import MAYBE_NULL, NULL, OBJECT, Kind
from .decode import Decoded
from .instructions import JUMP_OPNAMES, TERMINAL_OPNAMES, effect
from .layouts import context_of, facts
from .lowering import LOWERINGS, Names, Pieces
from .region import HandlerMismatch, StackMismatch, UnboundLocal, WildJump, WrongStackSlot
from .units import Handler, Unit
from .versions import FOR_END, NULL_ABOVE_CALLABLE, SEND_END
from .versions_emit import LOAD_CHECKED, POP_TOP_TAKES_NULL

# What cannot raise brings nothing to its handler: the range of a handler's handler begins and ends with these.
NEVER_RAISE = frozenset({
    "POP_TOP", "COPY", "SWAP", "PUSH_NULL", "LOAD_CONST", "STORE_FAST", "LOAD_FAST_AND_CLEAR", "POP_EXCEPT",
    "PUSH_EXC_INFO", "JUMP_FORWARD",
})


class Places(NamedTuple):
    """Where things are in a grafted code object, as numbers of units."""

    #: For each unit of the original the one that stands for it (the first of them).
    body: Sequence[int]
    #: Where entries give up their stack, and with it their handler.
    exits: frozenset[int]


class State(NamedTuple):
    """Before a unit of the new code."""

    stack: tuple[Kind, ...]
    bound: frozenset[str]
    context: tuple[object, ...]  # of the entries that lead here
    entered: tuple[int, ...]  # exceptions that added code itself handles
    handler: Handler | None  # what holds here, should here be behind the body


class Flow:
    """One walk over the added units of a code object whose body is known to be the original's."""

    def __init__(
        self, decoded: Decoded, code: CodeType, new: Sequence[Unit], places: Places, ends: Sequence[int]
    ) -> None:
        body, self.exits = places
        self.decoded, self.code, self.new = decoded, code, new
        self.old = facts(decoded)
        self.number_of = {first: number for number, first in enumerate(body)}
        self.behind = ends[-1]
        self.entries = [number for number in range(1, len(body)) if body[number] > ends[number - 1]]
        self.body, self.ends = body, ends
        # A landing may go to the entry that stands where it lands.
        self.lands_at = self.number_of | {ends[number - 1]: number for number in self.entries}
        self.names = Names(code)
        self.states: dict[int, State] = {}
        self.todo: list[int] = []
        self.depth = 0
        # The handler that a generator has around all of its code.
        self.around = new[body[self.old.number[decoded.start] - 1]].handler

    def run(self) -> None:
        for number in self.entries:
            index = self.old.rows[number][0]
            stack = self.decoded.stack_at(index)
            if stack is None or MAYBE_NULL in stack:
                raise WrongStackSlot(f"an entry stands at {index}, where the stack is not known: {stack}")
            bound = self.decoded.bound_at(index) | self.decoded.cells_at(index)
            handler = self.new[self.body[number]].handler
            state = State(stack, bound, context_of(self.decoded, index), (), handler)
            self._reach(self.ends[number - 1], state)
        while self.todo:
            at = heappop(self.todo)  # in code order: what joins is there before what it joins into is followed
            self._unit(at, self.states[at])
        if self.depth > self.code.co_stacksize:
            raise StackMismatch(f"the stack grows to {self.depth}, co_stacksize is {self.code.co_stacksize}")

    def _reach(self, at: int, state: State) -> None:
        """A path arrives: at the body it must fit what holds there, in added code it joins the others."""
        self.depth = max(self.depth, len(state.stack))
        if at >= len(self.new):
            raise WildJump("the code ends without a return or jump")
        if at in self.number_of:
            self._arrive(self.number_of[at], state)
            return
        if at in self.exits:
            state = state._replace(handler=self.around)
        old = self.states.get(at)
        if old is not None:
            if len(old.stack) != len(state.stack):
                raise StackMismatch(f"{self._at(at)}: the stack is {len(old.stack)} or {len(state.stack)} deep")
            if old.stack != state.stack or old.entered != state.entered:
                raise WrongStackSlot(f"{self._at(at)}: the stack is {old.stack} or {state.stack}")
            if old.handler != state.handler:
                raise HandlerMismatch(f"{self._at(at)}: belongs to entries with different handlers")
            if old.context != state.context:
                raise WrongStackSlot(f"{self._at(at)}: reached with different exceptions being handled")
            state = state._replace(bound=old.bound & state.bound)
            if state == old:
                return
        self.states[at] = state
        if at not in self.todo:
            heappush(self.todo, at)

    def _arrive(self, number: int, state: State) -> None:
        index = self.old.rows[number][0]
        stack = self.decoded.stack_at(index)
        where = self._at(self.body[number])
        if stack is None or len(stack) != len(state.stack):
            depth = "no stack" if stack is None else len(stack)
            raise StackMismatch(f"{where}: landed with a stack of {len(state.stack)}, the original has {depth}")
        if stack != state.stack:
            raise WrongStackSlot(f"{where}: landed with {state.stack}, the original has {stack}")
        if state.context != context_of(self.decoded, index) or state.entered:
            raise WrongStackSlot(f"{where}: landed with another exception being handled")
        wanted = self.decoded.bound_at(index) & self.decoded.live_at(index) | self.decoded.cells_at(index)
        missing = wanted - state.bound
        if missing:
            raise UnboundLocal(f"{where}: landed with {', '.join(sorted(missing))} unbound")

    def _unit(self, at: int, state: State) -> None:
        unit = self.new[at]
        self._handler(at, unit, state)
        for opname, arg in self._canonical(unit):
            if opname in JUMP_OPNAMES:
                # FOR_ITER and SEND skip what stands at their targets, and drop it themselves in canonical instructions.
                skipped = FOR_END if opname == "FOR_ITER" else SEND_END if opname == "SEND" else ()
                target, after = unit.target + len(skipped), self._after(at, opname, arg, state, jump=True)
                if at >= self.behind and target in self.lands_at:
                    self._arrive(self.lands_at[target], after)
                else:
                    self._reach(target, after)
            if opname in TERMINAL_OPNAMES:
                self._after(at, opname, arg, state, jump=False)
                return
            state = self._after(at, opname, arg, state, jump=False)
            self.depth = max(self.depth, len(state.stack))
        self._reach(at + 1, state)

    def _canonical(self, unit: Unit) -> Pieces:
        for name, arg in unit.before:
            if name == "KW_NAMES":
                return (("LOAD_CONST", self.code.co_consts[arg]), ("CALL_KW", unit.arg))
        return LOWERINGS[unit.name](unit.arg, self.names)

    def _handler(self, at: int, unit: Unit, state: State) -> None:
        """Added code has its entry's handler, or from the exit on what a generator has around all, or one of ours."""
        handler, wanted = unit.handler, state.handler
        if (handler is None or handler.target in self.number_of) and handler != wanted:
            raise HandlerMismatch(f"{self._at(at)}: handler is {handler}, not {wanted}")
        if handler is None:
            return
        if handler.depth > len(state.stack):
            raise HandlerMismatch(f"{self._at(at)}: its handler wants {handler.depth} on a stack of {len(state.stack)}")
        if handler.target not in self.number_of and unit.name not in NEVER_RAISE:
            pushed = (OBJECT, OBJECT) if handler.lasti else (OBJECT,)
            self._reach(handler.target, state._replace(stack=state.stack[: handler.depth] + pushed))

    def _after(self, at: int, opname: str, arg: Any, state: State, *, jump: bool) -> State:
        stack, bound, entered = list(state.stack), state.bound, state.entered
        takes, gives = effect(opname, arg, jump)
        reach = arg if opname in ("COPY", "SWAP") else takes
        if reach > len(stack):
            raise StackMismatch(f"{self._at(at)}: takes {reach} from a stack of {len(stack)}")
        if opname == "COPY":
            stack.append(self._object(at, stack[-arg]))
        elif opname == "SWAP":
            stack[-arg], stack[-1] = stack[-1], stack[-arg]
        elif opname == "PUSH_NULL":
            stack.append(NULL)
        elif opname == "STORE_FAST":
            bound = bound | {arg} if stack.pop() is OBJECT else bound - {arg}
        elif opname == "LOAD_FAST_AND_CLEAR":
            stack.append(OBJECT if arg in bound else MAYBE_NULL)
            bound -= {arg}
        elif opname == "DELETE_FAST":
            self._bound(at, arg, bound)
            bound -= {arg}
        elif opname == "PUSH_EXC_INFO":
            stack.insert(len(stack) - 1, OBJECT)
            entered = (*entered, at)
        elif opname == "POP_EXCEPT":
            if not entered:
                raise WrongStackSlot(f"{self._at(at)}: ends the handling of an exception that the original handles")
            stack.pop()
            entered = entered[:-1]
        else:
            if opname in ("LOAD_FAST", "LOAD_CLOSURE"):
                bound = self._load(at, arg, bound)
            self._objects(at, opname, stack, takes)
            del stack[len(stack) - takes :]
            stack += [OBJECT] * gives
        return State(tuple(stack), bound, state.context, entered, state.handler)

    def _load(self, at: int, name: str, bound: frozenset[str]) -> frozenset[str]:
        """What is bound behind it. A load that checks may have a handler of ours, or be made for the check alone."""
        unit = self.new[at]
        ours = unit.handler is not None and unit.handler.target not in self.number_of
        only_checks = at >= self.behind and self.new[at + 1].name == "POP_TOP"
        if unit.name == LOAD_CHECKED and only_checks:
            return bound | {name}
        if not (unit.name == LOAD_CHECKED and ours):
            self._bound(at, name, bound)
        return bound

    def _bound(self, at: int, name: str, bound: frozenset[str]) -> None:
        if name not in bound:
            raise UnboundLocal(f"{self._at(at)}: reads {name}, which may be unbound")

    def _objects(self, at: int, opname: str, stack: list[Kind], takes: int) -> None:
        """No instruction takes a NULL, except for a call in the one slot where it belongs."""
        taken = stack[len(stack) - takes :] if takes else []
        if opname == "POP_TOP" and POP_TOP_TAKES_NULL:
            return
        if opname in ("CALL", "CALL_KW", "CALL_FUNCTION_EX") and taken:
            taken.pop(1 if NULL_ABOVE_CALLABLE else 0)
        for kind in taken:
            self._object(at, kind)

    def _object(self, at: int, kind: Kind) -> Kind:
        if kind is not OBJECT:
            raise WrongStackSlot(f"{self._at(at)}: takes a {kind.name}")
        return kind

    def _at(self, at: int) -> str:
        unit = self.new[at]
        return f"{self.code.co_qualname}, {unit.name} (unit {at}, line {unit.positions[0]})"
