"""One Python frame under capture: locals, cells, value stack, and the step that reads one canonical instruction."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

from rewriter.decode import Decoded, Instruction, decode
from rewriter.handlers import names_caught, only_tidies

from ..errors import GraphBreak, InternalError, UserLine
from ..sources import Call
from ..values.base import Raised, Value
from ..values.exceptions import ExceptionValue
from ..values.exit_stacks import CurrentException
from ..values.functions import CellValue, FunctionValue

if TYPE_CHECKING:
    from .context import Context
    from .namespaces import Namespace


class NullValue(Value):
    """A NULL on the stack."""

    __slots__ = ()

    kind = "NULL"


NULL = NullValue()

#: what a handler gives back to end its frame's run: the value returned or yielded
Handler = Callable[["Frame", Instruction], "Value | None"]
HANDLERS: dict[str, Handler] = {}
#: canonical instructions that capture refuses, each with the break's title; with HANDLERS this is every one (a test)
REFUSED: dict[str, str] = {}


def handles(*opnames: str) -> Callable[[Handler], Handler]:
    """Register the handler of canonical instructions; a name taken twice fails at import."""

    def register(handler: Handler) -> Handler:
        for opname in opnames:
            if opname in HANDLERS:
                raise InternalError(f"two handlers for {opname}")
            if opname in REFUSED:
                raise InternalError(f"{opname} is handled now: take it out of refuses(...) in interpreter/opcodes/")
            HANDLERS[opname] = handler
        return handler

    return register


def refuses(title: str, *opnames: str) -> None:
    for opname in opnames:
        if opname in HANDLERS or opname in REFUSED:
            raise InternalError(f"{opname} is both handled and refused: one of the two, in interpreter/opcodes/")
        REFUSED[opname] = title


class Frame:
    """A frame of the user's program. `unit` is the instruction being read, `ip` the next one."""

    __slots__ = (
        "cells", "code", "ctx", "decoded", "exception", "function", "globals", "instructions", "ip", "locals", "stack",
        "unit", "yielded",
    )  # fmt: skip

    def __init__(self, ctx: Context, code: CodeType, globals_: Namespace) -> None:
        self.ctx = ctx
        self.code = code
        self.decoded: Decoded = decode(code)
        self.instructions = self.decoded.instructions
        self.globals = globals_
        self.locals: dict[str, Value] = {}
        self.cells: dict[str, CellValue] = {}
        self.stack: list[Value] = []
        self.ip = self.unit = 0
        #: the function that was called; None for the root frame
        self.function: FunctionValue | None = None
        #: the exception being handled here (sys.exc_info), None: none that capture knows of
        self.exception: Value | None = None
        #: set by YIELD_VALUE: the frame did not end, it was suspended
        self.yielded = False

    def user_line(self) -> UserLine:
        line = self.instructions[self.unit].positions[0] or self.code.co_firstlineno
        return UserLine(self.code.co_filename, line, self.code.co_qualname)

    # the stack ------------------------------------------------------------------------------------------------------
    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        return self.stack.pop()

    def pop_real(self) -> Value:
        return self.ctx.real(self.stack.pop())

    def pop_many(self, count: int) -> list[Value]:
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    # running --------------------------------------------------------------------------------------------------------
    def run(self) -> Value:
        """Read instructions until the frame returns or yields; what is not handled here is raised to the caller."""
        ctx, instructions = self.ctx, self.instructions
        while True:
            instruction = instructions[self.ip]
            result = self.step(instruction)
            if result is not None:
                return result
            ctx.spend(1)

    def step(self, instruction: Instruction) -> Value | None:
        """Read one instruction. Gives the value with which the frame ends (or is suspended), else None."""
        self.unit = instruction.index
        self.ip = instruction.index + 1
        try:
            handler = HANDLERS.get(instruction.opname)
            if handler is None:
                raise GraphBreak(REFUSED[instruction.opname], instruction.opname)
            return handler(self, instruction)
        except Raised as raised:
            if not self.unwind(raised.value, instruction.index):
                raise
            return None

    def unwind(self, exception: Value, index: int) -> bool:
        """Go to the handler that covers the instruction, as the exception table says; False where there is none."""
        handler = self.decoded.handler_at(index)
        if handler is None:
            return False
        del self.stack[handler.depth :]
        if handler.lasti:
            self.stack.append(LASTI)
        if isinstance(exception, ExceptionValue):
            self._chain(exception)
            exception.note_raised(self.ctx)
        self.stack.append(exception)
        self.ip = handler.target
        return True

    def _chain(self, exception: ExceptionValue) -> None:
        """What is handled meanwhile becomes its context: here, by a caller, or where capture did not see it begin."""
        handled = next((frame.exception for frame in reversed(self.ctx.frames) if frame.exception is not None), None)
        if handled is not None:
            exception.chain(self.ctx, handled)
        elif exception.was_raised:
            return  # raised again behind its handlers
        elif exception.source is None:
            exception.chain(self.ctx, CurrentException(Call(self.ctx.hold(sys.exception), ())))
        elif self.ctx.entered_handlers():
            raise GraphBreak("value is known at run time only", "the exception of a handler that began earlier")

    # suspending -----------------------------------------------------------------------------------------------------
    def save(self) -> State:
        """The frame's state as an immutable value."""
        return State(self.ip, tuple(self.stack), dict(self.locals), dict(self.cells), self.exception)

    def restore(self, state: State) -> None:
        self.ip = state.ip
        self.stack = list(state.stack)
        self.locals = dict(state.locals)
        self.cells = dict(state.cells)
        self.exception = state.exception

    def is_fresh(self, state: State) -> bool:
        """Has this generator's frame not begun?"""
        return state.ip == 0

    def suspended_in_handler(self, state: State) -> bool:
        """Is there a `finally`, `except` or `with` of the user's around the yield where the frame stands?"""
        handler = self.decoded.handler_at(state.ip - 1) if state.ip else None
        while handler is not None and self._lets_pass(handler.target):
            handler = self.decoded.handler_at(handler.target)
        return handler is not None

    def _lets_pass(self, target: int) -> bool:
        """Do its `except` clauses let a GeneratorExit go on, by which a dropped generator is closed?"""
        if only_tidies(self.decoded, target):
            return True
        names = names_caught(self.decoded, target) or []
        assert self.function is not None
        caught = [vars(builtins).get(name) for name in names if name not in self.function.globals]
        are_exceptions = [isinstance(cls, type) and issubclass(cls, Exception) for cls in caught]
        return bool(names) and len(caught) == len(names) and all(are_exceptions)


class State(NamedTuple):
    """A frame's state between two instructions."""

    ip: int
    stack: tuple[Value, ...]
    locals: dict[str, Value]
    cells: dict[str, CellValue]
    exception: Value | None


class LastInstruction(Value):
    """Where an exception was raised, as a handler that raises it again finds it on the stack."""

    __slots__ = ()

    kind = "instruction offset"


LASTI = LastInstruction()
