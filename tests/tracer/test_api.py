"""What the public functions promise: who runs compiled, who runs plain, and what is left when it is turned off."""

from __future__ import annotations

import copy
import functools
import gc
import logging
import pickle
import traceback

import pytest
import torch

import tracer
from tests.support import CountingBackend
from tracer.__main__ import main
from tracer.api import is_grafted, runtime
from tracer.log import set_logs
from tracer.originals import original_code

pytestmark = pytest.mark.usefixtures("installed_eager")


x = torch.arange(4.0)


def double(x):
    return x + x


def scaled(x, factor=2.0):
    return x * factor


class Scale:
    """A plain object with all sorts of methods."""

    def __init__(self, factor):
        self.factor = factor

    def method(self, x):
        return x * self.factor

    @classmethod
    def of_class(cls, x):
        return x * 3

    @staticmethod
    def of_nobody(x):
        return x * 5

    def __call__(self, x):
        return x * self.factor * 7


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.offset


def counting():
    return CountingBackend()


class TestFunctions:
    def test_in_place_the_same_object_comes_back_and_every_reference_is_compiled(self):
        def f(x):
            return x * 3

        reference, backend = f, counting()
        assert tracer.compile(f, backend=backend) is f
        assert torch.equal(reference(x), x * 3)
        assert torch.equal(reference(x), x * 3)
        assert (backend.frame_count, backend.calls) == (1, 2)

    def test_a_copy_is_independent(self):
        def f(x):
            return x * 3

        backend, other = counting(), counting()
        g = tracer.compile(f, backend=backend, inplace=False)
        h = tracer.compile(f, backend=other, inplace=False)
        assert g is not f and not is_grafted(f)
        f(x), g(x), g(x)
        assert (backend.frame_count, backend.calls, other.frame_count) == (1, 2, 0)
        h(x)
        assert other.frame_count == 1

    def test_decorator_forms(self):
        first, second = counting(), counting()

        @tracer.compile
        def f(x):
            return x + 1

        @tracer.compile(backend=first)
        def g(x):
            return x + 2

        @tracer.compile(backend=second, inplace=False)
        def h(x):
            return x + 3

        assert [fn(x)[0].item() for fn in (f, g, h)] == [1, 2, 3]
        assert (first.calls, second.calls) == (1, 1)
        assert tracer.counters()["regions"] == 3

    def test_other_options_take_over(self):
        def f(x):
            return x * 3

        first, second = counting(), counting()
        tracer.compile(f, backend=first)
        f(x)
        tracer.compile(f, backend=second)
        f(x), f(x)
        assert (first.calls, second.calls) == (1, 2)
        tracer.uninstall()
        assert not is_grafted(f)

    def test_compiled_twice_with_the_same_options_is_compiled_once(self):
        backend = counting()

        def f(x):
            return x * 3

        for _ in range(3):
            tracer.compile(f, backend=backend)
            f(x)
        assert backend.frame_count == 1

    def test_closures_made_again_by_their_parent_share_what_is_compiled(self):
        backend = counting()

        def parent(x, n):
            @tracer.compile(backend=backend)
            def closure(y):
                return y * x + n
            return closure(x)

        for _ in range(4):
            assert torch.equal(parent(x, 2), x * x + 2)
        assert backend.frame_count == 1
        assert torch.equal(parent(x, 3), x * x + 3)
        assert torch.equal(parent(x, 2), x * x + 2)

    def test_pickle_by_name_and_deepcopy(self):
        tracer.compile(double)
        double(x)
        assert is_grafted(double)
        assert pickle.loads(pickle.dumps(double)) is double
        assert copy.deepcopy(double) is double
        assert torch.equal(double(x), x + x)

    def test_functions_that_share_a_callee_run_it_plain(self):
        def callee(x):
            return x * 2

        def f(x):
            return callee(x) + 1

        code, backend = callee.__code__, counting()
        tracer.compile(f, backend=backend)
        f(x)
        assert callee.__code__ is code
        callee(x)
        assert backend.calls == 1

    def test_a_callee_that_breaks_is_not_changed_for_others(self):
        def callee(x):
            y = x * 2
            print(end="")
            return y + 1

        def f(x):
            return callee(x) * 3

        code, backend = callee.__code__, counting()
        tracer.compile(f, backend=backend)
        for _ in range(4):
            assert torch.equal(f(x), (x * 2 + 1) * 3)
        calls = backend.calls
        assert calls >= 6
        assert callee.__code__ is code
        assert torch.equal(callee(x), x * 2 + 1)
        assert backend.calls == calls

    def test_builtins(self):
        f = tracer.compile(torch.sin)
        assert torch.equal(f(x), torch.sin(x)) and f is not torch.sin

    @pytest.mark.parametrize("wrong", [3, "f", None.__class__, Scale])
    def test_what_is_no_callable_or_a_class_is_refused(self, wrong):
        with pytest.raises(TypeError):
            tracer.compile(wrong)

    def test_an_unknown_backend_is_refused_at_once(self):
        with pytest.raises(ValueError, match="no_such_backend"):
            tracer.compile(double, backend="no_such_backend")
        with pytest.raises(ValueError, match="no_such_backend"):
            tracer.install(backend="no_such_backend")

    def test_mode_and_options_together_are_refused(self):
        with pytest.raises(RuntimeError, match="mode or options"):
            tracer.compile(double, mode="default", options={})


