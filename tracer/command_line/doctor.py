"""What torchgraft finds on this machine, what it would use, and why."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

import torch

from .. import backends, config, events, native
from ..backends.toolchain import missing_for_inductor
from ..dict_events import AVAILABLE as WATCHES_DICTS
from ..torch_private import cpp_compiler_command

#: Those who may have a tool id of sys.monitoring, by convention.
_USES = {0: "debugger", 1: "coverage", 2: "profiler", 5: "optimizer"}


def doctor() -> dict[str, str]:
    """Facts, each in a few words."""
    return {
        "Python": f"{platform.python_version()} ({sys.executable})",
        "torch": str(torch.__version__),
        "bytecode": metadata.version("bytecode"),
        "switched off by TORCHGRAFT": "yes: nothing is compiled" if config.switched_off() else "no",
        "C++ compiler": cpp_compiler_command() or "none found (set CXX to name one)",
        "default backend": _backend(),
        "CUDA": _gpu(),
        "function starts": _starts(),
        "monitoring tools in use": _tools(),
        "discovery": _discovery(),
        "guards on tensors": "native" if native.USE_NATIVE else "in plain Python, slower",
        "watched models": "yes" if WATCHES_DICTS else "no: dicts of this Python tell of no change; guards are asked",
        "logs": os.environ.get("TORCHGRAFT_LOGS") or "none (TORCHGRAFT_LOGS=breaks,recompiles)",
    }


def _backend() -> str:
    name = backends.lookup(None).name
    missing = missing_for_inductor()
    if missing is None:
        return f"{name}: a C++ compiler with Python's header files is there"
    return f"{name}: for inductor, install {missing}"


def _gpu() -> str:
    if not torch.cuda.is_available():
        return "none: graphs are compiled for the CPU" + ("" if torch.version.cuda else " (this torch is built for it)")
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{', '.join(names)} (CUDA {torch.version.cuda})"


def _starts() -> str:
    if events.cheap_starts() is None:
        return "seen by the slots: this Python has no sys.monitoring (3.12 has)"
    free = _free_ids()
    if not free:
        return "seen by the slots: no tool id of sys.monitoring is free"
    return f"sys.monitoring, tool id {free[0]}"


def _free_ids() -> list[int]:
    monitoring: Any = getattr(sys, "monitoring", None)
    return [] if monitoring is None else [tool for tool in (5, 3, 4) if monitoring.get_tool(tool) is None]


def _tools() -> str:
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return "this Python has none"
    taken = [
        f"{tool} ({_USES[tool]}): {name}" if tool in _USES else f"{tool}: {name}"
        for tool in range(6)
        if (name := monitoring.get_tool(tool)) is not None
    ]
    return ", ".join(taken) or "none"


def _discovery() -> str:
    if events.cheap_starts() is None:
        return "by sys.settrace: while it is on, a call of any Python function takes about 1 us more"
    if not _free_ids():
        return "not possible: no tool id of sys.monitoring is free; turn one of the tools off"
    return "by local events of sys.monitoring: functions that were decided cost nothing"
