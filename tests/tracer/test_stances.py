"""`set_stance`: as a function, context manager and decorator; for frames that are running, private copies, threads."""

from __future__ import annotations

import itertools
import logging
import threading

import pytest
import torch

import tracer
from tests.support import CountingBackend
from tracer.api import is_grafted, runtime
from tracer.config import Stance
from tracer.translate.closures import PrivateClosures


@pytest.fixture(autouse=True)
def installed():
    tracer.install(backend="eager")
    tracer.reset()
    yield
    tracer.uninstall()
    runtime.set_stance(Stance())


x = torch.arange(4.0)


def compiled(**options):
    backend = CountingBackend()

    @tracer.compile(backend=backend, **options)
    def f(x, n=2):
        return x.repeat(n) + 1

    return f, backend


class TestForceEager:
    def test_function(self):
        f, backend = compiled()
        f(x)
        grafted = f.__code__
        tracer.set_stance("force_eager")
        assert not is_grafted(f) and torch.equal(f(x), x.repeat(2) + 1) and torch.equal(f(x, 3), x.repeat(3) + 1)
        assert (backend.frame_count, backend.calls) == (1, 1)
        tracer.set_stance("default")
        assert f.__code__ is grafted
        f(x)
        assert (backend.frame_count, backend.calls) == (1, 2)  # what was compiled is there again

    def test_context_manager_and_nesting(self):
        f, backend = compiled()
        with tracer.set_stance("force_eager"):
            with tracer.set_stance("default"):
                f(x)
            f(x)
            with tracer.set_stance("force_eager"):
                f(x)
            f(x)
        f(x)
        assert backend.calls == 2

    def test_undone_by_an_exception(self):
        with pytest.raises(KeyError), tracer.set_stance("force_eager"):
            raise KeyError
        assert runtime.translator.stance == Stance()

    def test_decorator(self):
        f, backend = compiled()
        f(x)

        @tracer.set_stance("force_eager")
        def g(x, *, n):
            return f(x, n)

        assert runtime.translator.stance == Stance()  # it is not in force between calls
        assert g.__name__ == "g" and torch.equal(g(x, n=2), x.repeat(2) + 1)
        assert backend.calls == 1
        f(x)
        assert backend.calls == 2

    def test_decorated_generator(self):
        f, backend = compiled()

        @tracer.set_stance("force_eager")
        def steps():
            try:
                got = yield f(x)
                while got is not None:
                    got = yield f(got)
            except KeyError:
                yield f(x)
            return "end"

        for ending in (None, KeyError):
            generator = steps()
            next(generator)
            assert runtime.translator.stance == Stance()
            generator.send(x)
            if ending is KeyError:
                generator.throw(KeyError())
                generator.close()
            else:
                with pytest.raises(StopIteration) as end:
                    next(generator)
                assert end.value.value == "end"
        assert backend.calls == 0 and runtime.translator.stance == Stance()

    @pytest.mark.parametrize("wrong", [torch.nn.Linear, 5])
    def test_what_it_does_not_decorate(self, wrong):
        with pytest.raises(TypeError, match="decorates functions"):
            tracer.set_stance("force_eager")(wrong)
        assert runtime.translator.stance == Stance()

        async def coroutine():
            pass

        with pytest.raises(TypeError, match="for all threads and tasks"):
            tracer.set_stance("force_eager")(coroutine)

    def test_a_frame_that_is_running(self):
        """From its next entry on it runs plain, and compiled again from the next entry behind the end of it."""
        backend = CountingBackend()
        calls = []
        seen = tracer.disable(lambda: backend.calls)

        @tracer.compile(backend=backend)
        def loop(x, stances):
            for stance in stances:
                x = x * 2
                tracer.set_stance(stance)
                x = x + 1
                calls.append(seen())
            return x

        expected = x
        stances = ["default"] * 3 + ["force_eager"] * 3 + ["default"] * 3
        for _ in stances:
            expected = expected * 2 + 1
        assert torch.equal(loop(x, stances), expected)
        steps = [after - before for before, after in itertools.pairwise(calls)]
        assert steps[2:] == [1, 0, 0, 1, 2, 2]  # in front of the first and the last of the plain ones it is compiled

    def test_within_a_compiled_function(self):
        backend = CountingBackend()
        f, inner = compiled()

        @tracer.compile(backend=backend)
        def g(x):
            x = x * 2
            with tracer.set_stance("force_eager"):
                x = f(x)
            return x - 1

        for _ in range(3):
            assert torch.equal(g(x), (x * 2).repeat(2))
        assert inner.calls == 0 and backend.calls >= 3
        assert runtime.translator.stance == Stance()

    def test_a_suspended_generator(self):
        backend = CountingBackend()

        @tracer.compile(backend=backend)
        def generate(x):
            while True:
                x = x + 1
                yield x

        generator = generate(x)
        for _ in range(3):
            next(generator)
        calls = backend.calls
        with tracer.set_stance("force_eager"):
            assert torch.equal(next(generator), x + 4)
        assert backend.calls == calls
        next(generator)
        assert backend.calls == calls + 1

    def test_private_copies(self):
        backend = CountingBackend()

        def callee(x):
            x = x + 1
            print(end="")
            return x * 2

        def make(k):
            def closure(x):
                x = x + k
                print(end="")
                return x * 2

            return closure

        @tracer.compile(backend=backend)
        def f(x):
            return make(3)(callee(x)) - 1

        expected = ((x + 1) * 2 + 3) * 2 - 1
        for _ in range(3):
            assert torch.equal(f(x), expected)
        frames, calls = backend.frame_count, backend.calls
        f(x)
        each, calls = backend.calls - calls, backend.calls
        assert each > 2
        with tracer.set_stance("force_eager"):
            assert torch.equal(f(x), expected)
        assert (backend.frame_count, backend.calls) == (frames, calls)
        assert torch.equal(f(x), expected)
        assert backend.frame_count == frames and backend.calls == calls + each

    def test_models(self):
        backend = CountingBackend()
        model = tracer.compile(torch.nn.Linear(4, 4), backend=backend)
        expected = model(x)
        for _ in range(3):
            model(x)
        with tracer.set_stance("force_eager"):
            assert torch.equal(model(x), expected)
            other = tracer.compile(torch.nn.Linear(4, 4), backend=backend)
            other(x)
        assert backend.frame_count == 1
        calls = backend.calls
        model(x), other(x)
        assert (backend.frame_count, backend.calls) == (2, calls + 2)

    def test_what_is_compiled_under_it(self):
        with tracer.set_stance("force_eager"):
            f, backend = compiled()
            f(x)
            assert not is_grafted(f) and tracer.counters()["misses"] == 0
        f(x)
        assert (backend.frame_count, backend.calls) == (1, 1)

    def test_reset_and_install_under_it(self):
        f, backend = compiled()
        f(x)
        with tracer.set_stance("force_eager"):
            tracer.reset()
            f(x)
            tracer.uninstall()
            f(x)
            tracer.install(backend="eager")
            f(x)
            assert not is_grafted(f) and backend.calls == 1
        f(x)
        assert (backend.frame_count, backend.calls) == (2, 2)

    def test_without_install(self):
        tracer.uninstall()
        f, _ = compiled()
        with tracer.set_stance("force_eager"):
            f(x)
        assert not is_grafted(f) and torch.equal(f(x), x.repeat(2) + 1)

    def test_a_function_whose_code_was_changed_meanwhile(self):
        f, _ = compiled()
        f(x)
        with tracer.set_stance("force_eager"):
            f.__code__ = (lambda x, n=2: x - 1).__code__
        assert torch.equal(f(x), x - 1)

    def test_texts_and_grafts_that_are_written_under_it(self):
        """As where a region goes meanwhile: slots stay silent and functions plain, and have the new ones afterwards."""
        backend = CountingBackend()

        @tracer.compile(backend=backend)
        def generate(x):
            while True:
                x = x + 1
                yield x

        f, other = compiled()
        generator = generate(x)
        for _ in range(3):
            next(generator), f(x)
        before = f.__code__
        with tracer.set_stance("force_eager"):
            calls = backend.calls
            for state in runtime.registry:
                for entry in state.entries.values():
                    runtime.translator.grafter.write(state, entry)
                runtime.translator.grafter.graft(state, state.decoded)
            assert torch.equal(next(generator), x + 4) and backend.calls == calls
            assert not is_grafted(f)
        assert torch.equal(next(generator), x + 5) and backend.calls == calls + 1
        assert is_grafted(f) and f.__code__ is not before
        calls = other.calls
        f(x)
        assert other.calls == calls + 1 and other.frame_count == 1

    def test_closures_that_a_region_makes_meanwhile(self):
        """Another thread may change the stance in the midst of a region."""

        def make(k):
            def closure(x):
                x = x + k
                print(end="")
                return x * 2

            return closure

        @tracer.compile
        def f(x):
            return make(3)(x) - 1

        for _ in range(3):
            f(x)
        [state] = [s for s in runtime.registry if "meanwhile" in s.name and s.name.endswith("closure")]
        makers = [found[2]() for found in state.family._copies.values()]
        [maker] = [found for found in makers if isinstance(found, PrivateClosures)]
        with tracer.set_stance("force_eager"):
            copy = maker(make(5))
            assert not is_grafted(copy) and torch.equal(copy(x), (x + 5) * 2)
        assert is_grafted(copy) and torch.equal(copy(x), (x + 5) * 2)

    def test_it_holds_for_all_threads(self):
        f, backend = compiled()
        f(x)
        entered, done = threading.Event(), threading.Event()

        def other():
            with tracer.set_stance("force_eager"):
                entered.set()
                done.wait(20)

        thread = threading.Thread(target=other)
        thread.start()
        assert entered.wait(20)
        f(x)
        assert backend.calls == 1
        done.set()
        thread.join()
        f(x)
        assert backend.calls == 2

    def test_threads_that_run_while_others_change_it(self):
        f, _ = compiled()
        wrong, stop = [], threading.Event()

        def work(n):
            while not stop.is_set():
                if not torch.equal(f(x, n), x.repeat(n) + 1):
                    wrong.append(n)

        threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 4)]
        for thread in threads:
            thread.start()
        for _ in range(60):
            with tracer.set_stance("force_eager"):
                f(x)
            f(x)
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong and runtime.translator.stance == Stance()
        assert not any(entry._muted is not None for state in runtime.registry for entry in state.entries.values())

    def test_not_by_what_compiles(self):
        def backend(module, inputs):
            tracer.set_stance("force_eager")
            return module.forward

        f = tracer.compile(lambda x: x + 1, backend=backend)
        with pytest.raises(tracer.TorchgraftError, match="while a function is compiled"):
            f(x)


