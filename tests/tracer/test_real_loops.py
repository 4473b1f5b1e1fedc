"""Loops that break run as real loops with compiled bodies, in the very frame that was running when that was found."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tracer
from tests.support import CountingBackend, check_calls
from tracer.api import runtime

x = torch.arange(6.0).reshape(2, 3)


@pytest.fixture
def backend() -> Iterator[CountingBackend]:
    tracer.install(backend="eager")
    tracer.reset()
    yield CountingBackend()
    tracer.uninstall()


def regions(function: Callable[..., Any]) -> dict[int, int]:
    """How many regions each line has at which an entry with any stands."""
    state = runtime.state_of(function)
    assert state is not None
    first, found = state.line, {}
    for entry in state.entries.values():
        if entry.regions:
            found[entry.line - first] = found.get(entry.line - first, 0) + len(entry.regions)
    return found


def quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*arguments)


# one call -------------------------------------------------------------------------------------------------------------
def test_a_function_that_is_called_once_runs_compiled_in_its_own_frame(backend: CountingBackend) -> None:
    @tracer.compile(backend=backend)
    def f(a: torch.Tensor, n: int) -> torch.Tensor:
        a = a + 1
        for i in range(n):
            a = a * 2
            print(i)
            a = a - 1
        return a.sum()

    assert quietly(f, x, 10) == 1024 * 21 - 6 * 1023
    # before the loop; up to print(); from there to the loop's end; behind the loop
    assert backend.frame_count == 4
    assert backend.calls == 1 + 10 + 10 + 1


def test_a_while_loop(backend: CountingBackend) -> None:
    @tracer.compile(backend=backend)
    def f(a: torch.Tensor, n: int) -> torch.Tensor:
        while n > 0:
            a = a * 2
            print(n)
            a = a - 1
            n -= 1
        return a

    quietly(f, x, 7)
    # behind print() up to the test: once more, and the last time (3.11 leaves the test itself to the jump back,
    # 3.14 has it at the loop's head alone)
    assert backend.frame_count == (3 if (3, 12) <= sys.version_info < (3, 14) else 2) and backend.calls == 14


def test_a_generator_that_is_running(backend: CountingBackend) -> None:
    @tracer.compile(backend=backend)
    def f(a: torch.Tensor) -> Iterator[torch.Tensor]:
        while True:
            a = torch.tanh(a * 2)
            yield a

    running = f(x)
    for _ in range(6):
        next(running)
    assert backend.calls == 6 and backend.frame_count <= 2


def test_what_is_compiled_later_runs_in_a_frame_that_began_before(backend: CountingBackend) -> None:
    """The first generator is suspended while the second one shows what its loop needs."""

    @tracer.compile(backend=backend)
    def f(a: torch.Tensor, n: int) -> Iterator[torch.Tensor]:
        for i in range(n):
            a = a * 2
            yield a
            if i > 1:
                a = a.sin()
                print(i)
                a = a.cos()

    first, second = f(x, 9), f(x, 9)
    quietly(list, first)
    count = backend.frame_count
    quietly(list, second)
    assert backend.frame_count == count


def test_a_region_that_only_spares_work_stays(backend: CountingBackend) -> None:
    """Nobody needs `y`: the region has no graph, and the original's product is not computed."""

    @tracer.compile(backend=backend)
    def f(a: torch.Tensor) -> torch.Tensor:
        y = a * 2  # noqa: F841
        print()
        return a + 1

    for _ in range(3):
        quietly(f, x)
    state = runtime.state_of(f)
    assert backend.calls == 3 and state is not None and not any(entry.dead for entry in state.entries.values())


