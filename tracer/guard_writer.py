"""The order in which guards are written, and what they share: fetched sources, known types, tensors of one call.

How each kind of guard is written stands in `guard_kinds.py`.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .errors import InternalError
from .function_fields import defaults_field
from .guard_sources import Numbers, WeaklyHeld
from .guards import Guard, Kind
from .holding import Constants, Parts, Weak, held, hold, lives_for_ever, short_name
from .native import tensors_check
from .sources import Attr, Formula, Global, Held, Item, Literal, Operation, Param, Position, Source

#: Tensors of the slot's own arguments are checked before the others where there are more others than this.
_TOGETHER = 24
#: From so many tensors on it pays to make one tuple of them, for the check and for the graph.
_AS_TUPLE = 4
#: of a formula: a place for a part
_PLACE = re.compile(r"\{(\d+)\}")
#: of a formula: it may be known before all of its parts are looked at
_MAY_STOP_EARLY = re.compile(r" (?:and|or|if) |(?:[<>]=?|[=!]=)[^<>=!]*(?:[<>]=?|[=!]=)")


class Condition(NamedTuple):
    """One operand of the `and` at the head of a region, and the guards that it checks."""

    text: str
    guards: tuple[Guard, ...]


class Writer:
    """Writes the conditions of one region.

    first: the writer of the first pass, which only counts how often each source is used; None in that pass.
    """

    def __init__(
        self,
        guards: Sequence[Guard],
        constants: Constants,
        kinds: Mapping[Kind, Callable[[Writer, Source, Any], None]],
        original_code: Callable[[types.CodeType], types.CodeType] | None,
        native: bool,
        first: Writer | None,
        inputs: Sequence[Source] = (),
        taken: Iterable[str] = (),
    ) -> None:
        self.guards = guards
        self.constants = constants
        self.original_code = original_code
        self._kinds = kinds
        self.native = native
        self.conditions: list[Condition] = []
        self.number: Numbers = Numbers() if first is None else first.number
        self.count: dict[int, int] = {}
        self.names: set[str] = set()
        self.counting = first is None
        self._expected_count = {} if first is None else first.count
        self._taken = set(taken) if first is None else first.names.union(taken)
        self._bound: dict[int, str] = {}
        self._values: dict[int, tuple[str, dict[object, int]]] = {}
        self._by_source: dict[int, list[Guard]] = {}
        self._types: dict[int, Any] = {}
        self._written: set[int] = set()
        self._ready: set[int] = set()
        #: guards of tensors whose check was written
        self._seen_tensors: set[int] = set()
        self._checked: set[object] = set()
        self._tensor_source: dict[int, Source] = {}
        self._inputs = list(map(self.number, inputs))
        self._input_sources = inputs
        #: the name of a tuple of tensors, and whose they are
        self._tuple: tuple[str, list[int]] | None = None
        self._current: tuple[Guard, ...] = ()
        self._perhaps = 0
        #: names of checks of tensors, by the identities of their guards
        self.checks: dict[tuple[int, ...], str] = {}
        for guard in guards:
            number = self.number(guard.source)
            self._by_source.setdefault(number, []).append(guard)
            known = _known_type(guard)
            if known is not None:
                self._types[number] = known

    # sources ----------------------------------------------------------------------------------------------------------
    def text(self, source: Source) -> str:
        """A source as an expression; the first use of one that is used again binds it to a temporary."""
        kind = type(source)
        if kind is Param or kind is Global:
            return self._name(source.name)  # type: ignore[attr-defined]
        if kind is Literal:
            value = source.value  # type: ignore[attr-defined]
            return self.constants.add(value) if type(value) is float and not math.isfinite(value) else repr(value)
        if isinstance(source, Held) and lives_for_ever(source.value):
            return self.constants.add(source.value, source.name.removeprefix("k_"))
        number = self.number(source)
        used = self.count.get(number, 0)
        self.count[number] = used + 1
        if number in self._bound:
            return self._bound[number]
        if used and self.counting and not self._perhaps:
            return "_"
        text = self._expression(source)
        if self._perhaps or self._expected_count.get(number, 0) < 2:
            return text
        name = self._bound[number] = self._name_of(number)
        return f"({name} := {text})"

    def _name(self, name: str) -> str:
        if name.startswith("k_"):
            raise InternalError(f"{name} cannot be read: names with k_ are constants of the region")
        self.names.add(name)
        return name

    def _expression(self, source: Source) -> str:
        if isinstance(source, Held):
            return self.constants.text(source.value, source.name.removeprefix("k_"))
        if isinstance(source, WeaklyHeld):
            return self.constants.text(source.weak, source.name.removeprefix("k_"))
        if isinstance(source, (Item, Position)) and (at := self._place(source)) is not None:
            return at
        if isinstance(source, Operation) and source.op in ("and", "or") and source.left is not None:
            left = self.text(source.left)
            self._perhaps += 1  # what may not be evaluated must not be what binds a temporary
            right = self.text(source.right)
            self._perhaps -= 1
            return f"({left} {source.op} {right})"
        if isinstance(source, Formula):
            return self._formula(source)
        if type(source) is Attr and source.name == "__defaults__":
            function = self.function_that_lives_for_ever(source.base)
            if function is not None:
                field = self.constants.view(defaults_field(function), function, f"defaults_of_{short_name(function)}")
                # asked by a call: the truth of a constant is nothing that Python's compiler would leave to the region
                return f"({field}.value if {self.constant(bool)}({field}) else None)"
        return source.render(self.text)

    def _formula(self, source: Formula) -> str:
        """What binds a temporary must be evaluated before what reads it, and in any case."""
        stops_early = _MAY_STOP_EARLY.search(source.template) is not None
        seen = 0

        def part(place: re.Match[str]) -> str:
            nonlocal seen
            perhaps = stops_early and (seen > 0 or " if " in source.template)
            seen += 1
            self._perhaps += perhaps
            text = self.text(source.parts[int(place[1])])
            self._perhaps -= perhaps
            return text

        return f"({_PLACE.sub(part, source.template)})"

    def _place(self, source: Item | Position) -> str | None:
        """Where the item of a dict stands in a list of its values."""
        values = self._values.get(self.number(source.base))
        if values is None:
            return None
        name, places = values
        at = places.get(source.key) if isinstance(source, Item) else source.index
        return None if at is None else f"{name}[{at}]"

    def _temporary(self) -> str:
        number = len(self._bound) + len(self._values) + (self._tuple is not None)
        while (name := f"g{number}") in self._taken:
            number += 1
        self._taken.add(name)
        return name

    def bound(self) -> Mapping[int, str]:
        """The temporaries of sources, by their numbers."""
        return self._bound

    def bound_tuple(self) -> str | None:
        """The temporary that is the tuple of tensors."""
        return None if self._tuple is None else self._tuple[0]

    def temporaries(self) -> set[str]:
        lists = (name for name, _ in self._values.values())
        return {*self._bound.values(), *lists, *filter(None, [self.bound_tuple()])}

    def _name_of(self, number: int) -> str:
        """The name of a temporary for this source."""
        return self._temporary()

    def bind_values(self, source: Source, length: int, keys: Sequence[object] = ()) -> None:
        """From now on the items of this dict, which has just these keys, are taken from a list of its values."""
        items = [*(Item(source, key) for key in keys), *(Position(source, at) for at in range(length))]
        if length > 1 and any(map(self.is_guarded, items)):
            name = self._temporary()
            self.add(f"({name} := [*{self.text(source)}.values()])")
            self._values[self.number(source)] = name, {key: position for position, key in enumerate(keys)}

    def constant(self, value: Any, hint: str | None = None) -> str:
        return self.constants.add(value, hint)

    # order ------------------------------------------------------------------------------------------------------------
    def write_all(self) -> None:
        """Likely to fail and cheap first: arguments and globals, the global state, then what is fetched from them."""
        late = {Kind.TENSOR, Kind.SHAPE, Kind.NO_OVERLAP}
        later = {Kind.STATE, Kind.TYPE_ATTR, *late}
        for guard in self.guards:
            if guard.kind not in later and not guard.source.bases():
                self.write(guard)
        for guard in self.guards:  # a private copy's variable of an outer function, most often a module of some class
            if guard.kind is Kind.TYPE and is_cell_of_argument(guard.source):
                self.write(guard)
        self.before_fetching()
        for kind in (Kind.STATE, Kind.TYPE_ATTR):
            for guard in self.guards:
                if guard.kind is kind:
                    self.write(guard)
        own, others = self._tensor_groups()
        if own and len(others) > _TOGETHER:
            self._write_tensors(own)
            own = []
        for guard in self.guards:
            if guard.kind not in late:
                self.write(guard)
        self._write_tensors([*own, *others])
        for kind in (Kind.SHAPE, Kind.NO_OVERLAP):
            for guard in self.guards:
                if guard.kind is kind:
                    self.write(guard)

    def before_fetching(self) -> None:
        """What stands here holds for all that comes behind."""

    def write(self, guard: Guard) -> None:
        if id(guard) in self._written:
            return
        self._written.add(id(guard))
        outer, self._current = self._current, (guard,)
        self.ready_to_fetch(guard.source)
        if guard.kind not in _TELL_THE_TYPE:  # what they tell is taken for granted
            for other in self._by_source.get(self.number(guard.source), ()):
                if other.kind in _TELL_THE_TYPE:
                    self.write(other)
        self._kinds[guard.kind](self, guard.source, guard.expected)
        self._current = outer

    def ready_to_fetch(self, source: Source) -> None:
        """Write the guards of everything that this source is fetched from."""
        for base in source.bases():
            number = self.number(base)
            if number in self._ready:
                continue
            self._ready.add(number)
            self.ready_to_fetch(base)
            if isinstance(base, WeaklyHeld) or (isinstance(base, Held) and type(hold(base.value)) is Weak):
                self.add(f"{self.text(base)} is not None")
            for guard in self._by_source.get(number, ()):
                if guard.kind.row.before_fetch:
                    self.write(guard)
                elif guard.kind is Kind.TENSOR and id(guard) not in self._seen_tensors:
                    outer, self._current = self._current, (guard,)
                    self.require_type(base, guard.expected.type)
                    self._current = outer

    def add(self, text: str) -> None:
        """A condition of the guard that is being written."""
        self.conditions.append(Condition(text, self._current))

    def is_guarded(self, source: Source) -> bool:
        """Will some guard fetch this source?"""
        return self.number(source) in self._by_source

    def identity_of(self, source: Source) -> object:
        """The object that this certainly is, where that may be held; else None."""
        if isinstance(source, Held):
            return source.value
        known = [g.expected for g in self._by_source.get(self.number(source), ()) if g.kind is Kind.IS]
        return known[0] if known and type(known[0]) not in (Weak, Parts) else None

    def function_that_lives_for_ever(self, source: Source) -> types.FunctionType | None:
        """The Python function that this certainly is, if the region's text may hold it."""
        found = self.identity_of(source)
        return found if type(found) is types.FunctionType and lives_for_ever(found) else None

    def truth_is_guarded(self, source: Source) -> bool:
        """Does a guard say whether it is true? Then a bool needs no other."""
        truth = (Kind.TRUTHY, Kind.FALSY, Kind.EXPRESSION)
        return any(guard.kind in truth for guard in self._by_source.get(self.number(source), ()))

    def first_time(self, *key: object) -> bool:
        """Was nothing added under this key before?"""
        if key in self._checked:
            return False
        self._checked.add(key)
        return True

    # types ------------------------------------------------------------------------------------------------------------
    def require_type(self, source: Source, cls: Any) -> None:
        if type(source) is Param and source.type is not None and source.type is held(cls):
            return
        if not self.first_time("type", self.number(source)):
            return
        name = self.constants.text(held(cls))
        self.add(f"{self.constant(type)}({self.text(source)}) is {name}")

    def require_dict(self, source: Source) -> None:
        """An instance's `__dict__` is a plain dict. nn.Module itself looks into a module's, whatever that is."""
        owner = self.known_type(source.bases()[0])
        if owner is None or not issubclass(owner, torch.nn.Module):
            self.require_type(source, dict)

    def known_type(self, source: Source) -> type | None:
        """The source's exact type, where its guards say it."""
        if isinstance(source, Held):
            return type(source.value)
        return held(self._types.get(self.number(source)))

    def knows_type(self, source: Source, cls: type) -> bool:
        """Was it checked already that this is its type? From now on it is."""
        certain = type(source) is Param and source.type is cls
        return not self.first_time("type", self.number(source)) or certain

    def plain_type(self, source: Source, plain: frozenset[type], hint: str) -> type | None:
        """The source's exact type where its guards say it, else a condition that it is one of these."""
        known = self.known_type(source)
        if known is not None:
            return known
        if is_instance_dict(source):
            self.require_dict(source)
            return dict
        if self.first_time("one of", hint, self.number(source)):
            self.add(f"{self.constant(type)}({self.text(source)}) in {self.constant(plain, hint)}")
        return None

    # tensors ----------------------------------------------------------------------------------------------------------
    def _tensor_groups(self) -> tuple[list[Guard], list[Guard]]:
        """Guards of tensors among what the slot was given, and of those that must be fetched."""
        tensors = [g for g in self.guards if g.kind is Kind.TENSOR]
        own = [g for g in tensors if not g.source.bases()]
        return own, [g for g in tensors if g.source.bases()]

    def _write_tensors(self, guards: list[Guard]) -> None:
        """One call for many tensors; the same tensor at a second source must still be the same."""
        first: dict[int, Guard] = {}
        for guard in guards:
            if id(guard) in self._written:
                continue
            self._written.add(id(guard))
            self._current = (guard,)
            self.ready_to_fetch(guard.source)
            earlier = self._tensor_source.setdefault(id(guard.expected), guard.source)
            if earlier is guard.source:
                first[id(guard.expected)] = guard
                continue
            self.same_tensor(guard.source, earlier)
        if not first:
            return
        group = self._in_order_of_inputs(list(first.values()))
        name = self._check_of(group)
        self._current = tuple(group)
        self.add(f"{name}({self._bind_tensors([g.source for g in group])})")
        self._seen_tensors.update(map(id, group))
        for guard in group:
            if guard.expected.leaf is not None:
                self._current = (guard,)
                self.add(f"{self.text(guard.source)}.is_leaf is {guard.expected.leaf}")
        self._current = ()

    def _bind_tensors(self, sources: list[Source]) -> str:
        """The arguments of a check. Those which are inputs of the graph come first and are bound as one tuple.

        That is worth it where the graph's arguments are a few pieces of it.
        """
        inputs = [source for source in sources if self.number(source) in self._inputs]
        numbers = [self.number(source) for source in inputs]
        fetched = any(source.bases() for source in inputs)
        pieces = _pieces(self._inputs, numbers)
        if not fetched or pieces is None or len(inputs) < _AS_TUPLE * len(pieces):
            return _without_parentheses(self.tuple_of(sources))
        tensors, others = self.tuple_of(inputs), ", ".join(map(self.text, sources[len(inputs) :]))
        self._tuple = self._name_of_tuple(), numbers
        bound = f"*({self._tuple[0]} := {tensors})"
        return bound if len(inputs) == len(sources) else f"{bound}, {others}"

    def same_tensor(self, source: Source, earlier: Source) -> None:
        self.add(f"{self.text(source)} is {self.text(earlier)}")

    def tuple_of(self, sources: Sequence[Source]) -> str:
        return f"({', '.join(map(self.text, sources))}{',' if len(sources) == 1 else ''})"

    def _name_of_tuple(self) -> str:
        return self._temporary()

    def _check_of(self, group: Sequence[Guard]) -> str:
        """The name of the check of these tensors."""
        if self.counting:
            return self.constants.reserve("k_tensors", None)
        key = tuple(map(id, group))
        if key not in self.checks:
            check = tensors_check([g.expected for g in group], native=self.native, leaves=False)
            self.checks[key] = self.constants.reserve("k_tensors", check)
        return self.checks[key]

    def _in_order_of_inputs(self, group: list[Guard]) -> list[Guard]:
        place = {number: at for at, number in enumerate(self._inputs)}
        return sorted(group, key=lambda g: place.get(self.number(g.source), len(place)))

    def arguments(self) -> tuple[str, ...]:
        """The graph's inputs: one tuple goes to the check of the tensors and to the graph."""
        inputs, sources = self._inputs, self._input_sources
        if self._tuple is None:
            return tuple(map(self.text, sources))
        name, numbers = self._tuple
        pieces = _pieces(inputs, numbers)
        assert pieces is not None
        given: list[str] = []
        before = 0
        for at, start, length in pieces:
            given += map(self.text, sources[before:at])
            given.append(f"*{name}" if length == len(numbers) else f"*{name}[{start}:{start + length}]")
            before = at + length
        return (*given, *map(self.text, sources[before:]))


