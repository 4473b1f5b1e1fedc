"""Tracebacks, frames, warnings and log records name the user's function and line, inside and after a graph break.

Each program tells where it is in its own way, once before, at and behind breaks; compiled, it must tell the same at
every call as plain Python does, whichever of its parts run as regions by then.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator
from inspect import stack
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import pytest
import torch

import tracer
from tests.support import CountingBackend

CALLS = 5
x = torch.arange(6.0).reshape(2, 3)
#: What torch and the standard library do inside a call is theirs.
NOT_OURS = (str(Path(torch.__file__).parent), sysconfig.get_path("stdlib"), "<frozen")
told: list[Any] = []
logger = logging.getLogger("where_it_runs")


class Keep(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        told.append(("log", record.getMessage(), record.funcName, record.lineno, record.pathname))


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    handler, propagate = Keep(), logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    tracer.install(backend="eager")
    tracer.reset()
    yield
    tracer.uninstall()
    logger.removeHandler(handler)
    logger.propagate = propagate


# ways to tell ---------------------------------------------------------------------------------------------------------
def by_frame(what: str) -> None:
    """The callers' own words: file, function and line, up to the test that calls them."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "observe":
        told.append((what, frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back


def by_stack(what: str) -> None:
    for info in stack()[1:]:
        if info.function == "observe":
            break
        told.append((what, info.filename, info.function, info.lineno, info.code_context, info.index))


def by_warning(what: str) -> None:
    warnings.warn(what, UserWarning, stacklevel=2)


def by_log(what: str) -> None:
    logger.info(what, stacklevel=2)


def by_traceback(what: str) -> None:
    text = "".join(traceback.format_stack(sys._getframe(1)))
    told.append((what, text.partition("in observe\n")[2].partition("\n")[2]))


TELLERS = [by_frame, by_stack, by_warning, by_log, by_traceback]


# programs: tell is what breaks ----------------------------------------------------------------------------------------
def in_a_function(a: torch.Tensor, tell: Callable[[str], None]) -> torch.Tensor:
    a = a + 1
    tell("first")
    a = a * 2
    tell(
        "over "
        "lines"
    )
    a = a - 3; tell("same line"); a = a * a  # noqa: E702
    tell("last")
    return a.sum()


def helper(a: torch.Tensor, tell: Callable[[str], None]) -> torch.Tensor:
    a = a * 2
    tell("in the helper")
    a = a + 1
    return a


def in_a_callee(a: torch.Tensor, tell: Callable[[str], None]) -> torch.Tensor:
    a = helper(a + 1, tell)
    tell("between")
    a = helper(a - 1, tell) + helper(
        a * 2,
        tell,
    )
    return a.sum()


def in_a_loop(a: torch.Tensor, tell: Callable[[str], None]) -> torch.Tensor:
    for i in range(4):
        a = a + i
        tell(f"body {i}")
        if i == 2:
            a = a * 2
            tell("branch")
            continue
        a = helper(a, tell) - 1
    else:
        tell("else")
    return a.sum()


def in_a_handler(a: torch.Tensor, tell: Callable[[str], None]) -> torch.Tensor:
    try:
        a = a * 2
        tell("try")
        a = a + 1
        raise ValueError("mine")
    except ValueError:
        a = a - 1
        tell("handler")
        a = a * 3
    finally:
        a = a + 2
        tell("finally")
        a = a * 2
    with contextlib.suppress(KeyError):
        a = a + 1
        tell("with")
        a = a + 4
    return a.sum()


def numbers(a: torch.Tensor, tell: Callable[[str], None]) -> Iterator[torch.Tensor]:
    a = a + 1
    tell("generator starts")
    yield a * 2
    a = a - 1
    tell("generator goes on")
    for i in range(3):
        yield a * i
        a = a + i
        tell("generator loops")


def in_a_generator(a: torch.Tensor, tell: Callable[[str], None]) -> torch.Tensor:
    total = a
    for item in numbers(a, tell):
        total = total + item
        tell("consumer")
    return total.sum()


def in_a_closure(a: torch.Tensor, tell: Callable[[str], Any]) -> torch.Tensor:
    def inner(b: torch.Tensor) -> torch.Tensor:
        b = b + a
        tell("closure")
        return b * 2

    parts = [inner(a + k) for k in range(2)]
    tell("behind the comprehension")
    return (parts[0] * parts[1] + (lambda b: (tell("lambda"), b + 1)[1])(a)).sum()


PROGRAMS = [in_a_function, in_a_callee, in_a_loop, in_a_handler, in_a_generator, in_a_closure]


def observe(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What a call of it gives and tells: results, lines, warnings, and where it raises."""
    told.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*arguments)
        except Exception as error:
            result = type(error), str(error), frames_of(error)
    warned = [(str(w.message), w.category, w.filename, w.lineno) for w in caught]
    return [result.tolist() if isinstance(result, torch.Tensor) else result, warned, *told]


def frames_of(error: BaseException) -> list[Any]:
    """Of the exception and of those that it came from: the user's frames, their lines, and what is printed of them."""
    found: list[Any] = []
    while True:
        trace: TracebackType | None = error.__traceback__
        assert trace is not None
        summary = traceback.extract_tb(trace)
        ours = [entry for entry in summary if not entry.filename.startswith(NOT_OURS)][1:]  # without observe itself
        columns = [(entry.colno, entry.end_colno, entry.end_lineno) for entry in ours]
        found.append((type(error), [(e.filename, e.name, e.lineno, e.line) for e in ours], columns))
        earlier = error.__cause__ or error.__context__
        if earlier is None:
            return found
        error = earlier


def check(function: Callable[..., Any], *arguments: Any, compiled_parts: int = 2) -> None:
    backend = CountingBackend()
    compiled = tracer.compile(function, backend=backend, inplace=False)
    for call in range(CALLS):
        inputs = [a + call if isinstance(a, torch.Tensor) else a for a in arguments]
        expected = observe(function, *inputs)
        assert observe(compiled, *inputs) == expected, f"call {call}"
    assert backend.frame_count >= compiled_parts and backend.calls > compiled_parts  # else there was nothing to see


@pytest.mark.parametrize("tell", TELLERS, ids=lambda tell: tell.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_callee_sees_the_users_functions_and_lines(program: Callable[..., Any], tell: Callable[..., Any]) -> None:
    assert len(observe(program, x, tell)[1]) + len(observe(program, x, tell)[2:]) >= 4
    check(program, x, tell)


# said in the function itself ------------------------------------------------------------------------------------------
def own_frame(a: torch.Tensor) -> torch.Tensor:
    a = a + 1
    told.append(("before", sys._getframe().f_lineno, sys._getframe().f_code.co_name))
    a = a * 2
    print(end="")
    for _ in range(3):
        a = a - 1
        told.append(("loop", sys._getframe().f_lineno, sys._getframe().f_code.co_name))
        a = a * a
        told.append([(info.function, info.lineno, info.code_context) for info in stack()[:1]])
    try:
        a = a + 1
        raise KeyError(1)
    except KeyError:
        a = a * 2
        told.append(("handler", sys._getframe().f_lineno))
    a = a + 3
    told.append(("last", sys._getframe().f_lineno, sys._getframe().f_code.co_name))
    return a.sum()


def own_warnings(a: torch.Tensor) -> torch.Tensor:
    a = a + 1
    warnings.warn("first", stacklevel=1)
    a = a * 2
    for i in range(3):
        a = a - i
        warnings.warn(f"loop {i}", DeprecationWarning, stacklevel=1)
        a = a * 2
    try:
        a = a + 1
        int("no number")
    except ValueError:
        a = a * 2
        warnings.warn("handler", stacklevel=1)
        a = a + 3
    return a.sum()


def own_records(a: torch.Tensor) -> torch.Tensor:
    a = a + 1
    logger.info("first")
    a = a * 2
    for i in range(3):
        a = a - i
        logger.warning("loop %d", i)
        a = a * 2
    try:
        a = a + 1
        int("no number")
    except ValueError:
        a = a * 2
        logger.exception("handler")
        a = a + 3
    return a.sum()


def own_tracebacks(a: torch.Tensor) -> torch.Tensor:
    a = a + 1
    for i in range(3):
        a = a * 2
        try:
            a = a + i
            print(end="")
            a = a - 1
            [][i]
        except IndexError:
            a = a + 5
            told.append(traceback.format_exc())
            a = a * 2
    return a.sum()


@pytest.mark.parametrize("program", [own_frame, own_warnings, own_records, own_tracebacks], ids=lambda p: p.__name__)
def test_the_function_itself_sees_its_name_and_lines(program: Callable[..., Any]) -> None:
    assert len(observe(program, x)[1]) + len(observe(program, x)[2:]) >= 3
    check(program, x)


def test_a_generator_that_is_compiled_itself_has_its_own_lines() -> None:
    def consume(generator: Callable[..., Iterator[torch.Tensor]], tell: Callable[[str], None], a: torch.Tensor) -> Any:
        return [item.tolist() for item in generator(a, tell)]

    backend = CountingBackend()
    compiled = tracer.compile(numbers, backend=backend, inplace=False)
    for tell in TELLERS:
        for call in range(CALLS):
            expected = observe(consume, numbers, tell, x + call)
            assert len(expected) > 5 or len(expected[1]) > 3
            assert observe(consume, compiled, tell, x + call) == expected, f"{tell.__name__}, call {call}"
    assert backend.frame_count >= 2


# what is raised -------------------------------------------------------------------------------------------------------
def fails_behind_a_break(a: torch.Tensor) -> torch.Tensor:
    a = a + 1
    print(end="")
    a = a * 2
    a = a @ torch.ones(
        7, 7)
    return a.sum()


def callee_fails(a: torch.Tensor) -> torch.Tensor:
    a = a * 2
    print(end="")
    a = a + 1
    return a.view(4,
                  4) + undefined(a)


def undefined(a: torch.Tensor) -> torch.Tensor:
    return a + missing  # type: ignore[name-defined]  # noqa: F821


def fails_in_a_callee(a: torch.Tensor) -> torch.Tensor:
    a = a + 1
    a = helper(a, by_frame) + callee_fails(a)
    return a.sum()


def fails_in_a_loop(a: torch.Tensor) -> torch.Tensor:
    for i in range(5):
        a = a + 1
        print(end="")
        a = a * 2
        (a / 2)[3 - i]  # two rows: it raises at once
    return a.sum()


def fails_late_in_a_loop(a: torch.Tensor) -> torch.Tensor:
    rows = [1, 1, 0, 2]
    for i in range(5):
        a = a + 1
        print(end="")
        a = a * rows[i]
        a = a - 1
    return a.sum()


def fails_in_a_handler(a: torch.Tensor) -> torch.Tensor:
    try:
        a = a + 1
        print(end="")
        a = a * 2
        raise KeyError("first")
    except KeyError as error:
        a = a - 1
        print(end="")
        a = a * 2
        raise RuntimeError("second") from error


def fails_in_a_finally(a: torch.Tensor) -> torch.Tensor:
    try:
        a = a + 1
        by_frame("try")
        a = a * undefined(a)
    finally:
        a = a * 2
        by_frame("finally")
        a = a.reshape(-1, 4)
    return a


def failing_numbers(a: torch.Tensor) -> Iterator[torch.Tensor]:
    a = a + 1
    yield a
    a = a * 2
    by_frame("generator")
    a = a - 1
    yield a[
        5]


def fails_in_a_generator(a: torch.Tensor) -> torch.Tensor:
    for item in failing_numbers(a):
        a = a + item
        by_frame("consumer")
    return a


FAILING = [fails_behind_a_break, fails_in_a_callee, fails_in_a_loop, fails_late_in_a_loop, fails_in_a_handler,
           fails_in_a_finally, fails_in_a_generator]


@pytest.mark.parametrize("program", FAILING, ids=lambda program: program.__name__)
def test_a_traceback_has_the_users_frames_and_lines(program: Callable[..., Any]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        kind, _, frames = observe(program, x)[0]
        assert issubclass(kind, Exception) and frames[0][1][0][1] == program.__name__
        check(program, x, compiled_parts=1)
