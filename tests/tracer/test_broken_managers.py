"""Managers that a break leaves entered: what of entering and leaving them is in regions; and lengths, which change."""

from __future__ import annotations

import contextlib
import sys
import types
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tracer
from tests.support import check, check_calls, compilations, compile_with

X = torch.arange(6.0).reshape(2, 3)


def breaks_of(fn: Callable[..., Any], *arguments: Any) -> list[str]:
    """The titles of all breaks, private copies of callees included, after some calls."""
    compiled = compile_with(fn, backend="eager")
    for _ in range(6):
        compiled(*arguments)
    report = tracer.explain(compiled)(*arguments)
    return sorted({b.title for r in (report, *report.callees) for b in r.breaks})


@pytest.mark.parametrize("manager", [torch.no_grad, torch.enable_grad, lambda: torch.set_grad_enabled(False)])
@pytest.mark.parametrize("outer", [torch.no_grad, torch.enable_grad])
def test_a_grad_mode_is_left_in_the_region_behind_the_break(manager: Any, outer: Any) -> None:
    def fn(x: Tensor) -> tuple[Tensor, Tensor, list[bool]]:
        states = [torch.is_grad_enabled()]
        with manager():
            y = x * 2
            print("inside")
            y = y + 1
            states.append(torch.is_grad_enabled())
        states.append(torch.is_grad_enabled())
        return y, x * y.detach(), states

    def both(x: Tensor) -> Any:
        with outer():
            return fn(x), torch.is_grad_enabled()

    check(fn, X.clone().requires_grad_(), calls=5, backward=False)
    check(both, X.clone().requires_grad_(), calls=5, backward=False)
    assert breaks_of(fn, X.clone().requires_grad_()) == ["print() writes output"]


def test_autocast_is_left_by_the_program_itself() -> None:
    def fn(x: Tensor) -> tuple[Tensor, Tensor, torch.dtype]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.t()
            print("inside")
            y = y @ y
        return y, x @ x.t(), y.dtype

    check(fn, X, calls=6)
    compiled = compile_with(fn, backend="eager")
    for _ in range(6):
        compiled(X)
    assert tracer.explain(compiled)(X).callees == ()  # none of autocast.__exit__


class Named:
    def __init__(self, log: list[str], swallows: bool = False) -> None:
        self.log, self.swallows = log, swallows

    def __enter__(self) -> Named:
        self.log.append("enter")
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: types.TracebackType | None) -> bool:
        context = None if error is None else type(error.__context__).__name__
        self.log.append(f"exit {kind and kind.__name__} {context}")
        return self.swallows


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("swallows", [False, True])
def test_exit_stack(fails: bool, swallows: bool) -> None:
    def fn(x: Tensor) -> tuple[Tensor, list[str]]:
        log: list[str] = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(Named(log, swallows))
            stack.callback(log.append, "callback")
            x = x + 1
            print("inside", len(stack._exit_callbacks))
            stack.enter_context(Named(log))
            x = x * 2
            if fails:
                raise KeyError("lost")
        return x.sin(), log

    check(fn, X, calls=5)
    if not fails:
        assert breaks_of(fn, X) == ["print() writes output"]


def test_what_is_being_handled() -> None:
    def inner(x: Tensor) -> tuple[Any, ...]:
        first, handled = sys.exception(), sys.exc_info()
        try:
            x = x + 1
            raise KeyError(1)
        except KeyError:
            inside = repr(sys.exception()), sys.exc_info()[0]
        return first, handled[:2], inside, sys.exception(), x * 2

    def run(call: Callable[..., Any], x: Tensor) -> list[Any]:
        found: list[Any] = [call(x)]
        try:
            raise ValueError("outer")
        except ValueError:
            found.append(call(x))
        return found

    for call in (inner, compile_with(inner, backend="eager")):
        for _ in range(4):
            found = run(call, X)
            assert found[0][:4] == (None, (None, None), ("KeyError(1)", KeyError), None)
            error = found[1][0]
            assert repr(error) == "ValueError('outer')" and found[1][1] == (ValueError, error)
            assert found[1][2] == ("KeyError(1)", KeyError) and found[1][3] is error
            assert torch.equal(found[1][4], (X + 1) * 2)


