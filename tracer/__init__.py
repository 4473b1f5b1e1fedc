"""torchgraft: PyTorch programs, captured in pure Python and grafted into their own bytecode as compiled regions."""

from .api import (
    compile,
    counters,
    disable,
    discovered,
    explain,
    explain_recompiles,
    install,
    installed,
    is_compiling,
    listen,
    mark_dynamic,
    mark_static,
    maybe_mark_dynamic,
    on_capture,
    original,
    reset,
    set_logs,
    set_stance,
    uninstall,
)
from .errors import GraphBreak, RecompileError, RecompileLimit, TorchgraftError
from .listener import Listener
from .scanner import scan
from .steps_page import visualize

__all__ = [
    "GraphBreak", "Listener", "RecompileError", "RecompileLimit", "TorchgraftError", "compile", "counters", "disable",
    "discovered", "explain", "explain_recompiles", "install", "installed", "is_compiling", "listen", "mark_dynamic",
    "mark_static", "maybe_mark_dynamic", "on_capture", "original", "reset", "scan", "set_logs", "set_stance",
    "uninstall", "visualize",
]  # fmt: skip