class TestMethods:
    def test_a_bound_method_is_compiled_for_its_caller_only(self):
        one, two, backend = Scale(2.0), Scale(3.0), counting()
        code = Scale.method.__code__
        compiled = tracer.compile(one.method, backend=backend)
        assert compiled.__self__ is one
        assert torch.equal(compiled(x), x * 2)
        assert backend.calls == 1
        one.method(x), two.method(x)
        assert backend.calls == 1 and Scale.method.__code__ is code

    def test_a_bound_method_compiled_at_each_step_is_compiled_once(self):
        one, backend = Scale(2.0), counting()
        for _ in range(3):
            tracer.compile(one.method, backend=backend)(x)
        assert backend.frame_count == 1

    def test_class_and_static_methods_below_and_above_the_decorator(self):
        backend = counting()

        class Owner:
            @tracer.compile(backend=backend)
            @classmethod
            def one(cls, x):
                return x + 1

            @classmethod
            @tracer.compile(backend=backend)
            def two(cls, x):
                return x + 2

            @tracer.compile(backend=backend)
            @staticmethod
            def three(x):
                return x + 3

            @tracer.compile(backend=backend)
            def four(self, x):
                return x + 4

        assert [f(x)[0].item() for f in (Owner.one, Owner().two, Owner.three, Owner().four)] == [1, 2, 3, 4]
        assert backend.calls == 4
        raw = Owner.__dict__["one"]
        assert tracer.compile(raw, backend=backend) is raw

    def test_callable_objects_and_partials(self):
        one, backend = Scale(2.0), counting()
        call = tracer.compile(one, backend=backend)
        assert torch.equal(call(x), x * 14) and backend.calls == 1
        assert torch.equal(one(x), x * 14) and backend.calls == 1

        def scaled(x, factor=2.0):
            return x * factor

        partial = tracer.compile(functools.partial(scaled, factor=4.0), backend=backend)
        assert torch.equal(partial(x), x * 4) and backend.calls == 2
        assert not is_grafted(scaled)


