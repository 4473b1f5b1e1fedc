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
    Shown,
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
        except Exception as error:
            if strict():
                raise
            self.listeners.clear()
            log.errors.warning("%s: a capture could not be told to its listeners: %s", self.where, log.told(error))
            log.errors.debug("%s: a capture could not be told to its listeners", self.where, exc_info=error)

    return tell


class Telling:
    """What was told of one attempt so far."""

    def __init__(self, listeners: list[Listener], attempt: Attempt) -> None:
        self.listeners = listeners
        self._values = any(listener.wants_values for listener in listeners)
        code = attempt.request.decoded.code
        self.where = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        self._ctx = attempt.ctx
        self._guards: list[Guard] = []
        self._constants: dict[str, None] = {}
        #: with the names under which they were told
        self._nodes: list[tuple[torch.fx.Node, str]] = []

    def tell(self, what: str, told: Any) -> None:
        """A listener that raises hears no more; the capture goes on."""
        for listener in list(self.listeners):
            try:
                getattr(listener, what)(told)
            except Exception as error:
                self.listeners.remove(listener)
                log.errors.warning(
                    "%s: a listener's %s() raised %s; it hears no more of this capture",
                    self.where, what, log.told(error),
                )  # fmt: skip
                log.errors.debug("%s: a listener's %s() raised", self.where, what, exc_info=error)

    @in_nobodys_way
    def step(self, what: str, frame: Frame, instruction: Instruction) -> None:
        self.tell_new()
        ctx, depth = self._ctx, len(self._ctx.frames) - 1
        bound: dict[str, Shown] = {}
        stack: tuple[Shown, ...] = ()
        if self._values:
            bound = {name: shown(ctx, value) for name, value in (*frame.locals.items(), *frame.cells.items())}
            stack = tuple(shown(ctx, value) for value in frame.stack)
        step = Step(
            depth, frame.code.co_qualname, frame.code, instruction.index, instruction.offset, instruction.opname,
            argument_text(instruction), instruction.positions, stack, bound,
        )  # fmt: skip
        self.tell(what, step)

    @in_nobodys_way
    def tell_new(self) -> None:
        """What was added since, and what was taken back."""
        self._tell_taken_back()
        guards, nodes = self._ctx.guards, self._ctx.graph.recorded
        while len(self._guards) < len(guards):
            self._guards.append(guard := guards[len(self._guards)])
            self.tell("guard", guard_added(guard))
        if self._ctx.number_of_constants != len(self._constants):
            self._tell_constants()
        if len(self._nodes) == len(nodes):
            return
        sources = {id(given.node): self._ctx.inputs.get(id(given)) for given in self._ctx.graph.inputs}
        while len(self._nodes) < len(nodes):
            node = nodes[len(self._nodes)]
            self._nodes.append((node, node.name))
            source = sources.get(id(node))
            self.tell("node", node_added(node, "" if source is None else str(source)))

    def _tell_constants(self) -> None:
        for held in self._ctx.held_constants():
            if held.name not in self._constants:
                self._constants[held.name] = None
                self.tell("constant", ConstantAdded(held.name, shown_object(held.value)[1]))

    def _tell_taken_back(self) -> None:
        """Both lists grow, and only their ends are ever cut off: what is still there is the beginning of what was told.
        """
        guards, nodes = self._ctx.guards, self._ctx.graph.recorded
        kept, kept_nodes = min(len(guards), len(self._guards)), min(len(nodes), len(self._nodes))
        while kept and guards[kept - 1] is not self._guards[kept - 1]:
            kept -= 1
        while kept_nodes and nodes[kept_nodes - 1] is not self._nodes[kept_nodes - 1][0]:
            kept_nodes -= 1
        if kept < len(self._guards) or kept_nodes < len(self._nodes):
            gone = tuple(name for _, name in self._nodes[kept_nodes:])
            self.tell("taken_back", TakenBack(gone, len(self._guards) - kept))
            del self._guards[kept:], self._nodes[kept_nodes:]


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
