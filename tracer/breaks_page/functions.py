"""Examples of breaks at output, calls, exceptions, generators and coroutines."""

from __future__ import annotations

from .running import Example

EXAMPLES = {
    "print() writes output": Example("""\
def f(x):
    y = x * 2
    print("half way")  # <- break
    return y + 1

f(torch.ones(3))
"""),
    "input() reads a line": Example("""\
import io
from unittest import mock

def f(x):
    y = x * 2
    return y * float(input())  # <- break

def call(x):
    with mock.patch("sys.stdin", io.StringIO("3")):
        return f(x)

call(torch.ones(3))
"""),
    "breakpoint() stops the program": Example("""\
from unittest import mock

def f(x):
    y = x * 2
    breakpoint()  # <- break
    return y + 1

def call(x):
    with mock.patch("sys.breakpointhook"):  # no debugger, for once
        return f(x)

call(torch.ones(3))
"""),
    "code is made from text": Example("""\
def f(x, text):
    y = x * 2
    return y + eval(text)  # <- break

f(torch.ones(3), "1 + 1")
"""),
    "names of a namespace are listed": Example("""\
def f(x):
    y = x * 2
    return y + len(locals())  # <- break

f(torch.ones(3))
"""),
    "id() gives an address": Example("""\
def f(x, seen):
    y = x * 2
    known = id(x) in seen  # <- break
    return y + known

f(torch.ones(3), set())
"""),
    "import is run": Example("""\
def f(x):
    y = x * 2
    try:
        import not_installed  # <- break
    except ImportError:
        return y + 1
    return not_installed.double(y)

f(torch.ones(3))
"""),
    "function written in C is called": Example("""\
import time

def f(x):
    y = x * 2
    start = time.time()  # <- break
    return y + (start > 0)

f(torch.ones(3))
"""),
    "method written in C is called": Example("""\
class Plain:
    pass

def f(x, plain):
    y = x * 2
    text = repr(plain)  # <- break
    return y + len(text[:5])

f(torch.ones(3), Plain())
"""),
    "cached function is called anew": Example("""\
import functools

@functools.lru_cache(maxsize=8)
def scale(n):
    return n * 0.5

def f(x, n):
    y = x * 2
    return y * scale(n)  # <- break

f(torch.ones(3), 3)
"""),
    "builtin function is given an object": Example("""\
import math

class Angle:
    def __float__(self):
        return 0.5

def f(x, angle):
    y = x * 2
    return y + math.sin(angle)  # <- break

f(torch.ones(3), Angle())
"""),
    "function is disabled": Example("""\
@tracer.disable
def log(y):
    print("half way")

def f(x):
    y = x * 2
    log(y)  # <- break
    return y + 1

f(torch.ones(3))
"""),
    "arguments do not fit the call": Example("""\
def g(a):
    return a

def f(x):
    y = x * 2
    return g(y, 1)  # <- break

f(torch.ones(3))
"""),
    "Python raises or warns here": Example("""\
def f(x, pair):
    y = x * 2
    try:
        a, b = pair  # <- break
    except ValueError:
        a = b = 1
    return y + a + b

f(torch.ones(3), (1, 2, 3))
"""),
    "calls are nested too deeply": Example("""\
def down(x, n):
    return x if n == 0 else down(x + 1, n - 1)  # <- break

def f(x):
    return down(x, 200)

f(torch.ones(3))
"""),
    "capture takes too long": Example("""\
def f(x):
    y = x * 2
    total = sum(range(1_000_000))  # <- break
    return y + total

f(torch.ones(3))
"""),
    "super() cannot be resolved": Example("""\
class Base:
    def scale(self):
        return 2

class Derived(Base):
    def scale(self):
        return super(Derived).__thisclass__.__name__  # <- break

def f(x, obj):
    y = x * 2
    return y + len(obj.scale())

f(torch.ones(3), Derived())
"""),
    "exception leaves the function": Example("""\
def f(x):
    y = x * 2
    raise ValueError("too small")  # <- break

f(torch.ones(3))
"""),
    "exception group is handled": Example("""\
def f(x):
    y = x * 2
    try:
        raise ValueError("too small")
    except* ValueError:  # <- break
        y = y + 1
    return y

f(torch.ones(3))
"""),
    "yield hands out a value": Example("""\
def f(x):
    y = x * 2
    yield y  # <- break
    yield y + 1  # <- break

list(f(torch.ones(3)))
"""),
    "generator is left inside try or with": Example("""\
def parts(x):
    try:
        yield x + 1
        yield x + 2
    finally:
        x.add_(1)

def f(x):
    y = x * 2
    generator = parts(y)
    first = next(generator)
    generator.close()  # <- break
    return first + y

f(torch.ones(3))
"""),
    "coroutine is suspended or called": Example("""\
import asyncio

async def f(x):
    y = x * 2
    await asyncio.sleep(0)  # <- break
    return y + 1

asyncio.run(f(torch.ones(3)))
"""),
    "library function is called": Example("""\
import logging

def f(x):
    y = x * 2
    logging.getLogger("page").warning("shape %s", tuple(y.shape))  # <- break
    return y + 1

f(torch.ones(3))
"""),
    "iterator from outside is advanced": Example("""\
def f(x, numbers):
    y = x * 2
    return y + next(numbers)  # <- break

f(torch.ones(3), iter([1, 2, 3]))
"""),
    "file is read or written": Example("""\
import io

def f(x, file):
    y = x * 2
    torch.save(y, file)  # <- break
    return y + 1

f(torch.ones(3), io.BytesIO())
"""),
}
