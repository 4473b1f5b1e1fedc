"""Watches the starts of functions and decides which are opted in.

The outermost function with tensors in hand is opted in when it first starts, since what it calls is captured with it.
What starts within it waits, unless it starts again and again from one place of one frame, with the same module in hand:
that is a training loop, whose frame runs as it began, so what it calls is opted in by itself. What runs while a module
is made runs once, and does not count. Once decided, a function is watched no longer and costs nothing.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from .. import config, log
from ..events import FunctionStarts
from ..holding import type_mro
from ..originals import original_code
from ..signals import raised_by_signal
from ..torch_dynamo import WRAPPERS
from .codes import codes_within, functions_of_module, functions_running, is_function, is_making_module
from .hands import Hands, in_hand
from .importing import Finder
from .report import Discovered, FoundFunction
from .targets import Filter, Target, Targets, codes_of, is_never

#: A function that started so often without a tensor in hand has none.
IDLE = 64
#: Starts from one place of a frame that go on as it began: with the same module in hand, and with none.
AGAIN, AGAIN_WITHOUT_MODULE = 2, 32
#: A function that started so often within others that were opted in is left to them.
WITHIN = 1000
#: So often function objects of one nested function are searched for: each call of the parent makes another one.
SEARCHES = 8
#: How many frames outwards are looked at.
_FRAMES = 200
#: What runs under these is disabled there, or compiled by torch.compile.
_TORCHS_OR_DISABLED = (WRAPPERS, "tracer.api.disabling")

#: Opts a function in. An empty string, or why not.
OptIn = Callable[[FunctionType], str]


@dataclass(slots=True, eq=False)
class Watched:
    """A code object. starts, empty: how often it started with tensors in hand, and without.

    again: by what was in hand and where it was called from, how often.  chosen: function objects that were opted in.
    """

    code: weakref.ref[CodeType]
    module: str
    starts: int = 0
    empty: int = 0
    again: dict[Any, int] = field(default_factory=dict)
    searches: int = 0
    chosen: bool = False
    decided: bool = False
    why: str = ""

    @property
    def is_left_out(self) -> bool:
        """It had tensors in hand and will never be compiled: what it calls is on its own."""
        return self.decided and not self.chosen


class Discovery:
    """One for a process. busy: must nothing be decided now, since this thread compiles or may not compile?"""

    def __init__(self, starts: FunctionStarts, opt_in: OptIn, busy: Callable[[], bool]) -> None:
        self._starts, self._opt_in, self._busy = starts, opt_in, busy
        self._targets = Targets()
        self._filters: list[Filter] = []
        self._finder = Finder(self._targets.may_want, self._imported, self._has_run)
        self._watched: dict[int, Watched] = {}
        watched = self._watched

        def gone(ref: Any) -> None:
            key: int = ref.key
            if key in watched and watched[key].code is ref:
                del watched[key]

        self._gone = gone  # one for all: there may be ten thousand
        self._modules: dict[str, None] = {}
        #: those that were opted in here, which `stop` gives back
        self.functions: list[weakref.ref[FunctionType]] = []
        self._lock = threading.RLock()
        self._choosing = threading.Lock()

    def after_fork(self) -> None:
        """In the child: a thread that decided is not there to let go of a lock."""
        self._lock, self._choosing = threading.RLock(), threading.Lock()

    # what is watched ------------------------------------------------------------------------------------------------
    def add(self, targets: Iterable[Target] | Target, filter_: Filter | None = None) -> None:
        """Watch these too: what is imported already now, what comes later before it runs."""
        functions = self._targets.add(targets)
        if filter_ is not None:
            self._filters.append(filter_)
        self._starts.get_ready()
        for function in functions:
            for code in codes_of([function], original_code):
                self._watch(code, function.__globals__.get("__name__", ""))
        running = {id(frame.f_globals): frame.f_code for frame in _module_frames()}
        for name, module in list(sys.modules.items()):
            if self._targets.may_want(name) and type_mro(type(module))[-2:-1] == (ModuleType,):
                self._present(module, running.get(id(module.__dict__)))
        self._finder.install()

    def _present(self, module: ModuleType, running: CodeType | None) -> None:
        """A module that was imported before, or is being imported: then its code says what is still to come."""
        own = (f for f in functions_of_module(module) if not is_never(f.__globals__.get("__name__", "")))
        found = list(codes_of(own, original_code))
        found += [] if running is None else codes_within(running)
        if self._targets.wants(module.__name__, module.__dict__.get("__file__"), found):
            for code in found:
                self._watch(code, module.__name__)

    def _imported(self, name: str, filename: str | None, code: CodeType) -> None:
        """A module is about to run."""
        try:
            if self._targets.wants(name, filename, [code]):
                for inner in codes_within(code):
                    self._watch(inner, name)
        except Exception as error:
            self._told(f"{name} ({filename}:1)", error)

    def _has_run(self, module: ModuleType) -> None:
        """A module has run whose loader does not show its code."""
        try:
            if self._targets.may_want(module.__name__):
                self._present(module, None)
        except Exception as error:
            self._told(f"{module.__name__} ({module.__dict__.get('__file__')}:1)", error)

    def watch_code(self, code: CodeType, module: str) -> None:
        """Watch all functions of a module whose code somebody else is about to run."""
        for inner in codes_within(code):
            self._watch(inner, module)

    def _watch(self, code: CodeType, module: str) -> None:
        if not is_function(code):
            return
        with self._lock:
            found = self._watched.get(id(code))
            if found is not None and found.code() is code:
                return
            self._watched[id(code)] = Watched(weakref.KeyedRef(code, self._gone, id(code)), module)
            self._modules.setdefault(module)
            self._starts.watch(code, self._on_start)

    def stop(self, *, close: bool) -> list[FunctionType]:
        """Watch nothing any more. Gives the functions that were opted in. close: nobody else uses its `starts`."""
        self._finder.remove()
        with self._lock:
            for found in list(self._watched.values()):
                code = found.code()
                if code is not None:
                    self._starts.forget(code)
            if close:
                self._starts.close()
            self._watched.clear()
            functions, self.functions = self.functions, []
        return [function for ref in functions if (function := ref()) is not None]

    def keep(self, function: FunctionType) -> None:
        """The program itself compiles this function: it is not given back."""
        self.functions = [ref for ref in self.functions if ref() is not function]

    # decisions ------------------------------------------------------------------------------------------------------
    def _on_start(self, code: CodeType, frame: FrameType) -> bool:
        """A watched function starts. True: it need not be told again."""
        found = self._watched.get(id(code))
        if found is None or found.decided:
            return True
        if self._busy():
            return False
        try:
            return self._decide(found, code, frame)
        except Exception as error:
            if raised_by_signal(error) or config.strict():
                raise
            self._told(_place(code), error)
            return self._settle(found, f"failed: {type(error).__name__}: {log.one_line(error)}")

    def _decide(self, found: Watched, code: CodeType, frame: FrameType) -> bool:
        hands = in_hand(code, frame, keep_snapshot=self._starts.writes_locals_back)
        if not hands.tensors:
            found.empty += 1
            return found.empty >= IDLE and not found.starts and self._settle(found)
        if not found.chosen and self._waits(found, frame, hands):
            return found.decided
        if not self._choosing.acquire(blocking=False):
            return False  # another thread is at it; the next start will do
        try:
            return found.decided or self._choose(found, code, frame, hands)
        finally:
            self._choosing.release()

    def _waits(self, found: Watched, frame: FrameType, hands: Hands) -> bool:
        """Is it left to what it runs within, for now or for good?"""
        outer = _outer(frame, self._watched)
        if outer is not None and is_making_module(outer):
            return True
        found.starts += 1
        if outer is None or self._again(found, outer, hands):
            return False
        if outer.f_globals.get("__name__") in _TORCHS_OR_DISABLED:
            return self._settle(found, "disabled, or compiled by torch.compile")
        found.why = f"within {outer.f_code.co_qualname}, which is captured with what it calls"
        found.decided = found.starts >= WITHIN
        return True

    def _again(self, found: Watched, outer: FrameType, hands: Hands) -> bool:
        """Does it start once more from the same place of the same frame, which goes on as it began?"""
        if outer.f_globals.get("__name__") in _TORCHS_OR_DISABLED:
            return False
        running = self._watched.get(id(outer.f_code))
        serial = -1 if running is None else running.starts
        if len(found.again) > 100:
            found.again.clear()
        place = (id(outer.f_code), serial, outer.f_lasti, None if hands.module is None else id(hands.module))
        found.again[place] = times = found.again.get(place, 0) + 1
        return times >= (AGAIN_WITHOUT_MODULE if hands.module is None else AGAIN)

    def _choose(self, found: Watched, code: CodeType, frame: FrameType, hands: Hands) -> bool:
        """Opt in what the frame runs. A nested function is another object at each call of its parent."""
        found.searches += 1
        functions = functions_running(code, frame, hands.first)
        if not functions:
            return self._settle(found, found.why if found.chosen else "no function object has this code")
        for function in functions:
            why = self._refused(function) or self._opt_in(function)
            if not why:
                found.chosen = True
                self.functions.append(weakref.ref(function))
                log.discovery.info("%s: opted in, having started with tensors in hand", _place(code))
            elif not found.chosen:
                found.why = why
                log.discovery.info("%s: not opted in: %s", _place(code), why)
        found.again.clear()
        if found.chosen and "<locals>" in code.co_qualname and found.searches < SEARCHES:
            found.why = "opted in"
            return False
        return self._settle(found, "opted in" if found.chosen else found.why)

    def _refused(self, function: FunctionType) -> str:
        for filter_ in self._filters:
            try:
                if not filter_(function):
                    return "left out by the filter"
            except Exception as error:
                if raised_by_signal(error):
                    raise
                return f"the filter raised {type(error).__name__}: {log.one_line(error)}"
        return ""

    def _settle(self, found: Watched, why: str = "") -> bool:
        found.decided, found.why = True, why
        found.again.clear()
        return True

    def _told(self, where: str, error: Exception) -> None:
        log.errors.warning("%s: discovery failed here: %s: %s", where, type(error).__name__, error)
        log.errors.debug("%s: discovery failed here", where, exc_info=error)

    # what came of it ------------------------------------------------------------------------------------------------
    def report(self) -> Discovered:
        with self._lock:
            all_watched = list(self._watched.values())
        told = [(found, code) for found in all_watched if (code := found.code()) is not None]
        described = [_describe(found, code) for found, code in told if found.why or found.starts]
        return Discovered(
            modules=tuple(self._modules),
            watching=sum(not found.decided for found, _ in told),
            chosen=tuple(found for found in described if found.chosen),
            others=tuple(found for found in described if not found.chosen),
            idle=sum(found.decided and not found.why for found, _ in told),
            missing=tuple(name for name in self._targets.names if name not in sys.modules),
        )


def _describe(found: Watched, code: CodeType) -> FoundFunction:
    return FoundFunction(
        found.module, code.co_qualname, code.co_filename, code.co_firstlineno, found.chosen, found.why or "not decided"
    )


def _place(code: CodeType) -> str:
    return f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"


def _outer(frame: FrameType, watched: dict[int, Watched]) -> FrameType | None:
    """The next frame outwards that decides: one that runs something compiled, a function that started with tensors in
    hand, or one that makes a module.
    """
    outer = frame.f_back
    for _ in range(_FRAMES):
        if outer is None:
            return None
        code = outer.f_code
        found = watched.get(id(code))
        if original_code(code) is not code or (found is not None and found.starts and not found.is_left_out):
            return outer
        if outer.f_globals.get("__name__") in _TORCHS_OR_DISABLED or is_making_module(outer):
            return outer
        outer = outer.f_back
    return None


def _module_frames() -> list[FrameType]:
    """Frames of modules that are running: they are being imported, or are the program itself."""
    found = []
    for frame in sys._current_frames().values():
        inner: FrameType | None = frame
        while inner is not None:
            if inner.f_code.co_name == "<module>":
                found.append(inner)
            inner = inner.f_back
    return found
