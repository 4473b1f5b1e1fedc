"""Training: AOTAutograd's forward and backward graphs are recorded each for itself.

AOTAutograd cuts a region into a forward graph, whose last results it saves for the backward graph, and does around
these what autograd asks for (aliases, changed inputs, views). What a recorded forward saves stays in its own memory:
a backward that is recorded too reads it there. While it lives (several forwards before a backward, `retain_graph`)
the next forward runs another recording, up to `replay_lanes`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx

from ... import torch_inductor, torch_replay
from .options import ReplayOptions
from .recorder import Recorder
from .recording import Plan
from .site import Site


class Sides:
    """The callables that AOTAutograd asked for, for one region: made while it compiles, the backward perhaps later."""

    def __init__(self, recorder: Recorder, options: ReplayOptions, state: frozenset[int], dynamic: bool) -> None:
        self._recorder, self._options, self._state, self._dynamic = recorder, options, state, dynamic
        #: the callables are AOTAutograd's, and hold this
        self.sites: list[weakref.ref[Site]] = []
        self.refused: list[str] = []

    def around(
        self, backward: bool, graph: torch.fx.GraphModule, examples: Sequence[Any], compiled: Callable[..., Any]
    ) -> Callable[..., Any]:
        name = "backward" if backward else "forward"
        if not backward:
            torch_replay.nothing_is_donated()
        forward = next((found for ref in self.sites if (found := ref()) is not None), None)
        reason = _why_not(graph) or ("its forward is not replayed" if backward and forward is None else None)
        if reason is not None:
            self.refused.append(f"{name}: not replayed, {reason}")
            return compiled
        plan = Plan(
            mutated=frozenset(written_inputs(graph)),
            constants=tuple(constants_of(graph)),
            saved_from=None if backward else torch_replay.saved_from(),
            static_outputs=self._options.static_outputs,
            below_autograd=True,
        )
        site = Site(
            name, _listed(compiled), self._recorder, self._options, plan, state=self._state, dynamic=self._dynamic,
            lanes=forward if backward else None,
        )  # fmt: skip
        self.sites.append(weakref.ref(site))

        def boxed(inputs: list[Any]) -> Sequence[Any]:
            if site.off is not None:  # then the list goes on, and is emptied as early as can be
                site.refused[site.off] += 1
                return site.inner(inputs)
            given = tuple(inputs)
            inputs.clear()
            return site(*given)

        return torch_inductor.InsteadOfCompiled(boxed)

    def notes(self) -> list[str]:
        """Lines for `explain`."""
        if not self.sites and not self.refused:
            return ["not replayed, the inner backend showed none of its graphs"]
        sites = [site for ref in self.sites if (site := ref()) is not None]
        return [*self.refused, *(line for site in sites for line in site.notes())]


def _listed(compiled: Callable[..., Any]) -> Callable[[list[Any]], Sequence[Any]]:
    """A callable of one list, whatever the compiler gave."""
    if torch_replay.is_boxed(compiled):
        return compiled
    return lambda inputs: compiled(*inputs)


def constants_of(graph: torch.fx.GraphModule) -> Iterator[torch.Tensor]:
    """Tensors of the graph itself."""
    for module in graph.modules():
        for value in (*module.__dict__.values(), *module._parameters.values(), *module._buffers.values()):
            if isinstance(value, torch.Tensor):
                yield value


def written_inputs(graph: torch.fx.GraphModule) -> Iterator[int]:
    """Indices of the placeholders that operators of the graph write, themselves or through a view."""
    position = {node: at for at, node in enumerate(node for node in graph.graph.nodes if node.op == "placeholder")}
    for node in graph.graph.nodes:
        for argument in torch_replay.written_arguments(node):
            while argument not in position and argument.args and isinstance(argument.args[0], torch.fx.Node):
                argument = argument.args[0]
            if argument in position:
                yield position[argument]


def _why_not(graph: torch.fx.GraphModule) -> str | None:
    for node in graph.graph.nodes:
        if torch_replay.is_higher_order(node.target):
            return f"{node.target} takes functions"
    return None
