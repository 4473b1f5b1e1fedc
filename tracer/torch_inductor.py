"""What is private of Inductor and used here, beside `torch_private`: its compiled graphs, and what it asks of its
installation in each process anew.

Before its cache answers, Inductor reads all files of torch and Triton, to be sure that the cached code is theirs: half
a second or more in each process. The keys that it makes of them are kept beside its cache, with sizes and times of all
these files, and given to it where no file has changed since.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

__all__ = ["InsteadOfCompiled", "compiled_below", "with_known_installation", "without_input_checks"]


# compiled graphs ------------------------------------------------------------------------------------------------------
#: more objects are never looked at
_LAYERS = 200


class InsteadOfCompiled:
    """What is called in the stead of a graph that Inductor compiled, and is found as that is."""

    def __init__(self, call: Callable[[list[Any]], Any]) -> None:
        self.current_callable = call
        self._boxed_call = True  # AOTAutograd hands it one list

    def __call__(self, inputs: list[Any]) -> Any:
        return self.current_callable(inputs)


def compiled_below(call: Callable[..., Any]) -> Any:
    """What Inductor compiled, below the layers around it: it has a `current_callable`, which takes a list of inputs.

    None where it isn't found, or where there is more than one (a forward and a backward).
    """
    compiled = getattr(sys.modules.get("torch._inductor.output_code"), "CompiledFxGraph", InsteadOfCompiled)
    found, seen, waiting = [], set[int](), [call]
    while waiting:
        layer = waiting.pop()
        if id(layer) in seen or len(seen) > _LAYERS:
            continue
        seen.add(id(layer))
        if isinstance(layer, (compiled, InsteadOfCompiled)):
            found.append(layer)
            continue
        cells = getattr(layer, "__closure__", None) or ()
        waiting += [inner for cell in cells if callable(inner := _content(cell))]
        names = ("__wrapped__", "__func__", "__self__", "func", "compiled_fn", "current_callable")
        waiting += [inner for name in names if callable(inner := getattr(layer, name, None))]
    return found[0] if len(found) == 1 and callable(getattr(found[0], "current_callable", None)) else None


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


#: checks of sizes and strides in the functions that Inductor writes
_CHECKS = ("assert_size_stride", "assert_size_stride_grouped")
#: in a longer function they weigh nothing
_LONG = 1_000


def without_input_checks(graph: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """The function that Inductor wrote, without its checks of the inputs' sizes and strides: guards asked for them.

    Those of results of operators stay. The function itself where it doesn't look as expected.
    """
    runner, plain = getattr(call, "__self__", None), getattr(call, "__func__", None)
    text = getattr(graph, "source_code", None)
    if not isinstance(plain, types.FunctionType) or plain.__name__ != "call" or not isinstance(text, str):
        return call
    lines = text.splitlines()
    first = plain.__code__.co_firstlineno - 1
    if first >= len(lines) or lines[first].strip() != "def call(self, args):":
        return call
    margin = len(lines[first]) - len(lines[first].lstrip())
    behind = (n for n in range(first + 1, len(lines)) if lines[n].strip() and not lines[n][: margin + 1].isspace())
    end = next(behind, len(lines))
    if end - first > _LONG:
        return call
    try:
        tree = ast.parse("\n".join(line[margin:] for line in lines[first:end]))
    except SyntaxError:
        return call
    [function] = tree.body
    assert isinstance(function, ast.FunctionDef)
    inputs = _unpacked(function)
    kept = [statement for statement in function.body if not _is_check_of(statement, inputs)]
    if len(kept) == len(function.body):
        return call
    function.body = kept
    ast.increment_lineno(tree, first)
    made: dict[str, Any] = {}
    exec(compile(tree, plain.__code__.co_filename, "exec"), plain.__globals__, made)
    return types.MethodType(made["call"], runner)


def _unpacked(function: ast.FunctionDef) -> set[str]:
    """The names of the inputs: `a, b = args`, or `[a, b]`, or one name alone."""
    names: set[str] = set()
    for statement in function.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name) and statement.value.id == "args":
            found = [node for target in statement.targets for node in ast.walk(target)]
            names |= {node.id for node in found if isinstance(node, ast.Name)}
    return names


def _is_check_of(statement: ast.stmt, inputs: set[str]) -> bool:
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args):
        return False
    called, checked = statement.value.func, statement.value.args[0]
    if not isinstance(called, ast.Name) or called.id not in _CHECKS:
        return False
    names = checked.elts if isinstance(checked, ast.Tuple) else [checked]
    return all(isinstance(name, ast.Name) and name.id in inputs for name in names)


# the installation -----------------------------------------------------------------------------------------------------
#: the functions of `torch._inductor.codecache` that make the keys, and the packages whose files these are made of
_KEYS = {"torch_key": "torch", "triton_key": "triton"}
_FILE = "torchgraft-installation.json"


def with_known_installation(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """Inductor, which is told in this process what it found out in an earlier one."""

    @functools.wraps(compiler, updated=())
    def compile_graph(*arguments: Any) -> Any:
        remember = _recall()
        result = compiler(*arguments)
        remember()
        return result

    return compile_graph


def _nothing() -> None:
    pass


#: by folder of the cache: what was done there in this process
_recalled: set[str] = set()


def _recall() -> Callable[[], None]:
    """Give torch the keys that are known; what is to be called once it has made the others itself."""
    if os.environ.get("TORCHINDUCTOR_FORCE_DISABLE_CACHES") == "1":
        return _nothing
    try:
        code_cache = importlib.import_module("torch._inductor.codecache")
        folder = code_cache.cache_dir()
    except (ImportError, AttributeError):
        return _nothing
    if folder in _recalled or not importlib.import_module("torch._inductor.config").fx_graph_cache:
        return _nothing
    _recalled.add(folder)
    known, found = _read(Path(folder, _FILE)), dict[str, tuple[str, Callable[[], Any]]]()
    for name, package in _KEYS.items():
        make = getattr(code_cache, name, None)
        files = _signature(package)
        if make is None or files is None or not hasattr(make, "set"):
            continue  # this torch has no such key, or none that can be given
        kept = known.get(name)
        if isinstance(kept, list) and kept[0] == files:
            _give(make, kept)
        else:
            found[name] = files, make
    return functools.partial(_remember, Path(folder, _FILE), found) if found else _nothing


def _give(make: Any, kept: list[Any]) -> None:
    _, kind, text = kept
    try:
        make.set(bytes.fromhex(text) if kind == "bytes" else text)
    except RuntimeError:  # torch has made it already
        return


def _remember(file: Path, made: dict[str, tuple[str, Callable[[], Any]]]) -> None:
    known = _read(file)
    for name, (files, make) in made.items():
        key = make()
        known[name] = [files, "bytes", key.hex()] if isinstance(key, bytes) else [files, "text", key]
    try:
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as written:
            json.dump(known, written)
        os.replace(written.name, file)
    except OSError:  # the folder cannot be written to: the next process finds out for itself
        return


def _read(file: Path) -> dict[str, Any]:
    try:
        known = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _signature(package: str) -> str | None:
    """Names, sizes and times of all files that a key may be made of. None where the package is not there."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    root = os.path.dirname(spec.origin)
    lines = [f"{sys.version} {torch.__version__} {root}", *sorted(_files(root))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


#: folders without code that goes into a key
_LEFT_OUT = frozenset(["include", "lib", "bin", "share", "test", "__pycache__"])


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name not in _LEFT_OUT:
                    yield from _files(entry.path)
            else:
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
