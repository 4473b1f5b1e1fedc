"""The data model, as people use it: each program is one graph, and does what plain Python does."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import functools
import types
import typing
import weakref
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, TypedDict

import torch

from tests.tracer.python_programs import Programs

programs = Programs()
whole, breaks = programs.whole, programs.breaks
X = torch.arange(6.0).reshape(2, 3)


# attribute access -------------------------------------------------------------------------------------------------
class AttrDict:
    """A namespace over a dict: __getattr__, __setattr__, __delattr__."""

    def __init__(self, **values):
        object.__setattr__(self, "_values", dict(values))

    def __getattr__(self, name):
        if name == "_values":  # of an object that is being copied
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self._values[name] = value

    def __delattr__(self, name):
        del self._values[name]

    def __dir__(self):
        return list(self._values)


@whole((AttrDict(scale=2, bias=1), X), (AttrDict(scale=3, bias=1), X), (AttrDict(scale=3, bias=1), X + 1))
def attr_dict(config, x):
    config.seen = x
    config.count = getattr(config, "count", 0) + 1
    del config.bias
    return x * config.scale, hasattr(config, "bias"), hasattr(config, "scale")


class Proxy:
    def __init__(self, target):
        self._target = target

    def __getattribute__(self, name):
        if name.startswith("_"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_target"), name)

    def __setattr__(self, name, value):
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self._target, name, value)


@whole((Proxy(types.SimpleNamespace(a=2, b=None)), X))
def proxy(p, x):
    p.b = x * p.a
    p.c = 5
    return p.b + p.c


@whole((types.SimpleNamespace(a=2), X), (types.SimpleNamespace(a=3), X))
def namespace(ns, x):
    ns.y = x + ns.a
    new = types.SimpleNamespace(y=ns.y, z=[1])
    new.w = new.z
    return new, ns.y, new == ns, vars(new)["z"]


class Positive:
    """A data descriptor that validates, with __set_name__."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name)

    def __set__(self, obj, value):
        if isinstance(value, int) and value < 0:
            raise ValueError(f"{self.name} must be positive, not {value}")
        setattr(obj, self.name, value)


class Layered:
    width = Positive()
    depth = Positive()

    def __init__(self, width, depth):
        self.width, self.depth = width, depth

    @property
    def area(self):
        return self.width * self.depth

    @area.setter
    def area(self, value):
        self.width = value // self.depth

    @area.deleter
    def area(self):
        self.width = 0

    @functools.cached_property
    def table(self):
        return torch.arange(float(self.depth))

    @classmethod
    def square(cls, n):
        return cls(n, n)

    @staticmethod
    def double(n):
        return 2 * n


@whole((Layered(2, 3), X), (Layered(4, 3), X), (Layered(4, 3), X + 1))
def descriptors(o, x):
    o.area = o.double(12)
    s = type(o).square(2)
    try:
        o.depth = -1
    except ValueError as error:
        text = str(error)
    del s.area
    return x * o.area + o.table, s, text, Layered.width.name, o.table is o.table


class Registry(type):
    known: ClassVar[dict[str, type]] = {}

    def __new__(mcls, name, bases, namespace, **kwargs):
        cls = super().__new__(mcls, name, bases, namespace)
        mcls.known[name] = cls
        return cls

    def __getitem__(cls, name):
        return cls.known[name]

    def __len__(cls):
        return len(cls.known)

    def __iter__(cls):
        return iter(sorted(cls.known))

    def __contains__(cls, name):
        return name in cls.known

    @property
    def size(cls):
        return len(cls.known)


class Base(metaclass=Registry):
    kind: ClassVar[str] = "base"
    subclasses: ClassVar[list[str]] = []

    def __init_subclass__(cls, kind="sub", **kwargs):
        super().__init_subclass__(**kwargs)
        cls.kind = kind
        Base.subclasses.append(cls.__name__)

    def __class_getitem__(cls, item):
        return cls, item


class Derived(Base, kind="derived"):
    pass


@whole((X, "Derived"), (X, "Base"), (X, "Derived"))
def metaclasses(x, name):
    cls = Base[name]
    return x + len(Base), list(Base), name in Base, cls.kind, Base.size, isinstance(cls, Registry), cls()


@whole((X,))
def subclasses_made_before(x):
    return x + 1, Derived.kind, Base.subclasses, issubclass(Derived, Base), Derived.__mro__, Derived.__name__


