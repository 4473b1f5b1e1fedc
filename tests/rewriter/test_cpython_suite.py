"""CPython's own tests give the same results with the library's functions grafted."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
#: Test module: modules whose functions are grafted (its own too, where it holds generators and context managers).
SUITES = {
    "test.test_contextlib": ["contextlib", "test.test_contextlib"],
    "test.test_dataclasses": ["dataclasses"],
    "test.test_functools": ["functools"],
    "test.test_generators": ["test.test_generators"],
    "test.test_json": ["json", "json.decoder", "json.encoder", "json.scanner"],
    "test.test_textwrap": ["textwrap"],
}
MORE = {
    "test.test_asyncgen": ["test.test_asyncgen"],
    "test.test_contextlib_async": ["contextlib", "test.test_contextlib_async"],
    "test.test_coroutines": ["test.test_coroutines"],
    "test.test_except_star": ["test.test_except_star"],
    "test.test_exceptions": ["test.test_exceptions"],
    "test.test_fractions": ["fractions"],
    "test.test_heapq": ["heapq"],
    "test.test_opcodes": ["test.test_opcodes"],
    "test.test_patma": ["test.test_patma"],
    "test.test_scope": ["test.test_scope"],
    "test.test_statistics": ["statistics"],
    "test.test_super": ["test.test_super"],
    "test.test_with": ["test.test_with"],
    "test.test_pep380": ["test.test_pep380"],
    "test.test_argparse": ["argparse"],
    "test.test_enum": ["enum"],
    "test.test_collections": ["collections"],
    "test.test_difflib": ["difflib"],
    "test.test_traceback": ["traceback", "test.test_traceback"],
    "test.test_inspect": ["inspect"],
    "test.test_configparser": ["configparser"],
    "test.test_named_expressions": ["test.test_named_expressions"],
    "test.test_unpack_ex": ["test.test_unpack_ex"],
}
#: Tests of line events and of the bytecode itself: a landing begins its line anew, and jumps from it have no line.
ABOUT_BYTECODE = ("test.test_patma.TestTracing.", "test.test_patma.TestSourceLocations.")
SLOW = [(name, kind) for name in (*SUITES, *MORE) for kind in ("guard", "identity", "steps")]


def outcomes(kind: str, module: str, libraries: list[str]) -> dict[str, Any]:
    program = Path(__file__).with_name("run_grafted.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, str(program), kind, module, *libraries],
        capture_output=True, text=True, timeout=600, env=environment, cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@functools.cache
def plain(module: str) -> dict[str, str]:
    return outcomes("plain", module, [])["outcomes"]


def check(module: str, kind: str) -> None:
    if importlib.util.find_spec("test") is None or importlib.util.find_spec(module) is None:
        pytest.skip(f"this Python comes without {module}")
    libraries = {**SUITES, **MORE}[module]
    got = outcomes(kind, module, libraries)
    compared = {test: outcome for test, outcome in got["outcomes"].items() if not test.startswith(ABOUT_BYTECODE)}
    wanted = {test: outcome for test, outcome in plain(module).items() if not test.startswith(ABOUT_BYTECODE)}
    assert compared == wanted
    assert got["grafted"] > 0 and sum(outcome == "ok" for outcome in compared.values()) > 5


@pytest.mark.parametrize("module", SUITES)
def test_a_guard_that_is_false(module: str) -> None:
    check(module, "guard")


@pytest.mark.parametrize("module", ["test.test_generators", "test.test_functools", "test.test_textwrap"])
@pytest.mark.parametrize("kind", ["identity", "steps"])
def test_regions_all_over(module: str, kind: str) -> None:
    check(module, kind)


@pytest.mark.slow
@pytest.mark.parametrize("module, kind", SLOW)
def test_more(module: str, kind: str) -> None:
    check(module, kind)
