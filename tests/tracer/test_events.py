"""Function starts: both ways, on every Python that has them."""

from __future__ import annotations

import gc
import sys
import threading
import types
import weakref

import pytest

import tracer
from tracer.events import MonitoringStarts, NoToolId, SetTraceStarts, cheap_starts, discovery_starts

needs_monitoring = pytest.mark.skipif(not MonitoringStarts.available(), reason="no sys.monitoring in this Python")
ways = [pytest.param(MonitoringStarts, marks=needs_monitoring), SetTraceStarts]


def fresh(function):
    """A copy with a code object of its own, so that no test sees what another one left."""
    return types.FunctionType(function.__code__.replace(), globals(), function.__name__)


def add(a, b=2):
    return a + b


def numbers(n):
    yield from range(n)
    yield n


class Seen:
    """A watcher that notes what it is told."""

    def __init__(self, done=False):
        self.done = done
        self.starts = []

    def __call__(self, code, frame):
        assert frame.f_code is code
        self.starts.append(dict(frame.f_locals))
        return self.done


@pytest.fixture(params=ways)
def starts(request):
    before = sys.gettrace()
    starts = request.param()
    yield starts
    starts.close()
    assert sys.gettrace() is before


def test_arguments_are_bound_when_a_function_starts(starts):
    function, seen = fresh(add), Seen()
    function.__defaults__ = (5,)
    starts.watch(function.__code__, seen)
    assert function(1) == 6
    assert function(b=3, a=4) == 7
    assert seen.starts == [{"a": 1, "b": 5}, {"a": 4, "b": 3}]


def test_a_watcher_that_is_done_is_not_told_again(starts):
    function, seen = fresh(add), Seen(done=True)
    starts.watch(function.__code__, seen)
    assert [function(1, 1), function(2, 2)] == [2, 4]
    assert seen.starts == [{"a": 1, "b": 1}]


def test_done_and_watched_again(starts):
    function, first, second = fresh(add), Seen(done=True), Seen()
    starts.watch(function.__code__, first)
    function(1, 1)
    starts.watch(function.__code__, second)
    function(2, 2)
    function(3, 3)
    assert (len(first.starts), len(second.starts)) == (1, 2)


def test_only_the_watched_code_object_is_seen_not_an_equal_one(starts):
    watched, other, seen = fresh(add), fresh(add), Seen()
    assert watched.__code__ == other.__code__
    starts.watch(watched.__code__, seen)
    other(1, 2)
    assert seen.starts == []
    watched(1, 2)
    assert len(seen.starts) == 1


def test_a_generator_starts_once_at_its_first_step(starts):
    function, seen = fresh(numbers), Seen()
    starts.watch(function.__code__, seen)
    generator = function(3)
    assert seen.starts == []
    assert list(generator) == [0, 1, 2, 3]
    assert seen.starts == [{"n": 3}]
    list(function(1))
    assert len(seen.starts) == 2


def test_closures_and_cells(starts):
    def outer(base):
        def inner(a):
            def innermost():
                return a + base
            return innermost()
        return inner

    inner, seen = outer(10), Seen()
    starts.watch(inner.__code__, seen)
    assert inner(1) == 11
    assert seen.starts[0]["a"] == 1 and seen.starts[0]["base"] == 10


def test_forget(starts):
    function, seen = fresh(add), Seen()
    starts.watch(function.__code__, seen)
    starts.forget(function.__code__)
    starts.forget(fresh(add).__code__)
    function(1, 2)
    assert seen.starts == []


def test_close_ends_all_and_watch_begins_anew(starts):
    function, seen = fresh(add), Seen()
    starts.watch(function.__code__, seen)
    starts.close()
    starts.close()
    function(1, 2)
    assert seen.starts == []
    starts.watch(function.__code__, seen)
    function(1, 2)
    assert len(seen.starts) == 1


def test_code_objects_are_held_weakly(starts):
    function = fresh(add)
    starts.watch(function.__code__, Seen())
    gone = weakref.ref(function.__code__)
    del function
    gc.collect()
    assert gone() is None
    assert starts._watched == {}


def test_threads_started_later_are_seen(starts):
    function, seen = fresh(add), Seen()
    starts.watch(function.__code__, seen)
    thread = threading.Thread(target=function, args=(1, 2))
    thread.start()
    thread.join()
    assert seen.starts == [{"a": 1, "b": 2}]


