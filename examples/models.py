"""Real models, captured by torchgraft and by torch.compile: do they agree with eager, are they one graph, at what cost?

The models come from transformers, timm and torchvision: built from their configs, small, with random weights, nothing
is downloaded. Each runs in a process of its own, with a limit of time and of memory, in inference and (`--no-train`
leaves that out) in training with backward. The backend of both sides runs the graph as it is, so results, gradients
and buffers should equal eager's bit for bit; for the cost of a call it returns ready tensors.

    python examples/models.py                                  # all of them
    python examples/models.py --family timm --only resnet      # those of timm with "resnet" in their names
    python examples/models.py --list

The side that is captured first changes from model to model, and both have compiled a tiny model before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent), str(HERE / "benchmarks")]

from model_zoo import children, report  # noqa: E402
from model_zoo.catalog import FAMILIES, all_entries  # noqa: E402
from model_zoo.entry import Entry  # noqa: E402
from tqdm import tqdm  # noqa: E402


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="those with one of these in their names")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--train", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--ours-only", action="store_true", help="without torch.compile; quicker")
    parser.add_argument("--list", action="store_true", help="only the names")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1; more disturb the times)")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one model (default: 120)")
    parser.add_argument("--memory", type=float, default=12, help="GiB for one model (default: 12; 0: no limit)")
    parser.add_argument("--csv", type=Path, help="write the table there, with all that was found")
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--why", type=Path, help="write what broke and what went wrong there, by cause")
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace) -> list[Entry]:
    """A name that is a model's stands for this model alone."""
    entries = all_entries()
    wanted = options.only or [""]
    return [
        entry for name, entry in entries.items()
        if options.family in (None, entry.family)
        and any(text == name or (text not in entries and text in name) for text in wanted)
    ]


def run_all(entries: list[Entry], options: argparse.Namespace) -> list[dict[str, Any]]:
    os.environ.pop("TORCHGRAFT_STRICT", None)  # an error inside is counted, and the model goes on
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    found: dict[str, dict[str, Any]] = {}
    tqdm.monitor_interval = 0  # a process that forks has one thread
    sides = ["ours"] if options.ours_only else ["ours", "theirs"]
    children.prepare(sorted({entry.family for entry in entries}), sides)
    with tqdm(total=len(entries), unit="model") as bar:

        def done(row: dict[str, Any]) -> None:
            found[row["name"]] = row
            bar.set_postfix_str(report.in_short(row))
            bar.update()
            if options.json:
                options.json.write_text(json.dumps(list(found.values()), indent=1), "utf-8")

        modes = ["inference", *(["training"] if options.train else [])]
        children.run_each(
            entries, options.jobs, children.Orders(modes, sides, options.limit, options.memory), done
        )
    return [found[entry.name] for entry in entries]


def main() -> int:
    options = options_of()
    entries = chosen(options)
    if options.list:
        print("\n".join(entry.name for entry in entries))
        return 0
    if not entries:
        print("no model has such a name", file=sys.stderr)
        return 2
    rows = run_all(entries, options)
    print(report.text(rows))
    if options.csv:
        report.write_csv(rows, options.csv)
    if options.why:
        options.why.write_text(report.causes(rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
