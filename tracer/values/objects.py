"""Instances of user classes: from outside, and made in the region.

Attributes are read and set exactly as `object.__getattribute__` and `object.__setattr__` do, descriptors written in
Python are inlined, and special methods are looked up on the type. What the region sets or deletes is an overlay over
the real object, which is never touched during capture.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import MISSING, Kind
from ..holding import type_flags, type_mro
from ..sources import Source
from .attributes import ObjectAttributes
from .base import Raised, Value, wraps, wraps_object
from .callables import HeldFunction
from .constants import ConstantValue, call_pure, constant
from .functions import LOADED_LATE, FunctionValue
from .hashing import UserKey
from .iterators import ItemsByIndex
from .lookup import class_attribute, class_object, find, layout_root, special
from .operations import equal

if TYPE_CHECKING:
    from ..interpreter.context import Context

Meaning = Callable[["Context", list[Value], dict[str, Value]], Value]
BINARY_NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
COMPARE_NAMES = {"<": "__lt__", "<=": "__le__", "==": "__eq__", "!=": "__ne__", ">": "__gt__", ">=": "__ge__"}
_ABSTRACT = 1 << 20
_UNARY = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}


class ObjectValue(ObjectAttributes):
    """An instance whose state is its dict and slots."""

    __slots__ = ()

    kind = "object"

    # special methods ------------------------------------------------------------------------------------------------
    def special(self, ctx: Context, name: str) -> Value | None:
        """A special method of the type, bound; None where there is none."""
        return special(ctx, self, self.cls, name)

    def call_special(self, ctx: Context, name: str, *args: Value) -> Value:
        method = self.special(ctx, name)
        if method is None:
            raise GraphBreak("Python raises or warns here", f"{self.cls.__name__} has no {name}()")
        return ctx.real(method.call(ctx, list(args), {}))

    def _asked(self, ctx: Context, name: str, *args: Value) -> Value | None:
        """The special method's answer; None where it is missing or says NotImplemented."""
        method = self.special(ctx, name)
        if method is None:
            return None
        result = ctx.real(method.call(ctx, list(args), {}))
        return None if isinstance(result, ConstantValue) and result.value is NotImplemented else result

    def call_method(self, ctx: Context, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A method that an opcode or builtin calls: special ones are the type's."""
        if name.startswith("__") and name.endswith("__"):
            method = self.special(ctx, name)
            if method is not None:
                return method.call(ctx, args, kwargs)
        return super().call_method(ctx, name, args, kwargs)

    def truth(self, ctx: Context) -> bool:
        for name in ("__bool__", "__len__"):
            if self.special(ctx, name) is not None:
                result = self.call_special(ctx, name)
                if not isinstance(result, ConstantValue) or not isinstance(result.value, int):
                    self.refuse("special method gives an unusual result", f"{name}(), which gave {result},")
                return result.truth(ctx)
        return True

    def length(self, ctx: Context) -> Value:
        if self.special(ctx, "__len__") is None:
            ctx.raise_(TypeError(f"object of type {self.type_name!r} has no len()"))
        result = self.call_special(ctx, "__len__")
        if not isinstance(result, ConstantValue) or type(result.value) is not int or result.value < 0:
            self.refuse("special method gives an unusual result", "length")
        return result

    def getitem(self, ctx: Context, key: Value) -> Value:
        if self.special(ctx, "__getitem__") is None:
            ctx.raise_(TypeError(f"{self.type_name!r} object is not subscriptable"))
        return self.call_special(ctx, "__getitem__", key)

    def setitem(self, ctx: Context, key: Value, value: Value) -> None:
        if self.special(ctx, "__setitem__") is None:
            ctx.raise_(TypeError(f"{self.type_name!r} object does not support item assignment"))
        self.call_special(ctx, "__setitem__", key, value)

    def delitem(self, ctx: Context, key: Value) -> None:
        if self.special(ctx, "__delitem__") is None:
            ctx.raise_(TypeError(f"{self.type_name!r} object doesn't support item deletion"))
        self.call_special(ctx, "__delitem__", key)

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        if self.special(ctx, "__contains__") is not None:
            return self.call_special(ctx, "__contains__", item).truth(ctx)
        iterator = ctx.real(self.iterate(ctx))
        while (candidate := iterator.next(ctx)) is not None:
            ctx.spend(1)
            if equal(ctx, candidate, item):
                return True
        return False

    def iterate(self, ctx: Context) -> Value:
        if self.special(ctx, "__iter__") is not None:
            return self.call_special(ctx, "__iter__")
        absent = class_attribute(ctx, self.cls, "__iter__") is MISSING
        if absent and self.special(ctx, "__getitem__") is not None:
            return ctx.born(ItemsByIndex(self, 0, 1))
        ctx.raise_(TypeError(f"{self.type_name!r} object is not iterable"))

    def pairs(self, ctx: Context) -> list[tuple[Value, Value]] | None:
        """An object that has `keys` is a mapping: its keys are asked for, and each item by indexing."""
        try:
            keys = self.getattr(ctx, "keys")
        except Raised as raised:
            if issubclass(raised.value.python_type(ctx), AttributeError):
                return None
            raise
        found = ctx.real(ctx.real(keys).call(ctx, [], {})).unpack(ctx)
        return [(key, self.getitem(ctx, key)) for key in found]

    def next(self, ctx: Context) -> Value | None:
        try:
            return self.call_special(ctx, "__next__")
        except Raised as raised:
            if issubclass(raised.value.python_type(ctx), StopIteration):
                return None
            raise

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        method = self.special(ctx, "__call__")
        if method is None:
            ctx.raise_(TypeError(f"{self.type_name!r} object is not callable"))
        return method.call(ctx, args, kwargs)

    def special_method(self, ctx: Context, name: str) -> Value:
        method = self.special(ctx, name)
        if method is None:
            self.refuse("Python raises or warns here", "`with` block")
        return method

    # operators ------------------------------------------------------------------------------------------------------
    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if inplace and (result := self._asked(ctx, f"__i{BINARY_NAMES[op]}__", other)) is not None:
            return result
        if inplace and self._is_overridden_by(ctx, other, f"__r{BINARY_NAMES[op]}__"):
            result = other.reflected(ctx, op, self)
            if result is not None:
                return result
        return self._asked(ctx, f"__{BINARY_NAMES[op]}__", other)

    def _is_overridden_by(self, ctx: Context, other: Value, name: str) -> bool:
        """Is the other one's class a subclass with a method of its own? Python asks it first."""
        cls = other.python_type(ctx)
        return cls is not self.cls and self.cls in type_mro(cls) and find(cls, name) is not find(self.cls, name)

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        return self._asked(ctx, f"__r{BINARY_NAMES[op]}__", other)

    def unary(self, ctx: Context, op: str) -> Value:
        if self.special(ctx, _UNARY[op]) is None:
            ctx.raise_(TypeError(f"bad operand type for unary {op}: {self.type_name!r}"))
        return self.call_special(ctx, _UNARY[op])

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        return self._asked(ctx, COMPARE_NAMES[op], other)

    def key(self, ctx: Context) -> object:
        hasher, compares = (class_attribute(ctx, self.cls, name) for name in ("__hash__", "__eq__"))
        if hasher is None:
            ctx.raise_(TypeError(f"unhashable type: {self.type_name!r}"))
        if hasher is object.__hash__ and compares is object.__eq__:
            return self
        if type(hasher) is not FunctionType:
            self.refuse("key is not supported")
        return UserKey(ctx, self, self._hash(ctx))

    def _hash(self, ctx: Context) -> int:
        """What the user's `__hash__` gives. The region will ask it again, so it may not change anything."""
        before = [(value, value.content) for value in ctx.changed.values()]
        result = self.call_special(ctx, "__hash__")
        if [(value, value.content) for value in ctx.changed.values()] != before:
            self.refuse("key is not supported", "__hash__(), which changes something,")
        number = result.as_python(ctx) if isinstance(result, ConstantValue) else None
        if not isinstance(number, int):
            self.refuse("special method gives an unusual result", "__hash__()")
        if -(1 << 63) <= number < 1 << 63:
            return -2 if number == -1 else int(number)
        return hash(number)

    # methods of object that are written in C ------------------------------------------------------------------------
    def call_c_method(self, ctx: Context, raw: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A method that C code of the builtin base class implements."""
        known = OBJECT_METHODS.get(raw) if raw.__objclass__ is object else None
        if raw is object.__init__:
            return self.c_init(ctx, args, kwargs)
        if known is None or kwargs or len(args) != known.__code__.co_argcount - 2:
            raise GraphBreak("method written in C is called", f"{raw.__qualname__}() of {self}")
        return known(self, ctx, *args)

    def c_init(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args or kwargs:
            overridden = class_attribute(ctx, self.cls, "__init__") is not object.__init__
            if overridden or class_attribute(ctx, self.cls, "__new__") is object.__new__:
                raise GraphBreak("arguments do not fit the call", f"object.__init__() of {self}")
        return constant(None)


def _getattribute(self: ObjectValue, ctx: Context, name: Value) -> Value:
    text = ctx.real(name).as_python(ctx)
    value = self.lookup(ctx, text)
    if value is None:
        self.raise_missing(ctx, text)
    return value


def _setattr(self: ObjectValue, ctx: Context, name: Value, value: Value) -> Value:
    self.generic_setattr(ctx, ctx.real(name).as_python(ctx), value)
    return constant(None)


def _delattr(self: ObjectValue, ctx: Context, name: Value) -> Value:
    self.generic_delattr(ctx, ctx.real(name).as_python(ctx))
    return constant(None)


def _eq(self: ObjectValue, ctx: Context, other: Value) -> Value:
    other = ctx.real(other)
    return constant(True if self is other or self.is_same(ctx, other) else NotImplemented)


def _ne(self: ObjectValue, ctx: Context, other: Value) -> Value:
    """The opposite of what `__eq__` says, unless that is NotImplemented."""
    result = self.compare(ctx, "==", ctx.real(other))
    return constant(NotImplemented if result is None else not ctx.real(result).truth(ctx))


def _str(self: ObjectValue, ctx: Context) -> Value:
    return self.call_special(ctx, "__repr__")


def _format(self: ObjectValue, ctx: Context, spec: Value) -> Value:
    if ctx.real(spec).as_python(ctx) != "":
        ctx.raise_(TypeError(f"unsupported format string passed to {self.type_name}.__format__"))
    return self.call_special(ctx, "__str__")


def _not_implemented(self: ObjectValue, ctx: Context, other: Value) -> Value:
    return constant(NotImplemented)


#: what the methods of `object` do, by the slot wrapper; `__hash__` and `__repr__` show an address: refused
OBJECT_METHODS: dict[Any, Callable[..., Value]] = {
    object.__getattribute__: _getattribute,
    object.__setattr__: _setattr,
    object.__delattr__: _delattr,
    object.__eq__: _eq,
    object.__ne__: _ne,
    object.__str__: _str,
    object.__format__: _format,
    **{object.__dict__[name]: _not_implemented for name in ("__lt__", "__le__", "__gt__", "__ge__")},
}


class OpaqueValue(Value):
    """An object of a type that capture knows nothing of: it has a type and an identity, and that is all."""

    __slots__ = ("object",)

    kind = "object written in C"
    has_identity = True

    def __init__(self, obj: object, source: Source) -> None:
        super().__init__(source)
        self.object = obj

    def __str__(self) -> str:
        return f"{type(self.object).__qualname__} {self.source}"

    def python_type(self, ctx: Context) -> type:
        return type(self.object)

    def as_python(self, ctx: Context) -> Any:
        ctx.guard(Kind.IS, self.source, self.object)
        return self.object

    def truth(self, ctx: Context) -> bool:
        if find(type(self.object), "__bool__") is MISSING and find(type(self.object), "__len__") is MISSING:
            return True
        self.refuse("operation is not supported", "truth value")

    def is_same(self, ctx: Context, other: Value) -> bool:
        if other.source is not None and self.source is not None:
            ctx.guard(Kind.NOT_ALIAS, self.source, other.source)
        return False

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "__class__":
            return class_object(ctx, type(self.object))
        self.refuse("attribute cannot be read", f".{name}")

    def _lacks(self, what: str, *names: str) -> None:
        """None of these methods, which C code implements, may be asked."""
        for name in names:
            found = find(type(self.object), name)
            if found is not MISSING and found is not find(object, name):
                self.refuse("operator is not supported for these types", what)

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> None:
        self._lacks(op, f"__{BINARY_NAMES[op]}__", f"__i{BINARY_NAMES[op]}__")

    def reflected(self, ctx: Context, op: str, other: Value) -> None:
        self._lacks(op, f"__r{BINARY_NAMES[op]}__")

    def compare(self, ctx: Context, op: str, other: Value) -> None:
        self._lacks(op, COMPARE_NAMES[op])


class KnownCallable(HeldFunction):
    """A function written in C whose meaning capture knows by itself."""

    __slots__ = ("meaning",)

    has_identity = True

    def __init__(self, function: Any, meaning: Meaning, source: Source | None) -> None:
        super().__init__(function, source)
        self.meaning = meaning

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.meaning(ctx, args, kwargs)


class KnownFunction(FunctionValue):
    """A Python function whose meaning capture knows by itself. A break inside of it is a break like in any function."""

    __slots__ = ("meaning",)

    def __init__(self, ctx: Context, function: FunctionType, meaning: Meaning, source: Source | None) -> None:
        super().__init__(ctx.original_code(function), function.__globals__, source)
        self.function, self.meaning = function, meaning

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.meaning(ctx, args, kwargs)


def known(*functions: Any) -> Callable[[Meaning], Meaning]:
    """Register what calling these functions means: meaning(ctx, args, kwargs)."""

    def register(meaning: Meaning) -> Meaning:
        for function in functions:
            wraps_object(function)(_known_builder(meaning))
        return meaning

    return register


def known_once_loaded(module: str, *names: str) -> Callable[[Meaning], Meaning]:
    """The same for functions of a module that is loaded late, if at all."""

    def register(meaning: Meaning) -> Meaning:
        LOADED_LATE.update(((module, name), _known_builder(meaning)) for name in names)
        return meaning

    return register


def _known_builder(meaning: Meaning) -> Callable[[Context, Any, Source], Value]:
    def builder(ctx: Context, obj: Any, source: Source) -> Value:
        ctx.guard(Kind.IS, source, obj)
        if not isinstance(obj, FunctionType):
            return KnownCallable(obj, meaning, source)
        return KnownFunction(ctx, obj, meaning, source)

    return builder


@known(object.__new__)
def object_new(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`object.__new__(cls, ...)`: more arguments are for an `__init__` only."""
    cls = ctx.real(args[0]).as_python(ctx)
    if len(args) > 1 or kwargs:
        own_new = class_attribute(ctx, cls, "__new__") is not object.__new__
        if own_new or class_attribute(ctx, cls, "__init__") is object.__init__:
            raise GraphBreak("arguments do not fit the call", f"object.__new__({cls.__qualname__}, ...)")
    return new_object(ctx, cls)


@known(operator.index)
def index(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`operator.index(x)`: an integer itself, or what `__index__` gives."""
    if len(args) != 1 or kwargs:
        raise GraphBreak("arguments do not fit the call", "operator.index()")
    value = ctx.real(args[0])
    if isinstance(value, ConstantValue):
        if type(value.value) is int:
            return value
        return call_pure(ctx, operator.index, value.as_python(ctx))
    return value.call_method(ctx, "__index__", [], {})


#: what stands for the instances of classes that inherit from these
INSTANCES: dict[type, type[ObjectValue]] = {object: ObjectValue}


def new_object(ctx: Context, cls: type) -> ObjectValue:
    check_creation(ctx, cls, object)
    family = next(INSTANCES[base] for base in type_mro(cls) if base in INSTANCES)
    return ctx.born(family(cls))


def check_creation(ctx: Context, cls: type, root: type) -> None:
    """Can an instance be made by capture, and made anew by the region?"""
    if layout_root(cls) is not root:
        raise GraphBreak("object is made by C code", cls.__qualname__)
    if class_attribute(ctx, cls, "__del__") is not MISSING:
        raise GraphBreak("object has a finalizer", cls.__qualname__)
    if root is object and type_flags(cls) & _ABSTRACT:
        call_pure(ctx, object.__new__, cls)  # raises before anything is made


@wraps(object, family=True)
def build_object(ctx: Context, obj: object, source: Source) -> Value:
    cls = type(obj)
    ctx.guard(Kind.TYPE, source, cls)
    return ObjectValue(cls, obj, source) if layout_root(cls) is object else OpaqueValue(obj, source)
