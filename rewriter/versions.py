"""Every difference between the Python versions that we run on, each behind a name.

The lowest file of `rewriter`: it imports nothing of ours. No other file compares versions. A version that nobody has
looked at raises at import: a guess about bytecode would be a wrong answer or a crash.
"""
from __future__ import annotations

import sys

SUPPORTED = ((3, 11), (3, 12), (3, 13), (3, 14))
VERSION = sys.version_info[:2]
if VERSION not in SUPPORTED or sys.implementation.name != "cpython":
    raise ImportError(
        f"torchgraft knows the bytecode of CPython {', '.join(f'{a}.{b}' for a, b in SUPPORTED)}, "
        f"not that of {sys.implementation.name} {VERSION[0]}.{VERSION[1]}"
    )

#: A call's NULL lies above the callable since 3.13, below it before.
NULL_ABOVE_CALLABLE = VERSION >= (3, 13)
#: LOAD_ATTR's lowest bit asks for a method since 3.12; 3.11 has LOAD_METHOD, its LOAD_ATTR holds the name alone.
LOAD_ATTR_HAS_METHOD_BIT = VERSION >= (3, 12)
#: Conditional jumps and UNARY_NOT test the truth of any object before 3.13; since then they want an exact bool.
JUMPS_TEST_TRUTH = VERSION < (3, 13)
#: COMPARE_OP's argument holds the operator above this many bits, and below them (3.13) the wish for an exact bool.
COMPARE_SHIFT = {(3, 11): 0, (3, 12): 4}.get(VERSION, 5)
COMPARE_TO_BOOL_BIT = 16 if VERSION >= (3, 13) else 0
#: MAKE_FUNCTION takes defaults, closure, ... from the stack before 3.13; since then SET_FUNCTION_ATTRIBUTE sets them.
MAKE_FUNCTION_TAKES_ATTRIBUTES = VERSION < (3, 13)
#: A closure's cell is loaded by LOAD_FAST since 3.13.
LOAD_FAST_LOADS_CELLS = VERSION >= (3, 13)
#: What stands at FOR_ITER's target, whatever part of it the interpreter skips: it only drops the iterator.
FOR_END: tuple[str, ...] = {
    (3, 11): (), (3, 12): ("END_FOR",), (3, 13): ("END_FOR", "POP_TOP"), (3, 14): ("END_FOR", "POP_ITER"),
}[VERSION]
#: What stands at SEND's target: it drops the receiver (SEND itself does before 3.12).
SEND_END: tuple[str, ...] = ("END_SEND",) if VERSION >= (3, 12) else ()
#: WITH_EXCEPT_START: the stack positions (top is 1) of the exit function and, since 3.14, of its self or NULL.
WITH_EXIT_POSITIONS: tuple[int, int | None] = (5, 4) if VERSION >= (3, 14) else (4, None)
#: CALL_FUNCTION_EX always takes a kwargs slot since 3.14; a NULL, pushed just before, stands for none.
CALL_FUNCTION_EX_TAKES_NULL = VERSION >= (3, 14)
#: 3.11 keeps the keyword names of a call apart (KW_NAMES) and has PRECALL; 3.12 has KW_NAMES only.
CALL_PREFIXES = ("KW_NAMES", "PRECALL")
#: dis.stack_effect leaves out the object that a resumed generator finds on its stack before 3.13.
RETURN_GENERATOR_EFFECT_KNOWN = VERSION >= (3, 13)

#: Attributes of an instance are quicker than items of its `__dict__`, also where that was asked for before.
QUICK_INSTANCE_ATTRIBUTES = VERSION >= (3, 13)

COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
OPERATORS = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")
#: BINARY_OP's argument: the operator, in place, and since 3.14 the subscript.
BINARY_OPERATORS = (*OPERATORS, *(f"{symbol}=" for symbol in OPERATORS), "[]")
#: CALL_INTRINSIC_1 and _2 (3.12+). Intrinsics that 3.11 has as opcodes are lowered to these opcodes' names.
INTRINSICS_1 = (
    None, "PRINT", "IMPORT_STAR", "STOPITERATION_ERROR", "ASYNC_GEN_WRAP", "UNARY_POSITIVE", "LIST_TO_TUPLE",
    "TYPEVAR", "PARAMSPEC", "TYPEVARTUPLE", "SUBSCRIPT_GENERIC", "TYPEALIAS",
)
INTRINSICS_2 = (
    None, "PREP_RERAISE_STAR", "TYPEVAR_WITH_BOUND", "TYPEVAR_WITH_CONSTRAINTS", "SET_FUNCTION_TYPE_PARAMS",
    "SET_TYPEPARAM_DEFAULT",
)
#: SET_FUNCTION_ATTRIBUTE's and MAKE_FUNCTION's bits.
FUNCTION_ATTRIBUTES = {1: "defaults", 2: "kwdefaults", 4: "annotations", 8: "closure", 16: "annotate"}
#: LOAD_COMMON_CONSTANT (3.14).
COMMON_CONSTANTS = (AssertionError, NotImplementedError, tuple, all, any)
#: LOAD_SPECIAL (3.14).
SPECIAL_METHODS = ("__enter__", "__exit__", "__aenter__", "__aexit__")
