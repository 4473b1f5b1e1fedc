"""Functions and calls as people write them: each program is one graph, and does what plain Python does.

PYTEST_DONT_REWRITE: the programs' own assert statements must stay as they are written.
"""

from __future__ import annotations

import builtins
import copy
import functools
import heapq
import itertools
import json
import logging
import math
import operator
import re
import string
import textwrap
import types

import torch

import tracer
from tests.tracer.python_programs import Programs

programs = Programs()
whole, breaks = programs.whole, programs.breaks
X = torch.arange(6.0).reshape(2, 3)


# arguments --------------------------------------------------------------------------------------------------------
def positional_only(a, b=2, /, c=3, *, d=4, **kwargs):
    return a * b + c - d + sum(kwargs.values())


@whole((X, {"e": 1}), (X, {"e": 2, "f": 3}), (X, {}))
def all_kinds_of_arguments(x, more):
    args = (x, 2)
    return (positional_only(x), positional_only(*args), positional_only(*args, 5, d=1, **more), positional_only(x,
        1, c=2),
            (lambda *a, k=1, **kw: (len(a), k, kw))(1, 2, z=3))


@whole((X, {f"k{i}": i for i in range(40)}))
def big_kwargs(x, kwargs):
    def f(**kw):
        return x * sum(kw.values()), list(kw)

    return f(**kwargs, extra=1)


def with_defaults(x, scale=2, shift=[0]):
    shift.append(1)
    return x * scale + len(shift)


def test_defaults_are_guarded() -> None:
    tracer.install()

    def f(x):
        return with_defaults(x)

    compiled = tracer.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X * 2 + 2)
    assert torch.equal(compiled(X), X * 2 + 3)
    with_defaults.__defaults__ = (5, [])
    assert torch.equal(compiled(X), X * 5 + 1)
    assert torch.equal(compiled(X), X * 5 + 2)


def make_counter(start):
    count = start

    def step(by=1):
        nonlocal count
        count += by
        return count

    return step


@whole((X, 0), (X, 5), (X, 0))
def closures(x, start):
    counter = make_counter(start)
    a = counter()
    b = counter(3)
    inner = make_counter(a)
    return x * a + b + inner(), inner, [f(x) for f in [lambda t, i=i: t + i for i in range(3)]]


@whole((X,))
def late_binding(x):
    fs = [lambda t: t + i for i in range(3)]
    return [f(x) for f in fs]


