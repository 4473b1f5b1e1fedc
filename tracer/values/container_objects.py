"""Instances of user classes that inherit from dict, OrderedDict, defaultdict, list or tuple.

Such an object is two things: attributes and special methods like any user's object, and a *part*, the builtin container
that C code keeps in it. Methods written in C act on the part; where CPython's own code asks the class's methods
(`OrderedDict.update` stores by `__setitem__`), so is done here. From outside the part is read from a plain copy that C
code makes (`builtin_part`) where the class overrides how it is read, so that neither guards nor fetches run user code;
effects store into the object itself, by the builtin class's methods.
"""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import MISSING, Kind
from ..sources import Call, Item, Source
from .attributes import GENERIC_ATTRIBUTES, filled
from .base import Value, wraps
from .builtin_methods import VERBS, BuiltinMethod
from .builtin_registry import builtin_class_method, call_builtin
from .constants import call_pure, constant, plain
from .container_parts import PARTS, ListPart, TuplePart, builtin_part, refilled
from .lookup import class_attribute, find, layout_root
from .mappings import new_dict, update
from .objects import COMPARE_NAMES, ObjectValue, OpaqueValue, check_creation

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter, Filler

#: what guards and fetches ask an object for
_READING = ("__getitem__", "__contains__", "__iter__", "__len__", "__missing__", "keys", "items", "values")
_FACTORY: Any = defaultdict.__dict__["default_factory"]