class TestModules:
    def test_this_instance_only_in_place(self):
        model, other, backend = Net(), Net(), counting()
        keys, type_ = list(model.state_dict()), type(model)
        attributes = set(vars(model))
        expected = model(x)
        assert tracer.compile(model, backend=backend) is model
        assert torch.equal(model(x), expected) and torch.equal(model(x), expected)
        assert (backend.frame_count, backend.calls) == (1, 2)
        other(x)
        assert backend.calls == 2
        assert list(model.state_dict()) == keys and type(model) is type_
        assert set(vars(model)) - attributes == {"_compiled_call_impl"}
        assert not is_grafted(Net.forward) and not is_grafted(torch.nn.Module._call_impl)

    def test_compiled_again_with_other_options(self):
        model, first, second = Net(), counting(), counting()
        for backend in (first, first, second):
            tracer.compile(model, backend=backend)
            model(x)
        assert (first.calls, second.calls) == (2, 1)
        tracer.uninstall()
        assert "_compiled_call_impl" not in vars(model)

    def test_a_copy_shares_parameters_but_not_dicts(self):
        model, backend = Net(), counting()
        model._cache = {}
        twin = tracer.compile(model, backend=backend, inplace=False)
        assert twin._cache is model._cache
        assert type(twin) is Net and twin is not model
        assert twin.linear is model.linear and twin.offset is model.offset
        twin(x)
        assert backend.calls == 1
        model(x)
        assert backend.calls == 1 and "_compiled_call_impl" not in vars(model)
        twin.extra = torch.nn.Linear(1, 1)
        twin.register_buffer("late", torch.zeros(1))
        twin.register_forward_hook(lambda *a: None)
        assert not hasattr(model, "extra") and not hasattr(model, "late") and not model._forward_hooks

    def test_pickled_and_copied_models_are_plain(self):
        model, backend = Net(), counting()
        tracer.compile(model, backend=backend)
        expected = model(x)
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
            assert "_compiled_call_impl" not in vars(other)
            assert torch.equal(other(x), expected)
        assert backend.calls == 1
        model(x)
        assert backend.calls == 2

    def test_a_model_that_pickles_its_whole_dict_is_plain_too(self):
        model = tracer.compile(Whole(4, 4))
        expected = model(x)
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert other.__dict__["_compiled_call_impl"] is None
            assert torch.equal(other(x), expected)

    def test_a_replica_is_called_as_itself(self):
        model = tracer.compile(Net())
        model(x)
        replica = model._replicate_for_data_parallel()
        replica._parameters, replica._modules = {}, {"linear": torch.nn.Linear(4, 4)}
        assert torch.equal(replica(x), torch.relu(replica.linear(x)) + replica.offset)
        assert not torch.equal(replica(x), model(x))

    def test_hooks_run(self):
        model, seen = Net(), []
        model.register_forward_hook(lambda module, args, result: seen.append(result.shape))
        tracer.compile(model)
        model(x), model(x)
        model.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
        assert torch.equal(model(x), torch.relu(model.linear.bias) + 1)
        assert len(seen) == 3

    def test_a_submodule_compiled_by_itself_inside_a_plain_model(self):
        model, backend = Net(), counting()
        tracer.compile(model.linear, backend=backend)
        expected = torch.relu(torch.nn.functional.linear(x, model.linear.weight, model.linear.bias)) + 1
        assert torch.equal(model(x), expected)
        assert backend.calls == 1

    def test_a_compiled_model_inside_a_compiled_function(self):
        model, inner, outer = Net(), counting(), counting()
        tracer.compile(model, backend=inner)

        @tracer.compile(backend=outer)
        def step(x):
            return model(x).sum()

        expected = tracer.original(model)(x).sum()
        for _ in range(3):
            assert torch.equal(step(x), expected)


class Whole(torch.nn.Linear):
    def __getstate__(self):
        return self.__dict__


