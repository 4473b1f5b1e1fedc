"""Titles of breaks: the code raises those of the one list and no others, each has a program that really breaks so, and
docs/breaks.md is what is generated from both."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracer
from tests.comparing import Comparison
from tests.support import compare_calls, observe
from tracer.__main__ import main
from tracer.breaks import BREAKS
from tracer.breaks_page import EXAMPLES, Example, breaks_of, page, run
from tracer.breaks_page.page import marked_line
from tracer.breaks_page.running import FILENAME, MARK
from tracer.errors import GraphBreak
from tracer.graph import refused
from tracer.interpreter.frame import REFUSED
from tracer.report import BreakReport
from tracer.values import builtin_functions, tensors

ROOT = Path(__file__).resolve().parents[2]
#: how breaks are raised: the first argument is the title
RAISERS = {"GraphBreak", "refuse", "refuses"}
#: titles that the code takes from a table, with the table
TABLES = {
    "REFUSED[instruction.opname]": set(REFUSED.values()),
    "BREAKING_METHODS[name]": set(tensors.BREAKING_METHODS.values()),
    "METHODS.get(name, 'attribute cannot be read')": {*refused.METHODS.values(), "attribute cannot be read"},
    "_OUTSIDE[function]": set(builtin_functions._OUTSIDE.values()),
    "FUNCTIONS[inspect.unwrap(self.function)]": set(refused.FUNCTIONS.values()),
}
#: where a title is handed on: `Value.refuse`, and the table's own `refuse(target, args)`
HANDED_ON = {("values/base.py", "title"), ("graph/refused.py", "title"), ("graph/builder.py", "target")}


@pytest.fixture
def installed() -> Iterator[None]:
    tracer.uninstall()
    tracer.install(backend="eager")
    tracer.reset()
    yield
    tracer.uninstall()


# titles in the code -------------------------------------------------------------------------------------------------
def titles_in(source: str, where: str) -> Iterator[tuple[str, int, str]]:
    """(title, line, source of the expression) for every break that the text raises."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name not in RAISERS or (where, ast.unparse(node.args[0])) in HANDED_ON:
            continue
        for expression in _branches(node.args[0]):
            text = ast.unparse(expression)
            if isinstance(expression, ast.Constant):
                yield str(expression.value), node.lineno, text
            else:
                assert text in TABLES, f"tracer/{where}:{node.lineno}: the title {text} is no constant and no table's"
                for title in TABLES[text]:
                    yield title, node.lineno, text


def _branches(expression: ast.expr) -> list[ast.expr]:
    if isinstance(expression, ast.IfExp):
        return [*_branches(expression.body), *_branches(expression.orelse)]
    return [expression]


def raised() -> dict[str, list[str]]:
    """Where each title is raised."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tracer").rglob("*.py")):
        where = path.relative_to(ROOT / "tracer").as_posix()
        for title, line, _ in titles_in(path.read_text(encoding="utf-8"), where):
            found.setdefault(title, []).append(f"tracer/{where}:{line}")
    return found


def test_the_code_raises_the_titles_of_the_list() -> None:
    found = raised()
    unknown = {title: places for title, places in found.items() if title not in BREAKS}
    assert not unknown, "add a row to tracer/breaks.py and an example to tracer/breaks_page/"
    assert not set(BREAKS) - set(found), "nothing raises these: take their rows and examples away"


@pytest.mark.parametrize(
    "source",
    [
        'raise GraphBreak("no such title", "details")',
        'self.refuse("no such title")',
        'refuses("no such title", "NOP")',
        'raise GraphBreak("print() writes output" if odd else "no such title")',
    ],
)
def test_a_title_without_a_row_is_found(source: str) -> None:
    assert "no such title" in [title for title, *_ in titles_in(source, "values/any.py")]


@pytest.mark.parametrize("source", ['GraphBreak(f"print of {x}")', "self.refuse(title)", "GraphBreak(*REASONS[name])"])
def test_a_title_that_varies_is_found(source: str) -> None:
    with pytest.raises(AssertionError, match="no constant"):
        list(titles_in(source, "values/any.py"))


def test_rows() -> None:
    assert set(EXAMPLES) == set(BREAKS)
    for title, row in BREAKS.items():
        assert 5 <= len(title) <= 50 and title == title.strip(" .:"), title
        assert row.meaning.endswith(".") and row.hint and not row.hint.endswith("."), title
        assert GraphBreak(title).hint == row.hint
    assert GraphBreak("print() writes output", "", "a better one").hint == "a better one"


# examples -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_breaks_as_it_says(title: str, installed: None) -> None:
    example = EXAMPLES[title]
    if not example.runs_here:
        pytest.skip(f"for Python {'.'.join(map(str, example.python))}")
    expected, found, report = run(example, observe)
    for i, (plain, compiled) in enumerate(zip(expected, found, strict=True)):
        if example.fullgraph:
            assert isinstance(compiled.exception, GraphBreak) and compiled.exception.title == title
            continue
        compare_calls(Comparison(), f"call {i}", plain, compiled)
    breaks = breaks_of(report)
    mine = [reported for reported in breaks if reported.title == title]
    assert example.marked_lines and sorted({*map(marked_line, mine)}) == example.marked_lines
    for line in example.marked_lines:
        assert next(reported for reported in breaks if marked_line(reported) == line).title == title
    for reported in breaks:
        check_stack(reported)
        assert reported.title in BREAKS and reported.hint
    assert not report.errors
    assert set(tracer.counters()["breaks"]) == {reported.title for reported in breaks}


def check_stack(reported: BreakReport) -> None:
    """The user's own lines, outermost first."""
    assert reported.stack and all(line.line > 0 for line in reported.stack)
    assert reported.stack[0].filename == FILENAME
    assert all(f"at {line}" in str(reported) for line in reported.stack)


def test_an_example_that_does_not_break_is_told(installed: None) -> None:
    *_, report = run(Example(f"def f(x):\n    return x + 1  {MARK}\n\nf(torch.ones(3))\n"), observe)
    assert not breaks_of(report) and len(report.regions) == 1


# the page -----------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(sys.version_info[:2] != (3, 13), reason="the page is made with one version of Python and torch")
def test_the_page_is_what_is_generated(capsys: pytest.CaptureFixture[str]) -> None:
    tracer.uninstall()
    assert main(["breaks"]) == 0
    shown = capsys.readouterr().out
    page = (ROOT / "docs" / "breaks.md").read_text(encoding="utf-8")
    assert shown == page, "run: python -m tracer breaks > docs/breaks.md"
    assert not tracer.installed()


def test_the_page_is_made_where_torchgraft_runs_already(installed: None) -> None:
    text = page(EXAMPLES)
    assert tracer.installed()
    assert [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")] == list(BREAKS)
    assert "site-packages" not in text


def test_the_readme_leads_to_it() -> None:
    assert "(docs/breaks.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
