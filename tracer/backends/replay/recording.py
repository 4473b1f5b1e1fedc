"""One recording: static inputs, copies in and back, the replay, and what is given out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from .inputs import Inputs
from .outputs import NotRecordable, Outputs
from .pool import Pool

#: takes a list of inputs; whoever calls does not count on the list afterwards
Inner = Callable[[list[Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a callable before it is recorded.

    mutated: indices of the inputs that it writes.  constants: tensors of the graph itself.
    saved_from: from this result on they are kept for the backward.  static_outputs: as in the options.
    below_autograd: AOTAutograd calls it, and does what concerns autograd.
    """

    mutated: frozenset[int] = frozenset()
    constants: tuple[torch.Tensor, ...] = ()
    saved_from: int | None = None
    static_outputs: bool = False
    below_autograd: bool = False


@contextmanager
def _no_autocast_cache() -> Iterator[None]:
    """What autocast keeps of a recording would hold numbers only while that runs, and what it kept before may go."""
    enabled = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)


@dataclass(eq=False)
class Recording:
    """kept: of all recordings of the callable, see `Outputs`.  birth: when it was made, among those of its pool."""

    inner: Inner
    plan: Plan
    pool: Pool
    kept: set[int] = field(repr=False)
    birth: int = 0
    replays: int = 0
    _order: Any = None

    def make(self, given: Sequence[Any], static: Collection[int]) -> Recording:
        """Record it. Raises what the recorder or the inner callable raises; nothing was changed then."""
        recorder, device = self.pool.recorder, self.pool.device
        self.inputs = Inputs(given, static, self.plan.mutated)
        self.inputs.copy_in(given)
        self.birth = self.pool.next_birth()
        with _no_autocast_cache():
            self.handle, results = recorder.record(
                self.inner, given, self.inputs.merged, self.plan.constants, self.pool.memory(), device
            )
        self.outputs = Outputs(
            results, self.inputs.merged(given), self.plan.constants, self.plan.saved_from, self.kept,
            static=self.plan.static_outputs, as_views=not self.plan.below_autograd,
        )  # fmt: skip
        del results
        if not self.outputs.owned and not self.plan.mutated:
            raise NotRecordable("it computes nothing")
        self.outputs.count_uses()
        self.pool.holds(self)
        return self

    def run(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """Whoever calls has the pool's lock, and knows that nobody holds what is overwritten."""
        order = self.pool.next_in_order()
        if order != self._order:
            if self.replays:
                self.pool.recorder.keep_for(self.inputs.buffers, order)
            else:
                self._order = order
        self.inputs.copy_in(given)
        self.handle.replay(given)
        self.inputs.write_back(given)
        results = self.outputs.give(given)
        self.replays += 1
        self.pool.lend(self)
        return results

    def is_held(self) -> bool:
        return bool(self.outputs.held(by_others=True))

    def keep(self) -> bool:
        held = self.outputs.held(by_others=True)
        places = {at for piece in held if not piece.saved for at in piece.tensors} - self.kept
        if self.plan.static_outputs or any(piece.saved for piece in held) or not places:
            return False
        self.kept |= places
        return True

    def storages(self) -> list[torch.UntypedStorage]:
        return [piece.storage for piece in self.outputs.owned if piece.storage is not None]

    @property
    def bytes(self) -> int:
        return self.inputs.bytes + self.outputs.bytes + self.handle.scratch_bytes
