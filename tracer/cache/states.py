"""What is compiled for one original code object under one set of options, and the private copies made for it."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Hashable, Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from rewriter.decode import Decoded, decode

from ..config import Options
from ..graph.capture import Compiling
from ..originals import original_code, remember
from ..torch_dynamo import hide_from_dynamo, never_traced_by_dynamo, show_to_dynamo
from .entries import EntryState, Region, Scouting
from .records import BreakRecord, Made, Recompile

if TYPE_CHECKING:
    from .registry import Registry


def put_on(function: FunctionType, grafted: CodeType) -> None:
    """It runs this code from now on, which TorchDynamo cannot read."""
    hide_from_dynamo(function)
    function.__code__ = grafted


class CodeState:
    """What is compiled for one original code object under one set of options."""

    def __init__(
        self,
        registry: Registry,
        original: CodeType,
        namespace: dict[str, Any],
        options: Options,
        start: int | None = None,
        muted: bool = False,
    ) -> None:
        self._registry = weakref.ref(registry)
        self._original = weakref.ref(original)
        self._keep: CodeType | None = None
        self._arming = 0
        self.name = original.co_qualname  # what messages call it
        self.filename = original.co_filename
        self.line = original.co_firstlineno
        #: it is nobody's own code (a model's root): messages give the line above for all of it
        self.stands_for_another = False
        self.globals = namespace
        self.options = options
        #: where the first entry stands, if not at the function's start
        self.start = start
        self.grafted: CodeType | None = None
        #: its slots are silent and its functions have their original code, until `unmute`
        self.muted = muted
        #: its calls are counted; it is not grafted yet, since they were too few (`compile_after`)
        self.cold = False
        self.called = 0
        self._calls = itertools.count(1)
        #: the code that has landings everywhere, with which the first calls run
        self.scouting: Scouting | None = None
        self.entries: dict[int, EntryState] = {}
        #: slots that are told when a place is reached where a region on trial ends
        self.stops: dict[int, FunctionType] = {}
        self.functions: dict[int, weakref.ref[FunctionType]] = {}
        self.breaks: dict[Hashable, BreakRecord] = {}
        self.recompiles: list[Recompile] = []
        self.errors: list[str] = []
        #: nobody asked for it: it was opted in by itself
        self.discovered = False
        #: and compiled no more, since it had nothing to compile
        self.given_up = False
        #: every region that it ever got, also those that went since
        self.made: list[Made] = []
        self.family = Family(self)

    def stand_for(self, name: str, function: Callable[..., Any]) -> None:
        """Messages speak of this function: what is compiled is a small one that calls it, and nobody wrote that."""
        self.name, code = name, getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            self.filename, self.line, self.stands_for_another = code.co_filename, code.co_firstlineno, True

    def place(self, line: int | None = None) -> str:
        """How messages begin: the function and a line of it, or its first one."""
        return f"{self.name} ({self.filename}:{self.line if line is None else line})"

    # the original code ----------------------------------------------------------------------------------------------
    @property
    def is_there(self) -> bool:
        """Has the code not gone, and with it all that can run it?"""
        return self._original() is not None

    @property
    def original(self) -> CodeType:
        code = self._original()
        if code is None:
            raise ReferenceError(f"the code of {self.name} is gone")
        return code

    @property
    def decoded(self) -> Decoded:
        return decode(self.original)

    @property
    def first(self) -> int:
        """Where the first entry stands."""
        return self.decoded.start if self.start is None else self.start

    @property
    def is_scouting(self) -> bool:
        return self.scouting is not None and not self.scouting.settled

    @property
    def regions(self) -> Iterator[Region]:
        for entry in self.entries.values():
            yield from entry.regions

    # functions ------------------------------------------------------------------------------------------------------
    def add(self, function: FunctionType) -> None:
        """This function object belongs to this state from now on."""
        self._arming += 1
        self._keep = self.original
        state = weakref.ref(self)
        key = id(function)

        def gone(ref: weakref.ref[FunctionType]) -> None:
            found = state()
            if found is not None and found.functions.get(key) is ref:
                del found.functions[key]
                found._if_unused()

        self.functions[key] = weakref.ref(function, gone)
        self._arming -= 1

    def remove(self, function: FunctionType) -> None:
        """It no longer does; the caller gives it other code."""
        if self.functions.pop(id(function), None) is not None:
            self._if_unused()

    def live_functions(self) -> list[FunctionType]:
        found = (reference() for reference in list(self.functions.values()))
        return [function for function in found if function is not None]

    def _if_unused(self) -> None:
        """Called when a function went, maybe by the garbage collector, in any thread, in the midst of anything."""
        if self.functions or self._arming:
            return
        # With it go the original code and so this state, unless somebody else holds that code: its parent's constants,
        # or the function of which this was a private copy.
        self._keep = None
        registry = self._registry()
        if self.options.isolate_recompiles and registry is not None:
            registry.drop(self)  # nobody else can come to have it

    # code -----------------------------------------------------------------------------------------------------------
    def use(self, grafted: CodeType) -> None:
        """Later calls of all functions run this code; frames that are running keep theirs."""
        original = self.original
        if grafted is not original:
            remember(grafted, original)
            never_traced_by_dynamo(grafted)
        self.grafted = grafted
        if self.muted:
            return
        for function in self.live_functions():
            if original_code(function.__code__) is original:  # else somebody gave it other code: leave it alone
                put_on(function, grafted)

    def restore(self) -> None:
        """Every function runs its original code again. Regions stay, for when it is armed again."""
        for function in self.live_functions():
            original = self.original
            if function.__code__ is not original and original_code(function.__code__) is original:
                function.__code__ = original
            show_to_dynamo(function)

    def count_call(self) -> int:
        """The number of a call that begins; no two threads get the same."""
        self.called = number = next(self._calls)
        return number

    def mute(self) -> None:
        """All runs plain, frames that are running included, until `unmute`; what is compiled stays.

        Functions that get their grafted code again are the caller's business.
        """
        self.muted = True
        for entry in list(self.entries.values()):
            entry.mute()
        self.restore()

    def unmute(self) -> None:
        self.muted = False
        for entry in list(self.entries.values()):
            entry.unmute()

    def drop_regions(self) -> None:
        for entry in list(self.entries.values()):  # what a region held may be the last of this state's functions
            entry.drop_regions()
        self.entries.clear()
        self.stops.clear()
        self.grafted = self.scouting = None
        self.cold, self.called, self._calls = False, 0, itertools.count(1)
        self.breaks.clear()
        self.recompiles.clear()
        self.errors.clear()
        self.made.clear()
        self.family.drop(self)


class Family:
    """The private copies of callees that one compile has made: one for each function, shared by all levels of calls.

    Copies are held by the regions that name them. A copy that calls itself holds itself through its own code, so the
    whole family's regions are dropped with its root.
    """

    def __init__(self, root: CodeState) -> None:
        self._root = weakref.ref(root)
        #: the model that is compiled in place, if it is one
        self.model: Callable[[], Any] = _no_model
        self.states: list[weakref.ref[CodeState]] = []
        #: by the identity of a function, or of a closure's code: that, its code, and its copy or what makes its copies
        self._copies: dict[int, tuple[weakref.ref[Any], weakref.ref[CodeType], weakref.ref[Any]]] = {}
        self.compiling = Compiling()
        #: how many captures were tried
        self.captures = 0
        #: by identity: the functions and codes in whose copies nothing was ever compiled
        self.idle: dict[int, weakref.ref[Any]] = {}

    def find(self, original: object, code: CodeType) -> Any:
        found = self._copies.get(id(original))
        if found is None or found[0]() is not original or found[1]() is not code:
            return None
        return found[2]()

    def keep(self, original: object, code: CodeType, copy: object) -> None:
        self._copies[id(original)] = weakref.ref(original), weakref.ref(code), weakref.ref(copy)

    def is_idle(self, original: object) -> bool:
        found = self.idle.get(id(original))
        return found is not None and found() is original

    @property
    def root(self) -> CodeState | None:
        return self._root()

    def live(self) -> list[CodeState]:
        found = (state() for state in self.states)
        return [state for state in found if state is not None and state.entries and state.is_there]

    def drop(self, root: CodeState) -> None:
        """The root goes: so does all that was made for it."""
        if self._root() is root:
            states, self.states = self.states, []
            self.compiling.fails = ""
            for reference in states:
                state = reference()
                if state is not None:
                    state.drop_regions()


def _no_model() -> None:
    return None
