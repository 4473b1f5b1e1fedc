"""Corners of Python's data model in which a compiler easily gives something else than plain Python.

PYTEST_DONT_REWRITE: the programs' own assert statements must stay as they are written.
"""

from __future__ import annotations

import asyncio
import collections
import copy
import functools
import itertools
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch

import tracer
from tests.support import CountingBackend, check, compile_with
from tests.tracer.python_programs import Programs

programs = Programs()
whole, breaks = programs.whole, programs.breaks
X = torch.arange(6.0).reshape(2, 3)


class Meters2(tuple):
    pass


class Stack(list):
    limit = 3

    def append(self, item):
        super().append(item)
        while len(self) > self.limit:
            self.pop(0)

    def __getitem__(self, i):
        return super().__getitem__(-1 - i) if isinstance(i, int) else super().__getitem__(i)


@whole((Stack([1, 2]), X), (Stack([1, 2, 3]), X))
def overridden_list_methods(s, x):
    s.append(x)
    s.append(5)
    t = Stack()
    t.append(s)
    t.extend([1, 2, 3, 4])
    return x + 1, s[0], s[-1], list(s), t, t[1:], [*s], len(t), sorted([3, 1]), tuple(t[2:])


@whole((Stack([1, 2]), X))
def aliases_of_containers(s, x):
    pair = [s, s]
    s.link = pair
    pair[0].append(x)
    t = Stack([s])
    t.me = t
    return pair, t, s is pair[1], x * 2


@whole((Stack([1, 2]), X))
def list_subclass_in_place(s, x):
    s += [x]
    s *= 2
    s[1:3] = [9]
    del s[0]
    s.sort(key=lambda v: 0 if isinstance(v, torch.Tensor) else v)
    s.reverse()
    s.insert(1, "in")
    s.remove(9)
    s.clear()
    s.extend(range(2))
    return s, x + 1


class Items(list):
    pass


@whole((Items([X, X]), Meters2((3, 2)), X))
def container_subclasses_as_arguments_of_operators(s, shape, x):
    return (torch.cat(Items([x, x])), torch.stack(s), x.view(shape), x.new_zeros(Meters2((2, 1))),
            x.sum(Meters2((0, 1))),
            ",".join(Items(["a", "b"])), sum(Items([1, 2])), dict(Items([("a", 1)])), x.permute(*Items([1, 0])))


class Upper(dict):
    """Keys are told apart without their case."""

    def __setitem__(self, key, value):
        super().__setitem__(key.upper(), value)

    def __getitem__(self, key):
        return super().__getitem__(key.upper())

    def __contains__(self, key):
        return super().__contains__(key.upper())

    def get(self, key, default=None):
        return self[key] if key in self else default

    def __len__(self):
        return 100

    def __iter__(self):
        return iter(sorted(super().keys()))


@whole((Upper(), X), (Upper(A=1), X), (Upper(B=1, A=X), X))
def overridden_dict_methods(d, x):
    d["q"] = x
    d.update(Z=1)
    copied, merged, called = dict(d), {**d, "k": 1}, (lambda **kw: kw)(**d)
    return (x + 1, d.get("Q"), d.get("n", 5), "q" in d, list(d), list(d.keys()), len(d), copied, merged, called,
        bool(d), d == {})


class Keyed(OrderedDict):
    def __getitem__(self, key):
        return ("got", super().__getitem__(key))


@whole((Keyed(b=1, a=X), X), (Keyed(), X))
def ordered_dict_is_asked_by_its_methods(o, x):
    o["c"] = 1
    o.move_to_end("c", last=False)
    return x + 1, dict(o), {**o}, list(o.items()), list(o.values()), o, Keyed(o), [*o]


class Auto(defaultdict):
    def __init__(self):
        super().__init__(list)

    def __missing__(self, key):
        self[key] = value = f"<{key}>"
        return value


class Counts(defaultdict):
    pass


