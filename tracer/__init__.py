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
    mark_dynamic,
    mark_static,
    maybe_mark_dynamic,
    original,
    reset,
    set_logs,
    set_stance,
    uninstall,
)
from .errors import GraphBreak, RecompileError, RecompileLimit, TorchgraftError

__all__ = [
    "GraphBreak", "RecompileError", "RecompileLimit", "TorchgraftError", "compile", "counters", "disable",
    "discovered", "explain", "explain_recompiles", "install", "installed", "is_compiling", "mark_dynamic",
    "mark_static", "maybe_mark_dynamic", "original", "reset", "set_logs", "set_stance", "uninstall",
]  # fmt: skip
