"""Generators and coroutines with breaks between their suspensions, and who drives them.

`program` may be a generator function or a coroutine function itself: then the text has a driver, see drivers.py.
"""

from __future__ import annotations

from tests.programs.breaking import around, breaks_here, leaves, numbers
from tests.programs.callees import inside, written
from tests.programs.expressions import expression, filled, leaf
from tests.programs.writer import Function, Scope


def suspend(scope: Scope) -> None:
    """A `yield` or an `await`, in whatever way fits the function."""
    pick = scope.choices.choose
    if scope.function.suspends == "generator":
        form = scope.choices.number(0, 5)
        if form < 3:
            texts = ("yield {t2}", "yield {t2} * {int}", "yield {int}", "yield [{t2}, {float}]")
            scope.line(filled(pick(texts), scope, 1))
        elif form < 5:
            name = scope.fresh()
            scope.line(f"{name} = yield {expression(scope, 't2', 1)}")
            scope.line(f"{name} = {leaf(scope, 't2')} * (2 if {name} is None else {name})")
            scope.bound(name, "t2")
        else:
            scope.line(filled(pick(("yield from steps({t2}, {int} % 3)", "yield from {pair}", "yield from {list}[:3]",
                                    "LOG.append((yield from steps({t2}, 2)))")), scope, 1))
    elif scope.function.suspends:
        text, kind = pick((("await asyncio.sleep(0)", ""), ("await slowly({t2}, {int})", "t2"),
                           ("await Pause({int})", "int"),
                           ("await slowly({t2})", "t2"), ("[z async for z in ticks({t2}, {int} % 3)]", "list"),
                           ("await slowly({t2}, {float})", "t2")))
        text = filled(text, scope, 1)
        if not kind:
            return scope.line(text)
        name = scope.fresh()
        scope.line(f"{name} = {text}")
        scope.bound(name, kind)


def suspended_block(scope: Scope) -> None:
    """A loop with suspensions and breaks by turns; in a `try` now and then; `async for` and `async with`."""
    if not scope.function.suspends:
        return breaks_here(scope)
    choices = scope.choices
    asynchronous = scope.function.suspends == "coroutine"
    item = scope.fresh("i")
    form = choices.number(0, 3)
    if form == 0:
        scope.line("try:")
        inner = scope.block()
    elif form == 1 and asynchronous:
        scope.line(f"async with Asynchronous({leaf(scope, 'box')}):")
        inner = scope.block()
    elif asynchronous and choices.chance(40):
        scope.line(f"async for {item} in ticks({leaf(scope, 't2')}, {choices.number(1, 3)}):")
        inner = scope.block({item: "t2"}, loop=True)
    else:
        scope.line(f"for {item} in range({choices.number(1, 4)}):")
        inner = scope.block({item: "int"}, loop=True)
    numbers(inner)
    suspend(inner)
    around(inner, 1)
    if choices.chance(40):
        suspend(inner)
    if choices.chance(30):
        leaves(inner)
    if form == 0:
        if choices.chance(50):
            scope.line("except (ValueError, TypeError, RuntimeError) as error:")
            handler = scope.block()
            handler.line("LOG.append(type(error).__name__)")
            numbers(handler)
            if choices.chance(50):
                suspend(handler)
            breaks_here(handler)
        else:
            scope.line("finally:")
            final = scope.block()
            final.in_loop = False
            numbers(final)
            final.line("print('finally')")


def inner_generator(scope: Scope) -> None:
    """A generator function within the function, and a use of it."""
    name, item = scope.fresh("g"), scope.fresh("i")
    function = Function(name, suspends="generator")
    inner = inside(scope, function, {"a": "t2"})
    suspended_block(inner)
    inner.line("yield a")
    if scope.choices.chance(50):
        suspended_block(inner)
    inner.line(f"return {leaf(inner, 't2')}")
    written(scope, f"def {name}(a):", function, inner)
    made = scope.fresh("it")
    start = f"{name}({expression(scope, 't2', 1)})"
    texts = (
        f"SEEN.extend({start})", f"SEEN.append(next({start}))", f"SEEN.extend([z for z in {start}])",
        f"{made} = {start}\nSEEN.append(next({made}))\nprint('between')\nSEEN.extend({made})",
        f"{made} = {start}\nSEEN.append(next({made}))\n{made}.close()",
        f"{made} = {start}\nnext({made})\ntry:\n    SEEN.append({made}.send(0.5))\n"
        f"    SEEN.append({made}.throw(ValueError(1)))\nexcept (StopIteration, ValueError) as error:\n"
        "    LOG.append(type(error).__name__)",
        f"PENDING.append({start})\nSEEN.append(next(PENDING[0], None))\nif len(PENDING) > 2: PENDING.pop(0)",
        f"SEEN.extend(zip({start}, range(3)))", f"SEEN.append([*{start}][-1])",
        f"SEEN.append(dict(enumerate({start})))",
    )
    if scope.choices.chance(40):
        scope.line(f"for {item} in {start}:")
        loop = scope.block({item: "int"}, loop=True)
        del loop.kinds[item]
        loop.line(f"SEEN.append({item})")
        around(loop, 1)
        if scope.choices.chance(40):
            leaves(loop)
        return
    for line in scope.choices.choose(texts).split("\n"):
        scope.line(line)


def inner_coroutine(scope: Scope) -> None:
    name = scope.fresh("g")
    function = Function(name, suspends="coroutine")
    inner = inside(scope, function, {"a": "t2"})
    suspended_block(inner)
    inner.line(f"return {leaf(inner, 't2')}")
    written(scope, f"async def {name}(a):", function, inner)
    awaited = scope.function.suspends == "coroutine" and scope.choices.chance(70)
    call = f"{name}({expression(scope, 't2', 1)})"
    scope.line(f"SEEN.append(await {call})" if awaited else f"SEEN.append(stepped({call}))")


BLOCKS = [(suspended_block, "suspended", 3), (suspended_block, "suspended", 3),
          (inner_generator, "broken generator", 1), (inner_generator, "broken generator", 2),
          (inner_coroutine, "broken coroutine", 1)]
