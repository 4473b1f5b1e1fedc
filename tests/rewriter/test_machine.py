"""Canonical instructions, executed by a plain machine, give what CPython gives."""
# ruff: noqa: B023, C416  # the functions are odd on purpose

from __future__ import annotations

import sys
import textwrap
import types
from typing import Any

import pytest

from rewriter.decode import CANONICAL_OPNAMES, decode
from tests.rewriter.corpus import nested_codes
from tests.rewriter.machine import HANDLERS, Frame, execute, finish, on_machine
from tests.rewriter.zoo import CASES, Case

#: They look at frames, at the exception being handled or at their function, which is another one here; or they are
#: async generators.
NOT_HERE = {
    "handlers", "keyword_only", "generator", "frames", "warns", "async_generator", "comprehension_raises",
    "free_variables",
}
#: Executed by the loop itself; only in code of types that no test here makes.
IN_THE_LOOP = {"RETURN_VALUE", "YIELD_VALUE"}
ONLY_IN_CLASSES = {
    "INTRINSIC", "PRINT_EXPR", "LOAD_FROM_DICT_OR_GLOBALS", "ASYNC_GEN_WRAP", "BUILD_TEMPLATE", "BUILD_INTERPOLATION",
}


def test_the_machine_knows_every_canonical_opname() -> None:
    assert set(HANDLERS) | IN_THE_LOOP | ONLY_IN_CLASSES == CANONICAL_OPNAMES


def normal(outcome: Any) -> Any:
    """Without the frames and the context of exceptions."""
    if isinstance(outcome, tuple) and len(outcome) == 5 and type(outcome[2]) is list and type(outcome[4]) is tuple:
        return outcome[:2]
    if isinstance(outcome, (list, tuple)):
        return type(outcome)(map(normal, outcome))
    return outcome


@pytest.mark.parametrize("case", [case for case in CASES if case.name not in NOT_HERE], ids=lambda case: case.name)
def test_zoo(case: Case) -> None:
    function: Any = case.function
    expected = normal(case.run(function))
    machine: Any = on_machine(function)
    assert str(normal(case.run(machine))) == str(expected)


def module_on_machine(source: str) -> dict[str, Any]:
    code = compile(textwrap.dedent(source), "<test>", "exec")
    namespace: dict[str, Any] = {"__name__": "test"}
    finish(execute(Frame(code, namespace, {})))
    return namespace


def test_module_code() -> None:
    source = """
        from os.path import *
        import os.path as p, sys
        x: int = 3
        y = [x * k for k in range(3)]
        z = x
        del z
        try:
            z
        except NameError:
            z = "gone"
        for k in y:
            if k > 3:
                break
        else:
            k = None
        def f(a: int, b=x, *, c=4) -> str:
            return a, b, c
        joined = join("a", "b")
        text = f"{x!r:>5}{y}{z:<8}{x}"
        values = f(1), f(1, 2, c=3), f.__annotations__, f.__defaults__, f.__kwdefaults__
    """
    expected: dict[str, Any] = {"__name__": "test"}
    exec(compile(textwrap.dedent(source), "<test>", "exec"), expected)
    found = module_on_machine(source)
    for name in ("x", "y", "z", "k", "joined", "text", "values"):
        assert found[name] == expected[name], name
    assert sorted(set(found) - {"__builtins__"}) == sorted(set(expected) - {"__builtins__"})


def test_class_body_with_a_free_variable() -> None:
    def make(tag: str) -> type:
        class Made:
            found = tag
            again = [tag for _ in range(2)]  # noqa: RUF012

        return Made

    body = next(code for code in nested_codes(make.__code__) if code.co_name == "Made")
    cases: list[dict[str, str]] = [{}, {"tag": "from the namespace"}]
    for names in cases:
        frame = Frame(body, globals(), {})
        frame.locals = {"__name__": "test", **names}
        frame.closure = (types.CellType("free"),)
        finish(execute(frame))
        assert frame.locals["found"] == names.get("tag", "free")
        assert frame.locals["again"] == ["free"] * 2


def annotated(a: int, b: str = "b") -> Any:
    def inner(x: int = a, *y: str, z: Any = b) -> tuple[Any, ...]:
        return x, y, z, a

    return inner


