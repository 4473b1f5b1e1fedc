"""docs/api.md has every public name of `tracer`, with its signature, its errors and an example."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import tracer
from tests.pages import ROOT, blocks
from tracer.command_line.parsing import parser

PAGE = ROOT / "docs" / "api.md"
#: sections that are no names
OTHERS = {"Backends", "Environment", "Command line"}


def sections(text: str) -> dict[str, str]:
    """By its heading, what stands in a section."""
    parts = re.split(r"^## (.*)$\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def signature(name: str) -> str:
    """As the page writes it, without annotations; of a class that takes what an exception takes, its name."""
    public = getattr(tracer, name)
    try:
        found = inspect.signature(public)
    except ValueError:
        return f"tracer.{name}"
    if isinstance(public, type) and public.__init__ in (BaseException.__init__, Exception.__init__):
        return f"tracer.{name}"
    plain: Any = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    return f"tracer.{name}{found.replace(parameters=plain, return_annotation=inspect.Signature.empty)}"


def missing(text: str, names: list[str]) -> dict[str, str]:
    """What the page lacks, by name."""
    found, lacks = sections(text), {}
    for name in names:
        section = found.get(name, "")
        shown = re.match(r"\n`([^`]+)`\n", section)
        if not section:
            lacks[name] = "no section"
        elif shown is None or " ".join(shown[1].split()) != signature(name):
            lacks[name] = f"its signature is {signature(name)}"
        elif "```python" not in section:
            lacks[name] = "no example"
        elif f"[{name}](#{name.lower()})" not in text:
            lacks[name] = "not in the list"
    return lacks


def test_every_public_name_is_there() -> None:
    assert not missing(PAGE.read_text(encoding="utf-8"), tracer.__all__)


def test_there_is_nothing_else() -> None:
    assert set(sections(PAGE.read_text(encoding="utf-8"))) == {*tracer.__all__, *OTHERS}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("## reset\n", "## other\n", "no section"),
        ("`tracer.mark_static(t, index=None)`", "`tracer.mark_static(t, index=0)`", "its signature"),
        ("`tracer.uninstall()`\n", "", "its signature"),
        ("  [is_compiling](#is_compiling)\n", "", "not in the list"),
    ],
)
def test_what_the_page_lacks_is_found(old: str, new: str, why: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    (found,) = missing(text.replace(old, new), tracer.__all__).values()
    assert why in found


def test_a_name_without_an_example_is_found() -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = sections(text)["installed"]
    assert missing(text.replace(section, section.replace("```python", "```text")), tracer.__all__) == {
        "installed": "no example"
    }


def raising(name: str) -> bool:
    """Does the function that is called so raise something itself, or may its arguments be wrong?"""
    return name in {
        "install", "compile", "original", "disable", "explain", "explain_recompiles", "visualize", "set_logs",
        "listen", "on_capture", "mark_dynamic", "maybe_mark_dynamic", "mark_static", "scan", "set_stance",
    }  # fmt: skip


def test_errors_are_named() -> None:
    found = sections(PAGE.read_text(encoding="utf-8"))
    for name in tracer.__all__:
        assert ("**Errors:**" in found[name]) is raising(name), name


#: (call, error): what the page says of errors, tried out
ERRORS: list[tuple[Any, type[BaseException]]] = [
    (lambda: tracer.install(backend="no_such_backend"), ValueError),
    (lambda: tracer.install(compile_after=0), ValueError),
    (lambda: tracer.install(discover=["torch"]), ValueError),
    (lambda: tracer.install(error_on_recompile=1), TypeError),
    (lambda: tracer.install(dynamic=1), TypeError),
    (lambda: tracer.compile(dict), TypeError),
    (lambda: tracer.compile(3), TypeError),
    (lambda: tracer.compile(raising, fullgraph=1), TypeError),
    (lambda: tracer.compile(raising, backend="no_such_backend"), ValueError),
    (lambda: tracer.compile(raising, recompile_limit=0), ValueError),
    (lambda: tracer.compile(raising, mode="no_such_mode"), RuntimeError),
    (lambda: tracer.compile(raising, mode="default", options={}), RuntimeError),
    (lambda: tracer.original(3), TypeError),
    (lambda: tracer.disable(3), TypeError),
    (lambda: tracer.explain(raising)("x"), RuntimeError),
    (lambda: tracer.explain_recompiles(raising), ValueError),
    (lambda: tracer.visualize(raising, "x"), RuntimeError),
    (lambda: tracer.scan(dict), TypeError),
    (lambda: tracer.scan(len), TypeError),
    (lambda: tracer.explain(3), TypeError),
    (lambda: tracer.explain(dict), TypeError),
    (lambda: tracer.explain_recompiles(3), TypeError),
    (lambda: tracer.install(discover=3), TypeError),
    (lambda: tracer.install(discover_filter=3), TypeError),
    (lambda: tracer.set_logs("no_such_topic"), ValueError),
    (lambda: tracer.set_logs(3), TypeError),
    (lambda: tracer.listen(3), TypeError),
    (lambda: tracer.on_capture(3), TypeError),
    (lambda: tracer.mark_dynamic(3, 0), TypeError),
    (lambda: tracer.mark_static(3), TypeError),
    (lambda: tracer.maybe_mark_dynamic(3, 0), TypeError),
    (lambda: tracer.set_stance("no_such_stance"), ValueError),
    (lambda: tracer.set_stance("aot_eager_then_compile"), ValueError),
    (lambda: tracer.set_stance(skip_guard_eval_unsafe=True), ValueError),
    (lambda: tracer.set_stance("force_eager", force_backend="eager"), ValueError),
]


@pytest.mark.parametrize(("call", "error"), ERRORS, ids=[str(i) for i in range(len(ERRORS))])
def test_errors_are_raised(call: Any, error: type[BaseException]) -> None:
    tracer.uninstall()
    with pytest.raises(error) as raised:
        call()
    assert raised.type is error
    assert not tracer.installed()


# tables ---------------------------------------------------------------------------------------------------------------
def in_code(section: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE))


def test_every_setting_is_in_its_table() -> None:
    found = sections(PAGE.read_text(encoding="utf-8"))
    assert in_code(found["install"]) == set(inspect.signature(tracer.install).parameters)


def test_every_command_is_in_its_table() -> None:
    (commands,) = (action.choices for action in parser()._actions if isinstance(action.choices, dict))
    section = sections(PAGE.read_text(encoding="utf-8"))["Command line"]
    assert {found.split()[0] for found in in_code(section)} == set(commands)


def test_every_variable_is_in_its_table() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tracer/**/*.py"))
    used = set(re.findall(r'environ(?:\.get\(|\[)"(TORCHGRAFT\w*)"', text))
    section = sections(PAGE.read_text(encoding="utf-8"))["Environment"]
    assert len(used) >= 4 and {found.partition("=")[0] for found in in_code(section)} == used


def test_the_page_runs() -> None:
    """`test_docs.py` runs it; here it is only made sure that each section has something to run."""
    text = PAGE.read_text(encoding="utf-8")
    lines = {block.line for block in blocks(PAGE) if block.runs}
    for name in tracer.__all__:
        begin = text[: text.index(f"\n## {name}\n")].count("\n") + 2
        end = begin + sections(text)[name].count("\n")
        assert any(begin <= line <= end for line in lines), name
