"""How a region holds the objects that it compares with: strongly, weakly, or by their parts; and what they are called.

A region sits in a code object, which the garbage collector does not see into: what it holds strongly and what reaches
the function again can never be freed. So only objects that live for ever anyway (builtins, what a module defines at its
top) and plain values are held strongly; all else weakly. A region whose weakly held object died can never run again.
"""

from __future__ import annotations

import builtins
import enum
import functools
import gc
import re
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeGuard, TypeVar

import torch
from torch.utils.weak import TensorWeakRef

from .errors import InternalError

IMMUTABLE_TYPE: Final = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: attributes of such a class never change

PLAIN_TYPES: Final = frozenset({
    types.NoneType, bool, int, float, complex, str, bytes, types.EllipsisType, types.NotImplementedType, range,
    torch.dtype, torch.device, torch.layout, torch.memory_format, object, types.CodeType,
    type(torch.ops.aten.add), type(torch.ops.aten.add.Tensor),
})  # fmt: skip

_C_CALLABLES: Final = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip

#: So many decorators of one function are looked through.
_DECORATORS: Final = 8

#: Reads what a class says of itself past any metaclass.
type_mro: Final[Callable[[type], tuple[type, ...]]] = type.__dict__["__mro__"].__get__
type_dict: Final[Callable[[type], Any]] = type.__dict__["__dict__"].__get__
type_flags: Final[Callable[[type], int]] = type.__dict__["__flags__"].__get__
type_qualname: Final[Callable[[type], str]] = type.__dict__["__qualname__"].__get__


def class_dict(cls: type) -> Any:
    """The very dict of a class, which is read four times as quickly as the view of it that Python shows."""
    view = type_dict(cls)
    inner = gc.get_referents(view)
    return inner[0] if len(inner) == 1 and type(inner[0]) is dict else view


T = TypeVar("T")


def is_a(value: object, cls: type[T]) -> TypeGuard[T]:
    """`isinstance` that looks at the type alone: the other also asks the object for its `__class__`."""
    return issubclass(type(value), cls)


def is_immutable_type(cls: type) -> bool:
    return bool(type_flags(cls) & IMMUTABLE_TYPE)


def defined_at_top(value: Any, module: object, qualname: object) -> bool:
    """Is this what its module defines under its name, or what decorators wrapped there? Runs no user code."""
    if type(module) is not str or type(qualname) is not str or module not in sys.modules:
        return False
    found: Any = sys.modules[module]
    for name in qualname.split("."):
        if is_a(found, types.ModuleType):
            found = found.__dict__.get(name)
        elif is_a(found, type):
            found = type_dict(found).get(name)
        else:
            return False
    return any(part is value or _wraps(part, value) for part in (found, *descriptor_parts(found)))


def _wraps(outer: Any, value: object) -> bool:
    """Is it what `functools.wraps` or a cache was given to make this function, maybe through others of their kind?"""
    if type(value) is not types.FunctionType:
        return False
    for _ in range(_DECORATORS):
        if type(outer) not in (types.FunctionType, functools._lru_cache_wrapper):
            return False
        outer = outer.__dict__.get("__wrapped__")
        if outer is value:
            return True
    return False


def descriptor_parts(value: Any) -> tuple[Any, ...]:
    """The functions inside of a property, static or class method."""
    if type(value) is property:
        return value.fget, value.fset, value.fdel
    return (value.__func__,) if type(value) in (staticmethod, classmethod) else ()


def lives_for_ever(value: object) -> bool:
    """May a region hold this strongly?"""
    kind = type(value)
    if kind in PLAIN_TYPES:
        return True
    if is_a(value, type):
        module = type_dict(value).get("__module__")
        return is_immutable_type(value) or defined_at_top(value, module, type_qualname(value))
    if kind is types.FunctionType:
        return defined_at_top(value, value.__module__, value.__qualname__)  # type: ignore[attr-defined]
    if kind is types.BuiltinFunctionType:
        owner = value.__self__  # type: ignore[attr-defined]
        return owner is None or type(owner) is types.ModuleType or (is_a(owner, type) and lives_for_ever(owner))
    if kind in _C_CALLABLES:
        return lives_for_ever(value.__objclass__)  # type: ignore[attr-defined]
    if kind is types.ModuleType:
        return sys.modules.get(value.__name__) is value  # type: ignore[attr-defined]
    if kind is dict:  # the globals of a module
        module = sys.modules.get(name) if type(name := value.get("__name__")) is str else None  # type: ignore[attr-defined]
        return module is not None and module.__dict__ is value
    if kind in (tuple, frozenset):
        return all(lives_for_ever(item) for item in value)  # type: ignore[attr-defined]
    if parts := descriptor_parts(value):
        return all(lives_for_ever(part) for part in parts)
    if is_a(value, enum.Enum):
        return lives_for_ever(kind)
    return value is builtins.__dict__


def weak_reference(value: Any) -> Callable[[], Any] | None:
    """A weak reference, or None for an object that can't have one."""
    if is_a(value, torch.Tensor):  # a tensor's Python object can come back to life: torch's own reference knows
        return TensorWeakRef(value)
    try:
        return weakref.ref(value)
    except TypeError:
        return None


class Weak:
    """Stands for an object that a guard or region must not keep alive; `get()` gives it, or None once it died."""

    __slots__ = ("get", "name")

    def __init__(self, get: Callable[[], Any], name: str) -> None:
        self.get = get
        self.name = name

    def __repr__(self) -> str:
        return f"<weakly held {self.name}>"


