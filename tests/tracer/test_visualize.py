"""tracer.visualize: one self-contained file whose data is what the capture and the cache really did."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import tracer
from tracer.api import is_grafted, runtime

pytestmark = pytest.mark.usefixtures("installed_eager")

X, W = torch.arange(12.0).reshape(4, 3), torch.eye(3)
ROOT = Path(__file__).resolve().parents[2]


def helper(x):
    return x.relu() * 2


def stepped(x, w, n):
    for i in range(n):
        x = torch.tanh(x @ w) + i
    print(end="")
    return helper(x).mean(0)


def data_of(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def shown(tmp_path: Path, fn: Any, *args: Any, **kwargs: Any) -> Any:
    path = tracer.visualize(fn, *args, path=tmp_path / "page.html", **kwargs)
    assert path == tmp_path / "page.html"
    return data_of(path)


class Heard(tracer.Listener):
    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.nodes: list[str] = []

    def before(self, step: Any) -> None:
        self.steps.append((step.index, step.depth, len(step.stack)))

    def node(self, added: Any) -> None:
        self.nodes.append(added.name)


# steps 1 and 2 --------------------------------------------------------------------------------------------------------
def test_the_stops_are_the_steps_of_the_real_capture(tmp_path):
    heard = Heard()
    with tracer.listen(heard):
        tracer.compile(stepped, inplace=False)(X, W, 2)
    data = shown(tmp_path, stepped, X, W, 2)
    steps = [stop for stop in data["stops"] if stop["k"] in ("step", "in")]
    assert [(s["at"], s["depth"], len(s["before"]["stack"])) for s in steps] == heard.steps
    assert [node["name"] for capture in data["captures"] for node in capture["nodes"]] == heard.nodes
    kinds = [stop["k"] for stop in data["stops"]]
    assert kinds[0] == "begin" and kinds[-1] == "end" and kinds.count("broke") == 1
    assert kinds.count("begin") == kinds.count("end") == len(data["captures"]) == 2
    assert kinds.count("in") == kinds.count("out") == 1, "the call of helper, from both sides"


def test_a_stop_has_the_state_before_and_after(tmp_path):
    data = shown(tmp_path, stepped, X, W, 1)
    code = data["codes"][0]
    assert code["source"][0] == "def stepped(x, w, n):" and code["first"] == stepped.__code__.co_firstlineno
    [matmul] = [s for s in data["stops"] if s["k"] == "step" and code["code"][s["at"]]["arg"] == "@" and s["code"] == 0]
    values = data["values"]
    before, after = ([values[n] for n in matmul[when]["stack"]] for when in ("before", "after"))
    assert [value["s"] for value in before[-2:]] == ["x", "w"] and after[-1]["n"] == "matmul"
    assert [value["t"] for value in before[-2:]] == ["float32 [4, 3]", "float32 [3, 3]"]
    capture = data["captures"][0]
    assert [capture["nodes"][n]["text"] for n in matmul["added"]["nodes"]] == ["x", "w", "matmul = x @ w"]
    assert [capture["guards"][n]["text"][:9] for n in matmul["added"]["guards"]] == ["x: tensor", "w: tensor"]
    families = {i["op"]: i["fam"] for i in code["code"]}
    assert (families["LOAD_FAST"], families["LOAD_CONST"], families["BINARY_OP"], families["STORE_FAST"]) == (
        "load", "const", "op", "store")  # fmt: skip
    line = code["code"][matmul["at"]]["pos"]
    assert code["source"][line[0] - code["first"]][line[2] : line[3]] == "x @ w"


def test_the_break_cuts_the_graph(tmp_path):
    def f(x):
        y = x + 1
        return y + float(inner(y))

    def inner(x):
        return x.sum().item()

    data = shown(tmp_path, f, X)
    first = data["captures"][0]
    assert first["broke"]["title"] == "tensor value is read" and len(first["broke"]["stack"]) == 2
    gone = [node["name"] for node in first["nodes"] if node.get("gone")]
    assert gone == ["sum_1"]
    kept = {node["name"] for node in first["nodes"] if node["kept"]}
    assert "add" in kept and not kept & set(gone)
    [stop] = [s for s in data["stops"] if (s.get("added") or {}).get("gone")]
    assert [first["nodes"][n]["name"] for n in stop["added"]["gone"]] == gone


def test_a_capture_that_begins_anew_says_why(tmp_path):
    def loop(x):
        for i in range(3):
            x = x + i
            print(end="")
        return x

    data = shown(tmp_path, loop, X)
    [restart, *_] = [stop for stop in data["stops"] if stop["k"] == "restart"]
    assert "loop" in restart["reason"] and restart["read"] > 5
    assert data["captures"][0]["attempts"] > 1


def test_a_model_is_shown_with_its_own_names(tmp_path):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 2)

        def forward(self, x):
            return self.fc(x).relu()

    model = Net()
    data = shown(tmp_path, model, X)
    assert data["file"] == Path(__file__).name and data["line"] == Net.forward.__code__.co_firstlineno
    inputs = [node["text"] for node in data["captures"][0]["nodes"] if node["op"] == "placeholder"]
    assert inputs == ["args[0]", "self.fc.weight", "self.fc.bias"]
    assert [code["library"] for code in data["codes"] if code["name"].endswith("Net.forward")] == [False]
    assert model._compiled_call_impl is None, "the model itself is left alone"


# step 3 ---------------------------------------------------------------------------------------------------------------
def test_the_same_arguments_hit_and_another_batch_misses(tmp_path):
    data = shown(tmp_path, stepped, X, W, 2)
    same, other = data["calls"]
    assert [visit["hit"] for visit in same["visits"]] == [True, True]
    assert [v["ran"] for v in same["visits"]] == [c["region"] for c in data["captures"]]
    for visit in same["visits"]:
        assert all(guard["ok"] and guard["asked"] for region in visit["regions"] for guard in region["guards"])
    guards = {g["text"].split(":")[0]: g for g in same["visits"][0]["regions"][0]["guards"]}
    assert [part["name"] for part in guards["x"]["parts"]] == ["shape", "dtype", "device", "requires_grad"]
    assert guards["n"]["parts"] == [{"name": "value", "expected": "2", "seen": "2", "ok": True}]
    assert [visit["hit"] for visit in other["visits"]] == [False, False]
    miss = other["visits"][0]
    assert miss["decision"] == "recompile" and miss["made"] and miss["made"] != same["visits"][0]["ran"]
    assert (miss["record"]["old"], miss["record"]["new"]) == ("shape (4, 3)", "shape (5, 3)")
    [failed] = [g for g in miss["regions"][0]["guards"] if not g["ok"]]
    assert failed["text"].startswith("x: tensor")
    assert failed["parts"][0] == {"name": "shape", "expected": "(4, 3)", "seen": "(5, 3)", "ok": False}
    assert all(part["ok"] for part in failed["parts"][1:])
    assert data["texts"][str(miss["made"])].startswith(f"    # region {miss['made']}:")


def test_the_guards_stand_in_the_text_that_runs(tmp_path):
    data = shown(tmp_path, stepped, X, W, 2)
    visit = data["calls"][0]["visits"][0]
    text = data["texts"][str(visit["ran"])]
    for guard in visit["regions"][0]["guards"]:
        assert guard["condition"] in text


def test_arguments_of_ones_own_for_the_second_call(tmp_path):
    data = shown(tmp_path, stepped, X, W, 2, second=(X.double(), W.double(), 2))
    _, other = data["calls"]
    parts = {p["name"]: p for g in other["visits"][0]["regions"][0]["guards"] if not g["ok"] for p in g["parts"]}
    assert parts["dtype"] == {"name": "dtype", "expected": "float32", "seen": "float64", "ok": False}
    assert other["title"] == "other arguments"


def test_at_a_miss_what_rests_on_a_failed_guard_is_not_asked(tmp_path):
    class Box:
        def __init__(self, k):
            self.k = k

    def f(x, box):
        return x * box.k if box.k > 1 else x

    data = shown(tmp_path, f, X, Box(2), second=(X, 7))
    guards = data["calls"][1]["visits"][0]["regions"][0]["guards"]
    assert not all(guard["asked"] for guard in guards)
    [failed] = [guard for guard in guards if guard["asked"] and not guard["ok"]]
    assert failed["parts"] == [{"name": "type", "expected": failed["parts"][0]["expected"], "seen": "int", "ok": False}]


def test_a_program_that_takes_no_other_batch(tmp_path):
    def f(x):
        if x.shape[0] != 4:
            raise ValueError("four rows, please")
        return x + 1

    data = shown(tmp_path, f, X)
    assert [call["title"] for call in data["calls"]] == ["the same arguments again"]


def test_nothing_is_left_behind(tmp_path):
    calls = []

    def f(x):
        calls.append(1)
        return x + 1

    data = shown(tmp_path, f, X)
    assert len(calls) == 3 == 1 + len(data["calls"])
    assert not is_grafted(f) and runtime.translator.grafter.dress is None
    assert not runtime.translator.maker.listeners and not runtime.translator.decisions.callbacks

    def g(x):
        return x + 1

    tracer.compile(g)
    g(X)
    before = [region.number for region in tracer.explain(g)(X).regions]
    shown(tmp_path, g, X)
    report = tracer.explain(g)(X)
    assert [region.number for region in report.regions] == before, "what is compiled already keeps its regions"
    assert report.hits == 3


# the file -------------------------------------------------------------------------------------------------------------
def test_the_file_needs_nothing_else(tmp_path):
    def f(x, text):
        return x + 1 if text == "</script><!-- \u2028 <script>" else x

    path = tracer.visualize(f, X, "</script><!-- \u2028 <script>", path=str(tmp_path / "p.html"))
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)\s*=|url\(|@import|fetch\(|XMLHttpRequest|WebSocket|import\(""", text)
    assert re.sub(r"http://www\.w3\.org/2000/svg", "", text).count("://") == 0
    assert text.count("<script") == text.count("</script>") == 2
    assert "</script><!-- " in str(data_of(path))
    assert not re.search(r"@(TITLE|STYLE|DATA|SCRIPT)@", text)
    assert "prefers-color-scheme: dark" in text and "prefers-reduced-motion" in text


