"""The code and the defaults of functions, read from where they lie."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

import tracer
from rewriter import text
from tracer import function_fields
from tracer.function_fields import Field, SlowField, code_field, defaults_field


def function(a: Any = 1, *, b: Any = 2) -> Any:
    """With a docstring."""
    return a, b


def other(a: Any = 1, *, b: Any = 2) -> Any:
    return b, a


class Owner:
    @staticmethod
    def method() -> int:
        return 1


NAMES = ("__code__", "__defaults__")


def test_the_fields_are_found_here() -> None:
    assert None not in function_fields.OFFSETS.values()
    assert type(code_field(function)) is type(defaults_field(function)) is Field


def no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_fields, "OFFSETS", dict.fromkeys(NAMES))


@pytest.mark.parametrize("found", [True, False])
def test_what_code_a_function_has_now(monkeypatch: pytest.MonkeyPatch, found: bool) -> None:
    if not found:
        no_offset(monkeypatch)
    captured = 5

    def closure() -> int:
        return captured

    for some in (function, Owner.method, closure, lambda: None, pytest.main):
        field = code_field(some)  # type: ignore[arg-type]
        assert field.value is some.__code__ and field.function is some  # type: ignore[attr-defined]
    field, before = code_field(function), function.__code__
    function.__code__ = other.__code__
    assert field.value is other.__code__
    function.__code__ = before.replace()
    assert field.value == before and field.value is not before
    function.__code__ = before
    assert field.value is before


@pytest.mark.parametrize("found", [True, False])
def test_what_defaults_a_function_has_now(monkeypatch: pytest.MonkeyPatch, found: bool) -> None:
    if not found:
        no_offset(monkeypatch)
    field, before = defaults_field(function), function.__defaults__
    assert field.value is before and bool(field)
    try:
        function.__defaults__ = (3,)
        assert field.value is function.__defaults__
        function.__defaults__ = None
        assert (field.value if field else None) is None
    finally:
        function.__defaults__ = before
    assert field.value is before
    without = defaults_field(test_no_audit_hook_is_told)
    assert (without.value if without else None) is None


@pytest.mark.parametrize("read", [code_field, defaults_field])
def test_a_field_that_is_elsewhere_is_not_read(monkeypatch: pytest.MonkeyPatch, read: Any) -> None:
    name = {code_field: "__code__", defaults_field: "__defaults__"}[read]
    offset = function_fields.OFFSETS["__code__"]
    assert offset is not None
    monkeypatch.setitem(function_fields.OFFSETS, name, offset - 16)  # some other object's field
    assert type(read(function)) is SlowField
    assert read(function).value is getattr(function, name)


def test_no_audit_hook_is_told() -> None:
    program = """
import sys
from tracer.function_fields import code_field, defaults_field
def f(a=5): pass
code, defaults, told = code_field(f), defaults_field(f), []
sys.addaudithook(lambda event, args: told.append(event) if armed else None)
armed = True
f.__code__, f.__defaults__
assert told == ["object.__getattr__"] * 2, told
assert code.value.co_name == "f" and defaults.value == (5,)
armed = False
assert len(told) == 2, told
"""
    program = program.replace("import sys\n", "import sys\narmed = False\n", 1)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="it writes some small texts otherwise, whatever they ask")
def test_a_region_that_asks_for_defaults_is_written_by_pythons_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """To bind constants instruction by instruction takes twice the time of a capture."""
    monkeypatch.setattr(text, "_bind", pytest.fail)
    tracer.install(backend="eager")
    compiled = tracer.compile(calls_it, backend="eager", inplace=False)
    x = torch.ones(3)
    for defaults in ((2.0,), (3.0,), None, (2.0,)):
        with_default.__defaults__ = defaults
        if defaults is None:
            with pytest.raises(TypeError, match="missing 1 required positional argument"):
                compiled(x)
        else:
            assert compiled(x).tolist() == [1 + defaults[0]] * 3


def with_default(x: Any, by: float = 2.0) -> Any:
    return x + by


def calls_it(x: Any) -> Any:
    return with_default(x)
