"""Where a value came from: a small chain of objects that renders to the Python expression which fetches it again.

The load and the guard both follow from it, so the two cannot disagree. A source is plain text in waiting: it has one
rendering, because a region is Python source. Sources compare by structure, so the same place is the same source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


class Source:
    """A Python expression over what a slot was given, constants (`k_*`) and globals."""

    __slots__ = ()

    def bases(self) -> tuple[Source, ...]:
        """The sources this one is computed from."""
        return ()

    def render(self, text: Callable[[Source], str]) -> str:
        """This expression, with `text` giving that of each base (a temporary's name, where it was bound to one)."""
        raise NotImplementedError(type(self).__name__)

    def __str__(self) -> str:
        return self.render(str)


@dataclass(frozen=True, slots=True)
class Param(Source):
    """A parameter of the slot: a local, a cell or a stack slot of the user's frame.

    type: what it certainly is, without a check; None where nobody knows.
    """

    name: str
    type: type | None = field(default=None, repr=False)

    def render(self, text: Callable[[Source], str]) -> str:
        return self.name

    __str__ = Source.__str__


@dataclass(frozen=True, slots=True)
class Global(Source):
    """A global of the user's function and so of the slot. Builtins are `Held`: a module may shadow them."""

    name: str

    def render(self, text: Callable[[Source], str]) -> str:
        return self.name

    __str__ = Source.__str__


@dataclass(frozen=True, slots=True, eq=False)
class Held(Source):
    """A constant of the region, `k_*` in the text; the same object is the same source."""

    name: str
    value: object = field(repr=False)

    def render(self, text: Callable[[Source], str]) -> str:
        return self.name

    __str__ = Source.__str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and other.value is self.value

    def __hash__(self) -> int:
        return hash((Held, id(self.value)))


@dataclass(frozen=True, slots=True)
class Attr(Source):
    """`base.name`"""

    base: Source
    name: str

    def bases(self) -> tuple[Source, ...]:
        return (self.base,)

    def render(self, text: Callable[[Source], str]) -> str:
        return f"{text(self.base)}.{self.name}"

    __str__ = Source.__str__


@dataclass(frozen=True, slots=True)
class Item(Source):
    """`base[key]` for a key that reads back from its repr (int, str, bool, None, or a tuple of such)."""

    base: Source
    key: object

    def bases(self) -> tuple[Source, ...]:
        return (self.base,)

    def render(self, text: Callable[[Source], str]) -> str:
        return f"{text(self.base)}[{self.key!r}]"

    __str__ = Source.__str__

    def __eq__(self, other: object) -> bool:  # 1, 1.0 and True are equal keys but other texts
        return isinstance(other, Item) and repr(other.key) == repr(self.key) and other.base == self.base

    def __hash__(self) -> int:
        return hash((Item, self.base, repr(self.key)))


@dataclass(frozen=True, slots=True)
class Index(Source):
    """`base[key]` where the key is a source itself (a held object, another value)."""

    base: Source
    key: Source

    def bases(self) -> tuple[Source, ...]:
        return (self.base, self.key)

    def render(self, text: Callable[[Source], str]) -> str:
        return f"{text(self.base)}[{text(self.key)}]"

    __str__ = Source.__str__


@dataclass(frozen=True, slots=True)
class Position(Source):
    """One of a dict's values, by its place."""

    base: Source
    index: int

    def bases(self) -> tuple[Source, ...]:
        return (self.base,)

    def render(self, text: Callable[[Source], str]) -> str:
        return f"[*{text(self.base)}.values()][{self.index}]"

    __str__ = Source.__str__


@dataclass(frozen=True, slots=True)
class Operation(Source):
    """`left op right`, or `op right` where there is no left: pure arithmetic on plain numbers and strings."""

    op: str
    left: Source | None
    right: Source

    def bases(self) -> tuple[Source, ...]:
        return (self.right,) if self.left is None else (self.left, self.right)

    def render(self, text: Callable[[Source], str]) -> str:
        if self.left is None:
            return f"({self.op} {text(self.right)})"
        return f"({text(self.left)} {self.op} {text(self.right)})"

    __str__ = Source.__str__


@dataclass(frozen=True, slots=True)
class Literal(Source):
    """A number, string, bool or None written out."""

    value: object

    def render(self, text: Callable[[Source], str]) -> str:
        return repr(self.value)

    __str__ = Source.__str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and repr(other.value) == repr(self.value)

    def __hash__(self) -> int:
        return hash((Literal, repr(self.value)))


@dataclass(frozen=True, slots=True)
class Call(Source):
    """`function(*arguments)` of a held pure function (`k_type(x)`, `k_len(x)`, `k_getitem(x, 3)`)."""

    function: Source
    arguments: tuple[Source, ...]

    def bases(self) -> tuple[Source, ...]:
        return (self.function, *self.arguments)

    def render(self, text: Callable[[Source], str]) -> str:
        return f"{text(self.function)}({', '.join(text(a) for a in self.arguments)})"

    __str__ = Source.__str__


@dataclass(frozen=True, slots=True)
class Formula(Source):
    """An expression over numbers: `{0} <= {1} * 2`, with a place for each part."""

    template: str
    parts: tuple[Source, ...]

    def bases(self) -> tuple[Source, ...]:
        return self.parts

    def render(self, text: Callable[[Source], str]) -> str:
        return f"({self.template.format(*map(text, self.parts))})"

    __str__ = Source.__str__


def read_from(source: Source) -> set[Source]:
    """The source itself or, of an expression, what it is made of."""
    if not isinstance(source, (Operation, Call, Formula)):
        return set() if isinstance(source, (Held, Literal)) else {source}
    return {source}.union(*map(read_from, source.bases()))


def length_text(source: Source) -> str:
    """What stands for the length of a container among the texts of sources that change."""
    return f"len({source})"


def depth(source: Source) -> int:
    """How many steps lie between this source and what the slot was given."""
    return 1 + max((depth(base) for base in source.bases()), default=-1)
