"""User objects, classes, super, exceptions: captured whole (fullgraph), compared with plain Python."""

from __future__ import annotations

import abc
import contextlib
import copy
import enum
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import pytest
import torch

from tests.support import check, check_calls, compilations

whole = functools.partial(check, fullgraph=True)
X = torch.arange(6.0).reshape(2, 3)


class Plain:
    scale = 2.0
    table: ClassVar[list[int]] = [1, 2]

    def __init__(self, weight: float = 1.5) -> None:
        self.weight = weight
        self.count = 0

    def scaled(self, x: Any) -> Any:
        return x * self.weight * self.scale

    @property
    def double(self) -> float:
        return self.weight * 2

    @double.setter
    def double(self, value: float) -> None:
        self.weight = value / 2

    @classmethod
    def make(cls, weight: float) -> Plain:
        return cls(weight)

    @staticmethod
    def add(a: Any, b: Any) -> Any:
        return a + b


class Child(Plain):
    def __init__(self, weight: float = 3.0) -> None:
        super().__init__(weight)
        self.extra = weight + 1

    def scaled(self, x: Any) -> Any:
        return super().scaled(x) + self.extra


# reading and setting ------------------------------------------------------------------------------------------------
def test_attributes_and_methods() -> None:
    def f(o: Any, x: torch.Tensor) -> Any:
        return o.scaled(x) + o.double + len(o.table) + Plain.add(x, 1) + o.add(1, 2)

    whole(f, Plain(), X)
    whole(f, Child(), X)


def test_setting() -> None:
    def f(o: Any, x: torch.Tensor) -> Any:
        o.count += 1
        o.double = 8.0
        o.last = x * o.weight
        o.count += 2
        return o.last + o.count

    whole(f, Plain(), X)


def test_deleting_and_order() -> None:
    def f(o: Any, x: torch.Tensor) -> Any:
        del o.weight
        o.new = x + 1
        o.weight = 2.0
        o.gone = 3
        del o.gone
        return list(vars(o)), hasattr(o, "gone")

    whole(f, Plain(), X)


def test_missing_attribute() -> None:
    def f(o: Any, x: torch.Tensor) -> Any:
        try:
            return o.nothing
        except AttributeError as error:
            return x + 1, str(error)

    whole(f, Plain(), X)


def test_instance_shadows_method() -> None:
    def f(o: Any, x: torch.Tensor) -> Any:
        return o.scaled(x)

    plain, shadowed = Plain(), Plain()
    shadowed.scaled = lambda x: x - 100  # type: ignore[method-assign]
    check_calls(f, (plain, X), (shadowed, X), (plain, X))


def test_another_instance_hits() -> None:
    def f(o: Any, x: torch.Tensor) -> Any:
        return o.scaled(x)

    assert compilations(f, (Plain(), X), (Plain(), X)) == 1
    check_calls(f, (Plain(1.5), X), (Plain(2.5), X), (Child(), X))


def test_changed_class_attribute() -> None:
    class Local:
        scale = 2.0

        def scaled(self, x: Any) -> Any:
            return x * self.scale

    def f(o: Local, x: torch.Tensor, scale: float | None) -> Any:
        return o.scaled(x)

    o = Local()

    def run(x: torch.Tensor) -> Any:
        first = f(o, x, None)
        Local.scale += 1
        return first, f(o, x, None)

    check(f, o, X, None, fullgraph=True)
    run(X)
    check(f, o, X, None, fullgraph=True)


def test_getattr_hooks() -> None:
    class Fallback:
        def __init__(self) -> None:
            self.known = 1

        def __getattr__(self, name: str) -> int:
            if name.startswith(("no", "__")):
                raise AttributeError(name)
            return len(name)

    class Everything(Fallback):
        def __getattribute__(self, name: str) -> Any:
            if name == "special":
                return 41
            return super().__getattribute__(name)

    def f(o: Fallback, x: torch.Tensor) -> Any:
        return x + o.known + o.unknown + o.special + getattr(o, "nope", 7)

    whole(f, Fallback(), X)
    whole(f, Everything(), X)


