"""The frozen result of one capture: everything the region's text is written from, and nothing of the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ..config import DEFAULT_UNROLL_LIMIT
from ..errors import GraphBreak
from ..sources import Source
from .shapes import History, Shapes

if TYPE_CHECKING:
    from rewriter.decode import Decoded
    from rewriter.region import EntryLayout

    from ..guards import Guard
    from .builder import FxCapture


@dataclass(frozen=True)
class Exit:
    """Where the region ends: a landing, and expressions for its locals and its stack, in the layout's order.

    locals: the names of the locals, which the first values are for.
    full: it binds locals too that nobody reads any more, by the full landing (see `landing_layout`).
    """

    landing: int
    values: tuple[str, ...]
    locals: tuple[str, ...] = ()
    full: bool = False

    @property
    def number(self) -> int:
        """What the slot answers with."""
        return ~self.landing if self.full else self.landing


@dataclass(frozen=True, eq=False)
class Callee:
    """A constant in `Capture.constants` that stands for a private grafted copy of a plain Python function.

    It goes onto the landing's stack in the function's stead when an inlined call broke: `translate` makes the copy, one
    for each function and compile, so that nobody else's calls of that function change.
    """

    function: FunctionType

    @property
    def original(self) -> object:
        """What the copies are known by."""
        return self.function


@dataclass(frozen=True, eq=False)
class ClosureCallee:
    """A constant that stands for what is given a function object with this code, and gives its private copy.

    For callees that are another object at each call: closures, and what the region makes itself.
    """

    code: CodeType
    globals: dict[str, Any] = field(repr=False)

    @property
    def original(self) -> object:
        return self.code


@dataclass
class Compiling:
    """What a function and the private copies of its callees are told when they ask whether they are compiled.

    fails: what the program raised, and where, when it was told so; it is not any more. Empty where it is.
    """

    fails: str = ""


@dataclass(frozen=True)
class Request:
    """What one capture is asked: an entry, the live objects its slot was given, and what is known already.

    arguments: in the order of `layout.parameters`.  closure cells are passed as cells.
    history: what earlier captures of this entry have seen of the sizes of tensors.
    float_symbols: the backend may take Python floats as inputs; where it can't say, `history` knows if it refused.
    changing: texts of sources whose numbers are expected to change from call to call, or have changed.
    capture_scalars, capture_sizes: numbers that are read from tensors, and results whose size depends on their values,
    stay in the graph.
    unroll_limit: how many nodes of the graph one loop may be unrolled into; beyond, it runs for real.
    compiling: what the program is told when it asks whether it is compiled.
    """

    decoded: Decoded
    layout: EntryLayout
    arguments: tuple[object, ...]
    globals: dict[str, Any]
    #: the code that the user wrote, for a function which may be grafted
    original_code: Callable[[FunctionType], CodeType] = attrgetter("__code__")
    fullgraph: bool = False
    dynamic: bool | None = None
    changing: frozenset[str] = frozenset()
    float_symbols: bool = False
    history: History = field(default_factory=History)
    unroll_limit: int = DEFAULT_UNROLL_LIMIT
    capture_scalars: bool = False
    capture_sizes: bool = False
    compiling: Compiling = field(default_factory=Compiling)
    #: makes the attempts of a capture that is listened to; None: nobody listens
    attempt: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Capture:
    """One captured region before its graph is compiled.

    inputs: a source for each of the graph's inputs, in the order the compiled callable takes them.
    outputs: the names (`t0`, `t1`, ...) that effects and exit use for the tensors that the callable returns, in order.
    setup: statements that build new objects (`v0 = [t0, 1]`), run after the graph; then `effects`, in order.
    constants: every `k_*` name that the texts use and that isn't a guard's own.
    graph_break: why the region ends here; None for a return or a boundary that isn't the user's concern.
    goes_on: where the next region may begin, if not where this one ends.
    spares: there is no graph, since nobody needs what the captured operators compute.
    passed_by: where execution would have gone on at the branches of the function that were taken the other way.
    shapes: the symbols among sizes and numbers, if there are any.
    remark: what `explain` says of how it was captured.
    can_retry: the graph can be dropped when it raises, and the original bytecode run from the entry instead.
    expected: outputs and the truth value that each must have: else the original bytecode runs, and raises.
    """

    entry: int
    guards: tuple[Guard, ...]
    #: names for what exit and effects read from outside, fetched before the graph call: raising there is a miss
    fetches: tuple[tuple[str, Source], ...]
    graph: FxCapture | None
    inputs: tuple[Source, ...]
    outputs: tuple[str, ...]
    setup: tuple[str, ...]
    effects: tuple[str, ...]
    exit: Exit
    constants: dict[str, Any] = field(repr=False)
    graph_break: GraphBreak | None = None
    can_retry: bool = True
    expected: tuple[tuple[str, bool], ...] = ()
    goes_on: int | None = None
    spares: bool = False
    passed_by: tuple[int, ...] = ()
    remark: str = ""
    #: dicts from outside that the effects change at every call
    written: tuple[Source, ...] = ()
    inlined: tuple[Any, ...] = field(default=(), repr=False)
    shapes: Shapes | None = field(default=None, repr=False)

    def with_shape_guards(self) -> Capture:
        """With what must hold of symbolic sizes: known once the graph is compiled, for the backend decides too."""
        if self.shapes is None:
            return self
        return replace(self, guards=(*self.guards, *self.shapes.guards()), shapes=None)
