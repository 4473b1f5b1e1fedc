"""Dicts: plain, ordered and default ones. One from outside is read key by key; writing to it needs no guard at all.

The content of a dict that is read whole is `key -> Entry`, in order. While one from outside is unread its content is an
overlay: what was set, and what was deleted, in the order in which it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..guards import MISSING, Kind
from ..sources import Index, Source
from .base import Mutable, Value, wraps
from .builtin_methods import MethodsByName
from .constants import PYTHON_RESULTS, constant, length_of
from .generators import GeneratorValue
from .hashing import from_outside, hash_key, holds_object, is_known, item_source, own_key, raise_key_error
from .operations import equal
from .sequences import SequenceValue, TupleValue
from .set_history import Element, History, Made, keys
from .sets import SetValue, new_set
from .stepping import IteratorValue, each
from .tensors import to_graph
from .views import DictIterator, DictView

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class Entry(NamedTuple):
    """One item. In an overlay: `item` None says deleted, `fresh` that the key was deleted before it was set again."""

    key: Value
    item: Any
    fresh: bool = False


Entries = dict[Hashable, Entry]


class MappingValue(MethodsByName, Mutable):
    """What dicts and mapping proxies share: reading.

    `MappingValue(entries)` is a new one; `MappingValue({}, source, base)` one from outside, with the real mapping.
    """

    __slots__ = ("base", "holds_names", "known")

    kind = "dict"
    builtin: ClassVar[Any] = dict
    has_identity = True

    def __init__(self, entries: Entries, source: Source | None = None, base: Any = None) -> None:
        super().__init__(entries, source)
        #: the real dict while it is not read as a whole
        self.base = base
        #: items of it that were looked up: the value, or None where there is no such key
        self.known: dict[Hashable, Value | None] = {}
        #: its keys are names, of which only the text counts
        self.holds_names = False

    def python_type(self, ctx: Context) -> type:
        return self.builtin

    # reading --------------------------------------------------------------------------------------------------------
    def lookup(self, ctx: Context, key_value: Value) -> Value | None:
        """The item, or None."""
        return self.find(ctx, hash_key(ctx, key_value), key_value)

    def find(self, ctx: Context, key: Hashable, key_value: Value) -> Value | None:
        entry = self.content.get(key)
        if entry is not None:
            return entry.item
        return None if self.base is None else self._from_base(ctx, key, key_value)

    def _from_base(self, ctx: Context, key: Hashable, key_value: Value) -> Value | None:
        if key not in self.known:
            value = self._look(ctx, key) if is_known(key) else self._look_for_object(ctx, key_value)
            self.known[key] = value
            ctx.on_rollback(lambda: self.known.pop(key))
        return self.known[key]

    def _look(self, ctx: Context, key: Hashable) -> Value | None:
        assert self.source is not None
        if key not in self.base:
            ctx.guard(Kind.LACKS_KEY, self.source, key)
            return None
        key = own_key(self.base, key)
        ctx.guard(Kind.HAS_KEY, self.source, key)
        return ctx.wrap(self.base[key], item_source(ctx, self.source, key))

    def _look_for_object(self, ctx: Context, key_value: Value) -> Value | None:
        """An item by an object that is its own key, as optimizers keep state by parameter."""
        key = ctx.real(key_value)
        assert self.source is not None
        real = holds_object(ctx, self.base, self.source, key)
        if real is MISSING:
            return None
        assert key.source is not None
        return ctx.wrap(self.base[real], Index(self.source, key.source))

    def entries(self, ctx: Context) -> Entries:
        """All items, in order."""
        if self.base is not None:
            self._read(ctx, self.base)
        return self.content

    def _read(self, ctx: Context, base: Any) -> None:
        assert self.source is not None
        original: Entries = {}
        for key, item in base.items():
            value = self.known.get(key) or ctx.wrap(item, item_source(ctx, self.source, key))
            original[key] = Entry(from_outside(ctx, key, self.source), value)
        ctx.guard(Kind.NAMES if self.holds_names else Kind.KEYS, self.source, tuple(base))
        overlay, before = self.content, self.original

        def undo() -> None:
            self.base, self.content, self.original = base, overlay, before

        ctx.on_rollback(undo)
        self.base = None
        self.original = self.content = original
        if overlay:
            self.content = _overlaid(original, overlay)

    def has_keys(self, wanted: list[Hashable]) -> bool:
        """Will it hold just these keys while the exit is built?"""
        now = list(self.content) == wanted
        return now and (self.source is None or list(self.original) == wanted)

    def is_untouched(self) -> bool:
        return self.base is not None and not self.content

    def truth(self, ctx: Context) -> bool:
        if self.is_untouched():
            ctx.guard(Kind.TRUTHY if self.base else Kind.FALSY, self.source)
            return bool(self.base)
        return bool(self.entries(ctx))

    def length(self, ctx: Context) -> Value:
        if self.is_untouched() and self.source is not None:
            return length_of(ctx, self.source, len(self.base))
        return constant(len(self.entries(ctx)))

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        return self.lookup(ctx, item) is not None

    def getitem(self, ctx: Context, key: Value) -> Value:
        found = self.lookup(ctx, key)
        return self.missing(ctx, key) if found is None else found

    def missing(self, ctx: Context, key: Value) -> Value:
        raise_key_error(ctx, key)

    def iterate(self, ctx: Context) -> Value:
        return DictIterator(ctx, self, "keys")

    def unpack(self, ctx: Context) -> list[Value]:
        return [entry.key for entry in self.entries(ctx).values()]

    def set_operand(self, ctx: Context) -> History:
        """As an operand of a set's method: CPython takes a dict's keys otherwise than an iterator's items."""
        return Made(keys, tuple(Element(key, entry.key) for key, entry in self.entries(ctx).items()))

    def as_python(self, ctx: Context) -> Any:
        entries = self.entries(ctx).values()
        return self._as_type([(ctx.real(e.key).as_python(ctx), ctx.real(e.item).as_python(ctx)) for e in entries])

    def _as_type(self, pairs: list[tuple[Any, Any]]) -> Any:
        return self.builtin(pairs)

    def graph_argument(self, ctx: Context) -> Any:
        entries = self.entries(ctx).values()
        return {ctx.real(entry.key).as_python(ctx): to_graph(ctx, entry.item) for entry in entries}

    def key(self, ctx: Context) -> object:
        ctx.raise_(TypeError(f"unhashable type: {self.python_type(ctx).__name__!r}"))

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        other = other.builtin_part()
        if op not in ("==", "!=") or not isinstance(other, MappingValue):
            return None
        return constant(self._equals(ctx, other) == (op == "=="))

    def _equals(self, ctx: Context, other: MappingValue) -> bool:
        mine, theirs = self.entries(ctx), other.entries(ctx)
        if len(mine) != len(theirs):
            return False
        return all(key in theirs and equal(ctx, entry.item, theirs[key].item) for key, entry in mine.items())

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        other = other.builtin_part()
        if op != "|" or not isinstance(other, MappingValue):
            return None
        return self.joined(ctx, self, other)

    def joined(self, ctx: Context, left: MappingValue, right: MappingValue) -> Value:
        """`left | right`, of this one's type."""
        result = new_dict(ctx, [])
        for mapping in (left, right):
            update(ctx, result, mapping)
        return result

    def method_get(self, ctx: Context, key: Value, default: Value | None = None) -> Value:
        found = self.lookup(ctx, key)
        if found is not None:
            return found
        return constant(None) if default is None else default

    def method_keys(self, ctx: Context) -> Value:
        return DictView(self, "keys")

    def method_values(self, ctx: Context) -> Value:
        return DictView(self, "values")

    def method_items(self, ctx: Context) -> Value:
        return DictView(self, "items")

    def method_copy(self, ctx: Context) -> Value:
        return new_dict(ctx, self.pairs(ctx))

    def pairs(self, ctx: Context) -> list[tuple[Value, Value]]:
        return [(entry.key, entry.item) for entry in self.entries(ctx).values()]

    def reversed(self, ctx: Context) -> Value:
        return DictIterator(ctx, self, "keys", backwards=True)


