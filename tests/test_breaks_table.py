"""Every program of the table in examples/benchmarks/breaks.py does what plain Python does, in each of ten calls."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from break_programs import PROGRAMS, Program
from break_running import CALL, CALLS, GRAPH, Operators, Side, counted, first_difference
from torch.profiler import record_function

import tracer

BREAKS = Path(__file__).parent.parent / "examples" / "benchmarks" / "breaks.py"


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    tracer.install(backend="eager")
    yield
    tracer.uninstall()
    torch.set_num_threads(threads)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_program(program: Program) -> None:
    compiled = tracer.compile(program.function, inplace=False)
    assert first_difference(program, compiled) is None
    assert tracer.counters()["compilations"], "nothing was compiled"


def test_a_difference_is_seen() -> None:
    program = next(p for p in PROGRAMS if p.name == "for_range")

    def other(x: torch.Tensor, weight: torch.Tensor, steps: int) -> torch.Tensor:
        return program.function(x, weight, steps) + 1e-6

    def silent(x: torch.Tensor, weight: torch.Tensor, steps: int) -> torch.Tensor:
        result = program.function(x, weight, steps)
        print("one more line")
        return result

    assert "call 0: result: values differ" in str(first_difference(program, other))
    assert "call 0: printed" in str(first_difference(program, silent))


def test_operators_are_counted_in_and_out_of_graphs() -> None:
    x, operators = torch.randn(4, 4), Operators()
    with counted(operators):
        x.exp()  # not in a call of a program
        with record_function(CALL):
            x.sin()
            with record_function(GRAPH):
                torch.nn.functional.layer_norm(x, (4,))
                with pytest.raises(RuntimeError):
                    x @ torch.randn(3, 3)
            x.cos()
    # what raised is not in a trace
    assert operators == Operators(2, Counter({"aten::sin": 1, "aten::cos": 1}), 1)


def test_programs_use_what_they_say() -> None:
    """Each has tensor operators, those which are said to be breaks themselves are there, and its inputs change."""
    for program in PROGRAMS:
        operators, side = Operators(), Side(program, program.function)
        with counted(operators):
            for k in range(CALLS):
                side.seen(k)
        counted_operators = operators.missed(program, operators.outside).total()
        assert counted_operators >= 3 * sum(map(program.iterations, range(CALLS))), program.name
        assert program.itself <= set(operators.outside), program.name


def test_the_table() -> None:
    environment = os.environ | {"PYTHONPATH": str(BREAKS.parents[2]), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, str(BREAKS), "--rounds", "2", "--only", "for_range", "while_python"]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=300, check=False)
    assert "2 of 2 programs hold" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
