"""torchgraft: PyTorch programs, captured in pure Python and grafted into their own bytecode as compiled regions."""

from .api import (
    compile,
    counters,
    disable,
    explain,
    install,
    installed,
    is_compiling,
    original,
    reset,
    uninstall,
)
from .errors import GraphBreak, TorchgraftError

__all__ = [
    "GraphBreak", "TorchgraftError", "compile", "counters", "disable", "explain", "install", "installed",
    "is_compiling", "original", "reset", "uninstall",
]  # fmt: skip
