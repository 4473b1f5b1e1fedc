"""tracer.on_capture: who is told what is decided, and that nothing it does reaches the program."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

import tracer

pytestmark = pytest.mark.usefixtures("installed_eager")

X = torch.arange(6.0)


class Told(list):
    """All decisions, with what the frame said."""

    def __call__(self, frame: Any, ctx: Any) -> None:
        self.append((ctx, frame.f_code.co_name, frame.f_lineno, dict(ctx.locals)))

    @property
    def decisions(self) -> list[str]:
        return [ctx.decision for ctx, *_ in self]


def test_capture_recompile_and_no_hit():
    def f(x, n):
        return x * n if n > 2 else x + n

    told = Told()
    tracer.compile(f)
    hook = tracer.on_capture(told)
    for n in (1, 1, 1, 5, 5, 1):
        f(X, n)
    hook.remove()
    assert told.decisions == ["capture", "recompile"]
    (first, name, line, found), (second, *_) = told
    assert name == "f" and line in (f.__code__.co_firstlineno, f.__code__.co_firstlineno + 1)
    assert found["x"] is X and found["n"] == 1
    numbers = {region.number for region in tracer.explain(f)(X, 1).regions}
    assert {first.region, second.region} == numbers
    assert second.recompile.earlier == first.region and "n" in second.reason
    assert first.function.endswith("f") and first.filename == __file__
    assert first.recompile is None and first.graph_break is None
    f(X, 77.5)
    assert len(told) == 2


def test_the_frame_is_the_users_at_every_entry():
    def f(x):
        y = x + 1
        print(end="")
        return y * 2

    told = Told()
    original = f.__code__
    tracer.compile(f)
    frames = []
    with tracer.on_capture(told), tracer.on_capture(lambda frame, ctx: frames.append((frame.f_code, frame.f_lasti))):
        f(X)
    assert told.decisions == ["capture", "capture"]
    assert {name for _, name, *_ in told} == {"f"}
    (first, _, _, before), (second, _, _, behind) = told
    assert first.code is second.code is original
    assert 0 <= first.offset < second.offset < len(original.co_code)
    assert set(before) == {"x"} and set(behind) == {"x", "y"}, "no temporary of ours"
    assert first.graph_break.title == "print() writes output"
    assert all(isinstance(lasti, int) for _, lasti in frames)


def test_what_is_not_compiled_is_a_skip_with_its_reason():
    def nothing(x):
        return [1, 2]

    told = Told()
    tracer.compile(nothing)
    with tracer.on_capture(told):
        nothing(3)
    assert told.decisions == ["skip"]
    assert told[0][0].reason.startswith("nothing to compile") and told[0][0].region is None


def test_skips_at_a_limit_under_a_stance_and_while_cold():
    def f(x, n):
        return x * 2 if n == 1 else x * 3 if n == 2 else x * 4

    told = Told()
    tracer.compile(f, recompile_limit=2)
    with tracer.on_capture(told):
        for n in (1, 2, 3, 4):
            f(X, n)
    assert told.decisions == ["capture", "recompile", "skip"]
    assert "recompile_limit=2" in told[-1][0].reason

    def g(x):
        return x - 1

    told.clear()
    tracer.compile(g)
    with tracer.on_capture(told), tracer.set_stance("eager_on_recompile"):
        g(X)
    assert told.decisions == ["skip"] and "eager_on_recompile" in told[0][0].reason

    def h(x):
        return x - 1

    told.clear()
    tracer.compile(h, compile_after=3)
    with tracer.on_capture(told):
        for _ in range(5):
            h(X)
    assert told.decisions == ["skip", "skip", "capture"]
    assert "call 1" in told[0][0].reason and "at call 3" in told[0][0].reason


def test_a_callback_that_raises_is_logged_and_the_others_are_called(caplog):
    def f(x):
        return x + 1

    def bad(frame, ctx):
        raise ZeroDivisionError("bad callback")

    told = Told()
    tracer.compile(f)
    with caplog.at_level(logging.WARNING, "tracer"), tracer.on_capture(bad), tracer.on_capture(told):
        assert torch.equal(f(X), X + 1)
    [record] = [r for r in caplog.records if "on_capture raised" in r.getMessage()]
    assert "raised ZeroDivisionError: bad callback at " in record.getMessage()
    assert told.decisions == ["capture"]
    assert tracer.counters()["errors"] == 0


def test_a_callback_may_call_and_compile_and_reset():
    def f(x):
        return x + 1

    @tracer.compile
    def other(x):
        return x * 3

    told = Told()

    def busy(frame, ctx):
        told(frame, ctx)
        other(X)
        tracer.explain_recompiles(f)
        tracer.reset()

    tracer.compile(f)
    with tracer.on_capture(busy):
        assert torch.equal(f(X), X + 1)
    assert told.decisions == ["capture"], "what it decided itself was not told"
    assert torch.equal(f(X), X + 1)


def test_a_graph_break_with_fullgraph_is_told_before_it_is_raised():
    def f(x):
        print(end="")
        return x + 1

    told = Told()
    tracer.compile(f, fullgraph=True)
    with tracer.on_capture(told), pytest.raises(tracer.GraphBreak):
        f(X)
    assert told.decisions == ["skip"] and told[0][0].graph_break.title == "print() writes output"


def test_private_callees_and_generators_tell_of_their_own_frames():
    def callee(x):
        y = x + 1
        print(end="")
        return y * 2

    def gen(x):
        yield x + 1
        yield x * 2

    @tracer.compile
    def f(x):
        return callee(x) * 3

    told = Told()
    with tracer.on_capture(told):
        f(X)
    assert {name for _, name, *_ in told} == {"f", "callee"}
    told.clear()
    tracer.compile(gen)
    with tracer.on_capture(told):
        assert torch.equal(sum(gen(X)), X + 1 + X * 2)
    assert told and {name for _, name, *_ in told} == {"gen"}


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="takes a function"):
        tracer.on_capture(3)


def test_what_a_callback_or_listener_raises_is_one_line_with_its_place(installed_eager, caplog):
    class Unspeakable(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    def f(x):
        return x + 1

    class Raising(tracer.Listener):
        def node(self, added):
            raise ValueError("of the\nlistener")

    def fails(frame, ctx):
        raise Unspeakable

    with tracer.on_capture(fails), tracer.listen(Raising()), caplog.at_level("WARNING", "tracer"):
        assert torch.equal(tracer.compile(f, inplace=False)(torch.ones(2)), torch.ones(2) + 1)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and not any(record.exc_info for record in caplog.records)
    for message, what in zip(sorted(said, key=len), ("ValueError: of the listener at", "Unspeakable"),
                             strict=True):
        assert message.startswith(f"{f.__qualname__} ({__file__}:") and what in message
        assert f"at {__file__}:" in message and "\n" not in message
