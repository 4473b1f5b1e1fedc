"""Programs found by comparing random ones, called with many sizes, with plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support import check_calls, compile_with
from tracer.guard_text import guard_text
from tracer.guards import Guard, Kind
from tracer.sources import Attr, Formula, Item, Param

DYNAMIC = pytest.mark.parametrize("dynamic", [None, True, False])


@DYNAMIC
def test_a_computed_number_is_an_input_of_the_graph_and_is_kept(dynamic: bool | None) -> None:
    def f(x: Any, y: Any, n: int) -> Any:
        size = x.shape.numel()
        print(end="")
        both = sum([size, n])
        power = y**both
        print(end="")
        return size, both, power

    check_calls(f, *((torch.randn(a, 2).t(), torch.rand(a, 4), 3) for a in (6, 5, 7, 4)), dynamic=dynamic)


@DYNAMIC
def test_bytes_of_a_tensor(dynamic: bool | None) -> None:
    def f(x: Any) -> Any:
        return x.nbytes, (x * 2).double().nbytes, x.itemsize

    check_calls(f, *((torch.randn(a, 3),) for a in (4, 5, 6, 0, 1)), dynamic=dynamic)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda t: t[:, 1:5],
    "transposed": lambda t: t.t(),
    "expanded": lambda t: t[:, None].expand(-1, 3, -1),
    "every second": lambda t: t[::2, ::2],
    "one row": lambda t: t[0].expand(3, -1),
}


@DYNAMIC
@pytest.mark.parametrize("name", VIEWS)
def test_layout_of_a_tensor_with_a_history(name: str, dynamic: bool | None) -> None:
    view = VIEWS[name]

    def f(t: Any) -> Any:
        x = view(t * 1)
        print(end="")
        return x.contiguous(), x.is_contiguous(), x.stride(), x * 2

    check_calls(f, *((torch.randn(6 + i, 9 + i, requires_grad=True),) for i in range(4)), dynamic=dynamic)


@DYNAMIC
def test_where_a_tensor_begins(dynamic: bool | None) -> None:
    def f(x: Any) -> Any:
        return x.storage_offset(), x[1:].storage_offset(), (x * 2).storage_offset(), x.t()[2:].storage_offset()

    base = torch.randn(12, 6)
    compiled = compile_with(f, dynamic=dynamic)
    for i in range(5):
        for x in (base[2 * i : 2 * i + 2], base[i : 2 * i + 2, 1 : 4 + i // 2], base[i + 1 :], torch.randn(4, 6)):
            assert compiled(x) == f(x)


@pytest.mark.parametrize("template", ["{1} < {0}", "{0} == 1 or {1} == 2", "2 <= {1} <= {0}", "{1} if {0} else {2}"])
def test_what_formulas_share_is_fetched_before_it_is_read(template: str) -> None:
    """Whatever the order in which a formula looks at its parts, and however early it stops."""
    sizes = [Item(Attr(Param("x"), "shape"), d) for d in range(3)]
    again = Formula("{0} >= 0 and {2} >= 0 and {1} >= 0", tuple(sizes))
    guards = [Guard(Kind.SHAPE, Formula(template, tuple(sizes)), None, None), Guard(Kind.SHAPE, again, None, None)]
    conditions, constants = guard_text(guards)
    for shape in ((3, 2, 5), (1, 9, 9), (0, 4, 2), (7, 7, 0)):
        scope = {**constants, "x": torch.empty(shape)}
        found = all(eval(text, scope) for text in conditions)
        assert found == bool(eval(template.format(*shape)))


@DYNAMIC
def test_what_is_divided_by_a_size_when_that_is_zero(dynamic: bool | None) -> None:
    def f(x: Any, n: int) -> Any:
        parts = x.chunk(2)
        print(end="")
        y = parts[0].detach().clone()
        return y, 12 // max(x.shape[0] - n, 1), x.shape[0] % n

    sizes = (4, 2), (5, 3), (6, 4), (0, 2), (7, 5), (1, 1)
    check_calls(f, *((torch.randn(a, 3), n) for a, n in sizes), dynamic=dynamic)


@DYNAMIC
def test_an_expanded_tensor_is_written_where_the_program_says(dynamic: bool | None) -> None:
    def f(x: Any, log: list[int]) -> Any:
        log.append(x.shape[0])
        y = x.sum(1)
        x.t().add_(1)
        return y

    def g(x: Any) -> Any:
        x[:, 0] += 1
        return x * 2

    for fn, arguments in ((f, ([1],)), (g, ())):
        calls = [(torch.randn(a, 1).expand(a, 3), *arguments) for a in (4, 5, 6)]
        check_calls(fn, *calls, backend="aot_eager", dynamic=dynamic)
