"""What the user says of replay, in `options=` of a compile: keys that belong to it are taken out, the rest is the inner
backend's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How the recordings of one region are made.

    recorder: "cuda", or "cpu": the recorder that runs the graph again into the same memory, for tests.
    everywhere: regions on other devices are counted among those without a replay. Of "auto" nobody asked.
    told: `explain` says of such a region why, but it is called as if nobody had asked.
    static_outputs: results are static memory, overwritten by the region's next call. Nothing is cloned or checked.
    max_replay_shapes: for how many combinations of sizes (and values of numbers) a region may have recordings.
    replay_sizes: batch sizes for which there are recordings: a smaller batch is padded, where that can be proven right.
    replay_warm_up: calls of the inner callable before it is recorded.
    replay_trial: how often both are timed; 0 keeps a replay without asking.
    replay_lanes: recordings for the same sizes, whose results may be alive at the same time.
    """

    recorder: str = "cuda"
    everywhere: bool = True
    told: bool = False
    static_outputs: bool = False
    max_replay_shapes: int = 8
    replay_sizes: tuple[int, ...] = ()
    replay_warm_up: int = 2
    replay_trial: int = 3
    replay_lanes: int = 4

    def __post_init__(self) -> None:
        if self.recorder not in ("cuda", "cpu"):
            raise ValueError(f"recorder must be 'cuda' or 'cpu', not {self.recorder!r}")
        if type(self.static_outputs) is not bool:
            raise TypeError(f"static_outputs must be a bool, not {self.static_outputs!r}")
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ValueError(f"{name} must be an int of at least {least}, not {value!r}")


_COUNTS = {"max_replay_shapes": 1, "replay_warm_up": 1, "replay_trial": 0, "replay_lanes": 1}
#: the keys of `options=` that are replay's
OWN_KEYS = frozenset(["recorder", "static_outputs", "replay_sizes", *_COUNTS])


def split(
    options: Mapping[str, Any] | None, *, everywhere: bool, told: bool = False
) -> tuple[ReplayOptions, dict[str, Any] | None]:
    """Replay's options, and what is left for the inner backend (None if nothing is)."""
    options = options or {}
    own = {key: value for key, value in options.items() if key in OWN_KEYS}
    if "replay_sizes" in own:
        own["replay_sizes"] = _sizes(own["replay_sizes"])
    misspelt = [key for key in options if key.startswith("replay_") and key not in OWN_KEYS]
    if misspelt:
        raise ValueError(f"replay has no option {misspelt[0]!r}; there are {', '.join(sorted(OWN_KEYS))}")
    rest = {key: value for key, value in options.items() if key not in OWN_KEYS}
    return replace(ReplayOptions(everywhere=everywhere, told=told), **own), rest or None


def _sizes(given: Any) -> tuple[int, ...]:
    if not isinstance(given, (list, tuple, set, frozenset, range)) or any(type(n) is not int or n < 1 for n in given):
        raise ValueError(f"replay_sizes must be a list of positive ints, not {given!r}")
    return tuple(sorted(set(given)))
