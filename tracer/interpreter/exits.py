"""The way out of a region: expressions and statements that rebuild, at run time, what capture left in its values.

Everything that is read from outside is fetched before the graph runs and before any effect (`fetches`), new objects are
built after the graph (`setup`), then effects repeat the mutations. Each object is built once, so aliases stay aliases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..graph.builder import GraphTensor
from ..sources import Held, Literal, Param, Source
from ..values.base import Lazy, Value
from ..values.constants import LITERALS, ConstantValue
from ..values.tensors import TensorValue

if TYPE_CHECKING:
    from .context import Context

Filler = Callable[[str], Iterable[str]]


class Unbuildable(Exception):
    """An object that cannot be rebuilt was made at this root instruction: the break must come before it."""

    def __init__(self, born: int | None, graph_break: GraphBreak) -> None:
        super().__init__(born, graph_break)
        self.born = born
        self.graph_break = graph_break


class ExitWriter:
    """Writes one region's way out. `text(value)` is the only way in; values answer with `reconstruct` and `effects`."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.constants: dict[str, Any] = {}
        self.fetches: dict[Source, str] = {}
        self.setup: list[str] = []
        self.outputs: dict[int, tuple[GraphTensor, str]] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Value] = []
        #: containers being built: their name once somebody inside asked for it (a cycle)
        self._open: dict[int, str | None] = {}
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"v{self._count - 1}"

    # expressions ----------------------------------------------------------------------------------------------------
    def text(self, value: Value) -> str:
        """An expression for the object."""
        if isinstance(value, Lazy) and value.value is not None:
            value = value.value
        if value.part_of is not None:
            value = value.part_of
        if value.source is not None:
            return self.fetch(value.source)
        known = self._names.get(id(value))
        if known is not None:
            return known
        if id(value) in self._open:
            return self._cycle(value)
        try:
            text = value.reconstruct(self)
        except GraphBreak as graph_break:
            raise Unbuildable(value.born, graph_break) from graph_break
        if isinstance(value, (ConstantValue, TensorValue)):
            return text
        return self._bind(value, text)

    def _bind(self, value: Value, text: str) -> str:
        known = self._names.get(id(value))
        if known is None:
            known = self._names[id(value)] = self.name()
            self._kept.append(value)
            self.setup.append(f"{known} = {text}")
        return known

    def fetch(self, source: Source) -> str:
        """What is read from outside is read before anything is changed."""
        self._constants_of(source)
        if isinstance(source, (Param, Held, Literal)):
            return str(source)
        if source not in self.fetches:
            self.fetches[source] = self.name()
        return self.fetches[source]

    def _constants_of(self, source: Source) -> None:
        if isinstance(source, Held):
            self.constants[source.name] = source.value
        for base in source.bases():
            self._constants_of(base)

    def hold(self, obj: object, hint: str = "") -> str:
        """The name of a constant."""
        held = self.ctx.hold(obj, hint)
        self.constants[held.name] = obj
        return held.name

    def constant(self, obj: object) -> str:
        """A literal where the object's repr reads back as an equal one, else the name of a constant."""
        if type(obj) in LITERALS and obj is not Ellipsis and not _odd_float(obj):
            return repr(obj)
        return self.hold(obj, "constant")

    def tensor(self, value: TensorValue) -> str:
        """The name under which the graph's output is at hand."""
        return self.output(value.graph_tensor)

    def output(self, tensor: GraphTensor) -> str:
        if id(tensor) not in self.outputs:
            self.outputs[id(tensor)] = (tensor, f"t{len(self.outputs)}")
        return self.outputs[id(tensor)][1]

    # objects that others may refer to while they are built ------------------------------------------------------------
    def fill(self, value: Value, empty: str, build: Callable[[], tuple[str, Filler]]) -> str:
        """Build a container at one go, or, if it contains itself, empty first and then filled."""
        self._open[id(value)] = None
        at = len(self.setup)
        full, filler = build()
        name = self._open.pop(id(value))
        if name is None:
            return self._bind(value, full)
        if not empty:
            raise GraphBreak("object cannot be rebuilt", str(value))
        self.setup.insert(at, f"{name} = {empty}")
        self._names[id(value)] = name
        self._kept.append(value)
        self.setup.extend(filler(name))
        return name

    def _cycle(self, value: Value) -> str:
        name = self._open[id(value)]
        if name is None:
            name = self._open[id(value)] = self.name()
        return name

    def statement(self, text: str) -> None:
        """A statement that finishes an object just built."""
        self.setup.append(text)


def _odd_float(obj: object) -> bool:
    """Is it a number whose repr is no literal (inf, nan, also inside of a complex)?"""
    if isinstance(obj, complex):
        return True
    return isinstance(obj, float) and (obj != obj or obj in (float("inf"), float("-inf")))