def test_setattr_hook() -> None:
    class Recording:
        def __init__(self) -> None:
            self.log = ["start"]

        def __setattr__(self, name: str, value: Any) -> None:
            if name != "log":
                self.log.append(name)
            object.__setattr__(self, name, value)

        def __delattr__(self, name: str) -> None:
            self.log.append("del " + name)
            super().__delattr__(name)

    def f(o: Any, x: torch.Tensor) -> Any:
        o.a = x + 1
        o.b = 2
        del o.b
        new: Any = Recording()
        new.c = x
        return o.a, new

    whole(f, Recording(), X)


def test_slots() -> None:
    class Base:
        __slots__ = ("a", "b")

        def __init__(self, a: Any) -> None:
            self.a = a

    class Both(Base):
        __slots__ = ("__private", "c")

        def __init__(self, a: Any) -> None:
            super().__init__(a)
            self.__private = 5

        def private(self) -> int:
            return self.__private

    def f(o: Any, x: torch.Tensor) -> Any:
        o.b = x + o.a
        o.c = 1
        del o.c
        new: Any = Both(x)
        return o, new, new.private(), hasattr(o, "c"), hasattr(new, "b")

    whole(f, Both(3), X)


def test_descriptor() -> None:
    class Positive:
        def __set_name__(self, owner: type, name: str) -> None:
            self.name = "_" + name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            return self if instance is None else getattr(instance, self.name)

        def __set__(self, instance: Any, value: float) -> None:
            if value < 0:
                raise ValueError("negative")
            setattr(instance, self.name, value)

    class Model:
        rate = Positive()

        def __init__(self) -> None:
            self.rate = 1.0

    def f(o: Model, x: torch.Tensor) -> Any:
        o.rate = o.rate + 2
        try:
            o.rate = -1.0
        except ValueError as error:
            return x * o.rate, error.args

    whole(f, Model(), X)


def test_cached_property() -> None:
    class Model:
        calls = 0

        @functools.cached_property
        def value(self) -> int:
            self.calls += 1
            return 5

    def f(o: Model, x: torch.Tensor) -> Any:
        return x + o.value + o.value, o.calls

    whole(f, Model(), X)


def test_instance_dict() -> None:
    def f(o: Any, x: torch.Tensor) -> Any:
        o.__dict__["weight"] = 4.0
        o.__dict__.update(fresh=x)
        vars(o)["more"] = 1
        return o.weight, list(o.__dict__), dict(vars(o).items())

    whole(f, Plain(), X)


# new objects --------------------------------------------------------------------------------------------------------
def test_new_object() -> None:
    def f(x: torch.Tensor) -> Any:
        child: Any = Child.make(2.0)
        child.me = child
        child.tensor = x + 1
        return child, child.scaled(x), type(child) is Child, isinstance(child, Plain)

    whole(f, X)


def test_new_object_stored_in_old() -> None:
    def f(o: Any, x: torch.Tensor) -> Any:
        o.child = Child()
        o.child.parent = o
        o.child.extra = x * 2
        return o.child

    whole(f, Plain(), X)


@dataclass
class Point:
    x: Any
    y: Any = 0
    rest: list[Any] = field(default_factory=list)
    total: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.total = self.x + self.y


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: int = 2


@dataclass(slots=True, order=True)
class Slotted:
    a: int
    b: int = 1


def test_dataclasses() -> None:
    def f(x: torch.Tensor, p: Point) -> Any:
        q = Point(x, y=2)
        q.rest.append(p.total)
        p.rest.append(q)
        frozen = Frozen(x + 1)
        low, high = Slotted(1), Slotted(2, 3)
        return q, frozen, low, low < high, low == Slotted(1, 1), high != low, Frozen(1) == Frozen(1), frozen.b

    whole(f, X, Point(1, 2))


def test_dataclass_replace() -> None:
    def f(x: torch.Tensor, p: Frozen) -> Any:
        return replace(p, a=x)

    check(f, X, Frozen(1))


def test_frozen_refuses() -> None:
    def f(x: torch.Tensor, p: Frozen) -> Any:
        p.a = x  # type: ignore[misc]

    check(f, X, Frozen(1))


class Pair(NamedTuple):
    first: Any
    second: int = 3

    def total(self) -> Any:
        return self.first + self.second


