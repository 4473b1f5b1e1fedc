"""Containers, iterators and builtins during capture: each program does what plain Python does, in one region.

A program is a few lines over `x` (a tensor), `d`, `o`, `q` (dict, OrderedDict, defaultdict), `l`, `s` and `n`, which
come from outside. What it does to them, what it returns, and the exceptions that it catches are compared with plain
Python; `fullgraph` holds that nothing of it was left to the original bytecode.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
import textwrap
from typing import Any

import pytest
import torch

import tracer
from tests.support import check_calls

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")  # programs that are wrong on purpose

GLOBALS = {
    "torch": torch, "collections": collections, "itertools": itertools, "operator": operator, "math": math,
    "functools": functools, "OrderedDict": collections.OrderedDict, "defaultdict": collections.defaultdict,
}  # fmt: skip


def function(body: str) -> Any:
    """A function with these lines, in which `r` collects what is returned."""
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    text = f"def program(x, d, o, q, l, s, n):\n    r = []\n{lines}\n    return r, x + 1\n"
    namespace: dict[str, Any] = dict(GLOBALS)
    exec(compile(text, "<program>", "exec"), namespace)
    return namespace["program"]


def inputs() -> tuple[Any, ...]:
    d = {"a": 1, "b": 2, 3: "three", (1, "t"): None}
    o = collections.OrderedDict(a=1, b=2, c=3)
    q = collections.defaultdict(list, a=[1])
    return torch.arange(3.0), d, o, q, [3, 1, 2], {5, 6, 7}, 4


def check(body: str, *, fullgraph: bool = True) -> None:
    check_calls(function(body), inputs(), inputs(), fullgraph=fullgraph)


def caught(expression: str) -> str:
    """Lines that note what the expression gives, or raises."""
    return f"try:\n    r.append({expression})\nexcept Exception as e:\n    r.append((type(e).__name__, e.args))\n"


def chunks(items: list[str], size: int = 12) -> list[list[str]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


EXPRESSIONS = """
d["a"]
d[3]
d[(1, "t")]
d["missing"]
d[7]
"a" in d
"z" in d
"z" not in d
d.get("a")
d.get("z")
d.get("z", x)
len(d)
bool(d)
list(d)
list(d.keys())
list(d.values())
list(d.items())
sorted(d.keys(), key=str)
d == {"a": 1, "b": 2, 3: "three", (1, "t"): None}
d != {"a": 1}
d | {"z": 1, "a": 5}
{"z": 1, "a": 5} | d
dict(d)
dict(d, extra=1)
dict([("p", 1), ("q", 2)])
dict(a=1, b=2)
dict.fromkeys(["p", "q"])
dict.fromkeys("pq", 0)
{k: v for k, v in d.items()}
{1: "one", True: "true", 1.0: "float"}
{**d, "b": 0}
d.copy()
("a", 1) in d.items()
("a", 2) in d.items()
2 in d.values()
"a" in d.keys()
d.keys() & {"a", "z"}
d.keys() | {"z"}
d.keys() - {"a"}
d.keys() ^ {"a", "z"}
{"a", "z"} - d.keys()
d.keys() == {"a", "b", 3, (1, "t")}
d.keys() >= {"a"}
d.keys().isdisjoint(["q"])
list(reversed(d))
list(reversed(d.items()))
o == OrderedDict(a=1, c=3, b=2)
o == {"a": 1, "c": 3, "b": 2}
o | {"z": 9}
{"z": 9} | o
type(o | {"z": 9}).__name__
OrderedDict([("x", 1)])
OrderedDict.fromkeys("ab", 1)
list(o.items())
q["a"]
q["new"]
q.get("other")
q.default_factory
defaultdict(list, {"k": [1]})
defaultdict(int)["k"]
d.pop("a")
d.pop("z", None)
d.pop("zz")
d.setdefault("a", 5)
d.setdefault("y", 5)
d.popitem()
o.popitem(last=False)
o.move_to_end("a")
o.pop("b")
{}.popitem()
d[[1]]
{[1]: 2}
{1: 2} < {2: 3}
{1: 2} + {3: 4}
d + 1
l + (1,)
(1,) + l
l + [x]
l * 2
2 * l
l * 1.5
[1] * [2]
l - 1
l[0]
l[-1]
l[5]
l["a"]
l[1.0]
(1, 2)["a"]
(1, 2)[9]
l[1:]
l[::-1]
l[::0]
l.index(1)
l.index(9)
(1, 2).index(3)
l.index(2, 1)
l.index(3, 1)
l.count(3)
l.pop()
l.pop(0)
l.pop(99)
[].pop()
l.remove(3)
l.remove(99)
l.insert(1, "i")
l.extend("ab")
l.extend(5)
l.sort()
l.sort(key=lambda v: -v, reverse=True)
l.reverse()
l.copy()
l == [3, 1, 2]
l < [3, 2]
l <= (1,)
(1, 2) < (1, 3)
(1, 2) == [1, 2]
(1, 2) == (1, 2, 3)
[x, 1] == [x, 1]
(x, 1) == (x, 1)
3 in l
99 in l
x in [x, l]
sorted(l)
sorted(l, reverse=True)
sorted(l, key=lambda v: (v % 2, v))
sorted(["b", "A", "c"], key=str.lower)
sorted([1, "a"])
sorted([(1, "b"), (1, "a")])
s == {5, 6, 7}
5 in s
9 in s
len(s)
bool(s)
{1, 2} | {2, 3}
{1, 2} & {2, 3}
{1, 2} - {2, 3}
{1, 2} ^ {2, 3}
{1} | [2]
{1} + {2}
{1, 2} < {1, 2, 3}
{1, 2} <= {1}
{1, 2}.issubset([1, 2, 3])
{1, 2}.issuperset([1])
{1, 2}.isdisjoint([3])
{1, 2}.union([3], (4,))
{1, 2}.intersection([2])
{1, 2}.difference([2])
{1, 2}.symmetric_difference([2, 3])
s | {9}
s - {5}
s & {5, 6}
set("hello")
frozenset([1, 2])
frozenset([1, 2]) | {3}
{3} | frozenset([1, 2])
list({3, 1, 2})
list({"b", "a"})
list(set(range(100)) - {3, 50})
[i for i in {10, 3, 99, 7}]
sorted(s)
{frozenset([1]), 2}
frozenset([1]) in {frozenset([1])}
{1} in {frozenset([1])}
{[1]}
s.add(8)
s.discard(5)
s.discard(99)
s.remove(6)
s.remove(99)
s.update([1, 2], (3,))
set().pop()
{4}.pop()
{True, 1, 1.0}
{1: x, 2: x}
set(d)
set(d.items())
"a" + 1
"a" + [1]
1 + "a"
b"a" + [1]
None + 1
1 + [2]
"ab" * 2
"a" < 1
[1] < 2
not []
not d
len(5)
len("abc")
len(x)
len(range(5))
isinstance(1, int)
isinstance(True, (str, int))
isinstance(x, torch.Tensor)
isinstance(x, torch.nn.Parameter)
isinstance(d, collections.abc.Mapping)
isinstance(l, collections.abc.Sequence)
isinstance(l, int | list)
issubclass(bool, int)
type(l)
type(d) is dict
type(x).__name__
callable(len)
callable(5)
callable(lambda: 0)
getattr(x, "shape")
getattr(5, "nothing", 7)
hasattr(x, "shape")
hasattr(5, "nothing")
getattr(5, "nothing")
[*range(5)]
list(range(10, 0, -3))
range(5)[1:3]
3 in range(5)
range(n)
len(range(n))
range("a")
range(1.5)
list(enumerate("ab"))
list(enumerate("ab", 5))
list(enumerate("ab", start=n))
list(zip("ab", [1, 2], (3, 4)))
list(zip("abc", [1, 2]))
list(zip("ab", [1, 2], strict=True))
list(zip("abc", [1, 2], strict=True))
list(zip("a", [1, 2], strict=True))
list(zip("ab", [1, 2], [1], strict=True))
list(zip("ab", [1, 2], [1, 2, 3], strict=True))
list(zip())
list(map(lambda a: a + 1, l))
list(map(operator.add, [1, 2], [3, 4, 5]))
list(map(str, l))
list(filter(None, [0, 1, "", "a"]))
list(filter(lambda v: v > 1, l))
list(reversed(l))
list(reversed((1, 2)))
list(reversed("ab"))
list(reversed(range(4)))
min(l)
max(l)
min(3, 1, 2)
max("a", "b")
max([], default=7)
max([])
min(5)
max(l, key=lambda v: -v)
min("ab", key=len)
sum(l)
sum(l, 10)
sum([0.1] * 10)
sum([0.1, 0.2, 0.3], 0.0)
sum([1, 0.1, 2, 1e100, -1e100])
sum([[1], [2]], [])
sum(["a"])
sum([x, x])
sum([x, 1, 0.5])
sum([0.5, 0.25, x])
any([0, 1])
any([])
all([1, 0])
all([])
all(v > 0 for v in l)
any(v > 9 for v in l)
abs(-5)
abs(-x)
abs("a")
round(2.5)
round(2.567, 2)
divmod(7, 3)
divmod(7, 0)
pow(2, 10)
pow(2, 10, 7)
pow(x, 2)
int("12")
int("z")
int(3.9)
int(True)
int("ff", 16)
float("1.5")
float(n)
bool(n)
bool([])
bool("")
complex(1, 2)
str(n)
str(1.5)
str(l)
str(None)
repr("a")
repr(l)
f"{n} {n:>5} {1.5:.3f} {l} {'a'!r}"
"{} {b}".format(1, b=2)
"%d %s" % (1, "a")
", ".join(str(v) for v in l)
", ".join(["a", "b"])
"a,b".split(",")
"abc".upper()
"abc".startswith("a")
"abc".nothing
"abc"[1]
"abc"[9]
chr(97)
ord("a")
bin(5)
hex(255)
hash("a") == hash("a")
hash((1, 2)) == hash((1, 2))
hash([1])
format(3.14159, ".2f")
slice(1, 2) == slice(1, 2)
l[slice(0, 2)]
math.sqrt(2)
math.sqrt(-1)
math.floor(2.5)
math.prod([1, 2, 3])
math.pi
operator.mul(3, 4)
operator.getitem(l, 0)
operator.itemgetter(1)(l)
operator.itemgetter(0, 2)(l)
operator.attrgetter("ndim")(x)
operator.methodcaller("upper")("a")
operator.contains(l, 3)
operator.not_(l)
operator.iadd([1], [2])
functools.reduce(operator.add, l)
functools.reduce(lambda a, b: a * b, l, 10)
functools.reduce(operator.add, [])
functools.partial(max, 5)(3)
list(itertools.chain([1], "a", (x,)))
list(itertools.chain.from_iterable([[1, 2], [3]]))
list(itertools.islice(itertools.count(3), 4))
list(itertools.islice("abcdef", 1, 5, 2))
list(itertools.islice("abcdef", 4, 2))
list(itertools.repeat(n, 3))
list(itertools.product("ab", [1, 2]))
list(itertools.product([0, 1], repeat=2))
list(itertools.permutations([1, 2, 3], 2))
list(itertools.combinations([1, 2, 3], 2))
list(itertools.combinations_with_replacement([1, 2], 2))
list(itertools.accumulate([1, 2, 3]))
list(itertools.accumulate([1, 2, 3], operator.mul))
list(itertools.accumulate([1, 2], initial=10))
list(itertools.zip_longest("abc", [1], fillvalue=0))
list(itertools.starmap(pow, [(2, 3), (3, 2)]))
list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1]))
list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1]))
list(itertools.filterfalse(lambda v: v < 3, [1, 2, 3, 1]))
list(itertools.pairwise([1, 2, 3]))
list(itertools.compress("abc", [1, 0, 1]))
list(itertools.islice(itertools.cycle("ab"), 5))
next(iter(l))
next(iter([]), "end")
next(iter([]))
list(iter(iter(l).__next__, 2))
iter(5)
tuple(l)
tuple("ab")
list((1, 2))
list("ab")
list(5)
[v for v in x]
d.__len__()
d.__contains__("a")
d.__getitem__("zz")
l.__setitem__(0, x)
dict.get(d, "a")
list.__len__(l)
list.append(l, 5)
dict.__contains__(d, "b")
d.get == d.get
d.get == d.pop
l.append.__name__
l.append.__self__ is l
set.union({1}, {2})
tuple.__contains__((1, 2), 2)
list.__eq__(l, 5)
str.join("-", ["a", "b"])
int.__add__(1, 2)
"%s and %s" % (l, {"a": 1})
"%(a)s" % {"a": 1}
~5
x in [x]
[x].index(x)
list(map(len, ["a", [1], d]))
sorted(d.items(), key=lambda i: str(i[0]))
max(d.values(), key=str)
{k: list(g) for k, g in [(1, (2, 3))]}
(lambda *a, **k: (a, k))(*l, **o)
type(iter(l)).__name__
type(d.items()).__name__
type(o.keys()).__name__
type({}.__len__).__name__
type([].append).__name__
[t.item() if False else t for t in x]
""".strip().splitlines()


@pytest.mark.parametrize("expressions", chunks(EXPRESSIONS), ids=lambda e: e[0][:30])
def test_expressions(expressions: list[str]) -> None:
    check("".join(caught(e) for e in expressions))


#: what is left to the original bytecode: CPython's own error or order, or an object's address
REFUSED = """
l.sort(key=len)
reversed(5)
next(5)
zip(5)
id(l) > 0
dir(l)[:2]
list({x, x + 1})[0] is x
[math.nan] == [float("nan")]
len({math.nan: 1})
int(x[0])
math.sqrt(x[0])
min(x[0], x[1])
"%s" % x
str(x)
bytearray(2)
x[0] in [x[1], 2]
""".strip().splitlines()


@pytest.mark.parametrize("expression", REFUSED)
def test_refused(expression: str) -> None:
    tracer.install()
    with pytest.raises(tracer.GraphBreak):
        tracer.compile(function(f"r.append({expression})"), fullgraph=True, backend="eager")(*inputs())
    check(caught(expression), fullgraph=False)


ITERATORS = """
iter([1, 2, 3])
iter(l)
iter((1, 2, 3))
iter("abc")
iter(range(5))
iter(range(n))
reversed([1, 2, 3])
reversed(l)
reversed((1, 2, 3))
reversed("abc")
reversed(range(4))
iter(d)
iter(d.items())
iter(collections.deque([1, x, 3]))
reversed(collections.deque([1, x, 3], 5))
iter({"a": 1, "b": x}.values())
reversed(d)
reversed({"a": 1, "b": x}.items())
iter(o)
iter(o.items())
iter({3, 1, 2})
iter(s)
enumerate("abc")
enumerate(l, n)
zip("abc", l)
zip("abc", l, strict=True)
map(str, l)
map(operator.add, l, [x, x, x])
filter(None, [0, 1, 2, 3])
iter(iter([1, 2, 3]).__next__, 3)
itertools.chain("ab", l)
itertools.chain.from_iterable(["ab", l, (x,)])
itertools.islice("abcdefgh", 1, 7, 2)
itertools.islice(itertools.count(), 3, None)
itertools.count(5, 2)
itertools.repeat(x)
itertools.repeat(1, 3)
itertools.product("ab", [1, 2])
itertools.permutations(l, 2)
itertools.combinations(l, 2)
itertools.accumulate(l)
itertools.accumulate(l, initial=100)
itertools.accumulate(l, operator.mul)
itertools.zip_longest("abc", [1], fillvalue=x)
itertools.starmap(pow, [(2, 3), (3, 2), (1, 1)])
itertools.takewhile(bool, [1, 2, 0, 1])
itertools.dropwhile(bool, [1, 0, 2, 0, 3])
itertools.filterfalse(bool, [1, 0, 2, 0, 3])
itertools.pairwise([1, 2, 3, 4])
itertools.compress("abcd", [1, 0, 1, 1])
itertools.cycle([1, 2, 3])
enumerate(zip(iter(l), iter(l)))
enumerate(map(str, filter(None, reversed(l))))
""".strip().splitlines()


@pytest.mark.parametrize("steps", [0, 1, 2, 9])
@pytest.mark.parametrize("iterator", ITERATORS)
def test_iterators_are_rebuilt_where_they_were(iterator: str, steps: int) -> None:
    """A break while they are alive: they keep their type, and go on from their place."""
    check(
        f"""
        it = {iterator}
        r.append([next(it, "end") for _ in range({steps})])
        print("break")
        r.append(type(it).__name__)
        r.append(list(itertools.islice(it, 5)))
        """,
        fullgraph=False,
    )


PROGRAMS = {
    "a dict is written and not read": """
        d["new"] = x * 2
        d["a"] = n
        return None
    """,
    "deleted and set again": """
        del d["a"]
        d["a"] = 9
        r.append(list(d))
    """,
    "deleted and set again, unread": """
        v = d.pop("a")
        d["a"] = v
        d["b"] = d.pop(3)
    """,
    "cleared and filled": """
        d.clear()
        d["b"] = 1
        d["a"] = 2
    """,
    "order of an ordered dict": """
        o.move_to_end("a")
        o.move_to_end("c", last=False)
        o["z"] = o.pop("b")
    """,
    "a default dict fills itself": """
        q["a"].append(2)
        q["b"].append(x)
        r.append(q)
    """,
    "a dict that holds itself": """
        d["self"] = d
        e = {"outer": d}
        e["own"] = e
        r.append(e)
    """,
    "lists that hold each other": """
        a, b = [1], [2]
        a.append(b)
        b.append(a)
        r.append(a)
        l.append(a)
    """,
    "a tuple around a list around the tuple": """
        a = []
        t = (a, x)
        a.append(t)
        r.append(a)
    """,
    "aliases": """
        e = d
        e["k"] = l
        d["k"].append(5)
        r.append([e is d, e["k"] is l, e, l])
    """,
    "extended by itself": """
        l += l
        l.extend(v + 1 for v in list(l))
        r.append(len(l))
    """,
    "extended unread": """
        l.append(x)
        l.extend([1, 2])
    """,
    "slices assigned": """
        l[1:2] = [7, 8, 9]
        l[::2] = "abc"
        del l[0], l[1:3]
    """,
    "swapped": """
        l[0], l[2] = l[2], l[0]
        d["a"], d["b"] = d["b"], d["a"]
    """,
    "sets from outside": """
        s.add(1)
        s.discard(5)
        s |= {8, 9}
        s -= {6}
        r.append([sorted(s), min(s), max(s), sum(s), any(s), all(s), set(s) == s, len(s)])
    """,
    "a set is written and not read": """
        s.add(1)
        s.add(7)
        s.discard(5)
        s.update([10, 11])
    """,
    "sets made inside keep CPython's order": """
        a = set()
        for i in (40, 8, 16, 3, 24, 100):
            a.add(i)
        a.discard(16)
        a.add(5)
        b = a | {7, 300}
        c = (b - {3}) ^ {8, 1}
        r.append([list(a), list(b), list(c), a.pop(), list(a), a, b, c])
    """,
    "sets of strings": """
        a = {w.strip() for w in "the quick brown fox jumps over the lazy dog".split()}
        r.append([list(a), a, list(a & {"fox", "dog", "cat"}), list(set(d) | a if False else a)])
    """,
    "changed while iterated": """
        try:
            for k in d:
                d[k, 1] = 1
        except RuntimeError as e:
            r.append(e.args)
        for k in d:
            d[k] = x
        try:
            a = {1, 2}
            for v in a:
                a.add(v + 100)
        except RuntimeError as e:
            r.append(e.args)
    """,
    "a list that grows while it is iterated": """
        for v in l:
            if len(l) < 8:
                l.append(v + 1)
    """,
    "a list that shrinks while it is iterated": """
        a = [1, 2, 3, 4, 5]
        for v in a:
            a.remove(v)
        r.append(a)
    """,
    "views show what the dict holds": """
        k, v, i = d.keys(), d.values(), d.items()
        d["new"] = 1
        r.append([list(k), list(v), list(i), len(k), "new" in k])
        r.append([k, v, i])
    """,
    "star arguments": """
        def g(*args, **kwargs):
            return args, kwargs
        r.append(g(*l, *"ab", **{"k": x}, **o))
    """,
    "unpacking": """
        a, *b, c = l
        (p, q1), w = [(1, 2), 3]
        r.append([a, b, c, p, q1, w])
    """,
    "named tuples": """
        P = collections.namedtuple
        y = torch.max(x, 0)
        r.append([y.values, y.indices, y[0], len(y)])
        r.append(x.shape + (1,))
        r.append(x.shape[0:1])
        r.append(x.shape.numel())
    """,
    "counters that are only counted": """
        d["a"] = d["a"] + 1
        d["text"] = str(d["a"])
    """,
    "zip from the same iterator": """
        it = iter([1, 2, 3, 4, 5])
        r.append(list(zip(it, it)))
        r.append(list(it))
    """,
    "a generator in all kinds of calls": """
        r.append(sorted(v for v in l))
        r.append(dict((v, v * x) for v in l))
        r.append(max(v for v in l))
        r.append({v % 2 for v in l})
        r.append(tuple(v for v in l))
        r.append(any(v == 1 for v in l))
    """,
    "setdefault as people use it": """
        for v in l:
            d.setdefault("all", []).append(v)
        r.append(d["all"])
    """,
    "what happened before an error stays": """
        def items(log, *values):
            for v in values:
                log.append(v)
                yield v
        log = []
        for act in (
            lambda: sum(items(log, 1, 2, "a", 3)),
            lambda: max(items(log, 1, "a", 3)),
            lambda: min(items(log, 1, 5, "a", 3), key=lambda v: v + 0),
            lambda: sorted(items(log, 1, "a", 3)),
            lambda: s.update(items(log, 11, [2], 3)),
            lambda: s.difference_update(items(log, 11, {2}, 3)),
            lambda: s.intersection_update(items(log, 11, {2}, 3)),
            lambda: l.extend(items(log, 11, l.nothing, 3)),
            lambda: d.update(items(log, (1, 2), ([3], 4), (5, 6))),
            lambda: any(items(log, 0, 1, 2)),
            lambda: all(items(log, 1, 0, 2)),
            lambda: functools.reduce(operator.add, items(log, 1, "a", 3)),
            lambda: dict(items(log, (1, 2), ([3], 4), (5, 6))),
            lambda: 2 in iter([1, 2, 3]),
            lambda: l.sort(),
        ):
            try:
                r.append(act())
            except Exception as e:
                r.append((type(e).__name__, e.args))
        r.append([log, sorted(s)])
    """,
    "deques": """
        c = collections.deque([1, 2, x], maxlen=3)
        c.append(4)
        c.appendleft(0)
        c.rotate(1)
        e = collections.deque("abc")
        e.extend("de")
        e.extendleft("xy")
        r.append([c, e, e.popleft(), e.pop(), len(e), e[1], "b" in e, list(e), c.maxlen, e.maxlen, e.index("c")])
        r.append([c + c, e * 2, e == collections.deque(e), e.count("a"), list(reversed(e)), bool(e), e.copy()])
        e.insert(1, "i")
        e.remove("b")
        e[0] = 7
        del e[1]
        e.reverse()
        e += "zz"
        e.extend(e)
        for act in (lambda: e[99], lambda: e[1:2], lambda: e.remove(5), lambda: collections.deque().pop(),
                    lambda: hash(e), lambda: c.insert(0, 1), lambda: [c.append(v) for v in c]):
            try:
                r.append(act())
            except Exception as error:
                r.append((type(error).__name__, error.args))
        r.append([e, c])
    """,
    "identity": """
        a, b = [1], [1]
        r.append([a is b, a is a, d is d, None is None, x is x, l is not s, () is ()])
    """,
    "copy": """
        import copy
        r.append([copy.copy(l), copy.deepcopy([1, 2]), copy.copy(d), copy.copy((1, x))])
    """,
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    check(PROGRAMS[name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_a_break(name: str) -> None:
    """What was made before the break is rebuilt there, and what comes after it is captured anew."""
    check(PROGRAMS[name] + "\n        print('break')\n        d['after'] = len(l)\n", fullgraph=False)
