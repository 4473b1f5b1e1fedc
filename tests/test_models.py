"""Some of the models of examples/models.py: they do as eager does, and what is one graph stays one graph.

The rest of them run by hand (`python examples/models.py`): the libraries are large, so only one Python has them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
MISSING = [name for name in ("transformers", "timm", "torchvision") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]
#: For inference and for training: graphs of the first call, graphs of later ones, breaks.
EXPECTED: dict[str, dict[str, tuple[int, int, int]]] = {
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the example found, in one run for all: it imports the libraries once."""
    path = tmp_path_factory.mktemp("models") / "found.json"
    program = str(ROOT / "examples" / "models.py")
    command = [sys.executable, program, "--ours-only", "--json", str(path), "--only", *EXPECTED]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    environment.pop("TORCHGRAFT", None)
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, timeout=400, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "agree with eager: torchgraft" in done.stdout
    return {row["name"]: row for row in json.loads(path.read_text("utf-8"))}


@pytest.mark.parametrize("name", EXPECTED)
def test_model(found: dict[str, Any], name: str) -> None:
    row = found[name]
    assert row["error"] is None
    assert set(row["modes"]) == set(EXPECTED[name])
    for mode, expected in EXPECTED[name].items():
        ours = row["modes"][mode]["ours"]
        assert ours["agreement"] == "equal", mode
        assert not ours["troubles"], mode
        breaks = sum(b["count"] for b in ours["breaks"])
        assert (ours["first_graphs"], ours["recompiled"], breaks) == expected, (mode, ours["breaks"])
