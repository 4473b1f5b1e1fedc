"""Sets and frozensets. One from outside is read as little as possible; order is CPython's, or iteration is refused."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import GraphBreak
from ..guards import MISSING, Kind, has_value
from ..sources import Call
from . import set_history
from .base import Mutable, Value, wraps
from .builtin_methods import MethodsByName
from .constants import BINARY, COMPARE, PYTHON_RESULTS, constant, length_of
from .hashing import (
    from_outside,
    hash_element,
    hash_intersected,
    holds_object,
    is_known,
    own_key,
    raise_key_error,
)
from .set_history import IN_PLACE, Element, Held, History, Made, Outside
from .stepping import PositionIterator, each

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter
    from ..sources import Source

#: how an item is hashed, with the words for one that cannot be
Hashed = Callable[["Context", Value], Hashable]

EMPTY = Made(set_history.display, ())


class Content(NamedTuple):
    """members: the elements by key; of a set that is unread: what was put in, and None for what was taken out."""

    members: dict[Hashable, Any]
    history: History


class SetValue(MethodsByName, Mutable):
    """`SetValue(content, cls)`, or one from outside with its real set as `base` while its elements are unread."""

    __slots__ = ("base", "cls", "known", "real")

    kind = "set"
    builtin = set
    has_identity = True

    def __init__(self, content: Content, cls: type = set, source: Source | None = None, real: Any = None) -> None:
        super().__init__(content, source)
        self.cls = cls
        #: the real set or frozenset, for one from outside
        self.real = real
        self.base = real
        #: what is known of the unread elements of one from outside
        self.known: dict[Hashable, bool] = {}

    def python_type(self, ctx: Context) -> type:
        return self.cls

    # reading --------------------------------------------------------------------------------------------------------
    def members(self, ctx: Context) -> dict[Hashable, Value]:
        """The elements by key, in no order that counts."""
        if self.base is not None:
            self._read(ctx, self.base)
        return self.content.members

    def _read(self, ctx: Context, base: Any) -> None:
        ctx.guard(Kind.KEYS, self.source, frozenset(base))
        members = {key: from_outside(ctx, key, self.source) for key in base}
        overlay, original = self.content, self.original

        def undo() -> None:
            self.base, self.content, self.original = base, overlay, original

        ctx.on_rollback(undo)
        self.base = None
        self.original = Content(members, original.history)
        if overlay is original:
            self.content = self.original
            return
        merged = dict(members)
        for key, value in overlay.members.items():
            merged.pop(key, None) if value is None else merged.setdefault(key, value)
        self.content = Content(merged, overlay.history)

    def has(self, ctx: Context, key: Hashable) -> bool:
        if key in self.content.members:
            return self.content.members[key] is not None
        if self.base is None:
            return False
        if key not in self.known:
            self.known[key] = self._look(ctx, key)
            ctx.on_rollback(lambda: self.known.pop(key))
        return self.known[key]

    def _look(self, ctx: Context, key: Hashable) -> bool:
        assert self.source is not None
        if not is_known(key):
            return holds_object(ctx, self.base, self.source, key) is not MISSING
        present = key in self.base
        expected = own_key(self.base, key) if present else key
        ctx.guard(Kind.HAS_KEY if present else Kind.LACKS_KEY, self.source, expected)
        return present

    def ordered(self, ctx: Context) -> list[Value]:
        """The elements as iterating gives them."""
        if self.real is not None and self.content is self.original:
            members = self.members(ctx)
            if len(members) > 1:
                self._guard_order(ctx)
            return [members[key] for key in self.real]
        members = self.members(ctx)
        if len(members) > 1 and not set_history.has_order(self.content.history):
            self.refuse("order of a set is unknown")
        return list(_elements_of(self.content.history).values()) if members else []

    def _guard_order(self, ctx: Context) -> None:
        order = tuple(self.real)
        if not has_value(order):
            self.refuse("order of a set is unknown")
        assert self.source is not None
        ctx.guard(Kind.EQUALS, Call(ctx.hold(tuple), (self.source,)), order)

    def in_any_order(self, ctx: Context) -> list[Value]:
        """The elements for something (sorting, a sum) that gives the same in every order for integers and strings."""
        members = self.members(ctx)
        kinds = {type(key) for key in members}
        return list(members.values()) if kinds <= {int} or kinds == {str} else self.ordered(ctx)

    def truth(self, ctx: Context) -> bool:
        if self.base is not None and self.content is self.original:
            ctx.guard(Kind.TRUTHY if self.base else Kind.FALSY, self.source)
            return bool(self.base)
        return bool(self.members(ctx))

    def length(self, ctx: Context) -> Value:
        if self.base is not None and self.source is not None and self.content is self.original:
            return length_of(ctx, self.source, len(self.base))
        return constant(len(self.members(ctx)))

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        return self.has(ctx, self._lookup_key(ctx, item))

    def _lookup_key(self, ctx: Context, item: Value) -> Hashable:
        item = ctx.real(item)
        if isinstance(item, SetValue) and item.cls is set:  # looked for as a frozenset
            return frozenset(item.members(ctx))
        return hash_element(ctx, item)

    def iterate(self, ctx: Context) -> Value:
        return SetIterator(self, self.ordered(ctx))

    def unpack(self, ctx: Context) -> list[Value]:
        return self.ordered(ctx)

    def as_python(self, ctx: Context) -> Any:
        return self.cls([ctx.real(item).as_python(ctx) for item in self.ordered(ctx)])

    def key(self, ctx: Context) -> object:
        if self.cls is set:
            ctx.raise_(TypeError("unhashable type: 'set'"))
        return frozenset(self.members(ctx))

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if not isinstance(other, SetValue):
            return None
        return constant(COMPARE[op](self.members(ctx).keys(), other.members(ctx).keys()))

    # new sets -------------------------------------------------------------------------------------------------------
    def _apply(self, ctx: Context, function: Callable[..., Any], *operands: History) -> Value:
        return made(ctx, Made(function, operands))

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if op not in _OPERATORS or not isinstance(other, SetValue):
            return None
        if inplace and self.cls is set:
            self.step(ctx, IN_PLACE[_OPERATORS[op]], operand(ctx, other))
            return self
        return self._apply(ctx, BINARY[op], operand(ctx, self), operand(ctx, other))

    def step(self, ctx: Context, function: Callable[..., Any], *operands: History) -> None:
        """Change this set by a step that may concern any element."""
        self.members(ctx)
        history = Made(function, (self.content.history, *operands))
        members = _elements_of(history)
        ctx.change(self, Content(members, history))

    def _method(name: str) -> Any:  # type: ignore[misc]
        function = getattr(set, name)

        def method(self: SetValue, ctx: Context, *others: Value) -> Value:
            chosen = function if self.cls is set else getattr(frozenset, name)
            hashed = hash_intersected if name == "intersection" else hash_element
            return self._apply(ctx, chosen, operand(ctx, self), *[operand(ctx, other, hashed) for other in others])

        return method

    method_union = _method("union")
    method_intersection = _method("intersection")
    method_difference = _method("difference")

    def method_symmetric_difference(self, ctx: Context, other: Value) -> Value:
        function = self.cls.symmetric_difference  # type: ignore[attr-defined]
        return self._apply(ctx, function, operand(ctx, self), operand(ctx, other))

    def method_copy(self, ctx: Context) -> Value:
        if self.cls is frozenset:
            return self
        return self._apply(ctx, set.copy, operand(ctx, self))

    # questions ------------------------------------------------------------------------------------------------------
    def method_isdisjoint(self, ctx: Context, other: Value) -> Value:
        mine = self.members(ctx)
        return constant(not any(key in mine for key in keys_of(ctx, other)))

    def method_issubset(self, ctx: Context, other: Value) -> Value:
        theirs = keys_of(ctx, other, hash_intersected)
        return constant(all(key in theirs for key in self.members(ctx)))

    def method_issuperset(self, ctx: Context, other: Value) -> Value:
        mine = self.members(ctx)
        return constant(all(key in mine for key in keys_of(ctx, other)))

    # changes --------------------------------------------------------------------------------------------------------
    def _changing(self, name: str) -> None:
        if self.cls is not set:
            self.refuse("attribute cannot be read", f".{name}")

    def getattr(self, ctx: Context, name: str) -> Value:
        if self.cls is frozenset and not hasattr(frozenset, name):
            ctx.raise_(AttributeError(f"'frozenset' object has no attribute {name!r}"))
        return super().getattr(ctx, name)

    def put(self, ctx: Context, item: Value) -> None:
        key = hash_element(ctx, item)
        content = self.content
        if content.members.get(key) is not None:
            return
        element = Element(key, item)
        history: History
        if isinstance(content.history, Made) and content.history.function is set_history.display:
            history = Made(set_history.display, (*content.history.operands, element))
        else:
            history = Made(set_history.added, (content.history, element))
        ctx.change(self, Content({**content.members, key: item}, history))

    def take(self, ctx: Context, key: Hashable, item: Value) -> None:
        """Take out an element that is there (or, in a set from outside that is unread, may be)."""
        members = dict(self.content.members)
        members.pop(key, None)
        if self.base is not None:
            members[key] = None
        history = Made(set_history.discarded, (self.content.history, Element(key, item)))
        ctx.change(self, Content(members, history))

    def method_add(self, ctx: Context, item: Value) -> Value:
        self.put(ctx, item)
        return constant(None)

    def method_discard(self, ctx: Context, item: Value) -> Value:
        self._discard(ctx, self._lookup_key(ctx, item), item)
        return constant(None)

    def _discard(self, ctx: Context, key: Hashable, item: Value) -> None:
        if key in self.content.members if self.base is None else self.content.members.get(key, self) is not None:
            self.take(ctx, key, item)

    def method_remove(self, ctx: Context, item: Value) -> Value:
        key = self._lookup_key(ctx, item)
        if not self.has(ctx, key):
            raise_key_error(ctx, item)
        self.take(ctx, key, item)
        return constant(None)

    def method_pop(self, ctx: Context) -> Value:
        if not self.members(ctx):
            ctx.raise_(KeyError("pop from an empty set"))
        history = self.content.history
        if not set_history.has_order(history):
            self.refuse("order of a set is unknown", "pop()")
        after = Made(set_history.popped, (history,))
        members = _elements_of(after)
        (item,) = [value for key, value in self.content.members.items() if key not in members]
        ctx.change(self, Content(members, after))
        return item

    def method_clear(self, ctx: Context) -> Value:
        history = EMPTY if self.source is None else Made(set_history.cleared, (self.content.history,))
        self.members(ctx)
        ctx.change(self, Content({}, history))
        return constant(None)

    def method_update(self, ctx: Context, *others: Value) -> Value:
        for other in others:
            real = ctx.real(other)
            if _is_taken_as_a_whole(real) and self.base is None:
                self.step(ctx, IN_PLACE["update"], operand(ctx, real))
                continue
            # One by one, as CPython does: what went in before one that is unhashable stays in.
            for item in each(ctx, real):
                self.put(ctx, item)
        return constant(None)

    def method_difference_update(self, ctx: Context, *others: Value) -> Value:
        for other in others:
            real = ctx.real(other)
            if _is_taken_as_a_whole(real):
                self.step(ctx, IN_PLACE["difference_update"], operand(ctx, real))
                continue
            for item in each(ctx, real):
                self._discard(ctx, hash_element(ctx, item), item)
        return constant(None)

    def method_intersection_update(self, ctx: Context, *others: Value) -> Value:
        self.step(ctx, IN_PLACE["intersection_update"], *[operand(ctx, other, hash_intersected) for other in others])
        return constant(None)

    def method_symmetric_difference_update(self, ctx: Context, other: Value) -> Value:
        self.step(ctx, IN_PLACE["symmetric_difference_update"], operand(ctx, other))
        return constant(None)

    # the way out ----------------------------------------------------------------------------------------------------
    def reconstruct(self, out: ExitWriter) -> str:
        history = self.content.history
        if self.cls is frozenset:
            return set_history.text(history, out)

        def fill(name: str) -> Iterable[str]:
            if not isinstance(history, Made) or history.function is not set_history.display:
                self.refuse("object cannot be rebuilt")
            return [f"{name}.add({set_history.text(item, out)})" for item in history.operands]

        return out.fill(self, f"{out.hold(set)}()", lambda: (set_history.text(history, out), fill))

    def effects(self, out: ExitWriter) -> Iterable[str]:
        target = out.text(self)
        steps: list[Made] = []
        history = self.content.history
        while isinstance(history, Made):
            steps.append(history)
            history = history.operands[0]
        for step in reversed(steps):
            name = _STEP_NAMES.get(step.function, step.function.__name__)
            others = step.operands[1:]
            inner = ", ".join(target if o is step.operands[0] else set_history.text(o, out) for o in others)
            yield f"{target}.{name}({inner})"


_OPERATORS = {
    "|": "update", "&": "intersection_update", "-": "difference_update", "^": "symmetric_difference_update",
}  # fmt: skip
_STEP_NAMES = {
    set_history.added: "add", set_history.discarded: "discard", set_history.popped: "pop", set_history.cleared: "clear",
}  # fmt: skip


class SetIterator(PositionIterator):
    """An iterator over a set."""

    __slots__ = ("made_from", "owner")

    def __init__(self, owner: SetValue, items: list[Value]) -> None:
        super().__init__(items)
        self.owner = owner
        #: the content of the set when iteration began
        self.made_from = owner.content

    def python_type(self, ctx: Context) -> type:
        return type(iter(set()))

    def check(self, ctx: Context) -> None:
        content = self.owner.content
        if content is self.made_from:
            return
        if len(content.members) != len(self.made_from.members):
            ctx.raise_(RuntimeError("Set changed size during iteration"))
        self.refuse("container changes while it is iterated")

    def rebuilt(self, out: ExitWriter) -> str:
        owner = self.owner
        changed_before = owner.source is not None and owner.content is not owner.original
        if owner.content is not self.made_from or changed_before:
            self.refuse("object cannot be rebuilt", "the set was changed while it was iterated")
        return f"{out.hold(iter)}({out.text(self.owner)})"


# making sets ----------------------------------------------------------------------------------------------------------
def made(ctx: Context, history: History) -> Value:
    """The new set that a history makes."""
    cls = type(set_history.build(history))
    return ctx.born(SetValue(Content(_elements_of(history), history), cls))


def new_set(ctx: Context, items: Iterable[Value]) -> Value:
    """`{*items}`, put in one after the other."""
    return made(ctx, Made(set_history.display, tuple(Element(hash_element(ctx, item), item) for item in items)))


def set_from(ctx: Context, cls: type, value: Value | None) -> Value:
    """`set(value)` or `frozenset(value)`"""
    if value is None:
        return made(ctx, Made(cls, ()))
    real = ctx.real(value)
    if cls is frozenset and isinstance(real, SetValue) and real.cls is frozenset:
        return real
    return made(ctx, Made(cls, (operand(ctx, real),)))


def _elements_of(history: History) -> dict[Hashable, Value]:
    """The elements of the set that the history makes, in CPython's order as far as keys are real."""
    pool: dict[int, Value] = {}
    for element in set_history.elements(history):
        pool.setdefault(id(element.key), element.value)
    return {key: pool[id(key)] for key in set_history.build(history)}