def test_its_parts_are_package_data():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["tracer"]
    for folder in ("report", "steps_page"):
        assert f"{folder}/assets/*" in listed
        assert sorted((ROOT / "tracer" / folder / "assets").iterdir())


def test_what_the_call_raises_is_shown(tmp_path):
    def f(x):
        y = x * 2
        raise ValueError(f"no {len(y)}")

    data = shown(tmp_path, f, X)
    assert data["raised"] == "ValueError: no 4" and data["calls"] == [] and data["stops"]


def test_a_generator_is_run_to_its_end(tmp_path):
    def gen(x):
        yield x + 1
        yield x * 2

    data = shown(tmp_path, gen, X)
    names = [node["name"] for capture in data["captures"] for node in capture["nodes"]]
    assert {"add", "mul"} <= set(names)


def test_a_long_capture_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("tracer.steps_page.Recorder", lambda: tracer.steps_page.recording.Recorder(limit=20))
    data = shown(tmp_path, stepped, X, W, 4)
    assert data["truncated"] and len([s for s in data["stops"] if s["k"] == "step"]) <= 20
    assert [stop["k"] for stop in data["stops"]].count("end") == 2 and len(data["calls"]) == 2


def test_without_install_there_is_nothing_to_see(tmp_path):
    tracer.uninstall()
    with pytest.raises(RuntimeError, match=r"call tracer.install\(\)"):
        tracer.visualize(stepped, X, W, 2, path=tmp_path / "p.html")
    assert not list(tmp_path.iterdir())
