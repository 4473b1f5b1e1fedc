"""Each example runs as its docstring says, in a process of its own, with settings that make it quick."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tracer.backends import toolchain

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TINY = ["--steps", "4", "--batch", "2", "--layers", "1", "--width", "16", "--context", "8", "--threads", "1"]


def run(*command: str, fails: bool = False) -> str:
    """What the command prints; it must succeed, or fail, as was expected."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    environment.pop("TORCHGRAFT", None)
    done = subprocess.run([sys.executable, *command], capture_output=True, encoding="utf-8", env=environment,
                          timeout=300, check=False)
    assert done.returncode == (1 if fails else 0), f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def example(name: str, *options: str, fails: bool = False) -> str:
    return run(str(ROOT / "examples" / name), *options, fails=fails)


def test_every_example_says_how_to_run_it() -> None:
    programs = [path for path in EXAMPLES if path.name not in ("command_line.py", "gpt.py")]  # these are imported
    assert {path.name for path in programs} >= {"graph_break.py", "quickstart.py", "resnet.py", "sampling.py",
                                                "server.py", "train_transformer.py", "training_loop.py"}
    helps = run("-c", """if True:
        import runpy, sys
        for path in sys.argv[1:]:
            sys.argv = [path, "--help"]
            sys.path.insert(0, path.rpartition("/")[0])
            try:
                runpy.run_path(path, run_name="__main__")
            except SystemExit as done:
                assert not done.code, path
    """, *(path.as_posix() for path in programs))
    for path in programs:
        assert f"python examples/{path.name}" in path.read_text(encoding="utf-8").split('"""')[1]
        assert f"usage: {path.name}" in helps
        assert f"python examples/{path.name}" in " ".join(helps.split())  # argparse may have broken the line


def test_quickstart() -> None:
    told = example("quickstart.py", "--backend", "eager")
    assert re.search(r"^step \(.*2 regions, 17 operators, 0 breaks$", told, re.M), told


def test_graph_break() -> None:
    told = example("graph_break.py")
    assert re.search(r"^clip \(.*: 4 regions, \d+ operators, 2 breaks$", told, re.M), told
    assert "break: print()" in told and "break: branch on a tensor" in told
    assert "With fullgraph=True the first break is an error" in told
    assert "Without print and branch: 1 region, 0 breaks" in told


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_resnet(backend: str) -> None:
    told = example("resnet.py", "--backend", backend, "--steps", "3")
    assert "step  3: loss" in told
    assert "running statistics: largest difference" in told
    # one region for training, one for eval mode
    assert "2 regions, 0 graph breaks, 4 hits, 2 misses" in told, told


def test_transformer_equals_eager_bit_for_bit() -> None:
    told = example("train_transformer.py", *TINY, "--backend", "eager", "--compare", "--sample", "5")
    assert told.count("largest difference at a step 0.0e+00, within the tolerance of 0") == 3, told
    assert re.search(r"^torchgraft / torch.compile \d+\.\d+ +\(noise: the same against itself \d+\.\d+\)$", told, re.M)
    assert "training: 2 regions, 0 graph breaks, 8 hits, 2 misses" in told, told
    # every step of the sample after the first one runs the region that the first one made
    assert "training and sample: 3 regions, 0 graph breaks, 13 hits, 3 misses" in told, told


def test_transformer_on_aot_eager() -> None:
    told = example("train_transformer.py", *TINY, "--backend", "aot_eager", "--sample", "0", "--clock", "cpu")
    assert "backend aot_eager" in told
    assert "within the tolerance of 0.001" in told
    assert "training: 1 regions, 0 graph breaks, 4 hits, 1 misses" in told, told


def test_transformer_fails_when_losses_differ() -> None:
    options = ["--backend", "eager", "--sample", "0", "--tolerance", "-1"]
    told = example("train_transformer.py", *TINY, *options, fails=True)
    assert "MORE THAN the tolerance of -1" in told


@pytest.mark.slow
@pytest.mark.skipif(toolchain.missing_for_inductor() is not None, reason="no C++ compiler")
def test_transformer_on_inductor() -> None:
    told = example("train_transformer.py", *TINY, "--sample", "3")
    assert "backend inductor" in told
    assert "within the tolerance of 0.001" in told
    assert "training and sample: 2 regions, 0 graph breaks, 7 hits, 2 misses" in told, told


def test_training_loop() -> None:
    told = example("training_loop.py", "--backend", "eager", "--quick", "--threads", "1")
    assert "\n  hardly better for 2 epochs: enough after epoch" in told, told
    for side in "torchgraft", "torch.compile":
        assert f"{side}: losses and parameters differ from eager's by 0.0e+00 (within 0), printed" in told
    assert told.count("printed lines are the same\n") == 2
    assert re.search(r"^train, region at line \d+: 18 operators, \d+ runs, forward and backward by eager$", told, re.M)
    assert "backward is run" in told and "print() writes output" in told
    assert re.search(r"^torchgraft / torch.compile \d+\.\d+ +\(noise: .* \d\.\d+;", told, re.M), told


def test_sampling() -> None:
    told = example("sampling.py", "--backend", "eager", "--quick", "--threads", "1")
    for side in "torchgraft", "torch.compile (model)":
        for how in "whole", "interrupted":
            assert f"{side}, {how} sample: equal to eager's" in told, told
    assert re.search(r"^sample, region at line \d+: \d\d operators, \d\d runs$", told, re.M), told
    assert "yield hands out a value; compiled while it was measured: 0" in told, told


def test_server() -> None:
    told = example("server.py", "--backend", "eager", "--quick", "--threads", "1")
    assert told.count("served 36 requests in 12 batches of [2, 4]") == 2, told
    assert "every answer equal to eager's (tolerance 0)" in told, told
    assert re.search(r"^regions: [2-9], breaks: .*coroutine is suspended", told, re.M), told


@pytest.mark.slow
@pytest.mark.skipif(toolchain.missing_for_inductor() is not None, reason="no C++ compiler")
@pytest.mark.parametrize("name", ["sampling.py", "server.py", "training_loop.py"])
def test_loops_on_inductor(name: str) -> None:
    told = example(name, "--backend", "inductor", "--quick", "--threads", "1")
    assert "backend inductor" in told and "torchgraft  " in told, told


@pytest.mark.compiles
def test_gpu_benchmark_without_a_gpu() -> None:
    told = run(str(ROOT / "examples" / "benchmarks" / "gpu.py"), "--recorder", "cpu", "--only", "decode")
    assert told.count(": right") == 2 and "correctness only" in told and "replays" in told, told
    if not torch.cuda.is_available():
        assert run(str(ROOT / "examples" / "benchmarks" / "gpu.py")).startswith("No GPU here: nothing was run")


@pytest.mark.compiles
def test_gpu_benchmark_loses_no_table() -> None:
    """Neither for a side that fails nor for lack of time."""
    command = [str(ROOT / "examples" / "benchmarks" / "gpu.py"), "--recorder", "cpu", "--only", "dispatch"]
    told = run(*command, "--inner", "nothing", fails=True)
    assert "torchgraft failed: ValueError: no backend is named 'nothing'" in told
    assert told.splitlines()[-1].split()[0] == "dispatch" and " failed " in told.splitlines()[-1]
    told = run(*command, "--seconds", "0.5")
    assert "dispatch: left out, " in told and told.splitlines()[-1].split() == ["dispatch", "-", "-", "-", "-"]
