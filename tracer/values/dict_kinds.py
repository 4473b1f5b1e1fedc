"""Ordered and default dicts."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

from ..guards import Kind
from ..sources import Attr, Call, Source
from .base import Value, wraps
from .constants import ConstantValue, constant
from .hashing import hash_key, raise_key_error
from .mappings import DictValue, Entries, MappingValue, entries_of, update
from .stepping import each

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class OrderedDictValue(DictValue):
    """A collections.OrderedDict. Unlike a dict it has attributes, such as torch sets on what `state_dict()` gives."""

    __slots__ = ("__dict__",)  # a slot more would clash with those of its subclass for instances of subclasses

    kind = "OrderedDict"
    builtin = OrderedDict

    def __init__(self, entries: Entries, source: Source | None = None, base: Any = None) -> None:
        super().__init__(entries, source, base)
        #: what was set on one that was made in the region
        self.attributes: dict[str, Value] = {}

    def getattr(self, ctx: Context, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if self.source is None or hasattr(OrderedDict, name):
            return super().getattr(ctx, name)
        there = name in vars(self.base)
        ctx.guard(Kind.HAS_KEY if there else Kind.LACKS_KEY, Attr(self.source, "__dict__"), name)
        return ctx.wrap_attribute(self.base, self, name) if there else super().getattr(ctx, name)

    def setattr(self, ctx: Context, name: str, value: Value) -> None:
        if self.source is not None or hasattr(OrderedDict, name):
            super().setattr(ctx, name, value)
        self._set_attributes(ctx, {**self.attributes, name: value})

    def delattr(self, ctx: Context, name: str) -> None:
        if name not in self.attributes:
            super().delattr(ctx, name)
        self._set_attributes(ctx, {other: value for other, value in self.attributes.items() if other != name})

    def _set_attributes(self, ctx: Context, attributes: dict[str, Value]) -> None:
        before = self.attributes
        ctx.on_rollback(lambda: object.__setattr__(self, "attributes", before))
        self.attributes = attributes

    def has_attributes(self, ctx: Context) -> bool:
        """Was any set on it?"""
        if self.source is None:
            return bool(self.attributes)
        if not vars(self.base):
            ctx.guard(Kind.LENGTH, Attr(self.source, "__dict__"), 0)
        return bool(vars(self.base))

    def reconstruct(self, out: ExitWriter) -> str:
        text = super().reconstruct(out)
        for name, value in self.attributes.items():
            out.statement(f"{out.hold(setattr)}({text}, {name!r}, {out.text(value)})")
        return text

    def joined(self, ctx: Context, left: MappingValue, right: MappingValue) -> Value:
        result = ctx.born(OrderedDictValue({}))
        for mapping in (left, right):
            update(ctx, result, mapping)
        return result

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        return self.joined(ctx, other, self) if op == "|" and isinstance(other, DictValue) else None

    def _equals(self, ctx: Context, other: MappingValue) -> bool:
        same = super()._equals(ctx, other)
        return same and (not isinstance(other, OrderedDictValue) or list(self.entries(ctx)) == list(other.entries(ctx)))

    def method_fromkeys(self, ctx: Context, items: Value, value: Value | None = None) -> Value:
        return from_keys(ctx, OrderedDict, items, value)

    def method_copy(self, ctx: Context) -> Value:
        return ctx.born(OrderedDictValue(entries_of(ctx, self.pairs(ctx))))

    def method_popitem(self, ctx: Context, last: Value | None = None, **named: Value) -> Value:
        if set(named) - {"last"}:
            self.refuse("arguments do not fit the call")
        last = named.get("last", last)
        at = -1 if last is None or ctx.real(last).truth(ctx) else 0
        return self._pop_at(ctx, at, "dictionary is empty")

    def method_move_to_end(self, ctx: Context, key: Value, last: Value | None = None, **named: Value) -> Value:
        if set(named) - {"last"}:
            self.refuse("arguments do not fit the call")
        last = named.get("last", last)
        real_key = hash_key(ctx, key)
        content = dict(self.entries(ctx))
        if real_key not in content:
            raise_key_error(ctx, key, OrderedDict[Any, Any]().move_to_end)
        entry = content.pop(real_key)
        # Another Entry with another key value: a key that only kept its place is told by its value.
        if last is None or ctx.real(last).truth(ctx):
            content[real_key] = entry
        else:
            content = {real_key: entry, **content}
        ctx.change(self, content)
        return constant(None)


class DefaultDictValue(DictValue):
    """A collections.defaultdict."""

    __slots__ = ("factory",)

    kind = "defaultdict"
    builtin = defaultdict

    def __init__(self, factory: Value, entries: Entries, source: Source | None = None, base: Any = None) -> None:
        super().__init__(entries, source, base)
        self.factory = factory

    def missing(self, ctx: Context, key: Value) -> Value:
        factory = ctx.real(self.factory)
        if isinstance(factory, ConstantValue) and factory.value is None:
            raise_key_error(ctx, key)
        value = factory.call(ctx, [], {})
        self.setitem(ctx, key, value)
        return value

    def getattr(self, ctx: Context, name: str) -> Value:
        return self.factory if name == "default_factory" else super().getattr(ctx, name)

    def _as_type(self, pairs: list[tuple[Any, Any]]) -> Any:
        self.refuse("value is known at run time only")

    def joined(self, ctx: Context, left: MappingValue, right: MappingValue) -> Value:
        result = ctx.born(DefaultDictValue(self.factory, {}))
        for mapping in (left, right):
            update(ctx, result, mapping)
        return result

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        return self.joined(ctx, other, self) if op == "|" and isinstance(other, DictValue) else None

    def method_copy(self, ctx: Context) -> Value:
        return ctx.born(DefaultDictValue(self.factory, entries_of(ctx, self.pairs(ctx))))

    def method_fromkeys(self, ctx: Context, items: Value, value: Value | None = None) -> Value:
        self.refuse("operation is not supported", "fromkeys()")

    def empty_text(self, out: ExitWriter) -> str:
        return f"{out.hold(defaultdict)}({out.text(self.factory)})"

    def full_text(self, out: ExitWriter, items: str) -> str:
        return f"{out.hold(defaultdict)}({out.text(self.factory)}, {items})"


def from_keys(ctx: Context, cls: type, items: Value, value: Value | None) -> Value:
    """`cls.fromkeys(items, value)`"""
    item = constant(None) if value is None else value
    entries = entries_of(ctx, ((key, item) for key in each(ctx, items)))
    return ctx.born(OrderedDictValue(entries) if cls is OrderedDict else DictValue(entries))


@wraps(OrderedDict)
def build_ordered_dict(ctx: Context, obj: OrderedDict[Any, Any], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, OrderedDict)
    return OrderedDictValue({}, source, obj)


@wraps(defaultdict)
def build_default_dict(ctx: Context, obj: defaultdict[Any, Any], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, defaultdict)
    factory = ctx.wrap(obj.default_factory, Call(ctx.hold(factory_of), (source,)))
    return DefaultDictValue(factory, {}, source, obj)


def factory_of(mapping: defaultdict[Any, Any]) -> Any:
    return mapping.default_factory
