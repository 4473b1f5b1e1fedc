"""Layers that a test can see: which file may import which, private torch API, and how long files and functions are.

Run as a script it prints the report of sizes. Everything is read from the source text, imports inside functions
included; nothing is imported. Imports under `if TYPE_CHECKING` only name types in annotations and don't exist at run
time: they may point upwards.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

#: From the bottom up. A module may import those above its own line in this list, and those of its own line as long as
#: modules don't import each other in a circle. A name stands for the module or for the whole package.
LAYERS = [
    "rewriter",
    "tracer.breaks",
    "tracer.errors tracer.listener tracer.config tracer.log tracer.torch_private tracer.torch_symbols"
    " tracer.torch_inductor tracer.torch_replay tracer.torch_aot tracer.torch_dynamo"
    " tracer.originals tracer.signals tracer.numpy_names tracer.random_state",
    "tracer.sources tracer.holding tracer.native tracer.global_state tracer.function_fields"
    " tracer.dict_events tracer.watching",
    "tracer.guards tracer.guard_sources tracer.guard_values tracer.guard_writer tracer.guard_kinds tracer.guard_text"
    " tracer.watched_guards tracer.quick_writer tracer.refusals",
    "tracer.graph",
    "tracer.values",
    "tracer.interpreter",
    "tracer.text_names tracer.emit tracer.backends",
    "tracer.cache tracer.translate",
    "tracer.events",
    "tracer.discovery",
    "tracer.report",
    "tracer.api",
    "tracer.steps_page tracer.scanner",
    "tracer",
    "tracer.breaks_page",
    "tracer.command_line",
    "tracer.__main__",
]
REWRITER_MAY_IMPORT = {"bytecode", "rewriter", *sys.stdlib_module_names}
TRACER_MAY_IMPORT = {"torch", "tracer", "rewriter", "bytecode", *sys.stdlib_module_names}
#: NumPy may be missing: this module does without.
NUMPY = "tracer.numpy_names"
#: The modules that may touch torch's private parts.
PRIVATE_TORCH = (
    "tracer.torch_private",
    "tracer.torch_symbols",
    "tracer.torch_inductor",
    "tracer.torch_replay",
    "tracer.torch_aot",
    "tracer.torch_dynamo",
)

ADVISED_FILE, ADVISED_FUNCTION = 300, 40
FILE_LIMIT, FUNCTION_LIMIT = 600, 100


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    inside_function: bool
    typing_only: bool


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def library_files() -> list[Path]:
    return sorted(p for package in ("rewriter", "tracer") for p in (ROOT / package).rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports_of(path: Path) -> Iterator[Import]:
    """Every imported module, absolute; `from package import module` names the module where there is one."""

    def visit(node: ast.AST, inside: bool, typing: bool) -> Iterator[Import]:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for module in imported_modules(path, node):
                yield Import(module, node.lineno, inside, typing)
        inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                yield from visit(statement, inside, True)
            children: list[ast.AST] = [*node.orelse]
        else:
            children = [*ast.iter_child_nodes(node)]
        for child in children:
            yield from visit(child, inside, typing)

    yield from visit(parsed(path), False, False)


def imported_modules(path: Path, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        package = path.relative_to(ROOT).parts[:-1]
        base = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
    for alias in node.names:
        file = ROOT.joinpath(*base.split("."), alias.name)
        is_module = file.with_suffix(".py").exists() or (file / "__init__.py").exists()
        yield f"{base}.{alias.name}" if is_module else base


def layer_of(module: str) -> int:
    """The number of the module's layer; the longest name in LAYERS that covers it decides."""
    best, layer = "", -1
    for number, line in enumerate(LAYERS):
        for name in line.split():
            covers = module == name or (module.startswith(f"{name}.") and name != "tracer")
            if covers and len(name) > len(best):
                best, layer = name, number
    return layer


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_every_module_has_a_layer() -> None:
    missing = [str(p.relative_to(ROOT)) for p in library_files() if layer_of(module_name(p)) < 0]
    assert not missing, f"say in LAYERS where these stand: {missing}"


def test_imports_point_downwards() -> None:
    wrong = []
    for path in library_files():
        own = layer_of(module_name(path))
        for found in imports_of(path):
            ours = found.module.split(".")[0] in ("tracer", "rewriter") and not found.typing_only
            if ours and layer_of(found.module) > own:
                wrong.append(f"{where(path, found.line)} imports {found.module}, which stands higher")
    assert not wrong, "\n".join(wrong)


