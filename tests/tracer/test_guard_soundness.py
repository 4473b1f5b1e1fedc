"""For each kind of guard small programs which it alone keeps right: without it their results are wrong.

A program is compiled and called, just the one thing that the guard looks at is changed, and it is called again: both
calls must give what plain Python gives. Then the same with a guard that is written as nothing (mutation testing): the
results must be wrong, else some other guard saw the change and the program shows nothing. A kind without a program
fails here too.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tracer
from tracer.guard_kinds import WRITERS
from tracer.guard_writer import Writer
from tracer.guards import Kind

Function = Callable[..., Any]
#: Calls a function, changes something, calls it again; gives the results.
Calls = Callable[[Function], Iterator[Any]]


@dataclass(frozen=True)
class Program:
    name: str
    kind: Kind
    function: Function
    calls: Calls
    backend: str = "eager"

    def __str__(self) -> str:
        return f"{self.kind.name}-{self.name}"


PROGRAMS: list[Program] = []


def changing(kind: Kind, function: Function, backend: str = "eager") -> Callable[[Calls], Calls]:
    """Register a program: `calls` makes the calls, and names it."""

    def register(calls: Calls) -> Calls:
        PROGRAMS.append(Program(calls.__name__, kind, function, calls, backend))
        return calls

    return register


def arguments(name: str, kind: Kind, function: Function, *calls: tuple[Any, ...]) -> None:
    """Register a program whose arguments change."""

    def call_each(fn: Function) -> Iterator[Any]:
        for given in calls:
            yield fn(*given)

    PROGRAMS.append(Program(name, kind, function, call_each))


X = torch.tensor([0.5, -1.0, 2.0])


# classes and identities ----------------------------------------------------------------------------------------------
def by_type(x: Tensor, n: Any) -> Tensor:
    return x * 2 if isinstance(n, int) else x.sin()


arguments("int_float", Kind.TYPE, by_type, (X, 3), (X, 3.0))
arguments("list_tuple", Kind.TYPE, lambda x, xs: x + 1 if type(xs) is list else x - 1, (X, [1]), (X, (1,)))


class One:
    def apply(self, x: Tensor) -> Tensor:
        return x + 1


class Two(One):
    def apply(self, x: Tensor) -> Tensor:
        return x + 2


arguments("class_of_an_object", Kind.TYPE, lambda x, obj: obj.apply(x), (X, One()), (X, Two()))
arguments("operator", Kind.IS, lambda x, function: function(x), (X, torch.sin), (X, torch.cos))
arguments("class", Kind.IS, lambda x, cls: cls().apply(x), (X, One), (X, Two))


def perhaps_unbound(x: Tensor, given: bool) -> Any:
    if given:
        text = "bound"
    BREAK()
    return x + 1, text


@torch.compiler.disable
def BREAK() -> None:
    pass


arguments("unbound_local", Kind.IS_NOT, perhaps_unbound, (X, True), (X, False))


# values --------------------------------------------------------------------------------------------------------------
def by_mode(x: Tensor, mode: Any) -> Tensor:
    return {"sin": x.sin, "cos": x.cos}[mode]()


arguments("string", Kind.EQUALS, by_mode, (X, "sin"), (X, "cos"))
arguments("number", Kind.EQUALS, lambda x, n: x.repeat(n), (X, 2), (X, 3))
arguments("negative_zero", Kind.EQUALS, lambda x, f: torch.full((2,), f).atan2(-x[:2].abs()), (X, 0.0), (X, -0.0))
arguments("none", Kind.EQUALS, lambda x, y: x + 1 if y is None else x * 2, (X, None), (X, "given"))
arguments("true_after_number", Kind.TRUTHY, lambda x, n: x + 1 if n else x * 2, (X, 5), (X, 0))
arguments("number_after_zero", Kind.FALSY, lambda x, n: x + 1 if n else x * 2, (X, 0), (X, 5))
arguments("list_that_is_filled", Kind.TRUTHY, lambda x, xs: x + 1 if xs else x * 2, (X, [1]), (X, []))
arguments("list_that_is_empty", Kind.FALSY, lambda x, xs: x + 1 if xs else x * 2, (X, []), (X, [1]))
arguments("string_that_is_empty", Kind.FALSY, lambda x, s: x + 1 if s else x * 2, (X, ""), (X, "a"))
arguments("comparison", Kind.EXPRESSION, lambda x, n: x + 1 if n > 3 else x * 2, (X, 5), (X, 2))
arguments("remainder", Kind.EXPRESSION, lambda x, n: x + 1 if n % 4 == 1 else x * 2, (X, 5), (X, 6))
arguments("flag", Kind.EXPRESSION, lambda x, flag: x + 1 if flag else x * 2, (X, True), (X, False))


# containers ----------------------------------------------------------------------------------------------------------
def total(x: Tensor, xs: Any) -> Tensor:
    for y in xs:
        x = x * 2 + y
    return x


arguments("longer_list", Kind.LENGTH, total, (X, [X, X]), (X, [X, X, X]))
arguments("longer_tuple", Kind.LENGTH, total, (X, (X, X)), (X, (X, X, X)))


def joined(x: Tensor, d: Any) -> Tensor:
    for key in d:
        x = x * 2 + len(key)
    return x


arguments("keys_of_a_dict", Kind.KEYS, joined, (X, {"a": 1, "bb": 2}), (X, {"a": 1, "ccc": 2}))
arguments("order_of_keys", Kind.KEYS, joined, (X, {"a": 1, "bb": 2}), (X, {"bb": 2, "a": 1}))
arguments("another_key", Kind.KEYS, joined, (X, {"a": 1}), (X, {"a": 1, "bb": 2}))
arguments("elements_of_a_set", Kind.KEYS, lambda x, s: x + sum(sorted(s)), (X, {1, 2}), (X, {1, 3}))
arguments("key_that_goes", Kind.HAS_KEY, lambda x, d: x + 1 if "k" in d else x * 2, (X, {"k": 1}), (X, {"z": 1}))
arguments("key_that_comes", Kind.LACKS_KEY, lambda x, d: x + 1 if "k" in d else x * 2, (X, {"z": 1}), (X, {"k": 1}))


class Children(nn.Module):
    """Modules of one class, so that only the names tell in which order they are."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        for name in names:
            self.add_module(name, nn.Identity())


