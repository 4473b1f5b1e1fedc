"""Modules that are imported later: their code is seen before it runs, for much of it may run at once.

A finder at the head of `sys.meta_path` asks the others and changes nothing but one attribute of the loader's instance,
which goes as soon as it was used: whoever looks at a module finds the loader, spec and traceback that it always had.
"""

from __future__ import annotations

import importlib.machinery
import sys
import threading
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

#: Told of a module's code before it runs: name, file, code.
SeenCode = Callable[[str, str | None, CodeType], None]
#: Told of a module that has run, and whose code could not be had.
SeenModule = Callable[[ModuleType], None]

_plain_exec: Any = importlib.machinery.SourceFileLoader.exec_module


class Finder:
    """The import hook. It finds nothing itself."""

    def __init__(self, wants: Callable[[str], bool], seen_code: SeenCode, seen_module: SeenModule) -> None:
        self._wants, self._seen_code, self._seen_module = wants, seen_code, seen_module
        self._finding = threading.local()
        self._awaited: set[str] = set()

    def install(self) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._wants = lambda name: False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not self._wants(name):
            return None
        finding: set[str] = self._finding.__dict__.setdefault("names", set())
        if name in finding:  # asked by another finder of this kind
            return None
        finding.add(name)
        try:
            spec = self._ask_others(name, path, target)
        finally:
            finding.discard(name)
        if spec is not None and spec.loader is not None:
            self._await(spec)
        return spec

    def _ask_others(self, name: str, path: Any, target: Any) -> importlib.machinery.ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                return spec
        return None

    def _await(self, spec: importlib.machinery.ModuleSpec) -> None:
        loader: Any = spec.loader
        if not hasattr(loader, "__dict__") or isinstance(loader, type):
            return  # builtin and frozen modules have no Python functions of theirs
        if getattr(type(loader), "exec_module", None) is _plain_exec:
            _once(loader, "get_code", lambda code, name: self._has_code(spec, code, name))
        elif not isinstance(loader, importlib.machinery.ExtensionFileLoader) and hasattr(loader, "exec_module"):
            self._awaited.add(spec.name)
            if "exec_module" not in vars(loader):
                _after(loader, self._has_run)

    def _has_code(self, spec: importlib.machinery.ModuleSpec, code: CodeType | None, name: str) -> None:
        if code is not None:
            self._seen_code(name, spec.origin, code)

    def _has_run(self, module: ModuleType) -> None:
        if module.__name__ in self._awaited:
            self._awaited.discard(module.__name__)
            self._seen_module(module)


def _once(loader: Any, name: str, tell: Callable[[Any, str], None]) -> None:
    """The next call of this method of a loader is told of, with its result."""

    def method(fullname: str) -> Any:
        vars(loader).pop(name, None)
        result = getattr(loader, name)(fullname)
        tell(result, fullname)
        return result

    vars(loader)[name] = method


def _after(loader: Any, tell: Callable[[ModuleType], None]) -> None:
    """Tell of every module that a loader has run: it may serve many."""
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        tell(module)

    vars(loader)["exec_module"] = exec_module
