"""From what users write for `backend=` to a `Backend`: a name that torch.compile knows, or a callable."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx

from .. import log, torch_inductor, torch_private, torch_replay
from ..config import MODE_AND_OPTIONS
from .replay.options import OWN_KEYS, ReplayOptions, split
from .toolchain import missing_for_inductor

#: torch.compile's contract: (graph, example inputs) -> a callable that takes the flat tensors and returns a tuple
CompilerFunction = Callable[[torch.fx.GraphModule, list[torch.Tensor]], Callable[..., Sequence[torch.Tensor]]]


@dataclass(frozen=True, slots=True)
class Backend:
    """A compiler with its name.

    plain: it runs the graph's own Python, so there is nothing to compile.
    merges: its results may share memory that eager's don't (see fresh.py).
    tried: its small regions are tried against the original bytecode: they are compiled for nothing but speed.
    replay: what `inner` compiles is recorded and replayed (see replay/).
    """

    name: str
    compiler: CompilerFunction
    plain: bool = False
    merges: bool = False
    tried: bool = False
    replay: ReplayOptions | None = None
    inner: Backend | None = None


def _forward(module: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Callable[..., Any]:
    return torch_private.forward_of(module)


def _eager(mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Backend:
    if mode not in (None, "default") or options:
        log.backend.warning("the eager backend has no modes and no options: they are ignored")
    return Backend("eager", _forward, plain=True)


def _inductor(mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Backend:
    """Where CUDA graphs are asked for ("reduce-overhead", "max-autotune", an option) they are ours, not Inductor's."""
    replay, rest = split(options, everywhere=False, told=True)
    if not torch_replay.asks_for_cudagraphs(torch_private.inductor_backend(mode, rest, dynamic)):
        return _inductor_alone(mode, options, dynamic)
    inner = _inductor_alone(mode, rest, dynamic)
    torch_replay.without_cudagraphs(inner.compiler)
    return replace(inner, replay=replay, inner=inner)


def _inductor_alone(mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Backend:
    compiler = torch_inductor.with_known_installation(torch_private.inductor_backend(mode, options, dynamic))
    return Backend("inductor", compiler, merges=True, tried=True)


def _replayed(
    name: str, mode: str | None, options: dict[str, Any] | None, dynamic: bool | None, *, everywhere: bool
) -> Backend:
    """options: `inner` names the backend whose callable is recorded; what is not replay's is for that one."""
    given = dict(options or {})
    chosen = given.pop("inner", None)
    replay, rest = split(given, everywhere=everywhere)
    if chosen == "inductor" or (chosen is None and _has_inductor()):
        inner = _inductor_alone(mode, rest, dynamic)
        torch_replay.without_cudagraphs(inner.compiler)
    elif chosen is None:
        inner = _stand_in(mode, rest, dynamic)
    else:
        inner = lookup(chosen, mode=mode, options=rest, dynamic=dynamic)
    if inner.replay is not None:
        raise ValueError(f"{inner.name} is replayed itself: it cannot be the inner backend of {name}")
    return replace(inner, name=name, replay=replay, inner=inner)


def _cudagraph(mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Backend:
    return _replayed("cudagraph", mode, options, dynamic, everywhere=True)


def _auto(mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Backend:
    """Inductor, and replay for regions whose tensors are on CUDA."""
    return _replayed("auto", mode, options, dynamic, everywhere=False)


#: what is made here rather than found in torch's registry: name -> maker(mode, options, dynamic)
BUILT_IN: dict[str, Callable[[str | None, dict[str, Any] | None, bool | None], Backend]] = {
    "auto": _auto,
    "cudagraph": _cudagraph,
    "eager": _eager,
    "inductor": _inductor,
}


def names() -> list[str]:
    """Every name that `lookup` takes."""
    return sorted({*BUILT_IN, *torch_private.named_backends()})


def lookup(
    backend: str | CompilerFunction | Backend | None,
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
) -> Backend:
    """The backend for a name or callable, None for the default one. Mode and options are torch.compile's.

    Raises ValueError for an unknown name, and what torch.compile raises for mode or options that a backend refuses.
    """
    if isinstance(backend, Backend):
        return backend
    if mode is not None and options is not None:
        raise RuntimeError(MODE_AND_OPTIONS)
    if backend is None:
        about_replay = not OWN_KEYS.isdisjoint(options or ())
        if not about_replay and not torch.cuda.is_available():
            return (_inductor if _has_inductor() else _stand_in)(mode, options, dynamic)
        backend = "auto"
    if isinstance(backend, str):
        if backend in BUILT_IN:
            return BUILT_IN[backend](mode, options, dynamic)
        if backend not in names():
            raise ValueError(f"no backend is named {backend!r}; there are {', '.join(names())}")
        return Backend(backend, torch_private.registered_backend(backend, mode, options))
    if not callable(backend):
        raise TypeError(f"a backend is a name or a callable, not {type(backend).__qualname__}")
    name = getattr(backend, "__name__", None) or type(backend).__qualname__
    return Backend(name, torch_private.registered_backend(backend, mode, options))


def _stand_in(mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Backend:
    """What runs where Inductor cannot: it has no modes and no options, and wrong ones are told all the same."""
    torch_private.inductor_backend(mode, options, dynamic)
    return lookup("aot_eager")


@functools.cache
def _has_inductor() -> bool:
    missing = missing_for_inductor()
    if missing is not None:
        log.root.warning("backend 'aot_eager' instead of 'inductor': to compile kernels, install %s", missing)
    return missing is None
