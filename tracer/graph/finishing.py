"""From a graph under construction to a frozen one: dead code, unused inputs, state, and what the outputs are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
import torch.fx

from .fx_capture import GraphInput, GraphTensor, Output
from .inputs import storage_of
from .sizes import SIZE_NODE
from .state import GRAD_MODE, STATE_TARGETS


def remove_dead_code(graph: torch.fx.Graph, effects: Collection[torch.fx.Node]) -> None:
    """Erase calls whose result nobody uses, except those which exist for what they do. One walk, last node first."""
    keep = set(effects)
    for node in reversed(graph.nodes):
        if not node.users and node.op not in ("placeholder", "output") and node not in keep:
            graph.erase_node(node)


def remove_idle_grad_modes(graph: torch.fx.Graph, grad_enabled: bool) -> None:
    """Erase changes of the grad mode before which or after which nothing is computed under another one."""
    pending: torch.fx.Node | None = None
    for node in graph.nodes:
        if node.target is GRAD_MODE:
            if pending is not None:
                graph.erase_node(pending)
            pending = node
        elif node.op.startswith("call"):
            if pending is not None and pending.args[0] == grad_enabled:
                graph.erase_node(pending)
            elif pending is not None:
                grad_enabled = bool(pending.args[0])
            if node.target in STATE_TARGETS:
                return  # an inference mode changes the grad mode too: leave the rest alone
            pending = None
    if pending is not None and pending.args[0] == grad_enabled:
        graph.erase_node(pending)


def changes_state(graph: torch.fx.Graph) -> bool:
    return any(node.target in STATE_TARGETS for node in graph.nodes)


def remove_unused_inputs(graph: torch.fx.Graph, inputs: Sequence[GraphInput]) -> list[int]:
    """Erase placeholders that nothing uses; indices of those left."""
    used = []
    for index, given in enumerate(inputs):
        if given.node.users:
            used.append(index)
        else:
            graph.erase_node(given.node)
    return used


def count_operators(graph: torch.fx.Graph) -> int:
    """Sizes that are read off an input, and arithmetic on numbers, are none."""
    return sum(
        node.op.startswith("call") and node.target not in STATE_TARGETS and SIZE_NODE not in node.meta
        for node in graph.nodes
    )


def describe_outputs(
    outputs: Sequence[GraphTensor], inputs: Sequence[GraphInput], real_storage: Mapping[int, int]
) -> tuple[Output, ...]:
    """real_storage: by the storage of an input's fake, that of the input. Fakes may not share what real ones share."""

    def memory_of(tensor: GraphTensor) -> tuple[bool, int]:
        storage = storage_of(tensor.fake)
        return (True, real_storage[storage]) if storage in real_storage else (False, storage)

    by_storage: dict[object, list[int]] = {}
    for index, given in enumerate(inputs):
        if isinstance(given, GraphTensor):
            by_storage.setdefault(memory_of(given), []).append(index)
    position = {id(given): index for index, given in enumerate(inputs)}
    earlier: dict[object, list[int]] = {}
    described = []
    for index, tensor in enumerate(outputs):
        fake, storage = tensor.fake, memory_of(tensor)
        described.append(
            Output(
                tuple(fake.shape), fake.stride(), fake.storage_offset(), fake.dtype, fake.device, fake.requires_grad,
                fake.is_leaf, position.get(id(tensor)), tuple(by_storage.get(storage, ())),
                tuple(earlier.setdefault(storage, [])),
            )
        )  # fmt: skip
        earlier[storage].append(index)
    return tuple(described)
