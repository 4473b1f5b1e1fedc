"""Differences between Python versions that concern writing code: encodings, and how added code is spelled.

The reading side's differences are in versions.py. Everything here is a name, a table or a small function.
"""

from __future__ import annotations

import dis
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any

from .versions import BINARY_OPERATORS, COMPARE_TO_BOOL_BIT, NULL_ABOVE_CALLABLE, VERSION

OPNAME = dis.opname
OPCODE = {name: code for name, code in dis.opmap.items() if code < 256 and not name.startswith("INSTRUMENTED_")}
HAS_ARGUMENT = frozenset(
    name for name, code in OPCODE.items() if (code in dis.hasarg if VERSION >= (3, 12) else code >= dis.HAVE_ARGUMENT)
)

# dis has no public table of the cache entries behind an instruction, but both private forms are read by `bytecode` too.
_caches = dis._inline_cache_entries  # type: ignore[attr-defined]
CACHES: dict[str, int] = {
    name: _caches.get(name, 0) if isinstance(_caches, dict) else _caches[code] for name, code in OPCODE.items()
}

JUMPS = frozenset(OPNAME[code] for code in dis.hasjrel if OPNAME[code] in OPCODE)
# 3.14's END_ASYNC_FOR never jumps, but names the SEND of its loop, for events.
BACKWARD_JUMPS = frozenset(name for name in JUMPS if "BACKWARD" in name or name == "END_ASYNC_FOR")
# Instructions whose argument is an index into locals, cells and free variables in one row.
LOCALS_PLUS = frozenset(OPNAME[code] for code in (*dis.haslocal, *dis.hasfree) if OPNAME[code] in OPCODE)

# Instructions whose argument is the number of a constant; of a name, above this many bits.
CONSTANTS = frozenset(OPNAME[code] for code in dis.hasconst if OPNAME[code] in OPCODE)
NAME_SHIFT = {OPNAME[code]: 0 for code in dis.hasname if OPNAME[code] in OPCODE}
NAME_SHIFT |= {"LOAD_GLOBAL": 1, "LOAD_ATTR": 1} if VERSION >= (3, 12) else {"LOAD_GLOBAL": 1}
NAME_SHIFT |= {"LOAD_SUPER_ATTR": 2} if "LOAD_SUPER_ATTR" in OPCODE else {}

