"""The memory that recordings of one device share while they run, and who has results in it.

Whatever a recording needs while it runs, it got from what was free in the pool at that time; the results of recordings
made later may lie there. So a recording may run only if no younger one of its pool has results that somebody still
holds: `Pool.in_the_way`. Its own results and those of older recordings are never in such memory.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any, Protocol

import torch

from .recorder import Recorder


class Tenant(Protocol):
    """What has results in a pool."""

    birth: int

    def is_held(self) -> bool:
        """Does anybody hold a result that another recording's replay would overwrite?"""

    def keep(self) -> bool:
        """Clone from now on what is held. False where that cannot be, or was done already."""

    def storages(self) -> list[torch.UntypedStorage]:
        """Where its results lie."""


class Loan:
    """Results that were given out. It keeps nothing alive: results may outlive the recording that made them."""

    __slots__ = ("_storages", "_tenant", "birth")

    def __init__(self, tenant: Tenant) -> None:
        self.birth, self._tenant = tenant.birth, weakref.ref(tenant)
        self._storages = [weakref.ref(storage) for storage in tenant.storages()]

    def is_held(self) -> bool:
        tenant = self._tenant()
        if tenant is not None:
            return tenant.is_held()
        return any(storage() is not None for storage in self._storages)

    def keep(self) -> bool:
        tenant = self._tenant()
        return tenant is not None and tenant.keep()


class Pool:
    """One for each device and recorder.

    lock: held from the check to the end of what is done with a replay's results; never waited for.
    lent: what was given out, by birth, and not seen dead since.
    Its memory is new wherever no recording is left in it: torch takes none into the pool of graphs that are all gone.
    """

    def __init__(self, recorder: Recorder, device: torch.device) -> None:
        self.recorder, self.device = recorder, device
        self.lock = threading.Lock()
        self.lent: dict[int, Loan] = {}
        self._memory: Any = None
        self._within: weakref.WeakSet[Any] = weakref.WeakSet()
        self._births = itertools.count(1)
        self._order: Any = None

    def next_birth(self) -> int:
        return next(self._births)

    def memory(self) -> Any:
        """What the next recording shares with those that are there."""
        if not self._within:
            self.spoiled()
        return self._memory

    def holds(self, recording: Any) -> None:
        self._within.add(recording)

    def spoiled(self) -> None:
        """A recording failed half-way: later ones do not build on what it left."""
        self._memory, self._within = self.recorder.new_pool(self.device), weakref.WeakSet()

    def lend(self, tenant: Tenant) -> None:
        if tenant.birth in self.lent:
            return
        if len(self.lent) > _MANY:
            self.lent = {birth: loan for birth, loan in self.lent.items() if loan.is_held()}
        self.lent[tenant.birth] = Loan(tenant)

    def in_the_way(self, birth: int) -> Loan | None:
        """A younger recording's results that somebody holds, and that a replay of the one born then would overwrite."""
        for loan in list(self.lent.values()):
            if loan.birth <= birth:
                continue
            if loan.is_held():
                return loan
            del self.lent[loan.birth]
        return None

    def next_in_order(self) -> Any:
        self._order = self.recorder.order(self._order, self.device)
        return self._order


#: so many loans are looked through for those that are over
_MANY = 64
#: A pool goes with the last callable that knows it.
_pools: weakref.WeakValueDictionary[tuple[int, str, int | None], Pool] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def pool_of(recorder: Recorder, device: torch.device) -> Pool:
    key = (id(recorder), device.type, device.index)
    with _lock:
        pool = _pools.get(key)
        if pool is None:
            pool = _pools[key] = Pool(recorder, device)
        return pool
