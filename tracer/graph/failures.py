"""Why a call failed on fake tensors: fakes cannot do it, or it is wrong on real tensors too."""

from __future__ import annotations

from typing import Any

from ..errors import GraphBreak, OperatorFailed
from ..torch_private import DATA_DEPENDENT, UNSUPPORTED

#: parts of messages by which torch says that a fake tensor has no memory
_NO_MEMORY = ("data pointer", "not supported for tensor subclasses", "Cannot access storage", "is not allocated")


def explained(error: Exception, target: Any) -> GraphBreak | OperatorFailed:
    """The exception to raise in place of one that came from a call on fakes."""
    name = target if isinstance(target, str) else getattr(target, "__name__", repr(target))
    cause: BaseException = error
    while cause.__cause__ is not None and not isinstance(cause, DATA_DEPENDENT + UNSUPPORTED):
        cause = cause.__cause__
    message = _first_line(cause)
    if isinstance(cause, DATA_DEPENDENT):
        return GraphBreak("shape depends on a tensor's values", f"{name}: {message}")
    if isinstance(cause, UNSUPPORTED):
        return GraphBreak("operator has no fake kernel", f"{name}: {message}")
    if isinstance(error, NotImplementedError):
        return GraphBreak("operator has no fake kernel", f"{name}: {_first_line(error)}")
    if isinstance(error, RuntimeError) and any(part in str(error) for part in _NO_MEMORY):
        return GraphBreak("tensor memory is accessed", f"{name}: {_first_line(error)}")
    return OperatorFailed(error)


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