def by_names(x: Tensor, model: nn.Module) -> Tensor:
    for name, _child in model.named_children():
        x = x.sin() if name == "sin" else x * 2 + len(name)
    return x


arguments("one_more_module", Kind.NAMES, by_names, (X, Children("sin", "twice")), (X, Children("sin", "twice", "sine")))
arguments("order_of_modules", Kind.NAMES, by_names, (X, Children("sin", "twice")), (X, Children("twice", "sin")))


# relations -----------------------------------------------------------------------------------------------------------
def append_and_count(x: Tensor, xs: list[Any], ys: list[Any]) -> Any:
    xs.append(x + 1)
    return x * len(ys), [*ys]


@changing(Kind.ALIAS, append_and_count)
def one_list_twice(fn: Function) -> Iterator[Any]:
    both: list[Any] = [X]
    yield fn(X, both, both)
    yield fn(X, [X], [X])


@changing(Kind.NOT_ALIAS, lambda x, xs, ys: x + 1 if xs is ys else x * 2)
def two_lists_that_become_one(fn: Function) -> Iterator[Any]:
    both: list[Any] = [X]
    yield fn(X, [X], [X])
    yield fn(X, both, both)


def add_and_read(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    return y * 2


@changing(Kind.NO_OVERLAP, add_and_read, backend="aot_eager")
def memory_that_is_shared(fn: Function) -> Iterator[Any]:
    yield fn(torch.zeros(4), torch.zeros(4))
    base = torch.zeros(6)
    yield fn(base[:4], base[2:])


# tensors -------------------------------------------------------------------------------------------------------------
arguments("dtype", Kind.TENSOR, lambda x: (x + 1, x.dtype is torch.float32), (X,), (X.double(),))
arguments("number_of_dimensions", Kind.TENSOR, lambda x: x + x.dim(), (X,), (X[None],))
arguments("size", Kind.TENSOR, lambda x: x.sum() / len(x), (X,), (X[:2],))
arguments("stride", Kind.TENSOR, lambda x: (x + 1, x.is_contiguous()), (X,), (X.repeat(2)[::2],))
arguments("requires_grad", Kind.TENSOR, lambda x: x + 1 if x.requires_grad else x * 2, (X,), (nn.Parameter(X),))
arguments("device", Kind.TENSOR, lambda x: (x + 1, x.is_meta), (X,), (X.to("meta"),))
arguments("no_tensor", Kind.TENSOR, lambda x, y: x + 1 if isinstance(y, Tensor) else x * 2, (X, X + 1), (X, None))


# classes, functions, state -------------------------------------------------------------------------------------------
@changing(Kind.TYPE_ATTR, lambda x, obj: x * obj.scale)
def attribute_of_a_class(fn: Function) -> Iterator[Any]:
    cls = type("Local", (), {"scale": 2.0})
    yield fn(X, cls())
    cls.scale = 3.0  # type: ignore[attr-defined]
    yield fn(X, cls())


@changing(Kind.TYPE_ATTR, lambda x, obj: obj.apply(x))
def method_of_a_class(fn: Function) -> Iterator[Any]:
    cls: Any = type("Local", (One,), {})
    yield fn(X, cls())
    cls.apply = Two.apply
    yield fn(X, cls())


@changing(Kind.TYPE_ATTR, lambda x, obj: x + 1 if isinstance(obj, Two) else x * 2)
def bases_of_an_instances_class(fn: Function) -> Iterator[Any]:
    cls: Any = type("Local", (One,), {})
    yield fn(X, cls())
    cls.__bases__ = (Two,)
    yield fn(X, cls())


@changing(Kind.TYPE_ATTR, lambda x, cls, obj: super(cls, obj).apply(x))
def bases_behind_super(fn: Function) -> Iterator[Any]:
    cls: Any = type("Local", (One,), {})
    yield fn(X, cls, cls())
    cls.__bases__ = (Two,)
    yield fn(X, cls, cls())


@changing(Kind.FALSY, lambda x, obj, cls: x + 1 if isinstance(obj, cls) else x * 2)
def class_that_is_registered(fn: Function) -> Iterator[Any]:
    registry = abc.ABCMeta("Registry", (), {})
    yield fn(X, One(), registry)
    registry.register(One)
    yield fn(X, One(), registry)


@changing(Kind.CODE, lambda x, function: function(x))
def code_of_a_function(fn: Function) -> Iterator[Any]:
    def function(x: Tensor) -> Tensor:
        return x + 1

    def other(x: Tensor) -> Tensor:
        return x * 2

    yield fn(X, function)
    function.__code__ = other.__code__
    yield fn(X, function)


@changing(Kind.STATE, lambda x: x + 1 if torch.is_grad_enabled() else x * 2)
def grad_mode(fn: Function) -> Iterator[Any]:
    yield fn(X)
    with torch.no_grad():
        yield fn(X)


@changing(Kind.STATE, lambda x: (x + 1, torch.get_default_dtype()))
def default_dtype(fn: Function) -> Iterator[Any]:
    yield fn(X)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield fn(X)
    finally:
        torch.set_default_dtype(before)


# sizes that are symbols ----------------------------------------------------------------------------------------------
@changing(Kind.SHAPE, lambda x: x + 1 if x.shape[0] > 6 else x * 3)
def size_decides(fn: Function) -> Iterator[Any]:
    fn(torch.ones(4))
    yield fn(torch.ones(5))
    yield fn(torch.ones(9))


@changing(Kind.SHAPE, lambda x, y: x + 1 if x.shape == y.shape else x * 3)
def sizes_are_equal(fn: Function) -> Iterator[Any]:
    fn(torch.ones(4), torch.ones(4))
    yield fn(torch.ones(5), torch.ones(5))
    yield fn(torch.ones(5), torch.ones(6))


@changing(Kind.SHAPE, lambda x: (x * 3, x.stride()))
def strides(fn: Function) -> Iterator[Any]:
    fn(torch.ones(4, 5))
    yield fn(torch.ones(6, 7))
    yield fn(torch.ones(6, 9)[:, :7])


# the tests -----------------------------------------------------------------------------------------------------------
@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHGRAFT_STRICT", "0")  # what a wrong region does is looked at, not raised
    tracer.install()
    yield
    tracer.uninstall()


@contextlib.contextmanager
def without(kind: Kind) -> Iterator[None]:
    """The guards of this kind are written as nothing."""
    with pytest.MonkeyPatch.context() as patch:
        if kind is Kind.TENSOR:
            patch.setattr(Writer, "_write_tensors", lambda writer, guards: None)
        else:
            patch.setitem(WRITERS, kind, lambda writer, source, expected: None)
        yield


def outcomes(program: Program, fn: Function) -> list[Any]:
    """What each call gave or raised."""
    found: list[Any] = []
    calls = program.calls(fn)
    while True:
        try:
            found.append(comparable(next(calls)))
        except StopIteration:
            return found
        except Exception as error:  # ends the generator: nothing comes behind it
            found.append(type(error))


def comparable(result: Any) -> Any:
    if isinstance(result, Tensor):
        values = None if result.is_meta else result.tolist()
        return result.dtype, result.device, tuple(result.shape), result.requires_grad, values
    if isinstance(result, (list, tuple)):
        return type(result), [comparable(item) for item in result]
    return type(result), result


def compiled_outcomes(program: Program) -> list[Any]:
    return outcomes(program, tracer.compile(program.function, backend=program.backend, inplace=False))


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_change_is_seen(program: Program) -> None:
    expected = outcomes(program, program.function)
    assert len(expected) == 2 and expected[0] != expected[1], "what is changed does not matter to the program"
    assert compiled_outcomes(program) == expected
    assert tracer.counters()["compilations"], "nothing was compiled"


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_without_the_guard_it_would_not_be(program: Program) -> None:
    with without(program.kind):
        found = compiled_outcomes(program)
    assert found != outcomes(program, program.function), f"{program.kind} is not what keeps this program right"


def test_every_kind_has_a_program() -> None:
    assert {program.kind for program in PROGRAMS} == set(Kind)


def test_every_kind_can_be_left_out() -> None:
    assert set(Kind) - set(WRITERS) == {Kind.TENSOR}
