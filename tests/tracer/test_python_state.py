"""State that changes between calls: what merely passes through recompiles nothing,
and effects happen as in plain Python.

Also what makes torch.compile break: warnings given once, attributes of classes, first calls that fill a cache, layer
drop by Python's random numbers, locks.
"""

from __future__ import annotations

import functools
import logging
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import tracer
from tests.support import CountingBackend, check_calls

X = torch.arange(6.0).reshape(2, 3)


def graphs(fn: Callable[..., Any], *calls: tuple[Any, ...], fullgraph: bool = True) -> int:
    """How many graphs these calls compile, each having been compared with plain Python."""
    check_calls(fn, *calls, fullgraph=fullgraph)
    backend = CountingBackend()
    tracer.install()
    compiled = tracer.compile(fn, backend=backend, fullgraph=fullgraph, inplace=False)
    for call in calls:
        compiled(*call)
    return backend.frame_count


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = 0
        self.log: list[str] = []
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        self.step += 1
        self.log.append(f"step {self.step}")
        return self.linear(x)


def test_a_counter_recompiles_nothing() -> None:
    model = Counted()
    assert graphs(lambda m, x: m(x), *[(model, X)] * 5) == 1


def test_a_step_in_a_text_recompiles_nothing() -> None:
    class State:
        def __init__(self) -> None:
            self.step = 0
            self.text = ""

    def f(s, x):
        s.step += 1
        s.text = f"step {s.step:04d} of {s.step * 2}" if s else ""
        return x * 2

    assert graphs(f, *[(State(), X)] * 1) == 1
    s = State()
    assert graphs(f, (s, X), (s, X), (s, X)) == 1


def test_a_step_that_is_a_size_recompiles() -> None:
    def f(x, n):
        return torch.zeros(n) + x[0, 0]

    assert graphs(f, (X, 3), (X, 3)) == 1
    assert graphs(f, (X, 3), (X, 4)) >= 1


def test_a_number_that_scales_recompiles_once_at_most() -> None:
    def f(x, n):
        return x * n

    assert graphs(f, *[(X, n) for n in (2.0, 3.0, 4.0, 5.0)]) <= 2


def test_names_and_indices_recompile_nothing() -> None:
    def f(x, names, i):
        texts = "%s-%d" % (names[i], i), "{} {:>4}".format(i, names[i]), ":".join([names[i], "x"])
        return x + 1, names[i], i + 1, len(names), texts

    names = ["a", "b", "c"]
    assert graphs(f, *[(X, names, i) for i in (0, 1, 2)]) <= 2


