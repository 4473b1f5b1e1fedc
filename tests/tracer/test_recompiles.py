"""Misses of entries that have regions: limits, what is raised, and why it happened, on record and in the log."""

from __future__ import annotations

import gc
import logging
import weakref
from typing import ClassVar

import pytest
import torch

import tracer
from tests.support import CountingBackend
from tests.tracer.examining import conditions_of
from tracer.api import runtime
from tracer.errors import UserLine
from tracer.guards import MISSING, NOWHERE, Guard, Kind
from tracer.refusals import Refusal
from tracer.refusals import examine as examine_conditions
from tracer.sources import Attr, Item, Param
from tracer.translate.hints import HINTS, hint_for

pytestmark = pytest.mark.usefixtures("installed_eager")


x = torch.arange(4.0)


def repeats(**options):
    """A function of its own, which is compiled for each number, and its backend."""
    backend = CountingBackend()
    options.setdefault("dynamic", False)

    @tracer.compile(backend=backend, **options)
    def f(x, n):
        return x.repeat(n)

    return f, backend


class TestLimits:
    def test_of_one_compile_call(self):
        f, backend = repeats(recompile_limit=2)
        g, other = repeats()
        for n in range(2, 8):
            assert torch.equal(f(x, n), x.repeat(n)) and torch.equal(g(x, n), x.repeat(n))
        assert (backend.frame_count, other.frame_count) == (2, 6)

    def test_run_plain_with_one_warning(self, caplog):
        tracer.install(backend="eager", recompile_limit=2)
        f, backend = repeats()
        with caplog.at_level(logging.WARNING, "tracer"):
            for n in range(2, 8):
                assert torch.equal(f(x, n), x.repeat(n))
        [warning] = [record.getMessage() for record in caplog.records]
        assert "recompile_limit=2" in warning and "n: equals 3, now 4" in warning
        assert backend.frame_count == 2
        misses = tracer.counters()["misses"]
        f(x, 9)
        assert tracer.counters()["misses"] == misses  # nobody is asked any more

    def test_raise(self):
        tracer.install(backend="eager", recompile_limit=2, fail_on_recompile_limit_hit=True)
        f, backend = repeats()
        f(x, 2), f(x, 3)
        for n in (4, 5):
            with pytest.raises(tracer.RecompileLimit, match=rf"recompile_limit=2.*n: equals 3, now {n}"):
                f(x, n)
        assert torch.equal(f(x, 2), x.repeat(2)) and torch.equal(f(x, 3), x.repeat(3))
        assert (backend.frame_count, backend.calls) == (2, 4)
        tracer.install(backend="eager", recompile_limit=3)
        assert torch.equal(f(x, 4), x.repeat(4)) and backend.frame_count == 3

    def test_what_would_not_be_compiled_does_not_raise(self):
        tracer.install(backend="eager", recompile_limit=1, fail_on_recompile_limit_hit=True)

        @tracer.compile
        def f(x, way):
            return x + 1 if way else len("plain")

        f(x, True)
        assert [f(x, False) for _ in range(3)] == [5, 5, 5]

    def test_full_graphs_raise(self):
        f, _ = repeats(fullgraph=True, recompile_limit=1)
        f(x, 2)
        with pytest.raises(tracer.RecompileLimit, match="recompile_limit=1"):
            f(x, 3)
        assert isinstance(tracer.RecompileLimit("x"), RuntimeError)

    def test_one_for_all_compile_calls_of_a_code(self):
        tracer.install(backend="eager", accumulated_recompile_limit=3)

        def make(**options):
            def f(x, n):
                return x.repeat(n)

            return tracer.compile(f, **options)

        f, g = make(), make(mode="default")
        assert runtime.state_of(f) is not runtime.state_of(g)
        for n in (2, 3, 4):
            assert torch.equal(f(x, n), x.repeat(n))
            assert torch.equal(g(x, n), x.repeat(n))
        assert tracer.counters()["regions"] == 3
        [record] = tracer.explain_recompiles(g).not_compiled
        assert (record.outcome, record.reason) == ("limit", "accumulated_recompile_limit=3")

    def test_regions_that_go_with_their_objects_count(self):
        """Code that is made anew for each call: its region is gone by the next, and may not be made for ever."""
        tracer.install(backend="eager", accumulated_recompile_limit=5)
        backend = CountingBackend()
        f = tracer.compile(lambda x, fn: fn(x), backend=backend)
        for n in range(12):
            assert torch.equal(f(x, eval(f"lambda x: x + {n}")), x + n)
        assert backend.frame_count == 5 and tracer.counters()["regions"] <= 1
        [record] = tracer.explain_recompiles(f).not_compiled
        assert "went with an object" in record.reason

    @pytest.mark.parametrize("wrong", [{"recompile_limit": 0}, {"compile_after": True}])
    def test_wrong_counts(self, wrong):
        with pytest.raises(ValueError, match="at least 1"):
            tracer.compile(lambda x: x, **wrong)
        with pytest.raises(ValueError, match="at least 1"):
            tracer.install(**wrong)

    def test_wrong_switches(self):
        with pytest.raises(TypeError, match="isolate_recompiles must be a bool"):
            tracer.compile(lambda x: x, isolate_recompiles=1)
        for name in ("fail_on_recompile_limit_hit", "error_on_recompile"):
            with pytest.raises(TypeError, match=f"{name} must be a bool"):
                tracer.install(**{name: 1})


