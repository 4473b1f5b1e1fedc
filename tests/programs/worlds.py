"""Run one program's text plain and compiled, each in a world of its own, and compare all that a program could see."""

from __future__ import annotations

import contextlib
import io
import linecache
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.comparing import Comparison, Different
from tests.support import Call, compare_calls, compile_with, observe

FILENAME = "<program>"


class World:
    """One execution of a program's text: a module with its own globals, classes and arguments, and its random state."""

    def __init__(self, code: types.CodeType) -> None:
        self.module = types.ModuleType("program")
        sys.modules["program"] = self.module  # dataclass() looks its class's module up
        exec(code, vars(self.module))
        self.arguments = self.module.calls()
        self.entry = self.module.program
        self.rng: tuple[Any, Any] = (torch.Generator().manual_seed(0).get_state(), random.Random(0).getstate())

    @property
    def state(self) -> dict[str, Any]:
        """The globals, attributes of classes among them, and the arguments of all calls."""
        found = {name: value for name, value in vars(self.module).items()
                 if not name.startswith("__") and not isinstance(value, (types.ModuleType, types.FunctionType))}
        classes = {f"{name}.{key}": value for name, owner in found.items() if isinstance(owner, type)
                   for key, value in vars(owner).items() if isinstance(value, (int, str))}
        return {"arguments": self.arguments, "globals": found, "classes": classes}

    def close(self) -> None:
        """Functions hold their globals, which hold them: without this only the collector would free them."""
        with contextlib.redirect_stdout(io.StringIO()):
            for generator in getattr(self.module, "PENDING", ()):  # unfinished, it would run when its globals are gone
                with contextlib.suppress(Exception):
                    generator.close()
        vars(self.module).clear()
        self.arguments.clear()

    def call(self, i: int) -> Call:
        outer = torch.get_rng_state(), random.getstate()
        torch.set_rng_state(self.rng[0])
        random.setstate(self.rng[1])
        grad = torch.is_grad_enabled()
        try:
            drive = getattr(self.module, "drive", None)
            done = observe(lambda: drive(self.entry, *self.arguments[i]) if drive else self.entry(*self.arguments[i]),
                           backward=True)
        finally:
            torch.set_grad_enabled(grad)
            self.rng = torch.get_rng_state(), random.getstate()
            torch.set_rng_state(outer[0])
            random.setstate(outer[1])
        return done


def compare(
    source: str,
    *,
    compiler: Callable[..., Any] = compile_with,
    tolerance: tuple[float, float] | None = None,
    backend: Any = "eager",
    **options: Any,
) -> list[Call]:
    """Raise Different unless all of the program's calls go alike; returns what plain Python did."""
    linecache.cache[FILENAME] = len(source), None, source.splitlines(True), FILENAME
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a program may hold what Python warns of
        code = compile(source, FILENAME, "exec")
        plain, compiled = World(code), World(code)
        try:
            compiled.entry = compiler(compiled.entry, backend=backend, **options)
            return [*in_lockstep(plain, compiled, Comparison.within(tolerance))]
        finally:
            plain.close()
            compiled.close()


def in_lockstep(plain: World, compiled: World, comparison: Comparison) -> Iterator[Call]:
    for i in range(len(plain.arguments)):
        expected, found = plain.call(i), compiled.call(i)
        try:
            compare_calls(comparison, f"call {i + 1}", expected, found)
            comparison.same(plain.state, compiled.state, f"call {i + 1}: state")
        except RecursionError as error:
            raise Different(f"call {i + 1}: too deep to compare") from error
        yield expected