def test_exit_stack_within_a_handler() -> None:
    def fn(x: Tensor) -> tuple[Tensor, list[str], str]:
        log: list[str] = []
        try:
            print("before")
            raise ValueError("outer")
        except ValueError:
            with contextlib.ExitStack() as stack:
                stack.enter_context(Named(log, True))
                x = x + 1
                raise KeyError("inner")  # noqa: B904 (its context is what is looked at)
            x = x * 2
            return x, log, repr(sys.exception())

    check(fn, X, calls=6)


def test_what_a_function_made_in_the_region_is_given() -> None:
    def fn(x: Tensor) -> tuple[Tensor, Any]:
        def inner(y: Tensor) -> Tensor:
            return y * 2

        inner.note = "a note"  # type: ignore[attr-defined]
        inner.__wrapped__ = breaks_of  # type: ignore[attr-defined]
        print(inner.note)  # type: ignore[attr-defined]
        return inner(x), inner

    check(fn, X, calls=5)


class Box:
    def get(self) -> str:
        return "got"


def test_a_method_made_by_hand() -> None:
    def fn(x: Tensor, box: Box) -> tuple[Tensor, str, Any]:
        method = types.MethodType(Box.get, box)
        print("made")
        return x + 1, method(), method

    check(fn, X, Box(), calls=5)


def test_the_length_of_what_grows_is_no_reason_to_recompile() -> None:
    def fn(x: Tensor, log: list[str], seen: dict[int, int], kept: set[int]) -> tuple[Tensor, str, int]:
        log.append("called")
        text = f"{len(log)} calls, {len(seen)} seen, {len(kept)} kept"
        return x + 1, text, len(log) + 1

    calls = [(X, ["a"] * n, dict.fromkeys(range(n), 0), set(range(n))) for n in range(1, 12)]
    check_calls(fn, *calls)
    assert compilations(fn, *calls) == 1


def test_a_length_that_matters_is_guarded() -> None:
    def fn(x: Tensor, items: list[int]) -> Tensor:
        for _ in range(len(items)):
            x = x + 1
        return x * 2 if len(items) > 2 else x

    calls = [(X, [0] * n) for n in (1, 2, 3, 4, 2, 3)]
    check_calls(fn, *calls)
    assert compilations(fn, *calls) == 4


def test_the_length_before_and_after_a_change() -> None:
    def fn(x: Tensor, items: list[int]) -> tuple[Tensor, list[int]]:
        lengths = [len(items)]
        items.append(1)
        lengths.append(len(items))
        items += [2, 3]
        lengths.append(len(items))
        items.pop()
        lengths.append(len(items))
        return x + 1, lengths

    check_calls(fn, *[(X, [0] * n) for n in (0, 1, 2, 5)])


def test_text_and_bytes_that_change() -> None:
    def fn(x: Tensor, data: bytes, name: str) -> tuple[Tensor, int, int, int]:
        return x + 1, zlib.crc32(data, zlib.adler32(data)), len(data), len(name)

    calls = [(X, b"%d" % n, "n" * n) for n in range(12)]
    check_calls(fn, *calls)
    assert compilations(fn, *calls) == 1


def test_wrong_arguments_of_a_checksum() -> None:
    def fn(x: Tensor, data: Any) -> Any:
        try:
            return x + 1, zlib.crc32(data)
        except TypeError as error:
            return x, str(error)

    check_calls(fn, (X, "text"), (X, b"bytes"), (X, "text"), (X, 1))


def test_bytes_on_which_something_depends_are_guarded() -> None:
    def fn(x: Tensor, data: bytes) -> Tensor:
        if data == b"double":
            return x * 2
        return x + len(data) if data else x

    check_calls(fn, *[(X, data) for data in (b"double", b"", b"abc", b"double", b"ab", b"")])
