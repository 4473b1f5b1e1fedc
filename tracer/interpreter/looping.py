"""Which loops of the root frame a capture unrolls, and which run for real.

A loop that begins within a capture is unrolled. Where that cannot be, since its body breaks or would give too large a
graph, the capture ends in front of it; the original bytecode then goes round, and regions stand in the body. A capture
that begins in the body of a loop ends where it jumps back, so that one region serves all iterations.
"""

from __future__ import annotations

from rewriter.decode import Decoded
from rewriter.loops import loops, loops_around


class RunLoop(Exception):
    """Begin the capture anew: the loop with this head is not to be unrolled."""

    def __init__(self, head: int) -> None:
        super().__init__(head)
        self.head = head


class Loops:
    """The root frame's loops as one capture sees them.

    real: heads of loops that are known not to be unrolled.  limit: of graph nodes that one loop may be unrolled into.
    """

    def __init__(self, decoded: Decoded, entry: int, real: set[int], limit: int) -> None:
        self.real, self.limit = real, limit
        own = loops_around(decoded, entry)
        #: the units that jump back in a loop which the entry is in, with the heads where they go
        self._back = {(unit, loop.head) for loop in own for unit in loop.back}
        self._inner = [loop for loop in loops(decoded) if loop not in own]
        self._heads = {loop.head for loop in self._inner}
        self._nodes_before: dict[int, int] = {}

    def goes_round(self, unit: int, to: int) -> bool:
        """Has this unit just jumped back in a loop that was running when the capture began?"""
        return (unit, to) in self._back

    def around(self, index: int) -> int | None:
        """The head of the outermost loop around a unit that began within the capture, unless that is the unit."""
        found = next((loop for loop in self._inner if index in loop.body), None)
        return None if found is None or found.head == index else found.head

    def arrive(self, index: int, nodes: int) -> None:
        """The capture comes to this unit with so many nodes in its graph. Raises RunLoop if a loop got too long."""
        if index in self._heads and nodes - self._nodes_before.setdefault(index, nodes) > self.limit:
            raise RunLoop(index)