def operand(ctx: Context, value: Value, hashed: Hashed = hash_element) -> History:
    """What a step takes: a set's own history, a dict or view as such (CPython takes them apart), else the items."""
    real = ctx.real(value)
    if isinstance(real, SetValue):
        real.members(ctx)
        return real.content.history
    as_operand = getattr(real, "set_operand", None)
    if as_operand is not None:
        return as_operand(ctx)
    return Made(set_history.listed, tuple(_elements(ctx, real, hashed)))


def _is_taken_as_a_whole(value: Value) -> bool:
    """A set, or a dict: CPython merges their tables, where any other iterable is iterated."""
    return isinstance(value, SetValue) or (hasattr(value, "set_operand") and isinstance(value, Mutable))


def _elements(ctx: Context, value: Value, hashed: Hashed) -> list[Element]:
    return [Element(hashed(ctx, item), item) for item in each(ctx, value)]


def keys_of(ctx: Context, value: Value, hashed: Hashed = hash_element) -> Mapping[Hashable, Value]:
    """The keys of any iterable's items."""
    real = ctx.real(value)
    if isinstance(real, SetValue):
        return real.members(ctx)
    return {element.key: element.value for element in _elements(ctx, real, hashed)}


@wraps(set, frozenset)
def build_set(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    value = SetValue(Content({}, EMPTY), type(obj), source, obj)
    value.content = value.original = Content({}, Outside(value))
    return value


def _constant_frozenset(ctx: Context, obj: Any, leaf: Callable[[Context, Any], Value]) -> Value:
    if type(obj) is not frozenset:
        raise GraphBreak("result type is not supported", type(obj).__qualname__)
    elements = tuple(Element(key, leaf(ctx, key)) for key in obj)
    return SetValue(Content({e.key: e.value for e in elements}, Held(obj, elements)), frozenset)


PYTHON_RESULTS[frozenset] = _constant_frozenset
