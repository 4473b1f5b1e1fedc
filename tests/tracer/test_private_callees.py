"""Callees that break: the caller breaks at that call only; a copy of the callee is compiled, for this caller alone."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import pytest
import torch

import tracer
from tests.support import CountingBackend, compile_with
from tracer.api import is_grafted, runtime

x = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    tracer.install(backend="eager")
    tracer.reset()
    yield
    tracer.uninstall()


def pause() -> None:
    print(end="")


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) * 1.5

    return wrapper


@decorated
def wrapped(a: Any) -> Any:
    a = a + 1
    print(end="")
    return a * 3


def made(scale: Any) -> Callable[..., Any]:
    def inner(a: Any, k: Any = 2) -> Any:
        a = a * scale
        print(end="")
        return a + k

    return inner


class Scaled:
    def __init__(self, by: Any) -> None:
        self.by = by

    def __call__(self, a: Any) -> Any:
        a = a * self.by
        print(end="")
        return a.sin()

    def method(self, a: Any) -> Any:
        a = a - self.by
        print(end="")
        return a.cos()

    @classmethod
    def of_class(cls, a: Any) -> Any:
        a = a * 2
        print(end="")
        return a + 1

    @staticmethod
    def of_nobody(a: Any) -> Any:
        a = a * 4
        print(end="")
        return a + 1


def recursive(a: Any, n: int) -> Any:
    a = a * 2
    print(end="")
    return recursive(a + 1, n - 1) if n else a


def items(a: Any, n: int) -> Iterator[Any]:
    for _ in range(n):
        a = a * 2
        print(end="")
        yield a + 1


SCALED = Scaled(torch.ones(3))
FROM_OUTSIDE = made(torch.ones(3) * 4)
PARTIAL = functools.partial(made(torch.ones(3)), k=torch.ones(3))
#: each with how many graph calls one call of it makes
PROGRAMS: list[tuple[str, Callable[..., Any], int]] = [
    ("decorated function", lambda a: wrapped(a) + 1, 4),
    ("closure made in the region", lambda a: made(3.0)(a) + 1, 3),
    ("closure from outside", lambda a: FROM_OUTSIDE(a) + 1, 3),
    ("callable object", lambda a: SCALED(a) + 1, 3),
    ("method", lambda a: SCALED.method(a) + 1, 3),
    ("class method", lambda a: SCALED.of_class(a) + 1, 3),
    ("static method", lambda a: SCALED.of_nobody(a) + 1, 3),
    ("partial", lambda a: PARTIAL(a) + 1, 3),
    ("recursion", lambda a: recursive(a, 3) + 1, 8),
    ("lambda", lambda a: (lambda b: (b * 2, print(end=""), b * 3)[2])(a) + 1, 3),
    ("closures of one parent", lambda a: sum([made(float(i))(a) for i in range(3)]), 7),
    ("generator", lambda a: sum(list(items(a, 3))), 7),
]


@pytest.mark.parametrize("name, program, count", PROGRAMS, ids=[name for name, _, _ in PROGRAMS])
def test_it_is_compiled_around_its_break(name: str, program: Callable[..., Any], count: int) -> None:
    backend = CountingBackend()
    compiled = tracer.compile(program, backend=backend, inplace=False)
    expected = program(x)
    for _ in range(4):
        before = backend.calls
        assert torch.equal(compiled(x), expected)
        assert backend.calls - before == count
    compiled_graphs = backend.frame_count
    assert compiled_graphs <= count
    for _ in range(3):
        compiled(x)
    assert backend.frame_count == compiled_graphs


def test_nobody_else_runs_it_compiled() -> None:
    """Another caller, another instance, and the function itself, run as they did."""
    backend = CountingBackend()
    compiled = tracer.compile(lambda a: SCALED.method(wrapped(a)), backend=backend)
    for _ in range(3):
        compiled(x)
    calls = backend.calls
    assert torch.equal(wrapped(x), (x + 1) * 3 * 1.5)
    SCALED.method(x), Scaled(2).method(x), FROM_OUTSIDE(x)
    assert backend.calls == calls
    assert not any(map(is_grafted, (Scaled.method, wrapped, wrapped.__wrapped__)))  # type: ignore[attr-defined]


def test_two_compiles_have_copies_of_their_own() -> None:
    first, second = CountingBackend(), CountingBackend()
    one = tracer.compile(lambda a: wrapped(a) + 1, backend=first)
    two = tracer.compile(lambda a: wrapped(a) + 2, backend=second)
    assert torch.equal(one(x), wrapped(x) + 1) and torch.equal(two(x), wrapped(x) + 2)
    assert (first.calls, second.calls) == (4, 4)


def test_closures_made_at_each_call_are_compiled_once() -> None:
    backend = CountingBackend()

    @tracer.compile(backend=backend)
    def f(a: Any, scale: Any) -> Any:
        return made(scale)(a) + 1

    for i in range(5):
        scale = torch.full((3,), float(i))
        assert torch.equal(f(x, scale), x * scale + 2 + 1)
    assert backend.frame_count == 3 and backend.calls == 15


def test_a_copy_of_a_closure_keeps_its_cells_and_nothing_else_alive() -> None:
    class Big:
        pass

    def f(a: Any) -> Any:
        big = Big()
        seen.append(weakref.ref(big))

        def inner() -> Any:
            nonlocal a
            a = a * 2
            print(end="")
            a = a + 1
            return big

        inner()
        return a

    seen: list[Any] = []
    compiled = tracer.compile(f, inplace=False)
    for _ in range(3):
        assert torch.equal(compiled(x), x * 2 + 1)
    gc.collect()
    assert [ref() for ref in seen] == [None] * 3


@contextmanager
def managed() -> Any:
    yield 1


def test_copies_in_which_nothing_is_ever_compiled_are_given_up() -> None:
    """contextlib's methods and the manager's generator do nothing with tensors: later calls run these plain."""

    def f(x: Any) -> Any:
        with managed() as k:
            y = x + k
            print(end="")
        return y

    compiled = compile_with(f, backend=CountingBackend())
    for _ in range(30):
        assert torch.equal(compiled(x), x + 1)
    before = tracer.counters()["hits"]
    compiled(x)
    assert tracer.counters()["hits"] - before == 1


def rarely(x: Any, now: bool) -> Any:
    print(end="")
    if now:
        x = x * 2
        print(end="")
        x = x + 1
    return x


def test_a_copy_of_the_users_own_function_is_kept_for_the_path_that_comes_late() -> None:
    backend = CountingBackend()

    def f(x: Any, now: bool) -> Any:
        x = rarely(x, now)
        print(end="")
        return x

    compiled = compile_with(f, backend=backend)
    for step in range(200):
        now = step % 40 == 39
        assert torch.equal(compiled(x, now), f(x, now))
    assert backend.op_count == 2
    assert backend.calls >= 6


def test_private_copies_that_never_run_an_operator_go_at_the_limit_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`named_modules` calls itself for each submodule with another prefix, and only hands itself over."""
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(3, 3)) for _ in range(6)])

    def step(a: Any) -> Any:
        (model(a) * 2).sum().backward()
        return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, error_if_nonfinite=True)

    compiled = tracer.compile(step)
    for _ in range(3):
        model.zero_grad()
        expected = tracer.original(step)(x)
        model.zero_grad()
        assert torch.equal(compiled(x), expected)
    assert "gets no more" not in caplog.text