@whole((X, "a"), (X, "b"))
def default_dict_subclasses(x, k):
    a = Auto()
    counts = Counts(int, b=2)
    counts[k] += 1
    return x + counts["b"], a[k], a, counts, counts.default_factory, len(a), a.get("nothing")


@whole((Counts(list, a=[1]), X), (Counts(list), X))
def default_dict_subclass_from_outside(c, x):
    c["a"].append(2)
    c["n"].append(x)
    return x * len(c["a"]), c, c.default_factory is list


class Meters(tuple):
    def __new__(cls, *values, unit="m"):
        self = super().__new__(cls, values)
        self.unit = unit
        return self

    def __getnewargs__(self):
        return tuple(self)

    def __add__(self, other):
        return Meters(*(a + b for a, b in zip(self, other)), unit=self.unit)


@whole((Meters(1, 2), X), (Meters(1, 3, unit="km"), X))
def tuple_subclass_with_attributes(m, x):
    table = {m: "found", (9, 9): "other"}
    n = m + (1, 1)
    return (x * m[0], n, n.unit, table[m], table[tuple(m)], m == (1, 2), hash(m) == hash(tuple(m)), m[:1], max(m),
        2 in m, m * 2)


class Extended(NamedTuple):
    a: Any
    b: Any = 2


class Better(Extended):
    """A named tuple with a constructor of its own."""

    def __new__(cls, a, b=3):
        return super().__new__(cls, a, b * 2)

    def __len__(self):
        return 7


@whole((Better(X), X), (Better(X, 1), X))
def named_tuple_subclass(p, x):
    q = Better(x, b=5)
    return p.a + x, q, q.b, p.b, len(p), q._replace(a=1).a if False else 0, isinstance(q, Extended)


# keys that compare in Python ------------------------------------------------------------------------------------------
class Collide:
    def __init__(self, v):
        self.v = v

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return isinstance(other, Collide) and self.v == other.v


@whole((X, 1), (X, 2), (X, 1))
def colliding_keys(x, n):
    d = {Collide(1): "a", Collide(2): "b"}
    d[Collide(1)] = "c"
    s = {Collide(i % 2) for i in range(5)}
    return (x + 1, d[Collide(n)], len(d), len(s), Collide(3) in d, [*d.values()], d.get(Collide(9), 0),
        dict(d) == d, list(d)[0].v)


@breaks("key is not supported", ({Collide(1): 5}, X))
def a_key_that_compares_in_a_dict_from_outside(d, x):
    return x * d[Collide(1)]


class Unit(type):
    """Classes that can be added and compared."""

    def __add__(cls, other):
        return f"{cls.__name__}+{other.__name__}"

    def __radd__(cls, other):
        return f"{other}+{cls.__name__}"

    def __eq__(cls, other):
        return isinstance(other, Unit) and len(cls.__name__) == len(other.__name__)

    def __hash__(cls):
        return 1


class Meter(metaclass=Unit):
    pass


class Liter(metaclass=Unit):
    pass


@whole((X,))
def operators_of_metaclasses(x):
    found = Meter + Liter, 1 + Meter, Meter == Liter
    try:
        Meter - Liter
    except TypeError as error:
        return x + 1, found, str(error)


# attributes of classes ------------------------------------------------------------------------------------------------
def test_a_class_attribute_that_is_set_and_shadowed() -> None:
    class Base:
        n = 1

    class Sub(Base):
        pass

    def f(x, s):
        before = s.n, Sub.n
        Base.n += 1
        after = s.n, Sub.n, Base.n
        return x * s.n, before, after

    def plain(x, s):
        before = s.n, Sub.n
        Base.n += 1
        after = s.n, Sub.n, Base.n
        return x * s.n, before, after

    tracer.install()
    compiled = tracer.compile(f, backend="eager", inplace=False, fullgraph=True)
    log: list[list[Any]] = []
    for fn in (plain, compiled):
        Base.n = 1
        Sub.__dict__.get("n") and delattr(Sub, "n")
        s = Sub()
        found = [fn(X, s), fn(X, s)]
        Sub.n = 50
        found += [fn(X, s), fn(X, s)]
        s.n = 7
        found += [fn(X, s)]
        del Sub.n, s.n
        found += [fn(X, s)]
        log.append([[t.tolist(), *rest] for t, *rest in found])
    assert log[0] == log[1]


