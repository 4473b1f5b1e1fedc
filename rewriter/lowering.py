"""What every opcode of every supported Python becomes in canonical instructions.

`LOWERINGS[opname](arg, names)` gives the (opname, arg) pairs of one unit. A name that several Pythons share means the
same on all of them, or asks `versions` what it means here. `decode` walks the code, splits super-instructions and
resolves jumps.
"""
from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from . import versions
from .instructions import ONE_ARGUMENT_INTRINSICS, DecodeError

Pieces = tuple[tuple[str, Any], ...]


class Names:
    """What an opcode's argument may index in one code object."""

    __slots__ = ("cells", "consts", "free", "names", "shared", "slots")

    def __init__(self, code: CodeType) -> None:
        self.consts, self.names = code.co_consts, code.co_names
        local, self.cells, self.free = own_names(code)
        #: Names of the frame's slots in order: locals (arguments first), other cells, free variables.
        self.slots = (*local, *(name for name in self.cells if name not in local), *self.free)
        #: The variables that closures share.
        self.shared = frozenset(self.cells + self.free)


Lowering = Callable[[int, Names], Pieces]


def own_names(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Locals, cells and free variables (an argument that is a cell has one slot and is in both), no name for two slots.

    Where an inlined comprehension has a variable that is free in the function around it, both have a slot: the
    comprehension's is named `.x` here, as no source can name it.
    """
    local, cells, free = code.co_varnames, code.co_cellvars, code.co_freevars
    twice = {name for name in free if name in local or name in cells}
    if not twice:
        return local, cells, free
    taken = {*local, *cells, *free}
    names = {name: name for name in taken}
    for name in sorted(twice):
        while names[name] in taken:
            names[name] = "." + names[name]
        taken.add(names[name])
    return tuple(names[name] for name in local), tuple(names[name] for name in cells), free


NULL: Pieces = (("PUSH_NULL", None),)
#: Behind the load of a callable: the NULL that completes the pair, in this Python's order.
WITH_NULL: Pieces = NULL if versions.NULL_ABOVE_CALLABLE else (*NULL, ("SWAP", 2))
NOP: Pieces = (("NOP", None),)


def plain(opname: str) -> Lowering:
    pieces = ((opname, None),)
    return lambda arg, names: pieces


def counted(opname: str) -> Lowering:
    return lambda arg, names: ((opname, arg),)


def inverted(opname: str) -> Lowering:
    return lambda arg, names: ((opname, bool(arg)),)


def named(opname: str) -> Lowering:
    return lambda arg, names: ((opname, names.names[arg]),)


def slotted(opname: str) -> Lowering:
    return lambda arg, names: ((opname, names.slots[arg]),)


def always(*pieces: tuple[str, Any]) -> Lowering:
    return lambda arg, names: pieces


def truth_jump(opname: str) -> Lowering:
    """A jump by truth: of any object before 3.13, so its TO_BOOL comes first."""
    return always(("TO_BOOL", None), (opname, None)) if versions.JUMPS_TEST_TRUTH else plain(opname)


def load_fast(arg: int, names: Names) -> Pieces:
    name = names.slots[arg]
    loads_cell = versions.LOAD_FAST_LOADS_CELLS and name in names.shared
    return (("LOAD_CLOSURE" if loads_cell else "LOAD_FAST", name),)


def load_const(arg: int, names: Names) -> Pieces:
    return (("LOAD_CONST", names.consts[arg]),)


def load_global(arg: int, names: Names) -> Pieces:
    load = (("LOAD_GLOBAL", names.names[arg >> 1]),)
    if not arg & 1:
        return load
    return load + NULL if versions.NULL_ABOVE_CALLABLE else NULL + load


def load_attr(arg: int, names: Names) -> Pieces:
    if not versions.LOAD_ATTR_HAS_METHOD_BIT:
        return (("LOAD_ATTR", names.names[arg]),)
    load = (("LOAD_ATTR", names.names[arg >> 1]),)
    return load + WITH_NULL if arg & 1 else load


def load_method(arg: int, names: Names) -> Pieces:
    return (("LOAD_ATTR", names.names[arg]), *WITH_NULL)


def load_super_attr(arg: int, names: Names) -> Pieces:
    load = (("LOAD_SUPER_ATTR", (names.names[arg >> 2], bool(arg & 2))),)
    return load + WITH_NULL if arg & 1 else load


def load_special(arg: int, names: Names) -> Pieces:
    return (("LOAD_SPECIAL", versions.SPECIAL_METHODS[arg]), *WITH_NULL)


def compare_op(arg: int, names: Names) -> Pieces:
    """The wish for an exact bool (3.13) is a unit of its own: see `decode.py`."""
    return (("COMPARE_OP", versions.COMPARISONS[arg >> versions.COMPARE_SHIFT]),)


def binary_op(arg: int, names: Names) -> Pieces:
    operator = versions.BINARY_OPERATORS[arg]
    return (("BINARY_SUBSCR", None),) if operator == "[]" else (("BINARY_OP", operator),)


def make_function(arg: int, names: Names) -> Pieces:
    """Before 3.13 the attributes lie under the code in the order of their bits: the last one is the first to be set."""
    pieces: list[tuple[str, Any]] = [("MAKE_FUNCTION", None)]
    if versions.MAKE_FUNCTION_TAKES_ATTRIBUTES:
        bits = sorted(versions.FUNCTION_ATTRIBUTES, reverse=True)
        pieces += [("SET_FUNCTION_ATTRIBUTE", versions.FUNCTION_ATTRIBUTES[bit]) for bit in bits if arg & bit]
    return tuple(pieces)


def format_value(arg: int, names: Names) -> Pieces:
    """FORMAT_VALUE (before 3.13): bits 0 and 1 are the conversion, bit 2 says that a format spec is on top."""
    convert = (("CONVERT_VALUE", arg & 3),) if arg & 3 else ()
    if not arg & 4:
        return (*convert, ("FORMAT_SIMPLE", None))
    under_spec = (("SWAP", 2), *convert, ("SWAP", 2)) if convert else ()
    return (*under_spec, ("FORMAT_WITH_SPEC", None))


def intrinsic(name: str) -> Pieces:
    """An intrinsic gives a value, an opcode of 3.11 for the same job may not: then the value is None."""
    if name in ("IMPORT_STAR", "PRINT"):
        return (("PRINT_EXPR" if name == "PRINT" else name, None), ("LOAD_CONST", None))
    if name in ONE_ARGUMENT_INTRINSICS or name in versions.INTRINSICS_2[2:]:
        return (("INTRINSIC", name),)
    return ((name, None),)


def call_intrinsic(table: tuple[str | None, ...]) -> Lowering:
    pieces = [intrinsic(name) if name else () for name in table]
    return lambda arg, names: pieces[arg]


PLAIN = (
    "POP_TOP PUSH_NULL RETURN_VALUE UNARY_NEGATIVE UNARY_INVERT UNARY_POSITIVE TO_BOOL BINARY_SUBSCR STORE_SUBSCR "
    "DELETE_SUBSCR GET_LEN MATCH_MAPPING MATCH_SEQUENCE MATCH_KEYS PUSH_EXC_INFO POP_EXCEPT CHECK_EXC_MATCH "
    "CHECK_EG_MATCH GET_AITER GET_ANEXT BEFORE_ASYNC_WITH BEFORE_WITH END_ASYNC_FOR END_SEND CLEANUP_THROW GET_ITER "
    "GET_YIELD_FROM_ITER LOAD_BUILD_CLASS RETURN_GENERATOR LIST_TO_TUPLE IMPORT_STAR SETUP_ANNOTATIONS YIELD_VALUE "
    "ASYNC_GEN_WRAP PREP_RERAISE_STAR PRINT_EXPR LOAD_LOCALS FORMAT_SIMPLE FORMAT_WITH_SPEC BUILD_TEMPLATE FOR_ITER "
    "SEND"
)
COUNTED = (
    "SWAP COPY BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_STRING BUILD_SLICE BUILD_CONST_KEY_MAP LIST_APPEND "
    "SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE UNPACK_SEQUENCE CALL CALL_KW RAISE_VARARGS "
    "RERAISE GET_AWAITABLE CONVERT_VALUE COPY_FREE_VARS MATCH_CLASS"
)
NAMED = (
    "STORE_NAME DELETE_NAME STORE_ATTR DELETE_ATTR STORE_GLOBAL DELETE_GLOBAL LOAD_NAME IMPORT_NAME IMPORT_FROM "
    "LOAD_FROM_DICT_OR_GLOBALS"
)
SLOTTED = (
    "STORE_FAST DELETE_FAST LOAD_FAST_AND_CLEAR LOAD_CLOSURE MAKE_CELL LOAD_DEREF STORE_DEREF DELETE_DEREF "
    "LOAD_FROM_DICT_OR_DEREF"
)
SLICE: tuple[str, Any] = ("BUILD_SLICE", 2)

LOWERINGS: dict[str, Lowering] = {
    **{name: plain(name) for name in PLAIN.split()},
    **{name: counted(name) for name in COUNTED.split()},
    **{name: named(name) for name in NAMED.split()},
    **{name: slotted(name) for name in SLOTTED.split()},
    **{name: inverted(name) for name in ("IS_OP", "CONTAINS_OP")},
    **{name: plain("NOP") for name in ("NOP", "RESUME", "NOT_TAKEN", "END_FOR")},
    **{name: plain("JUMP") for name in ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")},
    **{f"POP_JUMP_{way}IF_{test}": truth_jump(f"POP_JUMP_IF_{test}")
       for test in ("TRUE", "FALSE") for way in ("", "FORWARD_", "BACKWARD_")},
    **{f"POP_JUMP_{way}IF_{test}": plain(f"POP_JUMP_IF_{test}")
       for test in ("NONE", "NOT_NONE") for way in ("", "FORWARD_", "BACKWARD_")},
    **{f"JUMP_IF_{test}_OR_POP":
       always(("COPY", 1), ("TO_BOOL", None), (f"POP_JUMP_IF_{test}", None), ("POP_TOP", None))
       for test in ("TRUE", "FALSE")},
    **dict.fromkeys(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"), load_fast),
    "POP_ITER": plain("POP_TOP"),
    "UNARY_NOT": always(("TO_BOOL", None), ("UNARY_NOT", None)) if versions.JUMPS_TEST_TRUTH else plain("UNARY_NOT"),
    "LOAD_CONST": load_const,
    "RETURN_CONST": lambda arg, names: (("LOAD_CONST", names.consts[arg]), ("RETURN_VALUE", None)),
    "LOAD_SMALL_INT": lambda arg, names: (("LOAD_CONST", arg),),
    "LOAD_COMMON_CONSTANT": lambda arg, names: (("LOAD_CONST", versions.COMMON_CONSTANTS[arg]),),
    "LOAD_ASSERTION_ERROR": always(("LOAD_CONST", AssertionError)),
    "LOAD_CLASSDEREF": lambda arg, names: (("LOAD_LOCALS", None), ("LOAD_FROM_DICT_OR_DEREF", names.slots[arg])),
    "LOAD_GLOBAL": load_global,
    "LOAD_ATTR": load_attr,
    "LOAD_METHOD": load_method,
    "LOAD_SUPER_ATTR": load_super_attr,
    "LOAD_SPECIAL": load_special,
    "COMPARE_OP": compare_op,
    "BINARY_OP": binary_op,
    "BINARY_SLICE": always(SLICE, ("BINARY_SUBSCR", None)),
    "STORE_SLICE": always(SLICE, ("STORE_SUBSCR", None)),
    "FORMAT_VALUE": format_value,
    "BUILD_INTERPOLATION": lambda arg, names: (("BUILD_INTERPOLATION", (arg >> 2, bool(arg & 1))),),
    "UNPACK_EX": lambda arg, names: (("UNPACK_EX", (arg & 0xFF, arg >> 8)),),
    "MAKE_FUNCTION": make_function,
    "SET_FUNCTION_ATTRIBUTE": lambda arg, names: (("SET_FUNCTION_ATTRIBUTE", versions.FUNCTION_ATTRIBUTES[arg]),),
    "CALL_FUNCTION_EX": inverted("CALL_FUNCTION_EX"),
    "WITH_EXCEPT_START": always(("WITH_EXCEPT_START", versions.WITH_EXIT_POSITIONS)),
    "CALL_INTRINSIC_1": call_intrinsic(versions.INTRINSICS_1),
    "CALL_INTRINSIC_2": call_intrinsic(versions.INTRINSICS_2),
}
#: Two variable accesses in one instruction, each argument four bits, the first in the upper ones.
SUPER_INSTRUCTIONS: dict[str, tuple[str, str]] = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
#: Real opcodes that no code object of the compiler shows in `co_code`, and why decode refuses them.
REFUSED: dict[str, str] = {
    "INTERPRETER_EXIT": "only in the interpreter's own trampoline",
    "EXIT_INIT_CHECK": "only in the interpreter's own trampoline",
    "ENTER_EXECUTOR": "a JIT trace, which co_code hides",
    "RESERVED": "no instruction",
}


def refuse(opname: str) -> Lowering:
    def raise_decode_error(arg: int, names: Names) -> Pieces:
        raise DecodeError(f"{opname}: {REFUSED.get(opname, 'unknown opcode')}")

    return raise_decode_error