class TestIsolated:
    @staticmethod
    def make(**options):
        def f(x, n):
            return x.repeat(n)

        return tracer.compile(f, **options)

    def test_each_call_has_regions_and_limits_of_its_own(self):
        tracer.install(backend="eager", recompile_limit=2)
        shared, alone, other = self.make(), self.make(isolate_recompiles=True), self.make(isolate_recompiles=True)
        states = [runtime.state_of(f) for f in (shared, alone, other)]
        assert len(set(map(id, states))) == 3
        for n in (2, 3, 4):
            for f in (shared, alone, other):
                assert torch.equal(f(x, n), x.repeat(n))
        assert [sum(1 for _ in state.regions) for state in states] == [2, 2, 2]
        again = self.make()
        assert runtime.state_of(again) is states[0]

    def test_it_goes_with_its_function(self):
        alone = self.make(isolate_recompiles=True)
        alone(x, 2)
        code = alone.__code__
        state, grafted = weakref.ref(runtime.state_of(alone)), weakref.ref(code)
        del alone, code
        gc.collect()
        assert state() is None and grafted() is None  # although its code lives on, with the function that makes it
        assert torch.equal(self.make(isolate_recompiles=True)(x, 3), x.repeat(3))

    def test_compiled_again(self):
        f = self.make()
        f(x, 2)
        tracer.compile(f, isolate_recompiles=True)
        f(x, 2)
        assert tracer.counters()["compilations"] == 2
        tracer.compile(f, isolate_recompiles=True)
        assert torch.equal(f(x, 2), x.repeat(2)) and tracer.counters()["compilations"] == 3

    def test_a_model(self):
        model = torch.nn.Linear(4, 4)
        tracer.compile(model, isolate_recompiles=True)
        assert torch.equal(model(x), tracer.original(model)(x))
        tracer.compile(model, isolate_recompiles=True)
        model(x)
        assert tracer.counters()["compilations"] == 2

    def test_callees_that_break_are_shared_as_ever(self):
        def callee(x):
            x = x + 1
            print(end="")
            return x * 2

        @tracer.compile(isolate_recompiles=True)
        def f(x):
            return callee(x) - 1

        for _ in range(3):
            assert torch.equal(f(x), (x + 1) * 2 - 1)
        assert tracer.counters()["hits"] >= 9


class TestErrorOnRecompile:
    def test_the_first_compile_is_none(self):
        tracer.install(backend="eager", error_on_recompile=True)
        f, backend = repeats()
        f(x, 2)
        with pytest.raises(tracer.RecompileError, match=r"n: equals 2, now 3.*Hint: ") as caught:
            f(x, 3)
        assert __file__ in str(caught.value) and isinstance(caught.value, RuntimeError)
        assert torch.equal(f(x, 2), x.repeat(2)) and backend.frame_count == 1
        [record] = tracer.explain_recompiles(f).not_compiled
        assert record.outcome == "raised"
        tracer.install(backend="eager")
        assert torch.equal(f(x, 3), x.repeat(3)) and backend.frame_count == 2

    def test_behind_a_break(self):
        tracer.install(backend="eager", error_on_recompile=True)

        @tracer.compile
        def f(x, n):
            x = x + 1
            print(end="")
            return x.repeat(n)

        f(x, 2)
        with pytest.raises(tracer.RecompileError):
            f(x, 3)

    def test_its_traceback_ends_in_the_function(self):
        tracer.install(backend="eager", error_on_recompile=True)
        f, _ = repeats()
        f(x, 2)
        with pytest.raises(tracer.RecompileError) as caught:
            f(x, 3)
        assert caught.value.__cause__ is None and caught.value.__suppress_context__

    def test_what_has_nothing_to_compile_runs(self):
        tracer.install(backend="eager", error_on_recompile=True)

        @tracer.compile
        def f(x, way):
            return x + 1 if way else len("plain")

        f(x, True)
        assert [f(x, False) for _ in range(3)] == [5, 5, 5]