class TestEagerOnRecompile:
    def test_nothing_new_is_compiled(self):
        f, backend = compiled()
        f(x)
        g, other = compiled()
        with tracer.set_stance("eager_on_recompile"):
            for n in (2, 3, 2):
                assert torch.equal(f(x, n), x.repeat(n) + 1) and torch.equal(g(x, n), x.repeat(n) + 1)
            assert (backend.frame_count, backend.calls, other.frame_count) == (1, 3, 0)
        f(x, 3), g(x, 3)
        assert (backend.frame_count, other.frame_count) == (2, 1)

    def test_it_is_on_record(self):
        f, _ = compiled()
        f(x)
        g, _ = compiled()
        with tracer.set_stance("eager_on_recompile"):
            for n in range(3, 20):
                f(x, n), g(x, n)
        records = tracer.explain_recompiles(f).recompiles
        assert len(records) == 8 and sum(record.count for record in records) == 17
        assert {(record.outcome, record.reason) for record in records} == {("stance", "eager_on_recompile")}
        assert (records[0].source, records[0].old, records[0].new) == ("n", "2", "3")
        [record] = tracer.explain_recompiles(g).recompiles
        assert record.earlier is None and record.count == 17
        assert "nothing was compiled here before" in str(tracer.explain_recompiles(g))


