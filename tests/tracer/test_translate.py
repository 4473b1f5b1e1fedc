"""The pipeline of one compile, with captures put in by hand: what is tried when, and what is left alone."""

from __future__ import annotations

import logging
import sys
import types

import pytest
import torch

from rewriter.decode import decode
from tests.tracer.recording import record
from tracer.api.runtime import Runtime
from tracer.cache import Counters, Registry
from tracer.config import Options, Settings
from tracer.errors import GraphBreak, OperatorFailed
from tracer.events import MonitoringStarts
from tracer.graph.capture import Callee, Capture, Exit
from tracer.guards import Guard, Kind
from tracer.originals import is_grafted
from tracer.originals import original_code as tracer_original_code
from tracer.sources import Param
from tracer.translate import Translator, is_worth_it, successors, take_arguments
from tracer.translate.places import behind, first_enterable

x = torch.arange(4.0)


def doubling(request, *, guards=(), landing=None, graph_break=None, scale=2):
    """A capture of `x * scale` in a function that returns it: by hand, whatever the function does."""
    graph = record(lambda torch, x: x * scale, [request.arguments[0]])
    if landing is None:
        landing = returns(request.decoded)[0]
    return Capture(
        entry=request.layout.index, guards=tuple(guards), fetches=(), graph=graph, inputs=(Param("x"),),
        outputs=("t0",), setup=(), effects=(), exit=Exit(landing, ("t0",)), constants={}, graph_break=graph_break,
    )  # fmt: skip


def returns(decoded):
    return [i.unit for i in decoded.instructions if i.opname == "RETURN_VALUE"]


def equals(name, value):
    return Guard(Kind.EQUALS, Param(name), value, None)


class World:
    """A runtime of its own, whose captures are made by `capture`, and counted."""

    def __init__(self, capture, **settings):
        self.requests = []

        def counted(request):
            self.requests.append(request)
            return capture(request)

        self.runtime = Runtime(Translator(Registry(), Counters(), capture=counted))
        self.settings = Settings(backend="eager", **settings)
        self.runtime.install(self.settings)

    def compile(self, function, **options):
        function = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
        self.state = self.runtime.adopt(function, Options(**options))
        return function

    @property
    def entries(self):
        return self.state.entries

    @property
    def counters(self):
        return self.runtime.counters.snapshot()


@pytest.fixture
def world(request):
    worlds = []

    def make(capture, **settings):
        worlds.append(World(capture, **settings))
        return worlds[-1]

    yield make
    for made in worlds:
        made.runtime.uninstall()


def plain(x, n):
    y = x * 2
    return y


def fails(error):
    def capture(request):
        raise error
    return capture


class TestFirstCapture:
    def test_arguments_come_in_the_order_of_the_layout(self, world):
        made = world(doubling)
        function = made.compile(plain)
        assert torch.equal(function(x, 5), x * 2)
        [request] = made.requests
        assert request.layout.parameters == ("x",) and request.arguments[0] is x
        assert request.globals is globals() and not request.fullgraph

    def test_options_reach_the_request(self, world):
        made = world(doubling)
        made.compile(plain, fullgraph=True, dynamic=False)(x, 5)
        assert made.requests[0].fullgraph is True and made.requests[0].dynamic is False
        made = world(doubling, dynamic=True)
        made.compile(plain)(x, 5)
        assert made.requests[0].dynamic is True

    @pytest.mark.skipif(not MonitoringStarts.available(), reason="no sys.monitoring in this Python")
    def test_the_start_event_captures_before_the_slot_is_reached(self, world):
        events = []
        made = world(doubling)
        serve = made.runtime.translator.start

        def on_start(entry, frame):
            events.append(entry.index)
            return serve(entry, frame)

        made.runtime.translator.grafter._on_start = on_start
        function = made.compile(plain)
        function(x, 5), function(x, 5)
        assert len(events) == len(made.requests) == 1
        assert made.counters["misses"] == 1

    def test_a_cell_variable_leaves_it_to_the_slot(self, world):
        def with_cell(x, n):
            def inner():
                return x
            return inner()

        made = world(fails(GraphBreak("nothing here")))
        function = made.compile(with_cell)
        assert function(x, 1) is x
        request = made.requests[0]
        assert request.layout.cells == ("x",) and request.arguments[-1].cell_contents is x


