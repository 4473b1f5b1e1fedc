"""What programs use of Python's library between tensor operators.

PYTEST_DONT_REWRITE: the programs' own assert statements must stay as they are written.
"""

from __future__ import annotations

import abc
import argparse
import bisect
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import itertools
import logging
import math
import numbers
import os
import pathlib
import statistics
import string
import sys
import types
import typing
import warnings
from typing import Any, Generic, Optional, TypeVar, Union, cast

import torch

from tests.tracer.python_programs import Programs

programs = Programs()
whole, breaks = programs.whole, programs.breaks
X = torch.arange(6.0).reshape(2, 3)
T = TypeVar("T")


@whole((X, True), (X, False), (X, True))
def context_managers(x, grad):
    with contextlib.nullcontext(), contextlib.nullcontext(5) as five:
        x = x + five
    with torch.no_grad() if not grad else contextlib.nullcontext():
        y = x * 2
    with contextlib.suppress(KeyError, ValueError):
        {}["a"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(contextlib.nullcontext())
        z = y + 1
    return y, z


@contextlib.contextmanager
def scaled(log, name):
    log.append(f"enter {name}")
    try:
        yield name
    finally:
        log.append(f"leave {name}")


@whole((X, [], False), (X, [], True))
def own_context_managers(x, log, fail):
    try:
        with scaled(log, "a") as a, scaled(log, "b"):
            x = x * 2
            if fail:
                raise RuntimeError("inside")
    except RuntimeError as error:
        return x, log, str(error)
    return x + 1, log, a


class Closing:
    def __init__(self):
        self.closed = False

    def close(self):
        self.closed = True


@whole((X,))
def closing(x):
    c = Closing()
    with contextlib.closing(c) as same:
        y = x + 1
    return y, c.closed, same is c


@whole((X, argparse.Namespace(lr=0.1, steps=3)), (X, argparse.Namespace(lr=0.2, steps=3)))
def parsed_arguments(x, args):
    for _ in range(args.steps):
        x = x - args.lr * x
    return x, vars(args), "lr" in args, getattr(args, "momentum", 0.9)


@whole((X,))
def environment(x):
    return (x + 1, os.environ.get("SURELY_NOT_SET_HERE", "default"), sys.version_info >= (3, 8), sys.platform,
        os.path.join("a", "b.txt"),
            os.path.splitext("model.pt")[1], os.path.basename("a/b"), os.sep, sys.maxsize > 0)


@breaks("", (X, pathlib.PurePosixPath("a/b.txt")), (X, pathlib.PurePosixPath("a/c.txt")))
def paths(x, p):
    return x + 1, p.name, p.suffix, str(p / "d"), p.parent, p.stem


PROXY = types.MappingProxyType({"a": 1})


EITHER = Union[int, str]


@whole((X, 3), (X, 4.5), (X, "a"))
def typing_tools(x, v):
    n: int = cast(int, v)
    return (x * 2, n, isinstance(v, numbers.Number), isinstance(v, (int, float)), typing.TYPE_CHECKING,
            isinstance(v, EITHER), isinstance(v, typing.Hashable), isinstance(v, Optional[int]))


@whole((X, [1.0, 4.0, 2.0]), (X, [3.0, 3.0, 9.0]))
def numbers_of_the_library(x, values):
    return (x + bisect.bisect([1, 3, 5], 4), math.fsum(values), bisect.bisect_left([1, 2, 2], 2), math.prod(values))


@whole((X, [1.0, 4.0, 2.0]))
def statistics_of_numbers(x, values):
    return x + statistics.mean(values)


def with_signature(a, b=1, *, c=2, **kwargs):
    return a


@whole((X, {"b": 2, "z": 3}), (X, {"c": 5}))
def filtered_keywords(x, kwargs):
    names = ("b", "c")
    chosen = {k: v for k, v in kwargs.items() if k in names}
    rest = {k: kwargs[k] for k in kwargs.keys() - names}
    return with_signature(x, **chosen) + 1, chosen, rest


def test_warnings_are_given_as_in_plain_python() -> None:
    from tests.support import check

    def f(x, n):
        if n < 0:
            warnings.warn("n is negative", UserWarning, stacklevel=2)
        return x * n

    check(f, X, -1, check_warnings=True)
    check(f, X, 1, check_warnings=True)


LOGGER = logging.getLogger("tests.library")


@breaks("library function is called", (X,))
def logging_a_warning(x):
    y = x * 2
    LOGGER.warning("careful: %s", "text")
    return y + 1


class Stack(Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []

    def push(self, item: T) -> Stack[T]:
        self.items.append(item)
        return self


@breaks("", (X,))
def generic_classes(x):
    s: Stack[Any] = Stack[torch.Tensor]()
    return s.push(x).push(x + 1), len(s.items)


class Registry:
    """A registry of factories, as configuration systems have them."""

    def __init__(self):
        self._table: dict[str, Any] = {}

    def register(self, name):
        def decorate(fn):
            self._table[name] = fn
            return fn

        return decorate

    def build(self, name, *args, **kwargs):
        if name not in self._table:
            raise KeyError(f"unknown {name!r}; have {sorted(self._table)}")
        return self._table[name](*args, **kwargs)

    def __contains__(self, name):
        return name in self._table


REGISTRY = Registry()


@REGISTRY.register("double")
def _double(x, by=2):
    return x * by


@REGISTRY.register("Point")
@dataclasses.dataclass
class _Point:
    x: Any


@whole((X, "double"), (X, "Point"), (X, "double"))
def registries(x, name):
    try:
        REGISTRY.build("nothing")
    except KeyError as error:
        text = error.args[0]
    built = REGISTRY.build(name, x)
    return built, text, name in REGISTRY, x + 1


class Visitor:
    def visit(self, node, x):
        method = getattr(self, f"visit_{type(node).__name__}", self.generic)
        return method(node, x)

    def visit_int(self, node, x):
        return x * node

    def visit_list(self, node, x):
        return [self.visit(n, x) for n in node]

    def generic(self, node, x):
        return x


@whole((X, [1, [2, "a"], 3.0]), (X, 5))
def visitors(x, tree):
    return Visitor().visit(tree, x), x + 1


def tree_map(fn, tree):
    if isinstance(tree, dict):
        return {k: tree_map(fn, v) for k, v in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(tree_map(fn, v) for v in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(tree_map(fn, v) for v in tree)
    return fn(tree) if isinstance(tree, torch.Tensor) else tree


Pair = collections.namedtuple("Pair", "a b")


@whole(({"a": X, "b": [X, (X, 1)], "c": Pair(X, None)},))
def trees(tree):
    return tree_map(lambda t: t * 2, tree), tree_map(lambda t: t + 1, [tree["a"]])


class Event:
    """Observers that are called back."""

    def __init__(self):
        self.handlers: dict[str, list[Any]] = collections.defaultdict(list)

    def on(self, name, handler):
        self.handlers[name].append(handler)
        return handler

    def emit(self, name, *args):
        return [handler(*args) for handler in self.handlers.get(name, ())]


@whole((X,))
def callbacks(x):
    events, log = Event(), []
    events.on("step", lambda t: t + 1)
    events.on("step", log.append)
    events.on("step", functools.partial(torch.mul, x))
    return events.emit("step", x), log, events.emit("nothing")


class Lazy:
    """__getattr__ that makes what is asked for, as lazy modules do."""

    def __init__(self):
        self.made = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        self.made.append(name)
        value = len(name)
        setattr(self, name, value)
        return value


@whole((X, Lazy()), (X, Lazy()))
def lazy_attributes(x, o):
    return x * o.abc + o.abc, o.made, hasattr(o, "_private")


class Unit(enum.Enum):
    METER = ("m", 1.0)
    FOOT = ("ft", 0.3048)

    def __init__(self, short, factor):
        self.short = short
        self.factor = factor

    @classmethod
    def of(cls, short):
        for unit in cls:
            if unit.short == short:
                return unit
        raise ValueError(short)

    def __call__(self, x):
        return x * self.factor


@whole((X, "m"), (X, "ft"))
def enum_with_parts(x, short):
    unit = Unit.of(short)
    return unit(x), unit.factor, {u: u.short for u in Unit}[unit], [u.name for u in Unit], unit in {Unit.METER}


class Permission(enum.IntFlag):
    R = 4
    W = 2
    X = 1


class Name(enum.StrEnum):
    A = enum.auto()
    B = "bee"


@whole((X, Permission.R, Name.A), (X, Permission.R | Permission.W, Name.B))
def more_enums(x, p, name):
    return (x * int(p), p | Permission.X, Permission.W in p, name == "a", f"{name}", name.value, name.upper(),
        p & 6, Permission(3), sorted(Name))


class Plugin(abc.ABC):
    plugins: typing.ClassVar[dict[str, type]] = {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.plugins[cls.__name__.lower()] = cls

    @classmethod
    def create(cls, name, *args):
        return cls.plugins[name](*args)

    @abc.abstractmethod
    def run(self, x): ...


class Adder(Plugin):
    def __init__(self, by):
        self.by = by

    def run(self, x):
        return x + self.by


@whole((X, 2), (X, 3))
def plugins(x, n):
    return Plugin.create("adder", n).run(x), sorted(Plugin.plugins), issubclass(Adder, Plugin)


@whole((X, "a=1, b=2"), (X, "a=1,c=5"))
def parsing(x, text):
    table = {}
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        table[key] = int(value) if value.isdigit() else value
    return x * table["a"], table, text.rstrip(string.digits), "".join(sorted(set(text) & set("abc")))


@whole((X, [3, 1, 2]), (X, [1, 1]))
def tables(x, values):
    header = f"{'name':<10}|{'value':>8}"
    rows = [f"{'v' + str(i):<10}|{v:>8.2f}" for i, v in enumerate(values)]
    text = "\n".join([header, "-" * len(header), *rows])
    return x + len(text), text, text.count("\n")


@whole((X,))
def mapping_proxies(x):
    m = PROXY
    return x * m["a"], dict(m), m.get("b", 3), list(m.items()), "a" in m, len(m), {**m}


@breaks("operator is not supported for these types", (X, decimal.Decimal("1.5")))
def decimals(x, d):
    y = x + 1
    try:
        e = d * 2
    except TypeError:
        e = None
    return y, e, d == decimal.Decimal("1.5"), d < 3, 2 - d, bool(d), -d


@breaks("operator is not supported for these types", (X, datetime.timedelta(1)), (X, datetime.timedelta(2)))
def objects_of_c_are_compared(x, d):
    y = x + 1
    same = d == datetime.timedelta(1)
    return y * 2 if same else y, d in [datetime.timedelta(2)]


@whole((X, [1]), (X, {}))
def functions_of_c_are_compared(x, v):
    return (x + 1, object.__init__ is object.__init__, object.__setattr__ is not type(v).__setattr__,
        v.__len__ == v.__len__, v.__len__ == [].__len__,
            type(v).__init__ is object.__init__, dict.get is dict.get, len is len, v.copy == v.copy,
            print is not len, torch.add is torch.add)


@whole((X, fractions.Fraction(1, 3)), (X, fractions.Fraction(2, 3)))
def fraction_arithmetic(x, f):
    return x + f.numerator, f + 1, f * f, float(f), f < 1


@whole((X, 5), (X, 6))
def integer_tricks(x, n):
    bits = [(n >> i) & 1 for i in range(4)]
    return (x[:, : n % 3], bits, sum(b << i for i, b in enumerate(bits)), -(-n // 2), n.bit_length() - 1,
        math.ceil(n / 4) * 4, (n + 7) & ~7,
            divmod(n, 4), n if n & 1 else -n, max(0, min(n, 5)), round(n / 3, 2), 2 ** (n - 1), int(n**0.5))


@whole((X, 2, 3), (X, 1, 3))
def shapes(x, heads, n):
    b, c = x.shape
    *lead, last = x.shape
    size = (*x.shape[:-1], 1, -1)
    return (x.view(*size), x.reshape(b, c), x.new_zeros(size[:2]), torch.Size([1, *lead]), math.prod(x.shape),
        x.size()[0] * heads, last, x.expand(heads, *x.shape))


@whole((X, [X, X + 1, X + 2]), (X, [X]))
def lists_of_tensors(x, items):
    items = list(items)
    out = items.pop() if len(items) > 1 else x
    stacked = torch.stack([*items, x])
    acc = functools.reduce(torch.add, items, x)
    evens = items[::2]
    items[0], items[-1] = items[-1], items[0]
    return (out, stacked, acc, evens, [t.shape for t in items], sum(items), max(items, key=lambda t: t.ndim),
        zip(*[(1, 2), (3, 4)]))


@whole((X,), (X + 1,))
def inner_classes_are_used(x):
    point = dataclasses.make_dataclass if False else _Point
    made = point(x * 2)
    match made:
        case _Point(x=inner):
            return inner + 1, made


@breaks("class is defined in the function", (X,))
def classes_in_functions(x):
    y = x * 2

    class Local:
        value = 3

    return y + Local.value


@breaks("object is made by C code", (X,))
def dates(x):
    return x + 1, datetime.timedelta(seconds=3).total_seconds()


@whole((X,))
def signatures(x):
    return x + 1, list(inspect.signature(with_signature).parameters)


@whole((X, 3), (X, 2))
def state_machines(x, steps):
    transitions = {"start": "middle", "middle": "end", "end": "start"}
    state, path = "start", []
    for _ in range(steps):
        path.append(state)
        state = transitions[state]
        match state:
            case "middle":
                x = x + 1
            case "end":
                x = x * 2
            case _:
                x = x - 1
    return x, path, state


@whole((X, {"layers": [{"kind": "linear", "w": X}, {"kind": "act"}], "scale": 2}), (X, {"layers": [], "scale": 3}))
def nested_configurations(x, config):
    for i, layer in enumerate(config["layers"]):
        match layer:
            case {"kind": "linear", "w": w}:
                x = x + w
            case {"kind": str(kind)} if kind in ("act", "relu"):
                x = torch.relu(x)
        layer.setdefault("index", i)
    return x * config.get("scale", 1), [la["index"] for la in config["layers"]]


@whole((X, 4), (X, 0))
def batched(x, n):
    items = iter(range(n))
    batches = []
    while batch := list(itertools.islice(items, 3)):
        batches.append(batch)
    return x + len(batches), batches, [sum(b) for b in batches]


test = programs.test()
