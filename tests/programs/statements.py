"""Statements, and the blocks and functions made of them. Every production writes its lines into a scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.programs.expressions import expression, filled, leaf
from tests.programs.writer import TENSORS, Function, Scope

Production = Callable[[Scope], None]
ASSIGNED = ("t2", "t2", "t2", "t1", "t0", "int", "int", "float", "str", "bool", "list", "ints", "dict", "counts",
            "pair", "box", "point", "fn")


def statements(scope: Scope, most: int) -> None:
    """One or more statements, as far as the budget goes."""
    for _ in range(scope.choices.number(1, most)):
        if scope.budget.left <= 0:
            break
        scope.budget.left -= 1
        nested = allowed(scope, scope.budget.blocks)
        if nested and scope.choices.chance(35):
            scope.choices.choose(nested)(scope)
        else:
            scope.choices.choose([*allowed(scope, SIMPLE), assign])(scope)


def allowed(scope: Scope, productions: list[tuple[Production, str, int]]) -> list[Production]:
    return [p for p, family, depth in productions if family not in scope.budget.without and scope.indent <= depth]


def body(scope: Scope, most: int) -> None:
    """The statements of a block, which must have one."""
    before = len(scope.function.lines)
    statements(scope, most)
    if len(scope.function.lines) == before:
        scope.line("pass")


def assign(scope: Scope) -> None:
    kind = scope.choices.choose(ASSIGNED)
    text = bounded(scope, expression(scope, kind, 3), kind)
    name = scope.bind(kind)
    scope.line(f"{name} = {text}")
    scope.bound(name, kind)


def bounded(scope: Scope, text: str, kind: str) -> str:
    """What a loop doubles or squares at each turn must not grow for ever."""
    if not scope.in_loop or kind not in ("int", "str", "list", "ints"):
        return text
    return f"({text}) % 1000" if kind == "int" else f"({text})[:9]"


def assign_several(scope: Scope) -> None:
    pick = scope.choices.choose
    form = pick(("swap", "pair", "star", "chain", "walrus", "nested"))
    first, second = scope.fresh(), scope.fresh()
    if form == "swap":
        names = [n for n in scope.names("t2") if n not in scope.fixed]
        if names:
            one, two = pick(names), pick(names)
            scope.line(f"{one}, {two} = {two}, {one}")
        return
    texts = {
        "pair": f"{first}, {second} = {expression(scope, 'pair')}",
        "star": f"{first}, *{second} = {expression(scope, 'list')} or [{leaf(scope, 't2')}]",
        "chain": f"{first} = {second} = {expression(scope, 't2')}",
        "walrus": f"{second} = ({first} := {expression(scope, 't2')}) + {leaf(scope, 'int')}",
        "nested": f"({first}, _), {second} = {expression(scope, 'pair')}, {expression(scope, 't2')}",
    }
    scope.line(texts[form])
    scope.bound(first, "t2")
    scope.bound(second, "list" if form == "star" else "t2")


def augmented(scope: Scope) -> None:
    kinds = {"t2": ("+=", "*=", "-="), "t1": ("+=", "*="), "int": ("+=", "-="), "float": ("+=", "*="),
             "str": ("+=",), "ints": ("+=",), "list": ("+=",)}
    names = [n for n in scope.names(*kinds) if n not in scope.fixed]
    if not names:
        return assign(scope)
    name = scope.choices.choose(names)
    kind = scope.kinds[name]
    operator = scope.choices.choose(kinds[kind])
    other = expression(scope, smaller(scope, kind), 1)
    scope.line(f"{name} {operator} {apart(bounded(scope, other, kind), kind)}")


def apart(operand: str, kind: str) -> str:
    """An operand that overlaps what is written in part is refused, but only when it runs: so it is copied.

    A graph that raises behind a write to an input is a known difference, see tests/programs/known.
    """
    return f"torch.as_tensor({operand}).clone()" if kind in TENSORS else operand


def smaller(scope: Scope, kind: str) -> str:
    """A kind that broadcasts into this one."""
    return scope.choices.choose([*TENSORS[TENSORS.index(kind):], "float"]) if kind in TENSORS else kind


def change_tensor(scope: Scope) -> None:
    """In place, through the tensor itself or a view of it."""
    target = expression(scope, "t2", scope.choices.number(0, 1)) if scope.choices.chance(20) else leaf(scope, "t2")
    view = scope.choices.choose(("{}", "{}[0]", "{}[:, 1:]", "{}.T[0]", "{}.view(-1)", "{}[-1, :2]", "{}.detach()"))
    kind = scope.choices.choose(("float", "int", "t0"))
    number = apart(expression(scope, kind, 1), kind)
    texts = ("{v}.add_({e})", "{v}.mul_({e})", "{t}[0] = {e}", "{t}[:, 1] = {e}", "{t}[..., -1] += {e}", "{v}.zero_()",
             "{v}.copy_({v} * 2)", "{v}.clamp_(min={e})", "{t}[{t} > 0] = {e}", "{v}.fill_({e})", "{v}.sub_({e})",
             "{v}.uniform_()", "torch.add({t}, 1, out={t})", "{t}.t_().t_()", "{v}.neg_()", "F.relu({t}, inplace=True)")
    scope.line(scope.choices.choose(texts).format(v=view.format(target), t=target, e=number))


def change(kind: str, *texts: str) -> Production:
    """A mutation of an object of this kind, `{o}` in the texts; their other fields are those of expressions."""

    def produce(scope: Scope) -> None:
        if not scope.names(kind) and not scope.choices.chance(15):
            return assign(scope)
        target = leaf(scope, kind).replace("{", "{{").replace("}", "}}")
        scope.line(filled(scope.choices.choose(texts).replace("{o}", target), scope, 1))

    return produce


def change_global(scope: Scope) -> None:
    text, name = scope.choices.choose((
        ("SEEN.append({t2})", ""), ("COUNT += {int} % 100", "COUNT"), ("TABLE['a'] = {int}", ""),
        ("ORDER.append({int})", ""),
        ("FACTOR = {float}", "FACTOR"), ("LABEL = ({str})[:9]", "LABEL"), ("WEIGHT.mul_(0.5)", ""),
        ("TABLE[{str}] = {int}", ""), ("Box.kind = {str}", ""), ("Base.made += 1", ""), ("SEEN[:] = []", ""),
        ("WEIGHT = WEIGHT + 1", "WEIGHT"),
    ))
    if name:
        if scope.function.name != "program":
            return scope.line("SEEN.append(COUNT)")
        scope.function.globals_written.add(name)
    scope.line(filled(text, scope, 1))


def leave(scope: Scope) -> None:
    """Out of the loop or the function, mostly under a condition (a block after which nothing comes is dull)."""
    way = scope.choices.choose(("break", "continue", "return") if scope.in_loop else ("return",))
    text = f"return {expression(scope, scope.choices.choose(('t2', 'list', 'int', 'box')))}" if way == "return" else way
    scope.line(f"if {expression(scope, 'bool')}:")
    scope.line(f"    {text}")


def fail(scope: Scope) -> None:
    """Something that may raise."""
    texts = ("if {bool}: raise ValueError('no', {int})", "if {bool}: raise KeyError({str})", "assert {bool}, {str}",
             "strict({int}, 3)", "{counts}[{str}]", "{ints}[{int}]", "int({str})", "{int} // {int_}", "{t2}.view(5, 7)",
             "{t2} + torch.ones(2, 3, 5)", "{t2}[{int}]", "{box}.missing", "raise_if({bool})", "{list}.pop()",
             "{t2}.sum().backward()", "{ints}.index({int})",
             "1 / {int}", "{float} % {int}", "math.sqrt({int})", "2.0 ** ({int} * 300)", "round({float} / {int}, 1)",
             "if {bool}: raise RuntimeError({str}) from ValueError({int})")
    scope.line(filled(scope.choices.choose(texts), scope, 1))


def forget(scope: Scope) -> None:
    """A name is deleted, or one that may be unbound is read."""
    names = [n for n in scope.kinds if n not in scope.fixed and n.startswith("v")]
    if names and scope.indent == 1:
        name = scope.choices.choose(names)
        del scope.kinds[name]
        scope.line(f"del {name}")
    else:
        assign(scope)


def tell(scope: Scope) -> None:
    if not scope.budget.breaks or not scope.choices.chance(40):
        return assign(scope)
    texts = ("print({str}, {int})", "print({t2}.shape)", "print({t2})")
    scope.line(filled(scope.choices.choose(texts), scope, 0))


CHANGES: dict[str, tuple[str, ...]] = {
    "list": ("{o}.append({t2})", "{o}.extend({pair})", "{o}.insert(0, {t2})", "{o}[:1] = [{t2}]", "{o}.clear()",
             "{o}.reverse()", "{o} and {o}.pop()", "{o}[0:] = {list}", "del {o}[1:]",
             "{o}.extend(z + 1 for z in {pair})"),
    "ints": ("{o}.append({int})", "{o}.sort()", "{o}.insert({int}, {int})", "{o} and {o}.pop(0)", "{o}[:] = {ints}",
             "{o}.sort(key=lambda k: -k)", "{o}.extend(range({int} % 3))",
             "{o}.remove({int}) if {int} in {o} else None"),
    "dict": ("{o}['a'] = {t2}", "{o}[{str}] = {t2}", "{o}.pop('a', None)", "{o}.setdefault({str}, {t2})",
             "{o}.update(b={t2})", "{o}.update({dict})", "{o}.clear()", "{o} and {o}.popitem()"),
    "counts": ("{o}['a'] = {int}", "{o}['n'] = {o}.get('n', 0) + 1", "{o}.update({counts})", "{o}.pop({str}, 0)",
               "{o}.setdefault({str}, {int})"),
    "box": ("{o}.value = {t2}", "{o}.count += {int}", "{o}.count = {int}", "{o}.items.append({t2})",
            "{o}.double = {t2}", "{o}.bump({int})", "{o}.extra = {str}", "setattr({o}, 'count', {int})",
            "{o}.value += 1", "{o}.items = {ints}"),
    "point": ("{o}.x = {t2}", "{o}.y += {int}", "{o}.tags.append({str})"),
    "module": ("{o}.train({bool})", "{o}.gain = {float}", "{o}.seen += 1", "{o}.steps += 1", "{o}.eval()",
               "{o}.zero_grad()"),
}
#: Each with its family and the indentation up to which it may stand.
SIMPLE: list[tuple[Production, str, int]] = [
    *[(assign, "assign", 9)] * 5, (assign_several, "unpack", 9), *[(augmented, "augmented", 9)] * 2,
    *[(change_tensor, "in place", 9)] * 2, *[(change(kind, *texts), kind, 9) for kind, texts in CHANGES.items()],
    (change_global, "globals", 9), (leave, "leave", 9), (fail, "fail", 9), (forget, "forget", 9), (tell, "tell", 9),
]


def if_block(scope: Scope) -> None:
    scope.line(f"if {expression(scope, 'bool', 2)}:")
    body(scope.block(), 3)
    if scope.choices.chance(30):
        scope.line(f"elif {expression(scope, 'bool', 2)}:")
        body(scope.block(), 2)
    if scope.choices.chance(50):
        scope.line("else:")
        body(scope.block(), 3)


#: The head behind `for`, with `@1` and `@2` for the names that it binds, and their kinds.
LOOPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("@1 in range({int} % 4)", ("int",)), ("@1 in {list}[:3]", ("t2",)), ("@1 in {ints}[:3]", ("int",)),
    ("@1, @2 in enumerate({pair})", ("int", "t2")), ("@1, @2 in list({dict}.items())[:3]", ("str", "t2")),
    ("@1, @2 in zip({ints}[:3], {pair})", ("int", "t2")), ("@1 in ({int}, {int_})", ("int",)),
    ("@1 in list({counts})[:3]", ("str",)), ("@1 in count_down({int} % 4)", ("int",)), ("@1 in {t2}", ("t1",)),
    ("@1 in map(abs, {ints}[:3])", ("int",)), ("@1 in reversed({pair})", ("t2",)), ("@1 in {str}[:3]", ("str",)),
)


def begin_for(scope: Scope, heads: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[Scope, dict[str, str]]:
    """The line of one of these loops; its block, and the names that it binds with their kinds."""
    head, kinds = scope.choices.choose(heads)
    bound = {scope.fresh("i"): kind for kind in kinds}
    text = filled(head, scope, 1)
    for number, name in enumerate(bound, 1):
        text = text.replace(f"@{number}", name)
    scope.line(f"for {text}:")
    return scope.block(bound, loop=True), bound


def for_block(scope: Scope) -> None:
    inner, bound = begin_for(scope, LOOPS)
    body(inner, 3)
    scope.doubtful.extend(name for name, kind in bound.items() if kind == "int")
    else_block(scope)


def else_block(scope: Scope) -> None:
    if scope.choices.chance(15):
        scope.line("else:")
        body(scope.block(), 2)


def while_block(scope: Scope) -> None:
    """It ends: a counter of its own, which nothing else may bind, is counted first thing."""
    counter = scope.fresh("k")
    scope.line(f"{counter} = 0")
    scope.line(f"while {counter} < {scope.choices.number(1, 3)} and {expression(scope, 'bool', 1)}:")
    scope.line(f"    {counter} += 1")
    body(scope.block({counter: "int"}, loop=True, fixed=frozenset({counter})), 3)
    else_block(scope)


def try_block(scope: Scope) -> None:
    pick = scope.choices.choose
    scope.line("try:")
    inner = scope.block()
    statements(inner, 2)
    fail(inner)
    forms: tuple[list[str], ...] = (["except (ValueError, KeyError, IndexError) as error:"],
    ["except Exception as error:"],
             ["except KeyError:", "except (RuntimeError, ZeroDivisionError) as error:"], [])
    clauses = pick(forms)
    for clause in clauses:
        scope.line(clause)
        handler = scope.block()
        body(handler, 2)
        if scope.choices.chance(20):
            handler.line("raise")
        elif "error" in clause and scope.choices.chance(40):
            handler.line("SEEN.append(type(error).__name__)")
    if clauses and scope.choices.chance(25):
        scope.line("else:")
        body(scope.block(), 2)
    if not clauses or scope.choices.chance(25):
        scope.line("finally:")
        final = scope.block()
        final.in_loop = False  # break and continue in a finally clause swallow exceptions, and are warned of by 3.14
        body(final, 2)


def with_block(scope: Scope) -> None:
    texts = ("torch.no_grad()", "torch.enable_grad()", "Manager({o})", "Manager({o}, swallow=True)",
             "Manager({o}) as {m}", "torch.no_grad(), Manager({o})", "torch.set_grad_enabled({b})")
    name = scope.fresh()
    text = scope.choices.choose(texts)
    scope.line(f"with {text.format(o=leaf(scope, 'box'), m=name, b=expression(scope, 'bool', 1))}:")
    body(scope.block({name: "box"} if "{m}" in text else {}), 3)


def closure(scope: Scope) -> None:
    """A function inside the function, which reads names of the outer one and may change one; then a call of it."""
    name, parameter = scope.fresh("f"), scope.fresh("a")
    function = Function(name)
    kinds = {n: k for n, k in scope.kinds.items() if k != "fn"}  # one might by then be this function
    inner = Scope(scope.choices, function, {**kinds, parameter: "t2"}, scope.budget, scope.indent + 1,
                  fixed=frozenset(kinds) | scope.fixed)
    counters = [n for n in scope.names("int") if n.startswith("v") and n not in scope.fixed]
    if counters and scope.choices.chance(50):
        changed = scope.choices.choose(counters)
        inner.line(f"nonlocal {changed}")
        inner.line(f"{changed} += 1")
    body(inner, 2)
    scope.line(f"def {name}({parameter}, by={expression(scope, 'float', 1)}):")
    scope.function.lines += function.lines
    scope.line(f"    return {expression(inner, 't2')} * by")
    scope.bound(name, "fn")
    scope.line(f"SEEN.append({name}({expression(scope, 't2')}))")


PATTERNS = ("0 | 1", "'a'", "2 | 3", "None", "other if other", "'' | 'b'", "-1")
PATTERNS_OF_OBJECTS = ("[only]", "[first, *_]", "Point(y=1)", "{'a': 1}", "str()", "int() as number if number > 1")


def match_block(scope: Scope) -> None:
    objects = scope.choices.chance(30)
    kinds = ("int", "str", "ints", "point", "pair", "counts") if objects else ("int", "str")
    patterns = PATTERNS_OF_OBJECTS if objects else PATTERNS
    scope.line(f"match {expression(scope, scope.choices.choose(kinds))}:")
    for pattern in sorted({scope.choices.choose(patterns) for _ in range(2)}):
        scope.line(f"    case {pattern}:")
        inner = scope.block()
        inner.indent += 1
        body(inner, 2)
    scope.line("    case _:")
    scope.line("        pass")


BLOCKS: list[tuple[Production, str, int]] = [
    (if_block, "if", 3), (for_block, "for", 2), (if_block, "if", 3), (try_block, "try", 2), (while_block, "while", 2),
    (with_block, "with", 3), (for_block, "for", 2), (closure, "closure", 1), (match_block, "match", 2),
]
FAMILIES = {family for _, family, _ in SIMPLE + BLOCKS} - {"assign"}
