"""What a program lets go dies, also where compiled code makes or gives it: regions hold nothing of the program's."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
import torch

import tracer

pytestmark = pytest.mark.usefixtures("installed_eager")

x = torch.arange(4.0)


def dead(references):
    gc.collect()
    gc.collect()
    return [reference() is None for reference in references]


def makes_its_own_kind():
    class Point:
        def __init__(self, at):
            self.at = at

        @tracer.compile
        def twice(self, x):
            return Point(x * self.at)

    for _ in range(3):
        assert torch.equal(Point(2).twice(x).at, x * 2)
    return [weakref.ref(Point)]


def raises_what_holds_it():
    class Odd(Exception):
        pass

    @tracer.compile
    def f(x):
        y = x + 1
        raise Odd(y)

    Odd.f = f
    for _ in range(3):
        with pytest.raises(Odd):
            f(x)
    return [weakref.ref(Odd), weakref.ref(f)]


def logged(function):
    @functools.wraps(function)
    def logging(*args):
        print(function.__name__)
        return function(*args)

    return logging


@pytest.mark.parametrize("program", [makes_its_own_kind, raises_what_holds_it])
def test_a_class_dies_that_leads_to_the_code_which_needs_it(program):
    assert all(dead(program()))


def test_a_method_that_is_replaced_dies_while_its_class_lives():
    class Steps:
        @logged
        def go(self, x):
            print("go")
            return x + 1

    @tracer.compile
    def f(steps, x):
        return steps.go(x) * 2

    for _ in range(3):
        f(Steps(), x)
    before = [weakref.ref(Steps.go)]
    Steps.go = logged(lambda self, x: x - 1)
    assert all(dead(before))
    for _ in range(3):
        assert torch.equal(f(Steps(), x), (x - 1) * 2)


def test_two_regions_of_one_entry_may_name_alike_what_they_do_not_hold():
    def made(factor):
        class Point:
            def __init__(self, at):
                self.at = at * factor

        return Point

    kinds = [made(factor) for factor in range(1, 4)]

    @tracer.compile
    def f(kind, x):
        return kind(x + 1)

    for _ in range(3):
        for factor, kind in enumerate(kinds, 1):
            found = f(kind, x)
            assert type(found) is kind and torch.equal(found.at, (x + 1) * factor)
