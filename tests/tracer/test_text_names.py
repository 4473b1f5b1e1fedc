"""Names in region text: found and changed as Python itself reads them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tracer.text_names import names_in, renamed_in, stored_in

LINES = [
    "    hit = False",
    "    if (k_type((g0 := x.__dict__)) is k_dict and 'g0' not in g0 and x.g0 == \"k_type\"):",
    "        t0, t1 = k_graph(x, b'g0')",
    "        t2, = k_graph(x, scale=g0)  # g0 stays",
    "    except Exception as error:",
    "        v1 = {a: b for a, b in k_items(g0)}",
    "        v2 = k_f(g0=1, x=g0 == 1, y=1e5, z='it\\'s g0')",
    "        x.g0 = g0",
    "        é = g0[-1]",
]


def test_names() -> None:
    wanted = set("hit k_type g0 x k_dict t0 t1 k_graph t2 error Exception v1 a b k_items v2 k_f é".split())
    assert names_in(LINES) == wanted


def test_stores() -> None:
    assert stored_in(LINES) == {"hit", "g0", "t0", "t1", "t2", "error", "v1", "a", "b", "v2", "é"}


def test_renaming() -> None:
    found = renamed_in(LINES, {"g0": "other"})
    assert found[1] == "    if (k_type((other := x.__dict__)) is k_dict and 'g0' not in other and x.g0 == \"k_type\"):"
    assert found[2] == LINES[2]
    assert found[3] == "        t2, = k_graph(x, scale=other)  # g0 stays"
    assert found[6] == "        v2 = k_f(g0=1, x=other == 1, y=1e5, z='it\\'s g0')"
    assert found[7] == "        x.g0 = other"


@pytest.mark.parametrize("name", ["emit.py", "guards.py", "native.py"])
def test_as_the_parser_reads_it(name: str) -> None:
    """On code that nobody wrote for this: every variable that the parser sees is found."""
    text = Path(__file__).parents[2].joinpath("tracer", name).read_text(encoding="utf-8")
    tree = ast.parse(text)
    text = ast.unparse(tree)
    strings = [n for n in ast.walk(tree) if isinstance(n, ast.JoinedStr)]
    inside = {n.id for s in strings for n in ast.walk(s) if isinstance(n, ast.Name)}
    assert {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - inside <= names_in([text])