class TestOriginalAndDisable:
    def test_original_is_a_plain_copy(self):
        backend = counting()

        @tracer.compile(backend=backend)
        def f(x):
            return x + 1

        plain = tracer.original(f)
        assert torch.equal(plain(x), x + 1)
        assert backend.calls == 0 and plain is not f and is_grafted(f)
        assert tracer.original(Scale(2.0).method)(x)[1].item() == 2
        model = tracer.compile(Net(), backend=backend)
        assert torch.equal(tracer.original(model)(x), model(x))
        assert backend.calls == 1

    def test_disable_breaks_and_runs_plain(self):
        backend, depth = counting(), []

        @tracer.disable
        def opaque(x):
            depth.append(len(depth))
            return x * 2

        @tracer.compile(backend=backend)
        def f(x):
            return opaque(x + 1) + 1

        for _ in range(3):
            assert torch.equal(f(x), (x + 1) * 2 + 1)
        assert depth == [0, 1, 2]
        assert backend.op_count == 2
        assert opaque.__name__ == "opaque"

    def test_disable_of_a_compiled_function_runs_it_plain(self):
        backend = counting()

        @tracer.compile(backend=backend)
        def f(x):
            return x + 1

        tracer.disable(f)(x)
        assert backend.calls == 0
        f(x)
        assert backend.calls == 1

    def test_forms_of_disable(self):
        one = Scale(2.0)

        class Owner:
            @tracer.disable(reason="why")
            def method(self, x):
                return x + 1

            @tracer.disable
            @staticmethod
            def static(x):
                return x + 2

        assert Owner().method(x)[0].item() == 1 and Owner.static(x)[0].item() == 2
        assert Owner.method._torchdynamo_disable_msg == "why"
        assert tracer.disable(one.method, recursive=False)(x)[1].item() == 2
        for wrong in (Net(), Net, 3):
            with pytest.raises(TypeError):
                tracer.disable(wrong)

    def test_nothing_is_compiled_inside_of_the_context(self):
        backend = counting()

        @tracer.compile(backend=backend)
        def f(x):
            return x + 1

        with tracer.disable():
            f(x), f(x)
            assert backend.frame_count == 0
        f(x)
        assert backend.frame_count == 1

    def test_is_compiling(self):
        seen = []

        def backend(graph, inputs):
            seen.append(torch.compiler.is_compiling())
            return graph.forward

        @tracer.compile(backend=backend)
        def f(x):
            if torch.compiler.is_compiling() and tracer.is_compiling():
                return x + 1
            return x + 2

        assert torch.equal(f(x), x + 1)
        assert not tracer.is_compiling() and not torch.compiler.is_compiling()
        assert torch.equal(tracer.original(f)(x), x + 2)


class TestBreaks:
    def test_fullgraph_raises_from_the_call(self):
        @tracer.compile(fullgraph=True)
        def f(x):
            y = x + 1
            print("no")
            return y

        for _ in range(2):
            with pytest.raises(tracer.GraphBreak) as raised:
                f(x)
            assert "print" in str(raised.value)
            assert raised.value.stack[-1].function.endswith("f") and raised.value.hint
            assert raised.value.__cause__ is None

    def test_without_it_nothing_is_raised(self, capsys):
        @tracer.compile
        def f(x):
            y = x + 1
            print("yes")
            return y * 2

        for _ in range(3):
            assert torch.equal(f(x), (x + 1) * 2)
        assert capsys.readouterr().out == "yes\n" * 3
        assert tracer.counters()["breaks"] == {"print() writes output": 1}
        assert tracer.counters()["regions"] == 2

    def test_users_exceptions_are_the_users(self):
        @tracer.compile
        def f(x, n):
            y = x + 1
            if n > 1:
                raise KeyError(n)
            return y

        assert torch.equal(f(x, 0), x + 1)
        for _ in range(3):
            with pytest.raises(KeyError, match="5"):
                f(x, 5)
        with pytest.raises(RuntimeError):
            f(x, torch.ones(3))
        assert torch.equal(f(x, 0), x + 1)