class ContainerObject(ObjectValue):
    """An instance of a user's subclass of a builtin container."""

    __slots__ = ("part", "root")

    kind = "object that is a container"

    def __init__(self, cls: type, root: type, part: Any, obj: Any = None, source: Source | None = None) -> None:
        super().__init__(cls, obj, source)
        #: the builtin class, and what it keeps
        self.root, self.part = root, part
        part.part_of = self

    def builtin_part(self) -> Value:
        return self.part

    def overrides(self, *names: str) -> bool:
        """Does the class do one of these in its own way?"""
        return any(find(self.cls, name) is not find(self.root, name) for name in names)

    def require_plain(self, what: str, *names: str) -> None:
        if self.overrides(*names):
            self.refuse("method written in C is called", what)

    def graph_argument(self, ctx: Context) -> Any:
        self.require_plain("use as an argument of an operator", "__iter__", "__len__", "__getitem__")
        return self.part.graph_argument(ctx)

    def pairs(self, ctx: Context) -> list[tuple[Value, Value]] | None:
        """As `dict.update` and `**` take them: from the part if `iter` is dict's own, else by `keys` and indexing."""
        if not issubclass(self.root, dict):
            return super().pairs(ctx)
        if self.root is not OrderedDict and not self.overrides("__iter__"):
            return self.part.pairs(ctx)
        if not self.overrides("keys", "__getitem__"):
            return self.part.pairs(ctx)
        return super().pairs(ctx)

    def truth(self, ctx: Context) -> bool:
        if self.overrides("__len__") or find(self.cls, "__bool__") is not find(self.root, "__bool__"):
            return super().truth(ctx)
        self._guard_methods(ctx, "__len__", "__bool__")
        return self.part.truth(ctx)

    def length(self, ctx: Context) -> Value:
        if self.overrides("__len__"):
            return super().length(ctx)
        self._guard_methods(ctx, "__len__")
        return self.part.length(ctx)

    def _guard_methods(self, ctx: Context, *names: str) -> None:
        for name in names:
            class_attribute(ctx, self.cls, name)

    def key(self, ctx: Context) -> object:
        if self.root is tuple and not self.overrides("__hash__", "__eq__"):
            self._guard_methods(ctx, "__hash__", "__eq__")
            return self.part.key(ctx)
        return super().key(ctx)

    def write_c_attribute(self, ctx: Context, raw: Any, value: Value) -> None:
        if raw is _FACTORY:
            ctx.change(self, {**self.content, raw: value})
        else:
            super().write_c_attribute(ctx, raw, value)

    # methods of the builtin class -----------------------------------------------------------------------------------
    def call_c_method(self, ctx: Context, raw: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        generic = GENERIC_ATTRIBUTES.get(raw)
        if generic is not None or (raw.__objclass__ is object and raw is not object.__init__):
            return super().call_c_method(ctx, generic or raw, args, kwargs)
        method = _METHODS.get((raw.__objclass__, raw.__name__)) or _METHODS.get((object, raw.__name__))
        if method is not None:
            return method(self, ctx, args, kwargs)
        verb = _VERBS.get(raw.__name__)
        if verb is not None:
            if kwargs:
                self.refuse("arguments do not fit the call", f"{raw.__qualname__}()")
            return verb(self, ctx, *args)
        if not hasattr(self.part, f"method_{raw.__name__}"):
            raise GraphBreak("method written in C is called", f"{raw.__qualname__}() of {self}")
        return BuiltinMethod(self.part, raw.__name__).call(ctx, args, kwargs)

    # the way out ----------------------------------------------------------------------------------------------------
    def reconstruct(self, out: ExitWriter) -> str:
        if self.root is tuple:
            return out.fill(self, "", lambda: self._tuple_text(out))
        empty = f"{out.hold(self.root.__new__)}({out.hold(self.cls)})"
        return out.fill(self, empty, lambda: self._full_text(out, empty))

    def _tuple_text(self, out: ExitWriter) -> tuple[str, Filler]:
        items = "".join(f"{out.text(item)}, " for item in self.part.unpack(out.ctx))
        made = f"{out.hold(tuple.__new__)}({out.hold(self.cls)}, ({items}))"
        attributes = self.own_texts(out)
        return f"{out.hold(filled)}({made}, {{{', '.join(attributes)}}})" if attributes else made, lambda name: ()

    def _full_text(self, out: ExitWriter, empty: str) -> tuple[str, Filler]:
        if self.root is list:
            items = f"[{', '.join(out.text(item) for item in self.part.content)}]"
        else:
            pairs = [f"{out.text(entry.key)}: {out.text(entry.item)}" for entry in self.part.content.values()]
            items = f"{{{', '.join(pairs)}}}"
        fill, attributes = out.hold(refilled), f"{{{', '.join(self.own_texts(out))}}}"
        return f"{fill}({empty}, {items}, {attributes})", lambda name: [f"{fill}({name}, {items}, {attributes})"]


# methods that are not just the part's -------------------------------------------------------------------------------
Method = Callable[[ContainerObject, "Context", list[Value], dict[str, Value]], Value]
#: by the class that has it (object: any) and the name
_METHODS: dict[tuple[type, str], Method] = {}


def _method(name: str, *owners: type) -> Callable[[Method], Method]:
    def register(method: Method) -> Method:
        for owner in owners or (object,):
            _METHODS[owner, name] = method
        return method

    return register


def _at_most(self: ContainerObject, what: str, args: list[Value], most: int) -> Value | None:
    if len(args) > most:
        self.refuse("arguments do not fit the call", what)
    return args[0] if args else None


@_method("__init__", dict)
@_method("update", dict)
def _dict_update(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    other = _at_most(self, "dict.update()", args, 1)
    if other is not None:
        update(ctx, self.part, other)
    for name, value in kwargs.items():
        self.part.setitem(ctx, constant(name), value)
    return constant(None)


@_method("__init__", OrderedDict)
@_method("update", OrderedDict)
def _ordered_update(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """It stores by the class's `__setitem__`."""
    other = _at_most(self, "OrderedDict.update()", args, 1)
    if other is not None:
        update(ctx, self, other)
    for name, value in kwargs.items():
        self.setitem(ctx, constant(name), value)
    return constant(None)


@_method("__init__", defaultdict)
def _default_init(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    ctx.change(self, {**self.content, _FACTORY: args[0] if args else constant(None)})
    return _dict_update(self, ctx, args[1:], kwargs)


@_method("__init__", list)
def _list_init(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    items = _at_most(self, "list()", args, 1)
    self.part.method_clear(ctx)
    if items is not None:
        self.part.method_extend(ctx, items)
    return constant(None)


@_method("__init__", object)
def _object_init(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Of a tuple's subclass, whose `__new__` took the arguments."""
    return constant(None)


@_method("__getitem__", dict)
def _dict_getitem(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    (key,) = args
    found = self.part.lookup(ctx, key)
    if found is not None:
        return found
    missing = self.special(ctx, "__missing__")
    return self.part.missing(ctx, key) if missing is None else missing.call(ctx, [key], {})


@_method("__missing__", defaultdict)
def _default_missing(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    (key,) = args
    factory = ctx.real(self.read_c_attribute(ctx, _FACTORY))
    if factory.python_type(ctx) is types.NoneType:
        return self.part.missing(ctx, key)
    value = factory.call(ctx, [], {})
    self.setitem(ctx, key, value)
    return value


@_method("setdefault", OrderedDict)
def _ordered_setdefault(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    self.require_plain("OrderedDict.setdefault()", "__contains__", "__getitem__", "__setitem__")
    return BuiltinMethod(self.part, "setdefault").call(ctx, args, kwargs)


@_method("popitem", OrderedDict)
def _ordered_popitem(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    self.require_plain("OrderedDict.popitem()", "__contains__", "__getitem__", "__delitem__")
    return BuiltinMethod(self.part, "popitem").call(ctx, args, kwargs)


@_method("pop", OrderedDict)
def _ordered_pop(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    self.require_plain("OrderedDict.pop()", "__contains__", "__getitem__", "__delitem__")
    return BuiltinMethod(self.part, "pop").call(ctx, args, kwargs)


@_method("copy", dict)
def _dict_copy(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _at_most(self, "copy()", args, 0)
    return new_dict(ctx, self.pairs(ctx) or [])


@_method("copy", OrderedDict)
def _ordered_copy(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _at_most(self, "copy()", args, 0)
    made = ctx.real(ctx.real(ctx.wrap(self.cls, ctx.hold(self.cls))).call(ctx, [], {}))
    for key, _ in self.part.pairs(ctx):
        made.setitem(ctx, key, self.getitem(ctx, key))
    return made


@_method("copy", defaultdict)
@_method("__copy__", defaultdict)
@_method("fromkeys", object)
@_method("__or__", OrderedDict, defaultdict)
@_method("__ror__", OrderedDict, defaultdict)
def _refused(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    raise GraphBreak("method written in C is called", f"a method that makes another {self}")


@_method("__repr__")
def _repr(self: ContainerObject, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    self.require_plain("repr()", "items", "__iter__", "__getitem__", "__len__")
    if self.root is defaultdict:
        self.refuse("method written in C is called", "repr()")
    items = plain(ctx, self.part)
    if self.root is OrderedDict:
        items = type(self.cls.__name__, (OrderedDict,), {})(items)
    return call_pure(ctx, repr, items)


def _part(value: Value) -> Value:
    return value.builtin_part()


def _answer(self: ContainerObject, result: Value | None) -> Value:
    """NotImplemented for None; an in-place operator gives the object itself."""
    if result is None:
        return constant(NotImplemented)
    return self if result is self.part else result


def _of_part(name: str) -> Callable[..., Value]:
    """The method of the builtin container."""
    return lambda self, ctx, *args: VERBS[name](self.part, ctx, *args)


def _operator(sign: str, *, inplace: bool = False) -> Callable[..., Value]:
    def verb(self: ContainerObject, ctx: Context, other: Value) -> Value:
        return _answer(self, self.part.binary(ctx, sign, _part(ctx.real(other)), inplace=inplace))

    return verb


def _reflected(sign: str) -> Callable[..., Value]:
    def verb(self: ContainerObject, ctx: Context, other: Value) -> Value:
        return _answer(self, self.part.reflected(ctx, sign, _part(ctx.real(other))))

    return verb


def _compares(sign: str) -> Callable[..., Value]:
    def verb(self: ContainerObject, ctx: Context, other: Value) -> Value:
        return _answer(self, self.part.compare(ctx, sign, _part(ctx.real(other))))

    return verb


#: special methods that mean one verb of the part
_VERBS: dict[str, Callable[..., Value]] = {
    **{name: _of_part(name) for name in VERBS},
    "__hash__": lambda self, ctx: call_builtin(ctx, hash, [self.part]),
    "__add__": _operator("+"), "__iadd__": _operator("+", inplace=True),
    "__mul__": _operator("*"), "__imul__": _operator("*", inplace=True), "__rmul__": _reflected("*"),
    "__or__": _operator("|"), "__ior__": _operator("|", inplace=True), "__ror__": _reflected("|"),
    **{name: _compares(sign) for sign, name in COMPARE_NAMES.items()},
}  # fmt: skip


# making them --------------------------------------------------------------------------------------------------------
def _new_part(ctx: Context, root: type, items: list[Value]) -> Any:
    part = TuplePart(items) if root is tuple else PARTS[root]({} if issubclass(root, dict) else ())
    return ctx.born(part)


def _new_method(root: type) -> None:
    """`root.__new__(cls, ...)` of a subclass; only that of tuple looks at the arguments."""

    def new(ctx: Context, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
        real = ctx.real(cls).as_python(ctx)
        if not isinstance(real, type) or not issubclass(real, root):
            raise GraphBreak("Python raises or warns here", f"{root.__name__}.__new__() of {cls}")
        base = layout_root(real)
        if real is base or base not in PARTS or base.__new__ is not root.__new__:
            raise GraphBreak("object is made by C code", f"{root.__name__}.__new__({real.__qualname__})")
        return new_container(ctx, real, base, [])

    builtin_class_method(root, "__new__")(new)


for _root in (dict, list):
    _new_method(_root)


def new_container(ctx: Context, cls: type, root: type, items: list[Value]) -> ContainerObject:
    check_creation(ctx, cls, root)
    made = ContainerObject(cls, root, _new_part(ctx, root, items))
    if root is defaultdict:
        made.content = made.original = {_FACTORY: constant(None)}
    return ctx.born(made)


def build_container(ctx: Context, obj: Any, source: Source) -> Value:
    """An instance of a subclass from outside."""
    cls = type(obj)
    ctx.guard(Kind.TYPE, source, cls)
    root = layout_root(cls)
    if root not in PARTS or root is cls:
        return OpaqueValue(obj, source)
    copied = builtin_part(obj)
    if all(class_attribute(ctx, cls, name) is find(root, name) for name in _READING if find(root, name) is not MISSING):
        inside = source
    else:
        inside = Call(ctx.hold(builtin_part), (source,))
        ctx.guard(Kind.TYPE, inside, type(copied))
    part: Any
    if root is tuple:
        ctx.guard(Kind.LENGTH, inside, len(copied))
        part = TuplePart([ctx.wrap(item, Item(inside, i)) for i, item in enumerate(copied)], inside)
    elif root is list:
        part = ListPart((), inside, copied)
    else:
        part = PARTS[root]({}, inside, copied)
    return ContainerObject(cls, root, part, obj, source)


wraps(dict, list, family=True)(build_container)