class DictValue(MappingValue):
    """A dict."""

    __slots__ = ()

    def empty(self) -> Any:
        """A real, empty one of the same type, to learn what CPython raises."""
        return self.builtin()

    # changes --------------------------------------------------------------------------------------------------------
    def setitem(self, ctx: Context, key: Value, value: Value) -> None:
        self.put(ctx, hash_key(ctx, key), key, value)

    def put(self, ctx: Context, key: Hashable, key_value: Value, value: Value) -> None:
        content = dict(self.content)
        old = content.get(key)
        if old is None:
            content[key] = Entry(key_value, value)
        elif old.item is None:
            del content[key]
            content[key] = Entry(key_value, value, True)
        else:
            content[key] = old._replace(item=value)
        ctx.change(self, content)

    def delitem(self, ctx: Context, key: Value) -> None:
        real_key = hash_key(ctx, key)
        if self.find(ctx, real_key, key) is None:
            raise_key_error(ctx, key, self.empty().__delitem__)
        self.take(ctx, real_key, key)

    def take(self, ctx: Context, key: Hashable, key_value: Value) -> None:
        """Take out an item that is there."""
        content = dict(self.content)
        content.pop(key, None)
        if self.base is not None and self._from_base(ctx, key, key_value) is not None:
            content[key] = Entry(key_value, None)
        ctx.change(self, content)

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if inplace and op == "|":
            update(ctx, self, other)
            return self
        return super().binary(ctx, op, other)

    def method_setdefault(self, ctx: Context, key: Value, default: Value | None = None) -> Value:
        found = self.lookup(ctx, key)
        if found is None:
            found = constant(None) if default is None else default
            self.setitem(ctx, key, found)
        return found

    def method_pop(self, ctx: Context, key: Value, default: Value | None = None) -> Value:
        real_key = hash_key(ctx, key)
        found = self.find(ctx, real_key, key)
        if found is None:
            if default is None:
                raise_key_error(ctx, key, self.empty().pop)
            return default
        self.take(ctx, real_key, key)
        return found

    def method_popitem(self, ctx: Context) -> Value:
        return self._pop_at(ctx, -1, "popitem(): dictionary is empty")

    def _pop_at(self, ctx: Context, at: int, message: str) -> Value:
        entries = self.entries(ctx)
        if not entries:
            ctx.raise_(KeyError(message))
        key = list(entries)[at]
        entry = entries[key]
        self.take(ctx, key, entry.key)
        return TupleValue([entry.key, entry.item])

    def method_update(self, ctx: Context, other: Value | None = None, **kwargs: Value) -> Value:
        if other is not None:
            update(ctx, self, other)
        for name, value in kwargs.items():
            self.setitem(ctx, constant(name), value)
        return constant(None)

    def method_clear(self, ctx: Context) -> Value:
        self.entries(ctx)
        ctx.change(self, {})
        return constant(None)

    def method_fromkeys(self, ctx: Context, items: Value, value: Value | None = None) -> Value:
        item = constant(None) if value is None else value
        return new_dict(ctx, ((key, item) for key in each(ctx, items)))

    # the way out ----------------------------------------------------------------------------------------------------
    def reconstruct(self, out: ExitWriter) -> str:
        return out.fill(self, self.empty_text(out), lambda: self._filled(out))

    def empty_text(self, out: ExitWriter) -> str:
        return "{}" if self.builtin is dict else f"{out.hold(self.builtin)}()"

    def full_text(self, out: ExitWriter, items: str) -> str:
        return items if self.builtin is dict else f"{out.hold(self.builtin)}({items})"

    def _filled(self, out: ExitWriter) -> tuple[str, Callable[[str], Iterable[str]]]:
        pairs = [(out.text(entry.key), out.text(entry.item)) for entry in self.content.values()]
        items = "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        return self.full_text(out, items), lambda name: [f"{name}[{key}] = {item}" for key, item in pairs]

    def effects(self, out: ExitWriter) -> Iterable[str]:
        target = out.text(self)
        if self.base is None:
            yield from self._difference(out, target)
            return
        for entry in self.content.values():
            key = out.text(entry.key)
            if entry.item is None or entry.fresh:
                yield self.delete_text(out, target, key)
            if entry.item is not None:
                yield self.set_text(out, target, key, out.text(entry.item))

    def _difference(self, out: ExitWriter, target: str) -> Iterable[str]:
        """Statements that turn the original into the content: what keeps its place is only set where it changed."""
        original, kept = self.original, self._kept()
        if original and not kept:
            yield self.clear_text(out, target)
        else:
            gone = [entry for key, entry in original.items() if key not in kept]
            yield from [self.delete_text(out, target, out.text(entry.key)) for entry in gone]
        for key, entry in self.content.items():
            if key not in kept or entry.item is not original[key].item:
                yield self.set_text(out, target, out.text(entry.key), out.text(entry.item))

    def _kept(self) -> Entries:
        """The items at the beginning that stand where they stood."""
        kept: Entries = {}
        left = iter(self.original)
        for key, entry in self.content.items():
            if key not in self.original or self.original[key].key is not entry.key or key not in left:
                break
            kept[key] = entry
        return kept

    def changes_always(self, ctx: Context) -> bool:
        """Do its effects change the dict at every call?"""
        return True

    def set_text(self, out: ExitWriter, target: str, key: str, item: str) -> str:
        return f"{target}[{key}] = {item}"

    def delete_text(self, out: ExitWriter, target: str, key: str) -> str:
        return f"del {target}[{key}]"

    def clear_text(self, out: ExitWriter, target: str) -> str:
        return f"{target}.clear()"


