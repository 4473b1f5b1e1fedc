"""Parts of a graph that become graphs of their own: what a function does that is given to one of torch's.

`OpenBody` notes where the graph stood; what is recorded from then on is the body. `close` takes it out of the graph and
gives a `Body`, which is an argument for a recorded call like any. Whatever the body uses from before it, inputs of the
graph included, is free in it: a parameter behind its own arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..errors import GraphBreak
from .finishing import remove_dead_code
from .fx_capture import GraphTensor
from .inputs import storage_of
from .sizes import SIZE_NODE

if TYPE_CHECKING:
    from .builder import GraphBuilder


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A module of the graph's root: it takes its own arguments and then `free`."""

    module: torch.fx.GraphModule
    node: torch.fx.Node
    free: tuple[GraphTensor, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """A Python object that is there only while the graph runs: what one call gives and later ones take (handles.py)."""

    node: torch.fx.Node
    #: what the call gave for fake tensors
    example: Any


def with_free(body: Body, own: int, free: Sequence[GraphTensor]) -> Body:
    """The body with these tensors, its own free ones among them, behind its `own` arguments."""
    old, graph, copies = body.module.graph, torch.fx.Graph(), {}
    parameters = [node for node in old.nodes if node.op == "placeholder"]
    for node in parameters[:own]:
        copies[node] = graph.placeholder(node.name)
    places = {id(tensor): node for tensor, node in zip(body.free, parameters[own:], strict=True)}
    for tensor in free:
        placeholder = graph.placeholder(tensor.node.name)
        if id(tensor) in places:
            copies[places[id(tensor)]] = placeholder
    graph.output(graph.graph_copy(old, copies))
    body.module.graph = graph
    return Body(body.module, body.node, tuple(free))


def body_argument() -> None:
    """Stands for an argument of a body that is being captured; it is in no finished graph."""


class OpenBody:
    """A body under construction. Its nodes stand in the graph, at its end, until it is closed."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder
        self._mark = builder.mark()
        self._written, builder._written = builder._written, {}
        self.arguments: list[GraphTensor] = []

    def leave(self) -> None:
        """No more is recorded for it: what the graph outside of it writes is noted again. Idempotent."""
        if self._builder._written is not self._written:
            self.writes, self._builder._written = set(self._builder._written), self._written

    def argument(self, fake: Any) -> GraphTensor:
        """One more argument, for which this fake stands."""
        builder = self._builder
        node = builder.graph.create_node("call_function", body_argument, (), {})
        builder._nodes.append(node)
        self.arguments.append(tensor := builder._know(node, fake))
        return tensor

    def tensors_made(self) -> set[int]:
        """Identities of the tensors that the body computes or is given."""
        moved = set(self._moved())
        return {id(tensor) for tensor in self._builder._tensors.values() if tensor.node in moved}

    def _moved(self) -> list[torch.fx.Node]:
        """Neither inputs of the graph nor sizes, which stand at its head."""
        made = self._builder._nodes[self._mark.nodes :]
        return [node for node in made if node.op != "placeholder" and SIZE_NODE not in node.meta]

    def close(self, result: Any, first: Sequence[GraphTensor] = (), *, handles: bool = False) -> Body:
        """Cut the body out. `result` is what it returns: tensors of the graph, and structures of them.

        `first` are tensors from before it that it takes in any case, and before all others that are free in it.
        `handles`: may objects that are no tensors be free in it?
        """
        builder, moved = self._builder, self._moved()
        self.leave()
        self._refuse_effects()
        if builder._sizes.computed_since(self._mark.sizes):
            raise GraphBreak("function given to torch has effects", "it reads a tensor's values")
        inside, known = set(moved), {tensor.node: tensor for tensor in builder._tensors.values()}
        used = dict.fromkeys(tensor.node for tensor in first)
        sizes = self._sizes_used(moved)
        for node in [*sizes, *moved]:
            used.update(dict.fromkeys(node.all_input_nodes))
        used.update(dict.fromkeys(tensor.node for tensor in graph_tensors(result)))
        free = [node for node in used if node not in inside and node not in sizes]
        if any(node.op == "placeholder" and node not in known for node in free):
            raise GraphBreak("function given to torch has effects", "it uses a Python number that changes at each call")
        if handles:
            known |= {node: node.meta["handle"] for node in free if "handle" in node.meta}
        if any(node not in known for node in free):
            raise GraphBreak("function given to torch has effects", "it leaves a mode that was entered outside")
        graph = self._copy([*sizes, *moved], free, result)
        name = f"_body{builder.bodies}"
        builder.bodies += 1
        setattr(builder.root, name, module := torch.fx.GraphModule(builder.root, graph))
        self._erase(moved)
        builder._nodes.append(node := builder.graph.get_attr(name))
        return Body(module, node, tuple(known[node] for node in free))

    def _sizes_used(self, moved: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
        """What computes the sizes that the body uses: it is computed again within it, from the inputs."""
        wanted = {node for m in moved for node in m.all_input_nodes if SIZE_NODE in node.meta}
        found = [node for node in self._builder.graph.nodes if SIZE_NODE in node.meta] if wanted else []
        for node in reversed(found):  # what they are computed from stands before them
            if node in wanted:
                wanted.update(n for n in node.all_input_nodes if SIZE_NODE in n.meta)
        return [node for node in found if node in wanted]

    def _refuse_effects(self) -> None:
        builder = self._builder
        if builder._state != self._mark.state:
            raise GraphBreak("function given to torch has effects", "it changes torch's state")
        outside = list(builder._tensors.values())[: self._mark.tensors]
        outside += [given for given in builder.inputs if isinstance(given, GraphTensor)]
        if self.writes & {storage_of(tensor.fake) for tensor in [*outside, *self.arguments]}:
            raise GraphBreak("function given to torch has effects", "it writes to a tensor that it did not make")

    def _copy(self, moved: Sequence[torch.fx.Node], free: Sequence[torch.fx.Node], result: Any) -> torch.fx.Graph:
        graph, copies = torch.fx.Graph(), {}
        own = [tensor.node for tensor in self.arguments]
        for node in [*own, *free]:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = dict(node.meta)
        for node in moved:
            if node not in copies:
                copies[node] = graph.node_copy(node, lambda used: copies[used])
        graph.output(_mapped(result, lambda tensor: copies[tensor.node]))
        effects = self._builder._effects[self._mark.effects :]
        remove_dead_code(graph, {copies[node] for node in effects if node in copies})
        return graph

    def _erase(self, moved: Sequence[torch.fx.Node]) -> None:
        builder, gone, start = self._builder, set(moved), self._mark.nodes
        for node in reversed(moved):
            builder.graph.erase_node(node)
        builder._nodes[start:] = [node for node in builder._nodes[start:] if node not in gone]
        builder._effects[self._mark.effects :] = []
        for key in [key for key, tensor in builder._tensors.items() if tensor.node in gone]:
            del builder._tensors[key]


def _mapped(value: Any, change: Callable[[GraphTensor], Any]) -> Any:
    if isinstance(value, GraphTensor):
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(_mapped(item, change) for item in value)
    if type(value) is dict:
        return {key: _mapped(item, change) for key, item in value.items()}
    return value


def graph_tensors(value: Any) -> list[GraphTensor]:
    """Those in a structure, in its order."""
    found: list[GraphTensor] = []
    _mapped(value, found.append)
    return found