class TestOnAndOff:
    def test_uninstall_leaves_nothing_behind(self):
        def f(x):
            return x + 1

        class Owner:
            def method(self, x):
                return x + 1

        model, codes = Net(), (f.__code__, Owner.method.__code__)
        model._compiled_call_impl = earlier = lambda *args: torch.zeros(1)
        tracer.compile(f), tracer.compile(Owner.method), tracer.compile(model)
        running = tracer.compile(numbers)
        f(x), Owner().method(x), model(x), next(running(2))
        tracer.uninstall()
        assert f.__code__ is codes[0] and Owner.method.__code__ is codes[1]
        assert model._compiled_call_impl is earlier
        assert not is_grafted(numbers)
        assert runtime._starts is None or runtime._starts.tool is None
        assert tracer.counters()["regions"] == 0
        tracer.uninstall()

    def test_a_generator_that_runs_goes_on_after_uninstall(self):
        generator = tracer.compile(numbers, inplace=False)(3)
        assert next(generator) == 0
        tracer.uninstall()
        assert list(generator) == [1, 2]

    def test_install_again_arms_what_was_compiled(self):
        backend = counting()

        def f(x):
            return x + 1

        tracer.compile(f, backend=backend)
        model = tracer.compile(Net(), backend=backend)
        f(x), model(x)
        tracer.uninstall()
        f(x), model(x)
        assert backend.calls == 2
        tracer.install(backend="eager")
        f(x), model(x), f(x)
        assert (backend.calls, backend.frame_count) == (5, 4)

    def test_install_twice_changes_settings_only(self):
        def f(x):
            return x + 1

        tracer.compile(f)
        f(x)
        regions = tracer.counters()["regions"]
        tracer.install(backend="eager", recompile_limit=3)
        assert tracer.counters()["regions"] == regions == 1
        assert runtime.translator.settings.recompile_limit == 3

    def test_settings_are_checked(self):
        for wrong in ({"recompile_limit": 0}, {"compile_after": "1"}, {"accumulated_recompile_limit": -1}):
            with pytest.raises(ValueError):
                tracer.install(**wrong)

    def test_reset_drops_regions_and_goes_on(self):
        backend = counting()

        def f(x):
            return x + 1

        tracer.compile(f, backend=backend)
        f(x)
        tracer.reset()
        assert tracer.counters()["regions"] == 0 and tracer.counters()["misses"] == 0
        f(x), f(x)
        assert (backend.frame_count, backend.calls) == (2, 3)

    def test_compile_after(self):
        backend = counting()
        tracer.install(backend=backend, compile_after=3)

        @tracer.compile
        def f(x):
            return x + 1

        frames = []
        for _ in range(4):
            f(x)
            frames.append(backend.frame_count)
        assert frames == [0, 0, 1, 1]

    def test_switched_off_in_the_environment(self, monkeypatch, caplog):
        tracer.uninstall()
        monkeypatch.setenv("TORCHGRAFT", "0")
        monkeypatch.setattr(runtime, "_told_off", False)
        tracer.install(backend="eager")
        assert not tracer.installed()

        def f(x):
            return x + 1

        assert tracer.compile(f) is f and not is_grafted(f)
        model = tracer.compile(Net())
        assert "_compiled_call_impl" not in vars(model)
        f(x), model(x)
        assert not caplog.records

    def test_without_install_one_warning_and_plain(self, monkeypatch, caplog):
        tracer.uninstall()
        monkeypatch.setattr(runtime, "_told_off", False)
        backend, code = counting(), scaled.__code__

        def f(x):
            return x + 1

        tracer.compile(f, backend=backend), tracer.compile(scaled, backend=backend)
        model = tracer.compile(Net(), backend=backend)
        with caplog.at_level(logging.WARNING, "tracer"):
            f(x), f(x), model(x), scaled(x)
        assert [r.getMessage() for r in caplog.records] == [
            "TestOnAndOff.test_without_install_one_warning_and_plain.<locals>.f "
            f"({__file__}:{f.__code__.co_firstlineno}) is compiled, "
            "but without tracer.install() everything runs plain"]
        assert not is_grafted(f) and scaled.__code__ is code and "_compiled_call_impl" not in vars(model)
        assert backend.frame_count == 0
        tracer.install(backend="eager")
        f(x), model(x), scaled(x)
        assert backend.calls == 3

    def test_code_that_somebody_else_put_in_stays(self):
        def f(x):
            return x + 1

        def other(x):
            return x - 1

        tracer.compile(f)
        f(x)
        f.__code__ = other.__code__
        tracer.uninstall()
        assert f.__code__ is other.__code__


def numbers(n):
    yield from range(n)


def test_doctor(capsys):
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert torch.__version__ in printed and "default backend" in printed
    with pytest.raises(SystemExit):
        main(["no such command"])


