"""Keys of dicts and elements of sets: when two values are equal as keys, and how an item is fetched by one.

`Value.key` gives a hashable. For what is known at capture it is the Python object itself, so that it lies where it
would lie in a real dict; for an object known by identity alone (a tensor, an instance made here) it is the value.
"""

from __future__ import annotations

import enum
import math
import operator
import weakref
from collections.abc import Callable, Hashable, Iterable
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import GraphBreak
from ..guards import MISSING, Kind
from ..sources import Call, Index, Item, Source
from .base import Raised, Value
from .constants import TORCH_CONSTANTS, call_pure, constant, is_constant
from .operations import equal
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

_EQUAL_ACROSS_TYPES = frozenset([int, bool, float, complex, tuple, frozenset])
_LITERAL = frozenset([int, str, bool, NoneType, bytes])


class UserKey:
    """An object whose class hashes and compares in Python: a real dict of these asks what CPython's would ask."""

    __slots__ = ("ctx", "hash", "value")

    def __init__(self, ctx: Context, value: Value, number: int) -> None:
        self.ctx, self.value, self.hash = ctx, value, number

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, UserKey):
            raise GraphBreak("key is not supported", f"{self.value} beside a key of another type with the same hash")
        return equal(self.ctx, self.value, other.value)


def _what_python_says(use: Callable[[Any], object]) -> str:
    """Its words, as a template, about a list that is used so: "unhashable type" alone, or what it was used as too."""
    try:
        use([])
    except TypeError as error:
        return str(error).replace("unhashable type: 'list'", "{error}").replace("'list'", "{type!r}")
    raise AssertionError("a list has a hash")


_AS_KEY, _AS_ELEMENT, _ALONE = map(_what_python_says, ({}.get, set().add, hash))  # type: ignore[arg-type]
#: an iterable of such is intersected
_INTERSECTED = _what_python_says(lambda unhashable: {1}.intersection([unhashable]))


def hash_key(ctx: Context, value: Value, words: str = _AS_KEY) -> Hashable:
    """What stands for the value as a key of a dict; equal keys are equal values."""
    try:
        key = ctx.real(value).key(ctx)
    except Raised as raised:
        _raise_in_words(ctx, raised, ctx.real(value), words)
    if _holds_nan(key):
        raise GraphBreak("key is not supported", f"{value} is nan")
    return key


def hash_element(ctx: Context, value: Value) -> Hashable:
    """The same for an element of a set."""
    return hash_key(ctx, value, _AS_ELEMENT)


def hash_intersected(ctx: Context, value: Value) -> Hashable:
    """The same for an item of what a set is intersected with."""
    return hash_key(ctx, value, _INTERSECTED)


def hash_alone(ctx: Context, value: Value) -> Hashable:
    """The same where hash() asks."""
    return hash_key(ctx, value, _ALONE)


def _raise_in_words(ctx: Context, raised: Raised, key: Value, words: str) -> NoReturn:
    """Since 3.14 dicts and sets raise another TypeError about it."""
    if words == "{error}" or raised.value.python_type(ctx) is not TypeError:
        raise raised
    arguments = ctx.real(raised.value.getattr(ctx, "args")).unpack(ctx)
    cls = key.python_type(ctx)
    name = cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"
    if len(arguments) != 1 or type(text := ctx.real(arguments[0]).as_python(ctx)) is not str:
        raise GraphBreak("Python raises or warns here", f"hash of {key}")
    ctx.raise_(TypeError(words.format(error=text, type=name)))


def _holds_nan(key: object) -> bool:
    if type(key) is float:
        return math.isnan(key)
    if type(key) is complex:
        return math.isnan(key.real) or math.isnan(key.imag)
    return isinstance(key, (tuple, frozenset)) and any(map(_holds_nan, key))


def is_known(key: object) -> bool:
    """Is the key the Python object itself, so that its hash is the one it has at run time?"""
    if isinstance(key, (Value, UserKey)):
        return False
    return not isinstance(key, (tuple, frozenset)) or all(map(is_known, key))


def from_outside(ctx: Context, key: object, where: object) -> Value:
    """The value for a key found in a real container, of which a guard says that it is this key."""
    if _is_plain(key):
        return constant(key)
    if isinstance(key, (enum.Enum, type)) or (callable(key) and not isinstance(key, weakref.ref)):
        return ctx.wrap(key, ctx.hold(key))
    raise GraphBreak("key is not supported", f"a {type(key).__qualname__} in {where}")


def _is_plain(key: object) -> bool:
    if type(key) in (tuple, frozenset):
        return all(map(_is_plain, key))  # type: ignore[call-overload]
    if isinstance(key, TORCH_CONSTANTS):
        return True
    return type(key) in _LITERAL or (type(key) is float and not math.isnan(key))


def own_key(container: Iterable[Any], key: Any) -> Any:
    """The key that a real container itself holds where this one is looked up (1 may be found as True or 1.0)."""
    if type(key) not in _EQUAL_ACROSS_TYPES:
        return key
    return next((k for k in container if type(k) in _EQUAL_ACROSS_TYPES and _is_plain(k) and k == key), key)


def holds_object(ctx: Context, container: Any, source: Source, key: Hashable) -> Any:
    """The real object in a real container that this value, which is its own key, stands for; else MISSING."""
    if not isinstance(key, Value) or isinstance(key.key(ctx), (tuple, UserKey)):
        raise GraphBreak("key is not supported", f"a tuple with objects, looked up in {source}")
    if key.source is None:
        return MISSING  # made in the region: it was never put into a container from outside
    real = ctx.graph.real_of(key.graph_tensor) if isinstance(key, TensorValue) else getattr(key, "object", None)
    if real is None:
        raise GraphBreak("key is not supported", f"{key}, looked up in {source}")
    present = real in container
    ctx.guard(Kind.EXPRESSION, Call(ctx.hold(operator.contains), (source, key.source)), present)
    return real if present else MISSING


def item_source(ctx: Context, base: Source, key: object) -> Source:
    """The source of `base[key]` for a known key."""
    return Item(base, key) if _has_literal(key) else Index(base, ctx.hold(key))


def _has_literal(key: object) -> bool:
    if type(key) is tuple:
        return all(map(_has_literal, key))
    return type(key) in _LITERAL


def raise_key_error(ctx: Context, key: Value, how: Callable[[Any], Any] = {}.__getitem__) -> NoReturn:
    """The KeyError that `how` raises on an empty container; for an object, the original instruction must raise it."""
    value = ctx.real(key)
    if not is_known(hash_key(ctx, value)) or not is_constant(obj := value.as_python(ctx)):
        raise GraphBreak("Python raises or warns here", f"no key {value}")
    call_pure(ctx, how, obj)
    raise GraphBreak("Python raises or warns here", f"no key {value}")
