"""README and docs do what they say: every block runs, and what they show is what is printed (see `tests/pages.py`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import ROOT, WrongPage, blocks, check_page, matches, pages, rewritten
from tracer.backends.toolchain import missing_for_inductor

PAGES = {str(page.relative_to(ROOT)): page for page in pages()}
#: blocks that are shown and not run or not compared, each with its reason
EXCEPTIONS = {
    ("docs/performance.md", "not compared: which of the two is faster depends on the machine"),
    ("docs/seeing.md", "not compared: what is found on this machine"),
}
#: pages whose programs leave the choice of the backend, so that it must be the one they tell of
NEED_INDUCTOR = {"README.md", "README.zh.md", "docs/performance.md"}


def test_the_pages_are_there() -> None:
    names = ("README", "api", "concepts", "differences", "discovery", "internals", "performance", "seeing")
    assert set(PAGES) == {"README.md", "README.zh.md", *(f"docs/{name}.md" for name in names)}


def test_no_page_has_marks_of_a_merge() -> None:
    marks = re.compile(r"^(<{7}|={7}|>{7})(\s|$)", re.MULTILINE)
    assert not [page.name for page in (*ROOT.glob("*.md"), *ROOT.glob("*/*.md")) if marks.search(page.read_text())]


#: of the three, one is run on every Python in CI
COMPILES = dict.fromkeys(NEED_INDUCTOR - {"README.md"}, pytest.mark.compiles)


@pytest.mark.parametrize("name", [pytest.param(n, marks=COMPILES[n]) if n in COMPILES else n for n in PAGES])
def test_a_page_does_what_it_says(name: str, tmp_path: Path) -> None:
    if name in NEED_INDUCTOR and (missing := missing_for_inductor()):
        pytest.skip(f"for Inductor there is no {missing}")
    wanted = sum(block.runs for block in blocks(PAGES[name]))
    assert check_page(PAGES[name], tmp_path) == wanted
    assert wanted or name == "docs/README.md"


def test_what_is_not_run_is_known() -> None:
    found = {(name, block.note) for name, page in PAGES.items() for block in blocks(page) if block.note[:4] == "not "}
    assert found == EXCEPTIONS


# links ----------------------------------------------------------------------------------------------------------------
def links(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("name", [*PAGES, "docs/breaks.md"])
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for link in links(page):
        if link.startswith("https://"):
            continue
        where, _, anchor = link.partition("#")
        target = (page.parent / where).resolve() if where else page
        assert target.exists(), f"{name}: {link}"
        assert not anchor or anchor in anchors(target), f"{name}: {link}"


def test_every_page_is_in_the_index() -> None:
    found = set(links(ROOT / "docs" / "README.md"))
    assert {p.name for p in ROOT.glob("docs/*.md")} - {"README.md"} <= found
    assert "docs/README.md" in set(links(ROOT / "README.md")) & set(links(ROOT / "README.zh.md"))


# the Chinese README ---------------------------------------------------------------------------------------------------
def test_both_readmes_have_the_same_programs() -> None:
    english, chinese = (blocks(ROOT / name) for name in ("README.md", "README.zh.md"))
    assert [block.language for block in english] == [block.language for block in chinese]
    for one, other in zip(english, chinese, strict=True):
        if one.is_output:
            assert one.text == other.text, f"line {other.line}"
        elif one.language == "python":
            assert ast.dump(ast.parse(one.text)) == ast.dump(ast.parse(other.text)), f"line {other.line}"
        else:
            assert _commands(one.text) == _commands(other.text), f"line {other.line}"
    assert len(re.findall(r"^#", (ROOT / "README.md").read_text(), re.MULTILINE)) == len(
        re.findall(r"^#", (ROOT / "README.zh.md").read_text(), re.MULTILINE)
    )


def _commands(text: str) -> list[str]:
    return [line.partition(" #")[0].rstrip() for line in text.splitlines()]


# a page that is wrong is found ----------------------------------------------------------------------------------------
def page_of(folder: Path, text: str) -> Path:
    page = folder / "some.md"
    page.write_text(text.replace("~~~", "```"), encoding="utf-8")
    return page


def test_what_a_page_may_say(tmp_path: Path) -> None:
    page = page_of(tmp_path, """\
~~~python
import torch
x = torch.ones(2)
~~~
~~~python
print(x + 1, object())
print("second")
~~~
~~~text
tensor([2., 2.]) <object object at 0x12>
...
~~~
~~~sh
make everything
python -c 'print("in 3.2 ms")'
~~~
~~~text
in 17 s
~~~
<!-- not run: it would not end -->
~~~python
while True: pass
~~~
""")  # fmt: skip
    assert check_page(page, tmp_path) == 3
    assert rewritten(page, tmp_path) == page.read_text()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("~~~python\nraise ValueError('so')\n~~~\n", "some.md:1: ValueError: so"),
        ("~~~python\nx = 1\n~~~\n~~~python\nassert x == 2\n~~~\n", "some.md:4: AssertionError"),
        ("~~~python\nprint(1)\n~~~\n~~~text\n2\n~~~\n", "some.md:4: the page says"),
        ("~~~python\nprint(1)\n~~~\n<!-- output -->\n~~~python\nprint(1)\n~~~\n", "some.md:5: the page says"),
        ("~~~sh\npython -c 'import sys; sys.exit(3)'\n~~~\n", "exit code 3"),
        ("~~~sh\nno_such_command_of_ours\ntrue\n~~~\n", "exit code 127"),
        ("~~~text\n2\n~~~\n", "no program in front"),
        ("~~~\nx = 1\n~~~\n", "blocks are python, sh or text"),
        ("~~~pycon\nx = 1\n~~~\n", "blocks are python, sh or text"),
        ("<!-- not run -->\n~~~python\nx = 1\n~~~\n", "means nothing"),
        ("- item\n  ~~~python\n  x = 1\n  ~~~\n", "is indented"),
        ("~~~python\nx = 1\n", "not closed"),
    ],
)  # fmt: skip
def test_a_page_that_is_wrong(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(WrongPage, match=re.escape(why)):
        check_page(page_of(tmp_path, text), tmp_path)


def test_output_of_one_version(tmp_path: Path) -> None:
    text = "~~~python\nprint(1)\n~~~\n<!-- output on Python 3.{} -->\n~~~text\n2\n~~~\n"
    assert check_page(page_of(tmp_path, text.format(99)), tmp_path) == 1
    with pytest.raises(WrongPage, match="the page says"):
        check_page(page_of(tmp_path, text.replace(" on Python 3.{}", "")), tmp_path)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("region 3 (3 hits): in 3.2 ms\n", "region 11 (3 hits): in 1.01 s\n", True),
        ("region 3 (3 hits)\n", "region 3 (4 hits)\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a\n...\nd\n", "a\nb\ne\n", False),
        ("a ... d\n", "a b c d\n", True),
        ("a ... d\n", "a b\nc d\n", False),
        ("a.b\n", "axb\n", False),
        ("a\n", "a\nb\n", False),
    ],
)
def test_what_counts_as_the_same(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same
