"""The attributes of instances: reading, setting, deleting; their guards, effects, and building such an object anew."""

from __future__ import annotations

import keyword
import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..errors import GraphBreak
from ..guards import MISSING, Kind
from ..holding import type_dict, type_mro
from ..sources import Attr, Call, Item, Literal, Source
from .base import Mutable, Raised, Value
from .constants import ConstantValue, constant
from .lookup import (
    C_METHODS,
    CMethod,
    class_attribute,
    class_object,
    descriptor_value,
    find,
    get_from_instance,
    is_data_descriptor,
    overrides_reading,
    property_part,
)
from .mappings import DictValue, Entry

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

_ROOTS: tuple[Any, ...] = (
    object, BaseException, dict, OrderedDict, defaultdict, list, tuple, types.SimpleNamespace,
)  # fmt: skip
#: what reads, sets and deletes attributes the usual way: classes written in C have slots of their own for it
GENERIC_GETATTRIBUTE = frozenset(cls.__getattribute__ for cls in _ROOTS)
GENERIC_SETATTR = frozenset(cls.__setattr__ for cls in _ROOTS)
GENERIC_DELATTR = frozenset(cls.__delattr__ for cls in _ROOTS)
#: by such a slot: that of `object`, which does the same
GENERIC_ATTRIBUTES: dict[Any, Any] = {
    **dict.fromkeys(GENERIC_GETATTRIBUTE, object.__getattribute__),
    **dict.fromkeys(GENERIC_SETATTR, object.__setattr__),
    **dict.fromkeys(GENERIC_DELATTR, object.__delattr__),
}


class DeletedValue(Value):
    """Marks a slot that was emptied."""

    __slots__ = ()

    kind = "deleted attribute"


DELETED = DeletedValue()


#: what a class has under `__dict__` where its instances have one; SimpleNamespace keeps it in a slot
_DICT_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def own_dict(obj: object) -> dict[str, Any] | None:
    """The instance's dict, past any property of that name; None where it has none."""
    raw = find(type(obj), "__dict__")
    return raw.__get__(obj) if type(raw) in _DICT_DESCRIPTORS else None


def dict_source(obj: object, source: Source, ctx: Context) -> Source:
    if find(type(obj), "__getattribute__") in GENERIC_GETATTRIBUTE:
        return Attr(source, "__dict__")
    return Call(ctx.hold(object.__getattribute__), (source, Literal("__dict__")))


class InstanceDict(DictValue):
    """The `__dict__` of an object: its attributes. From outside they are read, and repeated, as attributes."""

    __slots__ = ("owner",)

    kind = "instance dict"

    def __init__(self, owner: ObjectAttributes, source: Source | None = None, base: Any = None) -> None:
        super().__init__({}, source, base)
        self.owner = owner

    def _look(self, ctx: Context, key: Hashable) -> Value | None:
        found = super()._look(ctx, key)
        if found is None or not isinstance(key, str):
            return found
        return ctx.wrap(self.base[key], self.owner.attribute_source(ctx, key))

    def _read(self, ctx: Context, base: Any) -> None:
        for key in base:
            self._from_base(ctx, key, constant(key))
        super()._read(ctx, base)

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(own_dict)}({out.text(self.owner)})"

    def effects(self, out: ExitWriter) -> Iterable[str]:
        if self.base is None or find(self.owner.cls, "__getattribute__") not in GENERIC_GETATTRIBUTE:
            yield from super().effects(out)
            return
        target = out.text(self.owner)
        for key, entry in self.content.items():
            if entry.item is None or entry.fresh:
                yield f"del {target}.__dict__[{key!r}]"
            if entry.item is not None:
                yield self._store(out, target, key, entry)

    def changes_always(self, ctx: Context) -> bool:
        """Do its effects store at every call, not only where another constant was there?"""
        return not self.owner.is_watched or any(
            entry.item is None
            or entry.fresh
            or not isinstance(value := ctx.real(entry.item), ConstantValue)
            or value.source is not None
            for entry in self.content.values()
        )

    def _store(self, out: ExitWriter, target: str, key: Any, entry: Entry) -> str:
        text = out.text(entry.item)
        if entry.fresh or not self.owner.is_watched or not isinstance(out.ctx.real(entry.item), ConstantValue):
            return self.owner.store_text(out, target, key, text)
        return f"{out.hold(store_another)}({target}, {key!r}, {text})"


