"""Instances of Python classes that inherit from dict, OrderedDict or list: transformers' ModelOutput, registries.

Such an object is an object with attributes, whose class may override anything, and a *part*: what C code keeps of it.
Methods of the builtin class, which the class's own ones call through `super()`, work on the part alone, past whatever
the class overrides; in the region's text they are called by their slot wrappers (`dict.__setitem__(x, key, item)`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import GraphBreak
from ..guards import MISSING, Kind
from ..sources import Call, Item, Literal, Source
from .attributes import filled
from .base import Value, wraps
from .builtin_methods import VERBS
from .constants import ConstantValue, constant
from .dict_kinds import OrderedDictValue
from .lookup import class_attribute, find, layout_root
from .mappings import DictValue, new_dict, update
from .objects import BINARY_NAMES, COMPARE_NAMES, ObjectValue, OpaqueValue, check_creation, known
from .sequences import ListValue

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

_SIGNS = {f"__{name}__": sign for sign, name in BINARY_NAMES.items()}
_INPLACE = {f"__i{name}__": sign for sign, name in BINARY_NAMES.items()}
_REFLECTED = {f"__r{name}__": sign for sign, name in BINARY_NAMES.items()}
_COMPARE = {name: sign for sign, name in COMPARE_NAMES.items()}
#: methods of OrderedDict that go through the methods of the object's own class, by those which they may call
_CALLS_BACK = frozenset(["setdefault", "pop", "popitem", "copy", "__or__", "__ror__", "__ior__", "__eq__", "__ne__"])
_CALLED_BACK = ("__getitem__", "__setitem__", "__delitem__", "__contains__", "keys", "items")
#: they make an object of the object's own class
_OF_OWN_CLASS = {OrderedDict: frozenset(["copy", "__or__", "__ror__"]), dict: frozenset[str](), list: frozenset[str]()}


class Part:
    """What the builtin class keeps of an object: mixed into the value of a builtin container."""

    __slots__ = ()

    owner: ContainerObject
    builtin: ClassVar[Any]
    source: Source | None

    def python_type(self, ctx: Context) -> type:
        return self.owner.cls

    def length(self, ctx: Context) -> Value:
        """Counted by the builtin class."""
        base = getattr(self, "base", None)
        if base is None or self.content or self.source is None:  # type: ignore[attr-defined]
            return super().length(ctx)  # type: ignore[misc]
        count = self.builtin.__len__
        return ConstantValue(count(base), Call(ctx.hold(count), (self.source,)))

    def item_source(self, ctx: Context, key: Any) -> Source:
        plain = super().item_source(ctx, key)  # type: ignore[misc]
        if class_attribute(ctx, self.owner.cls, "__getitem__") is find(self.builtin, "__getitem__"):
            return plain
        assert self.source is not None
        at = Literal(key) if isinstance(plain, Item) else plain.key
        return Call(ctx.hold(self.builtin.__getitem__, "getitem"), (self.source, at))

    def target(self, out: ExitWriter) -> str:
        return out.text(self.owner)

    def base_call(self, out: ExitWriter, name: str, *arguments: str) -> str:
        """A call of the builtin class's own method."""
        return f"{out.hold(getattr(self.builtin, name), name)}({', '.join([self.target(out), *arguments])})"

    def reconstruct(self, out: ExitWriter) -> str:
        return self.target(out)