def test_a_class_attribute_becomes_a_property() -> None:
    class Holder:
        n: Any = 1

    def f(x, h):
        Holder.last = x
        y = x * h.n
        Holder.n = 1 if not isinstance(Holder.n, int) else Holder.n + 1
        return y

    tracer.install()
    compiled = tracer.compile(f, backend="eager", inplace=False)
    assert [compiled(X, Holder())[1, 2].item() for _ in range(3)] == [5.0, 10.0, 15.0]
    Holder.n = property(lambda self: 10)
    assert compiled(X, Holder())[1, 2].item() == 50.0
    assert Holder.n == 1
    assert compiled(X, Holder())[1, 2].item() == 5.0


class Module(torch.nn.Module):
    calls = 0
    last: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        type(self).calls += 1
        Module.last = x.shape[0]
        return self.linear(x) * self.calls, Module.calls, self.last


def test_a_module_that_counts_on_its_class() -> None:
    tracer.install()
    backend, model = CountingBackend(), Module()
    compiled = tracer.compile(model, backend=backend, fullgraph=True)
    for n in range(1, 6):
        y, calls, last = compiled(X)
        assert calls == n and last == 2 and torch.equal(y, model.linear(X) * n)
    assert backend.frame_count <= 2


def test_who_writes_and_who_reads_an_attribute_of_a_class() -> None:
    class Shared:
        value = 1

    def reader(x):
        return x * Shared.value

    def writer(x):
        Shared.value += 1
        return x + Shared.value

    async def waiting(x):
        Shared.value = 7
        return x * Shared.value

    def generating(x):
        for n in range(3):
            Shared.value = n
            yield x * Shared.value

    tracer.install()
    read, write, wait, generate = (
        tracer.compile(fn, backend="eager", inplace=False) for fn in (reader, writer, waiting, generating)
    )
    for _ in range(12):
        assert torch.equal(read(X), X * Shared.value)
        write(X)
    assert torch.equal(asyncio.run(wait(X)), X * 7) and Shared.value == 7
    for _ in range(3):
        assert [y[0, 1].item() for y in generate(X)] == [0.0, 1.0, 2.0] and Shared.value == 2


def test_a_break_between_changes_of_a_class() -> None:
    class Holder:
        n = 0

    def f(x):
        Holder.n += 1
        y = x * Holder.n
        print(Holder.n)
        Holder.n += 10
        return y + Holder.n

    tracer.install()
    compiled = tracer.compile(f, backend="eager", inplace=False)
    for i in range(4):
        n = 11 * i
        assert torch.equal(compiled(X), X * (n + 1) + n + 11)
        assert Holder.n == n + 11


# caches ---------------------------------------------------------------------------------------------------------------
CALLS: list[Any] = []


@functools.cache
def table_of(n, *, scale=1):
    CALLS.append(n)
    return [n * scale]


@functools.lru_cache(maxsize=2)
def bounded(n):
    CALLS.append(n)
    return n * 2


def test_a_cache_holds_what_plain_python_would() -> None:
    def f(x, n):
        t = table_of(n, scale=2)
        t.append(1)
        return x * t[0], t, table_of(n, scale=2) is t

    tracer.install()
    compiled = tracer.compile(f, backend="eager", inplace=False, fullgraph=True)
    CALLS.clear()
    table_of.cache_clear()
    results = [compiled(X, n) for n in (3, 3, 4, 3)]
    assert CALLS == [3, 4]
    assert results[0][1] is results[1][1] is results[3][1] and results[0][1] == [6, 1, 1, 1]
    assert all(r[2] for r in results)
    assert table_of(3, scale=2) is results[0][1], "what the region stored, the function itself finds"
    table_of.cache_clear()
    again = compiled(X, 3)
    assert again[1] == [6, 1] and again[1] is not results[0][1] and CALLS == [3, 4, 3]