class TestFailOnRecompile:
    def test_recompiles_and_first_compiles(self):
        f, backend = compiled()
        f(x)
        g, _ = compiled()
        with tracer.set_stance("fail_on_recompile"):
            f(x)
            for _ in range(2):
                with pytest.raises(RuntimeError, match=r"recompiled.*fail_on_recompile.*n: equals 2, now 3"):
                    f(x, 3)
                with pytest.raises(tracer.RecompileError, match=r"for the first time.*fail_on_recompile"):
                    g(x)
        assert backend.frame_count == 1
        assert torch.equal(f(x, 3), x.repeat(3) + 1) and torch.equal(g(x), x.repeat(2) + 1)

    def test_what_was_warmed_up_runs(self):
        """Entries at which nothing was to be compiled, too."""

        def callee(x):
            x = x + 1
            print(end="")
            return x * 2

        @tracer.compile
        def f(x, names):
            for name in names:
                x = callee(x)
                names.index(name), print(end="")
                if name == "b":
                    len("plain"), print(end="")
            return x

        names = ["a", "b", "c"]
        expected = f(x, names)
        f(x, names), f(x, names)
        with tracer.set_stance("fail_on_recompile"):
            for _ in range(5):
                assert torch.equal(f(x, names), expected)
            with pytest.raises(tracer.RecompileError):
                f(x.double(), names)

    def test_models(self):
        model = tracer.compile(torch.nn.Linear(4, 4))
        with tracer.set_stance("fail_on_recompile"), pytest.raises(tracer.RecompileError):
            model(x)
        model(x)
        with tracer.set_stance("fail_on_recompile"):
            model(x)