class Decorated:
    """Its methods are functions with cells, the same ones at each call."""

    def __init__(self) -> None:
        self.by = 3

    @decorated
    def method(self, a: Any) -> Any:
        return self.inside(a) + 1

    @decorated
    def inside(self, a: Any, k: Any = 2) -> Any:
        a = a * self.by
        print(end="")
        return a + k


def ended(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args).tolist()
    except Exception as error:
        return type(error), str(error)


def test_a_decorated_function_has_one_copy() -> None:
    """Its code has cells, but the function is the same at each call."""
    thing = Decorated()

    def use(a: Any) -> Any:
        return thing.method(a) * wrapped(a)

    compiled = compile_with(use, backend="eager")
    for _ in range(4):
        assert torch.equal(compiled(x), use(x))
    made_once = copies()
    for _ in range(4):
        assert torch.equal(compiled(x), use(x))
    assert len(made_once) > 3 and copies() == made_once


def copies() -> list[FunctionType]:
    """The private copies that are alive."""
    states = [state for state in runtime.registry if state.name.endswith(("wrapper", "inside", "method", "wrapped"))]
    return [function for state in states for function in state.live_functions()]


@pytest.mark.parametrize("name", ["method", "inside"])
def test_a_decorated_function_that_changes(name: str) -> None:
    thing = Decorated()

    def use(a: Any) -> Any:
        return thing.method(a)

    compiled = compile_with(use, backend="eager")
    outer: Any = vars(Decorated)[name]
    inner = outer.__wrapped__
    kept = outer.__code__, inner.__code__, inner.__defaults__

    def other(self: Any, a: Any, k: Any = 5) -> Any:
        print(end="")
        return a - k

    steps: list[Callable[[], Any]] = [
        lambda: None,
        lambda: setattr(inner, "__defaults__", (7,)),
        lambda: setattr(inner, "__defaults__", None),
        lambda: setattr(inner, "__defaults__", (7.5,)),
        lambda: setattr(outer, "__defaults__", (1, 2)),
        lambda: setattr(outer, "__kwdefaults__", {"more": 1}),
        lambda: setattr(inner, "__code__", other.__code__),
        lambda: setattr(outer.__closure__[0], "cell_contents", other),
        lambda: delattr(outer, "__wrapped__"),
        lambda: setattr(thing, "by", 4),
        lambda: setattr(Decorated, name, other),
        lambda: setattr(Decorated, name, outer),
    ]
    try:
        for step in steps:
            step()
            for _ in range(3):
                assert ended(compiled, x) == ended(use, x)
    finally:
        outer.__code__, inner.__code__, inner.__defaults__ = kept
        outer.__defaults__ = outer.__kwdefaults__ = None
        outer.__closure__[0].cell_contents = outer.__wrapped__ = inner
        setattr(Decorated, name, outer)


