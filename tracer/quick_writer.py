"""The conditions of a region while its model is watched (`watching.py`): what `watched_guards.py` covers is left out.

They are written beside the full ones, and what stands behind both, the region's body, reads the same temporaries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .dict_events import AVAILABLE
from .guard_writer import Condition, Writer
from .guards import Guard, Kind
from .holding import Parts, held, is_a
from .sources import Source
from .watched_guards import Watchable
from .watching import unchanged

#: Fewer guards than this are asked as quickly; where no tensors of the model are, each of which is more to fetch, so
#: many conditions have to be saved.
_WORTH_IT, _CONDITIONS = 4, 16


class QuickWriter(Writer):
    """full: the writer of the full conditions, done with them; `watchable` covers some of its guards."""

    def __init__(
        self,
        full: Writer,
        first: Writer,
        kinds: Mapping[Kind, Callable[[Writer, Source, Any], None]],
        watchable: Watchable,
        inputs: Sequence[Source],
        taken: Sequence[str],
    ) -> None:
        super().__init__(full.guards, full.constants, kinds, full.original_code, full.native, first, inputs, taken)
        self.checks = full.checks
        self._full = full
        self._taken |= full.temporaries()
        self._watchable = watchable
        self._watched = self._temporary_named("watched")
        self.watch_name = self.root_name = ""
        #: sources of the tensors that are taken from what is known of the model, in order
        self.known_tensors: list[Source] = []
        self._places: dict[int, int] = {}

    def write_quick(self, hits: list[int]) -> bool:
        """False where the full conditions have to be asked every time."""
        if len(self._watchable.covered) < _WORTH_IT:
            return False
        self.watch_name = self.constants.reserve("k_watch", None)
        self.write_all()
        self._bind_inputs()
        if not self._binds_what_is_read():
            return False
        if self._full.bound_tuple() is None and len(self._full.conditions) - len(self.conditions) < _CONDITIONS:
            return False
        self.watch = self._watchable.make_watch(self.known_tensors, hits)
        self.constants.values[self.watch_name] = self.watch
        return True

    def _binds_what_is_read(self) -> bool:
        """Does the region's body find its inputs, whichever conditions were asked?"""
        wanted, numbers = self._full.arguments(), self.bound()
        full = self._full.bound()
        read = {self.number(source) for source in self._read()}
        return self.arguments() == wanted and all(numbers.get(n) == full[n] for n in read if n in full)

    def _bind_inputs(self) -> None:
        """Temporaries that the body reads, and that only conditions bind which are left out here."""
        self._current = ()
        for source in self._read():
            number = self.number(source)
            if number in self._full.bound() and number not in self._bound:
                self.add(f"[{self.text(source)}]")  # true, whatever it is

    def _read(self) -> list[Source]:
        """The inputs that are not in the tuple, and what they are fetched from, that first."""
        found: list[Source] = []

        def visit(source: Source) -> None:
            if self._tuple is None or self.number(source) not in self._tuple[1]:
                for base in source.bases():
                    visit(base)
                found.append(source)

        for source in self._input_sources:
            visit(source)
        return found

    def before_fetching(self) -> None:
        root = self._watchable.root
        assert root is not None
        covered = tuple(guard for guard in self.guards if id(guard) in self._watchable.covered)
        self.root_name = self.text(root)
        found = f"({self._watched} := {self.watch_name}.watched())"
        check = f"{self.constant(unchanged, 'unchanged')}({self._watched}, {self.root_name})"
        self.conditions.append(Condition(f"{found} is not None and {check}", covered))

    # what the full writer does, where nothing is covered --------------------------------------------------------------
    def write(self, guard: Guard) -> None:
        if guard.kind is Kind.STATE:
            self.conditions += [c for c in self._full.conditions if guard in c.guards and c not in self.conditions]
        elif id(guard) not in self._watchable.covered and not self._covers_attribute(guard):
            super().write(guard)

    def _covers_attribute(self, guard: Guard) -> bool:
        """A class attribute, found in dicts that are watched. What makes up a property may be changed in it."""
        if guard.kind is not Kind.TYPE_ATTR or is_a(guard.expected.raw, Parts):
            return False
        return self._watchable.covers_class(held(guard.expected.cls))

    def text(self, source: Source) -> str:
        place = self._places.get(self.number(source))
        return super().text(source) if place is None else f"{self._watched}.tensors[{place}]"

    def same_tensor(self, source: Source, earlier: Source) -> None:
        if not (self._watchable.is_tensor(source) and self._watchable.is_tensor(earlier)):
            super().same_tensor(source, earlier)

    def tuple_of(self, sources: Sequence[Source]) -> str:
        known = [source for source in sources if self._watchable.is_tensor(source)]
        start = len(self.known_tensors)
        for source in known:
            self._places[self.number(source)] = len(self.known_tensors)
            self.known_tensors.append(source)
        at = sources.index(known[0]) if known else 0
        together = all(a is b for a, b in zip(known, sources[at : at + len(known)], strict=True))
        if start or not known or not together:
            return super().tuple_of(sources)
        if len(known) == len(sources):
            return f"{self._watched}.tensors"
        before, after = sources[:at], sources[at + len(known) :]
        parts = [*map(self.text, before), f"*{self._watched}.tensors", *map(self.text, after)]
        return f"({', '.join(parts)})"

    def _name_of(self, number: int) -> str:
        return self._full.bound().get(number) or super()._name_of(number)

    def _name_of_tuple(self) -> str:
        return self._full.bound_tuple() or super()._name_of_tuple()

    def _temporary_named(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def write_quick(
    full: Writer,
    first: Writer,
    kinds: Mapping[Kind, Callable[[Writer, Source, Any], None]],
    inputs: Sequence[Source],
    taken: Sequence[str],
    hits: list[int],
    written: Sequence[Source],
) -> QuickWriter | None:
    """The conditions while a model is watched; None where there is no model, or nothing to be won."""
    if not AVAILABLE:
        return None
    watchable = Watchable(full.guards, full.number, written)
    if watchable.root is None:
        return None
    writer = QuickWriter(full, first, kinds, watchable, inputs, taken)
    return writer if writer.write_quick(hits) else None
