"""Calls of Python functions: the callee's frame is interpreted in place; and generators resumed."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING

from ..errors import GraphBreak, OperatorFailed
from ..holding import PLAIN_TYPES
from ..torch_dynamo import CONSTANT_RESULT, is_allowed_in_graph, is_disabled
from ..values.base import Raised, Value
from ..values.constants import ConstantValue, constant
from ..values.functions import FunctionValue, bind_arguments
from ..values.generators import AsyncGeneratorValue, CoroutineValue, GeneratorValue
from ..values.private import is_left_alone, is_not_read
from ..values.tensors import call_graph

if TYPE_CHECKING:
    from .context import Context
    from .frame import Frame


#: What these do around a function says nothing of that.
_MACHINERY = ("torch._dynamo", "torch._compile")


def call(ctx: Context, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a call of the function gives. A break inside names the user's whole stack."""
    code = function.code
    if function.function is not None and (marked := _as_marked(ctx, function.function, args, kwargs)) is not None:
        return marked
    if is_not_read(function):
        raise GraphBreak("library function is called", function.qualname)
    if code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        raise GraphBreak("coroutine is suspended or called", function.qualname)
    frame = ctx.new_frame(ctx, code, ctx.namespace(function.globals))
    frame.function = function
    frame.locals = bind_arguments(ctx, function, args, kwargs)
    frame.cells = dict(zip(code.co_freevars, function.closure, strict=True))
    ctx.inlined.append(code)
    if code.co_flags & inspect.CO_GENERATOR:
        generator = ctx.born(GeneratorValue(frame))
        ctx.generators.append(generator)
        return generator
    if code.co_flags & inspect.CO_COROUTINE:
        return ctx.must_be_made(ctx.born(CoroutineValue(frame)))
    if code.co_flags & inspect.CO_ASYNC_GENERATOR:
        return ctx.born(AsyncGeneratorValue(frame))
    try:
        return run(ctx, frame)
    except GraphBreak as graph_break:
        if not is_left_alone(function):
            raise
        raise _of_the_call(ctx, function, graph_break) from graph_break


def _as_marked(ctx: Context, function: FunctionType, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What torch.compiler's marks say of a call: None where there is none of them, and the function is read."""
    if is_disabled(function):
        raise GraphBreak("function is disabled", function.__qualname__)
    if CONSTANT_RESULT in vars(function):
        given = [ctx.real(value).as_python(ctx) for value in args]
        named = {name: ctx.real(value).as_python(ctx) for name, value in kwargs.items()}
        try:
            result = function(*given, **named)
        except Exception as error:
            what = f"{type(error).__name__} in {function.__qualname__}"
            raise GraphBreak("exception leaves the function", what) from error
        return constant(result) if type(result) in PLAIN_TYPES else ctx.wrap(result, ctx.hold(result, "assumed"))
    if is_allowed_in_graph(function):
        return call_graph(ctx, function, args, kwargs)
    return None


def _of_the_call(ctx: Context, function: FunctionValue, inner: GraphBreak) -> GraphBreak:
    """A break in a library function is one of its call: what it does inside is none of the user's business."""
    what, module = function.qualname, function.globals["__name__"]
    if module.startswith("torch.") and not module.startswith(_MACHINERY):  # it may well be about what the user gave it
        reason = inner.details if inner.title == "library function is called" else f"{inner.title}: {inner.details}"
        what = f"{what}: {reason}"
    graph_break = GraphBreak("library function is called", what)
    graph_break.stack, graph_break.end_behind = ctx.user_stack(), inner.end_behind
    return graph_break


def run(ctx: Context, frame: Frame) -> Value:
    ctx.frames.append(frame)
    try:
        return frame.run()
    except GraphBreak as graph_break:
        if not graph_break.stack:
            graph_break.stack = ctx.user_stack()
        raise
    except (Raised, OperatorFailed) as error:
        error.stack = error.stack or ctx.user_stack()
        raise
    finally:
        ctx.frames.pop()


def resume(
    ctx: Context, generator: GeneratorValue, sent: Value, thrown: Value | None = None
) -> tuple[Value | None, Value]:
    """Run a generator on to its next yield; its saved state is a content like any, so that a rollback rewinds it.

    `thrown`: an exception that is raised where it stands, in place of what is sent.
    """
    frame: Frame = generator.frame
    fresh = frame.is_fresh(generator.content)
    if fresh and not (isinstance(sent, ConstantValue) and sent.value is None):
        raise GraphBreak("Python raises or warns here", f"send() to {generator}, which was not started")
    if frame in ctx.frames:
        ctx.raise_(ValueError("generator already executing"))
    frame.restore(generator.content)
    frame.yielded = False
    if thrown is None and not fresh:
        frame.push(sent)
    ctx.change(generator, None)
    try:
        if thrown is not None:
            _throw(frame, thrown, fresh)
        result = run(ctx, frame)
    except Raised as raised:
        if isinstance(raised.value, Value) and raised.value.python_type(ctx) is StopIteration:
            raise GraphBreak("Python raises or warns here", f"{generator} raised StopIteration") from None
        raise
    if frame.yielded:
        ctx.change(generator, frame.save())
        return result, constant(None)
    return None, result


def _throw(frame: Frame, exception: Value, fresh: bool) -> None:
    """Go to the handler that protects the yield at which the frame stands; Raised where there is none."""
    at = frame.ip - 1
    if not fresh and frame.instructions[at - 1].opname == "SEND":
        raise GraphBreak("Python raises or warns here", "throw() into `yield from`")
    if fresh or not frame.unwind(exception, at):
        raise Raised(exception)
