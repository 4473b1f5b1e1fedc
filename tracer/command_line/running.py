"""A program as `python program.py` runs it: its `__main__`, arguments, path, output, traceback and exit code."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import os
import signal
import sys
from collections.abc import Callable
from types import CodeType, ModuleType, TracebackType
from typing import Any

from .loading import Wrong

#: Told of the program's code before it runs.
Ready = Callable[[CodeType], None]


def script(path: str) -> tuple[CodeType, ModuleType]:
    """The code of a file and a `__main__` for it; `sys.path` begins with its folder."""
    if os.path.isdir(path):
        raise Wrong(f"{path!r} is a folder: name its file, or a module with -m")
    full = os.path.abspath(path)
    try:
        with io.open_code(full) as file:
            source = file.read()
    except OSError as error:
        raise Wrong(f"cannot read {path!r}: {error.strerror}") from error
    _begin_path_with(os.path.dirname(os.path.realpath(path)))
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=full, __builtins__=builtins, __cached__=None, __spec__=None,
        __loader__=importlib.machinery.SourceFileLoader("__main__", full),
    )  # fmt: skip
    sys.argv[0] = path
    return compile(source, full, "exec", dont_inherit=True), main


def _begin_path_with(folder: str) -> None:
    if not sys.flags.safe_path:  # else there is no such first item
        sys.path[0] = folder


def module(name: str) -> tuple[CodeType, ModuleType]:
    """The same for a module or package, as `python -m` finds it."""
    _begin_path_with(os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        raise Wrong(f"there is no module {name!r}: {error}") from error
    loader: Any = None if spec is None else spec.loader
    code = loader.get_code(spec.name) if spec is not None and hasattr(loader, "get_code") else None
    if spec is None or code is None:
        raise Wrong(f"there is no module {name!r} that can be run: a package needs a __main__.py")
    main = ModuleType("__main__", code.co_consts[0] if code.co_consts and type(code.co_consts[0]) is str else None)
    main.__dict__.update(
        __file__=spec.origin, __builtins__=builtins, __cached__=spec.cached, __spec__=spec, __loader__=loader,
        __package__=spec.parent,
    )  # fmt: skip
    sys.argv[0] = spec.origin or name
    return code, main


def execute(code: CodeType, main: ModuleType, at_end: Callable[[], None]) -> int:
    """Run it and give its exit code. `at_end` is called when it is over, however it ends."""
    sys.modules["__main__"] = main
    if "__mp_main__" in sys.modules:  # multiprocessing's name of it, set when that was imported
        sys.modules["__mp_main__"] = main
    try:
        try:
            exec(code, main.__dict__)
        finally:
            _flush()
            at_end()
    except SystemExit as end:
        return _exit_code(end)
    except BaseException as error:
        error.__traceback__ = _from(code, error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):  # as Python ends, so that a shell sees why
            _flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
        return 1
    return 0


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return int(end.code or 0)
    print(end.code, file=sys.stderr)
    return 1


def _from(code: CodeType, traceback: TracebackType | None) -> TracebackType | None:
    """Without the frames that ran the program."""
    found = traceback
    while found is not None and found.tb_frame.f_code is not code:
        found = found.tb_next
    return found if found is not None else traceback


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
