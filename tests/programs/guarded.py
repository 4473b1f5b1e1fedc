"""`try` and `with` that are broken inside, alone, in loops and around loops."""

from __future__ import annotations

from tests.programs.breaking import RISKY, around, breaks_here, leaves, numbers
from tests.programs.expressions import filled, leaf
from tests.programs.loops import broken_for
from tests.programs.statements import body, fail, statements
from tests.programs.writer import Scope

ERRORS = "(ValueError, TypeError, KeyError, IndexError, ZeroDivisionError, zlib.error, RuntimeError, StopIteration)"


def broken_try(scope: Scope) -> None:
    choices = scope.choices
    scope.line("try:")
    inner = scope.block()
    if choices.chance(60):
        statements(inner, 2)
    if choices.chance(40):
        numbers(inner)
    fails(inner)
    if choices.chance(30):
        broken_for(inner)
    if choices.chance(25):
        leaves(inner)
    clauses = choices.choose((
        [f"except {ERRORS} as error:"], ["except Exception as error:"],
        ["except zlib.error:", "except Exception as error:"],
        ["except (TypeError, ValueError) as error:", f"except {ERRORS}:"], ["except:"], [],
    ))
    for clause in clauses:
        scope.line(clause)
        handler(scope.block(), "error" if "as error" in clause else "")
    if clauses and choices.chance(30):
        scope.line("else:")
        around(scope.block(), 1)
    if not clauses or choices.chance(35):
        scope.line("finally:")
        final = scope.block()
        final.in_loop = False  # break and continue in a finally clause swallow exceptions, and are warned of by 3.14
        around(final, 1)


def fails(scope: Scope) -> None:
    """In a `try`: usually something may go wrong."""
    way = scope.choices.number(0, 2)
    if way == 0:
        scope.line(filled(scope.choices.choose(RISKY), scope, 0))
    elif way == 1:
        fail(scope)
    else:
        breaks_here(scope)


def handler(scope: Scope, error: str) -> None:
    choices = scope.choices
    if choices.chance(50):
        numbers(scope)
    if choices.chance(60):
        breaks_here(scope)
    if error and choices.chance(60):
        looks = ("LOG.append(type(error).__name__)", "LOG.append((type(error.__context__), type(error.__cause__)))",
                 "LOG.append(error.__traceback__.tb_lineno)", "print(repr(error)[:40])", "LOG.append(str(error)[:9])",
                 "LOG.append(sys.exc_info()[1] is error)")
        scope.line(choices.choose(looks))
    body(scope, 2)
    if choices.chance(15):
        ways = ["raise", "raise LookupError({str})", "raise LookupError({int}) from None"]
        ways += ["raise LookupError(2) from error", "raise error"] if error else []
        scope.line(f"if {filled('{bool}', scope, 1)}:")
        scope.line(f"    {filled(choices.choose(ways), scope, 0)}")
    elif choices.chance(25):
        leaves(scope)


def guarded_loop(scope: Scope) -> None:
    """A `try` in each turn."""
    item = scope.fresh("i")
    scope.line(f"for {item} in range({scope.choices.number(2, 4)}):")
    inner = scope.block({item: "int"}, loop=True)
    if scope.choices.chance(50):
        numbers(inner)
    broken_try(inner)
    if scope.choices.chance(40):
        statements(inner, 1)


def broken_with(scope: Scope) -> None:
    choices = scope.choices
    heads = (
        "torch.no_grad()", "Manager({box})", "Manager({box}, swallow=True)", "Manager({box}) as @",
        "managed({box}) as @",
        "managed({box}, {bool}) as @", "contextlib.suppress(ValueError, TypeError, zlib.error)", "torch.enable_grad()",
        "torch.no_grad(), Manager({box}) as @", "Manager({box}), managed({box}) as @",
        "contextlib.nullcontext({box}) as @",
        "torch.set_grad_enabled({bool})", "NoisyManager({box}) as @", "NoisyManager({box}, True), torch.no_grad()",
        "Shared.lock",
        "contextlib.closing(io.StringIO())", "contextlib.redirect_stdout(io.StringIO())",
        "contextlib.ExitStack() as stack",
    )
    name, head = scope.fresh(), choices.choose(heads)
    scope.line(f"with {filled(head, scope, 0).replace('@', name)}:")
    inner = scope.block({name: "box"} if "@" in head else {})
    if "stack" in head:
        enters = ("stack.enter_context(Manager({o}))", "stack.callback(LOG.append, 1)",
                  "stack.enter_context(managed({o}))",
                  "stack.enter_context(torch.no_grad())", "stack.push(Manager({o}, True))",
                  "stack.enter_context(NoisyManager({o}))")
        for _ in range(choices.number(1, 3)):
            inner.line(choices.choose(enters).format(o=leaf(scope, "box")))
    if choices.chance(25):
        broken_for(inner)
    around(inner, 2)
    if choices.chance(30):
        fails(inner)
    if choices.chance(25):
        leaves(inner)


def group(scope: Scope) -> None:
    """`except*`, which has no way out of the block but the end."""
    first, second = scope.choices.choose(("ValueError", "KeyError")), scope.choices.choose(("TypeError", "KeyError"))
    scope.line("try:")
    inner = scope.block()
    breaks_here(inner)
    both = f"[{first}(1), {second}({leaf(scope, 'int')})]"
    inner.line(f"if {filled('{bool}', scope, 1)}: raise ExceptionGroup('g', {both})")
    for kind in ("ValueError", "KeyError"):
        scope.line(f"except* {kind} as group:")
        inner = scope.block()
        inner.line("LOG.append(len(group.exceptions))")
        numbers(inner)
        if scope.choices.chance(50):
            inner.line(filled("print({int}, {float})", inner, 0))


BLOCKS = [(broken_try, "broken try", 3), (broken_try, "broken try", 3), (guarded_loop, "broken try", 2),
          (broken_with, "broken with", 3), (broken_with, "broken with", 3), (group, "exception groups", 1)]
