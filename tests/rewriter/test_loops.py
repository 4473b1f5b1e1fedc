"""Which instructions are loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rewriter.decode import decode
from rewriter.loops import loops, loops_around


def found(function: Callable[..., Any]) -> list[list[int]]:
    """For each loop its lines, counted from the function's first one."""
    decoded = decode(function.__code__)
    first = function.__code__.co_firstlineno
    lines = [{decoded.instructions[i].positions[0] for i in loop.body} - {None} for loop in loops(decoded)]
    return [sorted(line - first for line in some) for some in lines]


def nested(xs, n):
    for x in xs:
        try:
            if x:
                continue
            print(x)
        except ValueError:
            n -= 1
        with open("x") as file:
            for line in file:
                if line:
                    break
    return n


def turning(n):
    while n > 0:
        n -= 1
        while True:
            n -= 1
            if n:
                break
    return n


async def waiting(source):
    async for x in source:
        await x
    await source


def handled(x):
    try:
        yield from x
    except ValueError:
        x = 1
    print(x)
    try:
        print(x)
    except ValueError:
        x = 2
    return x


def test_for_with_handlers_and_what_is_nested() -> None:
    assert found(nested) == [list(range(1, 12)), [9, 10]]


def test_while() -> None:
    assert found(turning)[0][:5] == [1, 2, 3, 4, 5] and len(found(turning)) == 2 and 2 not in found(turning)[1]


def test_async_for_and_waiting() -> None:
    assert found(waiting) == [[1, 2]]


def test_jumps_back_out_of_a_handler_are_no_loop() -> None:
    assert found(handled) == []


@pytest.mark.parametrize("function", [nested, turning])
def test_heads_and_back_edges(function: Callable[..., Any]) -> None:
    decoded = decode(function.__code__)
    for loop in loops(decoded):
        assert loop.head in loop.body and loop.back <= loop.body
        for unit in loop.back:
            assert loop.head in {i.target for i in decoded.instructions if i.unit == unit}
        assert loop in loops_around(decoded, loop.head)
    inner, outer = loops(decoded)[1], loops(decoded)[0]
    assert loops_around(decoded, inner.head) == (outer, inner)
