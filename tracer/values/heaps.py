"""heapq: CPython's own algorithm on the values of a list, so that equal and incomparable items go where they would."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

from .base import Value
from .builtin_registry import builtin
from .constants import constant
from .operations import compare
from .sequences import ListValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


class Heap:
    """A list as a heap: the least item first, or the largest with `largest`."""

    def __init__(self, ctx: Context, heap: Value, largest: bool) -> None:
        real = ctx.real(heap).builtin_part()
        if not isinstance(real, ListValue):
            real.refuse("operation is not supported", "heapq")
        self.ctx, self.value, self.largest = ctx, real, largest
        self.items = list(real.items(ctx))
        ctx.spend(len(self.items))

    def keep(self) -> None:
        self.ctx.change(self.value, tuple(self.items))

    def less(self, left: Value, right: Value) -> bool:
        if self.largest:
            left, right = right, left
        return self.ctx.real(compare(self.ctx, "<", left, right)).truth(self.ctx)

    def sift_down(self, start: int, at: int) -> None:
        """Move the item at `at` towards the root until its parent is no larger."""
        items, new = self.items, self.items[at]
        while at > start:
            parent = (at - 1) >> 1
            if not self.less(new, items[parent]):
                break
            items[at] = items[parent]
            at = parent
        items[at] = new

    def sift_up(self, at: int) -> None:
        """Bubble the smaller child up until a leaf is hit, then sift the item down from there."""
        items, start = self.items, at
        new, child = items[at], 2 * at + 1
        while child < len(items):
            right = child + 1
            if right < len(items) and not self.less(items[child], items[right]):
                child = right
            items[at] = items[child]
            at, child = child, 2 * child + 1
        items[at] = new
        self.sift_down(start, at)

    def replace(self, item: Value) -> Value:
        if not self.items:
            self.ctx.raise_(IndexError("index out of range"))
        first, self.items[0] = self.items[0], item
        self.sift_up(0)
        self.keep()
        return first

    def pop(self) -> Value:
        if not self.items:
            self.ctx.raise_(IndexError("index out of range"))
        last = self.items.pop()
        if not self.items:
            self.keep()
            return last
        return self.replace(last)

    def heapify(self) -> None:
        for at in reversed(range(len(self.items) // 2)):
            self.sift_up(at)
        self.keep()



def _registered(function: Any, act: Callable[..., Value | None], largest: bool, arguments: int) -> None:
    def of_heap(ctx: Context, heap: Value, /) -> Value:
        return act(Heap(ctx, heap, largest)) or constant(None)

    def of_item(ctx: Context, heap: Value, item: Value, /) -> Value:
        return act(Heap(ctx, heap, largest), item) or constant(None)

    builtin(function)(of_heap if arguments == 1 else of_item)


def _push(heap: Heap, item: Value) -> None:
    heap.items.append(item)
    heap.sift_down(0, len(heap.items) - 1)
    heap.keep()


def _push_pop(heap: Heap, item: Value) -> Value:
    return heap.replace(item) if heap.items and heap.less(heap.items[0], item) else item


#: by the name of the function for the least item: what it does, and how many arguments it takes. Those for the largest
#: are private before Python 3.14, which has them by both names
_MEANINGS: dict[str, tuple[Callable[..., Value | None], int]] = {
    "heapify": (Heap.heapify, 1), "heappop": (Heap.pop, 1), "heappush": (_push, 2),
    "heapreplace": (Heap.replace, 2), "heappushpop": (_push_pop, 2),
}  # fmt: skip
for _name, (_act, _count) in _MEANINGS.items():
    _registered(getattr(heapq, _name), _act, False, _count)
    for _largest in {getattr(heapq, f"_{_name}_max", None), getattr(heapq, f"{_name}_max", None)}:
        if type(_largest) is BuiltinFunctionType:
            _registered(_largest, _act, True, _count)
