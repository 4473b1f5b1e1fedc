"""The examples run, and the programs of the dispatch benchmark stay right after every change that a guard watches."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import constant
import dispatch
import mutations
import programs
import pytest
import timing
import torch

import tracer

ROOT = Path(__file__).resolve().parents[1]
CASES = [pytest.param(make, change, id=f"{name}-{kind}") for name, make, kinds in dispatch.MUTATED
         for kind, change in kinds.items() if name != "50 Linear layers"]


def run_example(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT / "examples", env=environment, text=True,
                          capture_output=True, timeout=600)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_quickstart() -> None:
    text = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    assert len([line for line in text.splitlines() if line]) <= 20
    output = run_example("quickstart.py", "--backend", "eager")
    assert "def slot(x, weight, times)" in output and "guard times: equals 3" in output


def test_graph_break() -> None:
    output = run_example("graph_break.py")
    assert "graph break" in output and "print()" in output


def test_resnet() -> None:
    output = run_example("resnet.py", "--backend", "eager", "--steps", "2")
    assert "running statistics: largest difference 0.0e+00" in output


def test_train_transformer() -> None:
    output = run_example("train_transformer.py", "--backend", "eager", "--steps", "3", "--sample", "4")
    assert re.search(r"difference at a step 0\.0", output) and "0 graph breaks" in output, output


@pytest.mark.parametrize(("make", "change"), CASES)
def test_a_change_never_gives_a_stale_result(make: Callable[[], Any], change: mutations.Change) -> None:
    tracer.install()
    assert mutations.still_right(make, change) == "right"


@pytest.mark.parametrize(("make", "change"), CASES)
def test_the_changes_would_be_noticed(
    make: Callable[[], Any], change: mutations.Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that never looks again must be caught by each of them."""

    def stale(fn: Any, **_: Any) -> Any:
        first = make_first(fn)
        return lambda *arguments: first(*arguments)

    def make_first(fn: Any) -> Any:
        found: list[Any] = []

        def call(*arguments: Any) -> Any:
            if not found:
                found.append(fn(*arguments))
            return found[0]

        return call

    class Frozen(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.__dict__["model"] = model
            self.__dict__["first"] = make_first(model)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.__dict__["model"], name)

        def __call__(self, *arguments: Any) -> Any:
            return self.__dict__["first"](*arguments)

    monkeypatch.setattr(mutations.tracer, "compile",
                        lambda fn, **_: Frozen(fn) if isinstance(fn, torch.nn.Module) else stale(fn))
    assert mutations.still_right(make, change) != "right"


def test_constant_backend_and_timing() -> None:
    tracer.install()
    compiled = tracer.compile(programs.pair, backend=constant.constant_backend, inplace=False)
    x = torch.ones(3)
    assert compiled(x, x) is compiled(x, x) and compiled(x, x).tolist() == [0, 0, 0]
    assert compiled(torch.ones(2), torch.ones(2)).shape == (2,)
    times = timing.interleaved({"a": lambda: None, "b": lambda: sum(range(2000))}, rounds=5, seconds=1e-4)
    assert len(times["a"]) == 5 and timing.ratio(times["b"], times["a"]) > 5
    assert timing.shown(2.5e-6) == "2.50 us" and timing.shown(5e-8) == "50 ns" and timing.shown(0.5) == "500.00 ms"
    assert timing.table(["a", "bb"], [["xyz", "1"]]) == "a    bb\n---  --\nxyz   1"
