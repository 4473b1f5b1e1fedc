"""That an attribute is there, or is not, is relied upon like its value: functions, modules, methods, enums, tensors."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support import CountingBackend, compile_with

X = torch.ones(2)


def a_function() -> Any:
    return lambda x: x


class Colour(enum.Enum):
    RED = 1


def a_method() -> Any:
    class C:
        def method(self) -> None: ...

    return C


OWNERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    # makes an owner, and what is asked for its attribute
    "function": (a_function, lambda owner: owner),
    "module": (lambda: types.ModuleType("made"), lambda owner: owner),
    "method": (lambda: a_method().method, lambda owner: owner),
    "bound method": (a_method, lambda owner: owner),
    "enum member": (lambda: Colour.RED, lambda owner: owner),
    "tensor": (lambda: torch.ones(2), lambda owner: owner),
    "parameter": (lambda: torch.nn.Parameter(torch.ones(2)), lambda owner: owner),
    "instance": (lambda: types.SimpleNamespace(), lambda owner: owner),
    "class": (a_method, lambda owner: owner),
}
READS: dict[str, Callable[[Any, Any], Any]] = {
    "getattr": lambda x, o: x * getattr(o, "k", 1),
    "hasattr": lambda x, o: x * (5 if hasattr(o, "k") else 1),
    "try": lambda x, o: _tried(x, o),
}


def _tried(x: Any, o: Any) -> Any:
    try:
        return x * o.k
    except AttributeError:
        return x


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("kind", OWNERS)
def test_an_attribute_comes_changes_and_goes(kind: str, read: Callable[[Any, Any], Any]) -> None:
    owner = OWNERS[kind][0]()

    def asked() -> Any:
        return owner().method if kind == "bound method" else owner

    target = owner.method if kind == "bound method" else owner

    def f(x: Any) -> Any:
        return read(x, asked())

    compiled = compile_with(f, backend="eager")
    steps: list[Callable[[], Any]] = [
        lambda: None,
        lambda: setattr(target, "k", 3),
        lambda: setattr(target, "k", 4),
        lambda: delattr(target, "k"),
        lambda: setattr(target, "k", 3),
        lambda: delattr(target, "k"),
    ]
    for step in steps:
        step()
        for _ in range(2):
            assert torch.equal(compiled(X), f(X))


def test_a_fresh_tensor_lacks_what_another_one_had() -> None:
    def f(x: Any) -> Any:
        return x * (2 if hasattr(x, "flag") else 1)

    compiled = compile_with(f, backend="eager")
    flagged = torch.ones(2)
    flagged.flag = 1  # type: ignore[attr-defined]
    for x in (flagged, X, flagged, X):
        assert torch.equal(compiled(x), f(x))


def test_a_function_that_keeps_something_on_itself_makes_it_once(capsys: Any) -> None:
    def helper(x: Any) -> Any:
        if not hasattr(helper, "w"):
            helper.w = torch.ones(1) * 3  # type: ignore[attr-defined]
            print("made")
        return x * helper.w  # type: ignore[attr-defined]

    compiled = compile_with(lambda x: helper(x) + 1, backend=CountingBackend())
    for _ in range(4):
        assert torch.equal(compiled(X), X * 3 + 1)
    assert capsys.readouterr().out == "made\n"
