"""Canonical instructions: the data that `decode` makes and everybody above reads, and what each does to the stack.

ARCHITECTURE.md ("Canonical instructions") says what every name means. Stands above `versions` only.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

#: (line, end line, column, end column), as `code.co_positions()` gives them.
Positions = tuple[int | None, int | None, int | None, int | None]


class RewriterError(Exception):
    """Bytecode that `rewriter` does not understand or must not make."""


class DecodeError(RewriterError):
    """A code object that is not what this Python's compiler makes."""


class Instruction(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody wants of an instruction
    opname: str
    arg: Any
    #: Canonical index that it jumps to.
    target: int | None
    #: Canonical index of its unit's first instruction.
    unit: int
    #: Of its unit's first original instruction in `co_code`, behind EXTENDED_ARG.
    offset: int
    positions: Positions


class Handler(NamedTuple):
    """One entry of the exception table, in canonical indices; always of whole units. `end` is exclusive."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


#: How many objects an instruction takes and gives; what it only looks at counts as neither.
Effect = tuple[int, int]

_FIXED: dict[str, Effect] = {
    "NOP": (0, 0), "POP_TOP": (1, 0), "PUSH_NULL": (0, 1), "LOAD_CONST": (0, 1),
    "LOAD_FAST": (0, 1), "STORE_FAST": (1, 0), "DELETE_FAST": (0, 0), "LOAD_FAST_AND_CLEAR": (0, 1),
    "LOAD_CLOSURE": (0, 1), "LOAD_DEREF": (0, 1), "STORE_DEREF": (1, 0), "DELETE_DEREF": (0, 0),
    "LOAD_FROM_DICT_OR_DEREF": (1, 1), "MAKE_CELL": (0, 0), "COPY_FREE_VARS": (0, 0),
    "LOAD_GLOBAL": (0, 1), "STORE_GLOBAL": (1, 0), "DELETE_GLOBAL": (0, 0),
    "LOAD_NAME": (0, 1), "STORE_NAME": (1, 0), "DELETE_NAME": (0, 0), "LOAD_LOCALS": (0, 1),
    "LOAD_FROM_DICT_OR_GLOBALS": (1, 1), "LOAD_BUILD_CLASS": (0, 1), "SETUP_ANNOTATIONS": (0, 0),
    "UNARY_NEGATIVE": (1, 1), "UNARY_INVERT": (1, 1), "UNARY_POSITIVE": (1, 1), "UNARY_NOT": (1, 1), "TO_BOOL": (1, 1),
    "BINARY_OP": (2, 1), "COMPARE_OP": (2, 1), "IS_OP": (2, 1), "CONTAINS_OP": (2, 1),
    "BINARY_SUBSCR": (2, 1), "STORE_SUBSCR": (3, 0), "DELETE_SUBSCR": (2, 0),
    "LIST_APPEND": (1, 0), "SET_ADD": (1, 0), "MAP_ADD": (2, 0), "LIST_EXTEND": (1, 0), "SET_UPDATE": (1, 0),
    "DICT_UPDATE": (1, 0), "DICT_MERGE": (1, 0), "LIST_TO_TUPLE": (1, 1),
    "CONVERT_VALUE": (1, 1), "FORMAT_SIMPLE": (1, 1), "FORMAT_WITH_SPEC": (2, 1), "BUILD_TEMPLATE": (2, 1),
    "GET_LEN": (0, 1), "MATCH_MAPPING": (0, 1), "MATCH_SEQUENCE": (0, 1), "MATCH_KEYS": (0, 1), "MATCH_CLASS": (3, 1),
    "LOAD_ATTR": (1, 1), "STORE_ATTR": (2, 0), "DELETE_ATTR": (1, 0), "LOAD_SUPER_ATTR": (3, 1),
    "MAKE_FUNCTION": (1, 1), "SET_FUNCTION_ATTRIBUTE": (2, 1),
    "JUMP": (0, 0), "POP_JUMP_IF_TRUE": (1, 0), "POP_JUMP_IF_FALSE": (1, 0),
    "POP_JUMP_IF_NONE": (1, 0), "POP_JUMP_IF_NOT_NONE": (1, 0), "FOR_ITER": (0, 1), "SEND": (1, 1),
    "GET_ITER": (1, 1), "GET_YIELD_FROM_ITER": (1, 1), "GET_AWAITABLE": (1, 1), "GET_AITER": (1, 1),
    "GET_ANEXT": (0, 1), "END_ASYNC_FOR": (2, 0), "END_SEND": (2, 1), "RETURN_GENERATOR": (0, 1),
    "YIELD_VALUE": (1, 1), "RETURN_VALUE": (1, 0), "ASYNC_GEN_WRAP": (1, 1), "CLEANUP_THROW": (3, 2),
    "STOPITERATION_ERROR": (1, 1),
    "RERAISE": (1, 0), "PUSH_EXC_INFO": (1, 2), "POP_EXCEPT": (1, 0), "CHECK_EXC_MATCH": (1, 1),
    "CHECK_EG_MATCH": (2, 2), "PREP_RERAISE_STAR": (2, 1), "WITH_EXCEPT_START": (0, 1), "BEFORE_WITH": (1, 2),
    "BEFORE_ASYNC_WITH": (1, 2), "LOAD_SPECIAL": (1, 1),
    "IMPORT_NAME": (2, 1), "IMPORT_FROM": (0, 1), "IMPORT_STAR": (1, 0), "PRINT_EXPR": (1, 0),
}
#: Of the INTRINSICs, which take one object; the others take two.
ONE_ARGUMENT_INTRINSICS = frozenset({"TYPEVAR", "PARAMSPEC", "TYPEVARTUPLE", "SUBSCRIPT_GENERIC", "TYPEALIAS"})
#: COPY and SWAP only move what is there; counted so that their depth comes out right.
_BY_ARGUMENT: dict[str, Callable[[Any], Effect]] = {
    "COPY": lambda n: (0, 1),
    "SWAP": lambda n: (0, 0),
    "BUILD_TUPLE": lambda n: (n, 1), "BUILD_LIST": lambda n: (n, 1), "BUILD_SET": lambda n: (n, 1),
    "BUILD_STRING": lambda n: (n, 1), "BUILD_SLICE": lambda n: (n, 1), "BUILD_MAP": lambda n: (2 * n, 1),
    "BUILD_CONST_KEY_MAP": lambda n: (n + 1, 1),
    "BUILD_INTERPOLATION": lambda arg: (2 + arg[1], 1),
    "UNPACK_SEQUENCE": lambda n: (1, n),
    "UNPACK_EX": lambda arg: (1, arg[0] + 1 + arg[1]),
    "CALL": lambda n: (n + 2, 1), "CALL_KW": lambda n: (n + 3, 1), "CALL_FUNCTION_EX": lambda kwargs: (3 + kwargs, 1),
    "RAISE_VARARGS": lambda n: (n, 0),
    "INTRINSIC": lambda name: (1, 1) if name in ONE_ARGUMENT_INTRINSICS else (2, 1),
}
#: When they jump.
_JUMPING: dict[str, Effect] = {"FOR_ITER": (1, 0), "SEND": (2, 1)}

CANONICAL_OPNAMES = frozenset(_FIXED) | frozenset(_BY_ARGUMENT)
#: Nothing falls through behind these.
TERMINAL_OPNAMES = frozenset({"JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
JUMP_OPNAMES = frozenset({
    "JUMP", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", "FOR_ITER", "SEND",
})


def effect(opname: str, arg: Any, jump: bool = False) -> Effect:
    """What the instruction takes from the stack and gives to it, `jump`: where it jumps."""
    if jump and opname in _JUMPING:
        return _JUMPING[opname]
    fixed = _FIXED.get(opname)
    return fixed if fixed is not None else _BY_ARGUMENT[opname](arg)