class Parts:
    """Stands for a descriptor that can't be held weakly itself: known by its type and what it is made of."""

    __slots__ = ("kind", "name", "parts")

    def __init__(self, value: Any) -> None:
        self.kind = type(value)
        self.name = short_name(value)
        self.parts = tuple(map(hold, self._of(value)))

    @staticmethod
    def _of(value: Any) -> tuple[Any, ...]:
        if type(value) is types.MemberDescriptorType:
            return value.__objclass__, value.__name__
        return descriptor_parts(value)

    def __call__(self, value: Any) -> bool:
        """Is it this descriptor, or one made of the same?"""
        if type(value) is not self.kind:
            return False
        return all(_same_part(now, part) for now, part in zip(self._of(value), self.parts, strict=True))

    def __repr__(self) -> str:
        return f"{self.kind.__name__} {self.name}"


def _same_part(now: object, part: object) -> bool:
    if type(part) is str:
        return type(now) is str and now == part
    kept = held(part)
    return now is kept and (kept is not None or part is None)


def hold(value: Any) -> Any:
    """The object itself where it may be held, else what stands for it: a `Weak` or `Parts`.

    Other objects without weak references (lists, dicts, objects with slots) are held. A bound method is made anew at
    every attribute load, so that its identity means nothing.
    """
    if type(value) in (Weak, Parts) or lives_for_ever(value):
        return value
    if type(value) is types.MethodType:
        raise InternalError("no identity guard for a bound method: guard its __self__ and __func__")
    if type(value) in (property, staticmethod, classmethod, types.MemberDescriptorType):
        return Parts(value)
    reference = weak_reference(value)
    return value if reference is None else Weak(reference, short_name(value))


def held(value: Any) -> Any:
    """What `hold` was given, or None where it died."""
    return value.get() if is_a(value, Weak) else value


def short_name(value: Any) -> str:
    """An identifier made from what an object is."""
    if type(value) in (Weak, Parts):
        return value.name
    if is_a(value, type):
        name = type_qualname(value).rpartition(".")[2]
    elif type(value) in (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, *_C_CALLABLES):
        name = value.__name__.rpartition(".")[2]
    elif type(value) is types.CodeType:
        name = value.co_name
    elif type(value) in (torch.dtype, torch.device, torch.layout, torch.memory_format):
        name = str(value).removeprefix("torch.")
    elif is_a(value, enum.Enum):
        name = f"{type_qualname(type(value))}_{value._name_}"
    elif type(value) is functools.partial:
        name = "partial"
    elif type(value) in (property, staticmethod, classmethod):
        inner = value.fget if type(value) is property else value.__func__
        name = short_name(inner) if type(inner) is types.FunctionType else type(value).__name__
    else:
        name = type_qualname(type(value)).rpartition(".")[2].lower()
    return re.sub(r"\W+", "_", name).strip("_") or "object"


class Constants:
    """The constants of one text: names beginning with `k_`, each object once, each name unique."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.weak: list[Callable[[], Any]] = []
        self._names: dict[tuple[int, bool], str] = {}
        self._views: dict[tuple[int, str], tuple[str, object]] = {}

    def add(self, value: Any, hint: str | None = None) -> str:
        """The name of a constant that is this very object."""
        return self._names.get((id(value), False)) or self._named(value, hint or short_name(value), value, False)

    def preset(self, name: str, value: Any) -> None:
        """Adds a constant under a name that other texts use already."""
        if self.values.setdefault(name, value) is not value:
            raise InternalError(f"{name} stands for two objects")
        self._names.setdefault((id(value), False), name)

    def text(self, value: Any, hint: str | None = None) -> str:
        """An expression that gives this object: a name, or the call of a weak reference (None once it died)."""
        kept = hold(value)
        if not is_a(kept, Weak):
            return self.add(value, hint)
        known = len(self.values)
        name = self._named(kept.get(), f"w_{hint or kept.name}", kept.get, True)
        if len(self.values) > known:
            self.weak.append(kept.get)
        return f"{name}()"

    def view(self, value: Any, of: object, hint: str) -> str:
        """The name of a constant that is made anew at each access, such as the dict of a class; one for each owner."""
        key = (id(of), hint)
        if key not in self._views:
            self._views[key] = (self.reserve(f"k_{hint}", value), of)
        return self._views[key][0]

    def also_weak(self) -> dict[str, str]:
        """Of what is held although it need not live for ever: its name -> that of the weak reference there is too."""
        found = {}
        for (number, weak), name in self._names.items():
            strong = None if not weak else self._names.get((number, False))
            if strong is not None and self.values[name]() is self.values[strong]:
                found[strong] = name
        return found

    def _named(self, value: Any, hint: str, constant: Any, weak: bool) -> str:
        key = (id(value), weak)
        name = self._names.get(key)
        if name is None or (weak and (value is None or self.values[name]() is not value)):  # the id of a dead object
            name = self._names[key] = self.reserve(f"k_{hint}", constant)
        return name

    def reserve(self, name: str, value: Any) -> str:
        """Adds a constant under this name, with a number behind it where the name is taken."""
        unique, number = name, 1
        while unique in self.values:
            number += 1
            unique = f"{name}_{number}"
        self.values[unique] = value
        return unique


_HEAP_TYPE = 1 << 9
_MADE_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType)


def is_made_by_python(cls: type) -> bool:
    """Was the class made by a class statement? C code leaves methods or attributes of its own in the class's dict."""
    if not type_flags(cls) & _HEAP_TYPE or is_immutable_type(cls):
        return False
    for name, raw in type_dict(cls).items():
        of_c = type(raw) in _MADE_IN_C
        if of_c and raw.__objclass__ is cls and name not in ("__dict__", "__weakref__"):
            return False
    new = type_dict(cls).get("__new__")
    return not (type(new) is types.BuiltinFunctionType and new.__self__ is cls)
