"""From what was measured to a table, a CSV file and the lines that sum it up."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from timing import shown, table

MODES = ("inference", "training")
COLUMNS = ("agrees", "agreement", "graphs", "first_graphs", "recompiled", "operators", "capture", "error")


def one_graph(side: dict[str, Any] | None) -> bool:
    """The first call compiled one graph, and nothing broke."""
    return bool(side and side.get("first_graphs") == 1 and not side["breaks"] and not side["troubles"])


def agrees(side: dict[str, Any] | None) -> bool:
    return bool(side and side.get("agrees"))


def in_short(row: dict[str, Any]) -> str:
    """One model, for the progress bar."""
    modes = [mode for mode in row["modes"].values() if "ours" in mode]
    good = all(agrees(m["ours"]) and one_graph(m["ours"]) for m in modes) and modes and not row["error"]
    return f"{row['name']} {'ok' if good else 'NOT OK'}"


def measured(rows: Sequence[dict[str, Any]], mode: str) -> list[tuple[str, dict[str, Any]]]:
    """The models that eager can run in this mode."""
    return [(row["name"], row["modes"][mode]) for row in rows
            if mode in row["modes"] and "error" not in row["modes"][mode].get("eager", {"error": ""})]


def side_cells(side: dict[str, Any] | None) -> list[str]:
    """agreement, graphs (+ those of later calls), breaks, operators, capture"""
    if side is None or "graphs" not in side:
        return ["-"] * 5
    text = side.get("agreement", "raises " + side.get("error", "").split(":")[0])
    later = f"+{side['recompiled']}" if side.get("recompiled") else ""
    breaks = sum(row["count"] for row in side["breaks"])
    captured = f"{side['capture']:.2f}" if "capture" in side else "-"
    trouble = "!" if side["troubles"] else ""
    return [text[:24] + trouble, f"{side.get('first_graphs', side['graphs'])}{later}", str(breaks),
            str(side["operators"]), captured]


def cells(name: str, mode: str, row: dict[str, Any]) -> list[str]:
    call = row.get("call", {})
    times = [shown(call[side]) if side in call else "-" for side in ("ours", "theirs")]
    ours, theirs = side_cells(row.get("ours")), side_cells(row.get("theirs"))
    return [f"{name.split('/', 1)[0][:5]}/{name.split('/', 1)[1][:26]}", mode[:5], *ours, times[0], *theirs, times[1]]


def text(rows: Sequence[dict[str, Any]]) -> str:
    heads = ["model", "mode", "ours", "graphs", "breaks", "ops", "s", "call",
             "torch.compile", "graphs", "breaks", "ops", "s", "call"]
    lines = [cells(row["name"], mode, row["modes"][mode]) for row in rows for mode in MODES if mode in row["modes"]]
    parts = [table(heads, lines), "", f"Python {sys.version.split()[0]}, {versions()}"]
    parts += [f"{row['name']}: {row['error'].splitlines()[0]}" for row in rows if row["error"]]
    for mode in MODES:
        found = measured(rows, mode)
        if found:
            parts += ["", *summary(mode, found)]
    return "\n".join(parts)


def versions() -> str:
    return ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "transformers", "timm", "torchvision"))


def summary(mode: str, found: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    lines = [f"{mode}: {len(found)} models"]
    compared = any("theirs" in row for _, row in found)
    for what, test in (("agree with eager", agrees), ("equal bit for bit", is_equal), ("are one graph", one_graph)):
        ours, theirs = (sum(test(row.get(side)) for _, row in found) for side in ("ours", "theirs"))
        lines.append(f"  {what}: torchgraft {ours}" + (f", torch.compile {theirs}" if compared else ""))
    trouble = [name for name, row in found if row.get("ours", {}).get("troubles")]
    lines.append(f"  errors inside torchgraft, or a fall back to plain: {len(trouble)} {' '.join(trouble)}".rstrip())
    return lines + (beside(found) if compared else [])


def beside(found: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    """The lines that compare the two."""
    lines = []
    for what, test in (("one graph", one_graph), ("agreement", agrees)):
        for one, other in (("theirs", "ours"), ("ours", "theirs")):
            names = [name for name, row in found if test(row.get(one)) and not test(row.get(other))]
            who = "torch.compile, not torchgraft" if one == "theirs" else "torchgraft, not torch.compile"
            lines.append(f"  {what} for {who}: {len(names)} {' '.join(names)}".rstrip())
    both = [row for _, row in found if "capture" in row.get("ours", {}) and "capture" in row.get("theirs", {})]
    seconds = [sum(row[side]["capture"] for row in both) for side in ("ours", "theirs")]
    lines.append(f"  capture of {len(both)} models: torchgraft {seconds[0]:.1f} s, torch.compile {seconds[1]:.1f} s"
                 + (f", ratio {seconds[0] / seconds[1]:.2f}" if seconds[1] else ""))
    timed = [(name, row["call"]) for name, row in found if "ours" in row.get("call", {})]
    slower = [name for name, call in timed if call["ours"] >= call["theirs"]]
    lines.append(f"  a call costs less with torchgraft: {len(timed) - len(slower)} of {len(timed)}"
                 + (f", not {' '.join(slower)}" if slower else ""))
    return lines


def is_equal(side: dict[str, Any] | None) -> bool:
    return bool(side and side.get("agreement") == "equal")


def write_csv(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """One line for each model and mode."""
    heads = ["model", "mode", "eager_seconds", *(f"{side}_{column}" for side in ("ours", "theirs")
                                                 for column in (*COLUMNS, "breaks", "call"))]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        for row in rows:
            for mode, found in row["modes"].items():
                line = [row["name"], mode, found.get("eager", {}).get("seconds", "")]
                for name in ("ours", "theirs"):
                    side = found.get(name, {})
                    line += [str(side.get(column, "")).split("\n")[0] for column in COLUMNS]
                    line.append("; ".join(f"{b['count']} {b['title']}" for b in side.get("breaks", ())))
                    line.append(found.get("call", {}).get(name, ""))
                writer.writerow(line)


def causes(rows: Sequence[dict[str, Any]]) -> str:
    """Why models are not one graph or do not agree, the cause that hits most models first, as Markdown."""
    hit: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        if row["error"]:
            hit["the process: " + row["error"].split("\n")[0]][row["name"]] = row["error"]
        for mode, found in row["modes"].items():
            for cause, detail in troubles_of(found.get("ours", {})):
                hit[cause].setdefault(row["name"], f"{mode}: {detail}")
            if "error" in found.get("eager", {}):
                hit["eager itself"][row["name"]] = f"{mode}: {found['eager']['error']}"
    lines = ["# What keeps models from being one graph, or from agreeing", ""]
    for cause, models in sorted(hit.items(), key=lambda item: -len(item[1])):
        lines += [f"## {len(models)} models: {cause}", "", " ".join(models), "", "```"]
        lines += [f"{name}\n  {detail}" for name, detail in list(models.items())[:3]]
        lines += ["```", ""]
    return "\n".join(lines)


def troubles_of(side: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for row in side.get("breaks", ()):
        lines = row["line"].split(" < ")
        where = lines[0].rsplit("/", 1)[-1].split(" in ")
        cause = f"break: {row['title']} at {where[0]} in {where[-1].rsplit('.', 1)[-1]}"
        found.append((cause, f"{row['details']}\n  at " + "\n     ".join(lines)))
    for text in side.get("troubles", ()):
        last = text.strip().split("\n")[-1]
        if last.split(" ")[-1] not in ("fallbacks",):
            found.append((f"inside: {last[:160]}", text))
    if "error" in side:
        found.append((f"raises {side['error'][:120]}".split("\n")[0], side["error"]))
    elif not side.get("agrees", True):
        found.append(("differs from eager", side["agreement"]))
    if not found and side and (side["first_graphs"] != 1 or side["recompiled"]):
        found.append((f"{side['first_graphs']}+{side['recompiled']} graphs without a break", ""))
    return found
