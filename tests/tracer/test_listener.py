"""tracer.listen: what captures tell, that it changes nothing, and that nobody is asked while nobody listens."""

from __future__ import annotations

import logging
import types
from collections import Counter
from typing import Any

import pytest
import torch

import tracer
from rewriter.decode import decode
from tracer.interpreter.capture import Attempt
from tracer.interpreter.frame import Frame
from tracer.interpreter.listening import ListenedAttempt, ListenedFrame

pytestmark = pytest.mark.usefixtures("installed_eager")

X, W = torch.arange(12.0).reshape(4, 3), torch.eye(3)


class Everything(tracer.Listener):
    """All that is told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def of(self, what: str) -> list[Any]:
        return [told for name, told in self.told if name == what]

    def names(self) -> list[str]:
        return [name for name, _ in self.told]


def _noting(name: str) -> Any:
    return lambda self, told: self.told.append((name, told))


EVENTS = "begins before after guard constant node taken_back broke restarts ends".split()
for _name in EVENTS:
    setattr(Everything, _name, _noting(_name))


def listened(fn: Any, *args: Any, **options: Any) -> tuple[Any, Everything]:
    heard = Everything()
    compiled = tracer.compile(fn, inplace=False, **options)
    with tracer.listen(heard):
        result = compiled(*args)
    return result, heard


def scaled(x, w, n):
    y = x @ w
    return y * n


def test_every_method_of_the_base_class_is_heard_here():
    public = [name for name, found in vars(tracer.Listener).items() if callable(found) and not name.startswith("_")]
    assert sorted(public) == sorted(EVENTS)


def test_each_instruction_with_its_stack_and_locals():
    result, heard = listened(scaled, X, W, 3)
    assert torch.equal(result, X * 3)
    steps = heard.of("before")
    # up to the return, where the region lands
    read = [i for i in decode(scaled.__code__).instructions if i.index >= heard.of("begins")[0].entry]
    assert [step.index for step in steps] == [i.index for i in read if i.opname != "RETURN_VALUE"]
    assert [step.offset for step in steps] == [i.offset for i in read if i.opname != "RETURN_VALUE"]
    [before] = [s for s in steps if s.opname == "BINARY_OP" and s.arg == "@"]
    [after] = [s for s in heard.of("after") if s.opname == "BINARY_OP" and s.arg == "@"]
    assert [(v.kind, v.text, v.source) for v in before.stack] == [
        ("tensor", "float32 [4, 3]", "x"), ("tensor", "float32 [3, 3]", "w")]
    [top] = after.stack
    assert (top.kind, top.text, top.source, top.node) == ("tensor", "float32 [4, 3]", "", "matmul")
    assert {name: value.text for name, value in before.locals.items()} == {
        "x": "float32 [4, 3]", "w": "float32 [3, 3]", "n": "3"}
    stored = next(s for s in heard.of("after") if s.opname == "STORE_FAST")
    assert stored.stack == () and stored.locals["y"] == top
    line = scaled.__code__.co_firstlineno
    assert before.positions[0] == line + 1 and before.function == "scaled" and before.depth == 0


def test_the_names_of_opcodes_are_told_on_every_python():
    """Canonical ones: no super-instruction, no version's own name."""
    _, heard = listened(scaled, X, W, 3)
    names = [step.opname for step in heard.of("before") if step.opname != "NOP"]
    assert names == ["LOAD_FAST", "LOAD_FAST", "BINARY_OP", "STORE_FAST", "LOAD_FAST", "LOAD_FAST", "BINARY_OP"]


def test_nodes_guards_and_constants_come_between_before_and_after():
    _, heard = listened(scaled, X, W, 3)
    at = next(i for i, (name, told) in enumerate(heard.told) if name == "before" and told.arg == "@")
    until = next(i for i, (name, told) in enumerate(heard.told) if name == "after" and told.arg == "@")
    inside = [(name, told.text) for name, told in heard.told[at + 1 : until]]
    assert inside == [
        ("guard", "x: tensor Tensor torch.float32 (4, 3) on cpu"),
        ("guard", "w: tensor Tensor torch.float32 (3, 3) on cpu"),
        ("node", "x"), ("node", "w"), ("node", "matmul = x @ w"),
    ]  # fmt: skip
    matmul = heard.of("node")[2]
    assert (matmul.op, matmul.inputs, matmul.shape, matmul.dtype) == ("call_function", ("x", "w"), "[4, 3]", "float32")
    guard = heard.of("guard")[0]
    assert (guard.kind, guard.source) == ("tensor", "x")
    assert guard.needed_by.line == scaled.__code__.co_firstlineno + 1


