"""Functions that are broken inside: closures, methods, callable objects, partials, decorated ones, recursion."""

from __future__ import annotations

from dataclasses import replace

from tests.programs.breaking import around, breaks_here
from tests.programs.expressions import expression, filled, leaf
from tests.programs.writer import Function, Scope


def inside(scope: Scope, function: Function, bound: dict[str, str], indent: int = 1) -> Scope:
    """The scope of a function within this one, which may read its names but rebind none."""
    kinds = {n: k for n, k in scope.kinds.items() if k != "fn"}  # one might by then be this function
    budget = replace(scope.budget, left=min(scope.budget.left, 3))
    return Scope(scope.choices, function, {**kinds, **bound}, budget, scope.indent + indent,
                 fixed=frozenset(kinds) | scope.fixed)


def written(scope: Scope, head: str, function: Function, inner: Scope) -> None:
    """Puts a finished function into the one around it."""
    scope.budget.left -= 1
    scope.budget.names = max(scope.budget.names, inner.budget.names)
    scope.line(head)
    scope.function.lines += function.lines


def counts(scope: Scope, inner: Scope) -> None:
    names = [n for n in scope.names("int") if n.startswith("v") and n not in scope.fixed]
    if names and scope.choices.chance(50):
        changed = scope.choices.choose(names)
        inner.line(f"nonlocal {changed}")
        inner.line(f"{changed} += {scope.choices.number(1, 2)}")


def broken_closure(scope: Scope) -> None:
    name, parameter = scope.fresh("f"), scope.fresh("a")
    function = Function(name)
    inner = inside(scope, function, {parameter: "t2", "by": "float"})
    counts(scope, inner)
    around(inner, 2)
    inner.line(f"return {expression(inner, 't2')} * by")
    head = f"def {name}({parameter}, by={expression(scope, 'float', 1)}):"
    if scope.choices.chance(25):
        scope.line("@logged")
    written(scope, head, function, inner)
    scope.bound(name, "fn")
    calls(scope, name)


def calls(scope: Scope, name: str) -> None:
    texts = ("SEEN.append({f}({t2}))", "SEEN.append({f}({t2}, by={int}))", "SEEN.extend(map({f}, {pair}))",
             "SEEN.append(functools.partial({f}, by={float})({t2}))", "SEEN.append({f}({t2}) + {f}({t2_}, {float}))",
             "SEEN.extend([{f}(z) for z in {pair}])", "for k in range(3): SEEN.append({f}({t2}, k))")
    for _ in range(scope.choices.number(1, 2)):
        text = scope.choices.choose(texts).replace("{f}", name)
        if "in range" in text:
            scope.kinds.pop("k", None)
        scope.line(filled(text, scope, 1))


def closures_in_a_loop(scope: Scope) -> None:
    """A closure is made at each turn; each is called, then or later."""
    made, item, parameter = scope.fresh("fs"), scope.fresh("i"), scope.fresh("a")
    scope.line(f"{made} = []")
    scope.line(f"for {item} in range({scope.choices.number(2, 3)}):")
    loop = scope.block({item: "int"}, loop=True)
    loop.fixed |= {item}
    if scope.choices.chance(30):
        loop.line(f"{made}.append(lambda a, k={item}: noisy(a, k) * {item})")
    else:
        name = scope.fresh("f")
        function = Function(name)
        inner = inside(loop, function, {parameter: "t2"})
        counts(loop, inner)
        around(inner, 1)
        inner.line(f"return {leaf(inner, 't2')} * {item}")
        written(loop, f"def {name}({parameter}, k={item}):", function, inner)
        loop.line(f"{made}.append({name})")
    if scope.choices.chance(50):
        breaks_here(loop)
    scope.line(filled(scope.choices.choose((
        f"SEEN.extend([f({{t2}}) for f in {made}])", f"SEEN.append({made}[0]({{t2}}) + {made}[-1]({{t2_}}))",
        f"SEEN.append(functools.reduce(lambda x, f: f(x), {made}, {{t2}}))")), scope, 1))


def recursion(scope: Scope) -> None:
    name, parameter = scope.fresh("f"), scope.fresh("a")
    function = Function(name)
    inner = inside(scope, function, {parameter: "t2", "depth": "int"})
    inner.fixed |= {"depth"}
    around(inner, 1)
    inner.line("if depth <= 0:")
    inner.line(f"    return {leaf(inner, 't2')}")
    again = scope.choices.choose((f"{name}({parameter} * 0.5 + depth, depth - 1)",
                                  f"noisy({name}({parameter}, depth - 2), depth)",
                                  f"{name}(noisy({parameter}), depth - 1) * depth"))
    inner.line(f"return {again}")
    written(scope, f"def {name}({parameter}, depth={scope.choices.number(1, 3)}):", function, inner)
    scope.line(filled(f"SEEN.append({name}({{t2}}, {{int}} % 4))", scope, 1))


def broken_method(scope: Scope) -> None:
    """A class of its own: a method and a call of the object, both broken inside."""
    name, made = scope.fresh("C"), scope.fresh("o")
    method = Function("method")
    inner = inside(scope, method, {"a": "t2", "self": "box"}, 2)
    inner.fixed |= {"self"}
    around(inner, 1)
    inner.line("self.count += 1")
    inner.line(f"return {leaf(inner, 't2')} * self.count")
    scope.line(f"class {name}({scope.choices.choose(('Box', 'Base', 'Box'))}):")
    head = scope.choices.choose(("def method(self, a, by=1):", "def __call__(self, a, by=1):"))
    written(scope.block(), head, method, inner)
    scope.line(f"{made} = {name}({leaf(scope, 't2')}, 1)")
    function = f"{made}.method" if "method(" in head else made
    scope.kinds[made] = "box"
    calls(scope, function)


BLOCKS = [(broken_closure, "broken closure", 1), (broken_closure, "broken closure", 2),
          (closures_in_a_loop, "broken closure", 1), (recursion, "broken recursion", 1),
          (broken_method, "broken method", 1)]
