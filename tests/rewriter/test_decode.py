"""decode: canonical instructions are the same everywhere, and do to the stack what the originals do."""

from __future__ import annotations

import dis
import gc
import importlib
import opcode
import sys
import textwrap
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest

from rewriter import decode as decode_module
from rewriter import versions
from rewriter.decode import REAL_OPCODES, DecodeError, decode
from rewriter.instructions import JUMP_OPNAMES
from rewriter.lowering import LOWERINGS, REFUSED, SUPER_INSTRUCTIONS
from tests.rewriter.corpus import nested_codes

OLD_CALLS = not versions.NULL_ABOVE_CALLABLE


def function_code(source: str) -> CodeType:
    """The code of the only function that `source` defines."""
    module = compile(textwrap.dedent(source), "<test>", "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def shown(code: CodeType, first: str | None = None, last: str | None = None) -> list[str]:
    """The instructions as text, without NOPs and behind the start; from one that starts with `first` to `last`."""
    decoded = decode(code)
    lines = [
        instruction.opname if instruction.arg is None else f"{instruction.opname} {instruction.arg!r}"
        for instruction in decoded.instructions[decoded.start :]
        if instruction.opname != "NOP"
    ]
    if first is not None:
        lines = lines[next(k for k, line in enumerate(lines) if line.startswith(first)) :]
    if last is not None:
        lines = lines[: next(k for k, line in enumerate(lines) if line.startswith(last)) + 1]
    return lines


def unit_of(code: CodeType, opname: str) -> list[str]:
    """The opnames of the unit that holds the first `opname`."""
    instructions = decode(code).instructions
    unit = next(instruction.unit for instruction in instructions if instruction.opname == opname)
    return [instruction.opname for instruction in instructions if instruction.unit == unit]


def private(module: Any, name: str) -> Any:
    """What a module of the standard library keeps to itself: here to compare with."""
    return getattr(module, name)


def intrinsics(number: int) -> list[str]:
    if sys.version_info < (3, 12):
        return []
    if sys.version_info < (3, 13):
        return list(private(opcode, f"_intrinsic_{number}_descs"))
    return list(private(importlib.import_module("_opcode"), f"get_intrinsic{number}_descs")())


# tables


def test_every_opcode_is_lowered_or_refused_with_a_reason() -> None:
    known = {*LOWERINGS, *SUPER_INSTRUCTIONS, *REFUSED, "CACHE", "EXTENDED_ARG", "KW_NAMES", "PRECALL"}
    assert set(REAL_OPCODES) - known == set()
    assert not set(LOWERINGS) & set(REFUSED)


def test_tables_are_those_of_this_python() -> None:
    operators = [symbol for _, symbol in private(opcode, "_nb_ops")]
    assert operators == list(versions.BINARY_OPERATORS[: len(operators)])
    assert opcode.cmp_op == versions.COMPARISONS
    for number, ours in ((1, versions.INTRINSICS_1), (2, versions.INTRINSICS_2)):
        theirs = intrinsics(number)
        assert [f"INTRINSIC_{name}" for name in ours[1 : len(theirs)]] == theirs[1:]
        assert len(ours) >= len(theirs) and (theirs or sys.version_info < (3, 12))
    if sys.version_info >= (3, 14):
        assert list(versions.COMMON_CONSTANTS) == private(opcode, "_common_constants")
        assert list(versions.SPECIAL_METHODS) == private(opcode, "_special_method_names")


# one case for each splitting


def test_super_instructions_are_two_units() -> None:
    code = function_code(
        """
        def f(a, b):
            c, d = a, b
            e = c
            return e + d
        """
    )
    decoded = decode(code)
    assert [line for line in shown(code) if "FAST" in line] == [
        "LOAD_FAST 'a'", "LOAD_FAST 'b'", "STORE_FAST 'd'", "STORE_FAST 'c'",
        "LOAD_FAST 'c'", "STORE_FAST 'e'", "LOAD_FAST 'e'", "LOAD_FAST 'd'",
    ]
    for instruction in decoded.instructions:
        if "FAST" in instruction.opname:
            assert instruction.unit == instruction.index
    if sys.version_info >= (3, 13):
        offsets = [instruction.offset for instruction in decoded.instructions]
        assert len(set(offsets)) < len(offsets)


def test_return_of_a_constant() -> None:
    code = function_code("def f(): return 5")
    assert shown(code) == ["LOAD_CONST 5", "RETURN_VALUE"]


NULL_BELOW = ["PUSH_NULL", "SWAP 2"] if OLD_CALLS else ["PUSH_NULL"]


def test_global_callable_is_one_unit() -> None:
    code = function_code("def f(): return g(1)")
    load = ["PUSH_NULL", "LOAD_GLOBAL 'g'"] if OLD_CALLS else ["LOAD_GLOBAL 'g'", "PUSH_NULL"]
    assert shown(code) == [*load, "LOAD_CONST 1", "CALL 1", "RETURN_VALUE"]
    assert sorted(unit_of(code, "LOAD_GLOBAL")) == ["LOAD_GLOBAL", "PUSH_NULL"]
    assert shown(function_code("def f(): return g")) == ["LOAD_GLOBAL 'g'", "RETURN_VALUE"]


def test_method_load_is_one_unit() -> None:
    code = function_code("def f(a): return a.m(1)")
    assert shown(code) == ["LOAD_FAST 'a'", "LOAD_ATTR 'm'", *NULL_BELOW, "LOAD_CONST 1", "CALL 1", "RETURN_VALUE"]
    assert len(unit_of(code, "LOAD_ATTR")) == 1 + len(NULL_BELOW)
    assert shown(function_code("def f(a): return a.m")) == ["LOAD_FAST 'a'", "LOAD_ATTR 'm'", "RETURN_VALUE"]


def test_call_with_keywords() -> None:
    code = function_code("def f(g): return g(1, b=2, c=3)")
    assert shown(code, "LOAD_CONST 1") == [
        "LOAD_CONST 1", "LOAD_CONST 2", "LOAD_CONST 3", "LOAD_CONST ('b', 'c')", "CALL_KW 3", "RETURN_VALUE",
    ]
    assert unit_of(code, "CALL_KW") == (["LOAD_CONST", "CALL_KW"] if OLD_CALLS else ["CALL_KW"])


def test_a_call_behind_one_with_keywords_has_none() -> None:
    code = function_code("def f(g): return g(g(b=2), 5)")
    assert [line for line in shown(code) if line.startswith("CALL")] == ["CALL_KW 1", "CALL 2"]


def test_call_with_unpacking() -> None:
    code = function_code("def f(g, a, k): return g(*a)")
    assert shown(code, "LOAD_FAST 'a'")[-3:][-2:] == ["CALL_FUNCTION_EX False", "RETURN_VALUE"]
    assert shown(function_code("def f(g, a, k): return g(*a, **k)"))[-2:] == ["CALL_FUNCTION_EX True", "RETURN_VALUE"]
    # 3.14 folds the NULL that stands for no kwargs into the load of a global.
    assert shown(function_code("def f(g): return g(*xs)"))[-2:] == ["CALL_FUNCTION_EX False", "RETURN_VALUE"]
    assert shown(function_code("def f(g): return g(*xs, **ks)"))[-2:] == ["CALL_FUNCTION_EX True", "RETURN_VALUE"]
    if versions.CALL_FUNCTION_EX_TAKES_NULL:
        assert unit_of(code, "CALL_FUNCTION_EX") == ["POP_TOP", "CALL_FUNCTION_EX"]


def test_conditional_jump_tests_the_truth_of_objects() -> None:
    code = function_code(
        """
        def f(a):
            if a:
                return 1
            return 2
        """
    )
    assert shown(code)[:3] == ["LOAD_FAST 'a'", "TO_BOOL", "POP_JUMP_IF_FALSE"]
    assert unit_of(code, "POP_JUMP_IF_FALSE") == (
        ["TO_BOOL", "POP_JUMP_IF_FALSE"] if versions.JUMPS_TEST_TRUTH else ["POP_JUMP_IF_FALSE"]
    )


def test_comparison_in_a_condition_is_made_a_bool_in_one_way() -> None:
    code = function_code("def f(a, b): return 1 if a < b else 2")
    assert shown(code)[2:5] == ["COMPARE_OP '<'", "TO_BOOL", "POP_JUMP_IF_FALSE"]
    assert unit_of(code, "COMPARE_OP") == ["COMPARE_OP"]  # a region may end between the two
    for symbol in versions.COMPARISONS:
        lines = shown(function_code(f"def f(a, b): return a {symbol} b"))
        assert lines[2:] == [f"COMPARE_OP {symbol!r}", "RETURN_VALUE"]


def test_identity_and_membership() -> None:
    words = {"is": "IS_OP False", "is not": "IS_OP True", "in": "CONTAINS_OP False", "not in": "CONTAINS_OP True"}
    for symbol, line in words.items():
        assert shown(function_code(f"def f(a, b): return a {symbol} b"))[2] == line


def test_none_checks() -> None:
    code = function_code("def f(a): return 1 if a is None else 2")
    assert shown(code)[1] == "POP_JUMP_IF_NOT_NONE"
    assert shown(function_code("def f(a): return 1 if a is not None else 2"))[1] == "POP_JUMP_IF_NONE"


def test_and_or_leave_the_object() -> None:
    for word, jump in (("and", "POP_JUMP_IF_FALSE"), ("or", "POP_JUMP_IF_TRUE")):
        code = function_code(f"def f(a, b): return a {word} b")
        assert shown(code) == ["LOAD_FAST 'a'", "COPY 1", "TO_BOOL", jump, "POP_TOP", "LOAD_FAST 'b'", "RETURN_VALUE"]
        decoded = decode(code)
        target = next(instruction.target for instruction in decoded.instructions if instruction.opname == jump)
        assert target is not None and decoded.instructions[target].opname == "RETURN_VALUE"


def test_not_tests_the_truth_first() -> None:
    code = function_code("def f(a): return not a")
    assert shown(code) == ["LOAD_FAST 'a'", "TO_BOOL", "UNARY_NOT", "RETURN_VALUE"]


def test_operators() -> None:
    for symbol in versions.OPERATORS:
        assert shown(function_code(f"def f(a, b): return a {symbol} b"))[2] == f"BINARY_OP {symbol!r}"
        in_place = function_code(f"def f(a, b):\n    a {symbol}= b\n    return a")
        assert shown(in_place)[2] == f"BINARY_OP {symbol + '='!r}"
    for symbol, line in (("-", "UNARY_NEGATIVE"), ("+", "UNARY_POSITIVE"), ("~", "UNARY_INVERT")):
        assert shown(function_code(f"def f(a): return {symbol}a"))[1] == line


def test_subscripts_and_slices() -> None:
    assert shown(function_code("def f(a, i): return a[i]"))[2] == "BINARY_SUBSCR"
    assert shown(function_code("def f(a, i): return a[i:i]"))[3:5] == ["BUILD_SLICE 2", "BINARY_SUBSCR"]
    assert shown(function_code("def f(a, i): return a[i:i:i]"))[4:6] == ["BUILD_SLICE 3", "BINARY_SUBSCR"]
    assert shown(function_code("def f(a, i): a[i:i] = i"))[4:6] == ["BUILD_SLICE 2", "STORE_SUBSCR"]
    assert shown(function_code("def f(a, i): a[i] = i"))[3] == "STORE_SUBSCR"
    assert "DELETE_SUBSCR" in shown(function_code("def f(a, i): del a[i]"))


def test_function_attributes_are_set_in_the_order_of_the_stack() -> None:
    code = function_code(
        """
        def f(a):
            def g(x: int = 1, *, y=2):
                return a
            return g
        """
    )
    attributes = [line for line in shown(code) if "FUNCTION" in line]
    while "MAKE_FUNCTION" in attributes[1:]:  # 3.14 makes __annotate__ first
        del attributes[0]
    assert attributes[0] == "MAKE_FUNCTION"
    named = {f"SET_FUNCTION_ATTRIBUTE {name!r}" for name in ("defaults", "kwdefaults", "closure")}
    assert named <= set(attributes[1:])
    assert attributes[1] == "SET_FUNCTION_ATTRIBUTE 'closure'"
    assert attributes[-1] == "SET_FUNCTION_ATTRIBUTE 'defaults'"
    annotated = "annotate" if sys.version_info >= (3, 14) else "annotations"
    assert f"SET_FUNCTION_ATTRIBUTE {annotated!r}" in attributes


def test_assertion_error_is_a_constant() -> None:
    code = function_code("def f(a): assert a, 'no'")
    assert f"LOAD_CONST {AssertionError!r}" in shown(code)


def test_small_ints_are_constants() -> None:
    assert shown(function_code("def f(a): return a[3]"))[1] == "LOAD_CONST 3"


def test_format_values() -> None:
    assert shown(function_code("def f(a): return f'{a}'"))[1] == "FORMAT_SIMPLE"
    assert shown(function_code("def f(a): return f'{a!r}'"))[1:3] == ["CONVERT_VALUE 2", "FORMAT_SIMPLE"]
    assert shown(function_code("def f(a, b): return f'{a:{b}}'"))[-2] == "FORMAT_WITH_SPEC"
    converted = shown(function_code("def f(a): return f'{a!s:>9}'"))
    assert converted[-2] == "FORMAT_WITH_SPEC"
    where = converted.index("CONVERT_VALUE 1")
    if OLD_CALLS:  # the spec is on the stack already
        assert converted[where - 1] == converted[where + 1] == "SWAP 2"


def test_closure_cells() -> None:
    code = function_code(
        """
        def f(a, b):
            x = b
            return lambda: (a, x)
        """
    )
    decoded = decode(code)
    opnames = [instruction.opname for instruction in decoded.instructions[: decoded.start]]
    assert opnames.count("MAKE_CELL") == 2
    assert [line for line in shown(code) if "CLOSURE" in line] == ["LOAD_CLOSURE 'a'", "LOAD_CLOSURE 'x'"]
    assert (decoded.slots, decoded.cells, decoded.arguments) == (("a", "b", "x"), ("a", "x"), ("a", "b"))
    inner = decode(next(nested for nested in nested_codes(code) if nested is not code))
    assert inner.instructions[0][1:3] == ("COPY_FREE_VARS", 2)
    assert inner.free == ("a", "x")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="3.11 makes a function of a comprehension")
