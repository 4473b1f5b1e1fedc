"""The frozen graph of one capture: what backends compile and what region text is written from."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from ..errors import InternalError
from ..torch_private import FakeTensor, ShapeEnv
from .shapes import Layout


@dataclass(frozen=True, slots=True, eq=False)
class GraphTensor:
    """A tensor of the graph: the node that computes it and the fake that shows its metadata. Equal by identity only."""

    node: torch.fx.Node
    fake: FakeTensor

    def __repr__(self) -> str:
        return f"<{self.node.name}: {self.fake.dtype} {tuple(self.fake.shape)}>"


@dataclass(frozen=True, slots=True, eq=False)
class GraphNumber:
    """A Python number that the graph takes as an input: its node and the symbol that stands for it."""

    node: torch.fx.Node
    number: torch.SymInt

    def __repr__(self) -> str:
        return f"<{self.node.name}: {self.number}>"


GraphInput = GraphTensor | GraphNumber


@dataclass(frozen=True, slots=True)
class Output:
    """What the compiled callable returns at one place.

    same_as_input: index of the input that is this very tensor.
    shares_with: indices of the inputs whose storage it shares (a view of one, or the input itself).
    shares_with_outputs: indices of earlier outputs whose storage it shares.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    storage_offset: int
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    is_leaf: bool
    same_as_input: int | None
    shares_with: tuple[int, ...]
    shares_with_outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EndState:
    """State that the captured code had changed where the graph ends. The graph itself leaves torch as it found it.

    grad_enabled: the grad mode, where it is another than at the start.
    entered: autocast and inference modes that were entered and not left, outermost first: (kind, arguments).
    """

    grad_enabled: bool | None = None
    entered: tuple[tuple[str, tuple[object, ...]], ...] = ()

    def __bool__(self) -> bool:
        return self.grad_enabled is not None or bool(self.entered)


class Examples:
    """Real tensors, held until a graph is compiled, and weakly after that; symbols of numbers as they are."""

    __slots__ = ("_held", "_references")

    def __init__(self, inputs: Iterable[torch.Tensor | torch.SymInt]) -> None:
        self._held: tuple[torch.Tensor | torch.SymInt, ...] | None = tuple(inputs)
        self._references = tuple(_reference(given) for given in self._held)

    def get(self) -> list[Any]:
        found = [reference() for reference in self._references]
        inputs = [given for given in found if given is not None]
        if len(inputs) < len(found):
            raise InternalError("an input of a graph was freed before the graph was compiled once more")
        return inputs

    def release(self) -> None:
        self._held = None


def _reference(given: torch.Tensor | torch.SymInt) -> Callable[[], Any]:
    return weakref.ref(given) if isinstance(given, torch.Tensor) else lambda: given


@dataclass(frozen=True, eq=False)
class FxCapture:
    """One graph, ready to be compiled.

    inputs: the inputs that the graph uses, in the order in which the compiled callable takes them.
    mutates_inputs: indices of the inputs whose data the graph writes, by themselves or through an alias.
    static_inputs: indices of the inputs that are parameters and buffers of modules: they stay where they are in memory
    from call to call, as far as anybody can tell. No guard says so: whoever relies on it compares addresses.
    layouts: by the identity of a real tensor, sizes and strides of those inputs that have symbols among them.
    records_autograd: the autograd engine may record something; if not, what looks into that has nothing to see.
    remarks: what there was to say of it when it was compiled, for `explain`.
    """

    module: torch.fx.GraphModule
    inputs: tuple[GraphInput, ...]
    outputs: tuple[Output, ...]
    mutates_inputs: tuple[int, ...]
    static_inputs: tuple[int, ...]
    uses_rng: bool
    changes_state: bool
    records_autograd: bool
    end_state: EndState
    operators: int
    shape_env: ShapeEnv = field(repr=False)
    layouts: Mapping[int, Layout] = field(repr=False)
    _examples: Examples = field(repr=False)
    remarks: list[str] = field(default_factory=list, repr=False)

    @property
    def graph(self) -> torch.fx.Graph:
        return self.module.graph

    def examples(self) -> list[Any]:
        """What the graph was captured with, for `inputs`: real tensors, and the symbols of numbers."""
        return self._examples.get()

    def release(self) -> None:
        """Hold the real tensors weakly from now on: what was compiled keeps no model and no batch alive."""
        self._examples.release()
