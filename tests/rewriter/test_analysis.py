"""analysis: what is known before each instruction, by hand, over the corpus, and against frames that really run."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from rewriter.analysis import MAYBE_NULL, NULL, OBJECT, Analysis, AnalysisError
from rewriter.decode import Decoded, Handler, Instruction, decode
from tests.rewriter.corpus import nested_codes
from tests.rewriter.zoo import CASES, Case

INLINES_COMPREHENSIONS = sys.version_info >= (3, 12)


def decoded_function(source: str) -> Decoded:
    module = compile(textwrap.dedent(source), "<test>", "exec")
    return decode(next(constant for constant in module.co_consts if isinstance(constant, CodeType)))


def find(decoded: Decoded, opname: str, arg: object = None, nth: int = 0) -> int:
    """Index of the nth instruction of that name (and argument)."""
    found = [i.index for i in decoded.instructions if i.opname == opname and (arg is None or i.arg == arg)]
    return found[nth]


# by hand: stacks


def test_stack_of_a_call_in_a_loop() -> None:
    decoded = decoded_function(
        """
        def f(xs):
            for x in xs:
                xs.m(x)
        """
    )
    call = find(decoded, "CALL", 1)
    pair = (OBJECT, NULL) if sys.version_info >= (3, 13) else (NULL, OBJECT)
    assert decoded.stack_at(call) == (OBJECT, *pair, OBJECT)
    producers = decoded.producers_at(call)
    assert producers is not None
    opnames = [[decoded.instructions[pusher].opname for pusher in pushers] for pushers in producers]
    assert opnames[0] == ["GET_ITER"]
    assert sorted(opnames[1:3]) == [["LOAD_ATTR"], ["PUSH_NULL"]]
    assert opnames[3] == ["LOAD_FAST"]


def test_a_slot_from_two_paths_has_two_producers() -> None:
    decoded = decoded_function("def f(g, a, b, c):\n    for g in a: g((b if a else c), a, b, c, a, b, c)")
    producers = decoded.producers_at(find(decoded, "CALL"))
    assert producers is not None
    loads = {decoded.instructions[pusher].arg for pusher in producers[-7]}
    assert loads == {"b", "c"}


def test_handler_stack_is_cut_to_its_depth() -> None:
    decoded = decoded_function(
        """
        def f(xs):
            for x in xs:
                try:
                    x(1, 2)
                except KeyError:
                    pass
        """
    )
    entry = find(decoded, "PUSH_EXC_INFO")
    assert decoded.stack_at(entry) == (OBJECT, OBJECT)
    producers = decoded.producers_at(entry)
    assert producers is not None and producers[-1] == frozenset()
    (handler,) = [handler for handler in decoded.handlers if handler.target == entry]
    assert (handler.depth, handler.lasti) == (1, False)


def test_unreachable_instructions_have_no_stack() -> None:
    decoded = decoded_function("def f(xs):\n    for x in xs: pass")
    dead = [i.index for i in decoded.instructions if decoded.stack_at(i.index) is None]
    assert bool(dead) == (sys.version_info >= (3, 12))
    for index in dead:
        assert decoded.producers_at(index) is None
        with pytest.raises(AnalysisError, match="never reached"):
            decoded.bound_at(index)


# by hand: locals


def test_bound_and_maybe_bound() -> None:
    decoded = decoded_function(
        """
        def f(a):
            if a:
                x = 1
                y = 1
            else:
                x = 2
            g(a)
            del x
            h(a)
        """
    )
    at_g, at_h = find(decoded, "LOAD_GLOBAL", "g"), find(decoded, "LOAD_GLOBAL", "h")
    assert decoded.bound_at(at_g) == {"a", "x"}
    assert decoded.maybe_bound_at(at_g) == {"a", "x", "y"}
    assert decoded.bound_at(at_h) == {"a"}
    assert decoded.maybe_bound_at(at_h) == {"a", "y"}
    assert decoded.bound_at(decoded.start) == decoded.maybe_bound_at(decoded.start) == {"a"}


def test_all_kinds_of_arguments_are_bound() -> None:
    decoded = decoded_function("def f(a, /, b, *c, d, **e): x = 1; return x")
    assert decoded.bound_at(decoded.start) == {"a", "b", "c", "d", "e"}


def test_what_a_handler_knows() -> None:
    decoded = decoded_function(
        """
        def f(a):
            before = a()
            try:
                inside = a()
                a(inside)
            except KeyError:
                pass
            return before
        """
    )
    entry = find(decoded, "PUSH_EXC_INFO")
    assert decoded.bound_at(entry) == {"a", "before"}
    assert decoded.maybe_bound_at(entry) == {"a", "before", "inside"}
    assert decoded.live_at(entry) == {"before"}
    # `before` is read behind the handler, so it is live wherever the handler may be entered from.
    assert "before" in decoded.live_at(find(decoded, "STORE_FAST", "inside"))


def test_name_of_an_exception_is_deleted() -> None:
    decoded = decoded_function(
        """
        def f(a):
            try:
                a()
            except KeyError as e:
                a(e)
            return a
        """
    )
    end = find(decoded, "RETURN_VALUE")
    assert decoded.bound_at(end) == decoded.maybe_bound_at(end) == {"a"}
    assert {"a", "e"} == decoded.bound_at(find(decoded, "LOAD_FAST", "e"))


def test_live_locals() -> None:
    decoded = decoded_function(
        """
        def f(a, b, c):
            x = a
            while b:
                y = x
                x = c(y)
            return x
        """
    )
    assert decoded.live_at(decoded.start) == {"a", "b", "c"}
    loop = find(decoded, "LOAD_FAST", "c")
    assert decoded.live_at(loop) == {"b", "c", "y"}
    assert decoded.live_at(find(decoded, "STORE_FAST", "x", nth=1)) == {"b", "c"}
    assert decoded.live_at(find(decoded, "RETURN_VALUE")) == frozenset()


@pytest.mark.parametrize(
    "name", ["locals", "vars", "dir", "eval", "exec", "breakpoint", "sys._getframe", "inspect.currentframe"]
)
def test_every_local_is_live_where_the_frame_may_be_looked_at(name: str) -> None:
    decoded = decoded_function(f"def f(a):\n    unused = a\n    return {name}()")
    assert decoded.live_at(find(decoded, "CALL")) == {"a", "unused"}


def test_deleting_reads() -> None:
    decoded = decoded_function("def f(a):\n    x = a\n    a()\n    del x")
    assert "x" in decoded.live_at(find(decoded, "CALL"))


# by hand: cells and comprehensions


def test_cells_are_no_locals() -> None:
    decoded = decoded_function("def f(a, b):\n    x = b\n    return lambda: (a, x)")
    assert decoded.cells_at(decoded.start) == {"a", "x"}
    assert decoded.bound_at(decoded.start) == decoded.maybe_bound_at(decoded.start) == {"b"}
    assert decoded.live_at(decoded.start) == {"b"}
    assert decoded.cells_at(0) == frozenset()


def test_free_variables_are_cells_from_the_start() -> None:
    outer = decoded_function("def f(a): return lambda: a")
    inner = decode(next(code for code in nested_codes(outer.code) if code.co_name == "<lambda>"))
    assert inner.cells_at(inner.start) == {"a"}


@pytest.mark.skipif(not INLINES_COMPREHENSIONS, reason="3.11 makes a function of a comprehension")
class TestInlinedComprehensions:
    def test_variable_that_is_bound_nowhere_else_leaves_a_null(self) -> None:
        decoded = decoded_function("def f(xs, g):\n    return g([x + 1 for x in xs])")
        at = find(decoded, "BINARY_OP")
        stack = decoded.stack_at(at)
        assert stack is not None and MAYBE_NULL not in stack
        assert self.saved(decoded, at) == [NULL]
        assert decoded.bound_at(find(decoded, "CALL")) == {"xs", "g"} == decoded.maybe_bound_at(find(decoded, "CALL"))

    def test_variable_that_is_bound_outside_is_saved_and_put_back(self) -> None:
        decoded = decoded_function("def f(xs, x):\n    y = [x for x in xs]\n    return x, y")
        (kind,) = self.saved(decoded, find(decoded, "LIST_APPEND"))
        assert kind is OBJECT
        assert "x" in decoded.bound_at(find(decoded, "BUILD_TUPLE"))
        assert "x" in decoded.live_at(decoded.start)

    def test_variable_that_may_be_bound_outside(self) -> None:
        decoded = decoded_function("def f(xs):\n    if xs: x = 1\n    y = [x for x in xs]\n    return x, y")
        assert self.saved(decoded, find(decoded, "LIST_APPEND")) == [MAYBE_NULL]
        at = find(decoded, "LOAD_FAST", "x", nth=-1)
        assert "x" in decoded.bound_at(at + 1)  # or it had raised
        assert "x" not in decoded.bound_at(at) and "x" in decoded.maybe_bound_at(at)

    def test_a_cell_is_saved_and_its_slot_used_as_a_local(self) -> None:
        decoded = decoded_function("def f(xs):\n    x = 1\n    g = lambda: x\n    return g, [x for x in xs]")
        inside = find(decoded, "LIST_APPEND")
        assert "x" not in decoded.cells_at(inside) and "x" in decoded.bound_at(inside)
        assert "x" in decoded.cells_at(find(decoded, "RETURN_VALUE"))
        assert [i.opname for i in decoded.instructions if i.arg == "x" and "LOAD" in i.opname] == [
            "LOAD_CLOSURE", "LOAD_FAST_AND_CLEAR", "LOAD_FAST",
        ]

    def test_a_cell_of_the_comprehension(self) -> None:
        decoded = decoded_function("def f(xs):\n    return [lambda: x for x in xs]")
        clear = find(decoded, "LOAD_FAST_AND_CLEAR")
        assert "x" in decoded.cells_at(clear)
        assert "x" not in decoded.cells_at(clear + 1)
        assert "x" in decoded.cells_at(find(decoded, "LIST_APPEND"))
        assert self.saved(decoded, find(decoded, "LIST_APPEND")) == [OBJECT]

    def saved(self, decoded: Decoded, index: int) -> list[Any]:
        stack, producers = decoded.stack_at(index), decoded.producers_at(index)
        assert stack is not None and producers is not None
        return [
            kind
            for kind, pushers in zip(stack, producers, strict=True)
            if any(decoded.instructions[pusher].opname == "LOAD_FAST_AND_CLEAR" for pusher in pushers)
        ]


# by hand: exceptions being handled


def test_handlers_entered() -> None:
    decoded = decoded_function(
        """
        def f(a):
            try:
                a(1)
            except KeyError:
                a(2)
                try:
                    a(3)
                except ValueError:
                    a(4)
                a(5)
            finally:
                a(6)
            a(7)
        """
    )
    entered = {}
    for number in range(1, 8):
        at = [i.index for i in decoded.instructions if (i.opname, i.arg) == ("LOAD_CONST", number)]
        entered[number] = [len(decoded.handlers_entered(index)) for index in at]
    assert entered[1] == [0] and entered[2] == [1] and entered[3] == [1] and entered[4] == [2] and entered[5] == [1]
    assert sorted(set(entered[6])) == [0, 1]  # one copy of the finally block runs while an exception is handled
    assert set(entered[7]) == {0}
    inner = decoded.handlers_entered(find(decoded, "LOAD_CONST", 4))
    assert [decoded.instructions[index].opname for index in inner] == ["PUSH_EXC_INFO"] * 2
    assert inner[0] < inner[1]


def test_with_handles_its_exception() -> None:
    decoded = decoded_function("def f(a):\n    with a:\n        a()\n    return 5")
    where = find(decoded, "WITH_EXCEPT_START")
    assert len(decoded.handlers_entered(where)) == 1
    assert decoded.handlers_entered(find(decoded, "LOAD_CONST", 5)) == ()


# broken code


def analysis_of(rows: list[tuple[Any, ...]], handlers: tuple[Handler, ...] = ()) -> Analysis:
    """Of hand-made instructions: (opname, arg) or (opname, arg, target)."""
    none = (None, None, None, None)
    instructions = [
        Instruction(index, row[0], row[1], row[2] if len(row) > 2 else None, index, 2 * index, none)
        for index, row in enumerate(rows)
    ]
    handler_of: list[Handler | None] = [None] * len(rows)
    for handler in handlers:
        handler_of[handler.start : handler.end] = [handler] * (handler.end - handler.start)
    return Analysis(instructions, handler_of, (), (), ())


RETURN = [("LOAD_CONST", None), ("RETURN_VALUE", None)]


@pytest.mark.parametrize(
    ("rows", "handlers", "message"),
    [
        ([("POP_TOP", None), *RETURN], (), "takes 1 from a stack of 0"),
        ([("LOAD_CONST", 1), ("SWAP", 2), *RETURN], (), "reaches below a stack of 1"),
        ([("LOAD_CONST", 1)], (), "the code ends behind it"),
        (
            [("LOAD_CONST", 1), ("POP_JUMP_IF_TRUE", None, 3), ("LOAD_CONST", 2), *RETURN], (),
            "stack is 0 deep on one path and 1 on another",
        ),
        (
            [("LOAD_CONST", 1), ("POP_JUMP_IF_TRUE", None, 4), ("PUSH_NULL", None), ("JUMP", None, 5),
             ("LOAD_CONST", 2), ("POP_TOP", None), *RETURN],
            (), "the stack holds (NULL|OBJECT) on one path and (NULL|OBJECT) on another",
        ),
        ([("LOAD_CONST", 1), ("POP_EXCEPT", None), *RETURN], (), "no exception is being handled"),
        ([("NOP", None), *RETURN, ("RERAISE", 0)], (Handler(0, 1, 3, 1, False),), "wants more than 0 objects"),
        (
            [("NOP", None), ("LOAD_CONST", 1), ("POP_JUMP_IF_TRUE", None, 6), ("LOAD_CONST", 1), ("RETURN_VALUE", None),
             ("PUSH_EXC_INFO", None), ("LOAD_CONST", 1), ("RETURN_VALUE", None)],
            (Handler(0, 1, 5, 0, False),), "deep on one path|are handled on one path",
        ),
    ],
)
def test_code_that_is_not_well_formed_is_refused(
    rows: list[tuple[Any, ...]], handlers: tuple[Handler, ...], message: str
) -> None:
    with pytest.raises(AnalysisError, match=message):
        analysis_of(rows, handlers)


def test_paths_that_handle_different_exceptions_are_refused() -> None:
    rows = [
        ("NOP", None), ("LOAD_CONST", 1), ("LOAD_CONST", 2), ("JUMP", None, 5), ("PUSH_EXC_INFO", None),
        ("NOP", None), ("RETURN_VALUE", None),
    ]
    with pytest.raises(AnalysisError, match="are handled on one path"):
        analysis_of(rows, (Handler(0, 1, 4, 0, False),))


# frames that really run


class Watcher:
    """Follows frames of some code objects, opcode by opcode, and compares each with what analysis says."""

    def __init__(self, codes: Iterator[CodeType]) -> None:
        self.decoded = {id(code): decode(code) for code in codes}
        self.paths: dict[FrameType, list[int]] = {}
        self.handling: dict[FrameType, bool] = {}
        self.seen = 0
        self.failures: list[str] = []  # an exception of a trace function would go to the traced code

    def on_event(self, frame: FrameType, event: str, arg: object) -> Any:
        if id(frame.f_code) not in self.decoded:
            return None
        if event == "call":
            frame.f_trace = self.on_event  # first, or the next line has no effect on some Pythons
            frame.f_trace_opcodes = True
            self.paths.setdefault(frame, [])
            self.handling[frame] = sys.exception() is not None
        elif event == "opcode":
            try:
                self.on_opcode(frame)
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}")
        return self.on_event

    def on_opcode(self, frame: FrameType) -> None:
        decoded = self.decoded[id(frame.f_code)]
        index = decoded.index_at(frame.f_lasti)
        stack = decoded.stack_at(index)
        if stack is None:  # what stands at a loop's end runs: END_FOR in traced frames, POP_ITER in all
            if decoded.instructions[index].opname not in ("NOP", "POP_TOP"):
                self.failures.append(f"{decoded.instructions[index]} runs")
            return
        self.seen += 1
        shared = {*decoded.cells, *decoded.free}
        names = {name for name in frame.f_locals if name in decoded.slots and name not in shared}
        assert decoded.bound_at(index) - shared <= names <= decoded.maybe_bound_at(index), (decoded, index)
        if not self.handling[frame]:
            assert bool(decoded.handlers_entered(index)) == (sys.exception() is not None), (decoded, index)
        self.paths[frame].append(index)

    def check_live(self) -> None:
        for frame, path in self.paths.items():
            decoded = self.decoded[id(frame.f_code)]
            needed: set[str] = set()
            for index in reversed(path):
                for instruction in reversed(same_offset(decoded, index)):
                    if instruction.opname == "STORE_FAST":
                        needed.discard(instruction.arg)
                    elif instruction.opname in ("LOAD_FAST", "DELETE_FAST"):
                        needed.add(instruction.arg)
                assert needed - {*decoded.cells, *decoded.free} <= decoded.live_at(index), (decoded, index)


def same_offset(decoded: Decoded, index: int) -> list[Instruction]:
    """The unit, and the other half of a super-instruction."""
    instructions, end = decoded.instructions, index
    while end < len(instructions) and instructions[end].offset == instructions[index].offset:
        end += 1
    return list(instructions[index:end])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_frames_are_as_analysis_says(case: Case) -> None:
    function: Any = case.function
    watcher = Watcher(nested_codes(function.__code__))
    tracing = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # 3.12 looks for it when tracing begins
    sys.settrace(watcher.on_event)
    try:
        case.run(function)
    finally:
        sys.settrace(tracing)
    assert watcher.failures == []
    assert watcher.seen >= 8
    watcher.check_live()