class TestExplained:
    def test_number(self):
        f, _ = repeats()
        f(x, 2), f(x, 3)
        report = tracer.explain_recompiles(f)
        [record] = report.recompiles
        line = f.__code__.co_firstlineno + 2
        assert (record.outcome, record.kind, record.source) == ("compiled", "equals", "n")
        assert (record.old, record.new) == ("2", "3")
        assert record.needed_by == UserLine(__file__, line, "repeats.<locals>.f")
        assert record.held == record.of - 1 and record.made != record.earlier
        assert "tensor" in record.hint
        for part in ("1 recompile\n", "n: equals 2", "is:      3", f"{__file__}:{line}", record.hint):
            assert part in str(report)

    def test_sizes(self):
        @tracer.compile(dynamic=False)
        def f(x):
            return x * 2

        f(torch.ones(4, 8)), f(torch.ones(5, 8)), f(torch.ones(1, 8))
        grown, single = tracer.explain_recompiles(f).recompiles
        assert (grown.old.split(";")[0], grown.new.split(";")[0]) == ("shape (4, 8)", "shape (5, 8)")
        assert "tracer.mark_dynamic(x, 0)" in grown.hint and "0/1" not in grown.hint
        assert single.new.startswith("shape (1, 8)") and "0/1 specialisation" in single.hint

    def test_hints_that_would_not_help_are_not_given(self):
        f = tracer.compile(lambda w, p: w * torch.ones(1).normal_(p), inplace=False)
        for rows, p in ((4, 0.5), (5, 0.5), (5, 0.25)):
            f(torch.nn.Parameter(torch.ones(rows)), p)
        of_parameter, of_float = tracer.explain_recompiles(f).recompiles
        assert "sizes of parameters" in of_parameter.hint
        assert "torch.tensor(number)" in of_float.hint and "dynamic" not in of_float.hint

    def test_zero_and_one(self):
        f, _ = repeats()
        f(x, 2), f(x, 1), f(x, 3), f(x, 5)
        hints = [record.hint for record in tracer.explain_recompiles(f).recompiles]
        assert ["0/1 specialisation" in hint for hint in hints] == [True, False, False]

    def test_the_nearest_region_is_named(self):
        @tracer.compile(dynamic=False)
        def f(x, n, word):
            return x.repeat(n) + len(word)

        f(x, 2, "a"), f(x, 3, "bb")
        first, second = [region.compiled.number for region in runtime.state_of(f).regions][::-1]
        f(x, 2, "ccc"), f(x, 3, "dddd")
        made = tracer.explain_recompiles(f).recompiles
        assert [record.earlier for record in made[1:]] == [first, second]
        assert [(record.source, record.held) for record in made[1:]] == [("len(word)", made[1].of - 1)] * 2

    def test_attributes_are_named_as_the_program_does(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(4, 4)
                self.scale = 3

            def forward(self, x):
                return self.inner(x).repeat(self.scale)

        net = tracer.compile(Net())
        net(x)
        net.scale = 4
        net(x)
        net.inner.weight = torch.nn.Parameter(net.inner.weight.detach(), requires_grad=False)
        net(x)
        scale, weight = tracer.explain_recompiles(net).recompiles
        assert (scale.source, scale.old, scale.new) == ("self.scale", "3", "4")
        assert "a tensor of self" in scale.hint
        assert weight.source == "self.inner.weight" and "requires_grad False" in weight.new

    def test_none_or_a_tensor(self):
        @tracer.compile
        def f(x, mask=None):
            return x if mask is None else x * mask

        f(x, x * 2), f(x)
        [record] = tracer.explain_recompiles(f).recompiles
        assert "None" in record.hint

    def test_the_global_state(self):
        f, _ = repeats()
        f(x, 2)
        with torch.no_grad():
            f(x, 2)
        [record] = tracer.explain_recompiles(f).recompiles
        assert (record.old, record.new, record.needed_by) == ("grad mode True", "grad mode False", None)
        assert "grad mode" in record.hint

    def test_at_the_limit(self):
        f, _ = repeats(recompile_limit=1)
        for n in (2, 3, 4):
            f(x, n)
        report = tracer.explain_recompiles(f)
        [record] = report.recompiles
        assert (record.outcome, record.reason, record.made) == ("limit", "recompile_limit=1", None)
        assert report.compiled == () and "1 call that got no region" in str(report)

    def test_nothing_to_compile(self):
        @tracer.compile
        def f(x, way):
            return x + 1 if way else len("plain")

        f(x, True), f(x, False)
        [record] = tracer.explain_recompiles(f).recompiles
        assert (record.outcome, record.source, record.old, record.new) == ("nothing to compile", "way", "True", "False")

    def test_an_error_of_the_programs_own(self):
        f, _ = repeats(fullgraph=True)
        f(x, 2)
        for _ in range(20):
            with pytest.raises(RuntimeError):
                f(torch.ones(2, 2, 2), 3)
        failed = tracer.explain_recompiles(f).recompiles
        assert {record.outcome for record in failed} == {"failed"} and "the program's own" in failed[0].reason
        assert len(failed) == 8 and sum(record.count for record in failed) == 20

    def test_private_copies(self):
        def callee(x, n):
            x = x + 1
            print(end="")
            return x.repeat(n)

        @tracer.compile
        def f(x, n):
            return callee(x, n) - 1

        f(x, 2), f(x, 3)
        report = tracer.explain_recompiles(f)
        assert [inner.function.split(".")[-1] for inner in report.callees] == ["callee"]
        assert "private copy of" in str(report) and report.callees[0].recompiles[0].source == "n"

    def test_methods_and_partials(self):
        class Scale:
            def method(self, x, n):
                return x.repeat(n)

        method = tracer.compile(Scale().method)
        method(x, 2), method(x, 3)
        assert len(tracer.explain_recompiles(method).recompiles) == 1

    def test_a_report_stays_as_it_was(self):
        f, _ = repeats()
        f(x, 2), f(x, 3)
        report = tracer.explain_recompiles(f)
        text = str(report)
        f(x, 4)
        assert str(report) == text != str(tracer.explain_recompiles(f))
        tracer.reset()
        assert tracer.explain_recompiles(f).recompiles == () and str(report) == text

    def test_what_is_not_compiled(self):
        with pytest.raises(ValueError, match="is not compiled"):
            tracer.explain_recompiles(len)

    def test_one_line_in_the_log(self, caplog):
        f, _ = repeats()
        with caplog.at_level(logging.DEBUG, "tracer.recompiles"):
            f(x, 2)
            assert not caplog.records
            f(x, 3)
        [message] = [record.getMessage() for record in caplog.records]
        assert "\n" not in message
        for part in ("compiled: region", "guards held): n: equals 2, now 3", f"{__file__}:", "Hint: "):
            assert part in message

    def test_records_hold_nothing_of_the_users(self):
        class Thing:
            scale = 2.0

        @tracer.compile
        def f(x, thing):
            return x * thing.scale

        f(x, Thing())
        thing = Thing()
        thing.scale = 3.0
        f(x, thing)
        gone = weakref.ref(thing)
        assert tracer.explain_recompiles(f).recompiles
        del thing
        gc.collect()
        assert gone() is None


def frozen(*guards):
    """Guards as a region has them."""
    return tuple(Guard(kind, source, kind.row.freeze(expected)) for kind, source, expected in guards)


def examine(guards, arguments, namespace):
    return examine_conditions(guards, conditions_of(guards, arguments), arguments, namespace)


class Nosy:
    """Whoever reads attributes of it is noticed."""

    asked: ClassVar[list[str]] = []

    def __getattr__(self, name):
        self.asked.append(name)
        raise AttributeError(name)


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class TestExamined:
    def test_all_that_can_be_asked_is(self):
        a, b, c = map(Param, "abc")
        guards = frozen((Kind.EQUALS, a, 1), (Kind.EQUALS, b, 2), (Kind.EQUALS, c, 3))
        found = examine(guards, {"a": 1, "b": 5, "c": 3}, {})
        assert (found.held, found.of, found.guard, found.new) == (2, 3, guards[1], "5")

    def test_nothing_that_rests_on_what_failed(self):
        thing = Param("thing")
        guards = frozen(
            (Kind.TYPE, thing, Plain), (Kind.EQUALS, Attr(thing, "n"), 1), (Kind.EQUALS, Attr(thing, "m"), 1)
        )
        assert examine(guards, {"thing": Plain(n=1, m=1)}, {}).guard is None
        Nosy.asked.clear()
        found = examine(guards, {"thing": Nosy()}, {})
        assert Nosy.asked == [] and (found.held, found.of, found.guard) == (0, 3, guards[0])

    def test_nor_on_an_attribute_that_is_gone(self):
        thing = Param("thing")
        fields = Attr(thing, "__dict__")
        guards = frozen(
            (Kind.TYPE, thing, Nosy), (Kind.HAS_KEY, fields, "n"), (Kind.LACKS_KEY, fields, "o"),
            (Kind.TYPE, Attr(thing, "n"), int), (Kind.EQUALS, Attr(thing, "m"), 1),
        )  # fmt: skip
        nosy = Nosy()
        nosy.__dict__.update(n=1, o=3)
        Nosy.asked.clear()
        found = examine(guards, {"thing": nosy}, {})
        assert Nosy.asked == [] and found.guard is guards[2]
        assert found.held < found.of

    def test_nor_anything_once_a_class_is_otherwise(self):
        asked = []

        class Thing:
            pass

        thing, param = Thing(), Param("thing")
        thing.n = 1
        guards = frozen(
            (Kind.TYPE, param, Thing), (Kind.TYPE_ATTR, NOWHERE, (Thing, "n", MISSING)),
            (Kind.EQUALS, Attr(param, "n"), 1),
        )  # fmt: skip
        assert examine(guards, {"thing": thing}, {}).guard is None
        Thing.n = property(asked.append)
        found = examine(guards, {"thing": thing}, {})
        assert asked == [] and (found.held, found.guard) == (1, guards[1])
        assert (found.old, found.new) == ("none", "property object")

    def test_nor_with_many_at_a_time(self):
        thing = Param("thing")
        attributes = [(Kind.EQUALS, Attr(thing, f"a{n}"), n) for n in range(200)]
        guards = frozen((Kind.TYPE, thing, Plain), *attributes)
        plain = Plain(**{f"a{n}": n for n in range(200)})
        found = examine(guards, {"thing": plain}, {})
        assert found.guard is None and found.held == found.of == 201
        plain.a150 = 0
        found = examine(guards, {"thing": plain}, {})
        assert (found.held, found.guard, found.failed) == (200, guards[151], (guards[151],))
        Nosy.asked.clear()
        found = examine(guards, {"thing": Nosy()}, {})
        assert Nosy.asked == [] and found.held == 0

    def test_containers(self):
        items = Param("items")
        guards = frozen(
            (Kind.TYPE, items, list), (Kind.LENGTH, items, 2), (Kind.EQUALS, Item(items, 0), 1),
            (Kind.EQUALS, Item(items, 1), 2),
        )  # fmt: skip
        found = examine(guards, {"items": [1]}, {})
        assert (found.held, found.guard, found.old, found.new) == (1, guards[1], "length 2", "length 1")

    def test_it_never_raises(self):
        assert examine(frozen((Kind.EQUALS, Param("a"), 1)), {}, {}).guard is not None


class TestHints:
    def test_there_is_one_for_each_kind_of_guard(self):
        assert set(HINTS) == set(Kind)

    @pytest.mark.parametrize(
        ("changes", "part"),
        [
            ([("dtype", "a", "b")], "one dtype"), ([("device", "a", "b")], "one device"),
            ([("stride", "a", "b")], "contiguous"), ([("requires_grad", True, False)], "requires_grad"),
            ([("shape", (2, 3), (2, 3, 4))], "number of dimensions"), ([("type", "Tensor", "Parameter")], "one class"),
            ([("shape", (2, 3), (4, 5))], "[0, 1]"), ([("shape", (2, 3), (0, 3))], "0/1"),
            ([("dtype", "a", "b"), ("shape", (2,), (3,))], "one dtype"), ([], "alike each time"),
        ],
    )  # fmt: skip
    def test_of_tensors(self, changes, part):
        guard = Guard(Kind.TENSOR, Param("x"))
        assert part in hint_for(Refusal(guard, "", 0, 1, tuple(changes)))

    @pytest.mark.parametrize(
        ("guard", "part"),
        [
            (Guard(Kind.EQUALS, Param("flag"), True), "another program"),
            (Guard(Kind.EQUALS, Param("word"), "abc"), "text"),
            (Guard(Kind.EQUALS, Param("pair"), (2, 3)), "same value"),
            (Guard(Kind.EQUALS, Attr(Param("self"), "step"), 7), "a tensor of self"),
            (Guard(Kind.LENGTH, Param("items"), 3), "stack what items holds"),
            (Guard(Kind.HAS_KEY, Attr(Param("self"), "__dict__"), "a"), "constructor"),
            (Guard(Kind.KEYS, Param("table"), ("a",)), "all its keys"),
            (Guard(Kind.ALIAS, Param("a"), Param("b")), "two objects"),
        ],
    )
    def test_of_others(self, guard, part):
        assert part in hint_for(Refusal(guard, "9", 0, 1))
