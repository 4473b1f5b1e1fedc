"""Each model in a process of its own, with a limit of time and of memory.

The children are forked from a process that has imported what they need and has compiled a tiny model, so that none pays
for it again; it runs one thread only, and nothing of one model is seen by the next.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .entry import Entry
from .measure import measure, warm_up

#: What all models of a family share.
IMPORTS = {
    "transformers": ("transformers.modeling_utils", "transformers.generation.utils", "transformers.cache_utils"),
    "timm": ("timm",), "torchvision": ("torchvision.models",),
}


@dataclass(frozen=True)
class Orders:
    """What is measured of each model, and what it may use."""

    modes: list[str]
    sides: list[str]
    seconds: float
    gibibytes: float


@dataclass(frozen=True)
class Child:
    entry: Entry
    process: int
    folder: Path
    started: float

    def found(self, error: str | None) -> dict[str, Any]:
        """What it measured; with `error` if it did not come to its end."""
        path, name = self.folder / "found.json", self.entry.name
        text = path.read_text("utf-8") if path.exists() else ""
        row = json.loads(text) if text else {"name": name, "family": self.entry.family, "modes": {}}
        printed = (self.folder / "printed").read_text("utf-8", errors="replace")[-3000:]
        return {**row, "error": None if error is None else f"{error}\n{printed}",
                "seconds": time.monotonic() - self.started}


def prepare(families: Iterable[str], sides: list[str]) -> None:
    """Before the first child: import, compile something small, and keep the collector from what is there."""
    warnings.simplefilter("ignore")
    for family in families:
        for name in IMPORTS[family]:
            importlib.import_module(name)
    warm_up(sides)
    gc.collect()
    gc.freeze()


def run_each(entries: list[Entry], jobs: int, orders: Orders, done: Callable[[dict[str, Any]], None]) -> None:
    """`jobs` at a time; `done` is told of each as it ends."""
    waiting, running = list(entries), list[Child]()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    running.append(start(waiting.pop(0), orders, Path(scratch)))
                time.sleep(0.02)
                for child in list(running):
                    error = ending(child, orders)
                    if error is not None:
                        running.remove(child)
                        done(child.found(error or None))
        finally:
            for child in running:
                os.kill(child.process, signal.SIGKILL)
                os.waitpid(child.process, 0)


def ending(child: Child, orders: Orders) -> str | None:
    """None while it runs, "" if it ended well, else what happened."""
    process, status = os.waitpid(child.process, os.WNOHANG)
    if process:
        code = os.waitstatus_to_exitcode(status)
        return "" if code == 0 else f"exit status {code}"
    if time.monotonic() - child.started < orders.seconds:
        return None
    os.kill(child.process, signal.SIGKILL)
    os.waitpid(child.process, 0)
    return f"not done after {orders.seconds:g} s"


def start(entry: Entry, orders: Orders, scratch: Path) -> Child:
    folder = Path(tempfile.mkdtemp(dir=scratch))
    sys.stdout.flush()
    sys.stderr.flush()
    started = time.monotonic()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            output = os.open(folder / "printed", os.O_CREAT | os.O_WRONLY)
            os.dup2(output, 1)
            os.dup2(output, 2)
            if orders.gibibytes:
                limit = int(orders.gibibytes * 2**30)
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            measure(entry, orders.modes, orders.sides, folder / "found.json")
            code = 0
        except BaseException:  # the child ends here whatever happened, never in what its parent was doing
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return Child(entry, process, folder, started)
