"""How Python finds an attribute on a class, and what the descriptor protocol makes of what it found.

Everything here reads classes past any metaclass and runs no user code; what was found is guarded (TYPE_ATTR), so that a
changed class is a miss. Immutable classes need no guard.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections import namedtuple
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from rewriter.loops import loops_around

from ..errors import CaptureAnew, GraphBreak
from ..guards import BASES, MISSING, NOWHERE, Kind
from ..holding import is_a, is_immutable_type, is_made_by_python, type_dict, type_mro
from ..sources import Attr, Item, Source
from .base import Mutable, Value
from .constants import constant, is_constant
from .functions import BoundMethod

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

#: methods and slots written in C
C_METHODS = (types.WrapperDescriptorType, types.MethodDescriptorType)
_C_DATA = (types.GetSetDescriptorType, types.MemberDescriptorType)
#: what gives a named tuple's field
_TUPLE_GETTER = type(namedtuple("_Example", "a").a)  # type: ignore[attr-defined]
#: classes written in C whose instances become methods as functions do
BOUND_LIKE_FUNCTIONS: set[type] = set()
#: how a property is read, set and deleted, also one of a subclass that leaves that as it is
_PROPERTY = type_dict(property)
#: objects that a region may hold for ever and that are the same wherever they are found
_HOLDABLE = (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType, *C_METHODS, *_C_DATA)


def find(cls: type, name: str) -> Any:
    """What the first class of the MRO that has the name holds under it, or MISSING. Adds no guard."""
    for base in type_mro(cls):
        raw = type_dict(base).get(name, MISSING)
        if raw is not MISSING:
            return raw
    return MISSING


def class_attribute(ctx: Context, cls: type, name: str) -> Any:
    """`find`, guarded."""
    raw = find(cls, name)
    if "<locals>" in _qualname(cls):
        _refuse_made_anew(ctx, cls)
    if name in _written_names and (found := _written(ctx, cls, name)) is not None:
        return found
    if not is_immutable_type(cls):
        ctx.guard(Kind.TYPE_ATTR, NOWHERE, (cls, name, raw))
    return raw


def same_bases(ctx: Context, cls: type) -> None:
    """Ask that the class has the bases that it has now."""
    if not is_immutable_type(cls):
        ctx.guard(Kind.TYPE_ATTR, NOWHERE, (cls, BASES, MISSING))


_qualname: Any = vars(type)["__qualname__"].__get__
#: by the identity of a code object, which lives: classes that captures of the function that defines them have met, by
#: name: the last, and how many
_met: dict[int, dict[str, tuple[weakref.ref[type], int]]] = {}
_SEVERAL = 3


def _refuse_made_anew(ctx: Context, cls: type) -> None:
    """Break where the function makes another class at each call: a region would be for one call's class alone.

    Where it is used in a loop, the region is for many iterations.
    """
    name, request = _qualname(cls), ctx.request
    if not name.startswith(f"{request.decoded.code.co_qualname}.<locals>."):
        return
    made = {ins.index for ins in request.decoded.instructions if ins.opname == "LOAD_BUILD_CLASS"}
    if any(made.isdisjoint(loop.body) for loop in loops_around(request.decoded, request.layout.index)):
        return
    code = request.decoded.code
    if id(code) not in _met:
        _met[id(code)] = {}
        weakref.finalize(code, _met.pop, id(code)).atexit = False
    met = _met[id(code)]
    last, count = met.get(name, (None, 0))
    if last is None or last() is not cls:
        count += 1
        met[name] = weakref.ref(cls), count
    if count > _SEVERAL:
        raise GraphBreak("class is defined in the function", f"{name}, another one at each call")


# attributes of classes that compiled code sets ------------------------------------------------------------------------
class Overlaid:
    """What a class has under a name that compiled code sets: a value, read anew at each call, that is no descriptor."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


class ClassChanges(Mutable):
    """What the region did to a class. `content`: by name the value that was set, or None for what was deleted."""

    __slots__ = ("cls",)

    kind = "attributes of a class"

    def __init__(self, cls: type, source: Source) -> None:
        super().__init__({}, source)
        self.cls = cls

    def effects(self, out: ExitWriter) -> Iterable[str]:
        target = out.hold(self.cls)
        for name, value in self.content.items():
            if value is None:
                yield f"{out.hold(type.__delattr__)}({target}, {name!r})"
            else:
                yield f"{out.hold(type.__setattr__)}({target}, {name!r}, {out.text(value)})"


