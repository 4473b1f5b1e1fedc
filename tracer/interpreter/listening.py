"""Captures that tell listeners what they do.

A capture to which somebody listens is a `ListenedAttempt`, whose frames are `ListenedFrame`s: other classes, chosen
once when it begins (`Request.attempt`). The ones that nobody listens to ask nothing, at no instruction.

What an instruction did is found by looking: which guards, constants and nodes are there that were not there before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from rewriter.decode import Instruction

from .. import log
from ..config import strict
from ..errors import (
    CaptureAnew,
    GraphBreak,
    InputComesLate,
    InternalError,
    MustBeStatic,
    OperatorFailed,
    UserLine,
)
from ..graph.capture import Capture, Request
from ..guards import Guard
from ..listener import (
    Begun,
    Broke,
    ConstantAdded,
    Ended,
    GuardAdded,
    Listener,
    Restarted,
    Step,
    TakenBack,
)
from ..values.base import Value
from .capture import Attempt, Mark, Restart
from .frame import Frame
from .looping import RunLoop
from .showing import argument_text, node_added, shown, shown_object


class Listening:
    """Makes the attempts of one capture, which tell these listeners."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = list(listeners)
        self._attempts = 0

    def __call__(self, request: Request, *known: Any) -> ListenedAttempt:
        self._attempts += 1
        return ListenedAttempt(request, *known, listeners=self._listeners, number=self._attempts)


def in_nobodys_way(method: Callable[..., None]) -> Callable[..., None]:
    """What goes wrong while something is put into words is our bug, and no reason not to compile."""

    @functools.wraps(method)
    def tell(self: Telling, *args: Any) -> None:
        if not self.listeners:
            return
        try:
            method(self, *args)
        except Exception:
            if strict():
                raise
            self.listeners.clear()
            log.errors.warning("a capture could not be told to its listeners", exc_info=True)

    return tell


class Telling:
    """What was told of one attempt so far."""

    def __init__(self, listeners: list[Listener], attempt: Attempt) -> None:
        self.listeners = listeners
        self._ctx = attempt.ctx
        self._guards: list[Guard] = []
        self._constants: dict[str, None] = {}
        #: by identity of a node that was told, which is held so that it stays its own
        self._nodes: dict[int, tuple[torch.fx.Node, str]] = {}

    def tell(self, what: str, told: Any) -> None:
        """A listener that raises hears no more; the capture goes on."""
        for listener in list(self.listeners):
            try:
                getattr(listener, what)(told)
            except Exception:
                self.listeners.remove(listener)
                log.errors.warning("a listener raised in %s(), and hears no more of this capture", what, exc_info=True)

    @in_nobodys_way
    def step(self, what: str, frame: Frame, instruction: Instruction) -> None:
        self.tell_new()
        ctx, depth = self._ctx, len(self._ctx.frames) - 1
        cells = {name: shown(ctx, cell) for name, cell in frame.cells.items()}
        bound = {name: shown(ctx, value) for name, value in frame.locals.items()}
        stack = tuple(shown(ctx, value) for value in frame.stack)
        step = Step(
            depth, frame.code.co_qualname, frame.code, instruction.index, instruction.offset, instruction.opname,
            argument_text(instruction), instruction.positions, stack, {**bound, **cells},
        )  # fmt: skip
        self.tell(what, step)

    @in_nobodys_way
    def tell_new(self) -> None:
        """What was added since, and what was taken back."""
        self._tell_taken_back()
        guards = list(self._ctx.guards)
        for guard in guards[len(self._guards) :]:
            self.tell("guard", guard_added(guard))
        self._guards = guards
        for held in self._ctx.held_constants():
            if held.name not in self._constants:
                self._constants[held.name] = None
                self.tell("constant", ConstantAdded(held.name, shown_object(held.value)[1]))
        new = [node for node in self._ctx.graph.nodes() if id(node) not in self._nodes]
        sources = {id(given.node): self._ctx.inputs.get(id(given)) for given in self._ctx.graph.inputs} if new else {}
        for node in new:
            self._nodes[id(node)] = node, node.name
            source = sources.get(id(node))
            self.tell("node", node_added(node, "" if source is None else str(source)))

    def _tell_taken_back(self) -> None:
        guards, nodes = list(self._ctx.guards), {id(node) for node in self._ctx.graph.nodes()}
        kept = 0
        while kept < min(len(guards), len(self._guards)) and guards[kept] is self._guards[kept]:
            kept += 1
        gone = {key: name for key, (_, name) in self._nodes.items() if key not in nodes}
        if gone or kept < len(self._guards):
            self.tell("taken_back", TakenBack(tuple(gone.values()), len(self._guards) - kept))
            self._guards = self._guards[:kept]
            for key in gone:
                del self._nodes[key]


