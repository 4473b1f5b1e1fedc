"""What discovery watched and what it decided, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FoundFunction:
    """A function that started with tensors in hand, or that was given up.

    chosen: was it opted in?  why: in words.
    """

    module: str
    function: str
    filename: str
    line: int
    chosen: bool
    why: str

    def __str__(self) -> str:
        return f"{self.module}.{self.function} ({self.filename}:{self.line}): {self.why}"


@dataclass(frozen=True)
class Discovered:
    """modules: whose functions are watched.  watching: how many code objects still are.

    chosen: functions that were opted in; others: those that started with tensors in hand and were not, each with why.
    idle: how many are no longer watched since they never had a tensor in hand.
    missing: modules that were named and are not imported; perhaps they will be.
    """

    modules: tuple[str, ...] = ()
    watching: int = 0
    chosen: tuple[FoundFunction, ...] = ()
    others: tuple[FoundFunction, ...] = ()
    idle: int = 0
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"discovered: {len(self.chosen)} opted in, {len(self.others)} with tensors in hand and not, "
            f"{self.watching} still watched, {self.idle} given up as they never had one; modules: {len(self.modules)}"
        ]
        lines += [f"  not imported (yet): {name}" for name in self.missing]
        lines += [f"  opted in   {found}" for found in self.chosen]
        lines += [f"  not        {found}" for found in self.others]
        return "\n".join(lines)