def test_what_ends_is_what_was_compiled():
    heard = Everything()
    compiled = tracer.compile(scaled, inplace=False)
    with tracer.listen(heard):
        compiled(X, W, 3)
    [ended] = heard.of("ends")
    [region] = tracer.explain(compiled)(X, W, 3).regions
    assert [guard.text for guard in ended.guards] == [text for text, _ in region.guards]
    assert list(ended.nodes) == [row.name for row in region.table]
    assert region.ends == f"at instruction {ended.landing}"


def relu_twice(x):
    return x.relu().relu()


def calls(x):
    return relu_twice(x) + 1


def test_a_call_that_is_read_into():
    _, heard = listened(calls, X)
    depths = [(name, told.depth, told.opname) for name, told in heard.told if name in ("before", "after")]
    inner = [i for i, (_, depth, _) in enumerate(depths) if depth == 1]
    assert depths[inner[0] - 1] == ("before", 0, "CALL") and depths[inner[-1] + 1] == ("after", 0, "CALL")
    codes = {step.code for step in heard.of("before") if step.depth == 1}
    assert codes == {relu_twice.__code__}


def breaks(x):
    y = x + 1
    print(end="")
    return y * 2


def test_a_break_and_the_capture_behind_it():
    _, heard = listened(breaks, X)
    [broke] = heard.of("broke")
    assert broke.title == "print() writes output" and broke.hint
    assert broke.stack[-1].line == breaks.__code__.co_firstlineno + 2
    first, second = heard.of("ends")
    assert first.landing == broke.at
    assert [begun.entry for begun in heard.of("begins")][1] > broke.at
    assert "mul" in second.nodes
    names = heard.names()
    assert names[names.index("broke") - 1] != "after"  # the instruction that broke was not read


def breaks_inside(x):
    y = x + 1
    z = y * 2
    return z + float(helper(z))


def helper(x):
    a = x.sum()
    return a.item()


def test_what_is_taken_back():
    _, heard = listened(breaks_inside, X)
    taken = heard.of("taken_back")[0]
    assert "sum_1" in taken.nodes
    ended = heard.of("ends")[0]
    assert not set(taken.nodes) & set(ended.nodes)


def loops(x, n):
    for i in range(n):
        x = x + i
        print(end="")
    return x


def test_a_capture_that_begins_anew():
    _, heard = listened(loops, X, 3)
    [restarted, *_] = heard.of("restarts")
    assert "loop" in restarted.reason
    attempts = [begun.attempt for begun in heard.of("begins")]
    assert attempts[:2] == [1, 2]
    at = heard.names().index("restarts")
    assert heard.names()[at + 1] == "begins"


def keeps_in_a_cell(x):
    k = x + 1

    def inner():
        return k * 2

    return inner()


def test_what_cells_hold_is_shown():
    _, heard = listened(keeps_in_a_cell, X)
    inside = [step for step in heard.of("before") if step.depth == 1 and step.opname == "BINARY_OP"]
    assert inside[0].locals["k"].node == "add"


class Loud:
    """Anybody who looks at it closer raises."""

    def __repr__(self):
        raise AssertionError("repr() was called")

    def __len__(self):
        raise AssertionError("len() was called")


def test_showing_runs_no_code_of_the_users_and_adds_no_guard():
    def holds(x, other, text):
        return x + 1, other, text

    _, heard = listened(holds, X, Loud(), "t" * 500)
    shown = heard.of("before")[0].locals
    assert shown["other"].text == "Loud object"
    assert len(shown["text"].text) < 100
    assert not [g for g in heard.of("guard") if g.source in ("other", "text")]