def test_calls_made_by_the_watcher_are_not_seen(starts):
    function, count = fresh(add), []

    def watcher(code, frame):
        count.append(1)
        function(5, 5)
        return False

    starts.watch(function.__code__, watcher)
    function(1, 2)
    assert len(count) == 1


def test_an_error_of_the_watcher_reaches_the_caller_and_hurts_nothing_later(starts):
    function, seen = fresh(add), Seen()

    def watcher(code, frame):
        raise KeyError("mine")

    starts.watch(function.__code__, watcher)
    with pytest.raises(KeyError, match="mine"):
        function(1, 2)
    starts.close()
    starts.watch(function.__code__, seen)
    assert function(1, 2) == 3
    assert len(seen.starts) == 1


def test_cheap_starts_are_those_of_monitoring():
    assert (cheap_starts() is None) == (sys.version_info < (3, 12))
    assert discovery_starts().available()


@pytest.fixture(autouse=True)
def nothing_else_installed():
    tracer.uninstall()


@needs_monitoring
class TestMonitoring:
    def test_the_optimizer_id_is_taken_and_freed(self):
        starts = MonitoringStarts()
        starts.watch(fresh(add).__code__, Seen())
        assert starts.tool == sys.monitoring.OPTIMIZER_ID
        assert sys.monitoring.get_tool(starts.tool) == "torchgraft"
        starts.close()
        assert sys.monitoring.get_tool(sys.monitoring.OPTIMIZER_ID) is None

    def test_another_free_id_is_used_but_never_those_of_debuggers_coverage_and_profilers(self):
        for tool in (5, 3):
            sys.monitoring.use_tool_id(tool, "other")
        starts = MonitoringStarts()
        try:
            function, seen = fresh(add), Seen()
            starts.watch(function.__code__, seen)
            assert starts.tool == 4
            function(1, 2)
            assert len(seen.starts) == 1
            with pytest.raises(NoToolId, match=r"5: other.*turn one of these tools off"):
                MonitoringStarts().watch(function.__code__, seen)
        finally:
            starts.close()
            for tool in (5, 3):
                sys.monitoring.free_tool_id(tool)

    def test_no_local_event_is_left_behind(self):
        starts, functions = MonitoringStarts(), [fresh(add) for _ in range(3)]
        for function, done in zip(functions, (True, False, False), strict=True):
            starts.watch(function.__code__, Seen(done))
            function(1, 2)
        tool = starts.tool
        starts.close()
        sys.monitoring.use_tool_id(tool, "next")
        try:
            assert [sys.monitoring.get_local_events(tool, f.__code__) for f in functions] == [0, 0, 0]
        finally:
            sys.monitoring.free_tool_id(tool)

    def test_restart_events_of_another_tool_is_survived(self):
        starts, function, seen = MonitoringStarts(), fresh(add), Seen(done=True)
        starts.watch(function.__code__, seen)
        function(1, 2)
        sys.monitoring.restart_events()
        assert function(3, 4) == 7
        assert function(5, 6) == 11
        assert len(seen.starts) == 2  # told once more, and done again
        starts.forget(function.__code__)
        sys.monitoring.restart_events()
        function(7, 8)
        assert len(seen.starts) == 2
        starts.close()

    def test_nothing_global_is_set(self):
        starts = MonitoringStarts()
        starts.watch(fresh(add).__code__, Seen())
        assert sys.monitoring.get_events(starts.tool) == 0
        starts.close()


class TestSetTrace:
    def test_an_existing_trace_function_is_chained(self):
        events = []

        def tracer(frame, event, arg):
            if frame.f_code.co_name == "add":
                events.append(event)
                return tracer
            return None

        function, seen, starts = fresh(add), Seen(), SetTraceStarts()
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            starts.watch(function.__code__, seen)
            function(1, 2)
            starts.close()
            assert sys.gettrace() is tracer
            function(3, 4)
        finally:
            sys.settrace(before)
        assert len(seen.starts) == 1
        assert events == ["call", "line", "return"] * 2

    def test_one_set_later_takes_over_and_may_chain_us(self):
        function, seen, starts, calls = fresh(add), Seen(), SetTraceStarts(), []
        before = sys.gettrace()
        try:
            starts.watch(function.__code__, seen)
            ours = sys.gettrace()

            def later(frame, event, arg):
                calls.append(event)
                return ours(frame, event, arg)

            sys.settrace(later)
            function(1, 2)
            starts.close()
            assert sys.gettrace() is later
            function(1, 2)  # our part is passive now
        finally:
            sys.settrace(before)
        assert len(seen.starts) == 1
        assert calls.count("call") >= 2
