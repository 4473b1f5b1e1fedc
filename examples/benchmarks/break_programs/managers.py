"""`with`: user managers, locks, files, torch's own, several and nested, with a break inside of each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .catalogue import length, matrix, program, several, two
from .loops import folder


class Timer:
    """A manager as users write them."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __enter__(self) -> Timer:
        self.log.append("enter")
        return self

    def __exit__(self, kind: type | None, error: object, traceback: object) -> bool:
        self.log.append("exit" if kind is None else kind.__name__)
        return kind is KeyError


@program("with a user's manager in a loop", several, breaks=1, iterations=length)
def user_manager(batches: list[Tensor], weight: Tensor) -> tuple[Tensor, list[str]]:
    log: list[str] = []
    total = torch.zeros(64)
    for batch in batches:
        with Timer(log) as timer:
            out = torch.tanh(batch @ weight)
            print("entries", len(timer.log))
            total = total + out.mean(0)
        total = total * 0.9
    return total.exp(), log


@program("a manager that swallows an exception", two, breaks=2, iterations=4)
def swallowing_manager(x: Tensor, weight: Tensor) -> tuple[Tensor, list[str]]:
    log: list[str] = []
    for i in range(4):
        x = torch.relu(x @ weight)
        with Timer(log):
            x = x - x.mean()
            print("inside", i)
            if i % 2:
                raise KeyError(i)
            x = x.sin()
        x = x / x.norm()
    return x.cos(), log


class Store:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.total = torch.zeros(64, 64)
        self.count = 0


@program("with a lock", lambda k, store: (store, *two(k)), state=Store, breaks=3, iterations=3)
def with_lock(store: Store, x: Tensor, weight: Tensor) -> Tensor:
    for _ in range(3):
        x = torch.sigmoid(x @ weight)
        with store.lock:
            store.total = store.total * 0.9 + x
            store.count += 1
            print("locked", store.lock.locked(), store.count)
            x = x - store.total.mean()
        x = x.tanh()
    return x + store.total


def file_and_two(k: int, where: Path) -> tuple[Any, ...]:
    return where / "out.txt", *two(k)


@program("with open(): the file is written inside", file_and_two, state=folder, breaks=1, iterations=3, around=4)
def with_file(path: Path, x: Tensor, weight: Tensor) -> Tensor:
    x = x - x.mean()
    with open(path, "w", encoding="utf-8") as file:
        for step in range(3):
            x = torch.tanh(x @ weight)
            x = x * 1.5 - x.amax(0) * 0.1
            file.write(f"{step}\n")
        x = x.exp()
    return x.sum(1)


@program("a break under torch.no_grad()", lambda k, model: (model, matrix()), state=lambda: nn.Linear(64, 64), breaks=1,
         iterations=3)
def under_no_grad(model: nn.Linear, x: Tensor) -> Tensor:
    for step in range(3):
        with torch.no_grad():
            hidden = torch.relu(model(x))
            print("step", step, hidden.requires_grad)
            hidden = hidden - hidden.mean()
        x = model(x + hidden) * 0.5
    return x.tanh()


@program("a break under autocast", lambda k, model: (model, matrix()), state=lambda: nn.Linear(64, 64), breaks=3,
         iterations=2)
def under_autocast(model: nn.Linear, x: Tensor) -> Tensor:
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = model(x).relu()
            print("dtype", hidden.dtype)
            hidden = hidden @ hidden.t()
            hidden = hidden - hidden.mean()
        x = torch.tanh(hidden.float() * 0.1)
    return x.detach()


@program("inside of torch.profiler, with named ranges", two, breaks=5, iterations=2, around=4)
def under_profiler(x: Tensor, weight: Tensor) -> tuple[Tensor, bool]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for step in range(2):
            with torch.profiler.record_function("forward"):
                x = torch.tanh(x @ weight)
                x = x - x.mean()
            print("step", step)
            with torch.profiler.record_function("scale"):
                x = x / x.std() * 0.5
    names = {event.name for event in profiler.events()}
    return x.sigmoid(), {"forward", "scale"} <= names


@contextlib.contextmanager
def scaled(x: Tensor, log: list[str]) -> Iterator[Tensor]:
    log.append("in")
    try:
        yield x * 2 - x.mean()
    finally:
        log.append("out")


@program("a contextlib manager with tensor work", two, breaks=5, iterations=3)
def generator_manager(x: Tensor, weight: Tensor) -> tuple[Tensor, list[str]]:
    log: list[str] = []
    for step in range(3):
        with scaled(x, log) as inner:
            inner = torch.tanh(inner @ weight)
            print("step", step)
            x = inner + x * 0.1
        x = x.cos()
    return x.exp(), log


@program("ExitStack with managers and callbacks", two, breaks=3, iterations=2, around=3)
def exit_stack(x: Tensor, weight: Tensor) -> tuple[Tensor, list[str]]:
    log: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(Timer(log))
        stack.callback(log.append, "callback")
        for step in range(2):
            stack.enter_context(Timer(log))
            x = torch.sin(x @ weight)
            print("step", step)
            x = x / (1 + x.abs().mean())
        x = x.exp()
    return x.tanh(), log


@program("several managers in one with, and nested", two, breaks=2, iterations=3)
def nested_managers(x: Tensor, weight: Tensor) -> tuple[Tensor, list[str]]:
    log: list[str] = []
    for step in range(3):
        with Timer(log), torch.no_grad(), contextlib.suppress(ZeroDivisionError):
            x = torch.relu(x @ weight)
            with Timer(log):
                x = x + 1
                print("inside", step)
                x = x.sqrt()
            x = x / x.norm()
            print("outside", 1 // (step % 2))
            x = x * 2
        x = x - 0.1
    return x.atan(), log