class TestNothingHere:
    def test_an_entry_that_breaks_at_once_twice_is_left_out(self, world):
        made = world(fails(GraphBreak("nothing here")))
        function = made.compile(plain)
        for _ in range(20):
            assert torch.equal(function(x, 5), x * 2)
        by_entry = [request.layout.index for request in made.requests]
        assert max(by_entry.count(index) for index in by_entry) == 2
        assert not is_grafted(function.__code__)
        assert made.counters["breaks"] == {"nothing here": len(by_entry)}

    def test_the_next_entry_is_behind_the_break(self, world):
        decoded = decode(plain.__code__)
        multiply = next(i.index for i in decoded.instructions if i.opname == "BINARY_OP")

        def capture(request):
            error = GraphBreak("nothing here")
            error.at = multiply
            raise error

        made = world(capture)
        made.compile(plain)(x, 5)
        assert sorted(made.entries) == [decoded.start, *successors(decoded, multiply)]

    def test_a_capture_without_a_graph_is_no_region(self, world):
        def capture(request):
            full = doubling(request)
            exit_ = Exit(full.exit.landing, ("1",))
            return Capture(**{**vars(full), "graph": None, "inputs": (), "outputs": (), "exit": exit_})

        made = world(capture)
        function = made.compile(plain)
        assert torch.equal(function(x, 5), x * 2)
        assert list(made.state.regions) == []

    def test_but_one_with_a_private_callee_is(self):
        capture = types.SimpleNamespace(graph=None, spares=False, constants={"k_f": Callee(plain)})
        assert is_worth_it(capture, types.SimpleNamespace(is_idle=lambda original: False))
        capture.constants = {"k_f": plain}
        assert not is_worth_it(capture, types.SimpleNamespace(is_idle=lambda original: False))


class TestBreaks:
    def test_a_region_that_ends_where_there_is_no_landing_runs_from_the_next_call_on(self, world):
        decoded = decode(plain.__code__)
        store = next(i.unit for i in decoded.instructions if i.opname == "STORE_FAST")
        made = world(lambda request: doubling(request, landing=store, scale=3, graph_break=GraphBreak("here")))
        function = made.compile(plain)
        code = function.__code__
        assert torch.equal(function(x, 5), x * 2)
        assert function.__code__ is not code
        assert torch.equal(function(x, 5), x * 3)
        start = made.entries[decoded.start]
        assert store in start.exits and len(made.requests) >= 1

    def test_a_running_frame_has_landings_for_what_is_compiled_later(self, world):
        def steps(x, n):
            while True:
                yield x

        decoded = decode(steps.__code__)
        yields = next(i.unit for i in decoded.instructions if i.opname == "YIELD_VALUE")
        made = world(lambda request: doubling(request, landing=yields, graph_break=GraphBreak("yield")))
        function = made.compile(steps)
        running = function(x, 5)
        assert torch.equal(next(running), x * 2) and len(made.requests) == 1
        assert torch.equal(next(function(x, 5)), x * 2) and len(made.requests) == 1
        assert torch.equal(next(running), x * 2) and len(made.requests) == 2

    def test_another_thread_grafts_anew_between_compile_and_run(self, world):
        decoded = decode(plain.__code__)
        store = next(i.unit for i in decoded.instructions if i.opname == "STORE_FAST")
        made = world(doubling)
        translator = made.runtime.translator
        translator.grafter.watch = None  # the slot itself must miss
        real = translator._compile

        def overtaken(state, entry, slot, arguments):
            region = real(state, entry, slot, arguments)
            translator._compile = real
            captured = doubling(made.requests[0], landing=store, scale=3, graph_break=GraphBreak("here"))
            other = translator.maker.region(state, entry, captured, 0.0, arguments)
            translator.grafter.put_in(state, entry, other, [], slot)
            assert entry.slot is not slot
            return region

        translator._compile = overtaken
        function = made.compile(plain)
        assert torch.equal(function(x, 5), x * 2)
        assert torch.equal(function(x, 5), x * 3)

    def test_fullgraph_raises_and_tries_again_at_each_call(self, world):
        made = world(fails(GraphBreak("never", "details", "hint")))
        function = made.compile(plain, fullgraph=True)
        for _ in range(3):
            with pytest.raises(GraphBreak, match="never"):
                function(x, 5)
        assert len(made.requests) == 3


