"""Some of the models of examples/models.py: they do as eager does, and what is one graph stays one graph.

The rest of them run by hand (`python examples/models.py`): the libraries are large, so only one Python has them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from model_zoo import comparing

ROOT = Path(__file__).parent.parent
MISSING = [name for name in ("transformers", "timm", "torchvision") if importlib.util.find_spec(name) is None]
#: What torch.compile, too, makes one graph of.
WHOLE = (
    "transformers/llama", "transformers/gptoss", "transformers/mamba2", "transformers/bert", "transformers/bart",
    "transformers/clip", "timm/swin_tiny_patch4_window7_224", "torchvision/efficientnet_b0",
)
#: The first token has a graph of its own, and all others share one.
GENERATES = "transformers/generate_llama_static"
#: Breaks, where shapes depend on values.
DETECTS = "torchvision/retinanet_resnet50_fpn"


def run(names: Iterable[str], path: Path) -> dict[str, Any]:
    """What the example found, by name; in one run, since it imports the libraries and forks."""
    program = str(ROOT / "examples" / "models.py")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    environment.pop("TORCHGRAFT", None)
    done = subprocess.run(
        [sys.executable, program, "--ours-only", "--json", str(path), "--only", *names],
        capture_output=True, encoding="utf-8", env=environment, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "agree with eager: torchgraft" in done.stdout
    return {row["name"]: row for row in json.loads(path.read_text("utf-8"))}


def disagreement(row: dict[str, Any]) -> Iterator[str]:
    """Results, their types, gradients and buffers are eager's, bit for bit, and nothing goes wrong inside."""
    if row["error"] is not None:
        yield row["error"]
    for mode, found in row["modes"].items():
        ours = found["ours"]
        if ours.get("agreement") != "equal":
            yield f"{mode}: {ours.get('agreement', ours.get('error'))}"
        yield from (f"{mode}: {text}" for text in ours["troubles"] if not text.endswith(" fallbacks"))


def not_whole(row: dict[str, Any], graphs: int) -> Iterator[str]:
    """So many graphs at the first call, none at later ones, no break, and nothing ran plain."""
    for mode, found in row["modes"].items():
        ours = found["ours"]
        if (ours.get("first_graphs"), ours.get("recompiled")) != (graphs, 0) or ours["breaks"] or ours["troubles"]:
            yield f"{mode}: {ours}"


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_models(tmp_path: Path) -> None:
    found = run([*WHOLE, GENERATES, DETECTS], tmp_path / "found.json")
    assert set(found) == {*WHOLE, GENERATES, DETECTS}
    wrong = [f"{name}: {text}" for name, row in found.items() for text in disagreement(row)]
    for name in WHOLE:
        assert set(found[name]["modes"]) == {"inference", "training"}
        wrong += [f"{name}: {text}" for text in not_whole(found[name], 1)]
    wrong += [f"{GENERATES}: {text}" for text in not_whole(found[GENERATES], 2)]
    met = found[DETECTS]["modes"]["inference"]["ours"]["breaks"]
    assert met and all(row["title"] and row["line"] and row["count"] > 0 for row in met)
    assert not wrong, "\n".join(wrong)


def test_a_difference_is_seen() -> None:
    """The comparison itself: values, types, gradients, buffers."""
    weight = torch.arange(4.0)

    def outcome(result: Any, gradient: Any = weight, buffer: Any = weight) -> list[comparing.Outcome]:
        return [comparing.Outcome(list(comparing.flat(result)), {"weight": gradient}, {"mean": buffer})]

    plain = outcome({"loss": weight})
    assert comparing.agreement(plain, outcome({"loss": weight.clone()})) == comparing.Agreement("equal", True)
    near = comparing.agreement(plain, outcome({"loss": weight + 1e-5}))
    assert near.agrees and near.text.endswith("result ['loss']")
    for other in (
        outcome({"loss": weight + 1}), outcome({"loss": weight * float("nan")}), outcome(OrderedDict(loss=weight)),
        outcome({"loss": weight.double()}), outcome([weight]), outcome({"loss": weight}, None),
        outcome({"loss": weight}, weight + 1), outcome({"loss": weight}, weight, weight + 1),
    ):  # fmt: skip
        assert not comparing.agreement(plain, other).agrees
