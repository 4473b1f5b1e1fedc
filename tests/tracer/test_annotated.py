"""Functions with annotations that are made in the region: since Python 3.14 they are computed when somebody asks."""

import inspect

import torch

from tests.support import check, compile_with


def test_annotations_of_a_function_that_is_handed_on():
    def f(x):
        def inner(a: int, b: "int" = 2) -> torch.Tensor:
            return x * a + b

        return inner(3), inner

    check(f, torch.ones(3), fullgraph=True)
    result, inner = compile_with(f, backend="eager")(torch.ones(3))
    assert inner.__annotations__ == {"a": int, "b": "int", "return": torch.Tensor}
    assert list(inspect.signature(inner).parameters) == ["a", "b"] and inner(2).tolist() == [4, 4, 4]
    assert result.tolist() == [5, 5, 5]


def test_a_break_between_what_makes_a_function():
    def f(x, make):
        def inner(a: int, b: float = make()) -> torch.Tensor:
            return x * a + b

        return inner(3) + 1

    def make():
        print("made")
        return 2.0

    check(f, torch.ones(3), make)
