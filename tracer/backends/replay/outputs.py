"""What a recording gives out: aliases stay aliases, and no result that somebody still holds is overwritten.

A result of the graph is one of:
- an input, or a view of one: the caller gets his own tensor, or a view of that;
- a constant of the graph: it is given as it is;
- memory of its own (`Owned`), which lies at the same place after each replay. The caller gets a new tensor over this
  memory, and before the next replay it is asked whether any tensor or view of it lives: torch counts who refers to a
  storage. A place whose results were found alive once is *kept* from then on: its results are cloned when they are
  given out. Results that share memory are cloned together, so that they share it still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ... import torch_replay
from .inputs import buffer_like, repeats

Give = Callable[[Sequence[Any]], Any]


@dataclass(eq=False)
class Owned:
    """One piece of memory that a recording writes, and the results in it, by their place.

    saved: autograd keeps it for the backward. It is not cloned: while it lives another recording runs.
    uses: how many refer to its storage while no caller does.  address: where it lies.
    """

    tensors: dict[int, torch.Tensor] = field(default_factory=dict)
    saved: bool = False
    uses: int = 0
    storage: torch.UntypedStorage | None = None
    address: int = 0

    def is_held(self) -> bool:
        assert self.storage is not None
        return torch_replay.storage_uses(self.storage) > self.uses

    @property
    def bytes(self) -> int:
        return next(iter(self.tensors.values())).untyped_storage().nbytes()


class Outputs:
    """The results of one recording.

    kept: places whose results are cloned; shared by all recordings of the callable, and grows.
    """

    def __init__(
        self,
        results: Sequence[Any],
        inputs: Sequence[Any],
        constants: Sequence[torch.Tensor],
        saved_from: int | None,
        kept: set[int],
        *,
        static: bool,
        as_views: bool,
    ) -> None:
        """constants: tensors of the graph itself.  saved_from: from this one on results are saved for the backward."""
        self.count, self.kept, self._static, self._as_views = len(results), kept, static, as_views
        self._others: list[tuple[int, Give]] = []
        owned: dict[int, Owned] = {}
        own = {_place(constant) for constant in constants}
        places = {_place(value): i for i, value in reversed([*enumerate(inputs)]) if _place(value)}
        for at, result in enumerate(results):
            place = _place(result)
            if place is None or place in own:
                self._others.append((at, _always(result, as_it_is=saved_from is None)))
            elif result.is_conj() or result.is_neg():
                raise NotRecordable("a result is a tensor of a special kind")
            elif place in places:
                self._others.append((at, _of_input(result, inputs, places[place])))
            elif result.requires_grad:
                raise NotRecordable("a result requires grad")
            elif place < 0:  # without memory; each caller gets a tensor of his own
                self._others.append((at, _always(result, as_it_is=False)))
            else:
                owned.setdefault(place, Owned()).tensors[at] = result
        self.owned = list(owned.values())
        for piece in self.owned:
            user = [at for at in piece.tensors if saved_from is None or at < saved_from]
            piece.saved = len(user) < len(piece.tensors)
            if (user and piece.saved) or not torch_replay.COUNTS_STORAGE_USES:
                self.kept.update(user)
        self._single = [piece for piece in self.owned if len(piece.tensors) == 1]
        self._several = [piece for piece in self.owned if len(piece.tensors) > 1]

    def count_uses(self) -> None:
        """Once nobody else refers to the results. Who does all the same would hide a caller: what he holds is kept."""
        for piece in self.owned:
            tensor = next(iter(piece.tensors.values()))
            piece.storage = tensor.untyped_storage()
            piece.address = piece.storage.data_ptr()
            most = _uses_of_one() + len({id(tensor) for tensor in piece.tensors.values()}) - 1
            piece.uses = torch_replay.storage_uses(piece.storage)
            if piece.uses > most:
                self.kept.update(piece.tensors)
                piece.saved = False

    def held(self, *, by_others: bool) -> list[Owned]:
        """What callers hold. by_others: another recording will run; its own next run may overwrite what is static."""
        return [piece for piece in self.owned if (by_others or piece.saved or not self._static) and piece.is_held()]

    def are_lost(self) -> bool:
        """Has a caller given up the memory that a recording writes: resized a result, or its storage?"""
        return any(piece.storage is None or piece.storage.data_ptr() != piece.address for piece in self.owned)

    def give(self, given: Sequence[Any]) -> tuple[Any, ...]:
        results: list[Any] = [None] * self.count
        for at, make in self._others:
            results[at] = make(given)
        fresh, sources = [], []
        for piece in self._single:
            [(at, tensor)] = piece.tensors.items()
            if at not in self.kept:
                results[at] = tensor.data
            elif repeats(tensor):
                results[at] = _in(tensor.untyped_storage().clone(), tensor)
            else:
                results[at] = buffer_like(tensor)
                fresh.append(results[at])
                sources.append(tensor)
        if fresh:
            torch_replay.foreach_copy(fresh, sources)
        for piece in self._several:
            self._give_several(piece, results)
        return tuple(results)

    def _give_several(self, piece: Owned, results: list[Any]) -> None:
        """The first as a tensor, others as views of it, so that a write to one is a write to all for autograd too.
        (Not where AOTAutograd takes them: it makes the views itself, and wants none.)

        What is saved for the backward is the recording's own, also beside results of the user's that are clones.
        """
        copied = any(at in self.kept for at in piece.tensors)
        storage = next(iter(piece.tensors.values())).untyped_storage().clone() if copied else None
        base: torch.Tensor | None = None
        given: dict[int, torch.Tensor] = {}
        for at, tensor in piece.tensors.items():
            if piece.saved and at not in self.kept:
                results[at] = tensor.data
                continue
            known = given.get(id(tensor))
            if known is not None:
                results[at] = known
                continue
            if base is not None and self._as_views and base.dtype == tensor.dtype:
                made = base.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
            else:
                made = tensor.data if storage is None else _in(storage, tensor)
            base = made if base is None else base
            results[at] = given[id(tensor)] = made

    def saved_addresses(self) -> set[int]:
        """Where what autograd keeps lies, after each replay."""
        return {tensor.data_ptr() for piece in self.owned if piece.saved for tensor in piece.tensors.values()}

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.owned)


def _place(value: Any) -> int | None:
    """Where a tensor's memory begins; where it has none, a number below 0 that says which storage it is."""
    if not isinstance(value, torch.Tensor):
        return None
    storage = value.untyped_storage()
    return storage.data_ptr() or -storage._cdata


def _always(value: Any, *, as_it_is: bool) -> Give:
    """as_it_is: else each caller gets a tensor object of his own, which autograd may write into."""
    if isinstance(value, torch.Tensor) and not as_it_is:
        return lambda given: value.data
    return lambda given: value


def _of_input(result: torch.Tensor, inputs: Sequence[Any], first: int) -> Give:
    """The caller's own tensor where it was the input itself, else a view of it."""
    for at, value in enumerate(inputs):
        if value is result:
            return lambda given: given[at]
    base = inputs[first]
    if base.dtype != result.dtype:
        raise NotRecordable("a result is a view of an input with another dtype")
    size, stride, offset = result.size(), result.stride(), result.storage_offset() - base.storage_offset()
    return lambda given: given[first].as_strided(size, stride, given[first].storage_offset() + offset)


class NotRecordable(Exception):
    """A region that cannot be recorded, found out while it was."""


def _in(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    return empty.set_(storage, like.storage_offset(), like.size(), like.stride())


def _uses_of_one() -> int:
    """How many refer to the storage of a tensor that is alone with it, asked as it is asked for others."""
    piece = Owned({0: torch.empty(1)})
    piece.storage = piece.tensors[0].untyped_storage()
    return torch_replay.storage_uses(piece.storage)