def test_a_comprehension_that_hides_a_free_variable_has_a_slot_of_its_own() -> None:
    for value, local, cells in (("x", ("xs", ".x", "y"), ()), ("(lambda: x)", ("xs", ".x", "y"), (".x",))):
        outer = function_code(
            f"""
            def f(x):
                def g(xs):
                    y = [{value} for x in xs]
                    return x, y
                return g
            """
        )
        decoded = decode(next(code for code in nested_codes(outer) if code.co_name == "g"))
        assert decoded.slots == (*local, "x")
        assert (decoded.cells, decoded.free) == (cells, ("x",))
        assert [i.opname for i in decoded.instructions if i.arg == "x"][-1] == "LOAD_DEREF"
        assert [i.opname for i in decoded.instructions if i.arg == ".x"][-1] == "STORE_FAST"
        assert decoded.cells_at(decoded.start) == {*cells, "x"}


def test_class_body_reads_a_free_variable_through_its_namespace() -> None:
    code = function_code(
        """
        def f(a):
            class C:
                b = a
            return C
        """
    )
    body = next(nested for nested in nested_codes(code) if nested.co_name == "C")
    assert shown(body, "LOAD_LOCALS")[:2] == ["LOAD_LOCALS", "LOAD_FROM_DICT_OR_DEREF 'a'"]


