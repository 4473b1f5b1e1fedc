"""What the user asked for: settings of `install()`, options of one `compile()`, and the switches in the environment.

Plain frozen data. Environment variables are read when they are asked for, not at import.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

Backend = str | Callable[..., Any]

#: A stack of 80 decoder layers has about 5,000 operators.
DEFAULT_UNROLL_LIMIT = 6_000


def switched_off() -> bool:
    """TORCHGRAFT=0 keeps everything off, silently."""
    return os.environ.get("TORCHGRAFT", "1").strip().lower() in ("0", "false", "off", "no")


def strict() -> bool:
    """TORCHGRAFT_STRICT=1: errors inside torchgraft are raised instead of logged (for its own tests)."""
    return os.environ.get("TORCHGRAFT_STRICT", "0").strip().lower() not in ("", "0", "false", "off", "no")


@dataclass(frozen=True)
class Settings:
    """Settings of `install()`.

    recompile_limit: how many regions an entry may have.
    accumulated_recompile_limit: how many all entries of a function may have together.
    compile_after: compile at the n-th time an entry is reached (1: at once).
    unroll_limit: how many nodes of a graph one loop may be unrolled into; beyond, it runs as a loop with a compiled body.
    """

    backend: Backend | None = None
    dynamic: bool | None = None
    recompile_limit: int = 8
    accumulated_recompile_limit: int = 256
    compile_after: int = 1
    unroll_limit: int = DEFAULT_UNROLL_LIMIT

    def __post_init__(self) -> None:
        check_backend(self.backend)
        check_dynamic(self.dynamic)
        for name in ("recompile_limit", "accumulated_recompile_limit", "compile_after", "unroll_limit"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} must be an int of at least 1, not {value!r}")


@dataclass(frozen=True, eq=False)
class Options:
    """Options of one `compile()`; None means: as `install()` said."""

    backend: Backend | None = None
    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_backend(self.backend)
        check_dynamic(self.dynamic)
        if type(self.fullgraph) is not bool:
            raise TypeError(f"fullgraph must be a bool, not {self.fullgraph!r}")
        if self.mode is not None and not isinstance(self.mode, str):
            raise TypeError(f"mode must be a string, not {self.mode!r}")
        if self.options is not None and not isinstance(self.options, Mapping):
            raise TypeError(f"options must be a dict, not {self.options!r}")
        if self.mode is not None and self.options is not None:
            raise ValueError("give mode or options, not both")

    @property
    def key(self) -> Hashable:
        """Equal for options that ask for the same. A backend that is no name counts by identity."""
        backend = self.backend if self.backend is None or isinstance(self.backend, str) else id(self.backend)
        details = None if self.options is None else tuple(sorted((k, repr(v)) for k, v in self.options.items()))
        return backend, self.fullgraph, self.dynamic, self.mode, details


def check_backend(backend: object) -> None:
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a name or a callable, not {backend!r}")


def check_dynamic(dynamic: object) -> None:
    if dynamic is not None and type(dynamic) is not bool:
        raise TypeError(f"dynamic must be True, False or None, not {dynamic!r}")
