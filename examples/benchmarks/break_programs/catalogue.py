"""What a program of the table is, and how one is registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])
#: The operators behind `.item()`, `float(tensor)` and the format of a tensor; behind `if tensor:`
ITEM, TRUTH = "aten::item", "aten::is_nonzero"


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@dataclass(frozen=True)
class Program:
    """A function with breaks, the inputs of its calls, and what may not be compiled in it.

    inputs: gives the arguments of call k.  state: made once for each side and given to `inputs` beside k.
    breaks: how often in an iteration a region must end: an opaque operation counts once, a call of something that
    breaks inside once when it is entered and once when it is left, as does the resumption of a generator.
    iterations: of call k.  around: what is compiled before and behind the iterations, in regions a call.
    itself: the tensor operators that are themselves the break, by their names in a trace.
    drive: makes a call, and uses up what it gives.
    """

    name: str
    covers: str
    function: Callable[..., Any]
    inputs: Callable[..., tuple[Any, ...]]
    breaks: int
    iterations: Callable[[int], int]
    around: int
    itself: frozenset[str]
    state: Callable[[], Any] | None
    drive: Callable[..., Any]


PROGRAMS: list[Program] = []


def program(
    covers: str,
    inputs: Callable[..., tuple[Any, ...]],
    *,
    breaks: int,
    iterations: int | Callable[[int], int] = 1,
    around: int | None = None,
    itself: tuple[str, ...] = (),
    state: Callable[[], Any] | None = None,
    drive: Callable[..., Any] = call,
) -> Callable[[F], F]:
    """Register a function. Without `around` a loop has two regions around it, and what is no loop has none."""
    if around is None:
        around = 0 if iterations == 1 else 2

    def count(k: int) -> int:
        return iterations if isinstance(iterations, int) else iterations(k)

    def register(function: F) -> F:
        name = function.__name__
        PROGRAMS.append(Program(name, covers, function, inputs, breaks, count, around, frozenset(itself), state, drive))
        return function

    return register


def length(k: int) -> int:
    """How many iterations call k has, where that changes: 2 to 5."""
    return 2 + k % 4


def matrix() -> Tensor:
    return torch.randn(64, 64)


def one(k: int) -> tuple[Any, ...]:
    return (matrix(),)


def two(k: int) -> tuple[Any, ...]:
    return matrix(), matrix() * 0.1


def several(k: int) -> tuple[Any, ...]:
    """Some matrices, more or fewer of them, and a weight."""
    return [matrix() for _ in range(length(k))], matrix() * 0.1
