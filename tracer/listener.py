"""What may be told of a capture while it runs: the public base class `Listener`, and what it is told, as plain data.

`tracer.listen(listener)` turns it on; `interpreter/listening.py` tells. Nothing here holds an object of the user's:
values are told as text, in words, with where they come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType

from .errors import UserLine


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as the interpreter sees it, in words.

    kind: "tensor", "constant", "list", "NULL", ..., or its type, for an object from outside that nobody has looked at.
    text: it, plainly: `float32 [4, 8]`, `3`, `function relu`.
    source: the Python expression that fetches it anew at each call; "" for what was made since.
    node: of a tensor, its node in the graph.
    """

    kind: str
    text: str
    source: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """A capture begins, or begins anew (`attempt` counts from 1).

    code: the function's own, as its author wrote it.  entry: the canonical index of the instruction where it begins.
    """

    function: str
    filename: str
    line: int
    code: CodeType
    entry: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Step:
    """A canonical instruction, about to be read or just read. `index` and `offset` say where it stands in `code`.

    depth: 0 in the captured function, 1 in what it calls, ...  arg: its argument in words.
    positions: (line, end line, column, end column) in the source.
    stack: bottom first.  locals: those that are bound; for one that closures share, what its cell holds.
    """

    depth: int
    function: str
    code: CodeType
    index: int
    offset: int
    opname: str
    arg: str
    positions: tuple[int | None, int | None, int | None, int | None]
    stack: tuple[Shown, ...]
    locals: dict[str, Shown]


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A node of the graph. op: torch.fx's.  text: it as a line of Python.  inputs: the nodes that it takes.

    shape, dtype: of its result, "" where that is no single tensor.  source: the expression that fetches an input.
    """

    name: str
    op: str
    target: str
    text: str
    inputs: tuple[str, ...]
    shape: str = ""
    dtype: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class GuardAdded:
    """What must hold at a later call: the kind of check, the source it looks at, and the user's line that needs it."""

    kind: str
    source: str
    text: str
    needed_by: UserLine | None


@dataclass(frozen=True, slots=True)
class ConstantAdded:
    """An object that the region's text names: its `k_*` name and what it is, in words."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The capture went back to a mark: these nodes, so many guards at the end of all, are of the region no more."""

    nodes: tuple[str, ...]
    guards: int


@dataclass(frozen=True, slots=True)
class Broke:
    """A graph break. stack: the user's lines, outermost first.  at: the canonical index in the captured function."""

    title: str
    details: str
    hint: str
    stack: tuple[UserLine, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Restarted:
    """What was captured so far is thrown away: something was learnt that must be known from the start."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The capture is over. landing: the canonical index where the original bytecode goes on; None: there is no region.

    nodes, guards: those that stay. What nobody needs, and what follows from another guard, was left out.
    """

    landing: int | None
    nodes: tuple[str, ...] = ()
    guards: tuple[GuardAdded, ...] = ()


class Listener:
    """Is told what a capture does, while it does it; override what you want to know of.

    Called in the thread that captures, within the user's call: be quick, and change nothing. What a listener raises is
    logged (`tracer.errors`), and it hears no more of that capture. What an instruction adds is told between its
    `before` and its `after`: guards in their order, then constants, then nodes. One that breaks has no `after`.

    wants_values: False where nobody looks at the stack and the locals of steps. They are empty then, unless somebody
    else listens too: to put them into words takes most of the time.
    """

    wants_values: bool = True

    def begins(self, begun: Begun) -> None:
        """A capture begins, or begins anew."""

    def before(self, step: Step) -> None:
        """An instruction is about to be read: the stack and the locals before it."""

    def after(self, step: Step) -> None:
        """It was read: the stack and the locals behind it. For a call that is read into, behind all of the callee."""

    def guard(self, added: GuardAdded) -> None:
        """A guard was asked for."""

    def constant(self, added: ConstantAdded) -> None:
        """The region needs a constant."""

    def node(self, added: NodeAdded) -> None:
        """The graph got a node."""

    def taken_back(self, taken: TakenBack) -> None:
        """Nodes and guards were dropped again, in front of an end or since a call is not to be read into."""

    def broke(self, broke: Broke) -> None:
        """The capture cannot go on here."""

    def restarts(self, restarted: Restarted) -> None:
        """The capture will begin anew."""

    def ends(self, ended: Ended) -> None:
        """The capture is over."""


__all__ = [
    "Begun", "Broke", "ConstantAdded", "Ended", "GuardAdded", "Listener", "NodeAdded", "Restarted", "Shown", "Step",
    "TakenBack",
]  # fmt: skip
