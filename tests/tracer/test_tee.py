"""itertools.tee, and text of bytes."""

import base64
import binascii
import itertools

import torch

from tests.support import check, compile_with


def test_tee():
    def f(x):
        first, second, third = itertools.tee((x * i for i in range(5)), 3)
        skipped = next(second)
        pairs = [a + b for a, b in zip(first, second, strict=False)]
        return pairs, skipped, list(third), list(first), next(second, None), next(itertools.tee([x])[0])

    check(f, torch.ones(3), fullgraph=True)

    def window(items):
        a, b = itertools.tee(items)
        next(b, None)
        return zip(a, b, strict=False)

    check(lambda x: sum(x * a * b for a, b in window([1, 2, 3])), torch.ones(3), fullgraph=True)


def test_tee_over_a_break():
    def f(x):
        y = x * 2
        first, second = itertools.tee(iter([1, 2, 3]))
        a = next(first)
        print("between")
        return y * a, list(second), list(first)

    check(f, torch.ones(3))

    def of_one_of_them(x):
        first, second = itertools.tee(iter([1, 2, 3]))
        next(first)
        third, fourth = itertools.tee(first)
        return x * next(third), list(fourth), list(second)

    check(of_one_of_them, torch.ones(3))

    def handed_on(x, numbers):
        return itertools.tee(numbers)[1], x + 1

    result, after = compile_with(handed_on, backend="eager")(torch.ones(3), [1, 2])
    assert list(result) == [1, 2] and after.tolist() == [2, 2, 2]


def test_text_of_bytes():
    check(lambda x: (x + 1, base64.b64encode(b"ab"), base64.b64decode("YWI="), binascii.hexlify(b"ab")), torch.ones(3),
          fullgraph=True)
