"""Functions of every kind, odd on purpose, each with a way to run it whose outcome can be compared."""
# ruff: noqa

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

log: list[Any] = []


class Case(NamedTuple):
    name: str
    function: types.FunctionType
    run: Callable[[types.FunctionType], Any]


CASES: list[Case] = []


def case(run: Callable[[Any], Any]) -> Callable[[types.FunctionType], types.FunctionType]:
    def register(function: types.FunctionType) -> types.FunctionType:
        CASES.append(Case(function.__name__, function, run))
        return function

    return register


def calls(*arguments: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Run with each tuple of arguments, one after the other."""
    return lambda function: [attempt(lambda given=given: function(*given)) for given in arguments]


def attempt(thunk: Callable[[], Any]) -> Any:
    """What a call gives, or all that can be seen of the exception it raises."""
    log.clear()
    try:
        result = thunk()
    except BaseException as error:
        return ("raised", describe(error), list(log))
    return ("returned", result, list(log), sys.exc_info())


def describe(error: BaseException | None) -> Any:
    if error is None:
        return None
    # 3.11 fuses instructions while it runs, and then shows the columns of the first one: only there none are compared.
    columns = sys.version_info >= (3, 12)
    frames = [
        (f.name, f.lineno, columns and (f.colno, f.end_colno)) for f in traceback.extract_tb(error.__traceback__)[1:]
    ]
    inner = [describe(e) for e in error.exceptions] if isinstance(error, BaseExceptionGroup) else None
    chain = describe(error.__context__), describe(error.__cause__), error.__suppress_context__
    return type(error).__name__, str(error), frames, inner, chain


class Manager:
    def __init__(self, name: str, swallow: bool = False) -> None:
        self.name, self.swallow = name, swallow

    def __enter__(self) -> Manager:
        log.append(("enter", self.name))
        return self

    def __exit__(self, kind: Any, error: Any, tb: Any) -> bool:
        log.append(("exit", self.name, kind, str(error)))
        return self.swallow

    async def __aenter__(self) -> Manager:
        await asyncio.sleep(0)
        return self.__enter__()

    async def __aexit__(self, kind: Any, error: Any, tb: Any) -> bool:
        await asyncio.sleep(0)
        return self.__exit__(kind, error, tb)


def boom(error: BaseException) -> Any:
    raise error


class Box:
    """Attributes, methods and items that log what is done to them."""

    def __init__(self, value: Any = 0) -> None:
        self.value = value
        self.items: dict[Any, Any] = {}

    def add(self, *values: Any, **named: Any) -> Box:
        log.append(("add", self.value, values, named))
        self.value += sum(values) + sum(named.values())
        return self

    def __getitem__(self, key: Any) -> Any:
        log.append(("get", str(key)))
        return self.items.get(key, 7)

    def __setitem__(self, key: Any, value: Any) -> None:
        log.append(("set", str(key)))
        self.items[key if not isinstance(key, slice) else str(key)] = value

    def __repr__(self) -> str:
        return f"Box({self.value}, {self.items})"

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]


@case(calls((3, 4), (0, 1), (-5, 2)))
def arithmetic(a, b):
    c = a + b * 2 - (a // (b or 1))
    c += 1
    d = -c if c > 3 else ~c
    return c, d, a < b <= c, not c, a is b, a in (1, b)


@case(calls((5,), (0,)))
def loops(n):
    total = 0
    for i in range(n):
        if i == 1:
            continue
        for j in range(i):
            if j == 2:
                break
            total += i * j
        else:
            total += 100
    while total > 3:
        total -= 7
        if total == 5:
            break
    else:
        total = (total, "else")
    return total


@case(calls((3,), (0,)))
def maybe_unbound(n):
    for i in range(n):
        last = i
    if n > 2:
        del i
        other = 1
    return last, other, i


@case(calls((True,), (False,)))
def deleted(flag):
    x = 1
    if flag:
        del x
    try:
        return x
    except UnboundLocalError as error:
        log.append(str(error))
        x = 5
    return x


@case(calls((0,), (1,), (2,), (3,), (4,)))
def handlers(kind):
    result = []
    try:
        try:
            if kind == 0:
                boom(KeyError("zero"))
            elif kind == 1:
                boom(ValueError("one"))
            elif kind == 2:
                return "early"
            elif kind == 3:
                raise TypeError("three") from ValueError("cause")
            result.append("body")
        except KeyError as error:
            result.append(("handled", str(error), str(sys.exc_info()[1])))
            try:
                boom(IndexError("in handler"))
            except IndexError as second:
                result.append((str(second.__context__), str(sys.exc_info()[1])))
            result.append(str(sys.exc_info()[1]))
        except ValueError:
            result.append(str(sys.exc_info()[:2]))
            raise
        else:
            result.append("else")
        finally:
            result.append(("finally", str(sys.exc_info()[1])))
            log.append(list(result))
    except TypeError as error:
        result.append(describe(error)[:2])
    return result, sys.exc_info()


@case(calls((0,), (1,), (2,), (3,)))
def finally_in_loop(kind):
    seen = []
    for i in range(4):
        try:
            if i == kind:
                if kind == 1:
                    continue
                if kind == 2:
                    break
                return seen
            seen.append(i)
        finally:
            seen.append(("f", i))
    return seen


@case(calls((None,), (KeyError,), (ValueError,)))
def with_blocks(kind):
    error = kind and kind("e")
    with Manager("a") as a, Manager("b", swallow=isinstance(error, KeyError)) as b:
        log.append((a.name, b.name))
        for i in range(2):
            with Manager(f"c{i}"):
                if i == 1 and error is not None:
                    raise error
        log.append("done")
    return "after", a.name


@case(calls((1,), (2,), (3,)))
def groups(kind):
    try:
        if kind == 1:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(3)])
        if kind == 2:
            raise ValueError("plain")
    except* ValueError as part:
        log.append(("values", [str(e) for e in part.exceptions]))
    except* KeyError:
        log.append("keys")
    return "end"


@case(calls((4, 2),))
def nested_calls(a, b):
    box = Box(a)
    box.add(b, box.add(1, x=b).value, y=max(a, box.add(b if a else a).value)).add(*[1, 2], **{"z": 3})
    return box, str(box.value).zfill(4), "{}-{}".format(a, b if a > b else box.add(len([a])).value)


@case(calls(([3, 1, 2],), ([],)))
def comprehensions(xs):
    squares = [x * x for x in xs if x != 1]
    pairs = {x: [y for y in xs if y < x] for x in xs}
    flat = {(x, y) for x in xs for y in squares}
    lazy = list(x + 1 for x in xs)
    return squares, pairs, sorted(flat), lazy, sum(y for y in xs)


@case(calls(([3, 1, 2], True), ([1], False)))
def comprehension_shadows(xs, flag):
    if flag:
        x = "outer"
    result = [x for x in xs]
    more = [(lambda: x + k)() for x in xs for k in (1, 2)]
    try:
        return result, more, x
    except UnboundLocalError:
        return result, more, "unbound"


@case(calls(([1, 0, 2],),))
def comprehension_raises(xs):
    x = "kept"
    try:
        [[1 // x for x in xs] for y in (1, 2)]
    except ZeroDivisionError as error:
        log.append(describe(error))
    return x


@case(calls((1, 2, 3), (1,)))
def kinds_of_arguments(a, /, b=2, *rest, c=3, **named):
    rest = rest + (c,)
    named["z"] = a
    return a, b, rest, c, named


@case(lambda f: [attempt(lambda: f(1, c=9, d=4)), attempt(lambda: f(1, 2, e=3, c=0)), attempt(lambda: f())])
def keyword_only(a, b=None, *, c, d=7, **e):
    total = a
    for value in (b, c, d, *e.values()):
        total += value or 0
    return total, locals()


@case(lambda f: [attempt(lambda: [g() for g in f(3)]), attempt(lambda: [g() for g in f(0)])])
def closures(n):
    count = 0
    made = []
    for i in range(n):

        def bump(step=i):
            nonlocal count
            count += step + n
            return count, i

        made.append(bump)
    made.append(lambda: (count, n))
    return made


def make_free(start):
    total = start

    def free(x):
        nonlocal total
        for k in range(x):
            total += k
        return total, [total + j for j in range(2)]

    return free


def run_free(function):
    function.__closure__[0].cell_contents = 10
    return calls((3,), (2,))(function)


CASES.append(Case("free_variables", make_free(10), run_free))


@case(lambda f: [attempt(lambda: drive(f(5), actions)) for actions in ("nnnnnnnn", "nsnsn", "nntn", "nnc", "tn", "nnnt")])
def generator(n):
    got = []
    try:
        for i in range(n):
            try:
                x = yield i, list(got)
                got.append(x)
            except KeyError as error:
                got.append(("key", str(error), str(sys.exc_info()[1])))
                yield "handled"
            finally:
                got.append(("f", i))
        return got
    finally:
        log.append(("closed", got))


@case(lambda f: [attempt(lambda: drive(f(k), actions)) for k in (0, 1) for actions in ("nnnnnnnnnn", "nsnsntn", "nnc")])
def delegating(kind):
    first = yield from generator(2)
    log.append(first)
    if kind:
        raise StopIteration("inside")
    second = yield from [10, 20]
    return first, second


def drive(made: Any, actions: str) -> Any:
    """next, send, throw, close; a StopIteration ends it."""
    seen: list[Any] = []
    for action in actions:
        try:
            if action == "n":
                seen.append(next(made))
            elif action == "s":
                seen.append(made.send("sent"))
            elif action == "t":
                seen.append(made.throw(KeyError("thrown")))
            else:
                seen.append(made.close())
        except StopIteration as stop:
            seen.append(("stop", stop.value))
        except BaseException as error:
            seen.append(describe(error))
    return seen


@case(lambda f: [attempt(lambda: asyncio.run(f(kind))) for kind in range(4)])
async def coroutine(kind):
    total = 0
    async with Manager("outer"):
        for i in range(3):
            await asyncio.sleep(0)
            total += i
            try:
                async with Manager(f"inner{i}", swallow=kind == 1):
                    if i == kind:
                        raise ValueError(kind)
                    async for x in ticks(2):
                        total += x
            except ValueError:
                total += 1000
    return total, [x async for x in ticks(3)], [await asyncio.sleep(0, i) for i in range(2)]


async def ticks(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i


async def collect(made: Any) -> Any:
    seen = []
    async for x in made:
        seen.append(x)
        if len(seen) == 4:
            await made.aclose()
    return seen


@case(lambda f: [attempt(lambda: asyncio.run(collect(f(n)))) for n in (2, 9)])
async def async_generator(n):
    try:
        for i in range(n):
            got = yield i
            await asyncio.sleep(0)
            log.append(got)
    finally:
        log.append("end")


@case(calls(([1, 2],), ([1, 2, 3, 4],), ({"a": 1, "b": [2]},), (Box(3),), ("text",), ((),)))
def matching(subject):
    match subject:
        case [a, b]:
            return "two", a, b
        case [first, *rest] if len(rest) > 1:
            return "many", first, rest
        case {"a": int(a), **more}:
            return "map", a, more
        case Box(value=v):
            return "box", v
        case str() as s:
            return "str", s
        case _:
            return "none", subject


@case(lambda f: attempt(lambda: describe_class(f("base"))))
def class_bodies(tag):
    class Base:
        kind = tag
        names = [f"{tag}{i}" for i in range(2)]

        def hello(self, n):
            return [self.kind] * n

    class Derived(Base):
        """Documented."""

        size: int = 3

        def hello(self, n=2):
            return ["derived", *super().hello(n), __class__.__name__]

        for size in range(2):
            pass

    return Derived


def describe_class(cls: type) -> Any:
    return cls.__name__, cls.__doc__, cls.__annotations__, cls.size, cls().hello(), cls.names, cls.__mro__[1].__name__


@dataclasses.dataclass
class Point:
    x: int
    y: int = 5


@case(calls((3,),))
def unpacking(n):
    a, (b, *c), d = n, range(n), [1]
    first, *middle, last = "abcd"
    x = y = [n]
    x[0], y[0] = a, d
    p = Point(n)
    p.x, p.y = p.y, p.x
    box = Box()
    box[1:2], box[0] = 1, 2
    box["k"] = box[0] or box[3]
    del p.y
    return a, b, c, d, first, middle, last, x, p.x, p.y, box, f"{a!r:>{b + 5}}{n:03}{c}", box[1:5], box[::2]


@case(calls((3,), (0,)))
def conditions(n):
    a = n and n.bit_length() or "zero"
    b = (n if n > 2 else None) is None
    c = [y := n, y * 2]
    assert n >= 0, "negative"
    d = 1 if a and not b or c else 2
    while n and (n := n - 1):
        d += n
    if n is not None:
        d += 1
    return a, b, c, d, n < 5 < 9


@case(lambda f: attempt(lambda: f(2)))
def frames(n):
    a = n
    seen = sorted(sys._getframe().f_locals)
    for i in range(n):
        b = i
        seen.append((list(locals()), sys._getframe().f_lineno - sys._getframe().f_code.co_firstlineno))
    return seen, list(locals()), a, b


@case(lambda f: attempt(lambda: caught(f)))
def warns(n):
    for i in range(n):
        warnings.warn(f"w{i}", stacklevel=2)
    warnings.warn("last", stacklevel=1)


def caught(function: Any) -> Any:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        function(2)
    return [(str(w.message), w.lineno) for w in seen]


@case(calls((0,), (5,), (20,)))
def recursive(n):
    return 1 if n < 2 else n * recursive(n - 1)


@case(calls(("x",), ("zlib",)))
def importing(name):
    import json as j
    from os import path as p, sep

    try:
        __import__(name)
    except ImportError as error:
        return str(error)
    return j.dumps([sep]), p.join("a", "b")


counter = 0


@case(calls((1,), (2,)))
def globals_and_builtins(n):
    global counter
    counter = n
    counter += len([n]) + sum(map(int, "12"))
    value = counter
    del counter
    try:
        return counter
    except NameError as error:
        return value, str(error), isinstance(n, int), print.__name__


@case(lambda f: attempt(lambda: contextlib.contextmanager(f)(3).__enter__()))
def managed(n):
    try:
        yield [n]
    finally:
        log.append("released")


@case(lambda f: attempt(lambda: [f(i) for i in range(4)]))
def many_landings(n):
    a = b = c = d = e = n
    a, b, c, d, e = (a + b * (c + d * (e + a.bit_length()))), -a, a ** 2, a % 3, a | 1
    t = (a, [b, {c: d}, (e, a, [b]), *range(c)], {**{"x": a}, "y": b}, max(a, b, min(c, d, e + n), key=lambda v: -v))
    return t


CASES.append(Case("lambda", lambda x, *y: [x, *y] if y else (lambda: x)(), calls((1,), (1, 2))))
