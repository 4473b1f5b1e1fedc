"""The code of functions, read from where it lies."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tracer import code_cells
from tracer.code_cells import CodeCell, SlowCell, code_cell


def function(a: Any = 1, *, b: Any = 2) -> Any:
    """With a docstring."""
    return a, b


def other(a: Any = 1, *, b: Any = 2) -> Any:
    return b, a


class Owner:
    @staticmethod
    def method() -> int:
        return 1


def test_the_field_is_found_here() -> None:
    assert code_cells.OFFSET is not None
    assert type(code_cell(function)) is CodeCell


@pytest.mark.parametrize("offset", [code_cells.OFFSET, None])
def test_what_a_function_has_now(monkeypatch: pytest.MonkeyPatch, offset: int | None) -> None:
    monkeypatch.setattr(code_cells, "OFFSET", offset)
    captured = 5

    def closure() -> int:
        return captured

    for some in (function, Owner.method, closure, lambda: None, pytest.main):
        cell = code_cell(some)  # type: ignore[arg-type]
        assert cell.value is some.__code__ and cell.function is some  # type: ignore[attr-defined]
    cell, before = code_cell(function), function.__code__
    function.__code__ = other.__code__
    assert cell.value is other.__code__
    function.__code__ = before.replace()
    assert cell.value == before and cell.value is not before
    function.__code__ = before
    assert cell.value is before


def test_a_field_that_is_elsewhere_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_cells.OFFSET is not None
    monkeypatch.setattr(code_cells, "OFFSET", code_cells.OFFSET - 16)  # some other object's field
    assert type(code_cell(function)) is SlowCell
    assert code_cell(function).value is function.__code__


def test_no_audit_hook_is_told() -> None:
    program = """
import sys
from tracer.code_cells import code_cell
def f(): pass
cell, told = code_cell(f), []
sys.addaudithook(lambda event, args: told.append(event) if armed else None)
armed = True
f.__code__
assert told == ["object.__getattr__"], told
assert cell.value.co_name == "f"
armed = False
assert len(told) == 1, told
"""
    program = program.replace("import sys\n", "import sys\narmed = False\n", 1)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
