"""What would avoid a recompile, for each kind of guard that failed. A new kind of guard needs a function here.

The words are for the author of the program: what to change in it, or what to tell `compile`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any

import torch

from ..guards import Guard, Kind
from ..holding import held, is_a
from ..refusals import Refusal
from ..sources import Attr, Call, Global, Held, Item, Source
from ..values.known_tensors import Program, value_of

Hint = Callable[[Guard, Refusal], str]
HINTS: dict[Kind, Hint] = {}

ZERO_OR_ONE = "0 and 1 are always compiled apart from other sizes (0/1 specialisation)"


def hint_for(refusal: Refusal) -> str:
    """The advice for the guard that failed first."""
    return "" if refusal.guard is None else HINTS[refusal.guard.kind](refusal.guard, refusal)


def was_for_zero_or_one(refusal: Refusal) -> bool:
    """Was the region made for a size or number of 0 or 1, and this is neither?"""
    guard = refusal.guard
    if guard is not None and guard.kind is Kind.EQUALS and type(guard.expected) is int:
        return guard.expected in (0, 1) and refusal.seen not in ("0", "1")
    for name, before, now in refusal.changes:
        if name == "shape" and len(before) == len(now):
            return any(old in (0, 1) and new not in (0, 1) for old, new in zip(before, now, strict=True))
    return False


def _for(*kinds: Kind) -> Callable[[Hint], Hint]:
    def register(hint: Hint) -> Hint:
        HINTS.update(dict.fromkeys(kinds, hint))
        return hint

    return register


_WITH_NONE = "with None or without it is another program, compiled apart; pass the same of both each time"


# tensors --------------------------------------------------------------------------------------------------------------
_OF_A_FACT = {
    "dtype": "convert it to one dtype in front of the call",
    "device": "move it to one device in front of the call",
    "stride": "pass it laid out alike each time: x.contiguous() in front of the call",
    "requires_grad": "pass it with one requires_grad: detach() it, or make it a leaf, in front of the call",
    "is_leaf": "pass a leaf each time, or a computed tensor each time",
    "type": "pass one class of tensor each time (a Parameter is one of its own)",
    "layout": "pass it strided, or compile the sparse case as a function of its own",
    "conjugate": "resolve_conj() in front of the call",
    "negative": "resolve_neg() in front of the call",
    "keys": "make it in one mode each time (inference_mode makes other tensors)",
    "thread_keys": "call it in one mode each time (autocast, inference_mode and the like)",
}


@_for(Kind.TENSOR)
def _tensor(guard: Guard, refusal: Refusal) -> str:
    facts = {name: (before, now) for name, before, now in refusal.changes}
    if "shape" in facts and not facts.keys() & {"type", "dtype", "device"}:
        kind = None if guard.expected is None else held(guard.expected.type)
        if isinstance(kind, type) and issubclass(kind, torch.nn.Parameter):
            return "sizes of parameters are never symbols: a model of another size is another program"
        return _shape(guard.source, *facts["shape"])
    if facts.get("type", ("", ""))[1] == "NoneType":
        return _WITH_NONE
    return next((text for name, text in _OF_A_FACT.items() if name in facts), "pass a tensor alike each time")


def _shape(source: Source, before: Any, now: Any) -> str:
    if len(before) != len(now):
        return f"another number of dimensions is another program: give {source} one, by unsqueeze or flatten"
    changed = [dim for dim, (old, new) in enumerate(zip(before, now, strict=True)) if old not in (None, new)]
    if any({before[dim], now[dim]} & {0, 1} for dim in changed):
        return f"{ZERO_OR_ONE}; where that matters pad to at least 2"
    dims = str(changed[0]) if len(changed) == 1 else str(changed)
    return f"mark the dimension dynamic, tracer.mark_dynamic({source}, {dims}), or compile with dynamic=True"


@_for(Kind.SHAPE)
def _relation(guard: Guard, refusal: Refusal) -> str:
    if _ZERO_OR_ONE.search(refusal.seen) is not None:
        return f"{ZERO_OR_ONE}; where that matters pad to at least 2"
    return "the line decides by this size, or an operator or the backend does; each way is a region of its own"


#: a size that is 0 or 1
_ZERO_OR_ONE = re.compile(r"\bis [01](?:,|$)")


# values ---------------------------------------------------------------------------------------------------------------
@_for(Kind.EQUALS)
def _value(guard: Guard, refusal: Refusal) -> str:
    expected = held(guard.expected)
    if _is_read_from_tensor(guard.source):
        return "the line decides by a number in a buffer: each value is another program; torch.where decides later"
    if type(expected) in (int, float):
        return _number(guard.source, expected, refusal.seen)
    if type(expected) is bool or expected is None or is_a(expected, enum.Enum):
        return "each value is another program; call it with few of them, or compile the cases as functions of their own"
    if type(expected) in (str, bytes):
        return "what depends on text is decided at capture; pass what it stands for, or leave the text outside"
    return "what depends on it is decided at capture; pass tensors or numbers, or the same value each time"


def _is_read_from_tensor(source: Source) -> bool:
    function = source.function if isinstance(source, Call) else None
    return isinstance(function, Held) and (function.value is value_of or is_a(function.value, Program))


def _number(source: Source, expected: Any, seen: str) -> str:
    if type(expected) is int and {repr(expected), seen} & {"0", "1"}:
        return f"{ZERO_OR_ONE}; else pass it as a tensor"
    if (owner := _owner(source)) is not None:
        return f"keep the number in a tensor of {owner} (a buffer), or read and change it outside of this function"
    if type(expected) is float:
        return "pass it as a tensor: torch.tensor(number)"
    return "pass it as a tensor (torch.tensor(number)), or compile with dynamic=True"


def _owner(source: Source) -> str | None:
    """The object whose attribute this is."""
    if isinstance(source, Attr) and not isinstance(source.base, Global):
        return str(source.base)
    if isinstance(source, Item) and isinstance(source.base, Attr) and source.base.name == "__dict__":
        return str(source.base.base)
    return None


@_for(Kind.EXPRESSION, Kind.TRUTHY, Kind.FALSY)
def _condition(guard: Guard, refusal: Refusal) -> str:
    return "each way of a branch is a region of its own; torch.where or torch.cond makes one of both"


@_for(Kind.LENGTH)
def _length(guard: Guard, refusal: Refusal) -> str:
    return f"the number of items shapes the graph: stack what {guard.source} holds into one tensor, or pad it"


@_for(Kind.KEYS, Kind.NAMES, Kind.HAS_KEY, Kind.LACKS_KEY)
def _keys(guard: Guard, refusal: Refusal) -> str:
    if isinstance(guard.source, Attr) and guard.source.name == "__dict__":
        return f"set all attributes of {guard.source.base} in its constructor, so that none appears or goes later"
    return f"give {guard.source} all its keys, in one order, before the first call"


# objects --------------------------------------------------------------------------------------------------------------
@_for(Kind.TYPE)
def _type(guard: Guard, refusal: Refusal) -> str:
    return f"pass {guard.source} with one type each time; each type is another program"


@_for(Kind.IS, Kind.IS_NOT)
def _identity(guard: Guard, refusal: Refusal) -> str:
    if held(guard.expected) is None:
        return _WITH_NONE
    return f"make {guard.source} once, outside, and use the same object each time (a lambda made anew is another one)"


@_for(Kind.ALIAS, Kind.NOT_ALIAS)
def _alias(guard: Guard, refusal: Refusal) -> str:
    return f"pass two objects for {guard.source} and {guard.expected} each time, or one for both each time"


@_for(Kind.NO_OVERLAP)
def _overlap(guard: Guard, refusal: Refusal) -> str:
    return "the graph writes to one of these: pass tensors that share no memory (clone() the one that is written)"


@_for(Kind.TYPE_ATTR)
def _class_attribute(guard: Guard, refusal: Refusal) -> str:
    return "set the class's attribute before the first call, or move what changes to the instance"


@_for(Kind.CODE)
def _code(guard: Guard, refusal: Refusal) -> str:
    return f"{guard.source} was defined or patched anew: do that before the first call"


@_for(Kind.STATE)
def _state(guard: Guard, refusal: Refusal) -> str:
    names = ", ".join(name for name, _, _ in refusal.changes)
    return "call it under one global state; each is compiled apart" + (f" ({names} differed)" if names else "")