#: names of attributes that compiled code sets on classes. What is found there is not pinned, or each call would be a
#: miss; it only ever grows, and only says how such an attribute is guarded
_written_by_class: weakref.WeakKeyDictionary[type, set[str]] = weakref.WeakKeyDictionary()
_written_names: set[str] = set()


def note_written(cls: type, name: str) -> None:
    """From now on the attribute is read as something that changes; an attempt that did not know begins anew."""
    names = _written_by_class.setdefault(cls, set())
    if name not in names:
        names.add(name)
        _written_names.add(name)
        raise CaptureAnew(f"{cls.__qualname__}.{name} is set")


def _written(ctx: Context, cls: type, name: str) -> Any:
    """The attribute of a class that is written, or that inherits from one; None where it is looked up as ever."""
    mro = type_mro(cls)
    if not any(name in _written_by_class.get(base, ()) for base in mro) or is_descriptor(type(find(cls, name))):
        return None
    for base in mro:
        changes = ctx.class_changes.get(base)
        if changes is not None and name in changes.content:
            if changes.content[name] is not None:
                return Overlaid(changes.content[name])
            continue
        if is_immutable_type(base):
            if name in type_dict(base):
                return None
            continue
        own = Attr(ctx.hold(base), "__dict__")
        if name in type_dict(base):
            ctx.guard(Kind.HAS_KEY, own, name)
            value = ctx.real(ctx.wrap(type_dict(base)[name], Item(own, name)))
            return Overlaid(value)
        ctx.guard(Kind.LACKS_KEY, own, name)
    return MISSING


def is_descriptor(kind: type) -> bool:
    return any(find(kind, verb) is not MISSING for verb in ("__get__", "__set__", "__delete__"))


def class_object(ctx: Context, cls: type) -> Value:
    return ctx.wrap(cls, ctx.hold(cls))


def is_data_descriptor(ctx: Context, raw: Any) -> bool:
    kind = type(raw)
    if kind is types.FunctionType or kind in (staticmethod, classmethod, Overlaid):
        return False
    if kind is property or kind in _C_DATA:
        return True
    return any(class_attribute(ctx, kind, verb) is not MISSING for verb in ("__set__", "__delete__"))


def plain_value(ctx: Context, cls: type, name: str, raw: Any) -> Value:
    """The value of a class attribute as it is; TYPE_ATTR already pins which object it is."""
    if is_constant(raw):
        return constant(raw)
    if isinstance(raw, _HOLDABLE):
        return ctx.wrap(raw, ctx.hold(raw))
    return ctx.wrap(raw, _class_source(ctx, cls, name))


def _class_source(ctx: Context, cls: type, name: str) -> Source:
    """An expression that gives the object in the class: what is in it may change, so guards on it count."""
    if find(type(cls), name) is MISSING:
        return Attr(ctx.hold(cls), name)
    return _descriptor_source(ctx, cls, name)


def overrides_reading(ctx: Context, raw: Any) -> bool:
    """Does this class attribute come before the instance's own one?"""
    if not is_data_descriptor(ctx, raw):
        return False
    return type(raw) is property or type(raw) in _C_DATA or class_attribute(ctx, type(raw), "__get__") is not MISSING


def get_from_instance(ctx: Context, raw: Any, name: str, receiver: Value, cls: type) -> Value:
    """`raw.__get__(receiver, cls)` of an attribute that was found on the class `cls` of the receiver."""
    kind = type(raw)
    if kind is types.FunctionType:
        return BoundMethod(ctx.wrap(raw, ctx.hold(raw)), receiver)
    if kind is Overlaid:
        return raw.value
    if kind is staticmethod or kind is classmethod:
        return _get_from_wrapper(ctx, raw, name, class_object(ctx, cls))
    if kind is property:
        return _get_property(ctx, raw, name, receiver, cls)
    if kind in C_METHODS:
        return CMethod(raw, receiver)
    if kind in BOUND_LIKE_FUNCTIONS:
        return BoundMethod(ctx.wrap(raw, ctx.hold(raw)), receiver)
    if kind in _C_DATA:
        return c_attribute(ctx, raw, name, receiver)
    if kind is functools.cached_property:
        return _get_cached(ctx, raw, name, receiver)
    if kind is _TUPLE_GETTER:
        position = raw.__reduce__()[1][0]
        part: Any = ctx.real(receiver).builtin_part()
        return part.items(ctx)[position]
    getter = class_attribute(ctx, kind, "__get__")
    if getter is MISSING:
        return plain_value(ctx, cls, name, raw)
    if getter is _PROPERTY["__get__"] and is_a(raw, property):
        return _get_property(ctx, raw, name, receiver, cls)
    if _reads_as_wrapper(getter, raw):
        return _get_from_wrapper(ctx, raw, name, class_object(ctx, cls))
    return _call_getter(ctx, getter, raw, name, receiver, cls)


