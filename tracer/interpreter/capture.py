"""One capture: interpret the root frame from an entry to where it must end, then write the way out.

Before every instruction of the root frame a mark is set. A break, at whatever depth of inlined calls, goes back to the
last mark and the region ends there; what a mark cannot undo, or an object that cannot be rebuilt, begins the capture
anew with a break noted at the guilty instruction.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch.utils.checkpoint import checkpoint

from rewriter.decode import Decoded
from rewriter.handlers import catching_handler
from rewriter.layouts import context_of, landable, landing_layout, place_of
from rewriter.region import KEEP, UNBOUND, LandingLayout

from ..errors import (
    CannotUndo,
    CaptureAnew,
    FailsCompiled,
    GraphBreak,
    InputComesLate,
    MustBeStatic,
    OperatorFailed,
    forget_frames,
    users_line,
)
from ..global_state import GlobalState
from ..graph.capture import Capture, Exit, Request
from ..graph.fx_capture import FxCapture
from ..guards import NOWHERE, Guard, Kind
from ..sources import Attr, Call, Param
from ..torch_private import quiet_fake_tensors, set_grad_enabled, without_saved_tensor_hooks
from ..values import families
from ..values.attributes import InstanceDict
from ..values.base import Mutable, Raised, Value
from ..values.constants import ConstantValue, is_constant
from ..values.functions import BoundMethod, FunctionValue, PartialValue, is_torchs_own
from ..values.mappings import DictValue
from ..values.modules import ModuleValue
from ..values.objects import ObjectValue
from ..values.private import has_own_copy, private_text
from . import inlining, opcodes
from .context import Context
from .exits import ExitWriter, Unbuildable
from .frame import Frame, LastInstruction, NullValue, State
from .looping import Loops, RunLoop

assert opcodes and families

#: how often one capture may begin anew before it is given up
MAX_ATTEMPTS = 50
#: The original bytecode goes on at these, and the user need not know: a loop that runs for real, the end of `except*`.
QUIET = frozenset(
    [("FOR_ITER", "iterator from outside is advanced"), ("PREP_RERAISE_STAR", "exception group is handled")]
)
#: Functions that call the functions they are given, and do nothing else with them: these get private copies.
CALL_BACK = (sorted, min, max, map, filter, functools.reduce, checkpoint)
CALLS = frozenset(["CALL", "CALL_KW", "CALL_FUNCTION_EX"])


class Restart(Exception):
    """Begin anew, with a break before this root instruction."""

    def __init__(self, index: int, graph_break: GraphBreak) -> None:
        super().__init__(index, graph_break)
        self.index = index
        self.graph_break = graph_break


def _not_told(request: Request) -> str:
    """For `explain` and the log: why the program isn't told that it is compiled, if it isn't."""
    if not request.compiling.fails:
        return ""
    return (
        "torch.compiler.is_compiling() is false here, as in a plain run, since the way that the program takes where it "
        f"is true raises: {request.compiling.fails}. Hint: mend that way, or leave it: it is compiled as it runs plain"
    )


def capture(request: Request) -> Capture:
    """Capture from `request.layout.index`. Raises GraphBreak where there is nothing to be captured at all."""
    state = GlobalState()
    refusal = state.refusal()
    if refusal is not None:
        raise GraphBreak("torch mode is active", refusal)
    with quiet_fake_tensors(), without_saved_tensor_hooks():
        return _capture(request, state)


def _capture(request: Request, state: GlobalState) -> Capture:
    breaks: dict[int, GraphBreak] = {}
    real_loops: set[int] = set()
    expected: list[torch.Tensor] = []
    counters: set[str] = set()
    begin: Callable[..., Attempt] = request.attempt or Attempt
    for _ in range(MAX_ATTEMPTS):
        attempt = begin(request, breaks, real_loops, state, counters)
        try:
            for tensor in expected:
                attempt.ctx.graph.expect_input(tensor)
            captured = attempt.run()
            if not attempt.ctx.took_counter_for_constant():
                if captured.graph_break is not None and captured.graph_break.is_raised:
                    request.compiling.fails = ""  # it raises anyway
                remark = _not_told(request) if attempt.ctx.told_plain else ""
                return replace(captured, passed_by=tuple(attempt.passed_by), remark=remark)
        except GraphBreak as graph_break:
            graph_break.passed_by = tuple(attempt.passed_by)
            raise
        except OperatorFailed:  # with fullgraph
            request.compiling.fails = ""
            raise
        except FailsCompiled as error:
            request.compiling.fails = str(error)
            breaks.clear()
        except InputComesLate as late:
            expected.append(late.tensor)
        except MustBeStatic as error:
            attempt.ctx.keep_static(error.tensors)
        except CaptureAnew:
            continue
        except RunLoop as run_loop:
            real_loops.add(run_loop.head)
        except Restart as restart:
            if restart.index in breaks:
                raise restart.graph_break from restart
            breaks[restart.index] = restart.graph_break
            forget_frames(restart.graph_break)
        finally:
            attempt.ctx.close()
    raise GraphBreak("capture takes too long", f"{MAX_ATTEMPTS} times")


def as_operator_failure(error: Raised | OperatorFailed) -> OperatorFailed:
    """What fullgraph raises. A frame that the error has passed must not hold it: nobody could free either."""
    return error if isinstance(error, OperatorFailed) else OperatorFailed(RuntimeError(str(error.value)))


@dataclass(frozen=True)
class Mark:
    """The root frame before one instruction, and how far everything else had got."""

    index: int
    state: State
    context: Any
    #: the first unit before it that other handlers of the user's protect than the entry
    crossed: int | None = None


class Attempt:
    """One try at a capture."""

    frame_class: ClassVar[type[Frame]] = Frame

    def __init__(
        self,
        request: Request,
        breaks: dict[int, GraphBreak],
        real_loops: set[int],
        state: GlobalState,
        counters: set[str],
    ) -> None:
        self.request = request
        self.loops = Loops(request.decoded, request.layout.index, real_loops, request.unroll_limit)
        self.state = state
        self.breaks = breaks
        self.ctx = Context(request, inlining.call, inlining.resume, counters)
        self.ctx.new_frame = self.frame_class
        self.ctx.has_saved_tensor_hooks = state.facts["saved-tensor hooks"] is not None
        self.frame = self._root_frame()
        self.decoded = request.decoded
        self.landable = landable(self.decoded)
        self.entered = context_of(self.decoded, request.layout.index)
        self.at_entry = dict(self.frame.locals)
        self.protected = catching_handler(self.decoded, request.layout.index)
        self.crossed: int | None = None
        self.passed_by: list[int] = []
        self.first = Mark(self.frame.ip, self.frame.save(), self.ctx.mark())

    def _root_frame(self) -> Frame:
        """The user's frame as the entry found it: locals, cells and stack are what the slot was given."""
        request, layout, ctx = self.request, self.request.layout, self.ctx
        frame = self.frame_class(ctx, request.decoded.code, ctx.namespace(request.globals))
        given = iter(zip(layout.parameters, request.arguments, strict=True))
        certain = certain_types(request.decoded)
        for name in layout.locals:
            parameter, obj = next(given)
            if obj is not UNBOUND:
                frame.locals[name] = ctx.wrap(obj, Param(parameter, certain.get(name)))
        for name in layout.cells:
            parameter, obj = next(given)
            frame.cells[name] = ctx.wrap(obj, Param(parameter))  # type: ignore[assignment]
        for is_object in layout.stack:
            if is_object:
                parameter, obj = next(given)
                frame.push(ctx.wrap(obj, Param(parameter)))
            else:
                frame.push(NullValue())
        frame.ip = frame.unit = layout.index
        ctx.frames.append(frame)
        for name, value in frame.locals.items():
            if name in layout.checked:
                ctx.guard(Kind.IS_NOT, value.source, UNBOUND)
        return frame

    # reading --------------------------------------------------------------------------------------------------------
    def run(self) -> Capture:
        frame, ctx = self.frame, self.ctx
        mark, first = self.first, True
        while True:
            instruction = frame.instructions[frame.ip]
            if instruction.index == instruction.unit:
                if not first:
                    mark = self._mark(instruction.index) or mark
                first = False
                frame.unit = instruction.index
                if instruction.opname == "RETURN_VALUE" and mark.index == instruction.index:
                    return self._finish(mark, None)
                if self._has_left(instruction.index):
                    return self._land(mark, None, goes_on=instruction.index)
                noted = self.breaks.get(instruction.index)
                if noted is not None:
                    return self._end(mark, noted)
                if instruction.index in self.loops.real:
                    return self._land(mark, None)
                self.loops.arrive(instruction.index, ctx.graph.node_count)
                if self.crossed is None and catching_handler(self.decoded, instruction.index) != self.protected:
                    self.crossed = instruction.index
                    if self._may_as_well_begin_here(mark):
                        return self._land(mark, None)
            try:
                if frame.step(instruction) is not None:  # a return that shares its unit with the load of a constant
                    return self._land(mark, None)
                ctx.spend(1)
                if instruction.opname.startswith("POP_JUMP_IF") and (target := instruction.target) is not None:
                    self.passed_by.append(instruction.index + 1 if frame.ip == target else target)
                if self.loops.goes_round(instruction.unit, frame.ip):
                    return self._land(mark, None)
            except GraphBreak as graph_break:
                graph_break.details = ctx.in_words(graph_break.details)
                graph_break.stack = graph_break.stack or ctx.user_stack()
                told = self.request.fullgraph or len(graph_break.stack) > 1
                if not told and (instruction.opname, graph_break.title) in QUIET:
                    return self._land(mark, None)
                return self._end(mark, graph_break)
            except (Raised, OperatorFailed) as error:
                if ctx.told_compiled:
                    line = users_line(error.stack or ctx.user_stack())
                    raise FailsCompiled(f"{self._what(error)}, at {line}") from None
                failure = as_operator_failure(error)
                failure.args = (ctx.in_words(str(failure)),)
                return self._end(mark, self._raises(error), failure)
            except RecursionError:
                return self._end(mark, GraphBreak("calls are nested too deeply", ""))

    def _raises(self, error: Raised | OperatorFailed) -> GraphBreak:
        graph_break = GraphBreak("exception leaves the function", self._what(error))
        graph_break.stack, graph_break.is_raised = error.stack or self.ctx.user_stack(), True
        return graph_break

    def _what(self, error: Raised | OperatorFailed) -> str:
        return self.ctx.in_words(str(error.value) if isinstance(error, Raised) else str(error))

    def _may_as_well_begin_here(self, mark: Mark) -> bool:
        """Nothing was captured in front of this `try`: then what interrupts the graph is raised within it.

        A graph that raises an Exception is run again by the original bytecode; an interrupt, or what a handler of a
        signal raises, is not, and comes from the entry.
        """
        entered = catching_handler(self.decoded, self.crossed or 0) is not None
        return entered and not self.ctx.graph.node_count and mark is not self.first and not self.request.fullgraph

    def _has_left(self, index: int) -> bool:
        """Has the handler been left in which the region began? It can land inside of it only."""
        (entered, _), (here, _) = self.entered, context_of(self.decoded, index)
        return here[: len(entered)] != entered

    def _mark(self, index: int) -> Mark | None:
        """A mark, where a region may land."""
        if index not in self.landable or context_of(self.decoded, index) != self.entered:
            return None
        if self.frame.exception is not None or any(isinstance(v, LastInstruction) for v in self.frame.stack):
            return None
        if any(h.target == index for h in self.decoded.handlers):
            return None
        return Mark(index, self.frame.save(), self.ctx.mark(), self.crossed)

    # ending ---------------------------------------------------------------------------------------------------------
    def _end(self, mark: Mark, graph_break: GraphBreak, error: OperatorFailed | None = None) -> Capture:
        """End the region at the mark, because of a break, or of an error of the program's own."""
        graph_break.at = self.frame.unit
        graph_break.stack = graph_break.stack or self.ctx.user_stack()
        if self.request.fullgraph:
            raise error if error is not None else graph_break
        if graph_break.end_behind is not None:
            behind = self._unit_behind(graph_break.end_behind)
            if behind < mark.index:
                raise Restart(behind, graph_break)
        head = self.loops.around(mark.index)
        if head is not None and error is None and head not in self.loops.real:
            raise RunLoop(head)
        # What raised may do without for other arguments: a region that ends here is for these alone.
        needed = [] if error is None else list(self.ctx.guards)[mark.context[1] :]
        return self._land(mark, graph_break, needed=needed)

    def _land(
        self,
        mark: Mark,
        graph_break: GraphBreak | None,
        *,
        goes_on: int | None = None,
        needed: Sequence[Guard] = (),
    ) -> Capture:
        """Forget what was captured behind the mark but for guards that are `needed`, and write the region.

        No break: a loop goes on for real, or a handler ends, and `goes_on` is where the next region may begin.
        """
        try:
            self.ctx.rollback(mark.context)
        except CannotUndo:
            graph_break = graph_break or GraphBreak("operation is not supported", "no region ends before the loop")
            raise Restart(mark.index, graph_break) from graph_break
        for guard in needed:
            self.ctx.guards.add(guard.kind, guard.source, guard.expected, guard.line)
        self.frame.restore(mark.state)
        del self.ctx.frames[1:]
        self.frame.unit = mark.index
        broke_inside = graph_break is not None and (
            (len(graph_break.stack) > 1 and not graph_break.is_raised) or graph_break.in_given_function
        )
        # what an earlier attempt noted here may come of an object that the callee makes
        if broke_inside or mark.index in self.breaks:
            self._use_private_callee(mark.index)
        captured = self._finish(mark, graph_break)
        return captured if goes_on is None else replace(captured, goes_on=goes_on)

    def _unit_behind(self, index: int) -> int:
        """The root instruction behind this one."""
        units = (i.index for i in self.frame.instructions[index + 1 :] if i.index == i.unit)
        return next(units)

    def _use_private_callee(self, index: int) -> None:
        """The inlined call at this instruction broke inside: a private copy of the callee runs in its stead."""
        instructions, stack = self.frame.instructions, self.frame.stack
        call = next((i for i in instructions[index : index + 3] if i.unit == index and i.opname in CALLS), None)
        if call is None:
            return
        below = call.arg if call.opname == "CALL" else 1 + call.arg if call.opname == "CALL_KW" else 1 + bool(call.arg)
        if call.index != index and call.opname == "CALL_KW":
            below -= 1  # the names are loaded by the same unit
        callee = stack[-below - 1] if not isinstance(stack[-below - 1], NullValue) else stack[-below - 2]
        if call.opname != "CALL_FUNCTION_EX" and self._calls_back(callee):
            names = 1 if call.opname == "CALL_KW" and call.index == index else 0
            for position in range(-names - call.arg, -names):
                stack[position] = self._private(stack[position]) or stack[position]
            return
        for position in (-below - 1, -below - 2):
            private = self._private(stack[position])
            if private is not None:
                stack[position] = private
                return

    def _calls_back(self, callee: Value) -> bool:
        """Is it, maybe in a partial, a function that does nothing but call what it is given?"""
        real = self.ctx.real(callee)
        while isinstance(real, PartialValue):
            real = self.ctx.real(real.function)
        return getattr(real, "function", None) in CALL_BACK

    def _private(self, value: Value) -> Value | None:
        if isinstance(value, NullValue):
            return None
        value = self.ctx.real(value)
        if isinstance(value, FunctionValue):
            self._pin(value)
            return CalleeValue(value)
        if isinstance(value, BoundMethod):
            function = self._private(value.function)
            return None if function is None else BoundMethod(function, value.receiver)
        if isinstance(value, PartialValue):
            function = self._private(value.function)
            return None if function is None else PartialValue(function, value.args, value.kwargs)
        if isinstance(value, ModuleValue):
            wrapped = self.ctx.wrap(torch.nn.Module.__call__, self.ctx.hold(torch.nn.Module.__call__, "module_call"))
            function = self._private(wrapped) if value.is_plainly_called(self.ctx) else None
            return None if function is None else BoundMethod(function, value)
        if isinstance(value, ObjectValue):
            method = value.special(self.ctx, "__call__")
            return None if method is None else self._private(method)
        return None

    def _pin(self, function: FunctionValue) -> None:
        """A private copy has the code and the defaults that the function has now."""
        real, source = function.function, function.source
        if real is None or source is None or is_torchs_own(real):
            return
        self.ctx.guard(Kind.CODE, source, function.code)
        if has_own_copy(function):
            for name in ("__defaults__", "__kwdefaults__"):
                self.ctx.guard(Kind.IS, Attr(source, name), getattr(real, name))

    def _finish(self, mark: Mark, graph_break: GraphBreak | None) -> Capture:
        try:
            return self._write(mark, graph_break)
        except Unbuildable as unbuildable:
            born = unbuildable.born
            why = graph_break or unbuildable.graph_break
            if born is None or born < 0 or (born == self.request.layout.index and mark.index == born):
                raise why from unbuildable
            raise Restart(born, why) from unbuildable

    def _write(self, mark: Mark, graph_break: GraphBreak | None) -> Capture:
        ctx = self.ctx
        if graph_break is not None and mark is self.first:
            raise graph_break
        for generator in ctx.generators:
            if generator.holds_finally():
                raise Unbuildable(generator.born, GraphBreak("generator is left inside try or with", str(generator)))
        out = ExitWriter(ctx)
        for source in ctx.read_anyway:
            out.fetch(source)
        layout = self._landing(mark.index)
        values = self._landing_values(out, layout)
        effects = [line for value in list(ctx.changed.values()) for line in value.effects(out)]
        written = [v for v in ctx.changed.values() if isinstance(v, DictValue) and v.changes_always(ctx)]
        expected = tuple((out.output(tensor), truth) for tensor, truth in ctx.graph.expectations)
        outputs = list(out.outputs.values())
        can_retry = not ctx.graph.writes_inputs and (bool(expected) or not ctx.graph.random)
        if not can_retry and mark.crossed is not None and not self.request.fullgraph:
            # What the graph raises when it runs comes from the entry: it must meet the handlers that it would have met.
            raise RunLoop(mark.crossed)
        recorded = ctx.graph.operator_count
        graph = ctx.graph.finish([tensor for tensor, _ in outputs])
        effects += self._state_effects(out, graph)
        empty = not outputs and not graph.mutates_inputs and not graph.uses_rng and not graph.operators
        inputs = tuple(ctx.inputs[id(tensor)] for tensor in graph.inputs)
        self._alias_guards(graph)
        return Capture(
            entry=self.request.layout.index,
            guards=ctx.guards.freeze(
                leaves=bool(graph.mutates_inputs) or ctx.asked_leaf, layouts=ctx.graph.shapes.layouts
            ),
            shapes=ctx.graph.shapes if ctx.graph.shapes.used else None,
            fetches=tuple((name, source) for source, name in out.fetches.items()),
            graph=None if empty else graph,
            spares=empty and recorded > 0,
            inputs=inputs,
            outputs=tuple(name for _, name in outputs),
            setup=tuple(out.setup),
            effects=tuple(effects),
            exit=Exit(mark.index, values, layout.locals, layout.index < 0),
            constants=out.constants,
            graph_break=graph_break,
            can_retry=not graph.mutates_inputs and (bool(expected) or not graph.uses_rng),
            expected=expected,
            written=tuple(value.source for value in written if value.source is not None),
            inlined=tuple(ctx.inlined),
        )

    def _landing_values(self, out: ExitWriter, layout: LandingLayout) -> tuple[str, ...]:
        texts, full = [], layout.index < 0
        live = self.decoded.live_at(place_of(layout.index))
        for name in layout.locals:
            value = self.frame.locals.get(name)
            if value is not None and name not in live and not (full and self._may_be_kept(value)):
                texts.append(out.hold(KEEP, "KEEP"))
            elif value is not None:
                texts.append(out.text(value))
            elif name in self.at_entry:
                texts.append(out.hold(UNBOUND, "UNBOUND"))
            else:
                texts.append(out.hold(KEEP, "KEEP"))
        for is_object, value in zip(layout.stack, self.frame.stack, strict=True):
            if is_object:
                texts.append(out.text(value))
        return tuple(texts)

    def _landing(self, index: int) -> LandingLayout:
        return landing_layout(self.decoded, ~index if self._is_full(index) else index)

    def _is_full(self, index: int) -> bool:
        """Does the frame alone hold an object from outside, in a local that the region bound and nobody reads?

        What an opaque call gave (a temporary folder, a lock's guard) lives until the frame ends. Tensors do not: locals
        that nobody reads would make every intermediate result one of the graph.
        """
        if self.decoded.instructions[index].opname == "RETURN_VALUE":
            return False
        dead = self.frame.locals.keys() - self.decoded.live_at(index)
        return any(self._is_the_frames(name, self.frame.locals[name]) for name in dead)

    def _is_the_frames(self, name: str, value: Value) -> bool:
        if type(value.source) is not Param or self.at_entry.get(name) is value:
            return False
        request = self.request
        given = dict(zip(request.layout.parameters, request.arguments, strict=True)).get(value.source.name)
        return not (given is UNBOUND or isinstance(given, (torch.Tensor, type)) or is_constant(given))

    def _may_be_kept(self, value: Value) -> bool:
        return type(value.source) is Param or isinstance(value, ConstantValue)

    def _state_effects(self, out: ExitWriter, graph: FxCapture) -> list[str]:
        """Torch's state that the captured code changed and that outlives the region."""
        end = graph.end_state
        kinds = [*(kind for kind, _ in end.entered), *(str(mode) for mode, _ in self.ctx.function_modes)]
        if kinds:
            raise Unbuildable(self._entered_at(), GraphBreak("torch mode is left open", ", ".join(kinds)))
        if end.grad_enabled is None:
            return []
        return [f"{out.hold(set_grad_enabled)}({end.grad_enabled})"]

    def _entered_at(self) -> int | None:
        """The root instruction that entered the outermost mode which is still entered."""
        return self.ctx.modes[0] if self.ctx.modes else None

    def _alias_guards(self, graph: FxCapture) -> None:
        """Where something from outside is changed, what must not be the same object, or overlap with it."""
        ctx = self.ctx
        if graph.mutates_inputs:
            examples = zip((ctx.inputs[id(t)] for t in graph.inputs), graph.examples(), strict=True)
            given = {s: t for s, t in examples if isinstance(t, torch.Tensor) and s not in ctx.number_inputs}
            ctx.guards.add(Kind.NO_OVERLAP, NOWHERE, given)
        if graph.operators or ctx.asked_state or ctx.relies_on_no_grad:
            whole = graph.records_autograd or ctx.asked_state
            ctx.guards.add(Kind.STATE, NOWHERE, self.state if whole else self.state.without_autograd())
        groups: dict[Any, list[Value]] = {}
        for value in ctx.known_values():
            if value.source is not None and isinstance(value, Mutable):
                groups.setdefault(_group(value), []).append(value)
        for members in groups.values():
            sources = tuple(value.source for value in members if value.source is not None)
            if len(members) > 1 and any(id(value) in ctx.changed for value in members):
                ctx.guard(Kind.EXPRESSION, Call(ctx.hold(all_different), sources), True)


