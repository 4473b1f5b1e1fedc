"""How each kind of guard is written: one function a kind, which adds its conditions to the writer.

A condition never changes anything and runs no code of the user's: values are compared with `==` only where both are
known to be exact builtins, everything else by identity; only builtin containers are measured and searched.
"""

from __future__ import annotations

import collections
import enum
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from .errors import InternalError
from .function_fields import code_field
from .global_state import state_conditions
from .guard_values import describe, has_value, same_elements, same_keys, same_value
from .guard_writer import Writer, is_instance_dict
from .guards import BASES, ClassAttribute, Kind
from .holding import (
    Parts,
    Weak,
    class_dict,
    held,
    hold,
    is_a,
    is_immutable_type,
    lives_for_ever,
    short_name,
    type_dict,
    type_mro,
)
from .sources import Attr, Call, Held, Item, Literal, Operation, Source

#: Types whose truth, length and items are what C code makes them.
PLAIN_CONTAINERS: frozenset[type] = frozenset({
    list, tuple, dict, set, frozenset, str, bytes, bytearray, range, torch.Size, collections.OrderedDict,
    collections.defaultdict, collections.deque, types.MappingProxyType,
})  # fmt: skip
PLAIN_DICTS: frozenset[type] = frozenset({
    dict, collections.OrderedDict, collections.defaultdict, types.MappingProxyType,
})  # fmt: skip
PLAIN_SETS: frozenset[type] = frozenset({set, frozenset})
PLAIN_TRUTH: frozenset[type] = PLAIN_CONTAINERS | {int, float, complex, bool, types.NoneType}

_SINGLETONS: tuple[object, ...] = (None, True, False, ...)

Write = Callable[[Writer, Source, Any], None]
WRITERS: dict[Kind, Write] = {}


def _writes(kind: Kind) -> Callable[[Write], Write]:
    def register(write: Write) -> Write:
        WRITERS[kind] = write
        return write

    return register


@_writes(Kind.TYPE)
def _write_type(w: Writer, source: Source, expected: Any) -> None:
    if expected is not bool or not w.truth_is_guarded(source):
        w.require_type(source, expected)


@_writes(Kind.IS)
def _write_is(w: Writer, source: Source, expected: Any) -> None:
    if any(expected is s for s in _SINGLETONS):
        w.add(f"{w.text(source)} is {_singleton(expected)}")
    elif is_a(expected, Parts):
        w.add(f"{w.constant(expected)}({w.text(source)})")
    elif is_a(expected, Weak):  # a dead object must not be taken for None
        w.add(f"{w.constants.text(expected)} is {w.text(source)} is not None")
    else:
        w.add(f"{w.text(source)} is {w.constant(expected)}")


@_writes(Kind.IS_NOT)
def _write_is_not(w: Writer, source: Source, expected: Any) -> None:
    if any(expected is s for s in _SINGLETONS):
        w.add(f"{w.text(source)} is not {_singleton(expected)}")
    elif is_a(expected, Parts):
        w.add(f"not {w.constant(expected)}({w.text(source)})")
    else:
        w.add(f"{w.text(source)} is not {w.constants.text(expected)}")


def _singleton(value: object) -> str:
    return "..." if value is ... else repr(value)


@_writes(Kind.EQUALS)
def _write_equals(w: Writer, source: Source, expected: Any) -> None:
    kind = type(expected)
    if any(expected is s for s in _SINGLETONS):
        w.add(f"{w.text(source)} is {_singleton(expected)}")
    elif expected is NotImplemented or is_a(expected, enum.Enum) or kind in _UNIQUE:
        _write_is(w, source, hold(expected))
    elif _is_short(expected) or kind is float:
        _write_plain(w, source, expected)
    elif kind is torch.device:
        w.require_type(source, kind)
        w.add(f"{w.text(source)} == {w.constant(expected, 'device')}")
    elif kind in (tuple, torch.Size) and len(expected) <= 6:
        w.require_type(source, kind)
        _write_length(w, source, len(expected))
        for position, item in enumerate(expected):
            _write_equals(w, Item(source, position), item)
    else:
        w.add(f"{w.constant(same_value)}({w.text(source)}, {w.constant(expected, 'value')})")


def _is_short(value: Any) -> bool:
    """Is it an int or text that may be written out?"""
    if type(value) is int:
        return abs(value) < 1 << 64
    return type(value) in (str, bytes) and len(value) <= 60


_UNIQUE = frozenset({torch.dtype, torch.layout, torch.memory_format})


