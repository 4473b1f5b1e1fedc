"""The programs of the table in examples/benchmarks/dynamic.py do what plain Python does; the stress by random sizes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from dynamic_programs import CALLS, PROGRAMS, Program
from dynamic_running import Counted, Stressed, difference, ours, plainly, run, stress

import tracer

#: How many compiles a program takes at most, as many as torch.compile or fewer; two where nothing is said.
MOST = {
    "recurrent": 3, "training step": 3, "layers that run": 3, "size 0 and 1": 4, "branch on size": 3, "selected": 4,
    "read number": 3, "list length": 4, "arguments": 3, "dict keys": 3, "string": 3, "enumeration": 3, "flags": 4,
    "dtype": 3, "dimensions": 4, "dropout p": 8, "attention scale": 8,
}  # fmt: skip


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    tracer.install()
    yield
    tracer.uninstall()
    torch.set_num_threads(threads)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name.replace(" ", "_"))
def test_program(program: Program) -> None:
    plain, compiled = (run(program, compiler, Counted("eager")) for compiler in (plainly, ours))
    assert difference(plain, compiled, exact=True) is None
    assert 1 <= compiled.compiles <= MOST.get(program.name, 2)
    assert bool(compiled.plain_calls) == (program.name in ("dropout p", "attention scale"))


def test_a_difference_is_seen() -> None:
    program = next(p for p in PROGRAMS if p.name == "batch")
    plain, other = run(program, plainly, Counted("eager")), run(program, plainly, Counted("eager"))
    other.results[5] = other.results[5] + 1e-6
    assert plain.plain_calls == CALLS and not plain.compiles
    assert "call 5: result: values differ" in str(difference(plain, other, exact=True))
    other.noted.append(1)
    other.results[5] = plain.results[5]
    assert "noted" in str(difference(plain, other, exact=True))


@pytest.fixture(scope="module")
def stressed() -> Stressed:
    tracer.install()
    try:
        return stress()
    finally:
        tracer.uninstall()


def test_stress_by_random_sizes_gives_equal_results(stressed: Stressed) -> None:
    assert stressed.calls == 1000 and not stressed.wrong


def test_stress_by_random_sizes_takes_few_compiles(stressed: Stressed) -> None:
    assert stressed.compiles <= 4 and not stressed.plain_calls