def get_from_class(ctx: Context, raw: Any, name: str, cls: type, owner: Value | None = None) -> Value:
    """`raw.__get__(None, cls)`; `owner` is the value of `cls`."""
    kind = type(raw)
    if kind is types.FunctionType:
        return ctx.wrap(raw, ctx.hold(raw))
    if kind is Overlaid:
        return raw.value
    if kind is staticmethod or kind is classmethod:
        return _get_from_wrapper(ctx, raw, name, owner or class_object(ctx, cls))
    if kind is types.ClassMethodDescriptorType:
        return CMethod(raw, owner or class_object(ctx, cls))
    if kind is property or kind in (*C_METHODS, *_C_DATA, *BOUND_LIKE_FUNCTIONS) or kind is functools.cached_property:
        return ctx.wrap(raw, ctx.hold(raw))
    getter = class_attribute(ctx, kind, "__get__")
    if getter is MISSING:
        return plain_value(ctx, cls, name, raw)
    if getter is _PROPERTY["__get__"] and is_a(raw, property):
        return descriptor_value(ctx, cls, name, raw)
    if _reads_as_wrapper(getter, raw):
        return _get_from_wrapper(ctx, raw, name, owner or class_object(ctx, cls))
    return _call_getter(ctx, getter, raw, name, constant(None), cls)


def _reads_as_wrapper(getter: Any, raw: Any) -> bool:
    """Is it a static or class method, also of a subclass (`abc.abstractclassmethod`) that leaves reading as it is?"""
    return any(is_a(raw, kind) and getter is type_dict(kind)["__get__"] for kind in (staticmethod, classmethod))


def property_part(raw: property, part: str) -> Any:
    """`fget`, `fset` or `fdel` of a property, past what a subclass may have under that name."""
    return _PROPERTY[part].__get__(raw)


def _get_from_wrapper(ctx: Context, raw: Any, name: str, owner: Value) -> Value:
    """Of a staticmethod or classmethod object, or one of a subclass that reads like them.

    Both are immutable, so what they wrap is pinned with them.
    """
    is_static = is_a(raw, staticmethod)
    wrapped = type_dict(staticmethod if is_static else classmethod)["__func__"].__get__(raw)
    function = constant(wrapped) if is_constant(wrapped) else ctx.wrap(wrapped, ctx.hold(wrapped))
    if is_static:
        return function
    if type(wrapped) is not types.FunctionType:
        raise GraphBreak("attribute cannot be read", f".{name}: a class method that wraps another descriptor")
    return BoundMethod(function, owner)


def _get_property(ctx: Context, raw: property, name: str, receiver: Value, cls: type) -> Value:
    function = property_part(raw, "fget")
    if function is None:
        ctx.raise_(AttributeError(f"property {name!r} of {cls.__qualname__!r} object has no getter"))
    return ctx.real(ctx.wrap(function, ctx.hold(function))).call(ctx, [receiver], {})


def _get_cached(ctx: Context, raw: functools.cached_property[Any], name: str, receiver: Value) -> Value:
    """The first read of a functools.cached_property: a later one finds the instance's own attribute."""
    if raw.attrname != name:
        raise GraphBreak("attribute cannot be read", f".{name}: a cached_property under another name")
    owner = ctx.real(receiver)
    if not hasattr(owner, "store_own"):  # a member of an enumeration
        owner.refuse("attribute cannot be read", f".{name}", "it is a cached_property")
    value = ctx.real(ctx.wrap(raw.func, ctx.hold(raw.func))).call(ctx, [receiver], {})
    owner.store_own(ctx, name, value)
    return value


def _call_getter(ctx: Context, getter: Any, raw: Any, name: str, receiver: Value, cls: type) -> Value:
    if type(getter) is not types.FunctionType:
        raise GraphBreak("attribute cannot be read", f".{name}: a {type(raw).__qualname__} on {cls.__qualname__}")
    function, descriptor = ctx.wrap(getter, ctx.hold(getter)), ctx.wrap(raw, _descriptor_source(ctx, cls, name))
    return ctx.real(function).call(ctx, [descriptor, receiver, class_object(ctx, cls)], {})