def _write_plain(w: Writer, source: Source, value: Any) -> None:
    """A number or text: mostly it is the very object that it was."""
    if w.knows_type(source, type(value)):
        w.add(" and ".join(_equality(w, source, value)))
        return
    same = f"{w.text(source)} is {w.constant(value, 'value')}"
    right = f"{w.constant(type)}({w.text(source)}) is {w.constant(type(value))}"
    w.add(f"({same} or {' and '.join([right, *_equality(w, source, value)])})")


def _equality(w: Writer, source: Source, value: Any) -> list[str]:
    if type(value) is not float:
        return [f"{w.text(source)} == {value!r}"]
    if math.isnan(value):
        return [f"{w.text(source)} != {w.text(source)}"]
    text = repr(value) if math.isfinite(value) else w.constant(value, "inf" if value > 0 else "minus_inf")
    found = [f"{w.text(source)} == {text}"]
    if value == 0.0:
        found.append(f"{w.constant(math.copysign)}(1.0, {w.text(source)}) == {math.copysign(1.0, value)!r}")
    return found


@_writes(Kind.LENGTH)
def _write_length(w: Writer, source: Source, expected: int) -> None:
    length = _length(w, source)
    if expected == 0 and length == w.constant(len):
        w.add(f"not {w.text(source)}")
    else:
        w.add(f"{length}({w.text(source)}) == {expected}")
    if w.known_type(source) in PLAIN_DICTS:
        w.bind_values(source, expected)


def _length(w: Writer, source: Source) -> str:
    """The function that counts the items: for a user's subclass that of the builtin class, whatever it overrides.

    A class that nobody can change has a length that C code counts, whatever it is.
    """
    known = w.plain_type(source, PLAIN_CONTAINERS, "containers")
    if known is None or known in PLAIN_CONTAINERS or is_immutable_type(known):
        return w.constant(len)
    return w.constant(_builtin_base(source, known).__len__, "length")


def _builtin_base(source: Source, cls: type) -> Any:
    for base in (collections.OrderedDict, collections.defaultdict, dict, list, tuple, set, frozenset, str, bytes):
        if issubclass(cls, base):
            return base
    raise InternalError(f"{source} is a {describe(cls)}: LENGTH and KEYS guards measure builtin containers only")


@_writes(Kind.TRUTHY)
def _write_truthy(w: Writer, source: Source, expected: Any) -> None:
    _require_plain_truth(w, source)
    _write_truth(w, source, True)


@_writes(Kind.FALSY)
def _write_falsy(w: Writer, source: Source, expected: Any) -> None:
    _require_plain_truth(w, source)
    _write_truth(w, source, False)


def _write_truth(w: Writer, source: Source, expected: bool) -> None:
    if w.known_type(source) is bool:
        w.add(f"{w.text(source)} is {expected}")
    else:
        w.add(w.text(source) if expected else f"not {w.text(source)}")


def _require_plain_truth(w: Writer, source: Source) -> None:
    known = w.plain_type(source, PLAIN_TRUTH, "plain")
    if known is None or known in PLAIN_TRUTH:
        return
    for name in ("__bool__", "__len__"):
        owner = next((base for base in type_mro(known) if name in type_dict(base)), None)
        if owner is not None:
            if is_immutable_type(owner):
                return
            break
    raise InternalError(f"the truth of {source}, a {describe(known)}, is decided by the user's code: no guard for it")


@_writes(Kind.KEYS)
def _write_keys(w: Writer, source: Source, expected: Any) -> None:
    if type(expected) is frozenset:
        known = w.plain_type(source, PLAIN_SETS, "sets")
        if known is not None and known not in PLAIN_SETS:
            raise InternalError(f"{source} is a {describe(known)}: no guard for its elements")
        w.add(f"{w.constant(same_elements)}({w.text(source)}, {w.constant(expected, 'elements')})")
        return
    known = w.plain_type(source, PLAIN_DICTS, "dicts")
    keys = w.text(source)
    if known is not None and known not in PLAIN_DICTS:
        keys = f"{w.constant(_builtin_base(source, known).__iter__, 'keys_of')}({keys})"
        w.add(f"{w.constant(same_keys)}({w.constant(list)}({keys}), {w.constant(expected, 'keys')})")
        return
    if not expected:
        w.add(f"not {keys}")
        return
    # A list: code objects exchange strings inside of constant tuples for interned ones.
    name = w.constants.reserve("k_keys", list(expected))
    if any(type(key) in (Weak, Parts) for key in expected):
        w.add(f"{w.constant(same_keys)}({keys}, {name})")
        return
    quick = f"{w.constant(all)}({w.constant(map)}({w.constant(operator.is_, 'is')}, {w.text(source)}, {name}))"
    slow = f"{w.constant(same_keys)}({w.text(source)}, {name})"
    w.add(f"{w.constant(len)}({keys}) == {len(expected)} and ({quick} or {slow})")


