"""Batches that are filled up: only where a proof says that rows keep apart, and never with another result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tracer
from tests.tracer import replaying
from tests.tracer.replaying import Tensor, notes
from tracer.backends import toolchain

W = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    tracer.install()
    tracer.reset()
    with torch.no_grad():
        yield
    tracer.uninstall()


def bucketed(fn: Any, **more: Any) -> Any:
    chosen = replaying.options(replay_sizes=[8, 4, 16], **more)
    return tracer.compile(fn, backend="cudagraph", options=chosen, inplace=False)


#: a function of x: (batch, 3, 6)
APART: dict[str, Callable[[Tensor], Any]] = {
    "pointwise": lambda x: (x * 2 + 1).relu() - x.sigmoid() / 3,
    "broadcast": lambda x: x + W[0] + W[None, :3],
    "linear": lambda x: F.linear(F.gelu(F.linear(x, W)), W, W[0]),
    "matmul": lambda x: x @ W,
    "rows by rows": lambda x: torch.bmm(x, x.transpose(1, 2)),
    "softmax": lambda x: torch.softmax(x, dim=-1),
    "reductions": lambda x: (x.sum(1), x.mean(dim=(1, 2)), x.max(2)[0], x.argmax(-1), x.amax(1, keepdim=True)),
    "layer norm": lambda x: F.layer_norm(x, (6,)),
    "reshape": lambda x: ((x := x + 1).view(x.shape[0], 18), x.flatten(1), x.reshape(x.size(0), 2, -1)),
    "dimensions": lambda x: ((x := x + 1).transpose(1, 2), x.unsqueeze(1), x.unsqueeze(-1), x[:, 1],
                             x[:, :, ::2], x.permute(0, 2, 1)),
    "cat and split": lambda x: torch.cat([*x.split(2, dim=2)], dim=1) + 1,
    "attention": lambda x: F.scaled_dot_product_attention(x, x * 2, x + 1),
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, False) * 2,
    "also what has no batch": lambda x: (x * W.sum(), W + 1),
}
#: rows meet, or it cannot be seen that they do not
MEET: dict[str, Callable[[Tensor], Any]] = {
    "sum over the batch": lambda x: x - x.sum(0),
    "sum of all": lambda x: x / x.sum(),
    "softmax over the batch": lambda x: torch.softmax(x, dim=0),
    "negative dimension": lambda x: x.softmax(-3),
    "mean by the size": lambda x: x * x.shape[0],
    "sorted": lambda x: x.sort(0)[0],
    "cumulated": lambda x: x.cumsum(0),
    "rolled": lambda x: x.roll(1, 0),
    "flipped": lambda x: x.flip(0),
    "first row": lambda x: x - x[0],
    "last row": lambda x: x - x[-1:],
    "rows into columns": lambda x: x.reshape(-1, 6),
    "transposed": lambda x: x.transpose(0, 1),
    "batch norm in training": lambda x: F.batch_norm(x, None, None, training=True),
    "layer norm over the batch": lambda x: F.layer_norm(x.transpose(0, 2), (3, x.shape[0])),
    "weights of the batch": lambda x: F.linear(x[:, 0], x[:, 1]),
    "outer": lambda x: x[:, 0] @ x[:, 1].t(),
    "stacked rows": lambda x: torch.cat([x, x], dim=0),
    "ones of the batch": lambda x: torch.ones(x.shape[0], 2),
    "random": lambda x: x + torch.rand_like(x),
    "a view of an input": lambda x: (x[:, 1:], x * 2),
    "writing": lambda x: x.mul_(2) + 1,
    "an argument by its name": lambda x: F.layer_norm(x, normalized_shape=(6,)),
    "all arguments by their names": lambda x: torch.cat(tensors=[x, x], dim=1),
    "division of whole numbers": lambda x: x.int().div(x.sign().int() * 2 + 1, rounding_mode="trunc"),
    "no rule": lambda x: torch.linalg.vector_norm(x, dim=2),
}


def agree(fn: Any, plain: Callable[[Tensor], Any]) -> None:
    for n, rows in enumerate((5, 3, 7, 2, 4, 6, 15, 17, 5, 3, 7)):
        x = torch.randn(rows, 3, 6, generator=torch.Generator().manual_seed(n))
        other = x.clone()
        torch.manual_seed(n)
        found = fn(x)
        torch.manual_seed(n)
        expected = plain(other)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(x, other)
        for one, two in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
            assert one.stride() == two.stride() or not one.is_contiguous()


@pytest.mark.parametrize("name", APART)
def test_rows_that_keep_apart_are_filled_up(name: str) -> None:
    program = APART[name]
    fn = bucketed(program)
    agree(fn, program)
    assert "filled up to 4, 8, 16" in notes(fn), notes(fn)
    assert replaying.counted("recordings") <= 8 and replaying.counted("replays") >= 3


@pytest.mark.parametrize("name", MEET)
def test_rows_that_meet_are_not(name: str) -> None:
    program = MEET[name]
    fn = bucketed(program)
    agree(fn, program)
    assert "filled up" not in notes(fn)
    assert "no padding, " in notes(fn), notes(fn)


def base(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows))


LAYOUTS: dict[str, tuple[Callable[[int], Tensor], bool]] = {
    "every second column": (lambda rows: base(rows, 12)[:, ::2], True),
    "every second row": (lambda rows: base(2 * rows, 6)[::2], True),
    "an offset": (lambda rows: base(rows + 2, 6)[2:], True),
    "one column six times": (lambda rows: base(rows, 1).expand(rows, 6), True),
    "transposed": (lambda rows: base(6, rows).t(), False),
    "one row many times": (lambda rows: base(1, 6).expand(rows, 6), False),
}


@pytest.mark.parametrize(("inner", "name"), [*(("eager", name) for name in LAYOUTS), ("inductor", "every second row")])
def test_layouts_of_inputs(inner: str, name: str) -> None:
    """Kernels are compiled for an input's strides: so is the one that is filled up."""
    if inner == "inductor" and toolchain.missing_for_inductor() is not None:
        pytest.skip("nothing to compile with")
    (make, filled_up), calls = LAYOUTS[name], (5, 3, 7, 6, 4, 6)

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        return (x * 2 + 1).relu(), (x * 3).sum(-1)

    fn = bucketed(program, inner=inner)
    for x in map(make, calls):
        found, expected = fn(x), program(x)
        torch.testing.assert_close(found, expected)
        assert [one.stride() for one in found] == [one.stride() for one in expected]
    assert ("filled up to 4, 8" in notes(fn)) == filled_up, notes(fn)