class TestLogs:
    def test_topics_are_turned_on_by_name(self, capsys):
        set_logs("graphs,breaks")
        try:
            @tracer.compile
            def f(x):
                y = x + 1
                print(end="")
                return y

            f(x)
        finally:
            set_logs("")
        told = capsys.readouterr().err
        assert "torchgraft tracer.graphs: " in told and "x + 1" in told
        assert "torchgraft tracer.breaks: " in told and "print()" in told
        assert "tracer.guards" not in told

    def test_an_unknown_topic_is_refused(self, monkeypatch, caplog):
        with pytest.raises(ValueError, match="no such log topic: gards"):
            set_logs("gards")
        monkeypatch.setenv("TORCHGRAFT_LOGS", "gards")
        tracer.install(backend="eager")
        assert "gards" in caplog.text


class TestExplain:
    def test_a_report_of_what_runs(self):
        def f(x, n):
            y = x * n
            print(end="")
            return y + 1

        tracer.compile(f)
        f(x, 2)
        report = tracer.explain(f)(x, 2)
        assert torch.equal(report.result, x * 2 + 1)
        assert len(report.entries) == len(report.regions) == 2
        text = str(report)
        for expected in ("k_graph", "n: equals 2", "mul", "add", "break: print()", "hint:", "2 regions", __file__):
            assert expected in text
        slot = next(iter(runtime.state_of(f).entries.values()))
        assert slot.text.splitlines()[-1].strip() in text

    def test_of_what_is_not_compiled_a_copy_is(self):
        def f(x):
            return x + 1

        report = tracer.explain(f)(x)
        assert len(report.regions) == 1 and not is_grafted(f)
        assert len(tracer.explain(Net())(x).regions) == 1

    def test_private_copies_are_reported_with_their_root(self):
        def callee(x):
            y = x + 1
            print(end="")
            return y * 2

        @tracer.compile
        def f(x):
            return callee(x) * 3

        for _ in range(4):
            f(x)
        report = tracer.explain(f)(x)
        [inner] = report.callees
        assert inner.function.endswith("callee") and len(inner.regions) == 2
        assert "private copy of" in str(report)

    def test_without_install_there_is_nothing_to_explain(self):
        tracer.uninstall()
        with pytest.raises(RuntimeError, match=r"call tracer.install\(\)"):
            tracer.explain(double)(x)

    def test_switched_off_the_report_says_so(self, monkeypatch):
        tracer.uninstall()
        monkeypatch.setenv("TORCHGRAFT", "0")
        tracer.install(backend="eager")
        report = tracer.explain(double)(x)
        assert torch.equal(report.result, double(x))
        assert "TORCHGRAFT=0 in the environment" in str(report)
        assert not report.regions

    def test_a_graph_that_keeps_raising_is_dropped_with_a_warning(self, caplog):
        def no_tuple(graph, inputs):
            return lambda *tensors: graph(*tensors)[0]

        @tracer.compile(backend=no_tuple)
        def f(x):
            return x + 1

        with caplog.at_level(logging.WARNING, "tracer"):
            for _ in range(12):
                assert torch.equal(f(torch.ones(3)), torch.full((3,), 2.0))
        [told] = [r.getMessage() for r in caplog.records if "raised 8 times" in r.getMessage()]
        assert "too many values" in told

    def test_originals_are_what_is_explained(self):
        state = runtime.state_of(tracer.compile(double))
        assert state.original is original_code(double.__code__)


class Raising(torch.nn.Module):
    def forward(self, x, bad=False):
        y = x + 1
        if bad:
            raise KeyError(bad)
        return y * 2


class Named(torch.nn.Module):
    """A class with a `_call_impl` of its own."""

    def _call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs) + 100

    __call__ = torch.nn.Module._wrapped_call_impl

    def forward(self, x):
        return x + 1


def copied(model, bias):
    """Another module with the same attributes, as DataParallel makes them, but with a child of its own."""
    replica = Net.__new__(Net)
    replica.__dict__ = model.__dict__.copy()
    replica._modules = {"linear": torch.nn.Linear(4, 4)}
    with torch.no_grad():
        replica.linear.bias.fill_(bias)
    return replica, torch.relu(replica.linear(x)) + replica.offset