class ObjectAttributes(Mutable):
    """An object with attributes. `content` holds what the region put into its slots, by their descriptors."""

    __slots__ = ("attributes", "cls", "object")

    has_identity = True
    #: Stores into its dict are told, even of what is there already: nn.Module.
    is_watched: ClassVar[bool] = False

    def __init__(self, cls: type, obj: Any = None, source: Source | None = None) -> None:
        super().__init__({}, source)
        self.cls = cls
        #: the real object, for one from outside
        self.object = obj
        #: made when it is first needed
        self.attributes: InstanceDict | None = None

    def instance_dict(self, ctx: Context) -> InstanceDict | None:
        """Its `__dict__`; None for an object without one."""
        if self.attributes is None and type(find(self.cls, "__dict__")) in _DICT_DESCRIPTORS:
            if self.source is None:
                self.attributes = InstanceDict(self)
                self.attributes.born = self.born
            else:
                real = own_dict(self.object)
                if type(real) is not dict:
                    self.refuse("attribute cannot be read", "__dict__, which is no plain dict,")
                self.attributes = InstanceDict(self, dict_source(self.object, self.source, ctx), real)
                ctx.know(real, self.attributes)
            ctx.on_rollback(lambda: setattr(self, "attributes", None))
        return self.attributes

    def __str__(self) -> str:
        return f"{self.cls.__name__} object {self.source or ''}".rstrip()

    @property
    def type_name(self) -> str:
        """What CPython calls the class in its messages."""
        return self.cls.__name__

    def python_type(self, ctx: Context) -> type:
        return self.cls

    def as_python(self, ctx: Context) -> Any:
        if self.source is None:
            self.refuse("value is known at run time only")
        ctx.guard(Kind.IS, self.source, self.object)
        return self.object

    def is_same(self, ctx: Context, other: Value) -> bool:
        if self.source is not None and other.source is not None and other.python_type(ctx) is self.cls:
            ctx.guard(Kind.NOT_ALIAS, self.source, other.source)
        return False

    # reading --------------------------------------------------------------------------------------------------------
    def getattr(self, ctx: Context, name: str) -> Value:
        try:
            found = self._getattribute(ctx, name)
        except Raised as raised:
            if not (issubclass(raised.value.python_type(ctx), AttributeError) and self.has_fallback(ctx)):
                raise
            found = None
        return self.fallback(ctx, name) if found is None else found

    def _getattribute(self, ctx: Context, name: str) -> Value | None:
        getter = class_attribute(ctx, self.cls, "__getattribute__")
        if getter in GENERIC_GETATTRIBUTE:
            return self.lookup(ctx, name)
        if type(getter) is not types.FunctionType:
            raise GraphBreak("attribute cannot be read", f"__getattribute__ of {self} is written in C")
        return ctx.real(ctx.wrap(getter, ctx.hold(getter))).call(ctx, [self, constant(name)], {})

    def lookup(self, ctx: Context, name: str) -> Value | None:
        """What `object.__getattribute__` finds, or None."""
        raw = class_attribute(ctx, self.cls, name)
        if raw is not MISSING and overrides_reading(ctx, raw):
            return get_from_instance(ctx, raw, name, self, self.cls)
        found = self.own(ctx, name)
        if found is not None:
            return found
        return None if raw is MISSING else get_from_instance(ctx, raw, name, self, self.cls)

    def own(self, ctx: Context, name: str) -> Value | None:
        """The attribute in the instance's dict."""
        attributes = self.instance_dict(ctx)
        return None if attributes is None else attributes.find(ctx, name, constant(name))

    def attribute_source(self, ctx: Context, name: str) -> Source:
        """Where the instance's own attribute is read: by its name where that cannot run code of the user's."""
        assert self.source is not None
        raw = find(self.cls, name)
        plain = find(self.cls, "__getattribute__") in GENERIC_GETATTRIBUTE and is_attribute_name(name)
        if plain and not self.fallback_runs_code() and (raw is MISSING or not is_data_descriptor(ctx, raw)):
            return Attr(self.source, name)
        return Item(dict_source(self.object, self.source, ctx), name)

    def fallback_runs_code(self) -> bool:
        """Could reading an attribute that has gone run code of the user's?"""
        return find(self.cls, "__getattr__") is not MISSING

    def has_fallback(self, ctx: Context) -> bool:
        return class_attribute(ctx, self.cls, "__getattr__") is not MISSING

    def fallback(self, ctx: Context, name: str) -> Value:
        """`__getattr__`, which Python asks last."""
        raw = class_attribute(ctx, self.cls, "__getattr__")
        if raw is MISSING:
            self.raise_missing(ctx, name)
        return ctx.real(get_from_instance(ctx, raw, "__getattr__", self, self.cls)).call(ctx, [constant(name)], {})

    def raise_missing(self, ctx: Context, name: str) -> NoReturn:
        ctx.raise_(AttributeError(f"{self.type_name!r} object has no attribute {name!r}"))

    def read_c_attribute(self, ctx: Context, raw: Any) -> Value:
        """A slot, or what `object` itself has."""
        name = raw.__name__
        if name == "__class__":
            return class_object(ctx, self.cls)
        if name == "__dict__" and (attributes := self.instance_dict(ctx)) is not None:
            return attributes
        if type(raw) is not types.MemberDescriptorType or find(self.cls, name) is not raw:
            self.refuse("attribute cannot be read", f".{name}")
        found = self.content.get(raw)
        if found is None and self.object is not None:
            found = self._slot_from_outside(ctx, raw)
        if found is None or found is DELETED:
            self.raise_missing(ctx, name)
        return found

    def _slot_from_outside(self, ctx: Context, raw: types.MemberDescriptorType) -> Value | None:
        assert self.source is not None
        name = raw.__name__
        try:
            real = raw.__get__(self.object)
        except AttributeError:
            real = MISSING
        ctx.guard(Kind.EXPRESSION, Call(ctx.hold(hasattr), (self.source, Literal(name))), real is not MISSING)
        return None if real is MISSING else ctx.wrap(real, Attr(self.source, name))

    # setting and deleting -------------------------------------------------------------------------------------------
    def setattr(self, ctx: Context, name: str, value: Value) -> None:
        setter = class_attribute(ctx, self.cls, "__setattr__")
        if setter in GENERIC_SETATTR:
            self.generic_setattr(ctx, name, value)
        elif type(setter) is types.FunctionType:
            ctx.real(ctx.wrap(setter, ctx.hold(setter))).call(ctx, [self, constant(name), value], {})
        elif type(setter) in C_METHODS:
            CMethod(setter, self).call(ctx, [constant(name), value], {})
        else:
            self.refuse("attribute cannot be set", f".{name}")

    def generic_setattr(self, ctx: Context, name: str, value: Value) -> None:
        raw = class_attribute(ctx, self.cls, name)
        if raw is MISSING or not self._through_descriptor(ctx, raw, name, "__set__", [value]):
            self.store_own(ctx, name, value)

    def _through_descriptor(self, ctx: Context, raw: Any, name: str, verb: str, args: list[Value]) -> bool:
        """Set or delete through a data descriptor; False where the attribute is none."""
        kind = type(raw)
        if not is_data_descriptor(ctx, raw):
            return False
        acts = issubclass(kind, property) and class_attribute(ctx, kind, verb) is find(property, verb)
        if acts:  # a subclass of property may leave this as it is
            function = property_part(raw, "fset" if verb == "__set__" else "fdel")
            if function is None:
                word = "setter" if verb == "__set__" else "deleter"
                ctx.raise_(AttributeError(f"property {name!r} of {self.cls.__qualname__!r} object has no {word}"))
            ctx.real(ctx.wrap(function, ctx.hold(function))).call(ctx, [self, *args], {})
        elif kind in (types.MemberDescriptorType, types.GetSetDescriptorType):
            self.write_c_attribute(ctx, raw, args[0] if args else DELETED)
        else:
            function = class_attribute(ctx, kind, verb)
            if type(function) is not types.FunctionType:
                self.refuse("attribute cannot be set", f".{name}")
            descriptor = descriptor_value(ctx, self.cls, name, raw)
            ctx.real(ctx.wrap(function, ctx.hold(function))).call(ctx, [descriptor, self, *args], {})
        return True

    def write_c_attribute(self, ctx: Context, raw: Any, value: Value) -> None:
        """Fill or empty (DELETED) a slot."""
        if type(raw) is not types.MemberDescriptorType or find(self.cls, raw.__name__) is not raw:
            self.refuse("attribute cannot be set", f".{raw.__name__}")
        if value is DELETED:
            self.read_c_attribute(ctx, raw)
        self._check_changeable(ctx)
        ctx.change(self, {**self.content, raw: value})

    def store_own(self, ctx: Context, name: str, value: Value) -> None:
        """Put the attribute into the instance's dict."""
        attributes = self.instance_dict(ctx)
        if attributes is None:
            self._raise_unsettable(ctx, name)
        self._check_changeable(ctx)
        attributes.put(ctx, name, constant(name), value)

    def _raise_unsettable(self, ctx: Context, name: str) -> NoReturn:
        """An object without a dict: the error that CPython raises for a class of that name."""
        own = {} if find(self.cls, name) is MISSING else {name: 1}
        try:
            setattr(type(self.cls.__name__, (), {"__slots__": (), **own})(), name, 1)
        except AttributeError as error:
            ctx.raise_(AttributeError(*error.args))
        self.refuse("attribute cannot be set", f".{name}")

    def _check_changeable(self, ctx: Context) -> None:
        if class_attribute(ctx, self.cls, "__del__") is not MISSING:
            self.refuse("object has a finalizer", "change")

    def delattr(self, ctx: Context, name: str) -> None:
        deleter = class_attribute(ctx, self.cls, "__delattr__")
        if deleter in GENERIC_DELATTR:
            self.generic_delattr(ctx, name)
        elif type(deleter) is types.FunctionType:
            ctx.real(ctx.wrap(deleter, ctx.hold(deleter))).call(ctx, [self, constant(name)], {})
        elif type(deleter) in C_METHODS:
            CMethod(deleter, self).call(ctx, [constant(name)], {})
        else:
            self.refuse("attribute cannot be set", f"deleting .{name}")

    def generic_delattr(self, ctx: Context, name: str) -> None:
        raw = class_attribute(ctx, self.cls, name)
        if raw is not MISSING and self._through_descriptor(ctx, raw, name, "__delete__", []):
            return
        attributes = self.instance_dict(ctx)
        if attributes is None or self.own(ctx, name) is None:
            self.raise_missing(ctx, name)
        self._check_changeable(ctx)
        attributes.take(ctx, name, constant(name))

    # the way out ----------------------------------------------------------------------------------------------------
    def effects(self, out: ExitWriter) -> Iterable[str]:
        """The slots; the dict's effects are its own."""
        target = out.text(self)
        for raw, value in self.content.items():
            if value is DELETED:
                if _is_filled(raw, self.object):
                    yield f"{out.hold(object.__delattr__)}({target}, {raw.__name__!r})"
            else:
                yield self.store_text(out, target, raw.__name__, out.text(value))

    def store_text(self, out: ExitWriter, target: str, name: str, value: str) -> str:
        """A statement that stores plainly, whatever the class makes of setting an attribute."""
        raw = find(self.cls, name)
        hidden = type(raw) is not types.MemberDescriptorType and hasattr(type(raw), "__set__")
        if hidden or not is_attribute_name(name):
            return f"{out.hold(own_dict)}({target})[{name!r}] = {value}"
        if find(self.cls, "__setattr__") in GENERIC_SETATTR:
            return f"{target}.{name} = {value}"
        return f"{out.hold(object.__setattr__)}({target}, {name!r}, {value})"

    def reconstruct(self, out: ExitWriter) -> str:
        empty = f"{out.hold(object.__new__)}({out.hold(self.cls)})"
        return out.fill(self, empty, lambda: self._filled(out, empty))

    def _filled(self, out: ExitWriter, empty: str) -> tuple[str, Callable[[str], Iterable[str]]]:
        parts = self.own_texts(out)
        if not parts:
            return empty, lambda name: []
        fill, attributes = out.hold(filled), ", ".join(parts)
        return f"{fill}({empty}, {{{attributes}}})", lambda name: [f"{fill}({name}, {{{attributes}}})"]

    def own_texts(self, out: ExitWriter) -> list[str]:
        """`name: value` for each attribute that Python code put into a new object."""
        slots = [
            (raw.__name__, value)
            for raw, value in self.content.items()
            if value is not DELETED and not issubclass(raw.__objclass__, BaseException)
        ]
        own = [] if self.attributes is None else [(k, entry.item) for k, entry in self.attributes.content.items()]
        return [f"{name!r}: {out.text(value)}" for name, value in slots + own]


