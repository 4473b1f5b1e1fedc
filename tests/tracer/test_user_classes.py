"""Classes as people write them: metaclasses, generics, dataclasses, class state, managers and control flow."""

from __future__ import annotations

import abc
import copy
import functools
import weakref
from dataclasses import InitVar, asdict, astuple, dataclass, field, fields
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch

import tracer
from tests.support import check, compilations

whole = functools.partial(check, fullgraph=True)
X = torch.arange(6.0).reshape(2, 3)
T = TypeVar("T")


class PropErr:
    @property
    def p(self):
        return self.missing_thing

    def __getattr__(self, n):
        if n.startswith("__"):
            raise AttributeError(n)
        return "fallback " + n


def test_prop_fallback():
    whole(lambda o, x: (o.p, x + 1), PropErr(), X)


class Both:
    __slots__ = ("__dict__", "a")

    def __init__(self):
        self.a = 1
        self.b = 2


def test_slots_dict():
    def f(o, x):
        o.a += 1
        o.c = x * o.b
        n: Any = Both()
        n.z = o.c
        return n, vars(n), o.a

    whole(f, Both(), X)


class G(Generic[T]):
    def __init__(self, v: T):
        self.v = v

    def get(self) -> T:
        return self.v


class P(Protocol):
    def get(self) -> Any: ...


class GP(G[int], P):
    pass


def test_generic():
    whole(lambda x: (G(x).get() + 1, GP(3).get(), G(1)), X)


@dataclass(kw_only=True)
class KW:
    a: int
    scale: InitVar[int] = 2
    b: Any = field(init=False)

    def __post_init__(self, scale):
        self.b = self.a * scale


@dataclass
class Nest:
    k: KW
    items: list[Any]


def test_kw():
    def f(x):
        k = KW(a=3, scale=5)
        return k, k.b, KW(a=1) == KW(a=1), KW(a=1) != KW(a=2)

    whole(f, X)


def test_fields():
    def f(x, n):
        return [f.name for f in fields(n)], asdict(n), astuple(n), x + 1

    check(f, X, Nest(KW(a=1), [1, KW(a=2)]))


class Reg:
    registry: ClassVar[list[Any]] = []
    table: ClassVar[dict[str, Any]] = {}
    count = 0

    def add(self, x):
        self.registry.append(x)
        self.table["k"] = x
        type(self).count += 1
        return x + len(self.registry)


def test_class_state():
    def f(o, x):
        return o.add(x)

    # class state is shared by both sides: compare by hand
    tracer.install()
    c = tracer.compile(f, backend="eager", inplace=False)
    o = Reg()
    for _ in range(3):
        r = c(o, X)
    assert len(Reg.registry) == 3 and Reg.count == 3 and Reg.table["k"] is X and torch.equal(r, X + 3)


class Meta(type):
    cache: ClassVar[dict[str, Any]] = {}

    def __call__(cls, *a, **k):
        o = super().__call__(*a, **k)
        o.made_by_meta = True
        return o


class WithMeta(metaclass=Meta):
    made_by_meta: bool

    def __init__(self, v):
        self.v = v


def test_meta():
    whole(lambda x: (WithMeta(x), WithMeta(1).made_by_meta), X)


def test_partialmethod():
    class A:
        def go(self, k, x):
            return x * k

        twice = functools.partialmethod(go, 2)

    check(lambda a, x: a.twice(x), A(), X)


class Swallow:
    def __init__(self):
        self.n = 0

    def __enter__(self):
        self.n += 1
        return 5

    def __exit__(self, t, e, tb):
        self.n += 10
        return True


def test_with_flow():
    def f(m, x):
        with m as five:
            for i in range(3):
                with m:
                    if i == 1:
                        continue
                    x = x + five
                    if i == 2:
                        break
            raise ValueError(i)
        with m:
            return x, m.n

    whole(f, Swallow(), X)


def test_with_break_each():
    def f(m, x):
        with m as five:
            x = x + five
            print("a")
            with m:
                x = x * 2
                print("b")
                raise KeyError("z")
            x = x - 1
        print("c", m.n)
        return x

    check(f, Swallow(), X)


class Del:
    log: ClassVar[list[int]] = []

    def __init__(self):
        self.x = 1

    def __del__(self):
        Del.log.append(1)


def test_del():
    def f(x):
        d = Del()
        d.x = x
        return d.x + 1

    check(f, X)


def test_weakref():
    def f(o, x):
        r = weakref.ref(o)
        return r() is o, x + 1

    check(f, Both(), X)


def test_deepcopy():
    def f(o, x):
        o.t = x
        c = copy.deepcopy(o)
        d = copy.copy(o)
        return c, d.t is o.t

    check(f, PropErr(), X)


