"""Random programs, plain and compiled, must do the same: see tests/programs/generator.py.

    TORCHGRAFT_EXAMPLES=50000 TORCHGRAFT_SEED=7 make test ARGS="tests/test_differential.py"

runs more of them, or other ones. A program that fails is made smaller and printed whole; put it into
tests/programs/found when its cause is mended. TORCHGRAFT_TEST_COMPILER=plain tries the programs themselves, =torch
shows how torch.compile does.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.comparing import Different
from tests.programs.generator import Program, programs
from tests.programs.prelude import PRELUDE
from tests.programs.reducer import candidates, reduce
from tests.programs.worlds import compare
from tests.support import COMPILER, compile_with

if COMPILER == "tracer":
    import tracer

EXAMPLES = int(os.environ.get("TORCHGRAFT_EXAMPLES", "2000" if os.environ.get("CI") else "400"))
FIRST_SEED = int(os.environ.get("TORCHGRAFT_SEED", "0"))
#: One test for each, so that they can run side by side.
CHUNKS = 16
FOUND, KNOWN = (sorted(Path(__file__).parent.joinpath("programs", kind).glob("*.py")) for kind in ("found", "known"))


def run(text: str, **options: Any) -> None:
    """Compare, and leave nothing compiled behind. An error inside torchgraft is not covered up by running plain."""
    before = os.environ.get("TORCHGRAFT_STRICT")
    os.environ["TORCHGRAFT_STRICT"] = "1"
    try:
        compare(f"{PRELUDE}\n\n{text}", **options)
    finally:
        os.environ.pop("TORCHGRAFT_STRICT")
        if before is not None:
            os.environ["TORCHGRAFT_STRICT"] = before
        if COMPILER == "tracer":
            tracer.uninstall()
            gc.collect()  # the next install() arms every function again that was compiled and is not yet freed


def difference(text: str, **options: Any) -> str | None:
    try:
        run(text, **options)
    except Different as error:
        return str(error)
    except Exception as error:  # the program's own exceptions are caught: this one is a broken program or compiler
        return f"{type(error).__name__}: {error}"
    return None


def still_fails(text: str, **options: Any) -> bool:
    """As a comparison, not because the smaller program can't even be set up."""
    try:
        run(text, **options)
    except Different:
        return True
    except Exception:  # a candidate of the reducer may be any nonsense
        return False
    return False


def unrolling(limit: int | None) -> Callable[..., Any]:
    """The compiler under test, with this limit of the graph nodes that a loop may become (None: the usual one)."""
    def compiler(fn: Callable[..., Any], **options: Any) -> Any:
        compiled = compile_with(fn, **options)
        if limit is not None and COMPILER == "tracer":
            tracer.install(unroll_limit=limit)
        return compiled

    return compiler


def run_chunk(chunk: int, examples: int, **options: Any) -> None:
    @seed(FIRST_SEED * CHUNKS + chunk)
    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None,
              deadline=None)
    @given(programs())
    def agree(program: Program) -> None:
        text = program.text
        told = difference(text, **options)
        if told is None:
            return
        if still_fails(text, **options):
            text = reduce(text, lambda smaller: still_fails(smaller, **options))
            told = difference(text, **options)
        raise AssertionError(f"{told}\n\nin this program, behind tests/programs/prelude.py:\n\n{text}")

    gc.freeze()  # what is collected behind each program is the program, not all of torch
    try:
        agree()
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_agree(chunk: int) -> None:
    """Half of them compiled in place; in half of them loops are soon too long to be unrolled."""
    compiler = unrolling((None, 3, None, 1)[chunk // 2 % 4])
    run_chunk(chunk, max(1, EXAMPLES // CHUNKS), inplace=chunk % 2 == 0, compiler=compiler)


@pytest.mark.skipif(COMPILER == "plain", reason="nothing is compiled")
def test_random_programs_agree_on_inductor() -> None:
    """A few only: each region costs a C++ compile. Other order of additions: a tolerance instead of equal bits."""
    run_chunk(CHUNKS, max(1, EXAMPLES // 200), backend="inductor", tolerance=(1e-3, 1e-4))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_programs_that_once_failed(path: Path) -> None:
    run(path.read_text(encoding="utf-8"))


@pytest.mark.skipif(COMPILER != "tracer", reason="torchgraft's own differences")
@pytest.mark.xfail(strict=True, raises=Different, reason="a known difference: its file says which")
@pytest.mark.parametrize("path", KNOWN, ids=lambda path: path.stem)
def test_known_differences(path: Path) -> None:
    run(path.read_text(encoding="utf-8"))


def test_a_wrong_compiler_is_found_and_the_program_made_small() -> None:
    def adds_one(fn: Any, **_: Any) -> Any:
        def wrong(*args: Any) -> Any:
            result = fn(*args)
            return result + 1 if isinstance(result, torch.Tensor) else result
        return wrong

    text = ("def program(x, n):\n    for i in range(n):\n        x = x * 2\n    if n > 1:\n        return x.sin()\n"
            "    return (x, n)\n\n\ndef calls():\n    return [(torch.ones(2), 1), (torch.ones(2), 2)]\n")
    assert difference(text, compiler=adds_one)
    smaller = reduce(text, lambda t: still_fails(t, compiler=adds_one))
    assert len(smaller) < len(text) / 2 and "for" not in smaller, smaller
    assert difference(text, compiler=lambda fn, **_: fn) is None


def test_every_candidate_of_the_reducer_compiles() -> None:
    text = "def program(x):\n    try:\n        x = f(x + 1, *[2])\n    finally:\n        return x\n"
    found = list(candidates(text))
    assert len(found) > 5 and all(compile(smaller, "<smaller>", "exec") for smaller in found)
