"""A Hypothesis strategy of whole programs, as Python source.

A program is the prelude, a few helper functions, `program(...)` (perhaps a generator or a coroutine: then also `drive`,
see drivers.py), and `calls()`, which builds the arguments of several
calls: some objects are shared between calls and with each other, some tensors are views of others. Every program is
well formed and ends; it may raise, print, draw random numbers and change everything it can reach. What it does depends
on nothing but its text.

Hypothesis draws the shape of a program (its size, the families of statements that it does without, whether it may break
the graph) and a seed for the rest. (Drawing every choice by itself made most programs equal to an earlier one.) What
fails is made smaller by reducer.py.
"""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import strategies as st

from tests.programs import callees, guarded, loops, suspended
from tests.programs.drivers import write_driver
from tests.programs.expressions import expression
from tests.programs.prelude import PRELUDE
from tests.programs.statements import BLOCKS, FAMILIES, statements
from tests.programs.writer import Budget, Choices, Function, Scope


class Program:
    """The text; its repr, which Hypothesis prints when it fails, is the text itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.source = f"{PRELUDE}\n\n{text}"

    def __repr__(self) -> str:
        return f"Program of tests/programs/prelude.py and\n{self.text}"


#: Values that a parameter may get, by kind, as text: `rows`, `kind` (dtype) and `grad` are the pool's.
VALUES: dict[str, list[str]] = {
    "t2": ["torch.linspace(-2.0, 2.0, 4 * rows, dtype=kind).reshape(rows, 4)", "torch.ones(rows, 4, dtype=kind)",
           "{t2}", "{t2}[:]",
           "torch.linspace(-1.0, 3.0, 4 * rows, dtype=kind).reshape(4, rows).T", "{t2}.detach()",
           "torch.full((rows, 4), 0.25, dtype=kind).requires_grad_(grad)",
           "torch.linspace(0.0, 1.0, 4 * rows, dtype=kind).reshape(rows, 4).requires_grad_(grad)",
           "torch.tensor([[float('nan'), 0.0, -0.0, float('inf')]] * rows, dtype=kind)"],
    "t1": ["torch.arange(4.0, dtype=kind)", "{t2}[0]", "torch.ones(4, dtype=kind)"],
    "t0": ["torch.tensor(2.0, dtype=kind)", "{t2}[0, 0]", "{t2}.detach().sum()"],
    # not True: subtracting a bool is refused only when it runs, see tests/programs/known
    "int": ["1", "0", "2", "3", "-1", "5", "4", "10**6"],
    "float": ["0.5", "1.0", "-2.5", "0.0", "-0.0", "float('inf')"],
    "str": ["'a'", "'b'", "''", "'abc'"],
    "bool": ["True", "False"],
    "list": ["[{t2}]", "[{t2}, {t2}]", "[]", "[torch.ones(rows, 4), {t2}, {t2}[:]]"],
    "ints": ["[1, 2]", "[]", "[3, 0, 2]", "[0]"],
    "dict": ["{{'a': {t2}}}", "{{'a': {t2}, 'b': {t2}}}", "{{}}"],
    "counts": ["{{'a': 1}}", "{{'a': 2, 'b': 0}}", "{{}}"],
    "pair": ["({t2}, {t2})", "({t2}, torch.ones(rows, 4))"],
    "box": ["Box({t2}, 1)", "Box(torch.ones(rows, 4), 2)"],
    "point": ["Point({t2})", "Point(torch.ones(rows, 4), 2, ['x'])"],
    "module": ["Scale()", "Scale(0.5).eval()"],
    "fn": ["torch.sin", "make_adder(2)"],
}
HELPERS = {
    "affine": ("x, scale=1.5, *more, shift=0, **named", {"x": "t2"}),
    "fold": ("first, *rest", {"first": "t2"}),
    "recursive": ("x, n", {"x": "t2", "n": "int"}),
    "halved": ("x, *, times=1", {"x": "t2", "times": "int"}),
    "make_adder": ("by, log=None", {"by": "int"}),
}
PARAMETERS = {"x": "t2", "y": "t2", "n": "int", "f": "float", "items": "list", "box": "box", "flag": "bool", "s": "str",
              "table": "dict", "ks": "ints", "row": "t1", "pair": "pair", "counts": "counts", "model": "module",
              "point": "point", "scalar": "t0"}


BROKEN = {"loops": loops.BLOCKS, "guarded": guarded.BLOCKS, "callees": callees.BLOCKS, "suspended": suspended.BLOCKS}


def write_program(choices: Choices, size: int, left_out: frozenset[str], breaks: bool, broken: frozenset[str]) -> str:
    """`broken`: which kinds of blocks are to have breaks inside; none of them in a program of the other half."""
    parameters = {"x": "t2", **{name: kind for name, kind in PARAMETERS.items() if name != "x" and choices.chance(45)}}
    suspends = ""
    if "suspended" in broken and choices.chance(60):
        suspends = choices.choose(("generator", "generator", "coroutine"))
    blocks = [block for name in sorted(broken) for block in BROKEN[name]]
    budget = Budget(size, left_out, breaks, blocks + BLOCKS[::3] if blocks else BLOCKS)
    helpers = [write_helper(choices, budget) for _ in range(choices.number(0, 2))]
    scope = Scope(choices, Function("program", suspends=suspends), dict(parameters), budget)
    if suspends:
        suspended.suspended_block(scope)
    while budget.left > 0 and (len(scope.function.lines) < 5 or choices.chance(95)):
        statements(scope, 1)
    kinds = ("t2", "t1", "t0", "list", "int", "float", "str", "dict", "box", "pair", "ints", "counts", "bool", "point")
    results = [expression(scope, choices.choose(kinds)) for _ in range(choices.number(1, 4))]
    scope.line(f"return {', '.join(results)}")
    driver = [write_driver(choices, suspends)] if suspends else []
    start = "async def" if suspends == "coroutine" else "def"
    head = [f"    global {name}" for name in sorted(scope.function.globals_written)]
    signature = ", ".join(parameters)
    function = "\n".join([f"{start} program({signature}):", *head, *scope.function.lines])
    return "\n\n\n".join([*helpers, function, *driver, write_calls(choices, parameters)]) + "\n"


def write_helper(choices: Choices, budget: Budget) -> str:
    """A global function under a name that the prelude's call sites use, so that it is called in all forms."""
    name = choices.choose(list(HELPERS))
    signature, kinds = HELPERS[name]
    inside = name == "make_adder"
    if inside:
        kinds = {"by": "int", "z": "t2"}
    scope = Scope(choices, Function(name), dict(kinds), replace(budget, left=4, blocks=BLOCKS), 2 if inside else 1,
                  fixed=frozenset({"by"}))
    statements(scope, 3)
    scope.line(f"return {expression(scope, 't2')}")
    lines = ["    def add(z, times=1):", *scope.function.lines, "    return add"] if inside else scope.function.lines
    body = re.sub(rf"\b({'|'.join(HELPERS)})\(", r"\1_(", "\n".join(lines))
    return f"def {name}({signature}):\n{body}"