def _without_parentheses(text: str) -> str:
    return text.removeprefix("(").removesuffix(")").removesuffix(",")


def _pieces(whole: list[int], part: list[int]) -> list[tuple[int, int, int]] | None:
    """A list as the pieces of it that stand in another in order: where there, where here, how long. None: it is not."""
    pieces: list[tuple[int, int, int]] = []
    found = 0
    for at, number in enumerate(whole):
        if found == len(part) or number != part[found]:
            continue
        if pieces and pieces[-1][0] + pieces[-1][2] == at:
            pieces[-1] = (*pieces[-1][:2], pieces[-1][2] + 1)
        else:
            pieces.append((at, found, 1))
        found += 1
    return pieces if found == len(part) else None


def is_instance_dict(source: Source) -> bool:
    """Is it the `__dict__` of an instance? Capture takes plain dicts only."""
    return type(source) is Attr and source.name == "__dict__" and not _is_class(source.base)


def is_cell_of_argument(source: Source) -> bool:
    """Is it what a cell holds that is itself an argument: a closure's variable, read in an inner function?"""
    return type(source) is Attr and source.name == "cell_contents" and type(source.base) is Param


def _is_class(source: Source) -> bool:
    value = source.value if type(source) is Held else held(source.weak) if type(source) is WeaklyHeld else None
    return isinstance(value, type)


#: the guards that `_known_type` reads, but for TENSOR, which has an order of its own
_TELL_THE_TYPE = frozenset([Kind.TYPE, Kind.IS, Kind.EQUALS])


def _known_type(guard: Guard) -> Any:
    """The class that the source's value certainly has once this guard holds (or what stands for it)."""
    if guard.kind is Kind.TYPE:
        return guard.expected
    if guard.kind is Kind.TENSOR:
        return guard.expected.type
    if guard.kind in (Kind.EQUALS, Kind.IS):
        value = held(guard.expected)
        return None if type(value) is Parts else type(value)
    return None