class Thing:
    pass


THING = Thing()


@functools.lru_cache(maxsize=4)
def bounded_by_object(thing, text):
    return torch.ones(3) * len(text)


@pytest.mark.parametrize("uses", [
    [(1,), (1,), (1,)], [(1,), (1,), (1,), (2,), (2,), (1,), (2,), (3,), (1,), (2,), (3,)],
])  # fmt: skip
def test_a_bounded_cache_counts_as_ever(uses) -> None:
    """Hits, misses, and what is dropped next."""

    def once(x, n):
        return x * bounded(n)

    def twice(x, n):
        return x * bounded(n) + bounded(n)

    def objects(x, n):
        return x * bounded_by_object(THING, "a") + bounded_by_object(THING, "a") * bounded_by_object(THING, "b")

    def history(function):
        bounded.cache_clear(), bounded_by_object.cache_clear()
        states = []
        for use in uses:
            function(torch.ones(3), *use)
            states.append((bounded.cache_info(), bounded_by_object.cache_info()))
        return states

    for function in (once, twice, objects):
        expected = history(function)
        assert history(compile_with(function, backend="eager")) == expected


def test_classes_made_at_each_call_are_compiled_a_few_times() -> None:
    def plain(x):
        y = x * 2

        class Local:
            k = 3

            def method(self):
                return y * self.k

        return Local().method() + Local.k

    def module(x):
        y = x * 2

        class Local(torch.nn.Module):
            def forward(self, v):
                return v + y

        return Local()(x) * 2

    def exception(x):
        class Local(Exception):
            pass

        try:
            if x.dim() == 1:
                raise Local(3)
        except Local as error:
            return x * error.args[0]

    for function in (plain, module, exception):
        check(function, torch.ones(3), calls=6)
        backend = CountingBackend()
        compiled = compile_with(function, backend=backend)
        for _ in range(8):
            compiled(torch.ones(3))
        made = backend.frame_count
        for _ in range(12):
            compiled(torch.ones(3))
        assert backend.frame_count == made


def test_a_class_made_once_is_compiled_in_the_loop() -> None:
    backend = CountingBackend()

    def train(x, times):
        class Local:
            def step(self, v):
                return v * 2 + 1

        local = Local()
        for i in range(times):
            x = local.step(x)
            print(end="")
        return x

    compiled = compile_with(train, backend=backend)
    for _ in range(6):
        before = backend.calls
        assert compiled(torch.ones(1), 10).item() == 2**11 - 1
        assert backend.calls - before >= 9


def test_a_bounded_cache() -> None:
    def f(x, n):
        return x * bounded(n)

    tracer.install()
    compiled = tracer.compile(f, backend="eager", inplace=False)
    CALLS.clear()
    bounded.cache_clear()
    for n in (1, 1, 2, 1, 3, 1, 2, 2):
        assert torch.equal(compiled(X, n), X * n * 2)
    assert set(CALLS) == {1, 2, 3}


class WithCache:
    @functools.lru_cache(maxsize=None)
    def table(self, n):
        CALLS.append(n)
        return n + 1

    @functools.cached_property
    def ones(self):
        CALLS.append("ones")
        return torch.ones(3)


def test_a_cached_method() -> None:
    def f(o, x):
        return x * o.table(2) + o.ones

    tracer.install()
    compiled = tracer.compile(f, backend="eager", inplace=False)
    CALLS.clear()
    o = WithCache()
    for _ in range(4):
        assert torch.equal(compiled(o, X), X * 3 + 1)
    assert sorted(map(str, CALLS)) == ["2", "ones"]


