"""The report of tracer.explain: what it prints is what runs, and each of its forms says the same."""

from __future__ import annotations

import html.parser
import io
import json
import re
import sys
from types import FunctionType
from typing import Any

import pytest
import torch

import tracer
from rewriter.text import compile_slot
from tracer.api import runtime
from tracer.report.words import counted, took

pytestmark = pytest.mark.usefixtures("installed_eager")

X, W = torch.arange(12.0).reshape(4, 3), torch.eye(3)


def scaled(x, w, n):
    y = torch.tanh(x @ w)
    print(end="")
    return y * n


def a_report(calls=3, **options: Any):
    compiled = tracer.compile(scaled, inplace=False, **options)
    for _ in range(calls):
        compiled(X, W, 2)
    return tracer.explain(compiled)(X, W, 2), compiled


# what it prints is what runs ------------------------------------------------------------------------------------------
def test_the_printed_text_is_the_code_that_the_slot_holds():
    report, compiled = a_report()
    printed = str(report)
    state = runtime.state_of(compiled)
    checked = 0
    for entry in report.entries:
        if not entry.regions:
            continue
        shown = "\n".join(f"      {line}" for line in entry.text.splitlines())
        assert shown in printed
        slot = state.entries[entry.index].slot
        real = state.entries[entry.index].code_of(slot)
        constants = _constants_of(entry.text, real)
        again = compile_slot(entry.text, constants, register=False)
        assert again.co_code == real.co_code and _same(again.co_consts, real.co_consts)
        assert again.co_names == real.co_names and again.co_varnames == real.co_varnames
        checked += 1
    assert checked == 2


def test_the_printed_text_computes_what_the_function_computes():
    """The text of the last region, run by hand with the slot's own constants."""
    report, compiled = a_report()
    entry = report.entries[-1]
    state = runtime.state_of(compiled)
    real = state.entries[entry.index].code_of(state.entries[entry.index].slot)
    code = compile_slot(entry.text, _constants_of(entry.text, real), register=False)
    layout = state.entries[entry.index].layout
    given = {"x": X, "w": W, "n": 2, "y": torch.tanh(X @ W)}
    arguments = [given.get(name) for name in layout.parameters]
    landing, answer, *_ = FunctionType(code, globals())(*arguments)
    assert landing == int(re.search(r"exits to (\d+)", entry.text)[1])
    assert torch.equal(answer, torch.tanh(X @ W) * 2)


def _constants_of(text: str, code: Any) -> dict[str, Any]:
    """By name, what the slot's code loads: the text compiled with names in their place tells which is which."""
    names: list[str] = []
    for name in re.findall(r"(?<![.\w])k_\w+", re.sub(r"#.*", "", text)):
        if name not in names:
            names.append(name)
    marks = {name: object() for name in names}
    marked = compile_slot(text, marks, register=False)
    assert len(marked.co_consts) == len(code.co_consts)
    by_mark = {id(mark): name for name, mark in marks.items()}
    found = {}
    for mark, real in zip(marked.co_consts, code.co_consts, strict=True):
        if id(mark) in by_mark:
            found[by_mark[id(mark)]] = real
    return found