def _overlaid(original: Entries, overlay: Entries) -> Entries:
    """The original after what was done to it."""
    content = dict(original)
    for key, entry in overlay.items():
        if entry.item is None:
            del content[key]
        elif entry.fresh or key not in content:
            content.pop(key, None)
            content[key] = Entry(entry.key, entry.item)
        else:
            content[key] = content[key]._replace(item=entry.item)
    return content


class MappingProxyValue(MappingValue):
    """A read-only view of a dict."""

    __slots__ = ()

    kind = "mappingproxy"
    builtin = MappingProxyType

    def setitem(self, ctx: Context, key: Value, value: Value) -> None:
        ctx.raise_(TypeError("'mappingproxy' object does not support item assignment"))

    def delitem(self, ctx: Context, key: Value) -> None:
        ctx.raise_(TypeError("'mappingproxy' object does not support item deletion"))


# making dicts -------------------------------------------------------------------------------------------------------
def entries_of(ctx: Context, pairs: Iterable[tuple[Value, Value]]) -> Entries:
    entries: Entries = {}
    for key_value, item in pairs:
        key = hash_key(ctx, key_value)
        old = entries.get(key)
        entries[key] = Entry(key_value if old is None else old.key, item)
    return entries


def new_dict(ctx: Context, pairs: Iterable[tuple[Value, Value]]) -> DictValue:
    """A new dict; a key that comes twice keeps its first place and takes its last value."""
    return ctx.born(DictValue(entries_of(ctx, pairs)))


