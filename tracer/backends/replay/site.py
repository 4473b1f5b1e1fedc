"""The callable that stands in for a compiled one, and replays it: which recording fits, and when there is none.

A call warms up, is recorded, replays, or runs the inner callable, which is right whenever nothing else is: its reason
is counted. It takes the pool's lock without waiting; a call of another thread, or one made while a call is under way
(by what the collector frees), runs the inner callable.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import torch

from .inputs import LARGE, splits_memory, why_not
from .options import ReplayOptions
from .outputs import NotRecordable
from .pool import Pool, pool_of
from .recorder import Recorder
from .recording import Inner, Plan, Recording
from .trial import Trial

#: recordings that one callable may ever make for each combination of sizes
_TRIES = 16
#: all callables that may have recordings, for `tracer.reset()` and `counters()`
_sites: weakref.WeakSet[Site] = weakref.WeakSet()


class Shape:
    """What is known for one combination of sizes.

    stays: where inputs lay in every warm-up call so far (None: elsewhere each time).
    blocked: calls in a row that found the results of the last recording in somebody's hands.
    """

    def __init__(self) -> None:
        self.warm = 0
        self.stays: list[int | None] = []
        self.recordings: list[Recording] = []
        self.made = 0
        self.blocked = 0
        self.trial: Trial | None = None


class Site:
    """Called as the callable that it replaces, with positional inputs.

    static: indices of inputs that are parameters and buffers of modules; where these are not known by now, they are
    found at the first call, by `state`, the addresses of such. dynamic: sizes or numbers may change.
    lanes: of a backward, the callable of its forward, whose results a recording of it reads where they lie.
    """

    def __init__(
        self,
        name: str,
        inner: Inner,
        recorder: Recorder,
        options: ReplayOptions,
        plan: Plan,
        *,
        static: Collection[int] = (),
        state: Collection[int] = (),
        dynamic: bool = False,
        lanes: Site | None = None,
    ) -> None:
        self.name, self.inner, self.recorder, self._options, self._plan = name, inner, recorder, options, plan
        self._static, self._state, self._dynamic, self._lanes = set(static), frozenset(state), dynamic, lanes
        self._moved: set[int] = set()
        self._shapes: dict[Any, Shape] = {}
        self._pool: Pool | None = None
        self._kept: set[int] = set()
        self.off: str | None = None
        self.padding_bytes = 0
        self.refused: Counter[str] = Counter()
        self.figures: list[str] = []
        _sites.add(self)

    def __call__(self, *given: Any) -> Sequence[Any]:
        if self.off is not None:
            return self._run_inner(self.off, given)
        pool = self._pool
        if pool is None:
            pool = self._pool = self._pool_for(given)
            if pool is None:
                return self._run_inner(str(self.off), given)
        if not pool.lock.acquire(blocking=False):
            return self._run_inner("another call was under way", given)
        try:
            if self.recorder.is_captured():
                return self._run_inner("the program records it itself", given)
            return self._call(given, pool)
        finally:
            pool.lock.release()

    def _call(self, given: Sequence[Any], pool: Pool) -> Sequence[Any]:
        shape = self._shapes.get(_sizes(given) if self._dynamic else ())
        if shape is None:
            shape = self._new_shape(given)
            if shape is None:
                return self._run_inner("more combinations of sizes than max_replay_shapes", given)
        trial = shape.trial
        if trial is not None and trial.wants_inner:
            return trial.time(lambda: self.inner(list(given)))
        fitting, lost = [], []
        for recording in shape.recordings:
            if recording.inputs.fits(given):
                if recording.outputs.are_lost():
                    lost.append(recording)
                elif not recording.outputs.held(by_others=False):
                    return self._replay(recording, shape, given, pool)
                else:
                    fitting.append(recording)
        for recording in lost:
            shape.recordings.remove(recording)
        if fitting:
            return self._blocked(fitting, shape, given, pool)
        if shape.warm < self._options.replay_warm_up:
            return self._warm_up(shape, given, pool)
        if self._lanes is not None and not self._comes_from_a_lane(given):
            return self._run_inner("its forward was not replayed", given)
        return self._record(shape, given, pool)

    # a recording that fits ------------------------------------------------------------------------------------------
    def _replay(self, recording: Recording, shape: Shape, given: Sequence[Any], pool: Pool) -> Sequence[Any]:
        shape.blocked = 0
        other = pool.in_the_way(recording.birth)
        if other is not None:
            return self._overtaken(recording, other, shape, given, pool)
        trial = shape.trial
        if trial is None:
            return recording.run(given)
        results = trial.time(lambda: recording.run(given))
        if trial.is_over:
            shape.trial = None
            self.figures.append(str(trial))
            if trial.is_slower:
                self._switch_off(f"its replay is slower ({trial})")
        return results

    def _overtaken(
        self, recording: Recording, other: Any, shape: Shape, given: Sequence[Any], pool: Pool
    ) -> Sequence[Any]:
        """A younger recording's results are held. They are cloned from now on; else this one is made again, younger."""
        if other.keep():
            return self._run_inner("it would overwrite what another region's caller holds", given)
        shape.recordings.remove(recording)
        return self._record(shape, given, pool)

    def _blocked(self, fitting: list[Recording], shape: Shape, given: Sequence[Any], pool: Pool) -> Sequence[Any]:
        """All that fit have results that somebody holds."""
        shape.blocked += 1
        saved = any(piece.saved for piece in fitting[-1].outputs.held(by_others=False))
        for recording in fitting:
            recording.keep()
        if not saved and shape.blocked == 1:
            return self._run_inner("its caller holds the last result", given)
        if len(fitting) >= self._options.replay_lanes and not saved:
            shape.recordings.remove(fitting[0])  # whoever holds its results keeps it alive, by the pool
        elif len(fitting) >= self._options.replay_lanes:
            return self._run_inner("more results are held than replay_lanes", given)
        return self._record(shape, given, pool)

    # no recording ---------------------------------------------------------------------------------------------------
    def _pool_for(self, given: Sequence[Any]) -> Pool | None:
        reason = why_not(given, self._plan.mutated, self.recorder.device_type)
        if reason is not None:
            self._switch_off(reason)
            return None
        return pool_of(self.recorder, next(value.device for value in given if isinstance(value, torch.Tensor)))

    def _new_shape(self, given: Sequence[Any]) -> Shape | None:
        if len(self._shapes) >= self._options.max_replay_shapes:
            return None
        shape = self._shapes[_sizes(given) if self._dynamic else ()] = Shape()
        return shape

    def _warm_up(self, shape: Shape, given: Sequence[Any], pool: Pool) -> Sequence[Any]:
        """A real call of the inner callable, with a look at which inputs stay where they are, and as they are."""
        addresses = [value.data_ptr() if isinstance(value, torch.Tensor) else None for value in given]
        self._static |= {i for i, value in enumerate(given) if self._is_state(value)}
        before = shape.stays if shape.warm else addresses
        shape.stays = [now if now == old else None for now, old in zip(addresses, before, strict=True)]
        layout = _sizes(given)
        results = self.recorder.warm_up(lambda: self.inner(list(given)), pool.device)
        shape.warm += 1
        if _sizes(given) != layout:
            self._switch_off("it changes the shape of an input")
        return results

    def _is_state(self, value: Any) -> bool:
        if not isinstance(value, torch.Tensor):
            return False
        return isinstance(value, (torch.nn.Parameter, torch.nn.Buffer)) or value.data_ptr() in self._state

    def _record(self, shape: Shape, given: Sequence[Any], pool: Pool) -> Sequence[Any]:
        static = self._static_now(shape, given)
        reason = why_not(given, self._plan.mutated, self.recorder.device_type)
        if reason is None and splits_memory(given, static, self._plan.mutated):
            reason = "an input is written whose memory another input shares"
        if reason is None and shape.made >= _TRIES:
            reason = f"it was recorded {_TRIES} times already"
        if reason is not None:
            return self._switched_off(reason, given)
        try:
            recording = Recording(self.inner, self._plan, pool, self._kept).make(given, static)
        except NotRecordable as error:
            return self._switched_off(str(error), given)
        except Exception as error:
            pool.spoiled()
            return self._switched_off(f"it cannot be recorded: {type(error).__name__}: {_first_line(error)}", given)
        shape.made += 1
        self._forget_moved(shape)
        shape.recordings.append(recording)
        if shape.made == 1 and self._options.replay_trial:
            shape.trial = Trial(self._options.replay_trial, lambda: self.recorder.clock(pool.device))
        return self._replay(recording, shape, given, pool)

    def _static_now(self, shape: Shape, given: Sequence[Any]) -> set[int]:
        """Which inputs the next recording reads where they are. What moved once is copied from then on."""
        if self._lanes is not None:
            known = self._lanes.addresses()
            return {i for i, value in enumerate(given) if isinstance(value, torch.Tensor) and value.data_ptr() in known}
        found = set(self._static)
        for i, stays in enumerate(shape.stays):
            value = given[i]
            if stays is None or i in found or not isinstance(value, torch.Tensor):
                continue
            if stays != value.data_ptr():
                self._moved.add(i)
            large = value.numel() * value.element_size() >= LARGE
            if i not in self._moved and (large or i in self._plan.mutated):
                found.add(i)
        return found

    def _forget_moved(self, shape: Shape) -> None:
        """As many recordings as there may be: of those whose inputs lie elsewhere by now the oldest goes."""
        while len(shape.recordings) >= self._options.replay_lanes:
            del shape.recordings[0]

    # the two sides of a training step -------------------------------------------------------------------------------
    def addresses(self) -> set[int]:
        """Where what a forward gives to its backward may lie, and stays."""
        found: set[int] = set()
        for shape in self._shapes.values():
            for recording in shape.recordings:
                found.update(recording.inputs.addresses)
                found.update(recording.outputs.saved_addresses())
        return found

    def _comes_from_a_lane(self, given: Sequence[Any]) -> bool:
        """Was what it is given saved by a recording? One that saves nothing but inputs cannot be told from it."""
        assert self._lanes is not None
        lanes = [recording.outputs.saved_addresses() for recording in self._lanes.recordings]
        addresses = {value.data_ptr() for value in given if isinstance(value, torch.Tensor)}
        return any(not saved or not saved.isdisjoint(addresses) for saved in lanes)

    # not at all -----------------------------------------------------------------------------------------------------
    def _run_inner(self, reason: str, given: Sequence[Any]) -> Sequence[Any]:
        self.refused[reason] += 1
        return self.inner(list(given))

    def _switched_off(self, reason: str, given: Sequence[Any]) -> Sequence[Any]:
        self._switch_off(reason)
        return self._run_inner(reason, given)

    def _switch_off(self, reason: str) -> None:
        self.off = reason
        self._shapes.clear()

    def free(self) -> None:
        """Let go of all recordings; it begins anew."""
        self._shapes.clear()
        self.refused.clear()
        self.figures.clear()
        self._pool = self.off = None

    # what is told ---------------------------------------------------------------------------------------------------
    @property
    def recordings(self) -> list[Recording]:
        return [recording for shape in list(self._shapes.values()) for recording in shape.recordings]

    @property
    def replays(self) -> int:
        return sum(recording.replays for recording in self.recordings)

    @property
    def bytes(self) -> int:
        return self.padding_bytes + sum(recording.bytes for recording in self.recordings)

    def notes(self) -> list[str]:
        """Lines for `explain`."""
        recordings = self.recordings
        lines = []
        if recordings:
            lines = [f"{self.name}: {len(recordings)} recordings, {self.replays} replays, {self.bytes} bytes"]
        lines += [f"{self.name}: {figures}" for figures in self.figures]
        return [*lines, *(f"{self.name}: not replayed, {reason} ({n} calls)" for reason, n in self.refused.items())]


def _sizes(given: Sequence[Any]) -> tuple[Any, ...]:
    """What must be the same for a recording to fit: sizes and strides of tensors, and numbers."""
    return tuple(
        (value.shape, value.stride()) if isinstance(value, torch.Tensor) else (type(value), value) for value in given
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]


def sites() -> list[Site]:
    return list(_sites)
