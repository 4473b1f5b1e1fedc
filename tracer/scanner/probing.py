"""A call of a function that tells what each of its instructions works on, and what capture makes of it.

A copy of the function runs, once, with its original bytecode. Before every instruction where an entry can stand a
*probe* stands: a slot that looks at the stack and answers None. So the types are those of the real call, of what is
captured and of what is not. At the start, and behind each break, where the next region would begin, the probe has the
frame's live locals and stack captured, as a miss does; nothing of what that gives runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from rewriter.decode import Instruction, decode
from rewriter.graft import graft
from rewriter.instructions import effect
from rewriter.layouts import enterable, entry_layout
from rewriter.region import EntryLayout
from rewriter.text import compile_slot, new_slot

from .. import config, log
from ..api import explaining
from ..errors import GraphBreak, OperatorFailed, forget_frames, told_where
from ..graph.capture import Capture, Request
from ..interpreter.capture import capture
from ..interpreter.listening import Listening
from ..originals import plain_copy
from ..signals import raised_by_signal
from ..translate.lock import CompileLock
from ..translate.places import behind, behind_break, changing_parameters, code_of, first_enterable
from .operations import NULL, is_operation, type_name
from .reading import Reading
from .report import BROKE, CAPTURED, PLAIN, ScannedInstruction, ScanReport
from .static import TENSORS_ANSWER, rows

#: So often a place is captured from, if there was nothing to be had the first time.
ATTEMPTS = 2


@dataclass(eq=False)
class Seen:
    """Of an instruction, in the call. operands, result: types, of the last time.  operation: was it one at any time?"""

    runs: int = 0
    operands: tuple[str, ...] = ()
    result: str = ""
    operation: bool = False


@dataclass(eq=False)
class _Pending:
    """An instruction whose result is what the next probe finds on top of the stack. Holds its operands until then."""

    index: int
    behind: int
    operands: tuple[object, ...] = field(repr=False)


class Probed:
    """A function's copy with probes, for one call."""

    def __init__(self, function: FunctionType, lock: CompileLock) -> None:
        self.function = plain_copy(function, own_code=True)
        self._lock = lock
        self.decoded = decoded = decode(self.function.__code__)
        self._layouts: dict[int, EntryLayout] = {i: entry_layout(decoded, i) for i in enterable(decoded)}
        self._candidates = {unit: found for unit in self._layouts if (found := self._candidate(unit)) is not None}
        self._pending: _Pending | None = None
        self.seen: dict[int, Seen] = {unit: Seen() for unit in self._layouts}
        #: by instruction: the nodes that regions have of it; and why none has it
        self.captured: dict[int, list[str]] = {}
        self.reasons: dict[int, tuple[str, str]] = {}
        self.breaks: dict[str, None] = {}
        self._tried: Counter[int] = Counter()
        self._wanted = first_enterable(decoded, [decoded.start])
        slots = {index: self._slot(index, layout) for index, layout in self._layouts.items()}
        code = graft(decoded, slots, landings=()) if slots else decoded.code
        self._original = decoded.code  # what decode knows it by
        self.function.__code__ = code

    def _slot(self, index: int, layout: EntryLayout) -> FunctionType:
        given = ", ".join(layout.parameters)
        slot = new_slot(f"probe {index}", layout.parameters, self.function.__globals__)
        text = f"def slot({given}):\n    k_probe({', '.join([str(index), *layout.parameters])})\n"
        slot.__code__ = compile_slot(text, {"k_probe": self._probe}, register=False)
        return slot

    def _unit(self, index: int) -> list[Instruction]:
        instructions = self.decoded.instructions
        return [i for i in instructions[index : index + 4] if i.unit == index]

    def _candidate(self, unit: int) -> tuple[Instruction, int] | None:
        """The instruction of a unit that tensors may answer, and how many of its operands lie there before the unit."""
        pushed = 0
        for instruction in self._unit(unit):
            taken, given = effect(instruction.opname, instruction.arg)
            if instruction.opname in TENSORS_ANSWER:
                return instruction, taken - pushed
            pushed += given - taken
        return None

    # what is seen -------------------------------------------------------------------------------------------------
    def _probe(self, index: int, *arguments: object) -> None:
        """Called by the function, before an instruction. Nothing that goes wrong here is the program's business."""
        try:
            self._look(index, arguments)
            if index in self._wanted and self._tried[index] < ATTEMPTS and not config.switched_off():
                self._tried[index] += 1
                self._capture(index, arguments)
        except Exception as error:
            if raised_by_signal(error) or config.strict():
                raise
            code = self.decoded.code
            where = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
            log.errors.warning("%s: the scan failed at instruction %s: %s", where, index, type(error).__name__)
            log.errors.debug("%s: the scan failed at instruction %s", where, index, exc_info=error)

    def _look(self, index: int, arguments: tuple[object, ...]) -> None:
        layout = self._layouts[index]
        given = iter(arguments[len(layout.locals) + len(layout.cells) :])
        stack = [next(given) if is_object else NULL for is_object in layout.stack]
        self._note_result(index, stack)
        self.seen[index].runs += 1
        found = self._candidates.get(index)
        if found is not None:
            operands = tuple(stack[len(stack) - found[1] :])
            self.seen[index].operands = tuple(map(type_name, operands))
            self._pending = _Pending(index, self._behind(index), operands)

    def _behind(self, unit: int) -> int:
        return self._unit(unit)[-1].index + 1

    def _note_result(self, index: int, stack: list[object]) -> None:
        pending, self._pending = self._pending, None
        if pending is None:
            return
        instruction, _ = self._candidates[pending.index]
        gives = effect(instruction.opname, instruction.arg)[1] == 1
        is_next = pending.behind == index and gives and bool(stack)
        result = stack[-1] if is_next else NULL
        seen = self.seen[pending.index]
        seen.result = type_name(result) if is_next else ""
        seen.operation = seen.operation or is_operation(instruction.opname, pending.operands, result)

    def ended(self) -> None:
        """The call is over: what came last has no probe behind it."""
        self._note_result(-1, [])

    # what capture makes of it -------------------------------------------------------------------------------------
    def _capture(self, index: int, arguments: tuple[object, ...]) -> None:
        if not self._lock.take():
            return
        layout, reading = self._layouts[index], Reading()
        request = Request(
            decoded=self.decoded, layout=layout, arguments=arguments, globals=self.function.__globals__,
            original_code=code_of, changing=changing_parameters(self.decoded, layout), attempt=Listening([reading]),
        )  # fmt: skip
        try:
            captured = capture(request)
        except GraphBreak as error:
            forget_frames(error)
            at = index if error.at is None else error.at
            self._note_break(at, error)
            self._wanted |= first_enterable(self.decoded, behind_break(self.decoded, at))
        except OperatorFailed as error:
            forget_frames(error)
            self.reasons[index] = PLAIN, f"the program's own {error}"
        else:
            self._tried[index] = ATTEMPTS
            self._note_region(captured, reading)
        finally:
            self._lock.let_go()

    def _note_region(self, captured: Capture, reading: Reading) -> None:
        read, dropped = reading.split_at(captured.exit.landing)
        for index in read:
            self.captured.setdefault(index, [])
        for name, index in reading.kept_nodes():
            if index in self.captured and name not in self.captured[index]:
                self.captured[index].append(name)
        if captured.graph_break is not None:
            forget_frames(captured.graph_break)
            at = captured.graph_break.at
            self._note_break(captured.exit.landing if at is None else at, captured.graph_break)
        for index in dropped:
            why = f"the region ends before it, at {self.decoded.instructions[captured.exit.landing].offset}"
            self.reasons.setdefault(index, (PLAIN, why))
        self._wanted |= first_enterable(self.decoded, behind(self.decoded, captured))

    def _note_break(self, at: int, error: GraphBreak) -> None:
        where = told_where(error.stack) or f"offset {self.decoded.instructions[at].offset}"
        what = error.title + (f": {error.details}" if error.details else "")
        for instruction in self._unit(self.decoded.instructions[at].unit):
            self.reasons[instruction.index] = BROKE, what
        self.breaks[f"{what} [{where}]" + (f". Hint: {error.hint}" if error.hint else "")] = None

    # the report ---------------------------------------------------------------------------------------------------
    def rows(self) -> Iterable[ScannedInstruction]:
        for row in rows(self.decoded):
            yield self._told(row)

    def _told(self, row: ScannedInstruction) -> ScannedInstruction:
        unit = self.decoded.instructions[row.index].unit
        nodes = tuple(self.captured.get(row.index, ()))
        seen = self.seen.get(unit)
        found = self._candidates.get(unit)
        own = seen if seen is not None and found is not None and found[0].index == row.index else Seen()
        operation = own.operation or bool(nodes)
        outcome, why = "", ""
        if operation or self.reasons.get(row.index, ("",))[0] == BROKE:
            outcome, why = self._outcome(row.index, bool(seen is not None and seen.runs))
        return replace(
            row, runs=None if seen is None else seen.runs, operands=own.operands, result=own.result,
            is_tensor=operation, outcome=outcome, why=why, nodes=nodes,
        )  # fmt: skip

    def _outcome(self, index: int, ran: bool) -> tuple[str, str]:
        if index in self.captured:
            nodes = self.captured[index]
            return CAPTURED, "" if nodes else "nothing of it is needed, or it was known at capture"
        if index in self.reasons:
            return self.reasons[index]
        return PLAIN, "no region begins between the break before it and here" if ran else "not reached"


def scan_call(
    function: FunctionType, lock: CompileLock, first: tuple[object, ...], named: dict[str, object]
) -> Callable[..., ScanReport]:
    """`scan(fn)(*args)`; `first`, `named`: the arguments that it has already."""

    def call(*args: Any, **kwargs: Any) -> ScanReport:
        explaining.must_not_await("scan", function)
        probed = Probed(function, lock)
        result, raised, how = None, None, ""
        try:
            result, how = explaining.called(probed.function, (*first, *args), {**named, **kwargs})
        except Exception as error:
            raised = error
        probed.ended()
        code = probed.decoded.code
        return ScanReport(
            function.__qualname__, code.co_filename, code.co_firstlineno, tuple(probed.rows()), True, result, raised,
            tuple(probed.breaks), how=how,
        )  # fmt: skip

    return call


__all__ = ["Probed", "scan_call"]