def _descriptor_source(ctx: Context, cls: type, name: str) -> Source:
    """The raw object in the class's dict: a descriptor is not asked."""
    owner = next(base for base in type_mro(cls) if name in type_dict(base))
    return Item(Attr(ctx.hold(owner), "__dict__"), name)


def descriptor_value(ctx: Context, cls: type, name: str, raw: Any) -> Value:
    """The descriptor object itself."""
    return ctx.wrap(raw, _descriptor_source(ctx, cls, name))


def c_attribute(ctx: Context, raw: Any, name: str, receiver: Value) -> Value:
    """An attribute that C code keeps: a slot, `__dict__`, `args` of an exception."""
    reader = getattr(ctx.real(receiver), "read_c_attribute", None)
    if reader is None:
        ctx.real(receiver).refuse("attribute cannot be read", f".{name}")
    return reader(ctx, raw)


def special(ctx: Context, receiver: Value, cls: type, name: str) -> Value | None:
    """A special method, which Python looks up on the type alone; None where there is none."""
    raw = class_attribute(ctx, cls, name)
    if raw is MISSING or raw is None:
        return None
    return ctx.real(get_from_instance(ctx, raw, name, receiver, cls))


class CMethod(Value):
    """A method written in C, bound to its object: `object.__init__` of self, say."""

    __slots__ = ("raw", "receiver")

    kind: ClassVar[str] = "method written in C"

    def __init__(self, raw: Any, receiver: Value) -> None:
        super().__init__()
        self.raw, self.receiver = raw, receiver

    def __str__(self) -> str:
        return f"{self.raw.__qualname__}() of {self.receiver}"

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        """Bound methods are equal where they are bound to one object."""
        if op not in ("==", "!=") or not isinstance(other, CMethod):
            return None
        same = other.raw is self.raw and ctx.real(other.receiver) is ctx.real(self.receiver)
        return constant(same == (op == "=="))

    def python_type(self, ctx: Context) -> type:
        return type(self.raw.__get__(object())) if self.raw.__objclass__ is object else types.BuiltinMethodType

    def truth(self, ctx: Context) -> bool:
        return True

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        receiver = ctx.real(self.receiver)
        known = getattr(receiver, "call_c_method", None)
        if known is not None:
            return known(ctx, self.raw, args, kwargs)
        return receiver.call_method(ctx, self.raw.__name__, args, kwargs)

    def reconstruct(self, out: ExitWriter) -> str:
        receiver = out.text(self.receiver)
        of_class = "None, " if type(self.raw) is types.ClassMethodDescriptorType else ""
        return f"{out.hold(self.raw)}.__get__({of_class}{receiver})"


class UnboundMethod(Value):
    """A method written in C, taken from its class: `object.__setattr__`, `dict.get`."""

    __slots__ = ("raw",)

    kind: ClassVar[str] = "method written in C"

    def __init__(self, raw: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.raw = raw

    def __str__(self) -> str:
        return f"{self.raw.__qualname__}()"

    def python_type(self, ctx: Context) -> type:
        return type(self.raw)

    def as_python(self, ctx: Context) -> Any:
        return self.raw

    def truth(self, ctx: Context) -> bool:
        return True

    def key(self, ctx: Context) -> object:
        return self.raw

    def is_same(self, ctx: Context, other: Value) -> bool:
        return isinstance(other, UnboundMethod) and other.raw is self.raw

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not args or not issubclass(ctx.real(args[0]).python_type(ctx), self.raw.__objclass__):
            self.refuse("operation is not supported", "call with another object")
        return CMethod(self.raw, args[0]).call(ctx, args[1:], kwargs)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.hold(self.raw)


_layouts: weakref.WeakKeyDictionary[type, type | None] = weakref.WeakKeyDictionary()


def layout_root(cls: type) -> type | None:
    """The builtin class that C code gives instances their shape by, where every class below it is made by Python."""
    if cls not in _layouts:
        root = next(base for base in type_mro(cls) if not is_made_by_python(base))
        below = type_mro(cls)[type_mro(cls).index(root) :]
        plain = all(is_made_by_python(base) or base in type_mro(root) for base in below)
        _layouts[cls] = root if plain else None
    return _layouts[cls]
