"""Members of enumerations whose special methods people wrote: these are read like other code, and run once a call."""

from __future__ import annotations

import enum

import pytest
import torch

import tracer

pytestmark = pytest.mark.usefixtures("installed_eager")

X = torch.arange(4.0)
seen: list[object] = []
factor = 1


class Odd(enum.Enum):
    ONE = 1
    TWO = 2

    def __contains__(self, item):
        seen.append(item)
        return item == factor

    def __len__(self):
        return factor

    def __getitem__(self, at):
        seen.append(at)
        return at + factor

    def __iter__(self):
        seen.append("iter")
        yield factor
        yield self.value

    def __str__(self):
        seen.append("str")
        return f"{self.name}{factor}"

    def __repr__(self):
        seen.append("repr")
        return f"<{factor}>"

    def __index__(self):
        seen.append("index")
        return factor

    def __bytes__(self):
        return b"a" * factor

    def __eq__(self, other):
        seen.append("eq")
        return factor == 1

    def __hash__(self):
        return factor


class Ordered(enum.Enum):
    LOW = 1
    HIGH = 2

    def __lt__(self, other):
        seen.append("lt")
        return factor == 1

    @classmethod
    def _missing_(cls, value):
        seen.append(value)
        return cls.LOW if factor == 1 else cls.HIGH


class Mode(str, enum.Enum):  # noqa: UP042 (a StrEnum has the texts of str)
    FAST = "fast"

    def __str__(self):
        seen.append("str")
        return self.value + str(factor)


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    RUN = enum.auto()


TEXT = "%s"
FUNCTIONS = {
    "contains": lambda member, x: (1 in member, x + 1),
    "length": lambda member, x: (len(member), x + 1),
    "item": lambda member, x: (member[3], x + 1),
    "iteration": lambda member, x: ([*member], x + sum(member)),
    "texts": lambda member, x: (f"{member}", f"{member!r}", TEXT % member, format(member, ">9"), x + 1),
    "place": lambda member, x: ([4, 5, 6][member], range(9)[member], x + 1),
    "bytes": lambda member, x: (bytes(member), x + 1),
    "place in text": lambda member, x: (oct(member), hex(member), x + 1),
    "comparisons": lambda member, x: (member == 1, member != 1, member != Odd.TWO, x + 1),
    "one of them": lambda member, x: (member in (Odd.ONE, Odd.TWO), member is Odd.ONE, x + 1),
}


def called(function, member):
    seen.clear()
    result = function(member, X)
    return *(part.tolist() if isinstance(part, torch.Tensor) else part for part in result), *seen


def follows(function, members):
    """The same at each call, also when what the methods read changes."""
    global factor
    compiled = tracer.compile(function)
    for number in (1, 1, 2, 2, 1):
        factor = number
        for member in members:
            assert called(compiled, member) == called(function, member)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_methods_of_members(name):
    follows(FUNCTIONS[name], Odd)


def test_the_order_of_members():
    def function(member, x):
        found = [member > Ordered.HIGH, member < Ordered.LOW, max(member, Ordered.HIGH).name, min(Ordered).name]
        return [*found, [each.name for each in sorted(Ordered)], Ordered("what")], x + 1

    follows(function, Ordered)


def test_texts_of_members_that_are_strings():
    def function(mode, x):
        return f"{mode}", str(mode), format(mode, ">9"), mode == "fast", mode.upper(), len(mode), x + 1

    follows(function, Mode)


def test_the_members_of_a_flag():
    def function(rights, x):
        for right in rights:
            x = x * right.value
        return x, [right.name for right in rights], next(iter(rights), None), len(rights)

    compiled = tracer.compile(function, fullgraph=True)
    for rights in (Rights.READ, Rights.READ | Rights.RUN, Rights(0), ~Rights.READ):
        assert called(compiled, rights) == called(function, rights)


def test_an_iterator_over_a_flag_that_leaves():
    @tracer.compile
    def compiled(rights, x):
        members = iter(rights)
        return next(members), members, x + 1

    for _ in range(2):
        first, rest, _ = compiled(Rights.READ | Rights.WRITE | Rights.RUN, X)
        assert first is Rights.READ and [*rest] == [Rights.WRITE, Rights.RUN]
