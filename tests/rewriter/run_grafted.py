"""Run a test module of CPython with functions grafted in place; prints each test's outcome as JSON.

    python run_grafted.py plain|none|guard|identity|steps TEST_MODULE LIBRARY_MODULE...

A program of its own, so that a crash of the interpreter is one failing test, and what is grafted here stays here.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import json
import sys
import types
import unittest
from collections.abc import Iterator
from typing import Any

from tests.rewriter.grafting import (
    Maker,
    Places,
    enterable,
    graft_code,
    guarded_slot,
    identity_slot,
    none_slot,
    start_only,
    step_slot,
)

ran: list[int] = []
KINDS: dict[str, tuple[Places, Maker]] = {
    "none": (start_only, none_slot),
    "guard": (start_only, guarded_slot),
    "identity": (lambda decoded: sorted(enterable(decoded))[::3], identity_slot(keep=False)),
    "steps": (lambda decoded: sorted(enterable(decoded))[1::4], step_slot(6, ran)),
}


def functions(namespace: dict[str, Any], module: str, seen: set[int]) -> Iterator[types.FunctionType]:
    """The functions that a module defines: its own, and those of its classes, however wrapped."""
    for value in list(namespace.values()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, property):
            yield from functions({"get": value.fget, "set": value.fset, "del": value.fdel}, module, seen)
        while hasattr(value, "__wrapped__") and isinstance(value, types.FunctionType):
            value = value.__wrapped__
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType) and value.__module__ == module:
            yield value
        elif isinstance(value, type) and value.__module__ == module:
            yield from functions(dict(vars(value)), module, seen)


def graft_module(name: str, kind: str) -> int:
    places, make = KINDS[kind]
    count = 0
    for function in functions(vars(importlib.import_module(name)), name, set()):
        function.__code__ = graft_code(function.__code__, function.__globals__, places, make)
        count += 1
    return count


class Outcomes(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, str] = {}

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.outcomes[test.id()] = "ok"

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self.outcomes[test.id()] = f"error: {err[0].__name__}: {err[1]}"

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self.outcomes[test.id()] = f"failure: {err[1]}"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.outcomes[test.id()] = f"skip: {reason}"

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.outcomes[subtest.id()] = f"failure: {err[1]}"


def main(kind: str, test_module: str, *libraries: str) -> None:
    faulthandler.enable()
    module = importlib.import_module(test_module)
    grafted = sum(graft_module(name, kind) for name in libraries) if kind != "plain" else 0
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    outcomes = Outcomes()
    out, sys.stdout = sys.stdout, io.StringIO()
    try:
        suite.run(outcomes)
    finally:
        sys.stdout = out
    print(json.dumps({"grafted": grafted, "ran": len(ran), "outcomes": outcomes.outcomes}))


if __name__ == "__main__":
    main(*sys.argv[1:])
