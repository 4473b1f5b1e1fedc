"""What is read of a container is guarded, nothing else: a change that matters is seen, one that doesn't costs nothing.

Each case is a body over `x`, `a` and `b`, and arguments for several calls. Results must be plain Python's at each call;
`compiled` is the number of graphs that these calls may take.
"""

from __future__ import annotations

import collections
from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import pytest
import torch

from tests.support import check_calls, compilations


class Point(NamedTuple):
    left: Any
    right: Any

    @property
    def total(self) -> Any:
        return self.left + self.right

    def scaled(self, by: Any) -> Point:
        return Point(self.left * by, self.right * by)


Pair = collections.namedtuple("Pair", ["first", "second"])
GLOBALS = {"torch": torch, "OrderedDict": OrderedDict, "defaultdict": defaultdict, "Point": Point, "Pair": Pair}


def function(body: str) -> Any:
    namespace: dict[str, Any] = dict(GLOBALS)
    exec(f"def program(x, a, b):\n    y = x * 2\n    {body}", namespace)
    return namespace["program"]


def set_of(*items: Any) -> set[Any]:
    """A set into which these were put in this order."""
    made: set[Any] = set()
    for item in items:
        made.add(item)
    return made


class Case(NamedTuple):
    body: str
    calls: list[tuple[Any, Any]]
    compiled: int


CASES = {
    "an item": Case("return y * a['k']", [({"k": 1}, 0), ({"k": 2}, 0), ({"k": 1}, 0)], 2),
    "an item, other keys differ": Case("return y * a['k']", [({"k": 1}, 0), ({"k": 1, "z": 2}, 0)], 1),
    "an item that comes": Case("return y, a.get('k', 5)", [({}, 0), ({"k": 2}, 0), ({"z": 1}, 0)], 2),
    "an item that goes": Case("return y, 'k' in a", [({"k": 1}, 0), ({}, 0)], 2),
    "an item that is only handed on": Case("return y, a['k']", [({"k": 1}, 0), ({"k": "s"}, 0), ({"k": None}, 0)], 1),
    "a key that is equal": Case("return y, a[1], list(a)", [({1: 2}, 0), ({True: 2}, 0), ({1.0: 2}, 0)], 3),
    "keys in order": Case("return y, list(a)", [({"p": 1, "q": 2}, 0), ({"q": 2, "p": 1}, 0)], 2),
    "items set": Case("a['k'] = y; return y", [({}, 0), ({"k": 1}, 0), ({"z": 1, "k": 2}, 0)], 1),
    "items deleted": Case("del a['k']; return y", [({"k": 1}, 0), ({"k": 5, "z": 2}, 0)], 1),
    "length of a dict": Case("return y * len(a)", [({1: 1}, 0), ({2: 2}, 0), ({}, 0)], 2),
    "truth of a dict": Case("return y if a else x", [({1: 1}, 0), ({2: 2, 3: 3}, 0), ({}, 0)], 2),
    "values": Case("return y * sum(a.values())", [({1: 1}, 0), ({1: 2}, 0)], 2),
    "another type of dict": Case("return y, dict(a)", [({1: 1}, 0), (OrderedDict({1: 1}), 0)], 2),
    "a default factory": Case(
        "return y, a['new']", [(defaultdict(list), 0), (defaultdict(dict), 0), (defaultdict(None, new=1), 0)], 3
    ),
    "one dict or two": Case("a['k'] = 1; b['k'] = 2; return y, a['k']", [({}, {}), ("same", {})], 2),
    "is it the same": Case("return (y if a is b else x)", [([1], [1]), ("same", [1])], 2),
    "an element": Case("return y * a[0]", [([1], 0), ([2], 0), ([1], 0)], 2),
    "an element of a longer list": Case("return y * a[-1]", [([1], 0), ([1, 5], 0)], 2),
    "appended": Case("a.append(y); return y", [([], 0), ([1], 0), ([1, 2], 0)], 1),
    "length of a list": Case("return y * len(a)", [([1], 0), ([5], 0), ([1, 2], 0)], 2),
    "truth of a list": Case("return y if a else x", [([1], 0), ([1, 2], 0), ([], 0)], 2),
    "in a list": Case("return y, 2 in a", [([1, 2], 0), ([1, 3], 0)], 2),
    "tensors in a list": Case("return sum(a)", [([torch.ones(2)] * 2, 0), ([torch.ones(2)] * 3, 0)], 2),
    "tensors in a dict": Case("return a['k'] + 1", [({"k": torch.ones(2)}, 0), ({"k": torch.ones(3)}, 0)], 2),
    "appended to a deque": Case("a.append(y); return y", [(deque([1], 2), 0), (deque([1, 2], 2), 0)], 1),
    "an element of a deque": Case("return y * a[-1]", [(deque([1]), 0), (deque([2]), 0), (deque([0, 1]), 0)], 3),
    "a window": Case("a.append(b); return y * sum(a)", [(deque([1], 2), 3), (deque([1, 2], 2), 3)], 2),
    "greatest length": Case("a.append(b); return y * len(a)", [(deque([1], 1), 3), (deque([1]), 3)], 2),
    "in a set": Case("return y, 2 in a", [({1, 2}, 0), ({2, 7}, 0), ({1, 3}, 0)], 2),
    "added to a set": Case("a.add(5); return y", [({1}, 0), ({5}, 0), (set(), 0)], 1),
    "order of a set": Case("return y, list(a)", [(set_of(8, 0), 0), (set_of(0, 8), 0)], 2),
    "elements of a set": Case("return y, sorted(a)", [(set_of(8, 0), 0), (set_of(0, 8), 0), ({1, 0}, 0)], 2),
    "element of another type": Case("return y, sorted(a)", [({1, 2}, 0), ({True, 2}, 0)], 2),
    "a frozenset": Case("return y, 2 in a", [(frozenset([1, 2]), 0), (frozenset([1]), 0)], 2),
    "a tuple": Case("return y * a[1]", [((1, 2), 0), ((1, 3), 0), ((1, 2, 3), 0)], 3),
    "a slice": Case("return y[a]", [(slice(0, 2), 0), (slice(1, 2), 0)], 2),
    "a range": Case("return y * sum(a)", [(range(3), 0), (range(4), 0)], 2),
    "a bound": Case("return [y for _ in range(a)]", [(2, 0), (3, 0)], 2),
    "a named tuple": Case("return y * a.left", [(Point(1, 2), 0), (Point(2, 2), 0)], 2),
    "a named tuple or a tuple": Case("return y * a[0]", [(Point(1, 2), 0), ((1, 2), 0)], 2),
    "a named tuple's property": Case("return y * a.total", [(Point(1, 2), 0), (Point(1, 5), 0)], 2),
    "a named tuple's method": Case("return a.scaled(y)", [(Point(1, 2), 0), (Point(1, 5), 0)], 2),
    "named tuples are made": Case("return Point(y, a), Pair(first=a, second=y)._replace(first=y)", [(1, 0), (2, 0)], 1),
    "named tuple to dict": Case("return y, Pair(a, y)._asdict(), Pair._fields", [(1, 0), (2, 0)], 1),
    "a type": Case("return y if isinstance(a, int) else x", [(1, 0), (2, 0), ("s", 0)], 2),
    "text is only handed on": Case("return y, str(a), f'{a:.2f}', repr(a)", [(1.5, 0), (2.5, 0)], 1),
    "text is looked at": Case("return y if str(a) == '1' else x", [(1, 0), (2, 0)], 2),
    "a counter": Case("b['n'] = a + 1; return y", [(1, {}), (2, {}), (3, {})], 1),
    "a counter in enumerate": Case("b.extend(enumerate('pq', a)); return y", [(1, []), (7, [])], 1),
    "a string": Case("return y if a else x", [("s", 0), ("t", 0), ("", 0)], 2),
    "largest": Case("return y * max(a)", [([1, 2], 0), ([2, 1], 0)], 2),
    "sorted": Case("return y, sorted(a)", [([2, 1], 0), ([3, 1], 0), ([1, 2], 0)], 2),
    "float sums": Case("return y, sum(a)", [([0.1] * 10, 0), ([0.2] * 10, 0)], 2),
    "nan": Case("return y, a == a, a", [(1.5, 0), (float("nan"), 0)], 2),
    "minus zero": Case("return y * a, a", [(0.0, 0), (-0.0, 0)], 2),
}


