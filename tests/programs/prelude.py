"""What every generated program begins with: classes, helpers and globals, as source text.

Text, not a module: each side of the comparison executes it for itself and so has its own globals and classes to change.
"""

PRELUDE = '''\
import asyncio
import contextlib
import functools
import io
import itertools
import math
import random
import sys
import threading
import zlib
from dataclasses import dataclass, field

import torch
from torch.nn import functional as F

COUNT = 2
FACTOR = 0.5
LABEL = "label"
ORDER = [3, 1, 2]
TABLE = {"a": 1, "b": 2}
WEIGHT = torch.linspace(-1.0, 1.0, 16).reshape(4, 4)
SEEN = []
LOG = []
PENDING = []


class Base:
    kind = "base"
    made = 0

    def __init__(self, value, count=0):
        self.value = value
        self.count = count
        self.items = []

    def describe(self):
        return f"{self.kind}:{self.count}"

    def scaled(self, x, by=1.0):
        return x * by


class Box(Base):
    kind = "box"

    @property
    def double(self):
        return self.value * 2

    @double.setter
    def double(self, new):
        self.value = new / 2

    @staticmethod
    def shift(x, by=1):
        return x + by

    @classmethod
    def make(cls, value, count=1):
        return cls(value, count)

    def bump(self, by=1):
        self.count += by
        return self

    def scaled(self, x, by=2.0):
        return super().scaled(x, by) + self.count

    def __call__(self, x):
        self.items.append(self.count)
        return x - self.count

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


@dataclass
class Point:
    x: object
    y: int = 1
    tags: list = field(default_factory=list)

    def moved(self, by):
        return Point(self.x + by, self.y + 1, [*self.tags, by])


class Manager:
    def __init__(self, box, swallow=False):
        self.box = box
        self.swallow = swallow

    def __enter__(self):
        self.box.count += 1
        return self.box

    def __exit__(self, kind, error, traceback):
        self.box.items.append("" if kind is None else kind.__name__)
        return self.swallow and kind is not None


class Scale(torch.nn.Module):
    def __init__(self, shift=0.0):
        super().__init__()
        self.weight = torch.nn.Parameter(WEIGHT.clone() + shift)
        self.register_buffer("seen", torch.zeros(()))
        self.steps = 0
        self.gain = 1.0

    def forward(self, x, by=1.0):
        if self.training:
            self.steps += 1
        return F.linear(x, self.weight.to(x.dtype)).relu() * (by * self.gain)


SHARED = Scale(0.25)


def affine(x, scale=1.5, *more, shift=0, **named):
    for extra in more:
        x = x + extra
    for name, extra in named.items():
        x = x - extra * len(name)
    return x * scale + shift


def fold(first, *rest):
    for other in rest:
        first = first + other
    return first


def choose(flag, first, second, /):
    return first if flag else second


def recursive_(x, n):
    return x if n <= 0 else recursive_(x * 0.5 + n, n - 1)


recursive = recursive_


def count_down(n):
    while n > 0:
        yield n
        n -= 1


def make_adder(by, log=None):
    def add(x, times=1):
        nonlocal by
        if log is not None:
            log.append(times)
        by += 1
        return x + by * times

    return add


def strict(n, limit=1):
    if n > limit:
        raise ValueError("too large", n)
    return n + 1


def logged(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        SEEN.append(fn.__name__)
        return fn(*args, **kwargs)

    return wrapper


@logged
def halved(x, *, times=1):
    for _ in range(times):
        x = x / 2
    return x


def noisy(x, by=1):
    for i in range(2):
        x = x * by + i
        print(by)
    return x - by


class Noisy:
    made = 0

    def __call__(self, x):
        self.made += 1
        LOG.append(zlib.crc32(b"n"))
        return x * self.made

    def fail(self, flag):
        if flag:
            zlib.decompress(b"")


NOISY = Noisy()


class NoisyManager(Manager):
    def __enter__(self):
        print("enter", self.box.count)
        return super().__enter__()

    def __exit__(self, kind, error, traceback):
        self.box.value = self.box.value * 1.5
        print("exit", kind)
        return super().__exit__(kind, error, traceback)


@contextlib.contextmanager
def managed(box, swallow=False):
    box.count += 1
    try:
        yield box
    except ValueError:
        print("managed")
        if not swallow:
            raise
    finally:
        box.value = box.value + 1


class Shared:
    lock = threading.RLock()


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Indexed:
    def __init__(self, items):
        self.items = items

    def __getitem__(self, i):
        return self.items[i]


def risky(n, kind=KeyError):
    if n % 2:
        LOG.append(n)
        raise kind(n)
    return n


def descend(x, n):
    if n <= 0:
        return x
    print(n)
    return descend(x * 0.5 + n, n - 1)


def counter(box):
    box.count += 1
    print(box.count)
    return box.count


def steps(x, n):
    for i in range(n):
        x = x * 0.5 + i
        print(i)
        got = yield x
        if got is not None:
            x = x + got
    return x


class Pause:
    def __init__(self, n):
        self.n = n

    def __await__(self):
        yield
        return self.n + 1


async def slowly(x, by=1):
    x = x * by
    await asyncio.sleep(0)
    print(by)
    return x + 1


async def ticks(x, n):
    for i in range(n):
        await asyncio.sleep(0)
        yield x * i


class Asynchronous(Manager):
    async def __aenter__(self):
        await asyncio.sleep(0)
        return self.__enter__()

    async def __aexit__(self, *error):
        print("leaving")
        return self.__exit__(*error)


def stepped(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


# a program may have functions of its own under these names, which call only the originals, so that they end
affine_, fold_, halved_, make_adder_ = affine, fold, halved, make_adder
'''
