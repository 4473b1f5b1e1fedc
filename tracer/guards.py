"""What must hold for a region to be valid: guards as data, collected during a capture.

A guard is a kind of check, the source it looks at, and what capture saw there. `guard_text.py` turns guards into the
conditions at the head of a region; because they are data they can also be printed, deduplicated, taken back to a mark
when a call is rolled back, and asked which of them failed (`refusals.py`).
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from .errors import InternalError, UserLine
from .global_state import GlobalState
from .guard_sources import Numbers, Weakened, weakened
from .guard_values import describe, has_value, key_of, same_value, value_key
from .holding import hold, is_immutable_type, type_dict, type_mro
from .native import Overlap, TensorFacts
from .sources import Call, Formula, Literal, Source


class Missing:
    """The type of MISSING: what a class attribute lookup gives that finds nothing."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


def _itself(expected: Any) -> Any:
    return expected


def _key_of_keys(expected: Any) -> Hashable:
    keys = tuple(map(key_of, expected))
    return keys if type(expected) is tuple else frozenset(keys)


def _hold_keys(expected: Any) -> Any:
    return frozenset(map(hold, expected)) if type(expected) is frozenset else tuple(map(hold, expected))


def _key_of_attribute(expected: Any) -> Hashable:
    cls, name, raw = expected
    return id(cls), name, id(raw)


@dataclass(frozen=True, slots=True)
class Row:
    """What there is to know of a kind beside its writer in guard_kinds.py."""

    words: str
    #: what tells two expectations on one source apart, and a flag of contradiction lies in
    key: Callable[[Any], Hashable]
    #: how a region may hold the expectation: nothing that does not live for ever may be kept alive
    freeze: Callable[[Any], Any]
    #: a source holds one of these at most: two with different expectations contradict each other
    single: bool = False
    #: it must hold before anything is fetched from its source
    before_fetch: bool = False
    #: it looks at a value of the program; without one its source is NOWHERE
    has_source: bool = True


class Kind(enum.Enum):
    """The kinds of checks; the comment says what `expected` holds."""

    row: Row
    _value_: str

    def __new__(cls, row: Row) -> Kind:
        kind = object.__new__(cls)
        kind._value_, kind.row = row.words, row
        return kind

    __hash__ = object.__hash__  # Enum's own is a Python function, and kinds are parts of many keys

    # the class: type(x) is this
    TYPE = Row("type", id, hold, single=True, before_fetch=True)
    # the object itself
    IS = Row("is", id, hold, single=True, before_fetch=True)
    # an object that it was not
    IS_NOT = Row("is not", id, hold)
    # a value: exact type and equal, also inside of tuples, frozensets and slices
    EQUALS = Row("equals", value_key, _itself, single=True, before_fetch=True)
    # n, of a builtin container whose type is guarded
    LENGTH = Row("length", _itself, _itself, single=True, before_fetch=True)
    # tuple of a dict's keys in order, or frozenset of a set's elements
    KEYS = Row("keys", _key_of_keys, _hold_keys, single=True, before_fetch=True)
    # tuple of the names that are the keys of a module's registry, in order: they compare as strings
    NAMES = Row("names", _itself, _itself, single=True, before_fetch=True)
    # a key of a dict
    HAS_KEY = Row("has key", key_of, hold, before_fetch=True)
    # a key that a dict does not have
    LACKS_KEY = Row("lacks key", key_of, hold, before_fetch=True)
    # None: a builtin container or number that was true
    TRUTHY = Row("true", _itself, _itself)
    # None
    FALSY = Row("false", _itself, _itself)
    # the real tensor seen (`freeze` makes TensorFacts of it)
    TENSOR = Row("tensor", id, _itself, single=True)
    # another source: the same object
    ALIAS = Row("same object as", _itself, weakened)
    # another source: not the same object
    NOT_ALIAS = Row("other object than", _itself, weakened)
    # sources of tensors, each with a TENSOR guard
    NO_OVERLAP = Row("storage overlaps as it did with", tuple, _itself, has_source=False)
    # (cls, name, raw object or MISSING), or (cls, BASES, MISSING)
    TYPE_ATTR = Row("class attribute", _key_of_attribute, lambda seen: ClassAttribute.of(*seen), has_source=False)
    # the original code object of a function
    CODE = Row("code", id, hold, single=True, before_fetch=True)
    # a GlobalState; None takes the one of this moment
    STATE = Row("global state", _itself, _itself, single=True, has_source=False)
    # None: a relation of sizes and numbers that are symbols; the source is the relation
    SHAPE = Row("holds", _itself, _itself, single=True)
    # the bool that this source was
    EXPRESSION = Row("expression", _itself, _itself, single=True)