# copies ---------------------------------------------------------------------------------------------------------------
@dataclass
class Options:
    a: int = 1
    items: list[Any] = field(default_factory=list)
    parent: Any = None


@dataclass(slots=True, frozen=True)
class Slim:
    a: int = 1
    items: list[Any] = field(default_factory=list)


class OwnCopy:
    def __init__(self, n):
        self.n = n

    def __copy__(self):
        return OwnCopy(self.n + 1)


@whole((Options(2, [1, [2]]), X), (Options(3, [[]]), X))
def copies_share_what_they_should(o, x):
    o.parent = o
    shallow, deep = copy.copy(o), copy.deepcopy(o)
    shallow.a = 9
    shared: list[Any] = [1]
    both = copy.deepcopy([shared, shared, (shared,)])
    both[0].append(x)
    stack = copy.copy(Stack([1, 2]))
    return (x * o.a, shallow, deep, deep.parent is deep, shallow.items is o.items, both, both[0] is both[1],
        both[2][0] is both[0], stack,
            copy.copy(OwnCopy(1)).n, copy.copy(Upper(A=1)), copy.deepcopy({"k": {"n": [o.a]}}))


@breaks("object is copied", (Slim(2, [1]), X))
def copies_of_slots_with_getstate(s, x):
    t = copy.copy(s)
    return x + 1, t.items is s.items


@breaks("object is copied", ([X], X))
def deep_copies_of_tensors(items, x):
    y = x * 2
    return y, copy.deepcopy(items)


# generators and comprehensions ----------------------------------------------------------------------------------------
@whole((X, 3), (X, 4))
def nested_comprehensions(x, n):
    i = 100
    rows = [[sum(a * b for b in range(c)) for c in range(a)] for a in range(n)]
    functions = [lambda t, k=k: t * k + i for k in range(n)]
    later = [lambda t: t * j for j in range(n)]
    return ([f(x) for f in functions], [g(x) for g in later], rows, i,
        {k: [v for v in range(k)] for k in range(n)}, [all(v < m for v in range(3)) for m in range(n)])


@whole((X, 4), (X, 0))
def lazy_generators(x, n):
    log = []

    def numbers():
        for i in range(n):
            log.append(i)
            yield i
        return "end"

    g = numbers()
    first = next(g, None)
    any_big = any(v > 0 for v in g)
    seen = list(log)
    rest = list(g)
    pairs = list(zip(numbers(), "ab"))
    return x + len(log), first, any_big, seen, rest, pairs, log


@whole((X,))
def groups(x):
    log = []
    for key, group in itertools.groupby([1, 1, 2, 2, 1], key=lambda v: v % 2):
        log.append((key, next(group)))
    second = itertools.groupby("aab")
    key, first = next(second)
    other, late = next(second)
    return x + 1, log, key, list(first), other, list(late)


@whole((X, 1), (X, 5))
def exceptions_leave_generators(x, n):
    def numbers():
        for i in range(3):
            if i == n:
                raise ValueError(i)
            yield i

    try:
        found = [*numbers()]
    except ValueError as error:
        found = str(error)
    try:
        total = sum(i + v for i, v in enumerate([1, "a"]))
    except TypeError as error:
        total = type(error).__name__
    return x + 1, found, total


@whole((X, 1), (X, 2))
def generators_with_state(x, n):
    def running():
        total = x
        while True:
            by = yield total
            total = total * (by or 1)

    g = running()
    next(g)
    return g.send(n), g.send(None), next(g)


# numbers -------------------------------------------------------------------------------------------------------
@whole((X, float("nan")), (X, float("inf")), (X, -0.0), (X, 0.0), (X, 1e308), (X, 5e-324))
def odd_floats(x, v):
    found = [v == v, v < 0, v != v, str(v), repr(-v), v * 10, abs(v), min(v, 1.0), max(1.0, v), v is v]
    return x * 2, v, (v,), {"k": [v]}, found, f"{v:.2f}", f"{v}", x + v