def _same(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(a is b or a == b for a, b in zip(left, right, strict=True))


def test_the_part_of_each_region_is_in_the_text_of_its_entry():
    report, compiled = a_report()
    compiled(torch.ones(9, 3), W, 2)
    report = tracer.explain(compiled)(X, W, 2)
    for entry in report.entries:
        for region in entry.regions:
            assert region.text in entry.text
            assert region.text.startswith(f"    # region {region.number}: ")
            assert f"k_failed({region.number}, error)" in region.text


def test_numbers_of_regions_are_those_of_explain_recompiles():
    def f(x, n):
        return x * n if n > 2 else x + n

    tracer.compile(f)
    f(X, 1), f(X, 5)
    report = tracer.explain(f)(X, 5)
    [record] = tracer.explain_recompiles(f).compiled
    assert {record.earlier, record.made} == {region.number for region in report.regions}
    assert re.search(rf"^    region {record.made} \(", str(report), re.MULTILINE)
    assert f"# region {record.made}:" in report.entries[0].text
    assert report.recompiles.recompiles == (record,)
    assert f"compiled, region {record.made}" in str(report)


# what is in it --------------------------------------------------------------------------------------------------------
def test_graphs_as_table_and_code():
    report, _ = a_report()
    first = report.regions[0]
    code = ["x", "w", "matmul = x @ w", "tanh = torch.tanh(matmul)", "return (tanh,)"]
    assert [row.code for row in first.table] == code
    assert [row.op for row in first.table] == ["placeholder"] * 2 + ["call_function"] * 2 + ["output"]
    matmul = first.table[2]
    assert (matmul.inputs, matmul.dtype, matmul.shape) == (("x", "w"), "float32", "[4, 3]")
    assert "torch.tanh(matmul)" in first.graph
    assert re.search(r"matmul +call_function +@ +x, w +float32 \[4, 3\]", str(report))


def test_hits_misses_and_times():
    report, _ = a_report(calls=3)
    assert [region.hits for region in report.regions] == [4, 4]
    assert (report.hits, report.misses) == (8, 2)
    assert report.call_seconds > 0 and report.compile_seconds == 0
    assert "8 hits, 2 misses" in str(report)
    fresh = tracer.explain(tracer.compile(scaled, inplace=False))(X, W, 2)
    assert 0 < fresh.compile_seconds < fresh.call_seconds
    assert fresh.compile_seconds == pytest.approx(
        sum(region.capture_seconds + region.backend_seconds for region in fresh.regions))
    assert "of it captures and backends" in str(fresh)


def test_bytecode_with_what_stands_where():
    report, _ = a_report()
    marked = {line.index: line.marks for line in report.bytecode if line.marks}
    assert marked[report.entries[0].index] == ("entry",)
    [broke] = [index for index, marks in marked.items() if "break" in marks]
    # the unit of the call, which begins with the names of its keywords before 3.13
    assert "CALL_KW" in [line.opname for line in report.bytecode[broke : broke + 2]]
    assert report.bytecode[broke].line == scaled.__code__.co_firstlineno + 2
    assert "landing" in marked[broke]
    assert report.entries[0].offset == report.bytecode[report.entries[0].index].offset
    [tanh] = [line for line in report.bytecode if line.argument == "tanh"]
    assert tanh.line == scaled.__code__.co_firstlineno + 1


def test_calls_behind_a_limit_are_counted():
    def f(x, n):
        return x * 2 if n == 1 else x * 3 if n == 2 else x * 4

    tracer.compile(f, recompile_limit=2)
    for n in (1, 2, 3, 4, 5, 6):
        assert torch.equal(f(X, n), X * min(n + 1, 4))
    report = tracer.explain(f)(X, 7)
    assert len(report.regions) == 2
    # the call that came to the limit is a miss; those behind it only fall through the slot's text
    assert (report.misses, report.plain_calls) == (3, 4)
    assert "4 times no region fitted and none was made" in str(report)
    assert "4 times no region fitted" in report.summary()
    assert report.to_dict()["plain_calls"] == 4 and "4 times no region fitted" in report._repr_html_()


@pytest.mark.parametrize("n, what, expected", [
    (0, "region", "0 regions"), (1, "region", "1 region"), (2, "region", "2 regions"), (1, "miss", "1 miss"),
    (2, "miss", "2 misses"), (0, "miss", "0 misses")])
def test_plurals(n, what, expected):
    assert counted(n, what) == expected


@pytest.mark.parametrize("seconds, expected", [
    (0.0, "0 µs"), (2e-6, "2 µs"), (0.0015, "1.5 ms"), (0.25, "250 ms"), (1.0, "1 s"), (12.345, "12.3 s"),
    (1234.5, "1234 s")])
def test_times_in_words(seconds, expected):
    assert took(seconds) == expected


def test_no_one_of_something_is_called_several():
    report, _ = a_report()
    for text in (str(report), report.summary(), re.sub(r"<[^>]*>", " ", report._repr_html_())):
        assert not re.search(r"\b1 (regions|operators|breaks|hits|misses|times|guards|entries|calls)\b", text)


# why nothing is compiled ----------------------------------------------------------------------------------------------
def nothing(x):
    return [x]


def test_no_operator():
    report = tracer.explain(nothing)(X)
    assert "found no operator on tensors" in report.summary()
    assert report.to_dict()["why_nothing"] == ["the captures found no operator on tensors that a region could run"]


def test_a_break_at_the_beginning():
    def f(x):
        return print(end="")

    summary = tracer.explain(f)(X).summary()
    assert "nothing is compiled: graph break: print() writes output" in summary


def test_too_few_calls_a_stance_and_a_switch(monkeypatch):
    cold = tracer.compile(scaled, inplace=False, compile_after=5)
    assert "nothing is compiled: not called often enough yet" in tracer.explain(cold)(X, W, 2).summary()
    with tracer.set_stance("force_eager"):
        report = tracer.explain(tracer.compile(scaled, inplace=False))(X, W, 2)
        assert "nothing is compiled: the stance 'force_eager' holds" in report.summary()
    with tracer.set_stance("eager_on_recompile"):
        report = tracer.explain(tracer.compile(scaled, inplace=False))(X, W, 2)
        assert "nothing is compiled: the stance 'eager_on_recompile' holds" in report.summary()
        assert "stance: eager_on_recompile" in report.summary()
    tracer.uninstall()
    monkeypatch.setenv("TORCHGRAFT", "0")
    tracer.install(backend="eager")
    assert "nothing is compiled: TORCHGRAFT=0" in tracer.explain(scaled)(X, W, 2).summary()


def test_a_backend_that_fails(monkeypatch):
    monkeypatch.delenv("TORCHGRAFT_STRICT", raising=False)

    def fails(graph, inputs):
        raise ValueError("no disk")

    report = tracer.explain(tracer.compile(scaled, inplace=False, backend=fails))(X, W, 2)
    assert "no disk" in report.summary() and "nothing is compiled" in report.summary()


def test_where_something_is_compiled_no_reason_is_given():
    report, _ = a_report()
    assert report.why_nothing() == () and "nothing is compiled" not in str(report) + report.summary()


# its forms ------------------------------------------------------------------------------------------------------------
class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_in_a_terminal_only(monkeypatch):
    report, _ = a_report()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" not in str(report)
    monkeypatch.setattr(sys, "stdout", Terminal())
    coloured = str(report)
    assert "\x1b[1;32mregion " in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == report.text()
    assert "\x1b[" not in report.text() and report.text(colour=True) == coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert str(report) == report.text()


def test_as_json():
    report, _ = a_report()
    data = json.loads(json.dumps(report.to_dict()))
    assert set(data) == {
        "function", "filename", "line", "source", "result", "exception", "note", "how", "errors", "operators", "hits",
        "misses", "plain_calls", "seconds", "why_nothing", "bytecode", "entries", "breaks", "recompiles", "callees"}
    for key in data:
        assert re.search(rf"\b{key}\b", type(report).to_dict.__doc__), f"{key} is not documented"
    assert data["result"] == "Tensor" and data["exception"] is None
    region = data["entries"][0]["regions"][0]
    assert region["graph"]["table"][2]["code"] == "matmul = x @ w" and "def forward" in region["graph"]["code"]
    assert region["guards"][0]["text"] and region["guards"][0]["needed_by"]["line"] > 0
    assert data["breaks"][0]["stack"][-1]["function"] == "scaled"
    assert data["source"].startswith("def scaled(") and data["seconds"]["call"] > 0


class Tags(html.parser.HTMLParser):
    """Checks that elements close in order; notes what is loaded from elsewhere."""

    VOID = frozenset(["meta", "br", "input", "link", "img"])

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elsewhere: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.elsewhere += [f"{tag} {name}" for name, value in attrs if name in ("src", "href") and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_as_html(tmp_path):
    def marked(x, text):
        y = x + 1 if text == "<b>&amp;</b>" else x
        print(end="")
        return y * 2

    report = tracer.explain(marked)(X, "<b>&amp;</b>")
    path = report.to_html(tmp_path / "report.html")
    whole = path.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(whole)
    assert not tags.open and not tags.elsewhere
    shown = "".join(tags.text)
    for expected in (
        report.entries[0].text.rstrip(), "add = x + 1", "print() writes output", "equals '<b>&amp;</b>'", "1 hit",
        report.regions[0].guards[0][0], "marked",
    ):  # fmt: skip
        assert expected in shown
    assert "prefers-color-scheme:dark" in whole
    fragment = report._repr_html_()
    assert fragment.startswith('<div class="tg-report">') and "<html" not in fragment and "<script" not in fragment
    # a notebook's other output keeps its looks
    style = fragment[fragment.index("<style>") + 7 : fragment.index("</style>")]
    selectors = [s for s in re.findall(r"([^{}]+)\{", style) if not s.strip().startswith("@media")]
    assert all(part.strip().startswith(".tg-report") for s in selectors for part in s.split(","))


def test_private_callees_in_each_form():
    def callee(x):
        y = x + 1
        print(end="")
        return y * 2

    @tracer.compile
    def f(x):
        return callee(x) * 3

    for _ in range(3):
        f(X)
    report = tracer.explain(f)(X)
    [inner] = report.callees
    assert inner.bytecode and inner.source.strip().startswith("def callee")
    assert "private copy of" in report._repr_html_() and "private copy of" in report.summary()
    assert report.to_dict()["callees"][0]["entries"][0]["regions"]