class DictPart(Part, DictValue):
    """Of a subclass of dict."""

    __slots__ = ("owner",)

    builtin = dict

    def __init__(self, owner: ContainerObject) -> None:
        obj, keys = owner.object, self.builtin.__iter__
        # A plain copy, which no method of the class changes the look of.
        super().__init__({}, owner.source, None if obj is None else {k: dict.__getitem__(obj, k) for k in keys(obj)})
        self.owner = owner

    def missing(self, ctx: Context, key: Value) -> Value:
        if class_attribute(ctx, self.owner.cls, "__missing__") is not MISSING:
            return self.owner.call_special(ctx, "__missing__", key)
        return super().missing(ctx, key)

    def _look_for_object(self, ctx: Context, key_value: Value) -> Value | None:
        cls = self.owner.cls
        if any(class_attribute(ctx, cls, n) is not find(dict, n) for n in ("__contains__", "__getitem__")):
            self.refuse("key is not supported")
        return super()._look_for_object(ctx, key_value)

    def view_text(self, out: ExitWriter, which: str) -> str:
        return self.base_call(out, which)

    def store_text(self, out: ExitWriter, target: str, key: str, item: str) -> str:
        return self.base_call(out, "__setitem__", key, item)

    def delete_text(self, out: ExitWriter, target: str, key: str) -> str:
        return self.base_call(out, "__delitem__", key)

    def clear_text(self, out: ExitWriter, target: str) -> str:
        return self.base_call(out, "clear")


class OrderedDictPart(DictPart, OrderedDictValue):
    """Of a subclass of OrderedDict."""

    __slots__ = ()

    builtin = OrderedDict


class ListPart(Part, ListValue):
    """Of a subclass of list."""

    __slots__ = ("owner",)

    def __init__(self, owner: ContainerObject) -> None:
        obj = owner.object
        super().__init__([], owner.source, None if obj is None else list.__getitem__(obj, slice(None)))
        self.owner = owner

    def getitem(self, ctx: Context, key: Value) -> Value:
        self.items(ctx)
        return super().getitem(ctx, key)

    def iterator_text(self, out: ExitWriter, function: Callable[..., Any]) -> str:
        return self.base_call(out, "__iter__" if function is iter else "__reversed__")

    def effects(self, out: ExitWriter) -> Iterable[str]:
        items = [out.text(item) for item in self.content]
        if self.base is not None:
            yield self.base_call(out, "extend", f"[{', '.join(items)}]")
        else:
            yield self.base_call(out, "__setitem__", f"{out.hold(slice)}(None)", f"[{', '.join(items)}]")


