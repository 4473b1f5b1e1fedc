"""Entries whose slot answers with what the function returns, and no tuple around it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from rewriter.decode import Decoded, decode
from rewriter.graft import graft
from rewriter.layouts import entry_layout, is_direct
from rewriter.region import NONE, NotLandable
from rewriter.text import compile_slot


def add(x, y=2):
    total = x + y
    try:
        return total * 2
    finally:
        seen.append(total)


seen: list[int] = []


def plain(x, y=2):
    total = x + y
    return total * 2


def generator(x):
    yield x
    return x


def watched(x):
    found = sorted(locals())
    return found


def two_returns(x):
    if x:
        return 1
    return 2


def loop(x):
    x += 0  # 3.14 tests the condition of a `while` in one place: without this line that is where the entry stands
    while x:
        x -= 1
    return x


def returns(decoded: Decoded) -> list[int]:
    return sorted({i.unit for i in decoded.instructions if i.opname == "RETURN_VALUE"})


def grafted(function: Callable[..., Any], text: str, *, inline: bool = False, **constants: object) -> FunctionType:
    decoded = decode(function.__code__)
    layout = entry_layout(decoded, decoded.start)
    code = compile_slot(f"def slot({', '.join(layout.parameters)}):\n    {text}\n", constants, register=False)
    exits = {decoded.start: returns(decoded)}
    if inline:
        new = graft(decoded, {}, inline={decoded.start: code}, landings=(), exits=exits, direct=[decoded.start])
    else:
        slot = FunctionType(code, function.__globals__)
        new = graft(decoded, {decoded.start: slot}, landings=(), exits=exits, direct=[decoded.start])
    made = FunctionType(new, function.__globals__, function.__name__, function.__defaults__)
    return made


@pytest.mark.parametrize("inline", [False, True])
def test_a_value_or_none(inline: bool) -> None:
    text = "return y if x == 1 else None if x == 2 else k_none if x == 3 else k_zero"
    made = grafted(plain, text, inline=inline, k_zero=0, k_none=NONE)
    assert made(1) == 2 and made(1, "y") == "y"
    assert made(2) == 8 and made(2, 3) == 10
    assert made(3) is None and made(4) == 0


@pytest.mark.parametrize("inline", [False, True])
def test_what_a_slot_raises_leaves_the_function(inline: bool) -> None:
    made = grafted(plain, "return k_fail() if x else None", inline=inline, k_fail=lambda: 1 // 0)
    assert made(0) == 4
    with pytest.raises(ZeroDivisionError):
        made(1)


@pytest.mark.parametrize("inline", [False, True])
def test_nothing_is_left_in_the_frame(inline: bool) -> None:
    def function(x):
        return sorted(sys._getframe().f_locals)

    made = grafted(function, "v0 = x; return v0 if x else None", inline=inline)
    assert made(0) == ["x"] and made(5) == 5


def test_what_can_be_direct() -> None:
    can = {plain: True, two_returns: False, generator: True, loop: True, add: True, watched: False}
    for function, wanted in can.items():
        decoded = decode(function.__code__)
        assert is_direct(decoded, decoded.start, returns(decoded)) is wanted, function.__name__
        if not wanted:
            with pytest.raises(NotLandable):
                grafted(function, "return None")


def test_loops_behind_the_entry() -> None:
    made = grafted(loop, "return 7 if x == 3 else None")
    assert made(3) == 7 and made(4) == 0