def test_super() -> None:
    code = function_code(
        """
        def f():
            class C:
                def m(self):
                    return super().m(1)
            return C
        """
    )
    method = next(nested for nested in nested_codes(code) if nested.co_name == "m")
    lines = shown(method)
    if sys.version_info >= (3, 12):
        at = lines.index("LOAD_SUPER_ATTR ('m', False)")
        assert lines[at + 1 : at + 1 + len(NULL_BELOW)] == NULL_BELOW
    else:
        assert "LOAD_GLOBAL 'super'" in lines


def test_intrinsics_that_give_nothing() -> None:
    star = compile("from os import *", "<test>", "exec")
    assert "IMPORT_STAR" in unit_of(star, "IMPORT_STAR")
    interactive = compile("1 + x", "<test>", "single")
    assert unit_of(interactive, "PRINT_EXPR") == (
        ["PRINT_EXPR", "LOAD_CONST"] if sys.version_info >= (3, 12) else ["PRINT_EXPR"]
    )
    assert "LIST_TO_TUPLE" in shown(function_code("def f(a): return (*a,)"))


def test_match() -> None:
    code = function_code(
        """
        def f(a):
            match a:
                case {"k": v}:
                    return v
                case [x, *y]:
                    return x, y
                case C(y=z):
                    return z
        """
    )
    opnames = {line.split()[0] for line in shown(code)}
    assert {"MATCH_MAPPING", "MATCH_KEYS", "MATCH_SEQUENCE", "MATCH_CLASS", "GET_LEN", "UNPACK_EX"} <= opnames
    assert "UNPACK_EX (1, 0)" in shown(code)


