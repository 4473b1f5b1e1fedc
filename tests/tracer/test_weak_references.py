"""Weak references read and made in a region, and containers of them, as plain Python has them at each call."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tests.support import CountingBackend, compile_with

X = torch.tensor([0.5, 1.0, 2.0])


class Thing:
    def __init__(self, size: int = 2) -> None:
        self.size = size


class Same(Thing):
    """Equal to every other of its size."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.size == self.size

    def __hash__(self) -> int:
        return self.size


class Held:
    """What a program holds weakly, with what keeps it alive."""

    def __init__(self, cls: type[Any] = Thing) -> None:
        self.first, self.second = cls(2), cls(3)
        self.named = weakref.WeakValueDictionary(a=self.first)
        self.keyed = weakref.WeakKeyDictionary({self.first: 4})
        self.all = weakref.WeakSet([self.first])
        self.parent = weakref.ref(self.first)


READS: dict[str, Callable[[Any, Held], Any]] = {
    "named": lambda x, h: x * h.named["a"].size,
    "not named": lambda x, h: x * h.named.get("b", h.second).size,
    "keyed": lambda x, h: x * h.keyed[h.first],
    "not keyed": lambda x, h: x * h.keyed.get(h.second, 7),
    "among keys": lambda x, h: (x * 2 if h.first in h.keyed else x, h.second in h.keyed),
    "in a set": lambda x, h: (x * 2 if h.first in h.all else x, h.second in h.all),
    "called": lambda x, h: x * h.parent().size,
    "made": lambda x, h: (x * weakref.ref(h.first)().size, weakref.ref(h.first) is h.parent),
    "handed out": lambda x, h: (x * 2, weakref.ref(h.second)),
}


def without(h: Held) -> None:
    """What was held is gone, and with it what containers had of it."""
    h.first, h.second = h.second, Thing(5)


def exchanged(h: Held) -> None:
    h.keyed[h.second], h.named["b"], h.parent = 9, h.second, weakref.ref(h.second)
    h.all.add(h.second)


@pytest.mark.parametrize("change", [exchanged, without, lambda h: h.keyed.clear(), lambda h: h.all.clear()])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_is_one_graph_and_follows_changes(read: Callable[[Any, Held], Any], change: Callable) -> None:
    plain, ours, backend = Held(), Held(), CountingBackend()
    compiled = compile_with(read, backend=backend)
    for turn in range(4):
        if turn == 2:
            assert backend.frame_count == 1
            change(plain)
            change(ours)
        want, found = outcome(read, plain), outcome(compiled, ours)
        assert len(want) == len(found)
        for a, b in zip(want, found, strict=True):
            if isinstance(a, torch.Tensor):
                assert torch.equal(a, b)
            elif isinstance(a, weakref.ref):
                assert a() is plain.second and b() is ours.second
            else:
                assert a == b


def outcome(read: Callable[[Any, Held], Any], held: Held) -> tuple[Any, ...]:
    try:
        result = read(X, held)
    except (KeyError, AttributeError) as error:
        return type(error), str(error) if isinstance(error, AttributeError) else ""
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize(
    "changes",
    [
        lambda x, h: (h.keyed.pop(h.first, None), x * len(h.keyed), h.first in h.keyed),
        lambda x, h: (h.keyed.setdefault(h.second, 5), x * h.keyed[h.second], [k.size for k in h.keyed]),
        lambda x, h: (h.all.discard(h.first), x * len(h.all), [k.size for k in h.all]),
        lambda x, h: (h.named.update(b=h.second), x * h.named["b"].size, sorted(h.named)),
    ],
)
def test_changes_inside(changes: Callable[[Any, Held], Any]) -> None:
    compiled = compile_with(changes)
    plain, ours = Held(), Held()
    for _ in range(3):
        want, found = changes(X, plain), compiled(X, ours)
        assert want[0] == found[0] and torch.equal(want[1], found[1]) and want[2] == found[2]
        assert len(plain.keyed) == len(ours.keyed) and len(plain.all) == len(ours.all)
        assert list(plain.named) == list(ours.named)


def test_keys_that_compare_in_python_are_left_to_python() -> None:
    def read(x: Any, held: Held, key: Any) -> Any:
        return x * held.keyed.get(key, 7)

    held = Held(Same)
    compiled = compile_with(read)
    for key, want in [(held.first, 4), (Same(2), 4), (held.second, 7), (Same(2), 4)]:
        assert torch.equal(compiled(X, held, key), X * want)
    report = tracer.explain(compiled)(X, held, held.first)
    assert "key is not supported" in {found.title for found in report.breaks}


def test_an_object_that_only_a_local_held_is_gone() -> None:
    def read(x: Any) -> Any:
        thing = Thing(5)
        reference = weakref.ref(thing)
        y = x * reference().size
        del thing
        return y, reference()

    compiled = compile_with(read)
    for _ in range(3):
        y, gone = compiled(X)
        assert torch.equal(y, X * 5) and gone is None
