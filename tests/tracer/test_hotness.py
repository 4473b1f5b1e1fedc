"""`compile_after`: until its n-th call a function runs as it is, whatever it is and whoever calls it."""

from __future__ import annotations

import asyncio
import copy
import gc
import sys
import threading
import traceback
import weakref

import pytest
import torch

import tracer
from tests.support import CountingBackend
from tracer.api import is_grafted, runtime
from tracer.config import Stance
from tracer.events import cheap_starts
from tracer.originals import original_code

EVENTS = cheap_starts() is not None


@pytest.fixture(autouse=True, params=["events", "slots"] if EVENTS else ["slots"])
def installed(request, monkeypatch):
    """With start events where there are any, and without."""
    events = request.param == "events"
    if not events:
        monkeypatch.setattr(runtime, "_starts", None)
    tracer.install(backend="eager", compile_after=3)
    tracer.reset()
    yield events
    tracer.uninstall()
    runtime.set_stance(Stance())


x = torch.arange(4.0)


def frames_of(backend, call, times=6):
    """How many graphs there are after each call."""
    found = []
    for _ in range(times):
        call()
        found.append(backend.frame_count)
    return found


class TestFunctions:
    def test_compiled_at_the_nth_call(self):
        backend = CountingBackend()
        f = tracer.compile(lambda x: x + 1, backend=backend)
        assert frames_of(backend, lambda: f(x)) == [0, 0, 1, 1, 1, 1]
        assert backend.calls == 3  # the third call itself runs plain
        numbers = tracer.counters()
        assert (numbers["compilations"], numbers["misses"], numbers["hits"]) == (1, 1, 3)

    def test_until_then_it_runs_its_own_code(self, installed):
        def f(x):
            return x + 1

        plain = f.__code__
        tracer.compile(f)
        f(x)
        assert original_code(f.__code__) is plain
        if installed:
            assert f.__code__ == plain and f.__code__.co_code == plain.co_code

    def test_each_counts_for_itself(self):
        backends = [CountingBackend(), CountingBackend()]
        f = tracer.compile(lambda x: x + 1, backend=backends[0])
        g = tracer.compile(lambda x: x + 2, backend=backends[1])
        for _ in range(2):
            f(x)
        for _ in range(3):
            g(x)
        assert [backend.frame_count for backend in backends] == [0, 1]

    def test_nobody_elses_calls_count(self):
        backend = CountingBackend()

        def make():
            def f(x):
                return x + 1

            return f

        f, other = make(), make()
        tracer.compile(f, backend=backend)
        for _ in range(5):
            other(x), tracer.original(f)(x)
        assert frames_of(backend, lambda: f(x), 3) == [0, 0, 1]

    def test_closures_that_share_code_count_together(self):
        backend = CountingBackend()

        def make(k):
            @tracer.compile(backend=backend)
            def f(x):
                return x + k

            return f

        for k in range(6):
            assert torch.equal(make(k)(x), x + k)
        assert backend.frame_count >= 1

    def test_with_cells_and_full_graphs(self):
        k = 2.0
        backend = CountingBackend()
        f = tracer.compile(lambda x: x + k, backend=backend)
        g = tracer.compile(lambda x: x + 1, backend=backend, fullgraph=True)
        assert frames_of(backend, lambda: f(x))[1:4:2] == [0, 1]
        assert frames_of(backend, lambda: g(x))[1:4:2] == [1, 2]

        @tracer.compile(fullgraph=True)
        def broken(x):
            print(end="")
            return x

        broken(x), broken(x)
        with pytest.raises(tracer.GraphBreak):
            broken(x), broken(x)

    def test_one_compile_call_may_say_otherwise(self):
        backend = CountingBackend()
        at_once = tracer.compile(lambda x: x + 1, backend=backend, compile_after=1)
        assert frames_of(backend, lambda: at_once(x), 2) == [1, 1] and backend.calls == 2
        backend = CountingBackend()
        late = tracer.compile(lambda x: x + 1, backend=backend, compile_after=5)
        assert frames_of(backend, lambda: late(x)) == [0, 0, 0, 0, 1, 1]

    def test_with_nothing_to_compile(self):
        f = tracer.compile(lambda n: n + 1)
        for _ in range(3):
            f(1)
        assert is_grafted(f)
        f(1)  # nothing to be had, twice
        assert not is_grafted(f)

    def test_with_a_break(self):
        backend = CountingBackend()

        @tracer.compile(backend=backend)
        def f(x):
            x = x + 1
            print(end="")
            return x * 2

        assert frames_of(backend, lambda: f(x)) == [0, 0, 1, 2, 2, 2]

    def test_a_loop_in_a_call(self):
        """Calls count, not iterations: what runs once is not compiled, however long it takes."""
        backend = CountingBackend()

        @tracer.compile(backend=backend)
        def f(x, times):
            for _ in range(times):
                x = x + 1
                print(end="")
            return x

        assert torch.equal(f(x, 50), x + 50) and backend.frame_count == 0
        f(x, 1), f(x, 1), f(x, 1)
        assert backend.frame_count > 0

    def test_recursion(self):
        backend = CountingBackend()

        @tracer.compile(backend=backend)
        def f(x, depth):
            return x if depth == 0 else f(x + 1, depth - 1)

        assert torch.equal(f(x, 1), x + 1) and backend.frame_count == 0
        for depth in (1, 2, 3):
            assert torch.equal(f(x, depth), x + depth)
        assert backend.frame_count > 0

    def test_traceback_and_frame(self, installed):
        @tracer.compile
        def f(x):
            return x + None

        with pytest.raises(TypeError) as caught:
            f(x)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert [frame.name for frame in frames][-1] == "f" and len(frames) == 2

    def test_none_are_lost_in_threads(self):
        tracer.install(backend="eager", compile_after=200)
        backend = CountingBackend()
        f = tracer.compile(lambda x: x + 1, backend=backend)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [threading.Thread(target=lambda: [f(x) for _ in range(49)]) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        assert backend.frame_count == 0
        assert frames_of(backend, lambda: f(x), 5) == [0, 0, 0, 1, 1]

    def test_threads_reach_it_together(self):
        tracer.install(backend="eager", compile_after=20)
        backend = CountingBackend()

        @tracer.compile(backend=backend)
        def f(x):
            x = x + 1
            print(end="")
            return x * 2

        wrong = []

        def work():
            for _ in range(40):
                if not torch.equal(f(x), (x + 1) * 2):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and backend.frame_count == 2


class TestOthers:
    def test_generators(self):
        backend = CountingBackend()

        @tracer.compile(backend=backend)
        def generate(x):
            for _ in range(3):
                x = x + 1
                yield x

        expected = [x + 1, x + 2, x + 3]
        counts = []
        for _ in range(5):
            assert all(map(torch.equal, generate(x), expected))
            counts.append(backend.frame_count)
        assert counts[:2] == [0, 0] and counts[-1] > 0
        generate(x)  # one that never starts is no call

    def test_a_generator_that_was_suspended_meanwhile(self):
        backend = CountingBackend()

        @tracer.compile(backend=backend)
        def generate(x):
            for _ in range(3):
                x = x + 1
                yield x

        early = generate(x)
        next(early)
        for _ in range(5):
            list(generate(x))
        assert all(map(torch.equal, early, [x + 2, x + 3])) and backend.frame_count > 0

    def test_coroutines(self):
        backend = CountingBackend()

        @tracer.compile(backend=backend)
        async def f(x):
            x = x + 1
            await asyncio.sleep(0)
            return x * 2

        counts = []
        for _ in range(5):
            assert torch.equal(asyncio.run(f(x)), (x + 1) * 2)
            counts.append(backend.frame_count)
        assert counts[:2] == [0, 0] and counts[-1] == 2

    def test_models(self):
        backend = CountingBackend()
        models = [tracer.compile(torch.nn.Linear(4, 4), backend=backend) for _ in range(2)]
        expected = tracer.original(models[0])(x)
        counts = []
        for _ in range(5):
            assert torch.equal(models[0](x), expected)
            counts.append(backend.frame_count)
        assert counts[:2] == [0, 0] and counts[3:] == [1, 1]
        assert frames_of(backend, lambda: models[1](x), 2) == [1, 1]  # each counts for itself

    def test_methods(self):
        class Scale:
            def __init__(self):
                self.factor = 3.0

            def method(self, x):
                return x * self.factor

        backend = CountingBackend()
        thing = Scale()
        method = tracer.compile(thing.method, backend=backend)
        for _ in range(5):
            thing.method(x)
        assert frames_of(backend, lambda: method(x), 4)[1::2] == [0, 1]

    def test_private_copies_of_callees_are_compiled_at_once(self):
        backend = CountingBackend()

        def callee(x):
            x = x + 1
            print(end="")
            return x * 2

        @tracer.compile(backend=backend)
        def f(x):
            return callee(x) - 1

        counts = frames_of(backend, lambda: f(x))
        assert counts[:2] == [0, 0] and counts[3] == counts[5] == 3
        assert torch.equal(f(x), (x + 1) * 2 - 1)


class TestLife:
    def test_reset_counts_anew(self):
        backend = CountingBackend()
        f = tracer.compile(lambda x: x + 1, backend=backend)
        f(x), f(x)
        tracer.reset()
        assert frames_of(backend, lambda: f(x), 4) == [0, 0, 1, 1]
        tracer.reset()
        assert frames_of(backend, lambda: f(x), 4) == [1, 1, 2, 2]

    def test_uninstall_gives_the_code_back(self):
        def f(x):
            return x + 1

        plain = f.__code__
        tracer.compile(f)
        f(x)
        tracer.uninstall()
        assert f.__code__ is plain
        f(x)
        tracer.install(backend="eager")
        f(x)
        assert tracer.counters()["regions"] == 1

    def test_installed_after_compile(self, monkeypatch):
        tracer.uninstall()
        monkeypatch.setattr(runtime, "_told_off", False)
        backend = CountingBackend()
        f = tracer.compile(lambda x: x + 1, backend=backend)
        tracer.install(compile_after=3)
        assert frames_of(backend, lambda: f(x), 4) == [0, 0, 1, 1]

    def test_without_install(self, monkeypatch, caplog):
        tracer.uninstall()
        monkeypatch.setattr(runtime, "_told_off", False)

        def f(x):
            return x + 1

        plain = f.__code__
        tracer.compile(f, compile_after=3)
        f(x)
        assert f.__code__ is plain and "without tracer.install()" in caplog.text
        backend = CountingBackend()
        tracer.compile(f, compile_after=3, backend=backend)
        tracer.install()
        assert frames_of(backend, lambda: f(x), 4) == [0, 0, 1, 1]

    def test_another_number_later(self):
        backend = CountingBackend()
        f = tracer.compile(lambda x: x + 1, backend=backend)
        f(x)
        tracer.install(compile_after=1)
        assert frames_of(backend, lambda: f(x), 2) == [1, 1]

    def test_calls_that_are_held_off_do_not_compile(self):
        backend = CountingBackend()
        f = tracer.compile(lambda x: x + 1, backend=backend)
        with tracer.disable():
            assert frames_of(backend, lambda: f(x), 5) == [0] * 5
        f(x), f(x)
        assert backend.frame_count == 1

    def test_plain_calls_under_a_stance_do_not_count(self):
        backend = CountingBackend()
        f = tracer.compile(lambda x: x + 1, backend=backend)
        with tracer.set_stance("force_eager"):
            for _ in range(5):
                f(x)
        assert frames_of(backend, lambda: f(x), 4) == [0, 0, 1, 1]

    def test_the_nth_call_settles_nothing_for_the_next(self):
        f = tracer.compile(lambda x: x + 1)
        f(x), f(x)
        with tracer.set_stance("eager_on_recompile"):
            f(x)
        with tracer.set_stance("fail_on_recompile"), pytest.raises(tracer.RecompileError):
            f(x)
        assert torch.equal(f(x), x + 1) and tracer.counters()["regions"] == 1

    def test_it_is_freed(self):
        f = tracer.compile(lambda x: x + 1, inplace=False)
        f(x)
        gone = weakref.ref(f), weakref.ref(f.__code__)
        del f
        gc.collect()
        assert [reference() for reference in gone] == [None, None]

    def test_copies_are_of_the_plain_function(self):
        f = tracer.compile(lambda x: x + 1)
        f(x)
        assert copy.deepcopy(f) is f
        plain = tracer.original(f)
        assert original_code(plain.__code__) is plain.__code__ and torch.equal(plain(x), x + 1)

    @pytest.mark.skipif(not EVENTS, reason="no cheap start events on this Python")
    def test_no_tool_id_is_free(self):
        monitoring = sys.monitoring
        tracer.uninstall()
        taken = [tool for tool in (3, 4, 5) if monitoring.get_tool(tool) is None]
        for tool in taken:
            monitoring.use_tool_id(tool, "other")
        try:
            tracer.install(compile_after=3)
            backend = CountingBackend()
            f = tracer.compile(lambda x: x + 1, backend=backend)
            assert frames_of(backend, lambda: f(x), 4) == [0, 0, 1, 1]
        finally:
            for tool in taken:
                monitoring.free_tool_id(tool)

    def test_explained(self):
        f = tracer.compile(lambda x: x + 1)
        report = tracer.explain(f)(x)
        assert report.regions == () and torch.equal(report.result, x + 1)
        assert "not called often enough yet to be compiled (1 call so far)" in str(report)