# loops, handlers, with, generators


def test_for_ends_behind_what_drops_the_iterator() -> None:
    code = function_code(
        """
        def f(xs):
            for x in xs:
                pass
            return xs
        """
    )
    decoded = decode(code)
    loop = next(instruction for instruction in decoded.instructions if instruction.opname == "FOR_ITER")
    assert loop.target is not None
    assert decoded.instructions[loop.target][1:3] == ("LOAD_FAST", "xs")
    assert decoded.stack_at(loop.target) == ()
    between = [i.opname for i in decoded.instructions[:loop.target] if decoded.stack_at(i.index) is None]
    assert between == ["NOP", "POP_TOP"][: len(versions.FOR_END)]


def test_handlers_are_those_of_the_table() -> None:
    code = function_code(
        """
        def f(a):
            with a as b:
                b()
            try:
                b()
            except KeyError:
                return 1
        """
    )
    decoded = decode(code)
    table = private(dis, "_parse_exception_table")(code)
    assert len(table) == len(decoded.handlers)
    for entry, handler in zip(table, decoded.handlers, strict=True):
        assert (entry.depth, entry.lasti) == (handler.depth, handler.lasti)
        assert decoded.index_at(entry.start) == handler.start
        assert decoded.index_at(entry.end) == handler.end
        assert decoded.index_at(entry.target) == handler.target
        assert decoded.instructions[handler.target].opname in ("PUSH_EXC_INFO", "COPY")
        for index in range(handler.start, handler.end):
            assert decoded.handler_at(index) is handler
    assert decoded.handler_at(0) is None
    where = next(instruction for instruction in decoded.instructions if instruction.opname == "WITH_EXCEPT_START")
    stack = decoded.stack_at(where.index)
    exit_position, self_position = where.arg
    producers = decoded.producers_at(where.index)
    assert stack is not None and producers is not None
    (loader,) = producers[-exit_position]
    assert decoded.instructions[loader].opname in ("BEFORE_WITH", "LOAD_SPECIAL")
    assert (self_position is None) == (sys.version_info < (3, 14))
    if self_position is not None:
        assert stack[-self_position] is decode_module.Kind.NULL


