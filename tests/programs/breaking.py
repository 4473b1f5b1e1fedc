"""What breaks the graph, as statements: output, values of tensors, functions in C, exceptions raised out of sight.

Every block of loops.py, guarded.py, suspended.py and callees.py has one of these somewhere in its body.
"""

from __future__ import annotations

from tests.programs.expressions import expression, filled
from tests.programs.statements import body, statements
from tests.programs.writer import Scope

OPAQUE = (
    "print({str}, {int})", "LOG.append(zlib.crc32({str}.encode()))", "sys.intern({str} + 'x')",
    "LOG.append({t0}.item())", "LOG.append({t1}.tolist())", "print({t2}.shape, {float})", "noisy({t2}, {int})",
    "LOG.append(random.random())", "print({t0}.item() > {float})", "NOISY({t2})", "LOG.append(zlib.adler32(b'a' * 3))",
    "print(type({box}).__name__, file=sys.stdout)", "LOG.append(float({t0}))", "sys.stdout.write({str})",
)
#: Raise now and then, where nothing sees it beforehand.
RISKY = (
    "zlib.decompress({str}.encode())", "sys.intern({int})", "LOG.append(int({t0}))", "LOG.append({t1}[:{int}].item())",
    "risky({int})", "LOG.append(risky({int}, ValueError))", "random.choice({ints})", "next(iter({ints}))",
    "NOISY.fail({bool})", "zlib.decompress(b'') if {bool} else None",
)
#: The name that is bound gets what the break gave, and its kind.
GIVING = (
    ("{t0}.item()", "float"), ("{t1}.tolist()[0]", "float"), ("noisy({t2}, {int})", "t2"), ("NOISY({t2})", "t2"),
    ("zlib.crc32({str}.encode()) % 5", "int"), ("{t2} * random.random()", "t2"), ("len(sys.intern({str}))", "int"),
    ("{t1}.argmax().item()", "int"), ("[{t2}, {t2_}][int({t0} > 0)]", "t2"), ("descend({t2}, {int} % 4)", "t2"),
    ("max({t1}.tolist())", "float"), ("counter({box})", "int"),
)
#: Numbers that enter a tensor's arithmetic: they may change at each call and at each turn of a loop.
WITH_NUMBERS = (
    "{t2} * {int} + {float}", "{int} - {t2}", "{float} / ({t2} * {int} + 7)", "({t2} / 3) ** ({int} % 3)",
    "({t2}.to(torch.bfloat16) * {int} - {float}).float()", "({t2}.double() * {float} + {int}).float()",
    "({t2}.nan_to_num(0, 1, -1).clamp(-9, 9).int() * {int} + {float})", "({t2} > {int}).to(torch.int64) * {float}",
    "{t2} + torch.tensor({int}) * {float}", "{t2} + {t0} * {int}", "torch.full((1, 4), {float}) * {t2} - {int}",
    "({t2}.nan_to_num(0, 1, -1).clamp(-9, 9).long() * ({int} % 100) // 2).float()", "{t2} * max({int}, {int_})",
    "torch.add({t2}, {t2_}, alpha={int})", "{t2}.clamp(min={float})", "{t2} * ({int} / 7)", "{t2} + -{int}",
    "torch.tensor(3) * {float} + {t2}", "{t2}.masked_fill({t2} > {int}, {float})", "{t2} + {int} * {float}",
    "{t2}.roll({int} % 3, 0)", "{t2}[{int} % 2:]" " + {int_}", "{t2} * abs({int}) ** 0.5", "{t2} * round({float}, 1)",
)


def breaks_here(scope: Scope) -> None:
    """One break, of one form or another."""
    way = scope.choices.number(0, 9)
    if way < 4:
        scope.line(filled(scope.choices.choose(OPAQUE), scope, 1))
    elif way < 7:
        text, kind = scope.choices.choose(GIVING)
        text = filled(text, scope, 1)
        name = scope.bind(kind)
        scope.line(f"{name} = {text}")
        scope.bound(name, kind)
    elif way < 8:
        scope.line(filled(scope.choices.choose(RISKY), scope, 0))
    else:
        branch(scope)


def branch(scope: Scope) -> None:
    """An `if` on a tensor."""
    tests = ("{t2}.sum() > {float}", "({t1} > {int}).any()", "{t0} > 0", "torch.equal({t2}, {t2_})", "bool({t0} < 1)",
             "not ({t2} > 0).all()", "{t0}.item() > {int}", "{t0} > 0 and {bool}")
    scope.line(f"if {filled(scope.choices.choose(tests), scope, 1)}:")
    body(scope.block(), 2)
    if scope.choices.chance(40):
        scope.line("else:")
        body(scope.block(), 2)


def numbers(scope: Scope) -> None:
    text = filled(scope.choices.choose(WITH_NUMBERS), scope, 0)
    name = scope.bind("t2")
    scope.line(f"{name} = {text}")
    scope.bound(name, "t2")


def around(scope: Scope, most: int) -> None:
    """The statements of a block with a break at the beginning, in the middle or at the end."""
    if scope.choices.chance(60):
        statements(scope, most)
    if scope.choices.chance(60):
        numbers(scope)
    breaks_here(scope)
    if scope.choices.chance(70):
        statements(scope, most)


def condition(scope: Scope) -> str:
    """For leaving a loop: mostly one that comes true at some turn."""
    texts = ("{int} == 2", "{int} > 1", "{t0} > {float}", "{t2}.sum() > 3", "{bool}", "{t0}.item() < 0",
             "len(LOG) % 3 == 2")
    return filled(scope.choices.choose(texts), scope, 0)


def leaves(scope: Scope) -> None:
    """Out of the loop, or on to its next turn."""
    way = scope.choices.choose(("break", "continue", "break", "return") if scope.in_loop else ("return",))
    if way == "return":
        way = "return" if scope.function.suspends == "asynchronous" else f"return {expression(scope, 't2')}"
    scope.line(f"if {condition(scope)}:")
    if scope.choices.chance(30):
        inner = scope.block()
        breaks_here(inner)
    scope.line(f"    {way}")
