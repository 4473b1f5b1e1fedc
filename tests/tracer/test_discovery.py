"""Discovery: which functions are opted in by themselves, when, and that nothing else changes."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
import textwrap
import threading
import types

import pytest
import torch

import tracer
from tracer.api import is_grafted, runtime
from tracer.discovery import discovery
from tracer.discovery.codes import codes_within, functions_behind, is_function, mentions_torch
from tracer.discovery.hands import in_hand
from tracer.events import MonitoringStarts

X = torch.arange(6.0).reshape(2, 3)

LIBRARY = """
    import functools
    import torch

    def outer(x):
        return inner(x) * 2

    def inner(x):
        return torch.tanh(x) + 1

    def numbers(n):
        return n + 1

    def listed(items):
        return items[0] + items[1]["a"]

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList([Block() for _ in range(3)])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return torch.relu(self.linear(x))

        def extra_repr(self):
            return "a block"

    class Plain:
        @staticmethod
        def static(x):
            return x + 1

        @classmethod
        def of(cls, x):
            return cls, x + 2

        @property
        def shifted(self):
            return shift(self)

        def method(self, x):
            return x - 1

    class Held(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))

        @property
        def norm(self):
            return (self.w * self.w).sum()

    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)
        return wrapper

    @decorator
    def wrapped(x):
        return x * 5

    def make(k):
        def closure(x):
            return x * k
        return closure

    def steps(x):
        for i in range(3):
            yield x + i

    async def waits(x):
        return x * 3

    def train(net, n):
        torch.manual_seed(0)
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        losses = []
        for _ in range(n):
            loss = net(torch.rand(2, 3)).pow(2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses
"""


@pytest.fixture(autouse=True)
def nothing_else_installed():
    tracer.uninstall()
    finders, trace = list(sys.meta_path), sys.gettrace()
    yield
    tracer.uninstall()
    assert sys.meta_path == finders
    assert sys.gettrace() is trace


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of modules on sys.path; what is imported from it is forgotten."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


def write(folder, name, text=LIBRARY):
    path = folder.joinpath(*name.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    for parent in path.parents:
        if parent == folder:
            break
        (parent / "__init__.py").touch()
    path.write_text(textwrap.dedent(text))
    importlib.invalidate_caches()


def discover(*targets, **options):
    tracer.install(backend="eager", discover=targets, **options)


def chosen():
    return {found.function for found in tracer.discovered().chosen}


def library(folder):
    write(folder, "lib_a")
    discover("lib_a")
    return importlib.import_module("lib_a")


class TestWhatIsWatched:
    def test_a_module_that_is_imported_later(self, folder):
        lib = library(folder)
        expected = torch.tanh(X) * 2 + 2
        assert torch.equal(lib.outer(X), expected)
        assert chosen() == {"outer"} and is_grafted(lib.outer)
        assert torch.equal(lib.outer(X), expected) and torch.equal(lib.outer(X), expected)
        assert tracer.counters()["hits"] == 2 and tracer.counters()["regions"] == 1

    def test_a_module_that_is_there(self, folder):
        write(folder, "lib_a")
        lib = importlib.import_module("lib_a")
        discover("lib_a")
        lib.outer(X), lib.Plain.static(X)
        assert chosen() == {"outer", "Plain.static"}

    def test_a_name_stands_for_all_modules_below_it_and_no_others(self, folder):
        for name in ("pack.one", "pack.deep.two", "package"):
            write(folder, name)
        one = importlib.import_module("pack.one")
        discover("pack")
        two, other = importlib.import_module("pack.deep.two"), importlib.import_module("package")
        for lib in (one, two, other):
            lib.outer(X)
        assert [is_grafted(lib.outer) for lib in (one, two, other)] == [True, True, False]
        assert {"pack.one", "pack.deep.two"} <= set(tracer.discovered().modules)

    def test_what_a_module_runs_while_it_is_imported(self, folder):
        write(folder, "runs", LIBRARY + "\n    results = [outer(torch.ones(2)) for _ in range(3)]\n")
        discover("runs")
        runs = importlib.import_module("runs")
        assert chosen() == {"outer"} and tracer.counters()["hits"] == 2
        assert torch.equal(runs.results[0], runs.results[2])

    def test_a_module_that_installs_for_itself(self, folder):
        """Its functions are not defined yet: its code says what will come."""
        write(folder, "itself", "import tracer\ntracer.install(backend='eager', discover=[__name__])\n"
              + textwrap.dedent(LIBRARY))
        itself = importlib.import_module("itself")
        itself.outer(X)
        assert chosen() == {"outer"}

    def test_modules_classes_functions_and_models(self, folder):
        write(folder, "lib_a")
        lib = importlib.import_module("lib_a")
        discover(lib.Plain, lib.Block(), lib.listed)
        lib.outer(X), lib.Plain.static(X), lib.Net()(X), lib.listed([X, {"a": X}])
        assert chosen() == {"Plain.static", "Block.forward", "listed"}
        discover(lib)  # adds to what there is
        lib.outer(X)
        assert "outer" in chosen()
        assert is_grafted(lib.Plain.static)

    def test_everything_that_uses_torch(self, folder):
        write(folder, "lib_a")
        write(folder, "lib_b", "def double(x):\n    return x * 2\n")
        (folder / "site-packages").mkdir()
        write(folder / "site-packages", "lib_c", "def double(x):\n    return x * 2\n")
        write(folder / "site-packages", "lib_d")
        sys.path.insert(0, str(folder / "site-packages"))
        try:
            discover("*")
            a, b, c, d = map(importlib.import_module, ("lib_a", "lib_b", "lib_c", "lib_d"))
        finally:
            sys.path.remove(str(folder / "site-packages"))
        a.outer(X), b.double(X), c.double(X), d.outer(X)
        assert [is_grafted(f) for f in (a.outer, b.double, c.double, d.outer)] == [True, True, False, True]
        assert not [name for name in tracer.discovered().modules if name.split(".")[0] in ("torch", "tracer", "json")]

    def test_a_class_with_a_function_of_torch(self, folder):
        """Torch's function stays torch's, and so does what decorates it."""
        write(folder, "lib_borrows", textwrap.dedent("""
            import torch

            class Borrows:
                clear = torch.optim.Optimizer.zero_grad
                scaled = torch.utils.checkpoint.checkpoint

                def double(self, x):
                    return x * 2
        """))
        import lib_borrows
        discover("*")
        net = torch.nn.Linear(3, 1)
        net(X).sum().backward()
        torch.optim.SGD(net.parameters(), 0.1).zero_grad()
        assert lib_borrows.Borrows().double(X).equal(X * 2) and is_grafted(lib_borrows.Borrows.double)
        assert chosen() == {"Borrows.double"}

    def test_looking_for_functions_runs_nothing_of_the_modules(self, folder):
        write(folder, "lib_touchy", textwrap.dedent("""
            import torch

            def never(*_):
                raise AssertionError("code of the module's own ran")

            class Meta(type):
                __mro__ = property(never)
                __getattribute__ = never

            class OfMeta(metaclass=Meta):
                def method(self, x):
                    return x * 2

            class Touchy:
                __class__ = property(never)
                __getattribute__ = __eq__ = __hash__ = never

            touchy, made = Touchy(), object.__new__(OfMeta)

            def double(x):
                return x * 2
        """))
        import lib_touchy
        discover("lib_touchy")
        assert lib_touchy.double(X).equal(X * 2) and is_grafted(lib_touchy.double)
        assert lib_touchy.made.method(X).equal(X * 2)

    @pytest.mark.parametrize("target", ["torch", "torch.nn", torch, torch.nn.Linear, torch.nn.Linear(1, 1), len,
                                        "tracer"])
    def test_nothing_of_torch_is_discovered(self, target):
        with pytest.raises(ValueError, match=r"never discovered|no Python functions of its own"):
            discover(target)
        assert not tracer.installed() and not runtime.discovery

    def test_what_is_no_name(self):
        with pytest.raises(ValueError, match="'no such-module' is no name of a module"):
            discover("no such-module")

    def test_a_function_of_torch_that_a_module_imports_is_not_its_own(self, folder):
        write(folder, "imports", "from torch.nn.functional import dropout\nimport torch\n"
              "@torch.no_grad()\ndef f(x):\n    return dropout(x, 0.0) + 1\n")
        discover("imports")
        lib = importlib.import_module("imports")
        assert not lib.f(torch.ones(2, requires_grad=True)).requires_grad
        assert chosen() == {"f"}
        assert not is_grafted(lib.f) and is_grafted(lib.f.__wrapped__)  # the wrapper is torch's

    def test_a_loader_of_another_kind(self, folder):
        """Its code cannot be seen before it runs, so the module is scanned behind that."""

        class Loader:
            def create_module(self, spec):
                return None

            def exec_module(self, module):
                exec(textwrap.dedent(LIBRARY), module.__dict__)

        class Finder:
            def find_spec(self, name, path=None, target=None):
                return importlib.util.spec_from_loader(name, Loader()) if name in ("made_up", "made_too") else None

        finder = Finder()
        sys.meta_path.append(finder)
        try:
            discover("made_up")
            lib, other = importlib.import_module("made_up"), importlib.import_module("made_too")
        finally:
            sys.meta_path.remove(finder)
            for name in ("made_up", "made_too"):
                sys.modules.pop(name, None)
        lib.outer(X), other.outer(X)
        assert is_grafted(lib.outer) and not is_grafted(other.outer)


class TestWhatIsChosen:
    def test_only_with_tensors_in_hand(self, folder):
        lib = library(folder)
        lib.numbers(1), lib.listed([X, {"a": X}]), lib.make(3)
        assert chosen() == {"listed"}
        assert not is_grafted(lib.numbers)

    def test_modules_count_while_they_are_used_not_while_they_are_made(self, folder):
        lib = library(folder)
        net = lib.Net()
        assert chosen() == set()
        net(X)
        assert chosen() == {"Net.forward"}

    def test_the_outermost_is_chosen_and_what_it_calls_is_captured_with_it(self, folder):
        lib = library(folder)
        net = lib.Net()
        results = [net(X) for _ in range(3)]
        assert torch.equal(results[0], results[2])
        assert chosen() == {"Net.forward"} and tracer.counters()["regions"] == 1
        [within] = [found for found in tracer.discovered().others if found.function == "Block.forward"]
        assert "within Net.forward" in within.why
        lib.Block()(X)  # by itself
        assert "Block.forward" in chosen()

    def test_a_training_loop_that_is_called_once(self, folder):
        write(folder, "lib_a")
        lib = importlib.import_module("lib_a")
        torch.manual_seed(1)
        expected = lib.train(lib.Net(), 6)
        discover("lib_a")
        torch.manual_seed(1)
        assert lib.train(lib.Net(), 6) == expected
        assert chosen() == {"train", "Net.forward"}  # the running frame of train has no entries
        assert tracer.counters()["hits"] >= 3
        torch.manual_seed(1)
        assert lib.train(lib.Net(), 6) == expected

    def test_every_kind_of_function(self, folder):
        lib = library(folder)
        plain, held = lib.Plain(), lib.Held()
        calls = {
            "Plain.static": lambda: plain.static(X),
            "Plain.of": lambda: lib.Plain.of(X)[1],
            "Plain.method": lambda: plain.method(X),
            "Held.norm": lambda: held.norm,
            "decorator.<locals>.wrapper": lambda: lib.wrapped(X),
            "steps": lambda: torch.stack(list(lib.steps(X))),
            "waits": lambda: asyncio.run(lib.waits(X)),
        }
        for name, call in calls.items():
            results = [call() for _ in range(4)]
            assert all(torch.equal(results[0], other) for other in results), name
        assert chosen() == set(calls)
        assert all(found.line > 0 and found.filename.endswith("lib_a.py") for found in tracer.discovered().chosen)

    def test_closures_are_one_code_object(self, folder):
        lib = library(folder)
        double, triple = lib.make(2), lib.make(3)
        for _ in range(3):
            assert torch.equal(double(X), X * 2) and torch.equal(triple(X), X * 3)
        assert chosen() == {"make.<locals>.closure"}
        assert is_grafted(double) and is_grafted(triple)
        for k in range(20):  # another object at each call is given up some time
            assert torch.equal(lib.make(k)(X), X * k)

    def test_references_kept_elsewhere_see_it(self, folder):
        write(folder, "lib_a")
        lib = importlib.import_module("lib_a")
        kept = lib.outer
        discover("lib_a")
        lib.outer(X)
        assert kept is lib.outer and is_grafted(kept)

    def test_what_runs_while_a_module_is_made(self, folder):
        """Initialisation runs once, again and again from one place with the same module in hand or not."""
        write(folder, "makes", """
            import torch

            class Made(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.w = torch.nn.Parameter(torch.zeros(3))
                    for _ in range(5):
                        self.init(self)

                def init(self, module):
                    module.apply(fill)

            def fill(module):
                module.w.data.normal_()

            def make():
                class Local(Made):
                    def __init__(self):
                        super().__init__()
                        fill(self)
                return Local()
            """)
        discover("makes")
        lib = importlib.import_module("makes")
        lib.Made(), lib.make()
        assert chosen() == set() and not tracer.discovered().others
        lib.fill(lib.Made())
        assert chosen() == {"fill"}

    def test_copies_of_callees_that_find_nothing_count_too(self, folder, caplog):
        """What loads weights: private copies of many functions, each tried for nothing, and all given up together."""
        parts = "".join(
            f"def part{n}(tensors):\n    print(end='')\n    return part{n + 1}(tensors)\n" for n in range(30))
        write(folder, "loading", "import torch\n" + parts + "def part30(tensors):\n    return len(tensors)\n"
              "def load(tensors):\n    print(end='')\n    return part0(tensors) + 1\n")
        discover("loading")
        import loading
        with caplog.at_level("INFO", "tracer.discovery"):
            for _ in range(4):
                assert loading.load([X, X]) == 3
        assert "load (" in caplog.text and "given up, as its regions have no operators" in caplog.text
        state = runtime.state_of(loading.load)
        assert state.given_up and all(copy.given_up for copy in state.family.live())
        tried = state.family.captures
        assert 24 <= tried < 32 and not is_grafted(loading.load)
        assert loading.load([X]) == 2 and state.family.captures == tried

    def test_what_only_hands_tensors_on_is_given_up(self, folder, caplog):
        write(folder, "hands", """
            import torch

            KINDS = {name: ord(name) for name in "abcdef"}

            def check(x):
                print(end="")

            def keep(store, name, x):
                if KINDS[name] > 99:
                    check(x)
                check(x)
                store[name] = x

            def compute(store, name, x):
                if KINDS[name] > 99:
                    check(x)
                store[name] = x + 1
            """)
        discover("hands")
        lib = importlib.import_module("hands")
        with caplog.at_level("INFO", "tracer.discovery"):
            for f in (lib.keep, lib.compute):
                for store in ({}, {"old": 1}):
                    for name in "abcdef":
                        f(store, name, X)
                    assert list(store)[-6:] == list("abcdef")
        assert chosen() == {"keep", "compute"}
        assert is_grafted(lib.compute) and not is_grafted(lib.keep)
        assert "keep (" in caplog.text and "given up, as its regions have no operators" in caplog.text
        assert len(runtime.state_of(lib.keep).made) == 3
        assert runtime.state_of(lib.compute).made[0].operators
        tracer.compile(lib.keep)  # who asks for it has it compiled
        assert is_grafted(lib.keep)
        lib.keep({}, "a", X)

    def test_what_lies_on_the_meta_device_is_no_tensor_in_hand(self, folder):
        lib = library(folder)
        lib.outer(X.to("meta")), lib.Net().to("meta")(X.to("meta"))
        assert chosen() == set()

    def test_random_numbers_are_those_of_plain_python(self, folder):
        """With Inductor it is asked for eager's; other backends have no such option."""
        write(folder, "lib_a")
        tracer.install(backend="inductor", discover=["lib_a"])
        lib = importlib.import_module("lib_a")
        lib.outer(X)
        state = runtime.state_of(lib.outer)
        assert state.options.options == {"fallback_random": True}
        tracer.uninstall()
        discover("lib_a")
        lib.outer(X)
        assert runtime.state_of(lib.outer).options.options is None

    def test_a_filter(self, folder):
        write(folder, "lib_a")
        asked = []
        discover("lib_a", discover_filter=lambda f: asked.append(f.__qualname__) or f.__name__ != "outer")
        lib = importlib.import_module("lib_a")
        lib.outer(X)
        assert "outer" in asked and not is_grafted(lib.outer)
        told = {found.function: found.why for found in tracer.discovered().others}
        assert told["outer"] == "left out by the filter"
        lib.outer(X)  # what it calls is on its own now
        assert "inner" in chosen()

    def test_a_filter_that_raises_hurts_nobody(self, folder):
        write(folder, "lib_a")
        discover("lib_a", discover_filter=lambda f: 1 / 0)
        lib = importlib.import_module("lib_a")
        lib.outer(X)
        told = {found.function: found.why for found in tracer.discovered().others}
        assert "the filter raised ZeroDivisionError" in told["outer"]

    def test_what_goes_wrong_in_it_hurts_nobody(self, folder, monkeypatch, caplog):
        lib = library(folder)
        monkeypatch.setenv("TORCHGRAFT_STRICT", "0")
        monkeypatch.setattr(discovery, "in_hand", lambda *args, **options: 1 / 0)
        assert torch.equal(lib.outer(X), torch.tanh(X) * 2 + 2)
        assert "outer" in caplog.text and "ZeroDivisionError" in caplog.text
        assert not is_grafted(lib.outer)

    def test_what_is_disabled_stays_so(self, folder):
        lib = library(folder)
        disabled, torchs = tracer.disable(lib.outer), torch.compiler.disable(lib.inner)
        for _ in range(3):
            disabled(X), torchs(X)
        with tracer.disable():
            lib.Plain.static(X)
        assert chosen() == set() and not is_grafted(lib.outer) and not is_grafted(lib.inner)
        lib.Plain.static(X)
        assert chosen() == {"Plain.static"}

    def test_what_the_program_compiles_is_left_to_it(self, folder):
        lib = library(folder)
        tracer.compile(lib.outer)
        lib.outer(X), lib.outer(X)
        assert chosen() == set() and is_grafted(lib.outer)
        lib.inner(X)
        tracer.compile(lib.inner)  # after it was discovered
        tracer.uninstall()
        tracer.install(backend="eager")
        assert is_grafted(lib.outer) and is_grafted(lib.inner)
        assert not is_grafted(lib.listed)
        tracer.uninstall()

    def test_under_force_eager_nothing_is_chosen(self, folder):
        lib = library(folder)
        with tracer.set_stance("force_eager"):
            lib.outer(X)
            assert chosen() == set()
        lib.outer(X)
        assert chosen() == {"outer"}

    def test_other_threads(self, folder):
        lib = library(folder)
        results = []
        threads = [threading.Thread(target=lambda: results.append([lib.outer(X) for _ in range(5)])) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert chosen() == {"outer"}
        assert all(torch.equal(result, results[0][0]) for found in results for result in found)


class TestPuttingBack:
    def test_uninstall_puts_everything_back(self, folder):
        lib = library(folder)
        before = {name: getattr(lib, name).__code__ for name in ("outer", "steps", "numbers")}
        lib.outer(X), list(lib.steps(X)), lib.numbers(1), lib.Net()(X)
        closure = lib.make(2)
        closure(X)
        assert is_grafted(lib.outer) and is_grafted(closure) and is_grafted(lib.Net.forward)
        tracer.uninstall()
        assert not is_grafted(lib.outer) and not is_grafted(closure) and not is_grafted(lib.Net.forward)
        assert {name: getattr(lib, name).__code__ for name in before} == before
        assert all(getattr(lib, name).__code__ is code for name, code in before.items())
        assert tracer.discovered() == tracer.discovered().__class__()
        assert "get_code" not in vars(lib.__spec__.loader) and "exec_module" not in vars(lib.__spec__.loader)
        tracer.install(backend="eager")  # nobody asks for them now
        lib.outer(X)
        assert not is_grafted(lib.outer)

    @pytest.mark.skipif(not MonitoringStarts.available(), reason="no sys.monitoring in this Python")
    def test_no_local_event_is_left_behind(self, folder):
        lib = library(folder)
        lib.outer(X), lib.numbers(1)
        tool = runtime._starts.tool
        codes = [code for f in (lib.inner, lib.numbers, lib.make) for code in codes_within(f.__code__)]
        assert any(sys.monitoring.get_local_events(tool, code) for code in codes)
        tracer.uninstall()
        sys.monitoring.use_tool_id(tool, "test")
        try:
            assert not any(sys.monitoring.get_local_events(tool, code) for code in codes)
        finally:
            sys.monitoring.free_tool_id(tool)

    @pytest.mark.skipif(not MonitoringStarts.available(), reason="no sys.monitoring in this Python")
    def test_without_a_tool_id_it_says_so(self, folder):
        for tool in (3, 4, 5):
            sys.monitoring.use_tool_id(tool, "other")
        try:
            with pytest.raises(tracer.TorchgraftError, match="no tool id"):
                discover("lib_a")
            assert not tracer.installed()
        finally:
            for tool in (3, 4, 5):
                sys.monitoring.free_tool_id(tool)

    def test_switched_off(self, folder, monkeypatch):
        monkeypatch.setenv("TORCHGRAFT", "0")
        lib = library(folder)
        lib.outer(X)
        assert not is_grafted(lib.outer) and chosen() == set()


class TestCost:
    def test_a_decided_function_is_watched_no_longer(self, folder, monkeypatch):
        lib = library(folder)
        told = []
        plain = discovery.in_hand
        monkeypatch.setattr(
            discovery, "in_hand", lambda code, *a, **k: told.append(code.co_name) or plain(code, *a, **k))
        for _ in range(200):
            lib.numbers(1)
        assert told.count("numbers") == discovery.IDLE
        lib.outer(X), lib.outer(X), lib.outer(X)
        assert told.count("outer") == 1
        assert tracer.discovered().idle == 1

    def test_what_nobody_named_is_not_watched(self, folder):
        write(folder, "lib_b")
        library(folder)
        other = importlib.import_module("lib_b")
        if MonitoringStarts.available():
            tool = runtime._starts.tool
            assert not sys.monitoring.get_local_events(tool, other.outer.__code__)
            assert not sys.monitoring.get_events(tool)
        other.outer(X)
        assert not is_grafted(other.outer)

    @pytest.mark.skipif(MonitoringStarts.available(), reason="Python 3.11 alone needs sys.settrace")
    def test_what_it_costs_is_said(self, folder, caplog):
        library(folder)
        assert "sys.settrace" in caplog.text and "us more" in caplog.text
        assert sys.gettrace() is not None


class TestParts:
    def test_code_objects(self):
        code = compile(textwrap.dedent(LIBRARY), "lib.py", "exec")
        names = {inner.co_qualname for inner in codes_within(code) if is_function(inner)}
        assert {"outer", "Net.forward", "make.<locals>.closure", "Held.norm"} <= names
        assert not {"Net.__init__", "<module>", "Net", "Net.__init__.<locals>.<listcomp>"} & names
        assert mentions_torch(code) and not mentions_torch(compile("def f(x): return x", "f.py", "exec"))

    def test_functions_behind_what_wraps_them(self):
        def f(x):
            return x

        class C:
            @property
            def p(self):
                return 1

        assert list(functions_behind(staticmethod(f))) == [f]
        assert list(functions_behind(C.__dict__["p"])) == [C.__dict__["p"].fget]
        assert list(functions_behind(tracer.disable(f))) == []
        assert list(functions_behind(3)) == []

    def test_what_is_in_hand(self):
        class Odd:
            @property
            def __class__(self):
                raise AssertionError("user code ran")

        class Items(list):
            def __iter__(self):
                raise AssertionError("user code ran")

        def f(*args, a=None):
            frame = sys._getframe()
            return in_hand(frame.f_code, frame, keep_snapshot=True)

        net = torch.nn.Linear(1, 1)
        assert not f(1, "a", [2], Odd(), torch.nn.ReLU()).tensors
        assert f(1, a=X).tensors and f(Items([0, X])).tensors and f({"a": [(X,)]}).tensors
        assert f(1, a=net).tensors and f(a=net).module is net
        deep = torch.nn.Sequential(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(1, 1)))
        assert f(a=deep).tensors
        loop: list = []
        loop.append(loop)
        assert not f(loop).tensors

    def test_the_report_as_text(self, folder):
        lib = library(folder)
        lib.outer(X)
        text = str(tracer.discovered())
        assert text.startswith("discovered: 1 opted in, 1 with tensors in hand and not, ")
        assert "opted in   lib_a.outer (" in text and isinstance(lib, types.ModuleType)


@pytest.mark.parametrize("options", [
    {"discover": 3}, {"discover": [3]}, {"discover": b"lib"}, {"discover": [None]}, {"discover": 0},
    {"discover": "lib", "discover_filter": "lib"},
])
def test_what_is_no_target_or_filter_is_said_at_install(options):
    with pytest.raises(TypeError, match=r"^discover(_filter)? takes .*, not "):
        tracer.install(backend="eager", **options)
    assert not tracer.installed() and not runtime.discovery