class TestRoots:
    """What a compiled model runs in the place of `_call_impl`."""

    def frames(self, model, **kwargs):
        with pytest.raises(KeyError) as raised:
            model(x, **kwargs)
        called, *others = traceback.extract_tb(raised.value.__traceback__)[1:]
        assert called.name == "_wrapped_call_impl"  # at another line than plain: where it calls what is compiled
        return [(f.filename, f.lineno, f.colno, f.end_colno, f.name) for f in others]

    def test_tracebacks_read_as_those_of_a_plain_call(self):
        model = Raising()
        plain = self.frames(model, bad=True)
        tracer.compile(model)
        model(x), model(x)
        assert self.frames(model, bad=True) == plain
        assert self.frames(model, bad=True) == plain

    def test_a_call_impl_of_the_classs_own(self):
        backend = counting()
        model = tracer.compile(Named(), backend=backend)
        for _ in range(2):
            assert torch.equal(model(x), x + 101)
        assert backend.calls == 2

    def test_called_by_hand_or_from_elsewhere(self):
        model = tracer.compile(Net())
        expected = model(x)
        self = Net()  # a local of this name is not the model
        assert torch.equal(model._compiled_call_impl(x), expected) and self is not model
        call = model._compiled_call_impl
        del model
        gc.collect()
        with pytest.raises(ReferenceError):
            call(x)

    def test_replicas_are_called_as_themselves_whatever_else_goes(self):
        model = tracer.compile(Net())
        expected = model(x)
        (one, of_one), (two, of_two) = copied(model, 1.0), copied(model, 2.0)
        for _ in range(2):
            assert torch.equal(one(x), of_one) and torch.equal(two(x), of_two) and torch.equal(model(x), expected)
        del two
        assert torch.equal(one(x), of_one) and torch.equal(model(x), expected)
        call = model.__dict__.pop("_compiled_call_impl")  # now the replica alone has it
        del call
        assert torch.equal(one(x), of_one) and torch.equal(model(x), expected)
        del model
        gc.collect()
        assert torch.equal(one(x), of_one)

    def test_the_quick_way_to_the_model_is_taken(self, monkeypatch):
        model = tracer.compile(Net())
        expected = model(x)
        slow = []
        root = runtime._models[id(model)][0].private
        monkeypatch.setitem(root.__globals__, "called_as", lambda frame: slow.append(model) or model)
        for _ in range(20):
            assert torch.equal(model(x), expected)
        assert torch.equal(torch.nn.Sequential(model, model)(x), model(model(x))) and not slow
        held = model._compiled_call_impl
        assert torch.equal(model(x), expected) and slow == [model] and held is not None

    def test_hooks_come_and_go(self):
        model, backend = Net(), counting()
        tracer.compile(model, backend=backend)
        expected = model(x)
        handle = model.register_forward_hook(lambda module, args, result: result + 1)
        assert torch.equal(model(x), expected + 1)
        handle.remove()
        everywhere = torch.nn.modules.module.register_module_forward_hook(
            lambda module, args, result: result * 0 if module is model else None
        )
        assert torch.equal(model(x), expected * 0)
        everywhere.remove()
        assert torch.equal(model(x), expected)

    def test_traced_by_jit(self):
        model = tracer.compile(Net())
        expected = model(x)
        traced = torch.jit.trace(model, (x,), check_trace=False)
        assert torch.equal(traced(x * 2), model(x * 2)) and torch.equal(model(x), expected)


def test_explaining_a_call_that_raises() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        raise ValueError(f"no {len(y)}")

    tracer.install(backend="eager")
    report = tracer.explain(fails)(torch.ones(2))
    assert report.result is None
    assert isinstance(report.exception, ValueError)
    assert "the call raised ValueError: no 2" in str(report)
    short = report.summary()
    assert "exception leaves the function" in short
    assert "def slot" not in short
