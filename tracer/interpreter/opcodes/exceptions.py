"""Raising, handling, and `with` blocks."""

from __future__ import annotations

from rewriter.decode import Instruction

from ...errors import GraphBreak
from ...values.base import Raised, Value
from ...values.builtins import call_builtin
from ...values.classes import ClassValue
from ...values.constants import ConstantValue, constant
from ...values.exceptions import TRACEBACK, ExceptionValue
from ..frame import LASTI, Frame, NullValue, handles, refuses


def raised(frame: Frame, value: Value) -> Value:
    """The exception that `raise value` raises: a class is called."""
    value = frame.ctx.real(value)
    if isinstance(value, ClassValue):
        value = frame.ctx.real(value.call(frame.ctx, [], {}))
    if not isinstance(value, ExceptionValue):
        raise GraphBreak("Python raises or warns here", f"raising {value}")
    return value


@handles("RAISE_VARARGS")
def raise_varargs(frame: Frame, ins: Instruction) -> None:
    if ins.arg == 0:
        if frame.exception is None:
            raise GraphBreak("Python raises or warns here", "bare raise in a handler that was entered outside")
        raise Raised(frame.exception)
    cause = frame.pop() if ins.arg == 2 else None
    exception = raised(frame, frame.pop())
    if cause is not None:
        assert isinstance(exception, ExceptionValue)
        real = frame.ctx.real(cause)
        is_none = isinstance(real, ConstantValue) and real.value is None
        exception.set_cause(frame.ctx, real if is_none else raised(frame, real))
    raise Raised(exception)


@handles("PUSH_EXC_INFO")
def push_exc_info(frame: Frame, ins: Instruction) -> None:
    exception = frame.pop_real()
    frame.push(frame.exception or constant(None))
    frame.push(exception)
    frame.exception = exception


@handles("POP_EXCEPT")
def pop_except(frame: Frame, ins: Instruction) -> None:
    previous = frame.pop_real()
    if not isinstance(previous, (ExceptionValue, ConstantValue)):
        raise GraphBreak("Python raises or warns here", "end of a handler that was entered outside")
    frame.exception = None if isinstance(previous, ConstantValue) else previous


@handles("CHECK_EXC_MATCH")
def check_exc_match(frame: Frame, ins: Instruction) -> None:
    wanted = frame.pop()
    frame.push(call_builtin(frame.ctx, isinstance, [frame.stack[-1], wanted]))


@handles("RERAISE")
def reraise(frame: Frame, ins: Instruction) -> None:
    exception = frame.pop_real()
    if ins.arg and frame.stack[-ins.arg] is not LASTI:
        raise GraphBreak("Python raises or warns here", "an exception from outside is raised again")
    raise Raised(exception)


@handles("BEFORE_WITH")
def before_with(frame: Frame, ins: Instruction) -> None:
    entered, exit_function = frame.pop_real().enter(frame.ctx)
    frame.push(exit_function)
    frame.push(entered)


@handles("WITH_EXCEPT_START")
def with_except_start(frame: Frame, ins: Instruction) -> None:
    """Call the exit function, whose place on the stack is the version's, with the exception that is being handled."""
    ctx = frame.ctx
    exception = ctx.real(frame.stack[-1])
    assert isinstance(exception, ExceptionValue)
    arguments: list[Value] = [ctx.real(exception.getattr(ctx, "__class__")), exception, TRACEBACK]
    exit_position, self_position = ins.arg
    function = ctx.real(frame.stack[-exit_position])
    bound = self_position is None or isinstance(frame.stack[-self_position], NullValue)
    first = [] if bound else [frame.stack[-self_position]]
    frame.push(function.call(ctx, first + arguments, {}))


@handles("STOPITERATION_ERROR")
def stop_iteration_error(frame: Frame, ins: Instruction) -> None:
    """What leaves a generator (3.12+): a StopIteration would become a RuntimeError, all else stays what it is."""
    exception = frame.ctx.real(frame.stack[-1])
    if issubclass(exception.python_type(frame.ctx), (StopIteration, StopAsyncIteration)):
        raise GraphBreak("Python raises or warns here", f"{exception} leaves a generator")


@handles("LOAD_SPECIAL")
def load_special(frame: Frame, ins: Instruction) -> None:
    """Since 3.14 a `with` looks its methods up, `__exit__` first, and then calls them."""
    if ins.arg not in ("__enter__", "__exit__"):
        raise GraphBreak("coroutine is suspended or called", f"{ins.arg}()")
    frame.push(frame.pop_real().special_method(frame.ctx, ins.arg))


refuses("coroutine is suspended or called", "CLEANUP_THROW")
refuses("exception group is handled", "CHECK_EG_MATCH", "PREP_RERAISE_STAR")