def test_with_on_314_loads_bound_methods() -> None:
    code = function_code("def f(a):\n    with a: pass")
    if sys.version_info < (3, 14):
        assert shown(code)[1] == "BEFORE_WITH"
    else:
        assert shown(code)[1:4] == ["COPY 1", "LOAD_SPECIAL '__exit__'", "PUSH_NULL"]


@pytest.mark.parametrize("kind", ["yield from", "await"])
def test_send_ends_without_its_receiver(kind: str) -> None:
    head = "async def" if kind == "await" else "def"
    decoded = decode(function_code(f"{head} f(a): return ({kind} a)"))
    send = next(instruction for instruction in decoded.instructions if instruction.opname == "SEND")
    assert send.target is not None
    assert decoded.instructions[send.target].opname == "RETURN_VALUE"
    assert decoded.stack_at(send.index) == (decode_module.Kind.OBJECT,) * 2
    assert decoded.stack_at(send.target) == (decode_module.Kind.OBJECT,)
    assert decoded.instructions[send.index + 1].opname == "YIELD_VALUE"


def test_start_is_behind_the_first_resume() -> None:
    for source in ("def f(): pass", "def f(a):\n    yield lambda: a", "async def f(): pass"):
        code = function_code(source)
        decoded = decode(code)
        first = next(original for original in dis.get_instructions(code) if original.opname == "RESUME")
        assert decoded.index_at(first.offset) == decoded.start - 1
        assert decoded.stack_at(decoded.start) == ()


