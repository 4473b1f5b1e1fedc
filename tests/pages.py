"""Pages of Markdown as programs: what README and `docs/` show is run, and what they say it prints is compared.

A fenced block is what its language says: `python` is run, all blocks of a page in order and in one namespace; `sh` is
run line by line, but for `make` and `pip install`; `text` is what the block before it printed. A comment directly above
a block says what is different:

    <!-- output -->                    this is what the block before printed, whatever language it is coloured as
    <!-- output on Python 3.13 -->     so, but other versions print something else: it is not compared there
    <!-- not compared: REASON -->      output that differs from run to run
    <!-- not run: REASON -->           a program that cannot run here

In output a line `...` stands for any number of lines, and `...` in a line for any text. Addresses, times and numbers
of regions are not compared. The blocks of a page are one file, named after it, so that messages give lines; one that
begins with `# name.py` begins a file of that name.

`python -m tests.pages --write` runs the pages and writes what they print now into them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import linecache
import logging
import os
import re
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

import tracer

ROOT = Path(__file__).resolve().parents[1]
_FENCE = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_NOTE = re.compile(r"output(?: on Python (?P<version>3\.\d+))?|not compared: \S.*|not run: \S.*")
_NAMED = re.compile(r"# (\w+\.py)$", re.MULTILINE)
_SHELL = 'set -e; python() { "$PYTHON_OF_THE_TEST" "$@"; }; torchgraft() { python -m tracer "$@"; }\n'
#: what torch says of the machine
_TORCHS_LOG = re.compile(r"^[WIE]\d{4} [^\n]* torch/[^\n]*\n", re.MULTILINE)
_REGION = re.compile(r"(\bregion |\bk_(?:raised|failed|trial)\()(\d+)")
#: what may change from run to run, and what is compared in its stead
_CHANGING = [
    (re.compile(r"0x[0-9a-f]+"), "0x"),
    (re.compile(r"\b\d+(\.\d+)?(e[+-]\d+)? (s|ms|µs|us|ns)\b"), "N s"),
    (_REGION, r"\1N"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
]


class WrongPage(AssertionError):
    """A page that does not do what it says, or that says nothing a test could hold it to."""


@dataclass(frozen=True)
class Block:
    """A fenced block. span: of its text in the page."""

    page: Path
    line: int
    language: str
    note: str
    text: str
    span: tuple[int, int]

    @property
    def is_output(self) -> bool:
        return self.language == "text" or self.note.startswith(("output", "not compared"))

    @property
    def runs(self) -> bool:
        return not self.is_output and not self.note

    @property
    def compared(self) -> bool:
        """Is it output that this Python must print?"""
        said = _NOTE.fullmatch(self.note)
        here = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return self.is_output and not self.note.startswith("not ") and (said and said["version"]) in (None, here)

    def wrong(self, what: str) -> WrongPage:
        return WrongPage(f"{self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page.name}:"
                         f"{self.line}: {what}")


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        block = Block(page, line, match["language"], match["note"] or "", match["text"], match.span("text"))
        if block.language not in ("python", "sh", "text"):
            raise block.wrong(f"blocks are python, sh or text, not {block.language!r}")
        if block.note and not _NOTE.fullmatch(block.note):
            raise block.wrong(f"the comment above it means nothing: {block.note!r}")
        found.append(block)
    if len(re.findall(r"^\s*```", text, re.MULTILINE)) != 2 * len(found):
        raise WrongPage(f"{page.name}: a fence is not closed, or is indented")
    return found


# running --------------------------------------------------------------------------------------------------------------
class Runner:
    """Runs the blocks of a page in the current folder."""

    def __init__(self, page: Path) -> None:
        self.file = f"{page.name.partition('.')[0].lower()}.py"
        self.lines: dict[str, list[str]] = {}
        self.module = types.ModuleType(self.file[:-3])

    def run(self, block: Block) -> str:
        """What it prints."""
        return self._shell(block) if block.language == "sh" else self._python(block)

    def _python(self, block: Block) -> str:
        if named := _NAMED.match(block.text):
            self.file = named[1]
        lines = self.lines.setdefault(self.file, [])
        if lines:
            lines.append("")
        begin = len(lines)
        lines += block.text.splitlines()
        Path(self.file).write_text("\n".join(lines) + "\n", encoding="utf-8")
        linecache.checkcache(self.file)
        code = compile("\n" * begin + block.text, self.file, "exec", dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            exec(code, self.module.__dict__)
        return _without_places(printed.getvalue())

    def _shell(self, block: Block) -> str:
        lines = [line for line in block.text.splitlines() if not re.match(r"make |pip install |git clone |cd ", line)]
        env = {**os.environ, "PYTHON_OF_THE_TEST": sys.executable, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            ["bash", "-c", _SHELL + "\n".join(lines)], env=env, text=True, timeout=300, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode != 0:
            raise block.wrong(f"exit code {done.returncode}: {done.stdout}")
        return _without_places(done.stdout)


def _without_places(printed: str) -> str:
    return _TORCHS_LOG.sub("", printed.replace(f"{os.getcwd()}/", ""))


@contextlib.contextmanager
def _by_itself(module: types.ModuleType, folder: Path) -> Iterator[None]:
    """In this folder, with nothing compiled, and leaving nothing behind."""
    before, known = os.getcwd(), set(sys.modules)
    torch_trace = logging.getLogger("torch.__trace")
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.modules[module.__name__] = module
    tracer.uninstall()
    tracer.reset()
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="torch")
            yield
    finally:
        os.chdir(before)
        sys.path.remove(str(folder))
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)) or name == module.__name__:
                del sys.modules[name]
        tracer.set_logs()
        tracer.set_stance("default")
        tracer.uninstall()
        tracer.reset()
        torch_trace.handlers.clear()


def run_page(page: Path, folder: Path) -> Iterator[tuple[Block, str]]:
    """Each block, with what it printed, or, of output, what it should be."""
    runner = Runner(page)
    printed: str | None = None
    with _by_itself(runner.module, folder):
        for block in blocks(page):
            if block.is_output:
                if printed is None:
                    raise block.wrong("there is no program in front of this output")
                yield block, printed
            elif block.runs:
                try:
                    printed = runner.run(block)
                except WrongPage:
                    raise
                except BaseException as error:
                    raise block.wrong(f"{type(error).__name__}: {error}") from error
                yield block, printed
            else:
                printed = None


def check_page(page: Path, folder: Path) -> int:
    """Run it and compare. How many blocks ran."""
    ran = 0
    for block, printed in run_page(page, folder):
        if not block.is_output:
            ran += 1
        elif block.compared and not matches(block.text, printed):
            raise block.wrong(f"the page says\n{block.text}\nand this is printed:\n{printed}")
    return ran


def matches(shown: str, printed: str) -> bool:
    parts = []
    for line in _plain(shown).splitlines():
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(r".*?".join(map(re.escape, line.split("..."))) + "\n")
    return re.fullmatch("".join(parts), _plain(printed).rstrip("\n") + "\n") is not None


def _plain(text: str) -> str:
    for pattern, replacement in _CHANGING:
        text = pattern.sub(replacement, text)
    return text


# writing --------------------------------------------------------------------------------------------------------------
def rewritten(page: Path, folder: Path) -> str:
    """The page with what it prints now; where output has `...` it is left as it is, and told on stderr."""
    text, changes = page.read_text(encoding="utf-8"), []
    found = list(run_page(page, folder))
    shown = {int(number) for block, printed in found if block.is_output for _, number in _REGION.findall(printed)}
    numbers = {str(number): i for i, number in enumerate(sorted(shown), 1)}  # they count from 1 in each page
    for block, printed in found:
        if not block.is_output:
            continue
        printed = _REGION.sub(lambda region: f"{region[1]}{numbers[region[2]]}", printed)
        same = matches(block.text, printed) and _REGION.findall(block.text) == _REGION.findall(printed)
        if not block.compared or same:
            continue
        if "..." in block.text:
            print(f"{page.name}:{block.line}: by hand, please; this is printed:\n{printed}", file=sys.stderr)
        else:
            lines = (line.rstrip() for line in printed.rstrip("\n").splitlines())
            changes.append((block.span, "".join(f"{line}\n" for line in lines)))
    for (begin, end), new in reversed(changes):
        text = text[:begin] + new + text[end:]
    return text


def pages() -> list[Path]:
    """Those that are run here; the programs of docs/breaks.md are run by tests/tracer/test_breaks_page.py."""
    return [*sorted(ROOT.glob("README*.md")), *sorted(p for p in ROOT.glob("docs/*.md") if p.name != "breaks.md")]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run README and docs; exit code 1 if one is not as it should be.")
    parser.add_argument("--write", action="store_true", help="write what is printed now into the pages")
    parser.add_argument("pages", nargs="*", type=Path, help="which (default: all)")
    options = parser.parse_args()
    wrong = 0
    for page in options.pages or pages():
        with tempfile.TemporaryDirectory() as folder:
            try:
                if options.write:
                    page.write_text(rewritten(page.resolve(), Path(folder)), encoding="utf-8")
                else:
                    print(f"{page.name}: {check_page(page.resolve(), Path(folder))} blocks")
            except WrongPage as error:
                print(error, file=sys.stderr)
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