class ContainerObject(ObjectValue):
    """An object of such a class."""

    __slots__ = ("part", "root")

    kind = "object"

    def __init__(self, cls: type, root: type, obj: Any = None, source: Source | None = None) -> None:
        super().__init__(cls, obj, source)
        self.root = root
        self.part: Any = _PARTS[root](self)

    def call_c_method(self, ctx: Context, raw: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if raw.__objclass__ is object or not issubclass(self.root, raw.__objclass__):
            return super().call_c_method(ctx, raw, args, kwargs)
        name = raw.__name__
        if name in ("__init__", "update") and self.root is not list:
            return self._fill(ctx, args, kwargs, by_own_class=raw.__objclass__ is OrderedDict)
        if name in ("__setattr__", "__getattribute__", "__delattr__"):
            return super().call_c_method(ctx, getattr(object, name), args, kwargs)
        if name in _OF_OWN_CLASS[raw.__objclass__] or (raw.__objclass__ is OrderedDict and self._calls_back(ctx, name)):
            raise GraphBreak("method written in C is called", f"{raw.__qualname__}() of {self}")
        return self._on_part(ctx, raw, args, kwargs)

    def _calls_back(self, ctx: Context, name: str) -> bool:
        if name not in _CALLS_BACK:
            return False
        return any(class_attribute(ctx, self.cls, n) is not find(self.root, n) for n in _CALLED_BACK)

    def _on_part(self, ctx: Context, raw: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        name, part = raw.__name__, self.part
        if name == "__init__":  # a list's
            if len(args) > 1 or kwargs:
                raise GraphBreak("arguments do not fit the call", f"list.__init__() of {self}")
            part.method_clear(ctx)
            return part.method_extend(ctx, args[0]) if args else constant(None)
        if name in VERBS or hasattr(type(part), f"method_{name}"):
            return part.getattr(ctx, name).call(ctx, args, kwargs)
        if len(args) == 1 and not kwargs:
            result = self._operator(ctx, name, part_of(ctx.real(args[0])))
            if result is not None:
                return self if result is part else result
        raise GraphBreak("method written in C is called", f"{raw.__qualname__}() of {self}")

    def _operator(self, ctx: Context, name: str, other: Value) -> Value | None:
        if name in _COMPARE:
            return self.part.compare(ctx, _COMPARE[name], other) or constant(NotImplemented)
        if name in _SIGNS:
            return self.part.binary(ctx, _SIGNS[name], other) or constant(NotImplemented)
        if name in _REFLECTED:
            return self.part.reflected(ctx, _REFLECTED[name], other) or constant(NotImplemented)
        return self.part.binary(ctx, _INPLACE[name], other, inplace=True) if name in _INPLACE else None

    def _fill(self, ctx: Context, args: list[Value], kwargs: dict[str, Value], *, by_own_class: bool) -> Value:
        """`update` and `__init__`: a dict stores what is given itself, an OrderedDict through `self[key] = item`."""
        if len(args) > 1:
            raise GraphBreak("arguments do not fit the call", f"update() of {self}")
        given = new_dict(ctx, [])
        if args:
            update(ctx, given, args[0])
        for name, value in kwargs.items():
            given.setitem(ctx, constant(name), value)
        receiver = self if by_own_class else self.part
        for key, item in given.pairs(ctx):
            receiver.setitem(ctx, key, item)
        return constant(None)

    def pairs_for_update(self, ctx: Context) -> list[tuple[Value, Value]] | None:
        """C code takes the part's items where the class leaves iterating alone, else it asks the object."""
        if self.root is dict and class_attribute(ctx, self.cls, "__iter__") is find(dict, "__iter__"):
            return self.part.pairs(ctx)
        return super().pairs_for_update(ctx)

    # the way out ----------------------------------------------------------------------------------------------------
    def reconstruct(self, out: ExitWriter) -> str:
        empty = f"{out.hold(self.root.__new__)}({out.hold(self.cls)})"
        return out.fill(self, empty, lambda: self._rebuilt(out, empty))

    def _rebuilt(self, out: ExitWriter, empty: str) -> tuple[str, Callable[[str], Iterable[str]]]:
        attributes = f"{{{', '.join(self.own_texts(out))}}}"
        part = self.part
        if self.root is list:
            items = f"[{', '.join(out.text(item) for item in part.content)}]"
        else:
            pairs = [(out.text(entry.key), out.text(entry.item)) for entry in part.content.values()]
            items = "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        fill, content = out.hold(container_filled), f"{attributes}, {items}"
        return f"{fill}({empty}, {content})", lambda name: [f"{fill}({name}, {content})"]


def container_filled(obj: Any, attributes: dict[str, Any], items: Any) -> Any:
    """A bare object given its attributes and items, past anything that its class does at setting one."""
    filled(obj, attributes)
    if isinstance(obj, list):
        list.extend(obj, items)
    else:
        store = OrderedDict.__setitem__ if isinstance(obj, OrderedDict) else dict.__setitem__
        for key, item in items.items():
            store(obj, key, item)
    return obj


def part_of(value: Value) -> Value:
    """What C code finds in an operand: of such an object, its part."""
    return value.part if isinstance(value, ContainerObject) else value


_PARTS: dict[type, Any] = {dict: DictPart, OrderedDict: OrderedDictPart, list: ListPart}


@known(dict.__new__)
@known(list.__new__)
def container_new(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`dict.__new__(cls, ...)`, `list.__new__(cls, ...)`: more arguments are for `__init__`."""
    cls: Any = ctx.real(args[0]).as_python(ctx) if args else None
    root = layout_root(cls) if isinstance(cls, type) else None
    if root is None or root not in _PARTS or cls in _PARTS:
        raise GraphBreak("object is made by C code", str(args[0]) if args else "__new__()")
    check_creation(ctx, cls, root)
    return ctx.born(ContainerObject(cls, root))


@wraps(dict, family=True)
@wraps(list, family=True)
def build_container_object(ctx: Context, obj: Any, source: Source) -> Value:
    cls = type(obj)
    ctx.guard(Kind.TYPE, source, cls)
    root = layout_root(cls)
    return OpaqueValue(obj, source) if root is None or root not in _PARTS else ContainerObject(cls, root, obj, source)