# Super-instructions: two accesses, two indices of four bits each.
SPLIT: dict[str, tuple[str, str]] = {
    name: pair
    for name, pair in {
        "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
        "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    }.items()
    if name in OPCODE
}
# A borrowed load wants its local to stay as it is while the value is on the stack; a landing may rebind it.
PLAIN = {"LOAD_FAST_BORROW": "LOAD_FAST"} if VERSION >= (3, 14) else {}
# Prefixes of a CALL: nothing may come between them and it.
CALL_PREFIXES = frozenset({"KW_NAMES", "PRECALL"}) & OPCODE.keys()

JUMP_IF_NOT_NONE = "POP_JUMP_IF_NOT_NONE" if VERSION >= (3, 12) else "POP_JUMP_FORWARD_IF_NOT_NONE"
JUMP_IF_FALSE = "POP_JUMP_IF_FALSE" if VERSION >= (3, 12) else "POP_JUMP_FORWARD_IF_FALSE"
JUMP_IF_TRUE = "POP_JUMP_IF_TRUE" if VERSION >= (3, 12) else "POP_JUMP_FORWARD_IF_TRUE"
# Loads of a local: that may be unbound; of a cell itself.
LOAD_CHECKED = "LOAD_FAST_CHECK" if "LOAD_FAST_CHECK" in OPCODE else "LOAD_FAST"
LOAD_CELL = "LOAD_CLOSURE" if "LOAD_CLOSURE" in OPCODE else "LOAD_FAST"
LOADS_UNCHECKED = frozenset({"LOAD_FAST", "LOAD_CLOSURE"}) & OPCODE.keys() if VERSION >= (3, 12) else frozenset()


def call(arguments: int) -> tuple[tuple[str, int], ...]:
    """The instructions that call what lies below the arguments."""
    return (("PRECALL", arguments), ("CALL", arguments)) if VERSION < (3, 12) else (("CALL", arguments),)


def take_local(index: int) -> tuple[tuple[str, int], ...]:
    """Push a bound local and unbind it."""
    if "LOAD_FAST_AND_CLEAR" in OPCODE:
        return (("LOAD_FAST_AND_CLEAR", index),)
    return (("LOAD_FAST", index), ("DELETE_FAST", index))


def global_load(arg: int) -> tuple[int, bool]:
    """LOAD_GLOBAL's index of a name, and whether it pushes a NULL too."""
    return arg >> 1, bool(arg & 1)


def with_null(load: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """A load of one callable, and a NULL where a call wants it."""
    return (*load, ("PUSH_NULL", 0)) if NULL_ABOVE_CALLABLE else (("PUSH_NULL", 0), *load)


def bound(*pair: Any) -> Any:
    """What LOAD_SPECIAL found as one callable: called with a function and its object, or with a callable alone."""
    return type(pair[1]).__get__(pair[1], pair[0]) if len(pair) == 2 else pair[0]


def plain_method_load(name: str, arg: int, constant: Callable[[object], int]) -> tuple[tuple[str, int], ...] | None:
    """The same attribute as a callable and a NULL, for an instruction that pushes a method and its object (or NULL).

    `constant` gives the number of a constant.
    """
    if name == "LOAD_SPECIAL":  # 3.14: no other load knows these names, and the call of `bound` takes object or NULL
        return ((name, arg), ("LOAD_CONST", constant(bound)), ("SWAP", 3), ("CALL", 1), ("PUSH_NULL", 0))
    if name == "LOAD_METHOD":  # 3.11
        load: tuple[str, int] = ("LOAD_ATTR", arg)
    elif (name == "LOAD_ATTR" and VERSION >= (3, 12) and arg & 1) or (name == "LOAD_SUPER_ATTR" and arg & 1):
        load = (name, arg & ~1)
    else:
        return None
    if not NULL_ABOVE_CALLABLE:
        return (load, ("PUSH_NULL", 0), ("SWAP", 2))
    return (load, ("PUSH_NULL", 0))


def _comparisons() -> dict[str, tuple[tuple[str, int], ...]]:
    """What compares before a jump, by operator. The argument has bits for specializing, as the compiler writes them."""
    found = {}
    for operator in ("<", "=="):
        code: CodeType = compile(f"if a {operator} b: c", "<compare>", "exec")
        found[operator] = next(ins.arg for ins in dis.get_instructions(code) if ins.opname == "COMPARE_OP")
    to_bool = (("TO_BOOL", 0),) if COMPARE_TO_BOOL_BIT else ()
    return {
        operator: (("COMPARE_OP", arg & ~COMPARE_TO_BOOL_BIT), *to_bool)
        for operator, arg in found.items()
        if arg is not None
    }


COMPARE = _comparisons()

# The place of the instruction that raised, which some handlers find below the exception, is no object since 3.14: no
# entry can pass it, no landing push it.
LASTI_IS_OBJECT = VERSION < (3, 14)

# POP_TOP takes a NULL since 3.14; before, it crashes on one.
POP_TOP_TAKES_NULL = VERSION >= (3, 14)

# Units that stand for nothing a region may start or end at. FOR_ITER jumps over what stands at its target, counting
# instructions; generators and decode look for END_SEND at SEND's, events of a branch for NOT_TAKEN right behind it.
NEVER_ENTERED = frozenset({"RESUME", "END_FOR", "POP_ITER", "END_SEND", "NOT_TAKEN", "CACHE"}) & OPCODE.keys()


def subscript() -> tuple[str, int]:
    """`a[b]` of the two objects on top."""
    return ("BINARY_SUBSCR", 0) if "BINARY_SUBSCR" in OPCODE else ("BINARY_OP", BINARY_OPERATORS.index("[]"))


# What differs between code that loads a name and code that loads a constant instead.
_LOADING = (
    "CACHE EXTENDED_ARG NOP LOAD_GLOBAL LOAD_CONST LOAD_SMALL_INT PUSH_NULL BUILD_TUPLE RETURN_CONST RETURN_VALUE"
)
_WORKING = [code for name, code in OPCODE.items() if name not in _LOADING.split()]


def work_done(code: CodeType) -> list[int]:
    """How often each instruction is there, loads of names and constants aside."""
    counts = Counter(code.co_code[::2])
    return [counts[opcode] for opcode in _WORKING]