def test_rows_that_overlap() -> None:
    fn = bucketed(lambda x: x * 2 + 1)
    for rows in (5, 3, 7, 6):
        x = base(1, rows + 6)[0].unfold(0, 6, 1)[:rows]
        torch.testing.assert_close(fn(x), x * 2 + 1)
    assert "an input overlaps itself" in notes(fn)


def test_results_are_no_views_of_a_filled_up_batch() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        return y, y[:, 1:]

    fn = bucketed(program)
    for rows in (5, 3, 7, 3, 6, 7):
        x = torch.randn(rows, 6)
        first, second = fn(x)
        assert not first._is_view() and second._is_view()
        first.detach_().mul_(2)  # refused of a view
        torch.testing.assert_close((first, second), ((x + 1) * 2, (x[:, 1:] + 1) * 2))
        assert first._version == second._version
    assert "filled up to 4, 8" in notes(fn)


def test_a_number_that_is_no_size() -> None:
    """It may have the batch's symbol, and is not filled up."""

    def program(x: Tensor, count: int) -> Tensor:
        return x[:count] * 2

    fn = tracer.compile(program, backend="cudagraph", options=replaying.options(replay_sizes=[8]), dynamic=True,
                        inplace=False)  # fmt: skip
    x = torch.randn(20, 3)
    for count in (3, 4, 5, 6, 7, 3, 4):
        torch.testing.assert_close(fn(x, count), x[:count] * 2)


def test_padding_has_no_say_in_a_model() -> None:
    """What lies in the rows behind is that of an earlier call, or zeros."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 6), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2)).eval()
    plain = tracer.original(model)
    tracer.compile(model, backend="cudagraph", options=replaying.options(replay_sizes=[4, 8]))
    held = []
    for rows in (8, 3, 5, 2, 7, 3):
        indices = torch.randint(9, (rows, 4))
        held.append((model(indices), plain(indices)))
    for found, expected in held:
        torch.testing.assert_close(found, expected)
    assert "filled up to 4, 8" in notes(model)


def test_sizes_that_the_compile_ruled_out_are_not_used() -> None:
    def program(x: Tensor) -> Tensor:
        torch._check(x.shape[0] < 10)
        return x * 2

    fn = bucketed(program)
    for rows in (3, 5, 9, 3, 5, 9, 9):
        x = torch.randn(rows, 2)
        torch.testing.assert_close(fn(x), x * 2)
    assert "filled up to 4, 8\n" in notes(fn)


def test_torch_decides_by_the_size_of_a_batch() -> None:
    """It chooses a convolution's kernel by whether there are 16 rows: each region has the sizes on its side."""

    def program(x: Tensor) -> Tensor:
        return F.conv1d(x, W.view(4, 3, 3)) * 2

    fn = bucketed(program)
    agree(fn, program)
    assert "filled up to 4, 8\n" in notes(fn) and "filled up to 16\n" in notes(fn)


def test_two_sizes_that_change() -> None:
    fn = bucketed(lambda x, y: (x * 2, y + 1))
    for rows in (3, 5, 7):
        x, y = torch.randn(rows, 2), torch.randn(rows + 1, 2)
        torch.testing.assert_close(fn(x, y), (x * 2, y + 1))
    assert "more than one size changes" in notes(fn)


def test_a_users_operator_of_a_known_name() -> None:
    def add(x: Tensor, y: Tensor) -> Tensor:
        return x + y.sum()

    library = torch.library.Library("replay_buckets", "DEF")
    library.define("add(Tensor x, Tensor y) -> Tensor")
    library.impl("add", add, "CompositeExplicitAutograd")
    library.impl("add", add, "Meta")
    fn = bucketed(lambda x: torch.ops.replay_buckets.add(x, x))
    for rows in (3, 5, 7, 3):
        x = torch.randn(rows, 2)
        torch.testing.assert_close(fn(x), x + x.sum())
    assert "not known to keep the rows" in notes(fn)