#: The attribute in a TYPE_ATTR guard that asks only whether a class has the same bases: no class has one of this name.
BASES = "<bases>"

#: The source of guards that look at no value of the program (STATE, TYPE_ATTR, NO_OVERLAP).
NOWHERE: Source = Literal(None)


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """`kind` of check on `source` with what was seen there, and the user's line that needs it.

    A guard that was frozen keeps no tensor and no other object alive that does not live for ever anyway: `expected`
    then holds a `TensorFacts`, `Weak` or `Parts` in its stead.
    """

    kind: Kind
    source: Source
    expected: Any = field(default=None, repr=False)
    line: UserLine | None = None

    def __str__(self) -> str:
        if self.kind is Kind.STATE:
            return "global state is as it was"
        if self.kind is Kind.TYPE_ATTR:
            cls, name, *_ = self.expected
            if name == BASES:
                return f"bases of {describe(cls)} are as they were"
            return f"class attribute {describe(cls)}.{name} is as it was"
        if self.kind is Kind.NO_OVERLAP:
            sources = self.expected[0] if type(self.expected[0]) is tuple else self.expected
            return f"storage of {', '.join(map(str, sources))} overlaps as it did"
        if self.kind in (Kind.TRUTHY, Kind.FALSY):
            return f"{self.source}: {self.kind.value}"
        if self.kind is Kind.EXPRESSION:
            return f"{self.source}: is {self.expected}"
        if self.kind is Kind.SHAPE:
            return _relation(self.source)
        return f"{self.source}: {self.kind.value} {describe(self.expected)}"


def _relation(source: Source) -> str:
    """A relation as a program would write it, whatever function computes it."""
    template = getattr(getattr(source.bases()[0], "value", None), "template", None) if source.bases() else None
    if isinstance(source, Call) and template is not None:
        return str(template.format(*map(str, source.arguments)))
    text = str(source)
    return text[1:-1] if isinstance(source, Formula) else text


#: Kinds that say of what class the value is.
_TYPED = (Kind.TYPE, Kind.IS, Kind.EQUALS, Kind.TENSOR)
#: Pairs that contradict each other on the same source with the same expectation.
_OPPOSITE = {
    Kind.IS: Kind.IS_NOT, Kind.IS_NOT: Kind.IS, Kind.TRUTHY: Kind.FALSY, Kind.FALSY: Kind.TRUTHY,
    Kind.HAS_KEY: Kind.LACKS_KEY, Kind.LACKS_KEY: Kind.HAS_KEY, Kind.ALIAS: Kind.NOT_ALIAS, Kind.NOT_ALIAS: Kind.ALIAS,
}  # fmt: skip
#: What makes a check of the other kinds on the same source needless.
_IMPLIES = {
    Kind.IS: frozenset({Kind.TYPE, Kind.IS_NOT}),
    Kind.EQUALS: frozenset({Kind.TYPE, Kind.IS_NOT, Kind.LENGTH, Kind.TRUTHY, Kind.FALSY, Kind.EXPRESSION}),
    Kind.TENSOR: frozenset({Kind.TYPE}),
    Kind.KEYS: frozenset({Kind.LENGTH, Kind.TRUTHY, Kind.FALSY, Kind.HAS_KEY, Kind.LACKS_KEY}),
    Kind.NAMES: frozenset({Kind.LENGTH, Kind.TRUTHY, Kind.FALSY, Kind.HAS_KEY, Kind.LACKS_KEY}),
    Kind.LENGTH: frozenset({Kind.TRUTHY, Kind.FALSY}),
}


