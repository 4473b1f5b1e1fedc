"""Makes a failing program smaller: drops statements, and unwraps blocks and expressions, while it still fails."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator


def reduce(text: str, fails: Callable[[str], bool], attempts: int = 500) -> str:
    """The smallest text found, with at most this many tries. `fails` must hold for the text itself."""
    while attempts > 0:
        for smaller in candidates(text):
            attempts -= 1
            if attempts < 0 or fails(smaller):
                break
        else:
            break
        if attempts < 0:
            break
        text = smaller
    return text


def candidates(text: str) -> Iterator[str]:
    """Each text that is one step smaller; large steps come first."""
    tree = ast.parse(text)
    seen = {ast.unparse(tree)}
    for count in (change(tree, None, kind) for kind in (drop, unwrap, simplify)):
        assert isinstance(count, int)
    for kind in (drop, unwrap, simplify):
        total = change(tree, None, kind)
        for number in range(total):
            smaller = copy.deepcopy(tree)
            change(smaller, number, kind)
            try:
                result = ast.unparse(ast.fix_missing_locations(smaller))
                compile(result, "<program>", "exec")
            except SyntaxError:  # a nonlocal, a break or a continue that lost what it belongs to
                continue
            if result not in seen:
                seen.add(result)
                yield result


Step = Callable[[list[ast.stmt], int], None]


def change(tree: ast.AST, number: int | None, kind: Callable[[ast.AST], Iterator[Callable[[], None]]]) -> int:
    """Do the change of this number; None only counts them."""
    count = 0
    for node in list(ast.walk(tree)):
        for apply in kind(node):
            if count == number:
                apply()
                return count
            count += 1
    return count


def drop(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Statements, handlers, decorators and whole else-blocks."""
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        if name != "body" and len(block) > 1:
            yield lambda block=block: block.clear()  # type: ignore[misc]
        for i, statement in enumerate(block):
            entry = isinstance(statement, ast.FunctionDef) and statement.name in ("program", "pool", "calls", "drive")
            if not entry and not (len(block) == 1 and isinstance(statement, ast.Pass)):
                yield lambda block=block, i=i, name=name: _drop(block, i, name)  # type: ignore[misc]


def _drop(block: list[ast.stmt], i: int, name: str) -> None:
    del block[i]
    if not block and name == "body":
        block.append(ast.Pass())


def unwrap(node: ast.AST) -> Iterator[Callable[[], None]]:
    """A block's body in place of the block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            for i, statement in enumerate(block):
                if isinstance(statement, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
                    yield lambda block=block, i=i, s=statement: block.__setitem__(slice(i, i + 1), s.body)  # type: ignore[misc]


def simplify(node: ast.AST) -> Iterator[Callable[[], None]]:
    """An expression becomes one of its parts; an argument or element is left out."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, (ast.BinOp, ast.Call, ast.IfExp, ast.UnaryOp, ast.Attribute, ast.Subscript, ast.BoolOp)):
            for part in ast.iter_child_nodes(value):
                if isinstance(part, ast.expr):
                    yield lambda name=name, part=part: setattr(node, name, part)  # type: ignore[misc]
        if isinstance(value, list) and value and isinstance(value[0], ast.expr):
            for i, item in enumerate(value):
                yield lambda value=value, i=i: value.__delitem__(i)  # type: ignore[misc]
                for part in ast.iter_child_nodes(item):
                    if isinstance(part, ast.expr):
                        yield lambda value=value, i=i, part=part: value.__setitem__(i, part)  # type: ignore[misc]