def test_extended_arguments() -> None:
    body = "\n".join(f"    a.x{k} = {k} + a.x{k}" for k in range(400))
    code = function_code(f"def f(a):\n    while a:\n{textwrap.indent(body, '    ')}")
    decoded = decode(code)
    names = [instruction.arg for instruction in decoded.instructions if instruction.opname == "STORE_ATTR"]
    assert names == [f"x{k}" for k in range(400)]
    jumps = [instruction for instruction in decoded.instructions if instruction.opname == "JUMP"]
    back = [instruction for instruction in decoded.instructions if (instruction.target or 999999) < instruction.index]
    assert back and all(instruction.opname in JUMP_OPNAMES for instruction in [*jumps, *back])
    originals = {original.offset for original in dis.get_instructions(code) if original.opname != "EXTENDED_ARG"}
    assert {instruction.offset for instruction in decoded.instructions} <= originals


# which code, and what is kept


def test_code_is_known_by_identity() -> None:
    code = function_code("def f(a): return a")
    twin = code.replace()
    assert code == twin
    assert decode(code).instructions is decode(code).instructions
    assert decode(twin).instructions is not decode(code).instructions
    assert decode(twin).code is twin


def test_dropped_code_is_freed() -> None:
    code = function_code("def f(a): return a + 1")
    decoded = decode(code)
    decoded.live_at(decoded.start)
    gc.collect()
    gone, kept = weakref.ref(code), len(decode_module._cache)
    del code
    assert gone() is decoded.code
    del decoded
    gc.collect()
    assert gone() is None
    assert len(decode_module._cache) == kept - 1


def test_what_runs_or_watches_a_function_does_not_matter() -> None:
    def watched(n: int) -> int:
        total = 0
        for k in range(n):
            total += k
        return total

    def as_text(code: CodeType) -> list[str]:
        return [str(instruction) for instruction in decode(code).instructions]

    plain = as_text(watched.__code__.replace())
    for _ in range(100):
        watched(10)
    sys.settrace(lambda frame, event, arg: (lambda *_: None))
    try:
        watched(3)
        traced = as_text(watched.__code__)
    finally:
        sys.settrace(None)
    assert traced == plain


def broken(change: Callable[[bytearray, CodeType], None]) -> CodeType:
    code = function_code(
        """
        def f(xs):
            for x in xs:
                if x is None:
                    xs = x
            return xs
        """
    )
    body = bytearray(code.co_code)
    change(body, code)
    return code.replace(co_code=bytes(body))


def offset_of(code: CodeType, *opnames: str) -> int:
    return next(o.offset for o in dis.get_instructions(code) if o.opname.startswith(opnames))


def test_a_jump_to_no_instruction_is_refused() -> None:
    def too_far(body: bytearray, code: CodeType) -> None:
        body[offset_of(code, "POP_JUMP") + 1] += 120

    with pytest.raises(DecodeError, match="no instruction at offset"):
        decode(broken(too_far))


@pytest.mark.skipif(not versions.FOR_END, reason="nothing stands there on 3.11")
def test_a_loop_that_ends_elsewhere_is_refused() -> None:
    def shorter(body: bytearray, code: CodeType) -> None:
        body[offset_of(code, "FOR_ITER") + 1] -= 1

    with pytest.raises(DecodeError, match="no END_FOR at offset"):
        decode(broken(shorter))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="3.11 has none of them, and unknown ones vanish from co_code")
def test_a_refused_opcode_says_why() -> None:
    refused = next(name for name in REFUSED if name in REAL_OPCODES)

    def spoil(body: bytearray, code: CodeType) -> None:
        body[offset_of(code, "LOAD_FAST", "LOAD_FAST_BORROW")] = REAL_OPCODES[refused]

    with pytest.raises(DecodeError, match=REFUSED[refused]):
        decode(broken(spoil))


def test_code_without_resume_is_refused() -> None:
    def drop(body: bytearray, code: CodeType) -> None:
        body[offset_of(code, "RESUME")] = REAL_OPCODES["NOP"]

    with pytest.raises(DecodeError, match="no RESUME"):
        decode(broken(drop))
