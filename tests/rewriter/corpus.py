"""Real code to try everything on: every code object of the standard library and of torch's Python files.

Sources are compiled, never imported or run. By default a fixed sample of the files (one in `SAMPLE`); all of them with
TORCHGRAFT_CORPUS=all in the environment.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

SAMPLE = 20
#: Test data that is no Python, or not of this version, on purpose.
NOT_PYTHON = ("bad_", "badsyntax_", "lib2to3")


def source_files(everything: bool | None = None) -> list[Path]:
    if everything is None:
        everything = os.environ.get("TORCHGRAFT_CORPUS") == "all"
    files = sorted(Path(os.__file__).parent.rglob("*.py"))
    files = [file for file in files if "site-packages" not in file.parts]
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        files += sorted(Path(torch.origin).parent.rglob("*.py"))
    files = [file for file in files if not any(part.startswith(NOT_PYTHON) for part in file.parts)]
    return files if everything else files[::SAMPLE]


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """The code object and every one that it makes."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_codes(constant)


def compiled(file: Path) -> CodeType | None:
    """A file's module code; None where it is written for another Python, as some of CPython's tests are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return None


def codes(everything: bool | None = None) -> Iterator[CodeType]:
    for file in source_files(everything):
        module = compiled(file)
        if module is not None:
            yield from nested_codes(module)
