"""The machinery behind the public functions: what is compiled, whether it is on, and putting everything back."""

from __future__ import annotations

import functools
import itertools
import os
import threading
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .. import backends, config, log
from ..cache import CodeState, Counters, Registry, put_on
from ..config import Options, Settings, Stance
from ..discovery import Discovered, Discovery, Filter, Target
from ..events import FunctionStarts, NoToolId, SetTraceStarts, cheap_starts
from ..originals import original_code
from ..report import Summary, summarize
from ..torch_dynamo import is_disabled
from ..translate import Translator
from .models import CompiledModel

#: Without start events that cost nothing elsewhere: after so many seconds without news discovery ends by itself.
SETTRACE_PATIENCE = 120.0
#: Inductor's option for eager's random numbers.
KEEP_RANDOM = {"fallback_random": True}
SETTRACE_COST = (
    "discovery needs sys.settrace on this Python (before 3.12): while it is on, a call of any Python function takes "
    f"about 1 us more. It ends by itself when none of the watched ones has started for {SETTRACE_PATIENCE:.0f} seconds"
)


class Runtime:
    """One for a process. Functions and models are recorded weakly when they are compiled, and armed while it is on.

    Before the first `install` they are armed too, once, so that the first call can say that nothing is installed.
    """

    def __init__(self, translator: Translator | None = None, starts: FunctionStarts | None = None) -> None:
        self.translator = translator or Translator(Registry(), Counters())
        self.translator.when_off = self._told_to_run_while_off
        self.registry = self.translator.registry
        self.counters = self.translator.counters
        self._starts = starts or cheap_starts()
        self.discovery: Discovery | None = None
        self._models: dict[int, tuple[CompiledModel, Any]] = {}
        self._told_off = False
        self._isolated = itertools.count(1)
        #: taken behind the translator's lock, never the other way round
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        if self.discovery is not None:
            self.discovery.after_fork()

    @property
    def on(self) -> bool:
        return self.translator.on

    @property
    def _armed(self) -> bool:
        return (self.on or not (self._told_off or config.switched_off())) and not self.translator.stance.is_eager

    # on and off -----------------------------------------------------------------------------------------------------
    def install(self, settings: Settings) -> None:
        with self._lock:
            if config.switched_off():
                return
            self.translator.maker.settings = settings
            if self.on:
                return
            self.translator.grafter.watch = self._watch if self._starts is not None else None
            for state in self.registry:
                if state.grafted is not None and self.translator.hotness.stays_cold(state):
                    state.restore()
                    state.drop_regions()
            self.translator.on = True
            if self._armed:
                self._arm_all()

    def uninstall(self) -> None:
        """Nothing of it is left: code objects, events, attributes. What was compiled is remembered, weakly."""
        self._told_off = True  # who uninstalls knows
        self.translator.on = False
        with self.translator.lock.at_rest(), self._lock:
            self.translator.grafter.watch = None
            self._disarm_all()
            self._stop_discovery()
            if self._starts is not None:
                self._starts.close()
            for state in self.registry:
                state.drop_regions()

    # discovery ------------------------------------------------------------------------------------------------------
    def discover(self, targets: Iterable[Target] | Target, filter_: Filter | None) -> None:
        """Watch these from now on; raises, and changes nothing, where that can't be."""
        if config.switched_off():
            return
        with self._lock:
            fresh = self.discovery is None
            if self.discovery is None:
                starts = self._starts
                if starts is None:
                    starts = SetTraceStarts(SETTRACE_PATIENCE)
                    log.discovery.warning(SETTRACE_COST)
                self.discovery = Discovery(starts, self._opt_in, self._must_not_decide)
            try:
                self.discovery.add(targets, filter_)
            except BaseException:
                if fresh:
                    self._stop_discovery()
                raise

    def discovered(self) -> Discovered:
        return Discovered() if self.discovery is None else self.discovery.report()

    def summary(self) -> Summary:
        """What came of everything so far."""
        return summarize(list(self.registry), self.discovered(), self.counters.complete())

    def _stop_discovery(self) -> None:
        """What was opted in by itself is forgotten: a later `install` does not compile it."""
        if self.discovery is None:
            return
        functions, self.discovery = self.discovery.stop(close=self._starts is None), None
        for function in functions:
            state = self.registry.state_of(function)
            if state is not None:
                state.remove(function)

    def _must_not_decide(self) -> bool:
        lock = self.translator.lock
        return not self.on or self.translator.stance.is_eager or lock.is_mine or lock.is_held_off

    def _opt_in(self, function: types.FunctionType) -> str:
        if self.registry.state_of(function) is not None:
            return "compiled by the program itself"
        if is_disabled(function):
            return "disabled"
        # A program that nobody changed is to draw the random numbers that it always drew.
        backend = backends.lookup(self.translator.settings.backend)
        kept = KEEP_RANDOM if backend.name == "inductor" else None
        state = self.adopt(function, Options(options=kept), discovered=True)
        return f"cannot be grafted: {state.errors[-1]}" if state.errors else ""

    def set_stance(self, stance: Stance) -> Stance:
        """Put a stance in force, for all threads; gives the one before."""
        translator = self.translator
        if translator.lock.is_mine:
            raise RuntimeError("set_stance was called by what runs while a function is compiled")
        with translator.lock.at_rest(), self._lock:
            before, translator.stance = translator.stance, stance
            if before.backend != stance.backend:
                translator.exchange_regions(before, stance)
            if before.is_eager != stance.is_eager:
                self.registry.mute(stance.is_eager)
                if self._armed:
                    self._arm_all()
        return before

    def reset(self) -> None:
        """Drop all regions; what is compiled stays so, and is captured anew."""
        with self.translator.lock.at_rest(), self._lock:
            for state in self.registry:
                state.restore()
                state.drop_regions()
            if self._armed:
                self._arm_all()

    def _watch(self, code: types.CodeType, watcher: Any) -> None:
        if self._starts is None:
            return
        try:
            self._starts.watch(code, watcher)
        except NoToolId as error:  # the slot's own miss does the same, a little later
            log.root.warning("%s; going on without function start events", error)
            self.translator.grafter.watch = None

    def _arm_all(self) -> None:
        for state in self.registry:
            for function in state.live_functions():
                self._arm(state, function)
        for model, _ in list(self._models.values()):
            model.put()

    def _disarm_all(self) -> None:
        for model, _ in list(self._models.values()):
            model.take_away()
        for state in self.registry:
            state.restore()

    def _told_to_run_while_off(self, state: CodeState) -> None:
        """A slot was called although nothing is installed: say so once, and get out of the way."""
        with self._lock:
            if self.on:
                return
            if not self._told_off:
                self._told_off = True
                log.root.warning(
                    "%s is compiled, but without tracer.install() everything runs plain", state.place()
                )
            self._disarm_all()

    # functions ------------------------------------------------------------------------------------------------------
    def adopt(
        self,
        function: types.FunctionType,
        options: Options,
        tag: str = "",
        start: int | None = None,
        stands_for: tuple[str, Callable[..., Any]] | None = None,
        discovered: bool = False,
    ) -> CodeState:
        """Compile this function object in place. One state serves all that share code, globals, options and tag.

        start: where its first entry stands, if not at its start.  stands_for: what messages call it, and whose place
        they give.  discovered: nobody asked for this very function.
        """
        with self._lock:
            if self.discovery is not None and not discovered:
                self.discovery.keep(function)
            original = original_code(function.__code__)
            earlier = self.registry.state_of(function)
            alone = next(self._isolated) if options.isolate_recompiles else 0
            key = (id(function.__globals__), options.key, tag, alone)
            state = self.registry.find(original, key)
            if state is None or (state.given_up and not discovered):
                state = self.registry.create(original, function.__globals__, options, key, start)
                state.discovered = discovered
                if stands_for is not None:
                    state.stand_for(*stands_for)
            state.discovered = state.discovered and discovered
            if earlier is not state:
                state.add(function)
                if earlier is not None:
                    earlier.remove(function)
            if self._armed:
                self._arm(state, function)
            return state

    def _arm(self, state: CodeState, function: types.FunctionType) -> None:
        if state.grafted is None:
            self.translator.graft_first(state)
        # another thread may graft anew; and somebody may have given it other code
        while (grafted := state.grafted) is not None and function.__code__ is not grafted:
            if original_code(function.__code__) is not state.original:
                return
            put_on(function, grafted)
        self.translator.grafter.watch_start(state)

    # models ---------------------------------------------------------------------------------------------------------
    def adopt_model(self, model: torch.nn.Module, options: Options) -> None:
        """This model is compiled, in place."""
        with self._lock:
            found = self._models.get(id(model))
            if found is not None and found[0].reference() is model:
                if found[1] == options.key and not options.isolate_recompiles:
                    return
                found[0].take_away()
            compiled = CompiledModel(model, self._forget_model)
            self._models[id(model)] = compiled, options.key
            name = f"{type(model).__qualname__}.__call__"
            state = self.adopt(compiled.private, options, start=compiled.start, stands_for=(name, model.forward))
            state.family.model = compiled.reference
            if self._armed:
                compiled.put()

    def _forget_model(self, key: int) -> None:
        self._models.pop(key, None)

    def state_of(self, target: Any) -> CodeState | None:
        """What a compiled function, method or model was compiled under."""
        if isinstance(target, torch.nn.Module):
            found = self._models.get(id(target))
            if found is None or found[0].reference() is not target:
                return None
            target = found[0].private
        while isinstance(target, functools.partial):
            target = target.func
        target = getattr(target, "__func__", target)
        return self.registry.state_of(target) if isinstance(target, types.FunctionType) else None
