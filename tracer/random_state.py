"""The state of torch's default random generators, to be given back."""

from __future__ import annotations

import torch

#: devices whose default generators are kept
KEPT_DEVICES = frozenset(["cpu", "cuda", "meta"])


class RandomState:
    """The state as it is now."""

    __slots__ = ("_cpu", "_cuda")

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def give_back(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