def string_items(ctx: Context, value: Value) -> dict[str, Value]:
    """The items of `**value` in a call."""
    real = ctx.real(value)
    pairs = real.pairs(ctx)
    if pairs is None:
        real.refuse("operation is not supported", "** in a call")
    items = {}
    for key, item in pairs:
        name = ctx.real(key).as_python(ctx)
        if type(name) is not str:
            real.refuse("Python raises or warns here", "** in a call with keys that are no strings")
        items[name] = item
    return items


def update(ctx: Context, target: Value, other: Value) -> None:
    """`target.update(other)`: from a mapping, or from pairs."""
    real = ctx.real(other)
    pairs = real.pairs(ctx)
    if pairs is not None:
        for key, item in pairs:
            target.setitem(ctx, key, item)
        return
    of_user = hasattr(real, "special")
    if not of_user and not isinstance(real, (SequenceValue, SetValue, DictView, IteratorValue, GeneratorValue)):
        real.refuse("operation is not supported", "update() of a dict")
    for pair in each(ctx, real):
        parts = ctx.real(pair).unpack(ctx)
        if len(parts) != 2:
            real.refuse("Python raises or warns here", "update() of a dict with items that are no pairs")
        target.setitem(ctx, parts[0], parts[1])


@wraps(dict)
def build_dict(ctx: Context, obj: dict[Any, Any], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, dict)
    return DictValue({}, source, obj)


@wraps(MappingProxyType)
def build_proxy(ctx: Context, obj: MappingProxyType[Any, Any], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, MappingProxyType)
    return MappingProxyValue({}, source, obj)


PYTHON_RESULTS[dict] = lambda ctx, obj, leaf: new_dict(ctx, [(leaf(ctx, k), leaf(ctx, v)) for k, v in obj.items()])

__all__ = ["DictValue", "MappingValue", "new_dict", "new_set", "string_items"]
