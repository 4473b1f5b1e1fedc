"""What one capture reads of the function itself, and which node came of which instruction."""

from __future__ import annotations

from collections.abc import Iterator

from ..listener import Begun, Ended, Listener, NodeAdded, Restarted, Step, TakenBack

#: nodes that are no operators
_NO_OPERATORS = ("placeholder", "output", "get_attr")


class Reading(Listener):
    """Listens to one capture; of one that begins anew the last attempt counts."""

    wants_values = False

    def __init__(self) -> None:
        self._read: list[int] = []
        self._nodes: dict[str, int] = {}
        self._kept: tuple[str, ...] = ()

    def begins(self, begun: Begun) -> None:
        self._read, self._nodes = [], {}

    def restarts(self, restarted: Restarted) -> None:
        self._read, self._nodes = [], {}

    def before(self, step: Step) -> None:
        if step.depth == 0:
            self._read.append(step.index)

    def node(self, added: NodeAdded) -> None:
        """What calls add that are read into is the calling instruction's."""
        if self._read and added.op not in _NO_OPERATORS:
            self._nodes[added.name] = self._read[-1]

    def taken_back(self, taken: TakenBack) -> None:
        for name in taken.nodes:
            self._nodes.pop(name, None)

    def ends(self, ended: Ended) -> None:
        self._kept = ended.nodes

    def split_at(self, landing: int) -> tuple[list[int], list[int]]:
        """The instructions of the region, and those that were read behind where it ends."""
        last = max((at for at, index in enumerate(self._read) if index == landing), default=len(self._read))
        return self._read[:last], self._read[last:]

    def kept_nodes(self) -> Iterator[tuple[str, int]]:
        """The nodes that are in the graph, each with the instruction that it came of."""
        kept = set(self._kept)
        for name, index in self._nodes.items():
            if name in kept:
                yield name, index