def store_another(obj: Any, name: str, value: object) -> None:
    """Store an attribute plainly, unless it is this very object already."""
    own: dict[str, Any] = object.__getattribute__(obj, "__dict__")
    if own.get(name, MISSING) is not value:
        own[name] = value


_dict_only: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def _has_dict_only(cls: type) -> bool:
    """Have its instances a plain dict, and no slots?"""
    known = _dict_only.get(cls)
    if known is None:
        raws = [raw for base in type_mro(cls) for raw in type_dict(base).values()]
        slots = any(type(raw) is types.MemberDescriptorType for raw in raws)
        known = _dict_only[cls] = not slots and type(find(cls, "__dict__")) is types.GetSetDescriptorType
    return known


def filled(obj: Any, attributes: dict[str, Any]) -> Any:
    """The object with these attributes in its dict and slots, past anything that its class does at setting one."""
    if _has_dict_only(type(obj)):
        object.__getattribute__(obj, "__dict__").update(attributes)
        return obj
    own = own_dict(obj)
    for name, value in attributes.items():
        raw = find(type(obj), name)
        if type(raw) is types.MemberDescriptorType:
            raw.__set__(obj, value)
        elif own is not None:
            own[name] = value
    return obj


def _is_filled(slot: types.MemberDescriptorType, obj: object) -> bool:
    try:
        slot.__get__(obj)
    except AttributeError:
        return False
    return True


def is_attribute_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)
