"""Which guards of a region need not be asked while a model is watched, and what must be watched for that.

The sources of such a guard begin at one argument, the model (or a cell's content, where it is a variable of an inner
function's), and lead through modules, their dicts, plain dicts in
these and tuples, to values that can't change themselves. As long as no watched dict changes, and each module has its
type and its dict, such a source gives the same object. Guards that look at anything else stay.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Sequence
from typing import Any

import torch

from . import watching
from .guard_sources import Numbers
from .guard_writer import is_cell_of_argument
from .guards import Guard, Kind
from .holding import PLAIN_TYPES, Parts, held, is_a, is_immutable_type
from .sources import Attr, Item, Literal, Operation, Param, Position, Source

_UNCHANGING = PLAIN_TYPES | {tuple, torch.Size}
#: what Python computes with, and gets the same from the same
_PLAIN_VALUES = frozenset([int, float, bool, str])
_ABOUT_NUMBERS = frozenset([Kind.TYPE, Kind.EQUALS, Kind.TRUTHY, Kind.FALSY])


class _Is(enum.Enum):
    """What a source is, where it gives the same object as long as nothing watched changes."""

    MODULE = enum.auto()
    DICT = enum.auto()
    WRITTEN = enum.auto()  # a dict that the region itself changes at each call, and so is not watched
    ORDERED = enum.auto()  # keys and truth only: no event tells of another order
    TUPLE = enum.auto()
    TENSOR = enum.auto()
    VALUE = enum.auto()  # some object: its identity is known, but not what is in it
    NUMBER = enum.auto()  # computed from plain numbers and strings that are the same: equal, if not the same object


_CONTAINERS = {dict: _Is.DICT, collections.OrderedDict: _Is.ORDERED, tuple: _Is.TUPLE, torch.Size: _Is.TUPLE}


class Watchable:
    """The guards on one model that watching it makes needless, and what must be watched for that."""

    def __init__(self, guards: Sequence[Guard], number: Numbers, written: Sequence[Source] = ()) -> None:
        """written: dicts that the region's effects change; what is asked of these is asked at every call."""
        self._number = number
        self._written = set(map(number, written))
        self._by_source: dict[int, list[Guard]] = {}
        for guard in guards:
            self._by_source.setdefault(number(guard.source), []).append(guard)
        self._known: dict[int, _Is | None] = {}
        #: by number, in order: the sources to be looked at
        self.modules: dict[int, Source] = {}
        self.dicts: dict[int, Source] = {}
        self.asked: dict[int, Source] = {}
        self.tensors: dict[int, Source] = {}
        #: modules whose dict is written, other such dicts, and what of them must be the same object all the same
        self.changing: dict[int, Source] = {}
        self.written: dict[int, Source] = {}
        self.pinned: dict[int, Item] = {}
        self.covered: set[int] = set()
        #: by identity: the classes, as they may be held, in whose dicts attributes are looked up
        self.classes: dict[int, Any] = {}
        self.root = next((g.source for g in guards if self._is_root(g)), None)
        if self.root is None:
            return
        self._know(self.root, _Is.MODULE)
        self.covered = {id(guard) for guard in guards if self._covers(guard)}
        for guard in guards:
            if guard.kind is Kind.TYPE_ATTR and not is_a(guard.expected.raw, Parts):
                self.classes.setdefault(id(held(guard.expected.cls)), guard.expected.cls)

    def _is_root(self, guard: Guard) -> bool:
        if guard.kind is not Kind.TYPE or not _is_module_class(held(guard.expected)):
            return False
        return type(guard.source) is Param or is_cell_of_argument(guard.source)

    def covers_class(self, cls: type) -> bool:
        """Is its dict watched, and those of its bases?"""
        return id(cls) in self.classes

    def is_tensor(self, source: Source) -> bool:
        return self.what(source) is _Is.TENSOR

    def is_module(self, source: Source) -> bool:
        return self._known.get(self._number(source)) is _Is.MODULE

    # sources ----------------------------------------------------------------------------------------------------------
    def what(self, source: Source) -> _Is | None:
        """None: it may give another object although nothing watched has changed."""
        number = self._number(source)
        if number not in self._known:
            self._known[number] = None  # while it is looked at
            self._know(source, self._find(source))
        return self._known[number]

    def _know(self, source: Source, what: _Is | None) -> None:
        number = self._number(source)
        self._known[number] = what
        into = {_Is.MODULE: self.modules, _Is.DICT: self.dicts, _Is.ORDERED: self.dicts, _Is.TENSOR: self.tensors}
        if what in into:
            into[what].setdefault(number, source)

    def _find(self, source: Source) -> _Is | None:
        if isinstance(source, Attr):
            if self.what(source.base) is not _Is.MODULE:
                return None
            if source.name == "__dict__":
                return self._dict_of(source)
            return None if self._number(Attr(source.base, "__dict__")) in self._written else self._of_guards(source)
        if isinstance(source, Item):
            base = self.what(source.base)
            if base is _Is.WRITTEN:
                return self._pin(source)
            if self._number(source) in self._written:
                return self._of_written(source)
            plain = type(source.key) in (str, int)
            return self._of_guards(source) if plain and base in (_Is.DICT, _Is.TUPLE) else None
        if isinstance(source, Position):
            return self._of_guards(source) if self.what(source.base) is _Is.DICT else None
        if isinstance(source, Operation):
            return _Is.NUMBER if all(map(self._is_plain, source.bases())) else None
        return None

    def _dict_of(self, source: Attr) -> _Is:
        """A module's dict."""
        if self._number(source) not in self._written:
            return _Is.DICT
        self.changing[self._number(source.base)] = source.base
        return _Is.WRITTEN

    def _of_written(self, source: Item) -> _Is | None:
        """A dict that is written, in one that is watched."""
        if self.what(source.base) is not _Is.DICT or self._of_guards(source) is not _Is.DICT:
            return None
        self.written[self._number(source)] = source
        return _Is.WRITTEN

    def _pin(self, source: Item) -> _Is | None:
        """A dict in a written one: a module's registry of its parts. It must be the same object at every call."""
        number = self._number(source)
        if type(source.key) is not str or number in self._written or self._of_guards(source) is not _Is.DICT:
            return None
        self.pinned[number] = source
        return _Is.DICT

    def _is_plain(self, source: Source) -> bool:
        """A number or string that is the same as long as nothing watched changes."""
        if isinstance(source, Literal):
            return type(source.value) in _PLAIN_VALUES
        what = self.what(source)
        if what is not _Is.VALUE:
            return what is _Is.NUMBER
        guards = self._by_source.get(self._number(source), ())
        return any(
            (guard.kind is Kind.TYPE and held(guard.expected) in _PLAIN_VALUES)
            or (guard.kind is Kind.EQUALS and type(guard.expected) in _PLAIN_VALUES)
            for guard in guards
        )

    def _of_guards(self, source: Source) -> _Is:
        """What is known of an object that stays the same."""
        for guard in self._by_source.get(self._number(source), ()):
            if guard.kind is Kind.TENSOR:
                return _Is.TENSOR if guard.expected.leaf is None else _Is.VALUE
            if guard.kind is Kind.TYPE:
                cls = held(guard.expected)
                return _Is.MODULE if _is_module_class(cls) else _CONTAINERS.get(cls, _Is.VALUE)
        return _Is.VALUE

    # guards -----------------------------------------------------------------------------------------------------------
    def _covers(self, guard: Guard) -> bool:
        kind, source, expected = guard.kind, guard.source, guard.expected
        if kind is Kind.EXPRESSION:
            return self._covers_truth(source)
        what = self.what(source)
        if what is None or (what is _Is.NUMBER and kind not in _ABOUT_NUMBERS):
            return False
        if kind is Kind.TYPE:
            cls = held(expected)
            return what is _Is.MODULE or (cls is not None and is_immutable_type(cls))
        if kind in (Kind.IS, Kind.IS_NOT):
            return not is_a(expected, Parts)
        if kind is Kind.EQUALS:
            return _is_unchanging(expected)
        if kind in (Kind.ALIAS, Kind.NOT_ALIAS):  # the model is known by its type and dict
            return self.what(expected) is not None and self.root not in (source, expected)
        if kind in (Kind.TRUTHY, Kind.FALSY):
            return self._covers_truth(source)
        if kind is Kind.LENGTH:
            return what in (_Is.DICT, _Is.ORDERED, _Is.TUPLE)
        if kind in (Kind.HAS_KEY, Kind.LACKS_KEY):
            return what in (_Is.DICT, _Is.ORDERED) and type(expected) in (str, int)
        if kind in (Kind.KEYS, Kind.NAMES):
            return what is _Is.DICT and type(expected) is tuple and all(type(key) in (str, int) for key in expected)
        return False

    def _covers_truth(self, source: Source) -> bool:
        if isinstance(source, Operation) and source.op in ("and", "or", "not"):
            return all(map(self._covers_truth, source.bases()))
        what = self.what(source)
        if what is _Is.VALUE:
            self.asked.setdefault(self._number(source), source)
        return what in (_Is.DICT, _Is.ORDERED, _Is.TUPLE, _Is.VALUE, _Is.NUMBER)

    # looking at a model -----------------------------------------------------------------------------------------------
    def make_watch(self, tensors: Sequence[Source], hits: list[int]) -> watching.Watch:
        """tensors: those that the text takes from what is known of the model, in this order."""
        return watching.Watch(_Look(self, tensors), hits)

    def look_text(self, tensors: Sequence[Source]) -> str:
        """A function that finds what must be watched; every source is fetched once."""
        names: dict[int, str] = {}
        lines: list[str] = []
        root = None if self.root is None else self._number(self.root)

        def name(source: Source) -> str:
            number = self._number(source)
            if number not in names:
                if number == root:
                    names[number] = "root"
                elif isinstance(source, Attr) and source.name != "__dict__":
                    lines.append(f"a{number} = attribute({name(source.base)}, {source.name!r})")
                    names[number] = f"a{number}"
                else:
                    lines.append(f"a{number} = {source.render(name)}")
                    names[number] = f"a{number}"
            return names[number]

        groups = [self.modules, self.dicts, self.asked, self.changing, self.written]
        found = ", ".join(f"[{', '.join(map(name, group))}]" for group in [tensors, *(g.values() for g in groups)])
        pins = ", ".join(f"({name(item.base)}, {item.key!r}, {name(item)})" for item in self.pinned.values())
        found += f", [{pins}]"
        return "\n    ".join(["def look(root):", *lines, f"return Seen({found})"]) + "\n"


class _Look:
    """The function that finds what a model is made of, written when it is first needed."""

    def __init__(self, watchable: Watchable, tensors: Sequence[Source]) -> None:
        self._text = watchable.look_text(tensors)
        self._classes = list(watchable.classes.values())
        self._function: Any = None

    def __call__(self, root: Any) -> watching.Seen:
        if self._function is None:
            scope = {"Seen": self._seen, "attribute": watching.attribute}
            exec(compile(self._text, "<what a model is made of>", "exec"), scope)
            self._function = scope["look"]
        try:
            seen: watching.Seen = self._function(root)
        except (LookupError, AttributeError) as error:  # another thread is changing it
            raise watching.CannotWatch("it changes while it is looked at") from error
        return seen

    def _seen(self, tensors: list[Any], modules: list[Any], *found: list[Any]) -> watching.Seen:
        return watching.Seen(modules, *found, tensors=tensors, classes=[*map(held, self._classes)])


def _is_module_class(cls: object) -> bool:
    return is_a(cls, type) and issubclass(cls, torch.nn.Module)


def _is_unchanging(value: Any) -> bool:
    if type(value) in (tuple, torch.Size):
        return all(map(_is_unchanging, value))
    return type(value) in _UNCHANGING