def guard_added(guard: Guard) -> GuardAdded:
    return GuardAdded(guard.kind.value, str(guard.source), str(guard), guard.line)


class ListenedFrame(Frame):
    """A frame that tells of each instruction, before and after."""

    __slots__ = ()

    def step(self, instruction: Instruction) -> Value | None:
        telling: Telling = self.ctx.telling
        telling.step("before", self, instruction)
        result = super().step(instruction)
        telling.step("after", self, instruction)
        return result


class ListenedAttempt(Attempt):
    """An attempt that tells how it begins, what breaks, and how it ends."""

    frame_class = ListenedFrame

    def __init__(self, request: Request, *known: Any, listeners: list[Listener], number: int) -> None:
        super().__init__(request, *known)
        self.telling = self.ctx.telling = Telling(listeners, self)
        code, decoded = request.decoded.code, request.decoded
        line = decoded.instructions[request.layout.index].positions[0] or code.co_firstlineno
        self.telling.tell("begins", Begun(code.co_qualname, code.co_filename, line, code, request.layout.index, number))

    def run(self) -> Capture:
        try:
            captured = super().run()
        except (Restart, RunLoop, CaptureAnew, MustBeStatic, InputComesLate) as error:
            self.telling.tell("restarts", Restarted(why_anew(error)))
            raise
        except (GraphBreak, OperatorFailed, InternalError):
            self.telling.tell("ends", Ended(None))
            raise
        finally:
            self.ctx.telling = None
        if self.ctx.took_counter_for_constant():
            self.telling.tell("restarts", Restarted("a number that changes at each call was taken for a constant"))
            return captured
        nodes = () if captured.graph is None else tuple(node.name for node in captured.graph.graph.nodes)
        self.telling.tell("ends", Ended(captured.exit.landing, nodes, tuple(map(guard_added, captured.guards))))
        return captured

    def _end(self, mark: Mark, graph_break: GraphBreak, error: OperatorFailed | None = None) -> Capture:
        stack: tuple[UserLine, ...] = graph_break.stack or self.ctx.user_stack()
        self.telling.tell_new()
        unit = self.frame.instructions[self.frame.unit].unit
        told = Broke(graph_break.title, graph_break.details, graph_break.hint, stack, unit)
        self.telling.tell("broke", told)
        return super()._end(mark, graph_break, error)

    def _finish(self, mark: Mark, graph_break: GraphBreak | None) -> Capture:
        self.telling.tell_new()
        return super()._finish(mark, graph_break)


def why_anew(error: Exception) -> str:
    """In words, what a capture has learnt by which it begins anew."""
    if isinstance(error, RunLoop):
        return "a loop is to run for real: it breaks, or would become too large a graph"
    if isinstance(error, Restart):
        broke = error.graph_break
        details = f": {broke.details}" if broke.details else ""
        return f"the region must end earlier, at instruction {error.index} ({broke.title}{details})"
    if isinstance(error, MustBeStatic):
        return "the sizes of an input cannot be symbols"
    return str(error)