def test_dynamic_names():
    def f(o, x):
        for i in range(3):
            setattr(o, f"n{i}", x + i)
        delattr(o, "n1")
        return [getattr(o, f"n{i}", None) for i in range(3)], hasattr(o, "n1")

    class E:
        pass

    whole(f, E(), X)


def test_class_assign():
    class A:
        pass

    class B:
        v = 2

    def f(o, x):
        o.__class__ = B
        return x + o.v

    o = A()
    check(f, o, X, calls=1)


def test_alias_new():
    class A:
        pass

    def f(x):
        a: Any = A()
        b: Any = A()
        a.o = b
        a.p = b
        b.items = [a, b]
        return a, b, [a, b]

    whole(f, X)


def test_cycle_exc():
    def f(x):
        e: Any = ValueError(x)
        e.me = e
        items = [e]
        e.args = (items, 1)
        return e

    check(f, X)


def test_buffer_attr():
    class A:
        def __init__(self):
            self.buf = torch.zeros(2, 3)

        def step(self, x):
            self.buf = self.buf * 0.5 + x
            return self.buf.sum()

    a = A()
    whole(lambda a, x: a.step(x), a, X, calls=4)
    assert compilations(lambda a, x: a.step(x), (a, X), (a, X), (a, X)) == 1


def test_break_between():
    class A:
        def __init__(self):
            self.n = 0

    def f(a, x):
        a.n += 1
        a.t = x + a.n
        print(a.n)
        a.n += 1
        b: Any = A()
        b.t = a.t
        print(b.n)
        b.n = a.n
        return b, a.t + b.n

    check(f, A(), X)


class First:
    def __add__(self, other):
        return "add"

    def __radd__(self, other):
        return "radd"


class Inherits(First):
    pass


class Overrides(First):
    def __radd__(self, other):
        return "own radd"


def test_who_is_asked_first():
    def f(x):
        i: Any = First()
        i += Overrides()
        return x + 1, First() + Inherits(), First() + Overrides(), i, 1 + Inherits(), Overrides() + First()

    whole(f, X)


def test_a_class_method_written_in_c_that_is_handed_over() -> None:
    def f(x):
        make = dict.fromkeys
        y = x + 1
        print("a break")
        return y, make(["a"], 1)

    check(f, torch.ones(2))


class Noted(property):
    def __init__(self, get=None, put=None, *, note=None):
        super().__init__(get, put)
        self.note = note


class Quiet(staticmethod):
    pass


class Abstract(abc.ABC):
    @abc.abstractclassmethod
    def made(cls, x):
        return cls(x + 1)


class Shaped(Abstract):
    def __init__(self, x):
        self.x = x

    twice = Noted(lambda self: self.x * 2, lambda self, value: setattr(self, "x", value - 1), note="doubled")
    nothing = Noted()
    less = Quiet(lambda x: x - 1)

    @classmethod
    def made(cls, x):
        return super().made(x)


def read_shaped(x):
    shaped = Shaped.made(x)
    first = shaped.twice
    shaped.twice = x * 5
    return first, shaped.x, shaped.twice, shaped.less(x), Shaped.less(x), type(Shaped.twice).__name__


def wrong_shaped(x, how):
    shaped, y = Shaped(x), x + 1
    try:
        if how == 0:
            return shaped.nothing
        if how == 1:
            shaped.nothing = y
        else:
            del shaped.twice
    except AttributeError as error:
        return y, str(error)


def test_subclasses_of_builtin_descriptors():
    """What leaves reading, setting and deleting to `property`, `staticmethod` or `classmethod` acts like them."""
    check(read_shaped, torch.ones(3), fullgraph=True)
    for how in range(3):
        check(wrong_shaped, torch.ones(3), how, fullgraph=True)


def test_a_subclass_of_property_that_is_given_another_getter_later():
    class Late(property):
        pass

    class Owner:
        x = torch.ones(2)
        value = Late(lambda self: self.x * 2)

    def read(owner):
        return owner.value + 1

    compiled = tracer.compile(read)
    assert torch.equal(compiled(Owner()), torch.full((2,), 3.0))
    Late.__get__ = lambda self, owner, kind=None: self.fget(owner) * 10
    assert torch.equal(compiled(Owner()), torch.full((2,), 21.0))
    del Late.__get__
    Owner.value = Late(lambda self: self.x * 4)
    assert torch.equal(compiled(Owner()), torch.full((2,), 5.0))


def test_no_weak_reference_to_an_object_with_slots(monkeypatch):
    monkeypatch.setenv("TORCHGRAFT_STRICT", "1")

    def f(o, x):
        try:
            return weakref.ref(o), x
        except TypeError as error:
            return str(error), x + 1

    check(f, Both(), X, fullgraph=True)