def type_attribute(cls: type, name: str) -> object:
    """What a class attribute lookup through the bases finds, without its `__get__`; or MISSING."""
    for base in type_mro(cls):
        found = type_dict(base).get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


class ClassAttribute(NamedTuple):
    """What a frozen TYPE_ATTR guard expects; classes and attribute as they may be held."""

    cls: Any
    name: str
    raw: Any
    bases: tuple[Any, ...]  # the class's __mro__
    owner: int | None  # which of these has the attribute

    @classmethod
    def of(cls, owner: type, name: str, raw: object) -> ClassAttribute:
        bases = type_mro(owner)
        at = next((i for i, base in enumerate(bases) if name in type_dict(base)), None)
        return cls(hold(owner), name, raw if raw is MISSING else hold(raw), tuple(map(hold, bases)), at)


def type_attribute_is_fixed(cls: type, name: str, raw: object) -> bool:
    """Can nobody change what this lookup finds? So it is for classes written in C."""
    if type_attribute(cls, name) is not raw:
        raise InternalError(f"class attribute {describe(cls)}.{name} is not {describe(raw)}")
    return all(map(is_immutable_type, type_mro(cls)))


Line = UserLine | Callable[[], UserLine | None] | None


class GuardSet:
    """The guards of a capture under way: in the order they were asked for, each once, none contradicting another.

    Nothing is ever taken out but by `rollback`: a weaker guard that a stronger one makes needless stays on the list
    until `freeze`, so that cutting the list back to a mark gives what stood there then.
    """

    def __init__(self) -> None:
        self._guards: list[Guard] = []
        self._known: dict[Hashable, int] = {}
        self._number = Numbers()
        self._weak: dict[int, Source] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards)

    def __getitem__(self, at: int) -> Guard:
        return self._guards[at]

    def add(self, kind: Kind, source: Source, expected: Any = None, line: Line = None) -> None:
        """InternalError for a guard that contradicts an earlier one. The line is only asked for if the guard is new."""
        if not kind.row.has_source:
            source = NOWHERE
        number = self._number(source)
        if kind is Kind.STATE:
            if (kind, number) in self._known:
                return
            expected = expected or GlobalState()
        seen = kind.row.key(expected)
        if (kind, number, seen) in self._known or (kind is Kind.TYPE_ATTR and type_attribute_is_fixed(*expected)):
            return
        only = self._only(kind, number, expected)
        at = self._contradicting(kind, number, expected, only, seen)
        if at is not None:
            raise InternalError(f"contradictory guards: {self._guards[at]!s} and {Guard(kind, source, expected)!s}")
        self._known[kind, number, seen] = len(self._guards)
        if only is not None:
            self._known[only] = len(self._guards)
        self._guards.append(Guard(kind, source, expected, line() if callable(line) else line))

    @staticmethod
    def _only(kind: Kind, number: int, expected: Any) -> Hashable:
        """A key for what only one expectation can hold of."""
        if kind.row.single:
            return kind, number
        if kind is Kind.TYPE_ATTR:
            return kind, id(expected[0]), expected[1]
        return None

    def _contradicting(self, kind: Kind, number: int, expected: Any, only: Hashable, seen: Hashable) -> int | None:
        known = self._known
        if only is not None and only in known:
            return known[only]
        if kind in _OPPOSITE:
            return known.get((_OPPOSITE[kind], number, seen))
        if kind in _TYPED:
            for other in _TYPED:
                at = known.get((other, number))
                if at is not None and _class(other, self._guards[at].expected) is not _class(kind, expected):
                    return at
        return None

    def mark(self) -> int:
        return len(self._guards)

    def rollback(self, mark: int) -> None:
        """Forget every guard that was added since the mark."""
        del self._guards[mark:]
        self._known = {key: at for key, at in self._known.items() if at < mark}

    def freeze(self, *, leaves: bool = True, layouts: Mapping[int, Any] | None = None) -> tuple[Guard, ...]:
        """The guards that are needed, in order; nothing that they hold keeps a model alive.

        leaves: it matters whether a tensor that requires grad is a leaf or was computed.
        layouts: by the identity of a tensor, sizes and strides of those that have symbols among them.
        """
        needed = self._needed()
        tensors = {number: guard.expected for number, guard in needed if guard.kind is Kind.TENSOR}
        known: Weakened = {}
        for number, guard in needed:
            if number not in self._weak:
                self._weak[number] = weakened(guard.source, known)
        facts: dict[int, TensorFacts] = {}  # one for each tensor, wherever it was found
        for tensor in tensors.values():
            if id(tensor) not in facts:
                facts[id(tensor)] = TensorFacts.of(tensor, leaves=leaves, layout=(layouts or {}).get(id(tensor)))

        def freeze(number: int, guard: Guard) -> Guard:
            if guard.kind is Kind.TENSOR:
                expected: object = facts[id(guard.expected)]
            elif guard.kind is Kind.NO_OVERLAP:
                expected = self._overlap(guard.expected, tensors, layouts or {})
            else:
                expected = guard.kind.row.freeze(guard.expected)
            return Guard(guard.kind, self._weak[number], expected, guard.line)

        return tuple(itertools.starmap(freeze, needed))

    def _needed(self) -> list[tuple[int, Guard]]:
        """The guards which no other one makes needless, each with the number of its source."""
        numbered = [(self._number(guard.source), guard) for guard in self._guards]
        strong: dict[int, list[Guard]] = {}
        for number, guard in numbered:
            if guard.kind in _IMPLIES:
                strong.setdefault(number, []).append(guard)
        return [(n, guard) for n, guard in numbered if not any(_swallows(s, guard) for s in strong.get(n, ()))]

    def _overlap(
        self, sources: Sequence[Source], tensors: Mapping[int, torch.Tensor], layouts: Mapping[int, Any]
    ) -> tuple[tuple[Source, ...], Overlap]:
        """The sources of different tensors among these, and how the tensors overlap."""
        different: dict[int, Source] = {}
        for source in sources:
            if self._number(source) not in tensors:
                raise InternalError(f"{source} needs a TENSOR guard beside NO_OVERLAP")
            different.setdefault(id(tensors[self._number(source)]), source)
        kept = tuple(map(weakened, different.values()))
        others = [tensors[self._number(source)] for source in different.values()]
        return kept, Overlap.of(others, measured=any(id(tensor) in layouts for tensor in others))