class TestEagerThenCompile:
    def test_the_first_call_is_plain(self):
        with tracer.set_stance("eager_then_compile"):
            f, backend = compiled()
            frames = []
            for _ in range(3):
                f(x)
                frames.append(backend.frame_count)
            assert frames == [0, 1, 1] and backend.calls == 2


class TestForceBackend:
    def test_all_is_compiled_by_it(self):
        f, backend = compiled()
        f(x)
        forced = CountingBackend()
        with tracer.set_stance(force_backend=forced):
            f(x), f(x), f(x, 3)
            assert (forced.frame_count, forced.calls, backend.calls) == (2, 3, 1)
        f(x)
        assert (backend.frame_count, backend.calls, forced.calls) == (1, 2, 3)
        with tracer.set_stance(force_backend=forced):
            f(x)
        assert (forced.frame_count, forced.calls) == (2, 4)

    def test_limits_are_counted_apart(self):
        f, backend = compiled(recompile_limit=1)
        f(x), f(x, 3)
        with tracer.set_stance(force_backend="eager"):
            f(x, 3)
            assert tracer.counters()["compilations"] == 2
        f(x, 4), f(x)
        assert (backend.frame_count, backend.calls) == (1, 2)

    def test_a_backend_that_fails_leaves_the_others_regions(self, monkeypatch):
        monkeypatch.setenv("TORCHGRAFT_STRICT", "0")
        f, backend = compiled()
        f(x)

        def broken(module, inputs):
            raise ValueError("broken")

        with tracer.set_stance(force_backend=broken):
            assert torch.equal(f(x), x.repeat(2) + 1) and torch.equal(f(x), x.repeat(2) + 1)
        f(x)
        assert (backend.frame_count, backend.calls) == (1, 2)

    def test_by_name_with_models_and_private_copies(self):
        def callee(x):
            x = x + 1
            print(end="")
            return x * 2

        backend = CountingBackend()

        class Net(torch.nn.Module):
            def forward(self, x):
                return callee(x) - 1

        net = tracer.compile(Net(), backend=backend)
        for _ in range(3):
            net(x)
        calls = backend.calls
        with tracer.set_stance(force_backend="eager"):
            for _ in range(3):
                assert torch.equal(net(x), (x + 1) * 2 - 1)
        assert backend.calls == calls
        net(x)
        assert backend.calls == calls + 3


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "part"),
        [
            ({"stance": "aot_eager_then_compile"}, "not offered"),
            ({"stance": "eager"}, "no such stance"),
            ({"skip_guard_eval_unsafe": True}, "not offered"),
            ({"stance": "force_eager", "force_backend": "eager"}, "'default' only"),
        ],
    )
    def test_clearly(self, arguments, part):
        with pytest.raises(ValueError, match=part):
            tracer.set_stance(**arguments)
        assert runtime.translator.stance == Stance()

    def test_no_such_backend(self):
        with pytest.raises(Exception, match="no_such_backend"):
            tracer.set_stance(force_backend="no_such_backend")
        with pytest.raises(TypeError, match="backend must be"):
            tracer.set_stance(force_backend=3)
        assert runtime.translator.stance == Stance()


def test_the_text_of_a_region_asks_for_no_stance(caplog):
    f, _ = compiled()
    f(x)
    [entry] = tracer.explain(f)(x).entries
    assert "stance" not in entry.text
    with caplog.at_level(logging.WARNING, "tracer"), tracer.set_stance("force_eager"):
        f(x)
    assert not caplog.records
