"""What a program of the table in dynamic.py is, and how one is registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])
Inputs = Callable[[int], tuple[Any, ...]]
#: Calls of each program.
CALLS = 12
#: What a size is at each of them: no two neighbours are the same, none is 0 or 1.
SIZES = (4, 8, 5, 7, 3, 16, 9, 2, 11, 6, 13, 10)


@dataclass(frozen=True)
class Program:
    """make: gives what is compiled, anew for each side, so that state is not shared.

    inputs: gives the arguments of call k.  fewer: the program itself changes a counter, loop variable or attribute, for
    which nothing need be compiled anew; else there must not be more compiles than torch.compile's.
    """

    name: str
    covers: str
    make: Callable[[], Any]
    inputs: Inputs
    fewer: bool


PROGRAMS: list[Program] = []


def program(covers: str, inputs: Inputs, *, fewer: bool = False) -> Callable[[F], F]:
    """Register a function."""

    def register(function: F) -> F:
        PROGRAMS.append(Program(_name(function), covers, lambda: function, inputs, fewer))
        return function

    return register


def made(covers: str, inputs: Inputs, *, fewer: bool = False) -> Callable[[F], F]:
    """Register what makes the function or module, with its state."""

    def register(make: F) -> F:
        PROGRAMS.append(Program(_name(make), covers, make, inputs, fewer))
        return make

    return register


def _name(function: Callable[..., Any]) -> str:
    return function.__name__.replace("_", " ")


def size(k: int, shift: int = 0) -> int:
    return SIZES[(k + shift) % len(SIZES)]


class Driven:
    """What is compiled, and what a call of the program does with it."""

    def __init__(self, function: Any, drive: Callable[..., Any]) -> None:
        self.function, self.drive = function, drive


#: What a program noted, of one side.
NOTED: list[float] = []


@torch.compiler.disable
def note(number: float) -> None:
    """A break, for torchgraft and for torch.compile."""
    NOTED.append(number)