def write_calls(choices: Choices, parameters: dict[str, str]) -> str:
    """Two pools of arguments, the second perhaps of other shape, dtype or requires_grad; calls pick from them."""
    lines = ["def pool(rows, kind, grad):"]
    made: list[str] = []
    variants: dict[str, int] = {}
    for name, kind in parameters.items():
        variants[name] = choices.number(1, 3 if kind in ("int", "t2", "list", "ints", "float") else 2)
        for i in range(variants[name]):
            text = choices.choose(VALUES[kind] if made else VALUES["t2"][:2])
            lines.append(f"    {name}_{i} = {text.format(t2=choices.choose(made) if made else '')}")
            if kind == "t2":
                made.append(f"{name}_{i}")
    lines += ["    return locals()", "", "", "def calls():", "    first = pool(3, torch.float32, False)"]
    other = ("pool(3, torch.float32, False)", "pool(3, torch.float32, True)", "pool(2, torch.float32, False)",
             "pool(3, torch.float64, False)", "first", "pool(3, torch.bfloat16, False)")
    lines += [f"    second = {choices.choose(other)}", "    return ["]
    for i in range(choices.number(2, 6)):
        source = "first" if i == 0 else choices.choose(("first", "first", "second"))
        picked = [f'{source}["{name}_{choices.number(0, count - 1) if i else 0}"]' for name, count in variants.items()]
        lines.append(f"        ({', '.join(picked)},),")
    return "\n".join([*lines, "    ]"])


SEEDS = st.integers(0, 2**63)
SIZES = st.integers(4, 26)
#: About half of the programs: breaks within these blocks.
BREAKS: st.SearchStrategy[set[str]] = st.one_of(st.just(set()), st.sets(st.sampled_from(sorted(BROKEN)), min_size=1))
WITHOUT = st.sets(st.sampled_from(sorted(FAMILIES)), max_size=len(FAMILIES) - 2)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    size, breaks, left_out, broken = draw(SIZES), draw(st.booleans()), draw(WITHOUT), frozenset(draw(BREAKS))
    return Program(write_program(Choices(draw(SEEDS)), size, frozenset(left_out), breaks or bool(broken), broken))
