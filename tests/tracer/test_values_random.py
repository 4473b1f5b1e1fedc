"""Random programs over containers and iterators, some from outside and some made inside, with breaks in between.

Each statement notes what it gave or raised; at the end everything is compared with plain Python: the notes, and what
became of the containers. Two calls with different contents run the guards as well.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import check_calls
from tests.tracer.test_values_containers import function

KEYS = ["'a'", "'b'", "'c'", "1", "2", "True", "None", "(1, 'x')", "n"]
ITEMS = ["0", "1", "2", "3", "-1", "'a'", "'b'", "None", "x", "n", "[1]", "(1, 2)", "d", "l", "True", "2.5"]
NUMBERS = ["0", "1", "2", "-1", "5", "n"]
DICTS = ["d", "o", "q", "e"]
LISTS = ["l", "m"]
SETS = ["s", "w"]
STATEMENTS = [
    # dicts
    "{D}[{K}] = {V}", "del {D}[{K}]", "{D}[{K}]", "{D}.get({K})", "{D}.get({K}, {V})", "{D}.pop({K})",
    "{D}.pop({K}, {V})", "{D}.setdefault({K}, {V})", "{D}.popitem()", "{K} in {D}", "len({D})", "list({D})",
    "list({D}.items())", "list({D}.values())", "{D}.update({D2})", "{D}.update(a={V}, z={V2})", "{D}.clear()",
    "{D} | {D2}", "{D} == {D2}", "{D}.copy()", "bool({D})", "list(reversed({D}))", "{D}.update([({K}, {V})])",
    "{{k: 1 for k in {D}}}", "{D}.keys() & {D2}.keys()", "{D}.keys() - {S}", "o.move_to_end({K})",
    "o.move_to_end({K}, last=False)", "o.popitem(last=False)", "{D} |= {D2}", "[k for k in {D} if k != {K}]",
    "list(zip({D}, {D2}.values()))", "dict({D})", "dict(zip({L}, {L2}))",
    # lists
    "{L}.append({V})", "{L}[{N}] = {V}", "{L}[{N}]", "del {L}[{N}]", "{L}.pop()", "{L}.pop({N})",
    "{L}.insert({N}, {V})", "{L}.extend({L2})", "{L}.extend(v for v in list({L2}))", "{L} += {L2}", "{L}[{N}:{N2}]",
    "{L}[{N}:{N2}] = {L2}", "{L}[::{N}]", "del {L}[{N}:]", "{L}.reverse()", "{L}.clear()", "len({L})", "{L} == {L2}",
    "{L} < {L2}", "{L} * 2", "{L} *= 2", "{L} + {L2}", "{L}.remove({I})", "{L}.index({I})", "{L}.count({I})",
    "{I} in {L}", "{L}.sort(key=str)", "sorted({L}, key=repr)", "tuple({L})", "{L} is {L2}", "list(map(type, {L}))",
    "a, *b = {L}", "[v for v in {L} if v is not None]", "max({L}, key=repr)", "list(enumerate({L}, {N}))",
    # sets
    "{S}.add({H})", "{S}.discard({H})", "{S}.remove({H})", "{H} in {S}", "len({S})", "{S} | {S2}", "{S} & {S2}",
    "{S} - {S2}", "{S} ^ {S2}", "{S} |= {S2}", "{S} -= {S2}", "{S}.update({H2})", "{S} == {S2}", "{S} <= {S2}",
    "w.pop()", "list(w)", "{S}.clear()", "sorted({S}, key=str)", "frozenset({S})", "{S}.isdisjoint({H2})", "set({D})",
    "w = set({H2})", "w = {S} - {{1}}", "[v for v in w]",
    # iterators
    "next(it)", "next(it, 'end')", "it = iter({L})", "it = iter({D}.items())", "it = enumerate({L})",
    "it = zip({L}, {L2})", "it = map(str, {L})", "it = reversed({L})", "it = itertools.chain({L}, {D})",
    "it = itertools.islice({L}, {N}, 5)", "it = filter(None, {L})", "it = zip(it, {L})", "it = enumerate(it, {N})",
    "it = itertools.accumulate([1, 2, 3])", "it = itertools.pairwise({L})", "it = itertools.cycle({L})", "it = iter(w)",
    "r.append(list(itertools.islice(it, 3)))", "it = itertools.zip_longest({L}, {L2})",
    # calls that break half way, after a change
    "longer({L}, {V})", "[longer({L}, v) for v in (1, 2)]", "keep({D}, {K}, {V})", "both({D}, {L}, {S})", "local({L})",
    "list(map(local, [{L}, {L2}]))",
    # objects that are one
    "e = d", "m = l", "e = {{'a': {V}}}", "m = [{V}, {V2}]", "d['l'] = l", "l.append(d)",
]  # fmt: skip
HASHED = ["1", "2", "8", "40", "'a'", "'b'", "None", "(1, 2)", "n"]


def longer(items: list[Any], item: Any) -> int:
    items.append(item)
    print("inside")
    items[0] = len(items)
    return len(items)


def keep(mapping: dict[Any, Any], key: Any, item: Any) -> Any:
    before = mapping.get(key)
    mapping[key] = item
    print("inside", len(mapping))
    return before, list(mapping)


def both(mapping: dict[Any, Any], items: list[Any], elements: set[Any]) -> Any:
    mapping["both"] = longer(items, 7)
    elements.add(99)
    return {**mapping}, items[-1], 99 in elements


def statement(draw: random.Random) -> str:
    names = {
        "D": draw.choice(DICTS), "D2": draw.choice(DICTS), "L": draw.choice(LISTS), "L2": draw.choice(LISTS),
        "S": draw.choice(SETS), "S2": draw.choice(SETS), "K": draw.choice(KEYS), "V": draw.choice(ITEMS),
        "V2": draw.choice(ITEMS), "N": draw.choice(NUMBERS), "N2": draw.choice(NUMBERS), "H": draw.choice(HASHED),
        "I": draw.choice(["1", "2", "'a'", "None", "n"]), "H2": f"[{draw.choice(HASHED)}, {draw.choice(HASHED)}]",
    }  # fmt: skip
    return draw.choice(STATEMENTS).format(**names)


def guarded(line: str) -> str:
    """The statement, noting what it gave or raised."""
    is_expression = not (" = " in line.split("(")[0] or line.startswith("del ") or ("= " in line and " == " not in line
                         and "= " in line.split("[")[0])) and compiles(line)  # fmt: skip
    action = f"r.append({line})" if is_expression else line
    return f"try:\n    {action}\nexcept Exception as error:\n    r.append((type(error).__name__, error.args))"


def compiles(line: str) -> bool:
    try:
        compile(line, "<line>", "eval")
    except SyntaxError:
        return False
    return True


def program(seed: int, length: int) -> str:
    draw = random.Random(seed)
    lines = [
        "e, m, w, it = {'a': 1, 'b': x}, [1, x, 2], {1, 8, 40}, iter([1, 2])",
        "def local(c):\n    c.append(len(r))\n    print('inside')\n    return x * len(c)",
    ]
    for _ in range(length):
        lines.append("print('break')" if draw.random() < 0.08 else guarded(statement(draw)))
    lines.append("r.append([e, m, sorted(w, key=str), type(it).__name__, x * len(l)])")
    return "\n".join(lines)


def inputs(draw: random.Random) -> tuple[Any, ...]:
    d: dict[Any, Any] = {k: v for k, v in (("a", 1), (1, "one"), ("b", [1]), (None, 2)) if draw.random() < 0.8}
    function_globals: Any = function("").__globals__
    o = function_globals["OrderedDict"](list(d.items())[::-1])
    q = function_globals["defaultdict"](list, {"a": [1]} if draw.random() < 0.7 else {})
    values = [draw.choice([0, 1, 2, "a", None, 2.5]) for _ in range(draw.randrange(5))]
    return torch.arange(3.0), d, o, q, values, set(draw.sample([1, 2, 8, 40, "a"], 3)), draw.choice([1, 2, 3])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.integers(0, 10**9), st.integers(1, 14))
def test_random_programs(seed: int, length: int) -> None:
    run(seed, length)


def run(seed: int, length: int) -> None:
    text = program(seed, length)
    first, second = inputs(random.Random(seed)), inputs(random.Random(seed + 1))
    try:
        program_function = function(text)
        program_function.__globals__.update(longer=longer, keep=keep, both=both)
        check_calls(program_function, first, first, second)
    except BaseException:
        print(f"run({seed}, {length}):\n{text}")
        raise


@pytest.mark.slow
def test_many_random_programs() -> None:
    for seed in range(int(os.environ.get("TORCHGRAFT_EXAMPLES", "2000")) // 5):
        run(seed, 12)
