"""The text of docs/breaks.md."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import api
from ..breaks import BREAKS, Row
from ..report import BreakReport
from .running import FILENAME, Example, breaks_of, run

_INTRODUCTION = """\
# Graph breaks

A graph break is a place where a compiled region has to end: the original instruction runs there, and a next region
begins behind it. It is no error. What is compiled computes what plain Python computes, break or not; `fullgraph=True`
makes a break an exception.

`tracer.explain(f)(*args)` lists the breaks of a function, each with its title, the user's lines and a hint, and
`tracer.counters()["breaks"]` counts them by title. Below is every title that there is: what it means, a program that
has it, what `explain` says of that program, and what to do. Each program goes with `import torch, tracer` before it and
`f` compiled; the line that breaks is marked.

This page is generated: `python -m tracer breaks > docs/breaks.md`. A test runs every program.
"""
#: so many of the user's lines are shown
_LINES = 4


def page(examples: Mapping[str, Example]) -> str:
    contents = "\n".join(f"- [{title}](#{_anchor(title)})" for title in BREAKS)
    with _installed():
        sections = [_section(title, row, examples[title]) for title, row in BREAKS.items()]
    return "\n".join([_INTRODUCTION, contents, "", *sections]).rstrip() + "\n"


def _section(title: str, row: Row, example: Example) -> str:
    told = _told(title, example)
    return f"""\
## {title}

{_wrapped(row.meaning)}

```python
{example.text.rstrip()}
```

```text
{told}
```

{_wrapped(f"What to do: {row.hint}.")}
"""


def _told(title: str, example: Example) -> str:
    """What `explain` says of the example: the first break at each marked line."""
    if not example.runs_here:
        return f"(on Python {'.'.join(map(str, example.python))} and later)"
    _, _, report = run(example, _quietly)
    found: dict[int, BreakReport] = {}
    for reported in breaks_of(report):
        if reported.title == title:
            found.setdefault(marked_line(reported), reported)
    return "\n".join(_shown(found[line]) for line in sorted(found))


def marked_line(reported: BreakReport) -> int:
    """The innermost line of the example's own in the user's stack."""
    return next(line.line for line in reversed(reported.stack) if line.filename == FILENAME)


def _shown(reported: BreakReport) -> str:
    lines = str(dataclasses.replace(reported, count=1)).splitlines()
    head = len(lines) - len(reported.stack)
    if len(reported.stack) > _LINES:
        left_out = len(reported.stack) - _LINES + 1
        lines[head + _LINES - 2 : -1] = [f"    ... {left_out} lines more"]
    return textwrap.dedent("\n".join(lines))


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _anchor(title: str) -> str:
    """The name that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _quietly(call: Callable[[], Any]) -> None:
    """The program's own output and error are not for the page."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        call()


@contextlib.contextmanager
def _installed() -> Iterator[None]:
    if api.installed():
        yield
        return
    api.install()
    try:
        yield
    finally:
        api.uninstall()