class Act(abc.ABC):
    @abc.abstractmethod
    def __call__(self, x): ...

    @property
    @abc.abstractmethod
    def slope(self): ...


class Leaky(Act):
    def __call__(self, x):
        return torch.where(x > 0, x, x * self.slope)

    @property
    def slope(self):
        return 0.1


@whole((Leaky(), X - 3))
def abstract(act, x):
    return act(x), isinstance(act, Act), issubclass(Leaky, Act), Leaky()(x), callable(act)


@whole((X,))
def abstract_is_not_made(x):
    try:
        Act()
    except TypeError as error:
        return x + 1, str(error)


@whole(([1], X), ({}, X), ((1, X), X), (X, X), (3, X), (iter([1]), X), ("a", X))
def builtin_abcs(v, x):
    import numbers

    return (x + 1, isinstance(v, collections.abc.Sequence), isinstance(v, collections.abc.Mapping),
            isinstance(v, collections.abc.Iterable), isinstance(v, typing.Callable), isinstance(v, numbers.Number),
            isinstance(v, collections.abc.Hashable), isinstance(v, (list, tuple)), isinstance(v, list | tuple))


# dataclasses ------------------------------------------------------------------------------------------------------
@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor | None = None
    hidden: list[torch.Tensor] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: int = 3


@dataclass(slots=True)
class Slotted:
    a: Any
    b: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FrozenSlotted:
    a: Any
    b: int = 2


@dataclass(order=True)
class Version:
    major: int
    minor: int = 0
    label: str = field(default="", compare=False)


@dataclass(frozen=True)
class Hashed:
    name: str
    size: int


@whole((X, 1), (X, 2), (X + 1, 2))
def dataclass_output(x, n):
    out = Output(x.sum(), hidden=[x])
    out.hidden.append(x * n)
    out.extra["n"] = n
    other = replace(out, logits=x)
    return out, other, other.hidden is out.hidden, Output(x).hidden is Output(x).hidden


@whole((X, 1), (X, 2))
def dataclass_kinds(x, n):
    try:
        Frozen(x).a = 1
    except dataclasses.FrozenInstanceError as error:
        text = str(error)
    slotted = Slotted(x)
    slotted.b.append(n)
    return Frozen(x + 1, n), slotted, FrozenSlotted(x), text, Frozen(1) == Frozen(1), Frozen(1) != Frozen(2)


@whole((Version(1, 2), X), (Version(1, 3), X), (Version(2, 0, "x"), X))
def dataclass_order(v, x):
    return (x * v.major, v < Version(1, 3), max(v, Version(1, 2)), sorted([Version(3), v, Version(0)]),
        v == Version(1, 3),
            v >= Version(1, 3, "other"))


@whole((Hashed("a", 2), X), (Hashed("b", 2), X))
def dataclass_as_key(h, x):
    sizes = {Hashed("a", 2): 10, Hashed("b", 2): 20}
    seen = {h, Hashed("a", 2)}
    return x * sizes[h], len(seen), h in seen, repr(h), str(h)


@whole((Version(1, 2), X), (Version(2, 2), X))
def dataclass_tools(v, x):
    return (x + v.minor, [f.name for f in fields(v)], dataclasses.asdict(v), dataclasses.astuple(v),
            dataclasses.is_dataclass(v), {f.name: getattr(v, f.name) for f in fields(v)}, repr(v))


@whole((X,))
def dataclass_asdict_of_tensors(x):
    out = Output(x + 1, hidden=[x])
    return {f.name: getattr(out, f.name) for f in fields(out)}, vars(out)


class Point(NamedTuple):
    x: Any
    y: Any = 0

    @property
    def norm(self):
        return self.x + self.y

    def moved(self, by):
        return self._replace(x=self.x + by)


Old = namedtuple("Old", ["a", "b"], defaults=[7])


@whole((Point(X, 2), X), (Point(X, 3), X))
def named_tuples(p, x):
    q = Point(x) if p.y > 2 else Point(x, y=5)
    a, b = p
    o = Old(x)
    return (p.norm + x, q, q.moved(1), p._asdict(), Point._make([x, 1]), a is p.x, o, o._fields, p[1], p[-1:], len(p),
            p == (p.x, 2), isinstance(p, tuple), Point._field_defaults, Old(b=1, a=x), p + (1,), 2 in Point(1, 2))


