"""What the user asked for: settings of `install()`, options of one `compile()`, and the switches in the environment.

Plain frozen data. Environment variables are read when they are asked for, not at import.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

Backend = str | Callable[..., Any]
#: as torch.compile says it
MODE_AND_OPTIONS = "Either mode or options can be specified, but both can't be specified at the same time."

#: Chains of so many small operators were seen to be no faster compiled than plain.
DEFAULT_SMALL_REGION = 100
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
    accumulated_recompile_limit: how many all entries of a function may have together, whatever it was compiled with.
    fail_on_recompile_limit_hit: raise at a limit, instead of running plain.
    error_on_recompile: raise instead of compiling a second region for an entry.
    capture_scalar_outputs: `item()`, and int() and float() of a tensor, stay in the graph.
    capture_dynamic_output_shape_ops: operators stay in the graph whose result's size depends on values (`nonzero()`).
    compile_after: compile a function at its n-th call (1: at once).
    unroll_limit: how many nodes of a graph one loop may become; a longer one runs as a loop with a compiled body.
    small_region: a region of at most so many operators is tried against the original bytecode (0: none is).
    """

    backend: Backend | None = None
    dynamic: bool | None = None
    recompile_limit: int = 8
    accumulated_recompile_limit: int = 256
    compile_after: int = 1
    unroll_limit: int = DEFAULT_UNROLL_LIMIT
    small_region: int = DEFAULT_SMALL_REGION
    fail_on_recompile_limit_hit: bool = False
    error_on_recompile: bool = False
    capture_scalar_outputs: bool = False
    capture_dynamic_output_shape_ops: bool = False

    def __post_init__(self) -> None:
        check_backend(self.backend)
        check_dynamic(self.dynamic)
        for name in ("recompile_limit", "accumulated_recompile_limit", "compile_after", "unroll_limit"):
            check_count(name, getattr(self, name))
        check_count("small_region", self.small_region, least=0)
        for name in (
            "fail_on_recompile_limit_hit", "error_on_recompile", "capture_scalar_outputs",
            "capture_dynamic_output_shape_ops",
        ):  # fmt: skip
            check_bool(name, getattr(self, name))


@dataclass(frozen=True, eq=False)
class Options:
    """Options of one `compile()`; None means: as `install()` said.

    isolate_recompiles: what is compiled, and its limits, are this call's own.
    """

    backend: Backend | None = None
    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    options: Mapping[str, Any] | None = None
    recompile_limit: int | None = None
    isolate_recompiles: bool = False
    compile_after: int | None = None

    def __post_init__(self) -> None:
        check_backend(self.backend)
        check_dynamic(self.dynamic)
        for name in ("fullgraph", "isolate_recompiles"):
            check_bool(name, getattr(self, name))
        for name in ("recompile_limit", "compile_after"):
            if (value := getattr(self, name)) is not None:
                check_count(name, value)
        if self.options is not None and not isinstance(self.options, Mapping):
            raise TypeError(f"options must be a dict, not {self.options!r}")
        if self.mode is not None and self.options is not None:
            raise RuntimeError(MODE_AND_OPTIONS)

    @property
    def key(self) -> Hashable:
        """Equal for options that ask for the same. A backend that is no name counts by identity."""
        backend = self.backend if self.backend is None or isinstance(self.backend, str) else id(self.backend)
        details = None if self.options is None else tuple(sorted((k, repr(v)) for k, v in self.options.items()))
        policy = self.recompile_limit, self.isolate_recompiles, self.compile_after
        return backend, self.fullgraph, self.dynamic, self.mode, details, policy


#: Those of torch.compiler.set_stance; `REFUSED_STANCES` are not offered.
STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")
REFUSED_STANCES = {
    "aot_eager_then_compile": "a first call under another backend would be a second compile of everything; "
    "there is 'eager_then_compile'",
}


@dataclass(frozen=True)
class Stance:
    """What is done with all that is compiled, from one moment on: see `tracer.set_stance`."""

    name: str = "default"
    backend: Backend | None = None

    def __post_init__(self) -> None:
        if self.name in REFUSED_STANCES:
            raise ValueError(f"the stance {self.name!r} is not offered: {REFUSED_STANCES[self.name]}")
        if self.name not in STANCES:
            raise ValueError(f"no such stance: {self.name!r}; there are {', '.join(STANCES)}")
        check_backend(self.backend)
        if self.backend is not None and self.name != "default":
            raise ValueError(f"force_backend goes with the stance 'default' only, not with {self.name!r}")

    @property
    def is_eager(self) -> bool:
        """Nothing is compiled, and what is compiled does not run."""
        return self.name == "force_eager"

    @property
    def compiles(self) -> bool:
        return self.name not in ("force_eager", "eager_on_recompile", "fail_on_recompile")


def check_backend(backend: object) -> None:
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a name or a callable, not {backend!r}")


def check_dynamic(dynamic: object) -> None:
    if dynamic is not None and type(dynamic) is not bool:
        raise TypeError(f"dynamic must be True, False or None, not {dynamic!r}")


def check_count(name: str, value: object, *, least: int = 1) -> None:
    if type(value) is not int or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, not {value!r}")


def check_bool(name: str, value: object) -> None:
    if type(value) is not bool:
        raise TypeError(f"{name} must be a bool, not {value!r}")