# warnings that are given once ---------------------------------------------------------------------------------------
class Collect(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@functools.lru_cache(None)
def warning_once(self, *args, **kwargs):
    self.warning(*args, **kwargs)


@pytest.fixture
def logger(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(logging.Logger, "warning_once", warning_once, raising=False)
    warning_once.cache_clear()
    found = logging.getLogger("tests.once")
    handler = Collect()
    found.addHandler(handler)
    yield found, handler
    found.removeHandler(handler)


def test_a_warning_given_once(logger: Any) -> None:
    log, handler = logger

    def f(x):
        y = x * 2
        log.warning_once("deprecated: use something else")
        return y + 1

    backend = CountingBackend()
    tracer.install()
    compiled = tracer.compile(f, backend=backend, inplace=False)
    for _ in range(4):
        assert torch.equal(compiled(X), X * 2 + 1)
    assert handler.texts == ["deprecated: use something else"]
    backend.graphs.clear()
    whole = tracer.compile(f, backend=backend, inplace=False, fullgraph=True)
    assert torch.equal(whole(X), X * 2 + 1), "the call is done: nothing is left but a graph"
    assert len(backend.graphs) == 1
    warning_once.cache_clear()
    compiled(X)
    assert len(handler.texts) == 2, "another warning once the cache is cleared"


WARNED = False


def test_a_flag_that_says_warned() -> None:
    def f(x):
        global WARNED
        if not WARNED:
            print("only once")
            WARNED = True
        return x * 2

    check_calls(f, *[(X,)] * 4)
    backend = CountingBackend()
    compiled = tracer.compile(f, backend=backend, inplace=False)
    for _ in range(4):
        compiled(X)
    assert backend.frame_count <= 2


# attributes of classes ----------------------------------------------------------------------------------------------
class Shared:
    calls = 0
    last: Any = None
    scale = 2


def test_attributes_of_classes_are_set() -> None:
    class Holder:
        calls = 0
        last: Any = None

    def f(x):
        Holder.calls += 1
        Holder.last = x * 2
        setattr(Holder, "name", f"call {Holder.calls}")
        if hasattr(Holder, "extra"):
            del Holder.extra
        return Holder.last + 1

    tracer.install()
    backend = CountingBackend()
    compiled = tracer.compile(f, backend=backend, inplace=False, fullgraph=True)
    for n in range(1, 5):
        assert torch.equal(compiled(X), X * 2 + 1)
        assert Holder.calls == n and torch.equal(Holder.last,
            X * 2) and Holder.name == f"call {n}"  # type: ignore[attr-defined]
    assert backend.frame_count <= 2
    Holder.extra = 1  # type: ignore[attr-defined]
    compiled(X)
    assert not hasattr(Holder, "extra")


def test_an_attribute_of_a_class_that_was_changed_from_outside() -> None:
    class Holder:
        scale = 2

    def f(x):
        y = x * Holder.scale
        Holder.scale = 2
        return y

    tracer.install()
    compiled = tracer.compile(f, backend="eager", inplace=False, fullgraph=True)
    for scale in (2, 5, 2, 7):
        Holder.scale = scale
        assert torch.equal(compiled(X), X * scale)
        assert Holder.scale == 2


def test_classmethods_that_count() -> None:
    class Holder:
        seen: list[int] = []
        count = 0

        @classmethod
        def note(cls, x):
            cls.count += 1
            cls.seen.append(cls.count)
            return x + len(cls.seen)

    class Sub(Holder):
        pass

    tracer.install()
    compiled = tracer.compile(lambda x: Sub.note(x), backend="eager", inplace=False, fullgraph=True)
    for n in range(1, 4):
        assert torch.equal(compiled(X), X + n)
    assert Sub.count == 3 and Holder.count == 0 and "count" in vars(Sub)


def test_a_property_of_the_metaclass_is_not_stored_past() -> None:
    class Meta(type):
        log: list[str] = []

        def __setattr__(cls, name, value):
            Meta.log.append(name)
            super().__setattr__(name, value)

    class Holder(metaclass=Meta):
        value = 1

    def f(x):
        Holder.value = 3
        return x * Holder.value

    tracer.install()
    compiled = tracer.compile(f, backend="eager", inplace=False)
    for _ in range(3):
        assert torch.equal(compiled(X), X * 3)
    assert Meta.log == ["value"] * 3


# a first call that fills a cache --------------------------------------------------------------------------------------
class Rotary(nn.Module):
    """A cache of tables, filled at the first call and grown when longer sequences come."""

    def __init__(self) -> None:
        super().__init__()
        self.max_seen = 0
        self.cached: Any = None
        self.tables: dict[int, torch.Tensor] = {}

    def forward(self, x):
        n = x.shape[0]
        if n > self.max_seen:
            self.max_seen = n
            self.cached = torch.arange(float(n))
        if n not in self.tables:
            self.tables[n] = torch.ones(n) * n
        return x * self.cached[:n, None] + self.tables[n][:, None]


def test_a_first_call_fills_a_cache() -> None:
    model = Rotary()
    assert graphs(lambda m, x: m(x), *[(model, X)] * 5) <= 2
    check_calls(lambda m, x: m(x), (Rotary(), X), (Rotary(), torch.ones(3, 3)))
    other = Rotary()
    check_calls(lambda m, x: m(x), (other, X), (other, torch.ones(4, 3)), (other, X))


class Config:
    attention = None
    dtype: Any = None


def test_a_first_call_writes_a_config_field() -> None:
    def f(config, x):
        if config.attention is None:
            config.attention = "sdpa"
        config.dtype = x.dtype
        return x * 2 if config.attention == "sdpa" else x

    config = Config()
    assert graphs(f, *[(config, X)] * 4) <= 2


# randomness -----------------------------------------------------------------------------------------------------------
class LayerDrop(nn.Module):
    def __init__(self, by: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
        self.by = by

    def forward(self, x):
        for layer in self.layers:
            if self.by == "random":
                drop = random.random()
            elif self.by == "uniform":
                drop = random.uniform(0, 1)
            else:
                drop = torch.rand([])
            if self.training and drop < 0.5:
                continue
            x = layer(x)
        return x


@pytest.mark.parametrize("by", ["random", "uniform", "torch"])
def test_layer_drop(by: str) -> None:
    model = LayerDrop(by)
    check_calls(lambda m, x: m(x), *[(model, X)] * 6)
    model.eval()
    check_calls(lambda m, x: m(x), *[(model, X)] * 3)


def test_random_numbers_that_are_only_passed_on() -> None:
    def f(x):
        return x * random.random(), random.randint(1, 3), random.choice("abc")

    check_calls(f, *[(X,)] * 5)


# locks ----------------------------------------------------------------------------------------------------------------
LOCK = threading.Lock()
RECURSIVE = threading.RLock()


@pytest.mark.parametrize("lock", ["LOCK", "RECURSIVE"])
def test_under_a_lock(lock: str) -> None:
    class Holder:
        count = 0

    def f(h, x):
        with LOCK if lock == "LOCK" else RECURSIVE:
            h.count += 1
            y = x * 2
        return y + 1

    check_calls(f, *[(Holder(), X)] * 3)
    assert not LOCK.locked()


def test_hooks_installed_at_a_first_call_under_a_lock() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.installed = False

        def forward(self, x):
            if not self.installed:
                with LOCK:
                    if not self.installed:
                        self.linear.register_forward_hook(_double)
                        self.installed = True
            return self.linear(x)

    model = Model()
    tracer.install()
    backend = CountingBackend()
    compiled = tracer.compile(lambda m, x: m(x), backend=backend, inplace=False)
    for _ in range(4):
        found = compiled(model, X)
        assert torch.allclose(found, 2 * nn.functional.linear(X, model.linear.weight, model.linear.bias))
    assert len(model.linear._forward_hooks) == 1
    whole = tracer.compile(lambda m, x: m(x), backend=backend, inplace=False, fullgraph=True)
    whole(model, X)


def _double(module, args, output):
    return output * 2