def test_cells_of_a_decorated_function_go_with_it() -> None:
    """Of a function that somebody else holds no copy is kept."""
    holder: list[Any] = []

    def use(a: Any) -> Any:
        return holder[0](a) + 1

    compiled = compile_with(use, backend="eager")
    for _ in range(3):
        weight = torch.ones(3)
        holder[:] = [functools.wraps(wrapped)(made(weight))]
        gone = weakref.ref(weight), weakref.ref(holder[0])
        for _ in range(4):
            assert torch.equal(compiled(x), use(x))
        holder.clear()
        del weight
        gc.collect()
        assert [ref() for ref in gone] == [None, None]


def test_a_wrapper_made_at_each_call_is_known_by_its_code() -> None:
    """`functools.wraps` gives it the name of what it wraps, which its module defines at its top."""

    def tripled(a: Any) -> Any:
        return a * 3

    def made_each_time(function: Any, k: Any) -> Any:
        @functools.wraps(function)
        def wrapper(a: Any, plus: Any = k) -> Any:
            return function(a) * k + plus

        return wrapper

    def use(a: Any, function: Any) -> Any:
        return function(a) * 2

    compiled = compile_with(use, backend=(backend := CountingBackend()))
    for k, graphs in ((2, 1), (2, 1), (2, 1), (2.5, 2), (2, 2), (2.5, 2)):
        assert torch.equal(compiled(x, made_each_time(pause_free, k)), use(x, made_each_time(pause_free, k)))
        assert backend.frame_count == graphs
    for function in (tripled, pause_free, tripled):
        assert torch.equal(compiled(x, made_each_time(function, 2)), use(x, made_each_time(function, 2)))
    assert backend.frame_count == 3


def pause_free(a: Any) -> Any:
    return a - 1