def test_named_tuple() -> None:
    def f(x: torch.Tensor, p: Pair) -> Any:
        q = Pair(x)
        return q, q.total(), p.total(), q._replace(second=5), p[0], isinstance(q, Pair)

    whole(f, X, Pair(1))


# special methods ----------------------------------------------------------------------------------------------------
class Vector:
    def __init__(self, *items: Any) -> None:
        self.items = list(items)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Vector):
            return NotImplemented
        return Vector(*[a + b for a, b in zip(self.items, other.items, strict=True)])

    def __radd__(self, other: Any) -> Any:
        return Vector(*[other + a for a in self.items])

    def __iadd__(self, other: Any) -> Vector:
        self.items.append(other)
        return self

    def __mul__(self, k: Any) -> Vector:
        return Vector(*[a * k for a in self.items])

    def __neg__(self) -> Vector:
        return self * -1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.items == other.items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: Any) -> Any:
        return self.items[i]

    def __setitem__(self, i: Any, value: Any) -> None:
        self.items[i] = value

    def __delitem__(self, i: Any) -> None:
        del self.items[i]

    def __contains__(self, item: Any) -> bool:
        return any(item is other for other in self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __call__(self, x: Any) -> Any:
        return x + len(self)

    def __lt__(self, other: Vector) -> bool:
        return len(self) < len(other)

    def __str__(self) -> str:
        return f"Vector of {len(self)}"

    def __repr__(self) -> str:
        return f"Vector({len(self)})"


def test_special_methods() -> None:
    def f(v: Vector, x: torch.Tensor) -> Any:
        w = v + Vector(1, 2)
        u = 5 + v
        v += x
        v[0] = 7
        del v[1]
        found = x in v, 3 in v
        text = f"{v} {v!r}", str(v)
        empty = Vector()
        kinds = bool(v), bool(empty), not empty, v == w, v != w, v < w, v > w
        return w, u, v, -w, found, text, kinds, [*v], v(x), len(v), w[0]

    whole(f, Vector(1, 2), X)


def test_unsupported_operator_raises() -> None:
    def f(v: Vector, x: torch.Tensor) -> Any:
        try:
            return v + 1
        except TypeError as error:
            return str(error)

    whole(f, Vector(1), X)


def test_iterator_class() -> None:
    class Count:
        def __init__(self, n: int) -> None:
            self.n = n

        def __iter__(self) -> Count:
            return self

        def __next__(self) -> int:
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def f(c: Count, x: torch.Tensor) -> Any:
        for i in c:
            x = x + i
        return x, list(Count(3))

    whole(f, Count(3), X)


def test_identity() -> None:
    def f(a: Plain, b: Plain, x: torch.Tensor) -> Any:
        if a is b:
            return x + 1
        return x - 1, a == b, a != b

    one, other = Plain(), Plain()
    check_calls(f, (one, other, X), (one, one, X), (one, other, X))


def test_aliased_objects_are_changed_once() -> None:
    def f(a: Plain, b: Plain, x: torch.Tensor) -> Any:
        a.weight = 1.0
        b.weight = 2.0
        return x * a.weight

    one, other = Plain(), Plain()
    check_calls(f, (one, other, X), (one, one, X))


# classes ------------------------------------------------------------------------------------------------------------
class Color(enum.Enum):
    RED = 1
    BLUE = 3


class Shape(abc.ABC):
    registry: ClassVar[dict[str, int]] = {"a": 1}

    @abc.abstractmethod
    def area(self) -> Any: ...


class Square(Shape):
    def __init__(self, side: Any) -> None:
        self.side = side

    def area(self) -> Any:
        return self.side * self.side


def test_enum() -> None:
    def f(x: torch.Tensor, c: Color) -> Any:
        if c is Color.RED:
            x = x + 1
        picked = Color(3), Color["RED"], [m.value for m in Color], len(Color), c.name
        return x * Color.BLUE.value, picked, c in Color

    check_calls(f, (X, Color.RED), (X, Color.BLUE), fullgraph=True)


def test_class_attributes() -> None:
    def f(x: torch.Tensor) -> Any:
        square = Square(x)
        names = Square.__name__, type(square).__qualname__, square.__class__.__name__, Square.__mro__[1].__name__
        checks = isinstance(square, Shape), issubclass(Square, Shape), isinstance(x, (int, torch.Tensor))
        return square.area(), names, checks, Shape.registry["a"], isinstance(3, int | str), Plain.scale

    whole(f, X)


def test_class_as_value() -> None:
    def f(x: torch.Tensor, cls: type, make: Callable[..., Any]) -> Any:
        return cls(2.0).scaled(x), make(3.0).weight, cls is Plain, cls == Plain

    check_calls(f, (X, Plain, Plain.make), (X, Child, Child.make), (X, Plain, Plain.make), fullgraph=True)


def test_user_new() -> None:
    class Single:
        made: ClassVar[int] = 0

        def __new__(cls, kind: str) -> Any:
            if kind == "number":
                return 5
            return super().__new__(cls)

        def __init__(self, kind: str) -> None:
            self.kind = kind

    def f(x: torch.Tensor) -> Any:
        return x + Single("number"), Single("object")

    whole(f, X)


def test_multiple_inheritance() -> None:
    class A:
        def go(self) -> list[str]:
            return ["A"]

    class B(A):
        def go(self) -> list[str]:
            return ["B", *super().go()]

    class C(A):
        def go(self) -> list[str]:
            return ["C", *super(C, self).go()]  # noqa: UP008

    class D(B, C):
        def go(self) -> list[str]:
            return ["D", *super().go()]

        @classmethod
        def name(cls) -> str:
            return cls.__name__

    def f(x: torch.Tensor, d: Any) -> Any:
        return x + 1, d.go(), D().go(), d.name(), D.name()

    whole(f, X, D())


# exceptions ---------------------------------------------------------------------------------------------------------
class Problem(ValueError):
    def __init__(self, code: int, text: str = "none") -> None:
        super().__init__(f"{text} ({code})")
        self.code = code


def test_raise_and_handle() -> None:
    def inner(kind: str) -> None:
        if kind == "own":
            raise Problem(3, "bad")
        if kind == "key":
            raise KeyError("k")
        raise ValueError("a", 1) from TypeError("cause")

    def f(x: torch.Tensor) -> Any:
        seen: list[Any] = []
        for kind in ("own", "key", "other"):
            try:
                inner(kind)
            except Problem as error:
                seen.append((error.code, str(error), error.args, isinstance(error, ValueError)))
            except (KeyError, ValueError) as error:
                seen.append((type(error).__name__, str(error), repr(error), repr(error.__cause__)))
        return x + len(seen), seen

    whole(f, X)


def test_exceptions_as_values() -> None:
    def f(x: torch.Tensor) -> Any:
        plain = ValueError("v", x)
        own: Any = Problem(4)
        own.note = x + 1
        own.add_note("noted")
        try:
            raise own from plain
        except Problem as error:
            caught = error
        return plain, own, caught is own, caught.__cause__ is plain, own.__suppress_context__, own.__notes__

    check(f, X)


def test_context_is_set() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            try:
                raise KeyError("first")
            except KeyError:
                raise ValueError("second")  # noqa: B904
        except ValueError as error:
            return x + 1, repr(error.__context__), error.__cause__

    whole(f, X)


def test_exception_leaves() -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        y = x + 1
        if n > 1:
            raise Problem(n)
        return y

    check_calls(f, (X, 1), (X, 2), (X, 1))


# managers -----------------------------------------------------------------------------------------------------------
class Manager:
    def __init__(self) -> None:
        self.log = [0]

    def __enter__(self) -> Manager:
        self.log.append(1)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.log.append(2 if kind is None else 3)
        return kind is not None and issubclass(kind, KeyError)


def test_user_manager() -> None:
    def f(m: Manager, x: torch.Tensor) -> Any:
        with m as bound:
            x = x + len(bound.log)
        with m:
            raise KeyError("swallowed")
        with contextlib.suppress(ZeroDivisionError), contextlib.nullcontext(3) as three:
            x = x + three
            1 / 0  # noqa: B018
        return x

    whole(f, Manager(), X)


def test_break_inside_of_manager() -> None:
    def f(m: Manager, x: torch.Tensor) -> Any:
        with m:
            x = x + 1
            print("inside")
            x = x * 2
        return x, m.log

    check(f, Manager(), X)


def test_grad_modes() -> None:
    def f(x: torch.Tensor) -> Any:
        with torch.no_grad():
            a = x * 2
            inside = torch.is_grad_enabled()
            with torch.enable_grad():
                b = x * 3
        with torch.set_grad_enabled(False):
            c = x * 4
        return a, b, c, x * 5, inside, torch.is_grad_enabled()

    x = X.clone().requires_grad_()
    whole(f, x)


def test_grad_mode_decorator() -> None:
    @torch.no_grad()
    def frozen(x: torch.Tensor) -> Any:
        return x * 2

    def f(x: torch.Tensor) -> Any:
        return frozen(x), x * 3

    whole(f, X.clone().requires_grad_())


def test_break_inside_of_no_grad() -> None:
    def f(x: torch.Tensor) -> Any:
        with torch.no_grad():
            a = x * 2
            print(torch.is_grad_enabled())
            b = a + x
        return a, b, x * 3

    check(f, X.clone().requires_grad_())


def test_set_grad_enabled_as_function() -> None:
    def f(x: torch.Tensor) -> Any:
        torch.set_grad_enabled(False)
        y = x * 2
        torch.set_grad_enabled(True)
        return y, x * 3

    whole(f, X.clone().requires_grad_())


def test_inference_mode() -> None:
    def f(x: torch.Tensor) -> Any:
        with torch.inference_mode():
            y = x * 2
        return y + 0 if False else y.shape

    check(f, X)


@pytest.mark.parametrize("enabled", [True, False])
def test_autocast(enabled: bool) -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            c = a @ b
        return c, a @ b

    whole(f, torch.ones(3, 3), torch.ones(3, 3))


def test_shared_autocast_object() -> None:
    context = torch.autocast("cpu", dtype=torch.bfloat16)

    def f(a: torch.Tensor) -> Any:
        with context:
            return a @ a

    whole(f, torch.ones(3, 3))


def test_objects_copy_plainly() -> None:
    def f(x: torch.Tensor) -> Any:
        return Child(2.0)

    whole(f, X)
    assert copy.deepcopy(f(X)).extra == 3.0


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Flags(enum.Flag):
    A = 1
    B = 2


class Planet(enum.Enum):
    EARTH = (1.0, "blue")
    MARS = (0.5, "red")

    def __init__(self, mass: float, color: str) -> None:
        self.mass = mass
        self.color = color

    @property
    def heavy(self) -> bool:
        LOG.append(self.color)
        return self.mass > 0.7

    def scaled(self, x: Any) -> Any:
        LOG.append("scaled")
        return x * self.mass

    def __lt__(self, other: Planet) -> bool:
        LOG.append("lt")
        return self.mass < other.mass


LOG: list[str] = []


def test_enum_with_code() -> None:
    def f(x: torch.Tensor, p: Planet, log: list[str]) -> Any:
        if p.heavy:
            x = x + 1
        light = [q.name for q in Planet if q < Planet.EARTH]
        kinds = (
            Level.LOW + 1,
            Level.HIGH > Level.LOW,
            Flags.A | Flags.B,
            bool(Flags.A & Flags.B),
            Level(5),
            str(Level.LOW),
        )
        return p.scaled(x), light, kinds, {Planet.MARS: 1}[p] if p is Planet.MARS else 0, f"{p.color}"

    check_calls(f, (X, Planet.EARTH, LOG), (X, Planet.MARS, LOG), fullgraph=True)
    # two calls plain, two compiled, two members each: nothing was run by capture itself
    assert LOG.count("lt") == 8 and LOG.count("scaled") == 4


def test_context_manager_generator() -> None:
    @contextlib.contextmanager
    def scaled(log: list[int]) -> Iterator[int]:
        log.append(1)
        try:
            yield 5
        finally:
            log.append(2)

    def f(x: torch.Tensor, log: list[int]) -> Any:
        with scaled(log) as k:
            x = x * k
        return x

    check(f, X, [0])