@whole((X, 2**63), (X, 2**64 + 1), (X, -(2**63)), (X, 10**40), (X, 0), (X, -1))
def odd_integers(x, n):
    return (x + 1, n, n + 1, n * n, n // 7, n % 7, n >> 2, -n, n == 2**63, [n], str(n), f"{n:,}", "%d" % n,
        n & 0xFF, abs(n), hash(n), float(n), bool(n), n.bit_length())


@whole((X, True), (X, 1), (X, 1.0), (X, False), (X, 0))
def equal_numbers_of_other_types(x, n):
    return (x * n, {1: "one", 0: "zero"}[n], n == 1, type(n).__name__, [n], n in (1, 2), str(n), {n: 1}, (n,
        1) == (1, 1))


@whole((X, 1j), (X, complex(0.0, -0.0)), (X, complex(-0.0, 0.0)), (X, 1 + 0j))
def odd_complex_numbers(x, z):
    return x + 1, z, str(z), z.real, z.imag, z == 0, z * 1j, (z,), {1: "one"}.get(z), abs(z), bool(z)


@breaks("builtin function is given an object", (X, Options()))
def numbers_of_objects_that_have_none(x, o):
    y, found = x + 1, []
    for convert in (int, float, abs, round, lambda v: range(3)[v]):
        try:
            found.append(convert(o))
        except TypeError as error:
            found.append(str(error))
    try:
        vars(3)
    except TypeError as error:
        found.append(str(error))
    return y, found


@breaks("operation is not supported", (X,))
def classes_that_have_no_items(x):
    y = x + 1
    try:
        return y, int[0]
    except TypeError as error:
        return y, str(error)


# interplay with breaks ------------------------------------------------------------------------------------------------
def test_containers_cross_a_break() -> None:
    def f(x, s, d):
        s.append(x)
        d["k"] = x * 2
        new = Stack([1])
        table = Keyed(a=x)
        new.extra = table
        print(len(s))
        new.append(s[0] + 1)
        d["l"] = new
        table["b"] = d["k"]
        it = iter(new)
        next(it)
        print("again")
        return [*it], new, table, d, x + 1

    check(f, X, Stack([1]), Upper())


def test_caches_cross_a_break() -> None:
    @functools.cache
    def scaled(n):
        return [n]

    def f(x, n):
        t = scaled(n)
        print("a break")
        t.append(1)
        return x * len(scaled(n))

    tracer.install()
    compiled = tracer.compile(f, backend="eager", inplace=False)
    for i in range(1, 4):
        assert torch.equal(compiled(X, 3), X * (i + 1))


def test_a_class_that_gets_a_method_later() -> None:
    class Growing(dict):
        pass

    def f(x, g):
        g["a"] = x
        return g["a"] * 2 + len(g)

    tracer.install()
    compiled = tracer.compile(f, backend="eager", inplace=False, fullgraph=True)
    assert torch.equal(compiled(X, Growing()), X * 2 + 1)
    Growing.__getitem__ = lambda self, key: torch.ones(2, 3)
    assert torch.equal(compiled(X, Growing()), torch.ones(2, 3) * 2 + 1)
    Growing.__len__ = lambda self: 10
    assert torch.equal(compiled(X, Growing()), torch.ones(2, 3) * 2 + 10)
    Growing.__setitem__ = lambda self, key, value: None
    g = Growing()
    assert torch.equal(compiled(X, g), torch.ones(2, 3) * 2 + 10) and not dict.keys(g)


def test_counters_from_collections_stay_what_they_are() -> None:
    def f(x, c):
        c.update("ab")
        c["z"] -= 1
        return x * c["a"], c - collections.Counter("a"), +c, c.most_common()

    check(f, X, collections.Counter("abz"), fullgraph=True, calls=4)


test = programs.test()