@pytest.mark.parametrize("name", CASES)
def test_every_call_is_right(name: str) -> None:
    case = CASES[name]
    check_calls(function(case.body), *arguments(case))


@pytest.mark.parametrize("name", CASES)
def test_compilations(name: str) -> None:
    case = CASES[name]
    assert compilations(function(case.body), *arguments(case), dynamic=False) <= case.compiled


def arguments(case: Case) -> list[tuple[Any, Any, Any]]:
    """`"same"` stands for the other argument itself."""
    return [(torch.arange(3.0), b if type(a) is str and a == "same" else a, b) for a, b in case.calls]


class Thing:
    """An object that is its own key."""


def step(x: torch.Tensor, state: dict[Any, Any], p: torch.Tensor) -> torch.Tensor:
    own = state[p]
    if not own:
        own["step"], own["average"] = 0, torch.zeros_like(p)
    own["step"] += 1
    own["average"] = own["average"] * 0.9 + x
    return own["average"] * own["step"]


def test_state_kept_by_tensor() -> None:
    """As optimizers do: a tensor is found by identity, and one that is not there yet comes to be there."""
    p, q, x = torch.ones(3), torch.ones(3), torch.arange(3.0)
    state: Any = defaultdict(dict)
    check_calls(step, (x, state, p), (x, state, p), (x, state, q), (x, state, p), (x, {p: {}}, p))


def look_up(x: torch.Tensor, table: dict[Any, Any], seen: set[Any], thing: Thing) -> Any:
    found = table.get(thing), thing in table
    known = thing in seen
    seen.add(thing)
    return x * 2, found, known, {thing: 1}[thing], {(thing, 1): 2}[thing, 1]


def test_objects_as_keys() -> None:
    thing, other, x = Thing(), Thing(), torch.ones(2)
    calls = (x, {thing: 5}, {thing}, thing), (x, {thing: 5}, set(), other), (x, {other: 7, thing: 6}, set(), other)
    check_calls(look_up, *calls)
