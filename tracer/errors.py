"""What can go wrong, as types: "we cannot capture this", "the user's code raised" and "our own bug" are never mixed up.

Only `GraphBreak` (with `fullgraph=True`) and the user's own exceptions ever reach the user; all else is logged, and the
original bytecode runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .breaks import hint_for


@dataclass(frozen=True, slots=True)
class UserLine:
    """A line of the user's program, as a traceback names it."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} in {self.function}"


#: what lies in here is torch's own
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")


def is_torchs(filename: str) -> bool:
    return filename.startswith(_TORCH)


def users_line(stack: Sequence[UserLine]) -> UserLine | None:
    """Of lines, outermost first, the innermost that is not torch's own; or the innermost, if all are; or None."""
    return next((line for line in reversed(stack) if not is_torchs(line.filename)), stack[-1] if stack else None)


def told_where(stack: Sequence[UserLine]) -> str:
    """The user's line, and where in torch that is about."""
    line = users_line(stack)
    if line is None or line is stack[-1]:
        return "" if line is None else str(line)
    inner = stack[-1]
    return f"{line} (in torch, at {inner.filename.removeprefix(_TORCH)}:{inner.line} in {inner.function})"


class TorchgraftError(Exception):
    """Base of everything torchgraft raises by itself."""


class GraphBreak(TorchgraftError):
    """Capture cannot go past this point; the original instruction runs instead.

    title: one of `breaks.BREAKS`, to count by.  details: this case.  hint: what the user can do (the title's own).
    stack: the user's lines, outermost first; filled in by the interpreter.
    """

    def __init__(self, title: str, details: str = "", hint: str = "") -> None:
        super().__init__(title, details, hint)
        self.title = title
        self.details = details
        self.hint = hint or hint_for(title)
        self.stack: tuple[UserLine, ...] = ()
        #: the root instruction behind which the region must end, if the break forbids that it goes on to here
        self.end_behind: int | None = None
        #: it is in a function that the call was given, and the call may get a private copy of that
        self.in_given_function = False
        #: the canonical index of the root instruction that broke; None: the entry itself
        self.at: int | None = None
        #: as `Capture.passed_by`
        self.passed_by: tuple[int, ...] = ()
        #: the program raises here, and what it called does so by itself: it needs no private copy
        self.is_raised = False

    def __str__(self) -> str:
        lines = [f"graph break: {self.title}" + (f": {self.details}" if self.details else "")]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.stack:
            lines.append("  user's stack, innermost last:")
            lines += [f"    {line}" for line in self.stack]
        return "\n".join(lines)


class OperatorFailed(TorchgraftError):
    """An operator refused its arguments on fake tensors, as it would on real ones: the user's own error.

    The original bytecode must run and raise it at its own line. `original` is the exception.
    """

    def __init__(self, original: BaseException) -> None:
        super().__init__(f"{type(original).__name__}: {original}")
        self.original = original
        #: the user's lines where it was raised, outermost first
        self.stack: tuple[UserLine, ...] = ()


class BackendFailed(TorchgraftError):
    """A backend could not compile a graph; names the backend, the cause is chained."""

    def __init__(self, backend: str, original: BaseException) -> None:
        super().__init__(f"backend {backend!r} failed: {type(original).__name__}: {original}")
        self.backend = backend
        self.original = original


class InternalError(TorchgraftError):
    """A contract inside torchgraft does not hold: our bug. Logged; the function runs plain."""


class CaptureAnew(TorchgraftError):
    """Something was learnt that this attempt should have known from the start: the capture begins anew, knowing it."""


class FailsCompiled(CaptureAnew):
    """The program asked whether it is compiled, was told so, and raised: as it runs plain it may take another way."""


class MustBeStatic(TorchgraftError):
    """The sizes of these real tensors cannot be symbols, for what the graph does with them."""

    def __init__(self, *tensors: Any) -> None:
        super().__init__("sizes cannot be symbols")
        self.tensors = tensors


class InputComesLate(CaptureAnew):
    """A tensor became an input whose memory another input shares, which by then had another shape or history."""

    def __init__(self, tensor: Any) -> None:
        super().__init__("its fake must be made before anything is recorded")
        self.tensor = tensor


class CannotUndo(TorchgraftError):
    """A mark cannot take back what was done since: the capture must begin anew with a break noted."""


class RecompileError(TorchgraftError, RuntimeError):
    """A recompile was needed that the user forbade: by `error_on_recompile`, or the stance "fail_on_recompile".

    A RuntimeError, as torch.compile's is; so is `RecompileLimit`.
    """


class RecompileLimit(TorchgraftError, RuntimeError):
    """A function reached its limit of regions and was asked to fail then."""


def forget_frames(error: BaseException) -> None:
    """Let go of the frames that an error of a capture has passed, and of those that its causes have.

    Frames hold the error in their variables as well, so only the collector would free them, and with them the user's
    objects: a generator would be closed, a file written, too late. Other people's errors in the chain are left alone.
    """
    chained: BaseException | None = error
    while chained is not None and type(chained).__module__.startswith(_PACKAGE):
        following = chained.__cause__ or chained.__context__
        chained.__traceback__ = chained.__cause__ = chained.__context__ = None
        chained = following


_PACKAGE = f"{__name__.partition('.')[0]}."