class TestMisses:
    def test_fresh_regions_are_tried_first_and_the_old_ones_stay(self, world):
        made = world(lambda request: doubling(request, guards=[equals("n", request.arguments[-1])]))

        def uses_n(x, n):
            return x * 2 + 0 * n

        function = made.compile(uses_n)
        for n in (1, 2, 1, 3, 2):
            assert torch.equal(function(x, n), x * 2)
        assert len(made.requests) == 3
        [entry] = made.entries.values()
        assert entry.regions[0].capture.guards[0].expected == 3
        assert sorted(region.hits for region in entry.regions) == [1, 2, 2]

    def test_a_region_that_refuses_its_own_inputs_is_dropped_and_told(self, world, monkeypatch, caplog):
        monkeypatch.setenv("TORCHGRAFT_STRICT", "0")
        made = world(lambda request: doubling(request, guards=[equals("n", 77)]))

        def uses_n(x, n):
            return x * 2 + 0 * n

        function = made.compile(uses_n)
        with caplog.at_level(logging.WARNING, "tracer"):
            for _ in range(4):
                assert torch.equal(function(x, 5), x * 2)
        assert len(made.requests) <= 2
        [record] = caplog.records
        assert "n: equals 77, now 5" in record.getMessage()

    def test_the_users_own_errors_do_not_count_as_ours(self, world):
        made = world(fails(OperatorFailed(RuntimeError("shapes"))))
        function = made.compile(plain)
        for _ in range(3):
            assert torch.equal(function(x, 5), x * 2)
        assert len(made.requests) == 3 and not made.counters["errors"]

    def test_within_a_capture_nothing_is_captured(self, world):
        inner = []

        def capture(request):
            inner.append(function(x, 7))
            assert made.runtime.translator.is_capturing()
            return doubling(request)

        made = world(capture)
        function = made.compile(plain)
        function(x, 5)
        assert len(made.requests) == 1 and torch.equal(inner[0], x * 2)
        assert not made.runtime.translator.is_capturing()


class TestPrivateCopies:
    def test_one_for_each_function_of_a_compile(self, world):
        def callee(x):
            return x

        def capture(request):
            if request.decoded.code.co_name == "callee":
                raise GraphBreak("nothing here")
            full = doubling(request)
            return Capture(**{
                **vars(full), "constants": {"k_callee": Callee(callee)}, "exit": Exit(full.exit.landing, ("v0",)),
                "setup": ("v0 = k_callee(t0)", "v0 = k_callee(v0)"),
            })  # fmt: skip

        made = world(capture)
        code = callee.__code__
        first = made.compile(plain)
        state = made.state
        second = made.compile(plain, dynamic=False)
        assert torch.equal(first(x, 1), x * 2) and torch.equal(second(x, 1), x * 2)
        copies = [s.family.find(callee, tracer_original_code(callee.__code__)) for s in (state, made.state)]
        assert None not in copies and copies[0] is not copies[1] and callee.__code__ is code
        names = [s.name.rpartition(".")[2] for s in made.runtime.registry]
        assert sorted(names) == ["callee", "callee", "plain", "plain"]


class TestPlaces:
    def test_successors_are_the_next_unit_and_where_it_jumps(self):
        def branch(a):
            if a:
                return 1
            while a is not None:
                a = a.next
            raise KeyError

        decoded = decode(branch.__code__)
        for instruction in decoded.instructions:
            found = successors(decoded, instruction.index)
            assert all(decoded.instructions[i].unit == i for i in found)
            if instruction.opname in ("RETURN_VALUE", "RAISE_VARARGS", "RERAISE"):
                assert found == []
            elif instruction.opname.startswith("POP_JUMP"):
                assert len(found) == 2
        assert first_enterable(decoded, [0]) == {decoded.start}

    def test_behind_a_region_is_behind_what_broke(self):
        decoded = decode(plain.__code__)
        multiply = next(i.index for i in decoded.instructions if i.opname == "BINARY_OP")
        error = GraphBreak("here")
        captured = types.SimpleNamespace(exit=Exit(decoded.start, ()), graph_break=error, goes_on=None)
        assert behind(decoded, captured) == successors(decoded, decoded.start)
        error.at = multiply
        assert behind(decoded, captured) == successors(decoded, multiply)
        captured.graph_break = None
        assert behind(decoded, captured) == [decoded.start]
        captured.goes_on = multiply
        assert behind(decoded, captured) == [multiply]
        returning = next(i.unit for i in decoded.instructions if i.opname == "RETURN_VALUE")
        captured = types.SimpleNamespace(exit=Exit(returning, ()), graph_break=None, goes_on=None)
        assert behind(decoded, captured) == []

    def test_arguments_of_a_frame(self):
        def function(a, b):
            taken = take_arguments(sys._getframe(), ("b", "a")), take_arguments(sys._getframe(), ("later",))
            later = taken
            return later

        assert function(1, 2) == ((2, 1), None)
