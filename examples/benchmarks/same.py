"""Are two calls the same to whoever looks at results, arguments, output and exceptions? Exact, or nearly so."""

from __future__ import annotations

import io
import math
import traceback
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

#: Compared by `==`.
PLAIN = (bool, int, str, bytes, type(None), type, torch.dtype, torch.device, range)
#: Objects without anything to compare but their type.
OPAQUE = ("_thread.lock", "_asyncio.Future", "_asyncio.Task", "builtins.builtin_function_or_method")


class Comparison:
    """Two sides, walked side by side. An object of one side belongs to the same one of the other throughout."""

    def __init__(self, exact: bool, folder: Path) -> None:
        self.exact = exact
        #: tracebacks are compared as far as they lie in files of this folder
        self.folder = folder
        self._pairs: dict[int, object] = {}
        self._alive: list[object] = []

    def difference(self, one: Any, other: Any, path: str) -> str | None:
        """What is different first, or None."""
        if one is other and not isinstance(one, Tensor):
            return None
        if type(one) is not type(other):
            return f"{path}: {type(one).__name__} {one!r:.80} and {type(other).__name__} {other!r:.80}"
        if isinstance(one, float):
            near = math.isclose(one, other, rel_tol=1e-2, abs_tol=1e-2)
            return None if repr(one) == repr(other) or (near and not self.exact) else f"{path}: {one} and {other}"
        if isinstance(one, str) and not self.exact:
            return self._text(one, other, path)
        if isinstance(one, PLAIN):
            return None if one == other else f"{path}: {one!r:.200} and {other!r:.200}"
        if not isinstance(one, tuple):
            if id(one) in self._pairs:
                return None if self._pairs[id(one)] is other else f"{path}: another object than before"
            self._pairs[id(one)] = other
            self._alive += [one, other]
        return self._inside(one, other, path)

    def _text(self, one: str, other: str, path: str) -> str | None:
        """Text with numbers in it, which may differ a little."""
        words = [one.split(), other.split()]
        same = len(words[0]) == len(words[1]) and all(a == b or _close(a, b) for a, b in zip(*words, strict=True))
        return None if same else f"{path}: {one!r:.200} and {other!r:.200}"

    def _inside(self, one: Any, other: Any, path: str) -> str | None:
        if isinstance(one, Tensor):
            return self._tensors(one, other, path)
        if isinstance(one, (list, tuple, deque)):
            return self._parts([*enumerate(one)], [*enumerate(other)], path)
        if isinstance(one, dict):
            return self._parts([*one.items()], [*other.items()], path)
        if isinstance(one, set):
            return None if one == other else f"{path}: {one} and {other}"
        if isinstance(one, BaseException):
            return self._exceptions(one, other, path)
        if isinstance(one, Path):
            return self.difference(one.read_text("utf-8"), other.read_text("utf-8"), f"text of {path}")
        if isinstance(one, io.StringIO):
            return self.difference(one.getvalue(), other.getvalue(), f"text of {path}")
        name = f"{type(one).__module__}.{type(one).__qualname__}"
        if name in OPAQUE:
            return None
        if hasattr(one, "__dict__"):
            return self._parts([*vars(one).items()], [*vars(other).items()], path)
        raise TypeError(f"cannot compare {name} at {path}")

    def _parts(self, one: list[tuple[Any, Any]], other: list[tuple[Any, Any]], path: str) -> str | None:
        names, others = [k for k, _ in one], [k for k, _ in other]
        if names != others:
            return f"{path}: has {names} and {others}"
        return _first(self.difference(a, b, f"{path}[{k!r}]") for (k, a), (_, b) in zip(one, other, strict=True))

    def _tensors(self, one: Tensor, other: Tensor, path: str) -> str | None:
        facts = [(t.dtype, tuple(t.shape), t.device, t.requires_grad) for t in (one, other)]
        if facts[0] != facts[1] or (self.exact and one.stride() != other.stride()):
            return f"{path}: tensors {facts[0]} and {facts[1]}, strides {one.stride()} and {other.stride()}"
        with torch.no_grad():
            if self.exact:
                same = torch.equal(one.nan_to_num(123.0), other.nan_to_num(123.0))
            else:
                same = torch.allclose(one, other, 1e-2, 1e-2, equal_nan=True)
        return None if same else f"{path}: values differ by up to {(one - other).abs().max():.2g}"

    def _exceptions(self, one: BaseException, other: BaseException, path: str) -> str | None:
        lines = [self._lines(error) for error in (one, other)]
        if lines[0] != lines[1]:
            return f"traceback of {path}: {lines[0]} and {lines[1]}"
        parts = [[(n, getattr(e, n)) for n in ("args", "__cause__", "__context__")] for e in (one, other)]
        return self._parts(parts[0], parts[1], path)

    def _lines(self, error: BaseException) -> list[tuple[str, int | None]]:
        frames = traceback.extract_tb(error.__traceback__)
        return [(frame.name, frame.lineno) for frame in frames if self.folder in Path(frame.filename).parents]


def _first(differences: Iterable[str | None]) -> str | None:
    return next((found for found in differences if found is not None), None)


def _close(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-2, abs_tol=1e-2)
    except ValueError:
        return False
