"""Programs compiled end to end with the eager backend, each compared with plain Python over several calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.support import CountingBackend, check, check_calls, compilations, compile_with

x = torch.arange(6.0).reshape(2, 3)
y = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)
SCALE = 2.5
COUNTER = 0
TABLE: dict[str, Any] = {"a": 1}


def one_graph(fn: Callable[..., Any], *args: Any) -> None:
    """As plain Python, compiled once, and the second call hits."""
    check(fn, *args)
    assert compilations(fn, args, args) == 1


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Config:
    width: int = 3
    names: list[str] = field(default_factory=list)


class Account:
    rate = 0.5

    def __init__(self, balance: Any) -> None:
        self.balance = balance
        self.calls = 0

    @property
    def doubled(self) -> Any:
        return self.balance * 2

    @staticmethod
    def fee(amount: Any) -> Any:
        return amount * 0.1

    @classmethod
    def at_rate(cls, amount: Any) -> Any:
        return amount * cls.rate

    def deposit(self, amount: Any) -> Account:
        self.balance = self.balance + amount
        self.calls += 1
        return self


class Savings(Account):
    def deposit(self, amount: Any) -> Account:
        super().deposit(self.at_rate(amount))
        return self


# straight lines -----------------------------------------------------------------------------------------------------
def test_arithmetic() -> None:
    def fn(a: Any, b: Any) -> Any:
        return (a + b) * 2 - a / 3 + 1 - (-b) ** 2 % 4

    one_graph(fn, x, y)


def test_methods_and_functions() -> None:
    def fn(a: Any, b: Any) -> Any:
        return torch.relu(a).sum(dim=1) + F.softmax(b, dim=-1).amax(1) * a.size(0) + math.sqrt(4)

    one_graph(fn, x, y)


def test_shapes_drive_python() -> None:
    def fn(a: Any) -> Any:
        rows, cols = a.shape
        if rows < cols and a.dtype == torch.float32 and a.device.type == "cpu":
            a = a.reshape(cols, rows)
        return a.view(-1)[: rows + 1], a.dim(), a.shape[0], len(a)

    one_graph(fn, x)


def test_indexing_and_assignment() -> None:
    def fn(a: Any) -> Any:
        b = a.clone()
        b[0, 1:] = 7
        b[1] += 1
        return b[:, 0], b[None, ..., -1], b[[0, 1], [1, 2]]

    one_graph(fn, x)


def test_in_place_on_an_input() -> None:
    def fn(a: Any) -> Any:
        a.add_(1)
        a[0] = 0
        return a

    one_graph(fn, x.clone())


def test_constructors_and_random() -> None:
    def fn(a: Any) -> Any:
        made = torch.ones(2, 3) + torch.arange(3) + torch.tensor([1.0, 2.0, 3.0])
        return a + made + torch.rand(3) + torch.randn_like(a)

    one_graph(fn, x)


def test_tensor_comparison_and_where() -> None:
    def fn(a: Any, b: Any) -> Any:
        return torch.where(a > b, a, b), (a == b).any(), ~(a != b), 1 - a, 2 / (a + 1), a > 3, 3 < a  # noqa: SIM300

    one_graph(fn, x, y)


# Python values ------------------------------------------------------------------------------------------------------
def test_containers() -> None:
    def fn(a: Any, n: int) -> Any:
        items = [a * i for i in range(n)]
        table = {f"k{i}": item for i, item in enumerate(items)}
        first, *rest = items
        table["sum"] = sum(items)
        pairs = list(zip(items, rest, strict=False))
        return first, rest, table, pairs, {1, 2} | {n}, (n,) * 2, items[::-1]

    check(fn, x, 3)


def test_comprehensions_conditions_and_unpacking() -> None:
    def fn(a: Any, sizes: list[int]) -> Any:
        total = a
        for i, size in enumerate(sizes):
            if size % 2:
                continue
            if size > 100:
                break
            total = total + size * i
        else:
            total = total - 1
        (p, q), r = (total, a), [s * 2 for s in sizes if s > 1]
        return p - q, r, any(s == 2 for s in sizes), max(sizes), sorted(sizes, reverse=True)

    check(fn, x, [3, 2, 4])


def test_strings_and_formats() -> None:
    def fn(a: Any, name: str) -> Any:
        key = f"{name.upper():>5}-{a.shape[0]:03d}" + "!" * 2
        return {key: a + len(key)}, name in "abc", key.split("-")

    check(fn, x, "ab")


def test_while_and_try() -> None:
    def fn(a: Any, n: int) -> Any:
        tries = []
        while n > 0:
            try:
                if n == 2:
                    raise ValueError("two", n)
                a = a + n
            except ValueError as error:
                tries.append(error.args)
            finally:
                n -= 1
        return a, tries

    check(fn, x, 4)


def test_with_no_grad_and_user_manager() -> None:
    class Manager:
        def __init__(self) -> None:
            self.log: list[str] = []

        def __enter__(self) -> Any:
            self.log.append("enter")
            return self

        def __exit__(self, *exc: Any) -> bool:
            self.log.append("exit")
            return True

    def fn(a: Any) -> Any:
        with torch.no_grad():
            b = a * 2
        with Manager() as manager:
            c = a * 3
            raise KeyError("swallowed")
        return b, b.requires_grad, c.requires_grad, manager.log

    check(fn, x.clone().requires_grad_())


def test_closures_and_nonlocal() -> None:
    def fn(a: Any) -> Any:
        count = 0

        def add(b: Any, *more: Any, scale: float = 2.0, **named: Any) -> Any:
            nonlocal count
            count += 1 + len(more) + len(named)
            return a + b * scale

        first = add(1)
        second = add(2, 3, scale=0.5, extra=4)
        return first, second, count, (lambda q: q + count)(a)

    check(fn, x)


def test_generators_inside() -> None:
    def fn(a: Any) -> Any:
        def produce(n: int) -> Any:
            for i in range(n):
                got = yield a + i
                assert got is None
            yield from [a, a * 2]
            return 5

        return list(produce(2)), sum(v.sum() for v in produce(1)), list(map(lambda z: z + 1, produce(1)))  # noqa: C417

    check(fn, x)


def test_functools_and_objects() -> None:
    def fn(a: Any) -> Any:
        double = functools.partial(torch.mul, 2)
        pair = Pair(double(a), second=a)
        config = Config(4)
        config.names.append("n")
        return pair, pair.first + pair[1], config.width, config.names, functools.reduce(lambda p, q: p + q, [a, a, a])

    check(fn, x)


def test_objects_made_inside_and_returned() -> None:
    def fn(a: Any) -> Any:
        account = Savings(a)
        account.deposit(a).deposit(1)
        return account.balance, account.calls, account.doubled, Account.fee(a), isinstance(account, Account)

    check(fn, x)


# effects ------------------------------------------------------------------------------------------------------------
def test_attributes_of_an_argument() -> None:
    def fn(account: Account, a: Any) -> Any:
        account.deposit(a)
        return account.balance + a, account.calls

    check(fn, Account(x), y)


def test_lists_and_dicts_of_an_argument() -> None:
    def fn(out: list[Any], table: dict[str, Any], a: Any) -> Any:
        out.append(a + 1)
        out.append(len(table))
        table["new"] = a * 2
        table.pop("old", None)
        out[0] = "changed"
        return out

    check(fn, [1, 2], {"old": 3, "kept": 4}, x)


def test_append_does_not_recompile() -> None:
    def fn(out: list[Any], a: Any) -> Any:
        out.append(a + 1)

    out: list[Any] = []
    assert compilations(fn, (out, x), (out, x), (out, x)) == 1


def test_counter_does_not_recompile() -> None:
    def fn(account: Account, a: Any) -> Any:
        account.calls += 1
        if account.calls % 100 == 0:
            return a
        return a + 1

    account = Account(x)
    assert compilations(fn, (account, x), (account, x), (account, x)) == 1


def test_globals() -> None:
    def fn(a: Any) -> Any:
        global COUNTER
        COUNTER += 1
        TABLE["last"] = COUNTER
        return a * SCALE + COUNTER

    check(fn, x)


def test_aliases_stay_aliases() -> None:
    def fn(a: Any) -> Any:
        inner = [a + 1]
        inner.append(inner)
        return inner, inner, {"again": inner}

    check(fn, x)


# breaks -------------------------------------------------------------------------------------------------------------
def test_print_in_the_middle() -> None:
    def fn(a: Any) -> Any:
        b = a * 2
        print("sum is", b.shape)
        return b + 1

    check(fn, x, calls=4)


def test_branch_on_a_tensor() -> None:
    def fn(a: Any) -> Any:
        b = a * 2
        if b.sum() > 0:
            c = b + 1
        else:
            c = b - 1
        return c * 3

    check(fn, x, calls=4)
    check(fn, -x, calls=4)


def test_item_and_call_arguments() -> None:
    def fn(a: Any) -> Any:
        return torch.add(a * 2, a.sum().item(), alpha=2) + max(a.tolist()[0])

    check(fn, x, calls=4)


def test_break_inside_of_loop_try_with() -> None:
    def fn(a: Any) -> Any:
        total = a
        for i in range(3):
            try:
                with torch.no_grad():
                    total = total + i
                    print("i", i)
                    total = total * 2
                if i == 1:
                    raise KeyError(i)
            except KeyError as error:
                print("caught", error)
                total = total - 1
            finally:
                total = total + 0.5
        return total

    check(fn, x, calls=5)


def test_generator_function_runs() -> None:
    def fn(a: Any) -> Any:
        def numbers() -> Any:
            b = a * 2
            yield b
            print("between")
            yield b + 1

        return list(numbers())

    check(fn, x, calls=3)


def test_exception_leaves() -> None:
    def fn(a: Any, n: int) -> Any:
        b = a + 1
        if n > 2:
            raise ValueError(f"too big: {n}")
        return b @ torch.ones(7, 7)

    check(fn, x, 3)
    check(fn, x, 1)


def test_break_in_a_callee() -> None:
    def helper(a: Any) -> Any:
        b = a + 1
        print("in helper")
        return b * 2

    def fn(a: Any) -> Any:
        return helper(a * 3) - 1

    check(fn, x, calls=4)


# modules ------------------------------------------------------------------------------------------------------------
class Block(nn.Module):
    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.5)
        self.calls = 0

    def forward(self, a: Any) -> Any:
        self.calls += 1
        return a + self.drop(self.down(F.gelu(self.up(self.norm(a)))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.register_buffer("offset", torch.ones(4))

    def forward(self, a: Any, *, flag: bool = True) -> Any:
        for block in self.blocks:
            a = block(a)
        a = self.head(a)
        return {"out": a + self.offset, "mean": a.mean()} if flag else a


@pytest.mark.parametrize("training", [True, False])
def test_module(training: bool) -> None:
    torch.manual_seed(0)
    net = Net().train(training)
    check(net, x, calls=3)
    check(net, x.clone().requires_grad_(), calls=2, backward=True)


def test_module_as_an_argument_is_one_graph() -> None:
    def fn(net: Any, a: Any) -> Any:
        return net(a, flag=False)

    counting = CountingBackend()
    net = Net().eval()
    assert compilations(fn, (net, x), (net, x)) == 1
    assert counting.frame_count == 0


def test_module_with_hooks() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    net[0].register_forward_hook(lambda module, args, output: output * 2)
    net[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    check(net, x, calls=3)


def test_fullgraph_lets_the_programs_own_errors_through() -> None:
    def fn(a: Any, n: int) -> Any:
        if n > 1:
            raise ValueError("too many")
        return a @ torch.ones(7, 7)

    compiled = compile_with(fn, backend="eager", fullgraph=True)
    with pytest.raises(ValueError, match="too many"):
        compiled(x, 2)
    with pytest.raises(RuntimeError, match="shape"):
        compiled(x, 1)


def test_attributes_that_tensors_lack() -> None:
    def fn(a: Any) -> Any:
        return getattr(a, "mark", 1) + hasattr(a + 1, "mark"), a + getattr(a, "mark", 2)

    marked = x.clone()
    marked.mark = 5  # type: ignore[attr-defined]
    check_calls(fn, (x,), (marked,), (x,))


def test_text_of_a_counter_does_not_recompile() -> None:
    def fn(account: Account, log: list[str], a: Any) -> Any:
        account.calls += 1
        log.append(f"call {account.calls}: {a.shape[0]}")
        return a + 1

    account, log = Account(x), []
    assert compilations(fn, (account, log, x), (account, log, x), (account, log, x)) == 1
    assert log == ["call 1: 2", "call 2: 2", "call 3: 2"]
