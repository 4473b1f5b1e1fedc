"""Loops that are broken inside. Every one ends: what is iterated is a copy or cut short, and a `while` counts first."""

from __future__ import annotations

from tests.programs.breaking import around, breaks_here, leaves
from tests.programs.expressions import expression, filled
from tests.programs.statements import begin_for, else_block
from tests.programs.writer import Scope

#: The head behind `for`, with `@1` and `@2` for the names that it binds, and their kinds.
HEADS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("@1 in range({int} % 5)", ("int",)), ("@1 in range(3)", ("int",)), ("@1 in range(len({list}[:4]))", ("int",)),
    ("@1 in range(4, 0, -1)", ("int",)), ("@1 in list({list})[:4]", ("t2",)), ("@1 in {ints}[:4]", ("int",)),
    ("@1, @2 in enumerate({pair})", ("int", "t2")), ("@1, @2 in enumerate([*{ints}][:4], {int})", ("int", "int")),
    ("@1, @2 in zip([*{list}][:4], {ints}[:3])", ("t2", "int")), ("@1, @2 in zip({pair}, {pair})", ("t2", "t2")),
    ("@1 in reversed([*{list}][:4])", ("t2",)), ("@1 in reversed(range({int} % 4))", ("int",)),
    ("@1 in itertools.islice({dict}, 3)", ("str",)), ("@1 in itertools.islice({dict}.values(), 3)", ("t2",)),
    ("@1, @2 in itertools.islice({dict}.items(), 3)", ("str", "t2")), ("@1 in dict({counts}).values()", ("int",)),
    ("@1, @2 in dict({dict}).items()", ("str", "t2")), ("@1 in count_down({int} % 5)", ("int",)),
    ("@1 in steps({t2}, {int} % 4)", ("t2",)), ("@1 in Countdown({int} % 4)", ("int",)), ("@1 in {t2}[:3]", ("t1",)),
    ("@1 in (k * 2 for k in range(3))", ("int",)), ("@1 in (z * {int} for z in {pair})", ("t2",)),
    ("@1 in map(abs, {ints}[:4])", ("int",)), ("@1 in itertools.islice({list}, 3)", ("t2",)),
    ("@1 in filter(None, [0, 1, {int}])", ("int",)), ("@1 in itertools.chain({pair}, {list}[:2])", ("t2",)),
    ("@1 in (0.5, {float}, 2.0)", ("float",)), ("@1 in sorted({{*{ints}}})[:4]", ("int",)),
    ("@1 in {str}[:3]", ("str",)),
    ("@1 in {t1}.tolist()[:3]", ("float",)), ("@1 in iter([{int}, 2, 3])", ("int",)),
    ("@1 in iter(Countdown(4).__next__, {int})", ("int",)), ("@1 in Indexed({ints}[:4])", ("int",)),
)


def broken_for(scope: Scope) -> None:
    inner, bound = begin_for(scope, HEADS)
    turn(inner)
    scope.doubtful.extend(name for name, kind in bound.items() if kind == "int")
    else_block(scope)


def turn(scope: Scope) -> None:
    if scope.choices.chance(20):
        leaves(scope)
    around(scope, 2)
    if scope.choices.chance(45):
        leaves(scope)


def broken_while(scope: Scope) -> None:
    """Also on a tensor; at most four turns."""
    counter, most = scope.fresh("k"), scope.choices.number(1, 4)
    tests = ("{k} < {n}", "{k} < {n} and {t0} < 50", "{t2}.sum() < 30 and {k} < {n}", "{k} < {n} and {bool}", "True",
             "{k} < {n} and bool(({t1} < 9).any())", "({k} := {k} + 1) <= {n}", "{k} < {n} and {t0}.item() < {int}")
    test = scope.choices.choose(tests)
    fields = {f: expression(scope, f, 1) for f in ("t0", "t1", "t2", "bool", "int")}
    scope.line(f"{counter} = 0")
    scope.line(f"while {test.format(k=counter, n=most, **fields)}:")
    inner = scope.block({counter: "int"}, loop=True, fixed=frozenset({counter}))
    if ":=" not in test:
        inner.line(f"{counter} += 1")
    if test == "True":
        inner.line(f"if {counter} > {most}:")
        inner.line("    break")
    turn(inner)
    else_block(scope)


def iterated_by_hand(scope: Scope) -> None:
    """An iterator that outlives its loop: a part of it here, the rest there."""
    iterator, item = scope.fresh("it"), scope.fresh("i")
    texts = ("iter([*{list}, {t2}])", "iter({pair})", "steps({t2}, 4)", "reversed([{t2}, {t2_}])", "map({fn}, {pair})",
             "iter({{'a': {t2}, 'b': {t2_}}}.values())", "({t2} * k for k in range(4))")
    scope.line(f"{iterator} = {filled(scope.choices.choose(texts), scope, 1)}")
    scope.line(f"for {item} in {iterator}:")
    inner = scope.block({item: "t2"}, loop=True)
    around(inner, 1)
    leaves(inner)
    if scope.choices.chance(60):
        breaks_here(scope)
    rest = ("LOG.append(sum(1 for _ in {}))", "SEEN.extend({})", "LOG.append(next({}, None))",
            "for {i} in {}: SEEN.append({i} + 1)")
    scope.line(scope.choices.choose(rest).format(iterator, i=item))


def comprehension(scope: Scope) -> None:
    """Breaks within comprehensions, whose variables and results stand on the stack."""
    texts = (("[noisy(z, {int}) for z in {pair}]", "list"),
             ("[z * {int} for z in {list} if z.sum() > {float}]", "list"),
             ("[k + len(sys.intern({str})) for k in {ints}[:4]]", "ints"),
             ("[NOISY(z) * k for k, z in enumerate({pair})]", "list"),
             ("{{k: noisy(z) for k, z in {dict}.items()}}", "dict"),
             ("[z + k for k in range(3) for z in (print(k), {t2})[1:]]", "list"),
             ("{{str(k): zlib.crc32(b'a') % 7 + k for k in {ints}[:3]}}", "counts"),
             ("(noisy({t2}), {t2} * {t0}.item())", "pair"),
             ("[int(z.sum() > 0) + {int} for z in {pair}]", "ints"), ("[*map(noisy, {pair})]", "list"))
    text, kind = scope.choices.choose(texts)
    text = filled(text, scope, 1)
    name = scope.bind(kind)
    scope.line(f"{name} = {text}")
    scope.bound(name, kind)


BLOCKS = [(broken_for, "broken for", 3), (broken_for, "broken for", 3), (broken_for, "broken for", 3),
          (broken_while, "broken while", 3), (iterated_by_hand, "broken iterator", 2),
          (comprehension, "broken comprehension", 4)]