def traced_calls(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return fn(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


def scaled(by):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(x):
            return fn(x) * by

        return wrapper

    return decorate


@scaled(3)
@scaled(2)
def decorated(x):
    """Doc."""
    return x + 1


@whole((X,))
def decorators(x):
    return decorated(x), decorated.__name__, decorated.__doc__, decorated.__wrapped__(x)


class Timed:
    """A decorator that is a class."""

    def __init__(self, fn):
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.calls = 0

    def __call__(self, *args):
        self.calls += 1
        return self.fn(*args)


TIMED = Timed(lambda x: x + 1)


@whole((TIMED, X))
def class_decorator(timed, x):
    return timed(x), timed.calls


@functools.lru_cache(maxsize=None)
def cached_table(n, base=2):
    return [base**i for i in range(n)]


@functools.cache
def cached_number(n):
    return n * 10


@whole((X, 3), (X, 4), (X, 3))
def lru_cached(x, n):
    return x * cached_number(n) + cached_table(n)[-1], cached_table(2, base=3)


@whole((X, 2), (X, 3))
def partials(x, n):
    add = functools.partial(torch.add, x, alpha=n)
    power = functools.partial(pow, 2)
    nested = functools.partial(functools.partial(operator.sub, 10), 3)
    return (add(x), power(n), nested(), add.func is torch.add, add.keywords,
        list(map(functools.partial(operator.mul, n), [1, 2])))


@functools.singledispatch
def describe(value, x):
    return x


@describe.register
def _(value: int, x):
    return x + value


@describe.register(list)
def _(value, x):
    return x * len(value)


@whole((X,))
def single_dispatch(x):
    return describe(1, x), describe([1, 2], x), describe("a", x)


class Ops:
    base = 2

    @staticmethod
    def double(x):
        return x * 2

    @classmethod
    def scaled(cls, x):
        return x * cls.base

    @functools.cached_property
    def weights(self):
        return torch.ones(3)

    def method(self, x):
        return x + 1

    twice = functools.partialmethod(method)


class MoreOps(Ops):
    base = 5

    @classmethod
    def scaled(cls, x):
        return super().scaled(x) + 1


@whole((MoreOps(), X))
def kinds_of_methods(o, x):
    bound = o.method
    return (o.double(x), Ops.double(x), o.scaled(x), MoreOps.scaled(x), Ops.scaled(x), bound(x), Ops.method(o, x),
        o.weights * x,
            o.weights is o.weights, o.twice(x), bound == o.method, getattr(o, "method")(x), bound.__self__ is o)


@whole((X, 5))
def recursion(x, n):
    def factorial(k):
        return 1 if k <= 1 else k * factorial(k - 1)

    def flatten(items):
        for item in items:
            if isinstance(item, (list, tuple)):
                yield from flatten(item)
            else:
                yield item

    return x * factorial(n), list(flatten([1, [2, (3, [4])]]))


# generators consumed inside -----------------------------------------------------------------------------------------
def pairs(items):
    previous = None
    for item in items:
        if previous is not None:
            yield previous, item
        previous = item
    return "done"


def delegating(items):
    result = yield from pairs(items)
    yield result


@whole((X, 4), (X, 2), (X, 4))
def generators(x, n):
    items = [x * i for i in range(n)]
    return (sum(a * b for a, b in pairs(items)), any(i > 2 for i in range(n)), all(i < 3 for i in range(n)),
            tuple(i for i in range(n)), dict((str(i), i) for i in range(n)), ",".join(str(i) for i in range(n)),
            set(i % 2 for i in range(n)), max((i for i in range(n)), default=0), sorted(-i for i in range(n)),
            list(delegating(range(n)))[-1], [*(i for i in range(n))], next(i for i in range(n) if i),
            len([*pairs(items)]),
            list(zip((i for i in range(3)), pairs(items))), min(-i for i in range(n)))


@whole((X,))
def sending(x):
    def accumulate():
        total = 0
        while True:
            value = yield total
            if value is None:
                return
            total = total + value

    g = accumulate()
    next(g)
    a = g.send(x)
    b = g.send(2)
    g.close()
    return a, b


@whole((X, 3))
def comprehensions(x, n):
    grid = [[i * j for j in range(i)] for i in range(n)]
    flat = [v for row in grid for v in row if v]
    table = {k: v for k, v in zip("abc", range(n))}
    unique = {v % 2 for v in flat}
    return (x * sum(flat), grid, table, unique, {**table, "d": x}, [y := 5, y**2],
        [i for i in range(3) if (j := i * 2) > 1], j)


# builtins -----------------------------------------------------------------------------------------------------------
@whole(([3, 1, 2], X), ([3, 1, 2, 5], X), ([9, 3, 1], X))
def reductions(values, x):
    words = ["bb", "a", "ccc"]
    return (x * max(values), min(values, key=lambda v: -v), max(words, key=len), min([], default=None), max(3, 1,
        key=lambda v: -v),
            sum(values, start=1), sum([[1], [2]], []), any(v > 8 for v in values), all(values), sorted(values,
            reverse=True),
            sorted(words, key=len), sorted([(2, "a"), (1, "b")]), sorted(words, key=str.lower, reverse=True),
            sorted({"b": 1, "a": 2}.items(), key=operator.itemgetter(1)), sum(float(v) for v in values),
            max(zip(values, words)), list(reversed(values)), divmod(values[0], 2), round(2.5), round(2.675, 2),
            abs(-3), pow(2, 3, 5))


@whole(([1, 2, 3], X), ([4, 5, 6], X))
def iteration_tools(values, x):
    return (x + values[0], list(enumerate(values, 1)), list(zip(values, "abc", strict=True)), list(map(lambda a,
        b: a + b, values, values)),
            list(filter(None, [0, 1, 2])), list(range(10, 0, -3)), [*iter(values)], list(itertools.chain(values,
            [0])),
            list(itertools.islice(itertools.count(2, 3), 4)), list(itertools.accumulate(values)),
            list(itertools.pairwise(values)),
            [(k, list(g)) for k, g in itertools.groupby([1, 1, 2], key=lambda v: v)], list(itertools.product([0,
            1], repeat=2)),
            list(itertools.combinations(values, 2)), list(itertools.permutations(values, 2))[:3],
            list(itertools.zip_longest(values, [1])),
            list(itertools.starmap(operator.add, [(1, 2)])), list(itertools.takewhile(lambda v: v < 3, values)),
            list(itertools.repeat(1, 2)), [next(c) for c in [itertools.cycle([1, 2])] for _ in range(3)],
            list(itertools.filterfalse(lambda v: v % 2, values)), list(itertools.compress(values, [1, 0, 1])),
            list(itertools.combinations_with_replacement([1, 2], 2)), list(itertools.chain.from_iterable([[1], [2]])),
            list(itertools.dropwhile(lambda v: v < 2, values)), functools.reduce(operator.mul, values, 1))


@whole(([1, 2], [3], X))
def zip_strict_fails(a, b, x):
    try:
        list(zip(a, b, strict=True))
    except ValueError as error:
        return x + 1, str(error)


@whole(([5, 3, 8], X), ([1, 3, 8, 0], X))
def heaps(values, x):
    heap = list(values)
    heapq.heapify(heap)
    heapq.heappush(heap, 4)
    smallest = heapq.heappop(heap)
    return (x + smallest, heap, heapq.nlargest(2, values), heapq.nsmallest(2, values, key=lambda v: -v),
        heapq.heappushpop(heap, 1))


@whole((X, 3), (X, 4))
def operators(x, n):
    return (operator.add(x, n), operator.itemgetter(0, 1)([5, 6]), operator.attrgetter("shape")(x),
        operator.methodcaller("sum")(x),
            operator.matmul(x, x.T), operator.neg(n), operator.truth([n]), operator.lt(n, 4), operator.index(n),
            operator.contains([n], n),
            operator.iadd([1], [2]), operator.is_(n, None), operator.getitem([1, 2], 0), operator.xor(n, 1),
            operator.concat([1], [2]),
            operator.countOf([1, 1], 1), operator.not_(n), operator.attrgetter("T.ndim")(x))


@whole(("Hello World", X), ("abc def", X), ("Hello World", X + 1))
def strings(s, x):
    return (x + len(s), s.upper(), s.lower().split(), s.replace("o", "0"), s[::-1], s.startswith(("He", "ab")),
        s.find("o"), s.partition(" "),
            s.title(), s.center(20, "*"), s.zfill(15), s.encode(), s.isalpha(), "-".join(s.split()), f"{s!r:>20}",
            f"{x.shape[0]:03d}",
            "%s-%d" % (s, 3), "{0}{a}".format(s, a=1), s.count("l"), s * 2, "H" in s, s.strip("Hd"),
            s.translate(str.maketrans("o", "0")),
            s.casefold(), s.rsplit(maxsplit=1), s.splitlines(), s.removeprefix("He"), s.expandtabs(), s.swapcase(),
            s.isidentifier(),
            "a{:.2f}b{:>5}".format(math.pi, "x"), s.format_map({}), ord(s[0]), chr(97), ascii("é"),
            s.index("e") if "e" in s else -1,
            string.ascii_letters[:3], textwrap.dedent("  a"))


@whole((b"abc", X), (b"abcd", X))
def byte_strings(b, x):
    return (x + len(b), b.decode(), b[0], b[1:], b.hex(), b + b"x", b.startswith(b"a"), bytes([1, 2]), list(b),
        b"%d" % 3, int.from_bytes(b, "big"), (5).to_bytes(2, "little"), b.split(b"b"))


PATTERN = re.compile(r"layer\.(\d+)\.(?P<name>\w+)")


@whole(("layer.3.weight", X), ("layer.12.bias", X), ("other", X))
def regular_expressions(name, x):
    m = PATTERN.match(name)
    if m is None:
        return x - 1, re.search("z", name)
    index = int(m.group(1))
    return (x * index, m["name"], m.groups(), m.groupdict(), m.span(), re.sub(r"\d+", "N", name),
        re.findall(r"\w+", name), bool(m),
            PATTERN.sub("q", name), re.split(r"\.", name), m.start(1), [f.group() for f in re.finditer("e", name)],
            PATTERN.pattern,
            re.fullmatch("a", "a") is not None, re.compile("a+").findall("aab"))


class Named:
    def __init__(self):
        self.seen = []

    def __call__(self, match):
        self.seen.append(match["name"])
        return match["name"].upper() * len(self.seen)


@whole(("layer.3.weight layer.12.bias", X), ("encoder", X), ("", X), ("layer.3.weight layer.12.bias", X))
def replacements_by_functions(name, x):
    named = Named()
    more = re.sub(r"\d+", lambda match: str(int(match[0]) + 1), name)
    return (x + len(more), more, PATTERN.sub(named, name), PATTERN.subn(named, name, 1), named.seen,
            re.subn(b"[Ea]*", lambda match: b"<%d>" % match.end(), name.encode(), count=3, flags=re.IGNORECASE))


@whole((2.5, X), (-1.5, X), (math.inf, X), (0.0, X), (-0.0, X), (math.nan, X))
def maths(v, x):
    return (x * v, math.isnan(v), math.isinf(v), math.copysign(1.0, v), math.hypot(3, 4), math.isclose(v, 2.5),
        math.fabs(v), math.gcd(12, 18),
            math.comb(5, 2), math.log2(8), math.prod([2, 3]), math.fsum([0.1] * 10), math.degrees(math.pi),
            math.factorial(5), math.ceil(2.1),
            math.trunc(-2.7), math.sqrt(16), math.exp(0), math.dist([0, 0], [3, 4]), v == v, v != v, v < 1, str(v),
            math.isqrt(17), math.tau)


@whole((10**30, X), (10**31, X), (-(2**70), X))
def big_integers(n, x):
    return (x + n % 7, n * n, n >> 3, n.bit_length(), str(n), n // 10**20, -n, hash(n) == hash(n), n > 2**64,
        [n][0], int(str(n)), (n).bit_count())


@whole((1 + 2j, X), (2 - 1j, X))
def complex_numbers(z, x):
    return x * z, z.real, z.imag, z.conjugate(), abs(z), z * 2j, z == z, complex(1, 2), (1j) ** 2, str(z), -z, bool(z)


@whole((0.0, X), (-0.0, X), (0.0, X))
def signed_zero(v, x):
    return x * v, v, [v], {"z": v}, 1.0 if math.copysign(1, v) > 0 else -1.0, v == 0


@whole((math.nan, X), (1.0, X), (math.nan, X))
def nan_is_not_itself(v, x):
    return (x + 1, v == v, v != v, v in [1.0], max(1.0, v), min(v, 1.0), [v] == [1.0], v > 0, bool(v),
        {v: 1} if v == v else {})


@whole((5, X), (6, X))
def numbers(n, x):
    return (x + n, n.bit_length(), (2.5).is_integer(), (0.5).as_integer_ratio(), n.numerator, float("1e3"),
        int("ff", 16), int(3.9), 7 // -2, -7 % 3,
            2**-1, 0x10, 1_000, n & 3, n | 8, n ^ 1, ~n, n << 2, True + 1, 5 / 2, float(n).hex(), bin(n), hex(n),
            oct(n), round(n, -1), n.real, int(True))


# copying ------------------------------------------------------------------------------------------------------------
class Config:
    def __init__(self, n):
        self.n = n
        self.items = [1, [2]]
        self.table = {"a": n}
        self.me = self


@whole((Config(2), X), (Config(3), X))
def copies(c, x):
    d = copy.copy(c)
    d.n += 1
    e = copy.deepcopy(c)
    e.items[1].append(x)
    return (x * d.n, d, e, d.items is c.items, e.items is c.items, e.me is e, copy.copy([1, x]),
        copy.deepcopy({"a": [1, 2]}), copy.copy({1: 2}),
            copy.deepcopy((1, [2])), copy.copy("a"), copy.deepcopy(c.table) is c.table)


@whole(({"a": [X]}, X))
def deep_copy_with_tensors(d, x):
    e = copy.copy(d)
    e["b"] = x
    return e, e["a"] is d["a"], x + 1


# statements ---------------------------------------------------------------------------------------------------------
@whole(({"kind": "linear", "size": 3}, X), ({"kind": "conv", "k": [1, 2]}, X), ([1, 2, 3], X), ((1, "a"), X), (5,
    X), (None, X), ("s", X), (1.5, X))
def pattern_matching(v, x):
    match v:
        case {"kind": "linear", "size": n}:
            return x * n
        case {"kind": "conv", **rest}:
            return x, rest
        case [first, *others] if first == 1 and len(others) > 1:
            return x + first, others
        case (int() as n, str(s)):
            return x, n, s
        case int(n) | float(n):
            return x * n
        case None | "none":
            return x - 1
        case _:
            return x, "other"


@whole((X, [1, 2, 3, 4]), (X, [5, 6]))
def unpacking(x, items):
    first, *middle, last = items
    (a, b), c = (first, last), 3
    *start, end = "abc"
    if (n := len(items)) > 2:
        x = x * n
    d = [*items, *middle]
    e = {**{"a": 1}, **{"a": 2, "b": x}}
    x, y = x + 1, x
    print_me = f"{n=} {first!r:>3}"
    return x, y, middle, a, b, c, start, end, d, e, print_me


TOTAL = 0
NAMES: list[str] = []


@whole((X, 1), (X, 2), (X, 1))
def global_names(x, n):
    global TOTAL
    TOTAL += n
    NAMES.append(str(n))
    return x * TOTAL, len(NAMES)


@whole((X, [1, 2, 3], {"a": 1, "b": 2}))
def deleting(x, items, table):
    y = x
    del y
    del items[0], table["a"]
    del items[-1:]
    try:
        return y  # noqa: F821
    except UnboundLocalError as error:
        return x + len(items), table, str(error)


@whole((X, 3), (X, -1), (X, 3))
def assertions(x, n):
    try:
        assert n > 0, f"n must be positive, not {n}"
    except AssertionError as error:
        return x - 1, str(error), error.args
    assert isinstance(x, torch.Tensor)
    return x * n


def test_a_failing_assertion() -> None:
    from tests.support import check

    def f(x, n):
        y = x + 1
        assert n > 0, f"n is {n}"
        return y

    check(f, X, -1)
    check(f, X, 1)


def test_a_global_whose_name_is_no_identifier() -> None:
    """As pytest makes them for assert statements."""
    namespace = {"@scale": 3}

    def f(x):
        return x * scale  # type: ignore[name-defined]  # noqa: F821

    names = tuple("@scale" if name == "scale" else name for name in f.__code__.co_names)
    fn = types.FunctionType(f.__code__.replace(co_names=names), namespace)
    tracer.install()
    compiled = tracer.compile(fn, backend="eager", fullgraph=True, inplace=False)
    for value in (3, 4):
        namespace["@scale"] = value
        assert torch.equal(compiled(X), X * value)


@whole((X, "sqrt"), (X, "floor"), (X, "sqrt"))
def conditional_imports(x, name):
    import math as m
    from collections import OrderedDict

    if name == "sqrt":
        from math import sqrt as f
    else:
        from math import floor as f
    try:
        import tomllib  # noqa: F401

        found = True
    except ImportError:
        found = False
    return x * f(9.5), m.pi, OrderedDict(a=1), found


@breaks("import is run", (X,))
def missing_import(x):
    try:
        import not_there_at_all  # type: ignore[import-not-found]
    except ImportError as error:
        return x + 1, str(error), not_there_at_all if False else None


@whole((3, X), (7, X), (12, X))
def chained_comparison(n, x):
    return x if 1 < n <= 5 else x * 2 if 5 < n < 10 != n else x * 3, 1 < n < 5 > 2, n == n == n, n in [3] is not None


@whole((X, 3), (X, 0), (X, 5))
def loops(x, n):
    total = 0
    for i in range(n):
        if i == 4:
            break
        if i == 1:
            continue
        total += i
    else:
        total += 100
    while n > 0:
        n -= 2
    else:
        total += 1
    return x + total, n


@whole((X, 1), (X, 0), (X, "a"))
def exceptions(x, v):
    log = []
    try:
        try:
            y = 1 // v
        except ZeroDivisionError as error:
            log.append(str(error))
            raise ValueError("zero") from error
        else:
            log.append("fine")
        finally:
            log.append("finally")
    except ValueError as error:
        return x + 1, log, type(error.__cause__).__name__, error.__cause__.args
    except TypeError as error:
        return x + 2, log, type(error).__name__
    return x * y, log


@whole((X, "a"), (X, "b"), (X, "a"))
def dispatch_tables(x, name):
    table = {"a": torch.sin, "b": lambda t: t * 2}
    methods = {"a": "sum", "b": "mean"}
    return table[name](x), getattr(x, methods[name])(), getattr(torch, "relu" if name == "a" else "tanh")(x)


@whole((X, 1), (X, 2))
def json_texts(x, n):
    text = json.dumps({"n": n, "l": [1, 2.5, None, True]}, sort_keys=True)
    return x * json.loads(text)["n"], text


LOGGER = logging.getLogger("tests.quiet")
LOGGER.setLevel(logging.WARNING)


@whole((X,))
def quiet_logging(x):
    LOGGER.debug("value %s", 3)
    if LOGGER.isEnabledFor(logging.DEBUG):
        print("never")
    LOGGER.info("another")
    return x + 1


@whole((X, slice(0, 1)), (X, slice(1, 2)))
def slices(x, s):
    return x[s], [1, 2, 3][s], s.start, s == slice(0, 1), s.indices(5), slice(None)


@whole((X, [3, 1, 2]), (X, [3]))
def list_methods(x, items):
    items = items.copy()
    items.sort(key=lambda v: -v)
    items.insert(0, 9)
    items.extend([5, 5])
    items.remove(5)
    items.reverse()
    return (x + items.pop(), items, items.index(3), items.count(5), items[1:-1], items + [1], items * 2, [] == [],
        [1] < [2], 9 in items)


@whole((X, {"a": 1, "b": 2}), (X, {"b": 1}))
def dict_methods(x, d):
    d.setdefault("c", x)
    d.update({"e": 1}, f=2)
    gone = d.pop("b", None)
    keys = d.keys() & {"a", "e"}
    return (x * d.get("a", 5), gone, sorted(keys), list(d.items())[0], d | {"z": 1}, dict.fromkeys("ab", 0),
        "a" in d, len(d), {v: k for k, v in d.items() if k == "f"},
            d.popitem()[0], list(reversed(d)), d == d, dict(zip("ab", [1, 2])), dict([("q", 1)]))


@whole((X, {1, 2}), (X, {3}))
def set_methods(x, s):
    s = set(s)
    s.add(5)
    s |= {7}
    s.discard(1)
    return (x + len(s), sorted(s), s & {5}, s - {5}, s ^ {9}, s <= {2, 3, 5, 7}, frozenset([1]) | {2}, 5 in s,
        s.isdisjoint({8}), sorted(s.union([9], [10])))


@whole((X,))
def builtin_types(x):
    return (x + 1, type(x) is torch.Tensor, type(3) is int, type([]).__name__, isinstance(True, int),
        issubclass(bool, int), callable(len), hasattr(x, "shape"),
            type(None), isinstance(3, (str, int)), isinstance("a", str | int), bool([]), int.__name__,
            type(x).__name__, builtins.len([1]), object() is not None)


@whole((X, 3))
def variables(x, n):
    y = n + 1
    inner = vars(Config(n))
    return x * y, sorted(inner), inner["n"]


@breaks("names of a namespace are listed", (X, 3))
def local_names(x, n):
    return x + 1, sorted(locals())


@whole((X, 2), (X, 3))
def try_else_return(x, n):
    for i in range(5):
        try:
            if i == n:
                return x * i
        finally:
            x = x + 1
    return x


test = programs.test()
