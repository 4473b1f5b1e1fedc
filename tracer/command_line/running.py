"""A program as `python program.py` runs it: its `__main__`, arguments, path, output, traceback and exit code."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import linecache
import os
import pkgutil
import sys
import traceback as tracebacks
from collections.abc import Callable
from types import CodeType, ModuleType, TracebackType
from typing import Any

from .loading import Wrong

#: The code of a program, and a `__main__` for it.
Found = tuple[CodeType, ModuleType]
#: Tracebacks begin behind these: what finds and runs the program.
_OURS = (os.path.dirname(__file__), "<frozen importlib", "<frozen zipimport", "<frozen runpy")


# what Python runs -----------------------------------------------------------------------------------------------------
def script(path: str) -> Found:
    """A file; or a folder or zip file, whose `__main__` runs. `sys.path` begins with its folder, or with itself."""
    if pkgutil.get_importer(path) is not None:
        return _within(path)
    full = os.path.abspath(path)
    try:
        code = _code_of(full)
    except OSError as error:
        raise Wrong(f"cannot read {path!r}: {error.strerror}") from error
    _begin_path_with(os.path.dirname(os.path.realpath(path)))
    loader: Any = importlib.machinery.SourceFileLoader
    if path.endswith(".pyc"):
        loader = importlib.machinery.SourcelessFileLoader
    return code, _main(__file__=full, __cached__=None, __spec__=None, __loader__=loader("__main__", full))


def _code_of(path: str) -> CodeType:
    with io.open_code(path) as file:
        code: CodeType | None = pkgutil.read_code(file)
    if code is not None:
        return code
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _within(path: str) -> Found:
    full = os.path.join(os.getcwd(), path)
    importer: Any = pkgutil.get_importer(full)
    spec = importer.find_spec("__main__")
    code = None if spec is None else spec.loader.get_code("__main__")
    if code is None:
        raise Wrong(f"there is no __main__ in {path!r}: add a __main__.py, name a file, or a module with -m")
    _begin_path_with(full, always=True)
    return code, _main_of(spec, "")


def module(name: str) -> Found:
    """A module or package, as `python -m` finds it."""
    _begin_path_with(os.getcwd())
    program, sys.argv[0] = sys.argv[0], "-m"  # so much the packages around it see
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        if _from(None, error.__traceback__) is not None:
            raise  # by the packages around it
        raise Wrong(f"there is no module {name!r} that can be run: {error}") from error
    finally:
        sys.argv[0] = program
    loader: Any = None if spec is None else spec.loader
    code = loader.get_code(spec.name) if spec is not None and hasattr(loader, "get_code") else None
    if spec is None or code is None:
        raise Wrong(f"there is no module {name!r} that can be run: a package needs a __main__.py")
    sys.argv[0] = spec.origin or name
    return code, _main_of(spec, spec.parent)


def command(text: str) -> Found:
    """A program that was given as a string, as `python -c` takes it."""
    _begin_path_with("")
    sys.argv[0] = "-c"
    linecache.cache["<string>"] = len(text), None, text.splitlines(keepends=True), "<string>"
    code = compile(text, "<string>", "exec", dont_inherit=True)
    return code, _main(__spec__=None, __loader__=importlib.machinery.BuiltinImporter)


def stdin(_name: str) -> Found:
    """What comes from standard input, as `python -` takes it."""
    _begin_path_with("")
    code = compile(sys.stdin.buffer.read(), "<stdin>", "exec", dont_inherit=True)
    return code, _main(__spec__=None, __cached__=None, __file__="<stdin>",
                       __loader__=importlib.machinery.BuiltinImporter)  # fmt: skip


def _begin_path_with(folder: str, always: bool = False) -> None:
    if not sys.flags.safe_path:
        sys.path[0] = folder
    elif always:  # there is no such first item
        sys.path.insert(0, folder)


def _main_of(spec: Any, package: str | None) -> ModuleType:
    return _main(
        __file__=spec.origin, __cached__=spec.cached, __spec__=spec, __loader__=spec.loader, __package__=package
    )


def _main(**attributes: Any) -> ModuleType:
    main = ModuleType("__main__")
    if "__annotations__" in vars(sys.modules["__main__"]):  # it depends on the Python whether there are some at once
        attributes["__annotations__"] = {}
    main.__dict__.update(attributes, __builtins__=builtins)
    return main


#: By how a program is named.
FINDERS: dict[str, Callable[[str], Found]] = {"-m": module, "-c": command, "-": stdin, "": script}


# running it -----------------------------------------------------------------------------------------------------------
def execute(find: Callable[[], Found], ready: Callable[[CodeType], None]) -> int:
    """Run what `find` gives, and give its exit code. `ready` is told of its code before.

    What it raises is shown as Python shows it. An interrupt is raised on: Python ends by the signal then, once it has
    done what is to be done at its exit, so that a shell sees why.
    """
    code = None
    try:
        code, main = find()
        ready(code)
        sys.modules["__main__"] = main
        if "__mp_main__" in sys.modules:  # multiprocessing's name of it, set when that was imported
            sys.modules["__mp_main__"] = main
        exec(code, main.__dict__)
    except Wrong:
        raise
    except BaseException as error:
        return _ended_by(error, code)
    finally:
        _flush()
    return 0


def _ended_by(error: BaseException, code: CodeType | None) -> int:
    _flush()
    if isinstance(error, SystemExit):
        return _exit_code(error)
    error.__traceback__ = _from(code, error.__traceback__)
    exit_code = _shown(error)
    if isinstance(error, KeyboardInterrupt):
        sys.excepthook = lambda *shown: None
        raise error
    return exit_code


def _shown(error: BaseException) -> int:
    """By the program's own hook, which may fail itself."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as end:
        return _exit_code(end)
    except BaseException as of_hook:
        of_hook.__traceback__ = _from(None, of_hook.__traceback__)
        print("Error in sys.excepthook:", file=sys.stderr)
        tracebacks.print_exception(of_hook.with_traceback(of_hook.__traceback__), chain=False)
        print("\nOriginal exception was:", file=sys.stderr)
        tracebacks.print_exception(error)
    return 1


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return int(end.code or 0)
    print(end.code, file=sys.stderr)
    return 1


def _from(code: CodeType | None, traceback: TracebackType | None) -> TracebackType | None:
    """Without the frames that found and ran the program."""
    found = traceback
    while found is not None and found.tb_frame.f_code is not code:
        found = found.tb_next
    if found is not None:
        return found
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_OURS):
        traceback = traceback.tb_next
    return traceback


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