def test_no_circle() -> None:
    """Between the modules of one layer too: an order must exist in which every module comes after its imports."""
    files = {module_name(p): p for p in library_files()}
    needs = {name: {i.module for i in imports_of(path) if not i.typing_only} for name, path in files.items()}
    needs = {name: wanted & set(files) - {name} for name, wanted in needs.items()}
    while ready := [name for name, wanted in needs.items() if not wanted]:
        for name in ready:
            del needs[name]
        for wanted in needs.values():
            wanted.difference_update(ready)
    assert not needs, f"these import each other in a circle: {sorted(needs)}"


def test_foreign_imports() -> None:
    wrong = []
    for path in library_files():
        if module_name(path) == NUMPY:
            continue
        allowed = REWRITER_MAY_IMPORT if module_name(path).split(".")[0] == "rewriter" else TRACER_MAY_IMPORT
        wrong += [f"{where(path, i.line)} imports {i.module}"
                  for i in imports_of(path) if i.module.split(".")[0] not in allowed]
    assert not wrong, "\n".join(wrong)


def test_no_import_inside_a_function() -> None:
    wrong = [f"{where(path, i.line)} imports {i.module}"
             for path in library_files() for i in imports_of(path) if i.inside_function]
    assert not wrong, "\n".join(wrong)


def private_torch_uses(path: Path) -> Iterator[tuple[int, str]]:
    for found in imports_of(path):
        if found.module.startswith("torch._"):
            yield found.line, found.module
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            text = ast.unparse(node)
            if text.startswith("torch."):
                yield node.lineno, text


def test_private_torch_api_is_in_one_place() -> None:
    wrong = [f"{where(path, line)} uses {text}" for path in library_files() if module_name(path) not in PRIVATE_TORCH
             for line, text in private_torch_uses(path)]
    assert not wrong, "\n".join(wrong)


def functions_of(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, line and length of each function; the docstring and nested functions count."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def sizes(file_limit: int, function_limit: int) -> list[str]:
    """What is longer than these limits, longest first."""
    found = []
    for path in library_files():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > file_limit:
            found.append((lines, f"{path.relative_to(ROOT)}: {lines} lines"))
        for name, line, length in functions_of(path):
            if length > function_limit:
                found.append((length, f"{where(path, line)} {name}: {length} lines"))
    return [text for _, text in sorted(found, reverse=True)]


def test_nothing_is_far_too_long() -> None:
    assert not sizes(FILE_LIMIT, FUNCTION_LIMIT), f"split: {sizes(FILE_LIMIT, FUNCTION_LIMIT)}"


@pytest.mark.parametrize("package", ["rewriter", "tracer"])
def test_every_file_says_its_job(package: str) -> None:
    files = [p for p in (ROOT / package).rglob("*.py") if parsed(p).body]
    silent = [str(p.relative_to(ROOT)) for p in files if not ast.get_docstring(parsed(p))]
    assert not silent, f"no module docstring: {silent}"


def test_the_reader_of_imports_sees_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "tracer" / "values").mkdir(parents=True)
    for name in ("guards.py", "values/base.py", "values/__init__.py", "__init__.py"):
        (tmp_path / "tracer" / name).touch()
    path = tmp_path / "tracer" / "values" / "base.py"
    path.write_text("from __future__ import annotations\nfrom ..guards import Guard\nfrom .. import guards\n"
                    "from . import base\nif TYPE_CHECKING:\n    import tracer.api\nelse:\n    import one\n"
                    "def f():\n    try:\n        import torch._dynamo\n    except E: pass\n    return torch._C.x\n")
    assert [(i.module, i.inside_function, i.typing_only) for i in imports_of(path)][1:] == [
        ("tracer.guards", False, False), ("tracer.guards", False, False), ("tracer.values.base", False, False),
        ("tracer.api", False, True), ("one", False, False), ("torch._dynamo", True, False)]
    assert [text for _, text in private_torch_uses(path)] == ["torch._dynamo", "torch._C"]
    assert layer_of("tracer.values.base") > layer_of("tracer.guards") > layer_of("rewriter.graft") >= 0
    assert layer_of("tracer.unheard_of") == -1 and layer_of("tracer") > layer_of("tracer.api")


if __name__ == "__main__":
    report = sizes(ADVISED_FILE, ADVISED_FUNCTION)
    print(f"longer than {ADVISED_FILE} lines a file or {ADVISED_FUNCTION} a function: {len(report) or 'nothing'}")
    for text in report:
        print(f"  {text}")
