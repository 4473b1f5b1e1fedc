"""The data that pass between capture and graft, and the errors of this package.

A slot is called with what `EntryLayout` names, and answers None or a tuple that `LandingLayout` describes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .instructions import RewriterError


class Sentinel(enum.Enum):
    """Objects which stand for "no value" in what a slot is given and in what it returns."""

    KEEP = "KEEP"  # returned for a checked local: leave it as it is
    UNBOUND = "UNBOUND"  # given: the local is unbound; returned for a checked local: unbind it
    NONE = "NONE"  # the answer of a direct slot that stands for None, which would say to go on

    def __repr__(self) -> str:
        return self.name


KEEP = Sentinel.KEEP
UNBOUND = Sentinel.UNBOUND
NONE = Sentinel.NONE


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """What the entry at `index` passes to its slot: locals, then cells, then the stack's objects, bottom first."""

    index: int
    locals: tuple[str, ...]
    checked: frozenset[str]  # of locals: those which may be unbound here, passed as UNBOUND then
    cells: tuple[str, ...]
    stack: tuple[bool, ...]  # False: a NULL, which is not passed
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LandingLayout:
    """What a slot returns to land: the index, then these locals, then the stack's objects, bottom first."""

    index: int  # ~index for a full landing
    locals: tuple[str, ...]
    checked: frozenset[str]  # of locals: those which need not be bound here; KEEP and UNBOUND are allowed
    stack: tuple[bool, ...]  # False: a NULL, which is not returned

    @property
    def width(self) -> int:
        """The length of the tuple."""
        return 1 + len(self.locals) + sum(self.stack)


class TextError(RewriterError):
    """Region text that cannot become a slot."""


class GraftError(RewriterError):
    """A graft that was asked for and cannot be made."""


class NotEnterable(GraftError):
    """An entry was asked for where there can be none."""


class NotLandable(GraftError):
    """A landing was asked for where there can be none."""


class LandingContext(GraftError):
    """A landing stands in another exception-handling context than the entry that exits to it."""


class SlotMismatch(GraftError):
    """A slot, or code to inline, does not take what the entry passes."""


class UnitMismatch(GraftError):
    """decode.py and units.py disagree about the instructions of a code object: a bug here."""


class WrongExit(RewriterError):
    """Raised by a graft at run time: a region returned a landing that its entry does not have."""


class VerifyError(RewriterError):
    """A grafted code object that is not well formed. Each way has its own class."""


class UnknownOpcode(VerifyError):
    """An opcode which the running Python lacks, or which never belongs into a code object."""


class WildJump(VerifyError):
    """A jump, a handler or the end of the code that leads to no instruction."""


class StackMismatch(VerifyError):
    """The stack is too shallow, too deep, or of different depths where paths join."""


class WrongStackSlot(VerifyError):
    """A NULL, exception state or object where the instruction wants another of these."""


class UnboundLocal(VerifyError):
    """A local is read without a check where it may be unbound, or stands unbound at a landing that needs it."""


class HandlerMismatch(VerifyError):
    """An instruction lost its exception handler, or the handler's depth or lasti differs from the original's."""


class BodyMismatch(VerifyError):
    """The original's instructions, flags, names or signature are not all there, in order."""
