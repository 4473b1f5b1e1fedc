"""Program text under construction: the choices, and which names are bound to what kind of value.

Kinds: `t2`, `t1`, `t0` are floating-point tensors of shape (rows, 4), (4,) and (), which broadcast; `int`, `float`,
`str`, `bool`; `list` and `ints` (of t2, of int), `dict` and `counts` (from str to t2, to int), `pair` (of t2), `box`,
`point` and `module` (classes of the prelude), `fn` (a callable from t2 to t2).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
TENSORS = ("t2", "t1", "t0")


class Choices:
    """All of a program's choices, from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def choose(self, options: list[T] | tuple[T, ...]) -> T:
        return self._random.choice(options)

    def chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent


@dataclass
class Function:
    """One function being written: its text, and what must be declared at its head."""

    name: str
    lines: list[str] = field(default_factory=list)
    globals_written: set[str] = field(default_factory=set)
    nonlocals_written: set[str] = field(default_factory=set)
    #: "generator" or "coroutine" where it may yield or await
    suspends: str = ""


@dataclass
class Budget:
    """What all scopes of a program share."""

    #: statements that may still be written
    left: int
    #: families of statements that this program does without (see statements.py)
    without: frozenset[str]
    #: may it read a tensor's value, or print?
    breaks: bool
    #: the blocks to choose from: what writes one, its family, and the indentation up to which it may stand
    blocks: list[tuple[Callable[[Scope], None], str, int]]
    names: int = 0


@dataclass
class Scope:
    """Where the next statement goes. A block gets a scope of its own: names that it binds end with it."""

    choices: Choices
    function: Function
    kinds: dict[str, str]
    budget: Budget
    indent: int = 1
    in_loop: bool = False
    #: names that must not be rebound: loop counters, and names of enclosing functions
    fixed: frozenset[str] = frozenset()
    #: names bound in a block that may or may not have run
    doubtful: list[str] = field(default_factory=list)

    def line(self, text: str) -> None:
        self.function.lines.append("    " * self.indent + text)

    def block(
        self, bound: dict[str, str] | None = None, *, loop: bool = False, fixed: frozenset[str] = frozenset()
    ) -> Scope:
        return Scope(self.choices, self.function, {**self.kinds, **(bound or {})}, self.budget, self.indent + 1,
                     self.in_loop or loop, self.fixed | fixed, self.doubtful)

    def names(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.kinds.items() if kind in kinds]

    def fresh(self, prefix: str = "v") -> str:
        self.budget.names += 1
        return f"{prefix}{self.budget.names}"

    def bind(self, kind: str) -> str:
        """A name to assign to: a new one, or one of the same kind."""
        old = [name for name in self.names(kind) if name not in self.fixed]
        if old and self.choices.chance(50):
            return self.choices.choose(old)
        name = self.fresh()
        return name

    def bound(self, name: str, kind: str) -> None:
        self.kinds[name] = kind
