"""Region text becomes slot code: constants keep their identity, a debugger sees the text, signatures are fixed."""

from __future__ import annotations

import dis
import gc
import linecache
import warnings

import pytest

from rewriter.region import TextError
from rewriter.text import compile_slot, new_slot


class Equal:
    """Equal to every other one, and callable."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 1

    def __call__(self, *arguments: object) -> tuple[object, ...]:
        return (self.name, *arguments)


def run(text: str, *arguments: object, **constants: object) -> object:
    names = [f"a{n}" for n in range(len(arguments))]
    slot = new_slot("slot", names, {"__builtins__": __builtins__, "shown": "global"})
    assert slot(*arguments) is None
    slot.__code__ = compile_slot(f"def slot({', '.join(names)}):\n{text}", constants)
    return slot(*arguments)


def test_constants_are_the_very_objects():
    first, second = Equal("first"), Equal("second")
    pair, same = (1, float("2.5")), (1, float("2.5"))
    assert pair is not same
    result = run("    return k_f(a0), k_g(k_p, k_q), k_f, k_g, k_zero, k_minus, k_one, k_true",
                 3, k_f=first, k_g=second, k_p=pair, k_q=same, k_zero=0.0, k_minus=-0.0, k_one=1, k_true=True)
    assert isinstance(result, tuple)
    assert result[0] == ("first", 3)
    assert result[1][0] == "second" and result[1][1] is pair and result[1][2] is same
    assert result[2] is first and result[3] is second
    assert [str(value) for value in result[4:]] == ["0.0", "-0.0", "1", "True"]


def test_equal_constants_of_the_text_itself_stay_apart_too():
    assert [str(value) for value in run("    return 0.0, -0.0, k_zero, 1, True, 1.0", k_zero=0)] == [
        "0.0", "-0.0", "0", "1", "True", "1.0"]  # type: ignore[union-attr]


def test_constants_reach_nested_code_handlers_loops_and_keywords():
    text = """
    try:
        found = [k_f(x, k_x) for x in a0 if k_x]
        more = (lambda y: k_f(y, *k_pair))(a1)
        while k_x and a1:
            a1 -= 1
        raise k_error
    except k_Error as error:
        return found, more, a1, sorted(a0, key=k_key, reverse=k_true), f"{k_x!r}", error is k_error
"""
    error = KeyError("e")
    result = run(text, [1, 2], 3, k_f=lambda *a: a, k_x="x", k_pair=(7, 8), k_error=error, k_Error=KeyError,
                 k_key=lambda v: v, k_true=True)
    assert result == ([(1, "x"), (2, "x")], (3, 7, 8), 0, [2, 1], "'x'", True)


@pytest.mark.parametrize("text, result", [
    ("    if k_empty:\n        return 1\n    return k_empty", []),
    ("    return (a0 if k_empty else 2), k_empty", (2, [])),
    ("    return k_empty and a0, k_empty or a0, not k_empty", ([], 5, True)),
    ("    while k_zero:\n        return 1\n    return k_zero", 0),
    ("    return -k_zero, k_zero + 2, k_zero, k_pair[1], k_pair", (0, 2, 0, 8, (7, 8))),
    ("    return a0 in {k_zero, k_five}, k_five, k_zero", (True, 5, 0)),
    ("    return a0 in (k_zero, k_five), [k_zero, k_five, k_empty]", (True, [0, 5, []])),
    ("    assert not k_zero, k_pair\n    return {k_zero: k_five, k_five: 1}, k_pair", ({0: 5, 5: 1}, (7, 8))),
    ("    return k_none is None, k_none, None", (True, None, None)),
    ("    return 'k_zero', f'{k_zero}{k_pair[0]}', dict(k_zero=k_five).get('k_zero')", ("k_zero", "07", 5)),
])
def test_the_compiler_folds_no_constant(text, result):
    assert run(text, 5, k_empty=[], k_zero=0, k_five=5, k_pair=(7, 8), k_none=None) == result


@pytest.mark.parametrize("action", ["always", "error", "default"])
def test_text_warns_of_nothing(action, recwarn):
    warnings.simplefilter(action)
    assert run("    return k_f(a0), k_p[0], a0 is k_p, k_p is a0", [], k_f=len, k_p=(1,)) == (0, 1, False, False)
    assert not recwarn.list


def test_compiling_makes_python_forget_no_warning():
    run("    return k_f(a0)", [], k_f=len)  # may add the filter
    shown = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        run("    return k_f(a0)", [], k_f=len)
        for _ in range(3):
            warnings.warn("once", stacklevel=1)
            run("    return k_f(a0)", [], k_f=len)
        shown = [str(warning.message) for warning in caught]
    assert shown == ["once"]


def test_more_than_256_constants():
    names = [f"k_{n}" for n in range(600)]
    objects = {name: Equal(name) for name in names}
    result = run(f"    if a0:\n        return [{', '.join(names)}]\n    return k_7", True, **objects)
    assert [value.name for value in result] == names  # type: ignore[union-attr]


def test_other_names_are_the_users_globals():
    assert run("    return shown, len(a0)", [1]) == ("global", 1)


def test_the_code_names_no_constant():
    code = compile_slot("def slot(x):\n    return k_f(x)", {"k_f": abs}, register=False)
    assert "LOAD_GLOBAL" not in {instruction.opname for instruction in dis.get_instructions(code)}
    assert not code.co_freevars and code.co_varnames == ("x",)


@pytest.mark.parametrize("text, says", [
    ("def slot(x):\n    return k_gone", "k_gone"),
    ("def slot(x):\n    k_f = 1", "k_f"),
    ("def slot(k_f):\n    pass", "k_f"),
    ("def slot(x):\n    return (lambda k_f: 1)", "k_f"),
    ("def slot(x):\n    global k_f\n    k_f = 1", "k_f"),
    ("def slot(x:\n    pass", "region text"),
    ("def other(x):\n    pass", "named slot"),
    ("x = 1", "named slot"),
])
def test_bad_text_is_refused(text, says):
    with pytest.raises(TextError, match=says):
        compile_slot(text, {"k_f": abs})


def test_a_debugger_sees_the_text_as_long_as_the_code_lives():
    text = "def slot(x):\n    return k_f(x)  # guarded\n"
    code = compile_slot(text, {"k_f": abs}, name="train_step", line=12)
    other = compile_slot(text, {"k_f": abs}, name="train_step", line=12)
    assert code.co_filename == "<torchgraft train_step:12>" and other.co_filename != code.co_filename
    linecache.checkcache()
    assert linecache.getline(code.co_filename, 2) == "    return k_f(x)  # guarded\n"
    name = code.co_filename
    del code
    gc.collect()
    assert name not in linecache.cache and other.co_filename in linecache.cache


def test_lines_in_a_traceback_are_those_of_the_text():
    slot = new_slot("slot", ["x"], globals())
    slot.__code__ = compile_slot("def slot(x):\n    a = 1\n    return k_f(\n        x)", {"k_f": abs})
    with pytest.raises(TypeError) as caught:
        slot("no number")
    assert caught.traceback[-1].lineno == 2  # pytest counts from 0


def test_a_new_slot_is_named_and_returns_none():
    slot = new_slot("slot_3", ["a", "c_x", "s0"], globals())
    assert (slot.__name__, slot.__qualname__, slot(1, 2, 3)) == ("slot_3", "slot_3", None)
    assert slot.__globals__ is globals()
