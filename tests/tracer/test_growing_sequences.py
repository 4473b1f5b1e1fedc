"""Lists and tuples that grow from step to step: how long they are by now needs no guard, and no region of its own."""
# ruff: noqa: RUF005 (`(*history, x)` is other bytecode than `history + (x,)`)

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import CountingBackend, check, check_calls, compilations

pytestmark = pytest.mark.usefixtures("installed_eager")

x = torch.arange(4.0)


def steps(f, count=12):
    """f(history, x) gives the next history; how many graphs that takes, and that all of it is right."""
    backend = CountingBackend()
    compiled = tracer.compile(f, backend=backend)
    plain = mine = (x,)
    for _ in range(count):
        plain, mine = f(plain, x), compiled(mine, x)
    assert len(plain) == len(mine) and all(map(torch.equal, plain, mine))
    return backend.frame_count


class TestTuples:
    def test_that_are_added_to(self):
        def f(history, x):
            history += (x.sin(),)
            return history

        assert steps(f) == 1

    def test_that_are_added_to_twice_and_read_from_their_end(self):
        def f(history, x):
            history = history + (x.sin(), x.cos())
            history += (history[-1] + history[-2],)
            return history

        assert steps(f) == 1

    def test_whose_last_item_is_read(self):
        def f(history, x):
            return history + (history[-1] * 0.5 + x,)

        assert steps(f) == 2  # that the length changes is learnt once

    def test_in_a_loop_that_breaks(self):
        def f(x, count):
            scores, hidden = (), ()
            for _ in range(count):
                x = x.sin()
                scores += (x * 2,)
                hidden += ((x, x + 1),)
                if x.sum() > 100:
                    break
            return scores, hidden

        check(f, x, 20, calls=1)
        assert compilations(f, (x, 20)) <= 3

    def test_counted_and_tested(self):
        def f(history, x):
            y = x + 1 if history else x - 1
            return y, f"{len(history)} so far", len(history + (y,))

        check_calls(f, ((), x), ((1,), x), ((1, 2), x), ((1, 2, 3), x))
        assert compilations(f, ((1,), x), ((1, 2), x), ((1, 2, 3), x)) == 1

    def test_read_after_all(self):
        def f(history, x):
            longer = history + (x.sin(),)
            return sum(longer), longer[1:], longer == history, (*longer,)

        check_calls(f, ((x,), x), ((x, x + 1), x), ((x,), x))

    def test_given_back_as_they_are(self):
        def f(history, x):
            same = history
            return same is history, history + () == history, x + 1, same

        check_calls(f, ((x,), x), ((), x), ((1, x), x))


    def test_that_stay_the_object_they_are(self):
        def f(t, u, x):
            same = (t + () is t, () + t is t, t * 1 is t, t[:] is t, t + u is u, t + u is t, (t + u)[0:] is t + u)
            return x + 1, same, t + u, u

        check_calls(f, ((1, 2), (3,), x), ((), (3,), x), ((1,), (), x), ((), (), x), ((1, 2, 3), (3,), x))


class TestLists:
    def test_whose_last_item_is_read(self):
        def f(history, x):
            history.append(history[-1] * 0.5 + x)
            return history[-1] + 1

        backend = CountingBackend()
        compiled = tracer.compile(f, backend=backend)
        plain, mine = [x], [x]
        for _ in range(12):
            assert torch.equal(f(plain, x), compiled(mine, x))
        assert all(map(torch.equal, plain, mine)) and len(mine) == 13
        assert backend.frame_count == 2

    def test_that_become_shorter(self):
        def f(history, x):
            return history[-1] + x

        check_calls(f, ([x], x), ([x, x + 1], x), ([x, x, x + 2], x), ([x + 3], x), ([], x))