def certain_types(decoded: Decoded) -> dict[str, type]:
    """Locals of which CPython itself says what they are: `*args` and `**kwargs` that are never assigned."""
    code = decoded.code
    names = iter(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    found: dict[str, type] = {}
    for flag, kind in ((inspect.CO_VARARGS, tuple), (inspect.CO_VARKEYWORDS, dict)):
        if code.co_flags & flag:
            found[next(names)] = kind
    if not found:
        return found
    changing = ("STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR")
    assigned = {i.arg for i in decoded.instructions if i.opname in changing}
    return {name: kind for name, kind in found.items() if name not in assigned}


def _group(value: Mutable) -> Any:
    """Objects of other groups cannot be the same object. Instances share a `__dict__` within a class if at all."""
    return (InstanceDict, value.owner.cls) if isinstance(value, InstanceDict) else type(value)


def all_different(*objects: object) -> bool:
    """Are no two of them the same object?"""
    return len({*map(id, objects)}) == len(objects)


class CalleeValue(Value):
    """A function's private grafted copy, which runs at the landing in the function's stead."""

    __slots__ = ("original",)

    kind = "private callee"

    def __init__(self, original: FunctionValue) -> None:
        super().__init__()
        self.original = original

    def reconstruct(self, out: ExitWriter) -> str:
        return private_text(out, self.original)


__all__ = ["Attempt", "GraphBreak", "capture"]