def test_function_attributes() -> None:
    machine = on_machine(annotated)  # type: ignore[arg-type]
    found, expected = machine(3), annotated(3)
    assert found(), found(1, "y", z=2) == (expected(), expected(1, "y", z=2))
    assert (found.__defaults__, found.__kwdefaults__) == (expected.__defaults__, expected.__kwdefaults__)
    assert found.__annotations__ == expected.__annotations__


def slices(a: list[int], i: int) -> Any:
    first = a[i:], a[:i], a[i:4], a[::i]
    a[i:3] = [10, 11]
    a[:1] = []
    del a[-1:]
    return first, a


def test_slices() -> None:
    assert on_machine(slices)([1, 2, 3, 4, 5], 2) == slices([1, 2, 3, 4, 5], 2)  # type: ignore[arg-type]


def borrowed_cell(xs: list[int]) -> Any:
    x = "outer"

    def read() -> Any:
        return x

    plain = [x for x in xs]
    kept = [(lambda: x) for x in xs]
    nested = [[(lambda: (x, y)) for y in xs] for x in xs]
    x = x + "!"
    return plain, [get() for get in kept], [[get() for get in row] for row in nested], read(), x


def test_cells_in_comprehensions() -> None:
    assert on_machine(borrowed_cell)([1, 2]) == borrowed_cell([1, 2])  # type: ignore[arg-type]
    opnames = [instruction.opname for instruction in decode(borrowed_cell.__code__).instructions]
    assert ("LOAD_FAST_AND_CLEAR" in opnames) == (sys.version_info >= (3, 12))


def hidden_free_variable() -> Any:
    x = "free"

    def plain(xs: list[int]) -> Any:
        return [x for x in xs], x

    def shared(xs: list[int]) -> Any:
        made = [lambda: x for x in xs]
        return [get() for get in made], x  # 3.12 to 3.14 give the comprehension's last x here; so must we

    return plain, shared


def test_a_comprehension_that_hides_a_free_variable() -> None:
    for number in (0, 1):
        expected = hidden_free_variable()[number]([1, 2])
        assert on_machine(hidden_free_variable()[number])([1, 2]) == expected


def starred(f: Any, a: list[int], k: dict[str, int]) -> Any:
    return f(*a), f(**k), f(1, *a, x=2, **k), f(*a, **{**k, "z": 1}), f(a, y=1), f(), {**k}, [*a, *a], {*a}, (*a,)


def test_calls() -> None:
    def f(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    assert on_machine(starred)(f, [1, 2], {"k": 3}) == starred(f, [1, 2], {"k": 3})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="multiple values"):
        on_machine(starred)(f, [1], {"x": 1})  # type: ignore[arg-type]


def exceptions(f: Any, log: list[Any], rows: Any) -> Any:
    for k in rows:
        try:
            try:
                log.append(f(k))
            except KeyError as error:
                log.append(("key", error.args))
                try:
                    f(k + 1)
                except (ValueError, TypeError):
                    log.append("inner")
                    raise
                finally:
                    log.append("inner finally")
            except IndexError:
                log.append("index")
                if k > 2:
                    continue
                raise
            else:
                log.append("else")
                if k == 5:
                    break
            finally:
                log.append(("finally", k))
        except ValueError as error:
            log.append(("outer", error.args))
    else:
        return "never"
    return log


def test_exceptions() -> None:
    def f(k: int) -> int:
        for number, kind in enumerate((KeyError, ValueError, KeyError, IndexError, KeyError)):
            if k == number:
                raise kind(k)
        return k

    for rows in (range(7), (1, 5, 2), (4, 1), (3, 0), (5,), (6,)):
        expected: list[Any] = []
        found: list[Any] = []
        outcomes = []
        for function, log in ((exceptions, expected), (on_machine(exceptions), found)):  # type: ignore[arg-type]
            try:
                outcomes.append(function(f, log, rows))
            except (IndexError, KeyError) as error:
                outcomes.append((type(error), error.args))
        assert outcomes[0] == outcomes[1] and found == expected
        assert expected


def test_free_variables_and_cells() -> None:
    def make(start: int) -> Any:
        def bump(by: int) -> int:
            nonlocal start
            start += by
            return start

        return bump

    machine = on_machine(make(3))
    assert (machine(2), machine(2)) == (5, 7)
