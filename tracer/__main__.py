"""`python -m tracer doctor` says what torchgraft finds and would use; `python -m tracer breaks` writes BREAKS.md."""

from __future__ import annotations

import argparse
import platform
import sys
from typing import Any

import torch

from . import backends, config, events
from .breaks_page import EXAMPLES, page


def doctor() -> dict[str, str]:
    """Facts, each in a few words."""
    monitoring: Any = getattr(sys, "monitoring", None)
    facts = {
        "Python": f"{platform.python_version()} ({sys.executable})",
        "torch": str(torch.__version__),
        "switched off by TORCHGRAFT": "yes" if config.switched_off() else "no",
        "function starts": "seen by the slots" if events.cheap_starts() is None else "sys.monitoring",
        "default backend": backends.lookup(None).name,
        "CUDA": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
    }
    if monitoring is not None:
        taken = [f"{tool}: {name}" for tool in range(6) if (name := monitoring.get_tool(tool)) is not None]
        facts["monitoring tools in use"] = ", ".join(taken) or "none"
    return facts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tracer", description="Tools of torchgraft.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="what torchgraft finds on this machine, and what it would use")
    commands.add_parser("breaks", help="the page of every graph break (BREAKS.md), whose programs are run for it")
    if parser.parse_args(arguments).command == "breaks":
        print(page(EXAMPLES), end="")
        return 0
    facts = doctor()
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:{width}}  {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
