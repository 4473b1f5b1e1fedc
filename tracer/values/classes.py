"""Classes: their attributes, calling them, and asking them about instances and subclasses."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..graph.refused import is_autograd_function
from ..guards import MISSING, Kind
from ..holding import is_immutable_type, type_dict
from ..sources import Attr, Source
from ..torch_private import PYBIND_CLASS
from .base import Value, wraps
from .builtin_registry import call_class_method, call_type
from .constants import ConstantValue, call_pure, constant, plain
from .enums import member_value
from .exceptions import new_exception
from .lookup import (
    C_METHODS,
    ClassChanges,
    CMethod,
    class_attribute,
    class_object,
    find,
    get_from_class,
    get_from_instance,
    is_descriptor,
    note_written,
    overrides_reading,
    special,
)
from .mappings import MappingProxyValue, entries_of
from .objects import BINARY_NAMES, COMPARE_NAMES, OpaqueValue, new_object
from .sequences import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

#: how `__class_getitem__` lies in a class whose items are aliases made by C code
_ALIASING = (types.ClassMethodDescriptorType, types.BuiltinMethodType)
Constructor = Callable[["Context", list[Value], dict[str, Value]], Value]
#: classes whose call capture knows by itself
CONSTRUCTORS: dict[type, Constructor] = {}


def constructs(*classes: type) -> Callable[[Constructor], Constructor]:
    """Register what calling one of these very classes means."""

    def register(constructor: Constructor) -> Constructor:
        CONSTRUCTORS.update(dict.fromkeys(classes, constructor))
        return constructor

    return register


class ClassValue(Value):
    """A class. It is known by its identity, so that everything read from it needs a guard on the attribute alone."""

    __slots__ = ("cls",)

    kind = "class"
    has_identity = True

    def __init__(self, cls: type, source: Source) -> None:
        super().__init__(source)
        self.cls = cls

    def __str__(self) -> str:
        return f"class {self.cls.__qualname__}"

    def python_type(self, ctx: Context) -> type:
        return type(self.cls)

    def as_python(self, ctx: Context) -> Any:
        return self.cls

    def truth(self, ctx: Context) -> bool:
        if isinstance(self.cls, enum.EnumType):
            return True
        if any(class_attribute(ctx, type(self.cls), name) is not MISSING for name in ("__bool__", "__len__")):
            self.refuse("operation is not supported", "truth value")
        return True

    def key(self, ctx: Context) -> object:
        return self.cls

    def text(self, ctx: Context) -> Value:
        """`str(cls)`, `repr(cls)`: they show its module and its qualified name."""
        for owner, name in ((type, "__repr__"), (object, "__str__")):
            if class_attribute(ctx, type(self.cls), name) is not owner.__dict__[name]:
                self.refuse("builtin function is given an object")
        for name in ("__module__", "__qualname__"):
            ctx.real(self.getattr(ctx, name)).as_python(ctx)
        return constant(repr(self.cls))

    # attributes -----------------------------------------------------------------------------------------------------
    def getattr(self, ctx: Context, name: str) -> Value:
        if isinstance(self.cls, enum.EnumType):
            if name in self.cls.__members__:
                return member_value(self.cls.__members__[name])
            if name == "__members__" and find(type(self.cls), name) is find(enum.EnumType, name):
                return ctx.born(MembersValue(ctx, self.cls))
        meta = type(self.cls)
        if class_attribute(ctx, meta, "__getattribute__") is not type.__getattribute__ and not (
            meta is PYBIND_CLASS and type(find(self.cls, name)).__name__ != "instancemethod"  # those it does not bind
        ):
            self.refuse("attribute cannot be read", f".{name}")
        raw = class_attribute(ctx, meta, name)
        if raw is not MISSING and overrides_reading(ctx, raw):
            return get_from_instance(ctx, raw, name, self, meta)
        own = class_attribute(ctx, self.cls, name)
        if own is not MISSING:
            return get_from_class(ctx, own, name, self.cls, self)
        if raw is not MISSING:
            return get_from_instance(ctx, raw, name, self, meta)
        fallback = special(ctx, self, meta, "__getattr__")
        if fallback is not None:
            return fallback.call(ctx, [constant(name)], {})
        ctx.raise_(AttributeError(f"type object {self.cls.__name__!r} has no attribute {name!r}"))

    def setattr(self, ctx: Context, name: str, value: Value) -> None:
        setter = class_attribute(ctx, type(self.cls), "__setattr__")
        if setter is type.__setattr__:
            self._store(ctx, name, value)
        elif type(setter) is types.FunctionType:
            ctx.real(ctx.wrap(setter, ctx.hold(setter))).call(ctx, [self, constant(name), value], {})
        else:
            self.refuse("attribute cannot be set", f".{name}")

    def delattr(self, ctx: Context, name: str) -> None:
        if class_attribute(ctx, type(self.cls), "__delattr__") is not type.__delattr__:
            self.refuse("attribute cannot be set", f"deleting .{name}")
        self._store(ctx, name, None)

    def _store(self, ctx: Context, name: str, value: Value | None) -> None:
        """Set, or delete for None, plain data in the class's own dict."""
        changes = ctx.class_changes.get(self.cls)
        own = changes is not None and name in changes.content
        raw = None if own else type_dict(self.cls).get(name)
        special = name.startswith("__") or is_immutable_type(self.cls) or isinstance(self.cls, enum.EnumType)
        if special or is_descriptor(type(raw)) or find(type(self.cls), name) is not MISSING:
            self.refuse("attribute cannot be set", f".{name}")
        if value is None and not (changes.content[name] is not None if own else name in type_dict(self.cls)):  # type: ignore[union-attr]
            self.refuse("Python raises or warns here", f"deleting .{name}")
        if value is not None and is_descriptor(ctx.real(value).python_type(ctx)):
            self.refuse("attribute cannot be set", f".{name}, to something that binds,")
        note_written(self.cls, name)
        if changes is None:
            changes = ctx.class_changes[self.cls] = ClassChanges(self.cls, ctx.hold(self.cls))
            ctx.on_rollback(lambda: ctx.class_changes.pop(self.cls))
        ctx.change(changes, {**changes.content, name: value})

    def read_c_attribute(self, ctx: Context, raw: Any) -> Value:
        """What `type` itself knows of a class."""
        assert self.source is not None
        name = raw.__name__
        if name in ("__name__", "__qualname__", "__module__", "__doc__", "__mro__", "__bases__", "__base__"):
            return ctx.wrap(raw.__get__(self.cls), Attr(self.source, name))
        if name == "__class__":
            return ctx.wrap(type(self.cls), ctx.hold(type(self.cls)))
        self.refuse("attribute cannot be read", f".{name}")

    def call_c_method(self, ctx: Context, raw: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A method of `type` (or a class method written in C) for this class."""
        if raw is type.__call__:
            return instantiate(ctx, self, args, kwargs)
        name = raw.__name__
        if raw in (type.__setattr__, type.__delattr__) and not kwargs and len(args) == (raw is type.__setattr__) + 1:
            self._store(ctx, ctx.real(args[0]).as_python(ctx), args[1] if len(args) == 2 else None)
            return constant(None)
        if raw.__objclass__ is object and name in ("__eq__", "__ne__") and len(args) == 1:
            same = ctx.real(args[0]) is self
            return constant(same == (name == "__eq__") if same else NotImplemented)
        known = call_class_method(ctx, self.cls, name, args, kwargs)
        if known is not None:
            return known
        if name == "apply" and is_autograd_function(self.cls):
            return self.apply_autograd_function(ctx, self, args, kwargs)
        raise GraphBreak("method written in C is called", f"{raw.__qualname__}() of {self}")

    def apply_autograd_function(self, ctx: Context, cls: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """autograd_functions.py puts its function here."""
        raise NotImplementedError

    # items: of enumerations, and by metaclasses -----------------------------------------------------------------------
    def _members(self) -> Any:
        """The enumeration, if its class does nothing of its own at iterating and indexing."""
        plain = all(find(type(self.cls), n) is find(enum.EnumType, n) for n in ("__iter__", "__getitem__", "__len__"))
        return self.cls if isinstance(self.cls, enum.EnumType) and plain else None

    def _of_meta(self, ctx: Context, name: str) -> Value:
        """A special method of the metaclass."""
        method = special(ctx, self, type(self.cls), name)
        if method is None:
            self.refuse("Python raises or warns here", f"{name}()")
        return method

    def getitem(self, ctx: Context, key: Value) -> Value:
        if self.cls is type or type(find(self.cls, "__class_getitem__")) in _ALIASING:
            return self._alias(ctx, key)
        if (members := self._members()) is not None:
            return call_pure(ctx, members.__getitem__, ctx.real(key).as_python(ctx))
        method = special(ctx, self, type(self.cls), "__getitem__")
        if method is None:
            if self.cls is type or class_attribute(ctx, self.cls, "__class_getitem__") is MISSING:
                self.refuse("operation is not supported", "indexing")
            method = ctx.real(self.getattr(ctx, "__class_getitem__"))
        return method.call(ctx, [key], {})

    def _alias(self, ctx: Context, key: Value) -> Value:
        """`list[int]`, of a class whose `__class_getitem__` is written in C: mostly an annotation."""
        if not is_immutable_type(self.cls):
            class_attribute(ctx, self.cls, "__class_getitem__")
        cls: Any = self.cls
        alias = cls[ctx.real(key).as_python(ctx)]
        return ctx.wrap(alias, ctx.hold(alias))

    def unpack(self, ctx: Context) -> list[Value]:
        if (members := self._members()) is not None:
            return [member_value(member) for member in members]
        return super().unpack(ctx)

    def iterate(self, ctx: Context) -> Value:
        if self._members() is not None:
            return TupleValue(self.unpack(ctx)).iterate(ctx)
        return self._of_meta(ctx, "__iter__").call(ctx, [], {})

    def length(self, ctx: Context) -> Value:
        if (members := self._members()) is not None:
            return constant(len(members))
        return self._of_meta(ctx, "__len__").call(ctx, [], {})

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        item = ctx.real(item)
        if self._members() is None:
            return ctx.real(self._of_meta(ctx, "__contains__").call(ctx, [item], {})).truth(ctx)
        if not isinstance(item, ConstantValue) or not isinstance(item.value, enum.Enum):
            self.refuse("operation is not supported", "`in`")
        return isinstance(item.value, self.cls)

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if op == "|" and type(self.cls) is type and isinstance(other, (ClassValue, ConstantValue)):
            right = other.as_python(ctx)
            if isinstance(right, (type, types.NoneType, types.UnionType)):
                return ConstantValue(self.cls | right)
        if op == "|" and type(self.cls) is type:
            return None
        return self._operator_of_meta(ctx, f"__{BINARY_NAMES[op]}__", other)

    def _operator_of_meta(self, ctx: Context, name: str, other: Value) -> Value | None:
        """What a metaclass written by people makes of an operator; None for NotImplemented."""
        raw = class_attribute(ctx, type(self.cls), name)
        if raw is MISSING or raw is find(object, name):
            return None
        if type(raw) is not types.FunctionType:
            self.refuse("operator is not supported for these types", name)
        result = ctx.real(ctx.real(get_from_instance(ctx, raw, name, self, type(self.cls))).call(ctx, [other], {}))
        return None if isinstance(result, ConstantValue) and result.value is NotImplemented else result

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        return None if op == "|" else self._operator_of_meta(ctx, f"__r{BINARY_NAMES[op]}__", other)

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        return self._operator_of_meta(ctx, COMPARE_NAMES[op], other)

    # calls ----------------------------------------------------------------------------------------------------------
    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        constructor = CONSTRUCTORS.get(self.cls)
        if constructor is not None:
            return constructor(ctx, args, kwargs)
        made = call_type(ctx, self.cls, args, kwargs)
        if made is not None:
            return made
        if is_immutable_type(self.cls) and not issubclass(self.cls, BaseException) and self.cls is not object:
            self.refuse("object is made by C code")
        meta_call = class_attribute(ctx, type(self.cls), "__call__")
        if meta_call is type.__call__:
            return instantiate(ctx, self, args, kwargs)
        if isinstance(self.cls, enum.EnumType) and meta_call is enum.EnumType.__call__:
            return self._look_up(ctx, args, kwargs)
        if type(meta_call) is types.FunctionType or meta_call is dict:  # that of a TypedDict is dict
            args = args if meta_call is dict else [self, *args]
            return ctx.real(ctx.wrap(meta_call, ctx.hold(meta_call))).call(ctx, args, kwargs)
        self.refuse("object is made by C code")

    def _look_up(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """`Color(3)`"""
        cls: Any = self.cls
        missing = getattr(find(cls, "_missing_"), "__func__", None)
        user_code = getattr(missing, "__module__", None) != "enum"
        if len(args) != 1 or kwargs or not cls.__members__:
            self.refuse("operation is not supported", "call")
        real = ctx.real(args[0])
        value = real.as_python(ctx) if isinstance(real, ConstantValue) else plain(ctx, real)
        if user_code and not (_has_hash(value) and value in cls._value2member_map_):
            self.refuse("operation is not supported", "call")
        return call_pure(ctx, cls, value)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.hold(self.cls)


def _has_hash(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


class MembersValue(MappingProxyValue):
    """`__members__` of an enumeration."""

    __slots__ = ("cls",)

    def __init__(self, ctx: Context, cls: enum.EnumType) -> None:
        super().__init__(entries_of(ctx, [(constant(n), member_value(cls.__members__[n])) for n in cls.__members__]))
        self.cls = cls

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(self.cls)}.__members__"


def instantiate(ctx: Context, cls_value: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`type.__call__(cls, *args, **kwargs)`: `__new__`, then `__init__` where that gave an instance."""
    cls = cls_value.cls
    if issubclass(cls, (torch.jit.ScriptModule, torch.Tensor)):
        raise GraphBreak("module or tensor subclass is created", cls.__qualname__)
    new = class_attribute(ctx, cls, "__new__")
    init = class_attribute(ctx, cls, "__init__")
    if new is object.__new__:
        if init is object.__init__ and (args or kwargs):
            raise GraphBreak("arguments do not fit the call", f"{cls.__qualname__}() takes no arguments")
        made: Value = new_object(ctx, cls)
    elif issubclass(cls, BaseException) and type(new) is types.BuiltinFunctionType:
        made = new_exception(ctx, [cls_value, *args], kwargs)
    else:
        made = ctx.real(_constructor(ctx, cls_value, new).call(ctx, [cls_value, *args], kwargs))
    made_type = made.python_type(ctx)
    if not issubclass(made_type, cls):
        return made
    if made_type is not cls:
        init = class_attribute(ctx, made_type, "__init__")
    _initialise(ctx, made, made_type, init, args, kwargs)
    return made


def _constructor(ctx: Context, cls_value: ClassValue, new: Any) -> Value:
    function = new.__func__ if type(new) is staticmethod else new
    if type(function) not in (types.FunctionType, types.BuiltinFunctionType):
        raise GraphBreak("object is made by C code", str(cls_value))
    return ctx.real(ctx.wrap(function, ctx.hold(function)))


def _initialise(ctx: Context, made: Value, cls: type, init: Any, args: list[Value], kwargs: dict[str, Value]) -> None:
    if init is object.__init__:
        return  # excess arguments are fine where __new__ took them
    if type(init) not in (types.FunctionType, *C_METHODS):
        raise GraphBreak("object is made by C code", f"__init__ of {cls.__qualname__} is no function")
    if type(init) in C_METHODS:
        CMethod(init, made).call(ctx, args, kwargs)
        return
    result = ctx.real(ctx.real(ctx.wrap(init, ctx.hold(init))).call(ctx, [made, *args], kwargs))
    if not (isinstance(result, ConstantValue) and result.value is None):
        ctx.raise_(TypeError(f"__init__() should return None, not {result.python_type(ctx).__name__!r}"))


class AliasValue(OpaqueValue):
    """`list[int]`: called, it makes what its class makes."""

    __slots__ = ()

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        alias: Any = self.as_python(ctx)
        if not is_immutable_type(alias.__origin__):  # an instance of another class gets the attribute __orig_class__
            self.refuse("operation is not supported", "call")
        return class_object(ctx, alias.__origin__).call(ctx, args, kwargs)


@wraps(types.GenericAlias)
def build_alias(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, types.GenericAlias)
    return AliasValue(obj, source)


@wraps(type, family=True)
def build_class(ctx: Context, obj: type, source: Source) -> Value:
    ctx.guard(Kind.IS, source, obj)
    return ClassValue(obj, source)
