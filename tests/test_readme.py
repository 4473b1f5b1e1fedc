"""The README's first program runs, and what is compiled is the text that the README shows."""

from __future__ import annotations

import re
import runpy
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import tracer

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.skipif(sys.version_info[:2] != (3, 13), reason="indices of instructions are those of one version")
def test_the_text_that_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, shown, *_ = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)
    assert program.count("tracer.install()") == 1
    path = tmp_path / "program.py"
    path.write_text(program.replace("tracer.install()", 'tracer.install(backend="eager")'))
    runpy.run_path(str(path))
    told = capsys.readouterr().out
    assert re.match(r"step \(.*: 1 region, 10 operators, 0 breaks$", told, re.M), told
    assert re.search(r"^    region \d+ \(3 hits\): ", told, re.M), told
    # `region 1` is the first of the process: other tests may have run in it
    found = textwrap.dedent(re.search(r"^      # step, entry.*?k_miss\([^\n]*$", told, re.M | re.S)[0])
    number = re.search(r"# region (\d+):", found)[1]
    found = re.sub(rf"(region |k_raised\(|k_failed\(){number}\b", r"\g<1>1", found)
    assert found == shown.rstrip("\n")


def test_the_recompile_that_is_shown() -> None:
    shown = re.search(r"^```\n(repeat \(.*?)^```", README.read_text(), re.M | re.S)[1]

    def repeat(x, n):
        return x.repeat(n)

    tracer.install(backend="eager")
    try:
        tracer.compile(repeat, dynamic=False)
        for n in (2, 3):
            repeat(torch.ones(4), n)
        told = str(tracer.explain_recompiles(repeat))
    finally:
        tracer.uninstall()
    assert _without_places(told) == _without_places(shown.rstrip("\n"))


def _without_places(text: str) -> str:
    """Without names of functions, lines and numbers of regions."""
    text = re.sub(r"^.*\(\S+:\d+\)", "function", text, count=1)
    text = re.sub(r"needed by .*", "needed by", text)
    return re.sub(r"(line|region) \d+", r"\1", text)
