"""Sources in guards: numbers to know equal ones by, and held objects that a guard must not keep alive."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace
from typing import Any

from .holding import Weak, hold
from .sources import Attr, Held, Item, Position, Source


class Numbers:
    """A number for each source: the same for equal ones, found without hashing a long chain again and again."""

    def __init__(self) -> None:
        self._by_id: dict[int, int] = {}
        self._by_content: dict[Hashable, int] = {}
        self._alive: list[Source] = []  # an id means something only while its object lives

    def __call__(self, source: Source) -> int:
        number = self._by_id.get(id(source))
        if number is None:
            content: Hashable = source
            if type(source) is Attr:
                content = self(source.base), source.name
            elif type(source) is Item:
                content = self(source.base), None, repr(source.key)
            elif type(source) is Position:
                content = self(source.base), source.index
            number = self._by_id[id(source)] = self._by_content.setdefault(content, len(self._by_content))
            self._alive.append(source)
        return number


@dataclass(frozen=True, slots=True, eq=False)
class WeaklyHeld(Source):
    """A `Held` source that does not keep its object alive; equal to another of the same object."""

    name: str
    weak: Weak

    def render(self, text: Callable[[Source], str]) -> str:
        return self.name

    __str__ = Source.__str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeaklyHeld) and other.weak.get() is self.weak.get() is not None

    def __hash__(self) -> int:
        return hash((WeaklyHeld, self.name))


Weakened = dict[int, tuple[Source, Source]]


def weakened(source: Source, known: Weakened | None = None) -> Source:
    """The same source, keeping nothing alive that does not live for ever anyway.

    known: what was found for others, by their identities, with the others.
    """
    if known is None:
        known = {}
    found = known.get(id(source))
    if found is None:
        found = known[id(source)] = source, _weakened(source, known)
    return found[1]


def _weakened(source: Source, known: Weakened) -> Source:
    if type(source) is Held:
        kept = hold(source.value)
        return WeaklyHeld(source.name, kept) if type(kept) is Weak else source
    if all(weakened(base, known) is base for base in source.bases()):
        return source
    changed: dict[str, Any] = {}
    for part in fields(source):  # type: ignore[arg-type]
        value = getattr(source, part.name)
        if isinstance(value, Source):
            changed[part.name] = weakened(value, known)
        elif type(value) is tuple:
            changed[part.name] = tuple(weakened(item, known) if isinstance(item, Source) else item for item in value)
    return replace(source, **changed)  # type: ignore[type-var]