# enumerations -----------------------------------------------------------------------------------------------------
class Mode(enum.Enum):
    TRAIN = "train"
    EVAL = "eval"

    @property
    def short(self):
        return self.value[0]

    @classmethod
    def default(cls):
        return cls.EVAL


class Level(enum.IntEnum):
    LOW = 1
    HIGH = enum.auto()


class Act2(str, enum.Enum):
    RELU = "relu"
    GELU = "gelu"


class Flag(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    AB = A | B


@whole((Mode.TRAIN, X), (Mode.EVAL, X), (Mode.TRAIN, X))
def enums(mode, x):
    scale = {Mode.TRAIN: 2, Mode.EVAL: 3}[mode]
    if mode is Mode.TRAIN:
        x = x + 1
    match mode:
        case Mode.TRAIN:
            x = x * 2
        case Mode.EVAL:
            x = x * 3
    return (x * scale, mode.short, Mode.default(), Mode("eval"), Mode["TRAIN"], list(Mode), len(Mode), mode in Mode,
            mode in (Mode.TRAIN,), mode.name, Mode.__members__["EVAL"], str(mode), repr(mode),
            hash(mode) == hash(mode))


@whole((Level.LOW, Act2.RELU, X), (Level.HIGH, Act2.GELU, X))
def enum_mixins(level, act, x):
    return (x * level, level + 1, level < 3, Level(2), act == "relu", act.upper(), getattr(torch,
        act.value)(x) if act == "relu"
            else x, f"{act.value}-{level:d}", int(level), max(Level), sorted(Level, reverse=True), act in ("relu",
            "tanh"))


@whole((Flag.A, X), (Flag.AB, X))
def flags(f, x):
    return x + f.value, f & Flag.A, f | Flag.B, Flag.B in f, bool(f & Flag.B), ~f, f == Flag.AB


@whole((X,))
def enum_missing(x):
    try:
        Mode("other")
    except ValueError as error:
        return x + 1, str(error)


# subclasses of containers -----------------------------------------------------------------------------------------
class Tokens(list):
    def __init__(self, items=(), name="tokens"):
        super().__init__(items)
        self.name = name

    def total(self):
        return sum(self)


class Cache(dict):
    hits = 0

    def __missing__(self, key):
        self[key] = value = key * 2
        return value

    def lookup(self, key):
        if key in self:
            self.hits += 1
        return self[key]


class DotDict(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Shape(tuple):
    def numel(self):
        n = 1
        for d in self:
            n *= d
        return n


class ShapeOf(tuple):
    __slots__ = ()

    def __new__(cls, *dims):
        return super().__new__(cls, dims)

    @property
    def last(self):
        return self[-1]


class Ordered(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.last = key


@whole((Tokens([1, 2]), X), (Tokens([1, 2, 3]), X))
def list_subclass_from_outside(tokens, x):
    tokens.append(5)
    tokens.name += "!"
    tokens[0] = x
    return x * len(tokens), [t for t in tokens], tokens[1:], tokens.name, isinstance(tokens, list), tokens[-1]


@whole((X, 2), (X, 3))
def list_subclass_made(x, n):
    tokens = Tokens([1, 2])
    tokens.extend(range(n))
    tokens.extra = x
    return x * tokens.total(), tokens, Tokens(), len(tokens), tokens == [1, 2, 0, 1], tokens + [1]


@whole((Cache(), X), (Cache({3: 4}), X))
def dict_subclass_from_outside(cache, x):
    a = cache.lookup(3)
    b = cache[4]
    cache["x"] = x
    return x * a + b, dict(cache), cache.hits, sorted(str(k) for k in cache), "x" in cache, cache.get(9, 1), {**cache}


@whole((X, 3), (X, 4))
def dict_subclass_made(x, n):
    cache = Cache(a=1)
    cache[n] = x
    cache.update(b=2)
    return x + cache[7], cache, list(cache.items()), cache.pop("a"), len(cache)


@whole((DotDict(a=1, b=2), X), (DotDict(a=2, b=2), X))
def dot_dict(d, x):
    d.c = x
    new = DotDict(x=x)
    new.y = 2
    del d.b
    return x * d.a, new, new.x, new.missing, d["c"]


@whole((Shape((2, 3)), X), (Shape((3, 3)), X))
def tuple_subclass(s, x):
    return (x * s.numel(), Shape((1, 2)), Shape([4, 5]).numel(), ShapeOf(1, 2), ShapeOf(3, 4).last, s[0], len(s),
        s == (2, 3))


@whole((Ordered(a=1), X), (Ordered(a=2, b=1), X))
def ordered_subclass(o, x):
    o["z"] = x
    new = Ordered()
    new["q"] = x
    new.move_to_end("q")
    return x * o["a"], new, new.last, list(o), o.popitem(last=False), next(iter(new))


class ModelOutput(OrderedDict):
    """What transformers' ModelOutput does, in short."""

    def __init_subclass__(cls):
        pass

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def __post_init__(self):
        class_fields = fields(self)
        first_field = getattr(self, class_fields[0].name)
        other_fields_are_none = all(getattr(self, f.name) is None for f in class_fields[1:])
        if other_fields_are_none and isinstance(first_field, dict):
            for key, value in first_field.items():
                setattr(self, key, value)
                if value is not None:
                    self[key] = value
        else:
            for f in class_fields:
                v = getattr(self, f.name)
                if v is not None:
                    self[f.name] = v

    def __delitem__(self, *args, **kwargs):
        raise Exception(f"You cannot use ``__delitem__`` on a {self.__class__.__name__} instance.")

    def pop(self, *args, **kwargs):
        raise Exception(f"You cannot use ``pop`` on a {self.__class__.__name__} instance.")

    def __getitem__(self, k):
        if isinstance(k, str):
            inner_dict = dict(self.items())
            return inner_dict[k]
        else:
            return self.to_tuple()[k]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


@dataclass
class BaseOutput(ModelOutput):
    last: Any = None
    hidden: Any = None
    extra: Any = None


@whole((X, True), (X, False), (X + 1, False))
def model_output_made(x, hidden):
    out = BaseOutput(last=x + 1, hidden=(x, x * 2) if hidden else None)
    first, *rest = out.to_tuple()
    out.extra = x
    out["hidden"] = x * 3
    try:
        out.pop("last")
    except Exception as error:
        text = str(error)
    return (out, first, rest, out[0], out[:1], out["last"], out.last, list(out.items()), dict(**out), "extra" in out,
            len(out), list(out.keys()), text, isinstance(out, dict), out.get("nothing", 3), dict(out))


@whole((BaseOutput(last=X, hidden=(X, X)), X), (BaseOutput(last=X), X))
def model_output_from_outside(out, x):
    y = out.last + out[0] + x
    if out.hidden is not None:
        y = y + out.hidden[1] + out["hidden"][0]
    out.extra = 3
    out["last"] = y
    return BaseOutput(last=y, hidden=out.hidden), out.to_tuple(), list(out.values())


@whole(({"a": X}, X))
def model_output_from_dict(d, x):
    return BaseOutput({"last": x + 1, "more": 2}), BaseOutput(d)


# collections ------------------------------------------------------------------------------------------------------
@whole((defaultdict(list, a=[1]), X), (defaultdict(list), X))
def default_dicts(d, x):
    d["a"].append(x)
    d["b"].append(1)
    new = defaultdict(lambda: x)
    new["k"] = new["z"] + 1
    counts = defaultdict(int)
    for word in "a b a".split():
        counts[word] += 1
    return x + len(d), new["k"], counts, d.default_factory is list, dict(counts), counts.get("q")


@whole((deque([1, 2], maxlen=3), X), (deque([X]), X))
def deques(d, x):
    d.append(x)
    d.appendleft(0)
    d.rotate(1)
    new = deque(maxlen=2)
    new.extend([1, x, 3])
    new.popleft()
    return x + len(d), new, d[0], d.maxlen, list(d)


@whole(("hello", X), ("abca", X))
def counters(text, x):
    c = Counter(text)
    c.update("aa")
    c["z"] += 2
    c.subtract("h")
    other = Counter(a=1, b=2)
    return (x * c["a"], c, c.most_common(2), c.total(), list(c.elements()), c + other, c - other, c & other,
        c | other,
            c["missing"], "missing" in c, +c)


@whole((Counter("abc"), X), (Counter(a=3), X))
def counter_from_outside(c, x):
    c["a"] += 1
    c.update(["b", "b"])
    return x * c["a"], c.most_common(1), sum(c.values())


@whole(({"a": 1}, {"b": 2, "a": 3}, X), ({"a": 1}, {"b": 5}, X))
def chain_maps(a, b, x):
    m = ChainMap(a, b)
    child = m.new_child({"c": x})
    m["d"] = x
    return (x * m["b"], m["a"], "c" in child, len(child), sorted(child), m.get("q"), child.parents["a"],
        m.maps[0] is a, m)


@whole((OrderedDict(a=1, b=2), X), (OrderedDict(b=2), X))
def ordered_dicts(o, x):
    o["c"] = x
    o.move_to_end("b")
    o.move_to_end("c", last=False)
    return x * o["b"], list(o), o.popitem(), o == OrderedDict(c=x) if len(o) < 1 else None, OrderedDict([("z", x)])


@whole((UserDict({"a": 1}), UserList([1, 2]), X), (UserDict({"a": 2}), UserList([1]), X))
def user_containers(d, items, x):
    d["x"] = x
    items.append(x)
    return x * d["a"], len(d), len(items), "a" in d, list(d), UserDict(b=1)["b"]


class Movie(TypedDict, total=False):
    name: str
    score: Any


@whole((Movie(name="a", score=X), X), (Movie(name="b"), X))
def typed_dicts(m, x):
    new = Movie(name=m["name"] + "2", score=x + 1)
    new["score"] = new["score"] * 2
    return new, m.get("score"), "score" in m, type(new)


# special methods --------------------------------------------------------------------------------------------------
class Bag:
    def __init__(self, items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        for item in self.items:
            yield item

    def __contains__(self, item):
        return any(item is i or item == i for i in self.items if not isinstance(i, torch.Tensor))

    def __getitem__(self, key):
        if isinstance(key, slice):
            return Bag(self.items[key])
        return self.items[key]

    def __setitem__(self, key, value):
        self.items[key] = value

    def __delitem__(self, key):
        del self.items[key]

    def __reversed__(self):
        return reversed(self.items)

    def __bool__(self):
        return bool(self.items)

    def __eq__(self, other):
        return isinstance(other, Bag) and len(self.items) == len(other.items)

    def __hash__(self):
        return hash(("Bag", len(self.items)))

    def __repr__(self):
        return f"Bag({len(self.items)})"

    def __call__(self, x, *, scale=1):
        return x * scale * len(self)

    def __enter__(self):
        self.items.append("in")
        return self

    def __exit__(self, *error):
        self.items.append("out")
        return False

    def __index__(self):
        return len(self.items)

    def __format__(self, spec):
        return f"<{spec}>"

    def __missing__(self, key):
        return key


@whole((Bag([1, 2, 3]), X), (Bag([1, 2]), X), (Bag([4, 5]), X))
def bags(b, x):
    with b as entered:
        x = entered(x, scale=2)
    b[0] = 9
    del b[1]
    first, *rest = b
    return (x, [*b], 9 in b, b[1:], list(reversed(b)), bool(b), b == Bag([1]), hash(b), {b: 1}[b], repr(b), f"{b:>3}",
            range(9)[b], [10] * 3, first, rest, str(b), bool(Bag([])))


class OldSequence:
    """Iterated and searched by __getitem__ alone."""

    def __getitem__(self, i):
        if i >= 3:
            raise IndexError(i)
        return i * 10


@whole((OldSequence(), X))
def old_sequence(s, x):
    total = 0
    for v in s:
        total += v
    return x + total, list(s), 20 in s, 5 in s, [*zip(s, "ab")]


class Vec:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Vec(self.v + (other.v if isinstance(other, Vec) else other))

    __radd__ = __add__

    def __iadd__(self, other):
        self.v = self.v + other
        return self

    def __mul__(self, other):
        return NotImplemented if isinstance(other, str) else Vec(self.v * other)

    def __rmul__(self, other):
        return Vec(other * self.v)

    def __matmul__(self, other):
        return self.v @ other

    def __rmatmul__(self, other):
        return other @ self.v

    def __neg__(self):
        return Vec(-self.v)

    def __abs__(self):
        return Vec(abs(self.v))

    def __lt__(self, other):
        return id(self) < 0 or self.v.ndim < other.v.ndim

    def __divmod__(self, other):
        return (1, other)

    def __round__(self, n=0):
        return n

    def __int__(self):
        return 3

    def __float__(self):
        return 2.5

    def __pow__(self, n, mod=None):
        return n, mod

    def __invert__(self):
        return "inverted"

    def __floordiv__(self, o):
        return "floor", o

    def __rsub__(self, o):
        return "rsub", o


@whole((Vec(X), X), (Vec(X + 1), X))
def arithmetic(v, x):
    a = v + 1
    b = 2 + v
    c: Any = Vec(x)
    c += 1
    d = sum([v, v])
    return (a, b, c, d, -v, abs(-v), v * 2, 3 * v, (v @ x.T), divmod(v, 2), round(v, 2), int(v), float(v), v**2,
        pow(v, 2, 5),
            ~v, v // 3, 7 - v)


@whole((Vec(X), X))
def unsupported_operators(v, x):
    found = []
    for call in (lambda: v * "a", lambda: v / 2, lambda: v["a"], lambda: len(v), lambda: v.nothing, lambda: v(),
    lambda: iter(v)):
        try:
            call()
        except (TypeError, AttributeError) as error:
            found.append((type(error).__name__, str(error)))
    return x + 1, found


@breaks("object is made by C code", (X,))
def weak_references(x):
    target = Bag([1])
    ref = weakref.ref(target)
    return ref() is target, x + len(ref())


HELD = Bag([1, 2])
REF = weakref.ref(HELD)


class Parent:
    def __init__(self):
        self.child = Child(self)
        self.scale = 2


class Child:
    def __init__(self, parent):
        self._parent = weakref.ref(parent)

    @property
    def parent(self):
        return self._parent()


PARENT = Parent()


def test_weak_reference_from_outside() -> None:
    import tracer

    tracer.install()
    compiled = tracer.compile(lambda x: x * PARENT.child.parent.scale + len(REF()), backend="eager", fullgraph=True)
    for scale in (2, 3, 3):
        PARENT.scale = scale
        assert torch.equal(compiled(X), X * scale + 2)


class Slots:
    __slots__ = ("__weakref__", "a", "b")

    def __init__(self, a):
        self.a = a


class SlotsChild(Slots):
    __slots__ = ("c",)


@whole((Slots(1), X), (Slots(2), X))
def slots(s, x):
    s.b = x
    new = SlotsChild(5)
    new.c = x
    try:
        s.zz = 1
    except AttributeError as error:
        text = str(error)
    del s.a
    return x * new.a, new, s.b, hasattr(s, "a"), text, hasattr(s, "__dict__")


class Node:
    def __init__(self, value, *children):
        self.value = value
        self.children = children
        self.parent = None
        for child in children:
            child.parent = self

    def walk(self):
        yield self.value
        for child in self.children:
            yield from child.walk()

    def __iter__(self):
        return self.walk()


@whole((X, 1), (X, 2))
def tree(x, n):
    root = Node(x, Node(x * n, Node(1)), Node(3))
    return sum(root), root, [*root][2], root.children[0].parent is root


class Multi(Layered, Bag):
    def __init__(self, n):
        Layered.__init__(self, n, n)
        Bag.__init__(self, [n])


class Mixin:
    def forward(self, x):
        return super().forward(x) + 1


class Core:
    def forward(self, x):
        return x * 2


class Mixed(Mixin, Core):
    pass


@whole((Multi(2), Mixed(), X), (Multi(3), Mixed(), X))
def inheritance(m, mixed, x):
    return x * m.area, len(m), mixed.forward(x), type(m).__mro__[1], isinstance(m, (Bag, int)), Multi(1)


class Between:
    pass


class Far:
    def forward(self, x):
        return x * 3

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


class Reader:
    def __getattribute__(self, name):
        return super().__getattribute__(name)


class Diamond(Reader, Mixin, Between, Far):
    pass


@whole((Diamond(), X))
def super_passes_classes_that_lack_the_name(d, x):
    return d.forward(x)


@whole((X,))
def class_attributes(x):
    return (Layered.__name__, Layered.__qualname__, Layered.__module__, Layered.__doc__, type(Layered), x + 1,
        Layered.__bases__)


class Single:
    _instance: Any = None

    def __new__(cls, *args):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance


@whole((Bag([1]), X), (Bag([1, 2]), X))
def introspection(b, x):
    return (x + 1, type(b).__name__, b.__class__ is Bag, vars(b), sorted(vars(b)), b.__dict__["items"], hasattr(b,
        "nothing"),
            getattr(b, "nothing", 5), callable(b), b.__module__, type(b) is Bag, b.__doc__, getattr(b, "__len__")(),
            b.__len__.__name__, Bag.__len__(b), type(b).__call__(b, 1))


@breaks("names of a namespace are listed", (Bag([1]), X))
def dir_of(b, x):
    return x + 1, [name for name in dir(b) if not name.startswith("__")], "items" in dir(b)


test = programs.test()
