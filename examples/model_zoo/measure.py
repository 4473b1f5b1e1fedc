"""What is measured on one model, in the child process that `children.py` starts for it.

For each mode, eager and then both sides get a fresh model each, equal to the others', and call it three times, with the
same seeds. What a process does only once (imports, tables, the first FX graph) is paid by a tiny model beforehand, and
the side that comes first changes from model to model and from mode to mode.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import interleaved

import tracer

from .comparing import Outcome, agreement, flat, loss_of
from .entry import Built, Entry, seed
from .sides import Ours, Side, Theirs

CALLS = 3
SIDES: dict[str, type[Ours] | type[Theirs]] = {"ours": Ours, "theirs": Theirs}


def measure(entry: Entry, modes: list[str], sides: list[str], path: Path) -> None:
    """Everything about one model; what is known so far is in the file even if the process is ended."""
    torch.set_num_threads(1)  # makes torch's pool of threads anew, which a fork leaves behind, before autograd needs it
    found: dict[str, Any] = {"name": entry.name, "family": entry.family, "modes": {}}
    for number, mode in enumerate(modes):
        if mode == "training" and not entry.trains:
            continue
        row: dict[str, Any] = {}
        found["modes"][mode] = row
        names = list(sides)
        if (zlib.crc32(entry.name.encode()) + number) % 2:
            names.reverse()
        with torch.set_grad_enabled(mode == "training"):
            measure_mode(entry, mode == "training", names, row, lambda: path.write_text(json.dumps(found)))
    path.write_text(json.dumps(found))


def warm_up(sides: list[str]) -> None:
    """What a process needs once: one thread, and both sides in use. No backward: a child could run none after that."""
    torch.set_num_threads(1)
    tracer.install()

    def build() -> Built:
        layers = [torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.1)]
        return Built(torch.nn.Sequential(*layers), {"args": (torch.randn(2, 4),)})

    small = Entry("warm-up", "", build)
    for side in map(SIDES.__getitem__, sides):
        for train in (False, True):
            with torch.set_grad_enabled(train):
                call, model = small.make(train)
                side(model)
                for _ in range(CALLS):
                    call()


def measure_mode(entry: Entry, train: bool, names: list[str], row: dict[str, Any], save: Callable[[], Any]) -> None:
    call, model = entry.make(train)
    try:
        expected, seconds = called(call, model, train)
    except Exception as error:  # the model itself can't do this, so there is nothing to agree with
        row["eager"] = {"error": told(error)}
        return
    row["eager"] = {"seconds": min(seconds)}
    row["first"] = names[0]
    ready: dict[str, tuple[Side, Callable[[], Any]]] = {}
    for name in names:
        call, model = entry.make(train)
        side = SIDES[name](model)
        row[name] = {}
        save()
        one_side(side, call, train, expected, min(seconds), row[name])
        if "error" not in row[name]:
            ready[name] = side, call
        save()
    if len(ready) == 2:
        row["call"] = call_seconds(ready)


def one_side(
    side: Side, call: Callable[[], Any], train: bool, expected: list[Outcome], eager: float, row: dict[str, Any]
) -> None:
    after: list[int] = []
    try:
        outcomes, seconds = called(call, side.model, train, lambda: after.append(side.backend.graphs))
    except Exception as error:
        row["error"] = told(error)
        outcomes, seconds = [], []
    row.update(graphs=side.backend.graphs, operators=side.backend.operators, breaks=side.breaks())
    row["troubles"] = side.troubles()
    if outcomes:
        found = agreement(expected, outcomes)
        row.update(agreement=found.text, agrees=found.agrees, first_graphs=after[0], capture=seconds[0] - eager,
                   recompiled=after[-1] - after[0])


def called(
    call: Callable[[], Any], model: torch.nn.Module, train: bool, between: Callable[[], Any] = lambda: None
) -> tuple[list[Outcome], list[float]]:
    """What some calls left, and the seconds of each (without backward), of one core, whatever else the machine does."""
    outcomes, seconds = [], []
    for number in range(CALLS):
        seed(number)
        gc.collect()
        start = time.process_time()
        result = call()
        seconds.append(time.process_time() - start)
        between()
        gradients: dict[str, torch.Tensor | None] = {}
        if train:
            loss = loss_of(result)
            if loss is None:
                raise ValueError("nothing in the result has a gradient")
            loss.backward()
            gradients = {name: p.grad for name, p in model.named_parameters()}
            model.zero_grad(set_to_none=True)
        buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
        outcomes.append(Outcome(list(flat(result)), gradients, buffers))
    return outcomes, seconds


def call_seconds(ready: dict[str, tuple[Side, Callable[[], Any]]]) -> dict[str, Any]:
    """One call of each with graphs that cost nothing, or why there is no such call."""
    for side, _ in ready.values():
        side.backend.constant = True
    before = {name: side.backend.graphs for name, (side, _) in ready.items()}
    try:
        for _, call in ready.values():
            call(), call()
        times = interleaved({name: call for name, (_, call) in ready.items()}, rounds=40, seconds=0.001)
    except Exception as error:  # between graphs a model may look at values, and these are all zero
        return {"error": told(error)}
    again = [name for name, (side, _) in ready.items() if side.backend.graphs != before[name]]
    # the lower quartile: what else runs on the machine only adds, and to both
    quartiles = {name: statistics.quantiles(found, n=4)[0] for name, found in times.items()}
    return {**quartiles, "recompiled": again}


def told(error: Exception) -> str:
    lines = traceback.format_exception(error)
    return f"{type(error).__name__}: {str(error)[:1500]}\n{''.join(lines[-6:])[-3000:]}"