@pytest.mark.parametrize(
    "fn, args", [(scaled, (X, W, 3)), (calls, (X,)), (breaks, (X,)), (breaks_inside, (X,)), (loops, (X, 2))]
)
def test_listening_changes_nothing_of_what_is_compiled(fn, args):
    def texts(compiled: Any) -> list[tuple[list[str], str]]:
        report = tracer.explain(compiled)(*args)
        return [([text for text, _ in region.guards], region.graph) for region in report.regions]

    quiet, watched = tracer.compile(fn, inplace=False), tracer.compile(fn, inplace=False)
    expected = quiet(*args)
    with tracer.listen(Everything()):
        assert torch.equal(watched(*args), expected)
    assert texts(watched) == texts(quiet)


def test_a_listener_that_raises_hurts_nobody(caplog):
    class Bad(tracer.Listener):
        def before(self, step):
            raise ZeroDivisionError("bad listener")

    heard = Everything()
    compiled = tracer.compile(scaled, inplace=False)
    with caplog.at_level(logging.WARNING, "tracer"), tracer.listen(Bad()), tracer.listen(heard):
        assert torch.equal(compiled(X, W, 2), X * 2)
    [told] = [r for r in caplog.records if "a listener's before() raised" in r.getMessage()]
    assert "ZeroDivisionError: bad listener at " in told.getMessage()
    assert heard.of("ends")[0].landing is not None
    assert tracer.counters()["errors"] == 0


def test_what_cannot_be_put_into_words_hurts_nobody(monkeypatch, caplog):
    """A bug of ours in showing: logged, or raised in our own tests."""

    def broken(*args):
        raise ZeroDivisionError("no words")

    monkeypatch.setattr("tracer.interpreter.listening.shown", broken)
    compiled = tracer.compile(scaled, inplace=False)
    with pytest.raises(ZeroDivisionError), tracer.listen(Everything()):
        compiled(X, W, 2)
    monkeypatch.setenv("TORCHGRAFT_STRICT", "0")
    compiled = tracer.compile(scaled, inplace=False)
    with caplog.at_level(logging.WARNING, "tracer"), tracer.listen(Everything()):
        assert torch.equal(compiled(X, W, 2), X * 2)
    assert any("could not be told" in record.getMessage() for record in caplog.records)
    assert len(tracer.explain(compiled)(X, W, 2).regions) == 1


def test_stack_and_locals_are_put_into_words_for_those_who_want_them():
    class Steps(tracer.Listener):
        def __init__(self, wants_values):
            self.wants_values, self.steps = wants_values, []

        def before(self, step):
            self.steps.append(step)

    def f(x):
        y = x + 1
        return y * 2

    alone = Steps(False)
    with tracer.listen(alone):
        tracer.explain(f)(X)
    beside, other = Steps(False), Steps(True)
    with tracer.listen(beside), tracer.listen(other):
        tracer.explain(f)(X)
    assert [s.opname for s in alone.steps] == [s.opname for s in other.steps] == [s.opname for s in beside.steps]
    assert not any(s.stack or s.locals for s in alone.steps) and any(s.stack for s in other.steps)
    assert beside.steps == other.steps and "y" in other.steps[-1].locals


def test_off_again():
    heard = Everything()
    hook = tracer.listen(heard)
    tracer.compile(scaled, inplace=False)(X, W, 2)
    hook.remove()
    hook.remove()
    told = len(heard.told)
    tracer.compile(scaled, inplace=False)(X, W, 2)
    assert told and len(heard.told) == told
    with pytest.raises(TypeError, match=r"tracer\.Listener"):
        tracer.listen(print)


def test_nobody_listens_nobody_is_asked(monkeypatch):
    """The classes are the plain ones: their step has no name of a listener in it, and no frame is a listened one."""
    made = Counter()
    real = Attempt.__init__

    def counted(self: Attempt, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        made[type(self), self.ctx.new_frame, type(self.frame)] += 1

    monkeypatch.setattr(Attempt, "__init__", counted)
    tracer.compile(calls, inplace=False)(X)
    assert set(made) == {(Attempt, Frame, Frame)}
    made.clear()
    listened(calls, X)
    assert set(made) == {(ListenedAttempt, ListenedFrame, ListenedFrame)}
    for function in (Frame.step, Frame.run, Attempt.run, Attempt._mark, Attempt._land):
        assert isinstance(function, types.FunctionType)
        assert not {"telling", "listener", "listeners"} & set(function.__code__.co_names)