@_writes(Kind.NAMES)
def _write_names(w: Writer, source: Source, expected: Any) -> None:
    """One comparison of lists: what is there is compared by identity first. Values are then taken by position."""
    known = w.plain_type(source, PLAIN_DICTS, "dicts")
    if known is not None and known not in PLAIN_DICTS:
        raise InternalError(f"{source} is a {describe(known)}: no guard for its names")
    if not expected:
        w.add(f"not {w.text(source)}")
        return
    w.add(f"[*{w.text(source)}] == {w.constants.reserve('k_names', list(expected))}")
    w.bind_values(source, len(expected), expected)


@_writes(Kind.HAS_KEY)
def _write_has_key(w: Writer, source: Source, expected: Any) -> None:
    is_dict = w.known_type(source) is dict or is_instance_dict(source)
    if is_dict and type(expected) in (str, int) and w.is_guarded(Item(source, expected)):
        if is_instance_dict(source):
            w.require_dict(source)
        return  # fetching it raises where the key is gone
    container = _searched(w, source)
    key = _key(w, expected)
    w.add(f"{key} in {container}")
    if is_a(expected, Weak):
        w.add(f"{key} is not None")


@_writes(Kind.LACKS_KEY)
def _write_lacks_key(w: Writer, source: Source, expected: Any) -> None:
    container = _searched(w, source)
    w.add(f"{_key(w, expected)} not in {container}")


def _searched(w: Writer, source: Source) -> str:
    known = w.plain_type(source, PLAIN_DICTS | PLAIN_SETS, "searchable")
    if known is not None and known not in PLAIN_DICTS and known not in PLAIN_SETS:
        if not issubclass(known, dict):
            raise InternalError(f"{source} is a {describe(known)}: no guard for one of its keys")
        return f"{w.constant(dict.keys, 'keys_of')}({w.text(source)})"  # whatever the class makes of `in`
    return w.text(source)


def _key(w: Writer, key: Any) -> str:
    if key is None or type(key) is bool or _is_short(key):
        return repr(key)
    value = held(key)
    if not is_immutable_type(type(value)) and not issubclass(type(value), (torch.Tensor, enum.Enum)):
        owner = next(base for base in type_mro(type(value)) if "__hash__" in type_dict(base))
        if owner is not object:
            raise InternalError(f"a {describe(type(value))} has a hash of its own: no guard for it as a key")
    return w.constants.text(key, "key")


# relations between sources, and what capture computed ----------------------------------------------------------------
@_writes(Kind.ALIAS)
def _write_alias(w: Writer, source: Source, expected: Source) -> None:
    w.ready_to_fetch(expected)
    w.add(f"{w.text(source)} is {w.text(expected)}")


@_writes(Kind.NOT_ALIAS)
def _write_not_alias(w: Writer, source: Source, expected: Source) -> None:
    w.ready_to_fetch(expected)
    w.add(f"{w.text(source)} is not {w.text(expected)}")


@_writes(Kind.EXPRESSION)
def _write_expression(w: Writer, source: Source, expected: bool) -> None:
    if isinstance(source, Operation) and source.left is not None and source.op == ("and" if expected else "or"):
        _write_expression(w, source.left, expected)
        _write_expression(w, source.right, expected)
        return
    if not (expected is True and _is_read_anyway(w, source)):
        _write_truth(w, source, expected)


@_writes(Kind.SHAPE)
def _write_shape(w: Writer, source: Source, expected: None) -> None:
    w.add(w.text(source))


def _is_read_anyway(w: Writer, source: Source) -> bool:
    """Does `hasattr` ask for an attribute that another guard fetches? That raises where it has gone."""
    if not isinstance(source, Call) or not isinstance(source.function, Held) or source.function.value is not hasattr:
        return False
    base, name = source.arguments
    return isinstance(name, Literal) and w.is_guarded(Attr(base, str(name.value)))


@_writes(Kind.NO_OVERLAP)
def _write_no_overlap(w: Writer, source: Source, expected: Any) -> None:
    sources, overlap = expected
    if len(sources) < 2:
        return
    name = w.constants.reserve("k_overlap", overlap.checker())
    w.add(f"{name}({', '.join(map(w.text, sources))})")