# one region for all iterations ----------------------------------------------------------------------------------------
def test_a_counter_that_enters_the_graph(backend: CountingBackend) -> None:
    @tracer.compile(backend=backend)
    def f(a: torch.Tensor, n: int) -> torch.Tensor:
        total = 0.0
        for i in range(n):
            a = a * (i + 1) - total
            total += 0.5
            print(i)
        return a

    for n in (5, 8, 3):
        quietly(f, x, n)
    assert regions(f) == {3: 1} and tracer.counters()["recompiles"] == 0


def test_one_body_region_for_all_layers(backend: CountingBackend) -> None:
    class Stack(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(6)])

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                a = layer(a).relu()
                print(a.shape)
            return a

    model = tracer.compile(Stack(), backend=backend)
    with torch.no_grad():
        quietly(model, x)
        quietly(model, x)
    assert backend.frame_count == 1 and backend.calls == 12


def test_the_handler_is_compiled_too(backend: CountingBackend) -> None:
    def fail(n: int) -> None:
        print(n)
        raise ValueError(n)

    @tracer.compile(backend=backend)
    def f(a: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            try:
                a = a * 2
                fail(n)
            except ValueError:
                a = a - 1
                print("caught")
                a = a.sin()
            a = a + 1
        return a

    quietly(f, x, 4)
    quietly(f, x, 4)
    # up to fail(); in the handler up to print(), and behind it; behind the handler
    assert backend.frame_count == 4 and backend.calls == 4 * 8


def test_a_loop_that_would_be_too_long_is_not_unrolled(backend: CountingBackend) -> None:
    tracer.install(backend="eager", unroll_limit=20)

    @tracer.compile(backend=backend)
    def f(a: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            a = (a * 2 - 1).sin()
        return a

    expected = x
    for _ in range(6):
        expected = (expected * 2 - 1).sin()
    assert torch.equal(f(x, 6), expected) and backend.calls == 1
    for _ in range(34):
        expected = (expected * 2 - 1).sin()
    before = backend.calls
    assert torch.equal(f(x, 40), expected)
    assert backend.calls == before + 40 and backend.frame_count == 2


# the same results -----------------------------------------------------------------------------------------------------
class Ending(Exception):
    pass


def search(a: Any, rows: Any, stop: Any) -> Any:
    found = []
    for i, row in enumerate(rows):
        a = a + row
        print("row", i)
        if i == stop:
            break
        if row is None:
            continue
        found.append(a * i)
    else:
        print("none")
        a = a - 1
    return a, found


def nested(a: Any, n: Any, m: Any) -> Any:
    seen = {}
    for i in range(n):
        for j in range(m):
            if (i + j) % 3 == 2:
                continue
            a = a * 0.5 + j
            print(i, j)
            seen[i, j] = a.sum()
        while m > 2:
            m -= 1
            a = a - m
            print("while", m)
    return a, seen


def returns_from_within(a: Any, n: Any) -> Any:
    with contextlib.suppress(KeyError):
        for i in range(n):
            try:
                a = a * 2
                print(i)
                if i == 2:
                    return a - 1
            finally:
                a = a + 10
                print("finally", i)
    return a


def raises_from_within(a: Any, n: Any) -> Any:
    for i in range(n):
        a = a + i
        try:
            print(i)
            if i == 3:
                raise Ending(i) from ValueError("deep")
        except Ending as error:
            a = a * 2
            print(type(error.__cause__))
            if n > 5:
                raise
    return a


def halves_an_iterator(a: Any, n: Any) -> Any:
    numbers = iter(range(n))
    for i in numbers:
        a = a + i
        print(i)
        if i % 2:
            next(numbers, None)
    return a, list(numbers)


def comprehension(a: Any, n: Any) -> Any:
    return [(a * i, print(i))[0] + 1 for i in range(n)], {i: a - i for i in range(n) if print(i) is None}


PROGRAMS: list[tuple[Callable[..., Any], list[tuple[Any, ...]]]] = [
    (search, [(x, [x, x * 2, x], 1), (x, [x, x], 9), (x, [], 0), (x, [x] * 4, 3)]),
    (nested, [(x, 3, 4), (x, 4, 2), (x, 0, 5), (x, 2, 5)]),
    (returns_from_within, [(x, 2), (x, 5), (x, 0), (x, 3)]),
    (raises_from_within, [(x, 3), (x, 5), (x, 6), (x, 4)]),
    (halves_an_iterator, [(x, 7), (x, 4), (x, 1)]),
    (comprehension, [(x, 3), (x, 5), (x, 0)]),
]


@pytest.mark.parametrize("program, calls", PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_programs(program: Callable[..., Any], calls: list[tuple[Any, ...]]) -> None:
    check_calls(program, *calls, *calls)


def test_a_very_long_function_has_landings_where_they_are_used_only() -> None:
    tracer.install(backend="eager")
    lines = "\n".join(f"        x{i % 9} = g(x{(i + 1) % 9}, {i}) + 1" for i in range(400))
    names: dict[str, Any] = {"g": lambda a, i: a.sin() * i}
    first = "; ".join(f"x{i} = a" for i in range(9))
    exec(f"def f(a, n):\n    {first}\n    for k in range(n):\n{lines}\n        print(k)\n    return x0\n", names)
    compiled = tracer.compile(names["f"], inplace=False)
    state = runtime.state_of(compiled)
    assert state is not None and state.scouting is None and len(state.decoded.unit_starts()) > 2000
    for n in (2, 2, 3, 2):
        assert torch.equal(quietly(compiled, x, n), quietly(names["f"], x, n))
    tracer.uninstall()


# where nothing was to be had one way, but another way was not taken --------------------------------------------------
def test_what_follows_a_while_loop_of_breaks_is_compiled_in_the_frame_that_runs(backend: CountingBackend) -> None:
    @tracer.compile(backend=backend)
    def f(a: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(8):
            waited = 0
            while waited < n:
                print(i)
                waited += 1
            a = a * 2 + waited
        return a

    expected = x
    for _ in range(8):
        expected = expected * 2 + 5
    assert torch.equal(quietly(f, x, 5), expected)
    assert backend.frame_count == 1 and backend.calls >= 7, "from the second iteration on"
    before = backend.calls
    assert torch.equal(quietly(f, x, 5), expected)
    assert backend.frame_count == 1 and backend.calls == before + 8


def test_a_branch_that_is_taken_late_is_compiled(backend: CountingBackend) -> None:
    @tracer.compile(backend=backend)
    def serve(model: Callable[[Any], Any]) -> Iterator[Any]:
        answer = None
        while True:
            request = yield answer
            if request is None:
                answer = "alive"
                continue
            if isinstance(request, str):
                answer = request.upper()
            else:
                answer = model(request) * 2

    server = serve(lambda a: (a + 1).relu())
    assert next(server) is None
    asked = [None, None, None, "a", "b", None, "c", *[x + k for k in range(5)], None, "d", x]
    answers = [server.send(question) for question in asked]
    assert answers[:7] == ["alive"] * 3 + ["A", "B", "alive", "C"] and answers[12:14] == ["alive", "D"]
    for question, answer in zip(asked, answers, strict=True):
        if isinstance(question, torch.Tensor):
            assert torch.equal(answer, (question + 1).relu() * 2)
    assert backend.frame_count == 1 and backend.calls == 6
    server.close()


def test_later_calls_find_what_the_first_ones_passed_by(backend: CountingBackend) -> None:
    @tracer.compile(backend=backend)
    def f(a: torch.Tensor, quiet: bool) -> torch.Tensor:
        print(end="")
        if quiet:
            return a
        a = a + 1
        print(end="")
        return a * 2

    for _ in range(4):
        assert torch.equal(f(x, True), x)
    assert backend.frame_count == 0
    for k in range(4):
        assert torch.equal(f(x + k, False), (x + k + 1) * 2)
    assert backend.frame_count == 2 and backend.calls >= 6