def _swallows(strong: Guard, weak: Guard) -> bool:
    """Does one guard make another on the same source needless? InternalError where they contradict each other."""
    if weak.kind not in _IMPLIES[strong.kind]:
        return False
    if not _agree(strong.kind, strong.expected, weak.kind, weak.expected):
        raise InternalError(f"contradictory guards: {strong} and {weak}")
    return True


def _agree(strong: Kind, value: Any, weak: Kind, expected: Any) -> bool:
    if weak is Kind.IS_NOT:
        return value is not expected
    if weak in (Kind.TYPE, Kind.EXPRESSION):
        return weak is Kind.TYPE or value is expected
    if weak in (Kind.HAS_KEY, Kind.LACKS_KEY):
        return (key_of(expected) in map(key_of, value)) == (weak is Kind.HAS_KEY)
    if strong is Kind.LENGTH:
        return (value > 0) == (weak is Kind.TRUTHY)
    if weak is Kind.LENGTH:
        return len(value) == expected
    return bool(value) == (weak is Kind.TRUTHY)


def _class(kind: Kind, expected: Any) -> type:
    return expected if kind is Kind.TYPE else type(expected)


__all__ = ["MISSING", "NOWHERE", "Guard", "GuardSet", "Kind", "describe", "has_value", "same_value", "type_attribute"]