@_writes(Kind.STATE)
def _write_state(w: Writer, source: Source, expected: Any) -> None:
    tensors_checked = any(g.kind is Kind.TENSOR for g in w.guards)
    if w.counting:
        return
    for text, name, constant in state_conditions(expected, tensors_checked=tensors_checked, native=w.native):
        w.add(text.format(w.constants.reserve(f"k_{name}", constant)))


# functions and classes ------------------------------------------------------------------------------------------------
@_writes(Kind.CODE)
def _write_code(w: Writer, source: Source, expected: Any) -> None:
    """The code itself, or where torchgraft has grafted the function, the code that it had before."""
    name = w.constant(expected)
    function = w.function_that_lives_for_ever(source)
    if function is not None:
        field = w.constants.view(code_field(function), function, f"code_of_{short_name(function)}")
        first = again = f"{field}.value"
    else:
        code = Attr(source, "__code__")
        first, again = w.text(code), "" if w.original_code is None else w.text(code)
    if w.original_code is None:
        w.add(f"{first} is {name}")
    else:
        w.add(f"({first} is {name} or {w.constant(w.original_code, 'original_code')}({again}) is {name})")


@_writes(Kind.TYPE_ATTR)
def _write_type_attribute(w: Writer, source: Source, expected: ClassAttribute) -> None:
    """The bases are the same, the base that has it still has it, and no base before has one by now."""
    name = expected.name
    bases = [held(base) for base in expected.bases]
    if None in bases:
        raise InternalError(f"a class with attribute {name} died before its guard was written")
    _write_bases(w, bases[0], expected.bases)
    if name == BASES:
        return
    if expected.raw is _GETATTRIBUTE and type(bases[0]) is type and lives_for_ever(bases[0]):
        # No descriptor but itself gives it and lets attributes be read, so that it may be asked for in the quick way.
        if w.first_time("reads", bases[0]):
            w.add(f"{w.constant(bases[0])}.__getattribute__ is {w.constant(_GETATTRIBUTE, 'getattribute')}")
        return
    before = bases if expected.owner is None else bases[: expected.owner]
    for base in before:
        if not is_immutable_type(base) and w.first_time("lacks", base, name):
            w.add(f"{name!r} not in {_class_dict(w, base)}")
    if expected.owner is not None:
        base = bases[expected.owner]
        if not is_immutable_type(base) and w.first_time("has", base, name):
            _write_raw(w, f"{_class_dict(w, base)}[{name!r}]", expected.raw)


_GETATTRIBUTE = object.__getattribute__


def _write_raw(w: Writer, text: str, raw: Any) -> None:
    if is_a(raw, Parts):
        w.add(f"{w.constant(raw)}({text})")
    elif is_a(raw, Weak):
        w.add(f"{w.constants.text(raw)} is {text} is not None")
    elif has_value(raw):
        value = w.constant(raw, "value")
        w.add(f"({text} is {value} or {w.constant(same_value)}({text}, {value}))")
    else:
        w.add(f"{text} is {w.constant(raw)}")


def _class_dict(w: Writer, cls: type) -> str:
    """What the class itself defines, as it is now."""
    if lives_for_ever(cls):
        return w.constants.view(class_dict(cls), cls, f"{w.constant(cls)[2:]}_dict")
    return w.text(Call(Held("k_dict_of", type_dict), (Held(f"k_{short_name(cls)}", cls),)))


def _write_bases(w: Writer, cls: type, bases: tuple[Any, ...]) -> None:
    if not w.first_time("bases", cls):
        return
    text = w.constants.text(cls)
    mro = type_mro(cls)
    if not lives_for_ever(mro):
        w.add(f"{w.constant(same_bases)}({text}, {w.constants.reserve('k_bases', list(bases))})")
    elif type(cls) is type:
        w.add(f"{text}.__mro__ is {w.constant(mro, f'{text[2:]}_bases')}")
    else:  # a metaclass may have an __mro__ of its own
        w.add(f"{w.constant(type_mro, 'bases_of')}({text}) is {w.constant(mro, f'{text[2:]}_bases')}")


def same_bases(cls: type | None, bases: list[Any]) -> bool:
    """Are these, each held as it may be, the bases of the class? None: the class is gone."""
    if cls is None:
        return False
    now = type_mro(cls)
    return len(now) == len(bases) and all(a is held(b) for a, b in zip(now, bases, strict=True))
