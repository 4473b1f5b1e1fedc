"""Guards as a region has them, to be asked which of them failed: what tests need beside `tracer.refusals`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracer.guard_text import write_guards
from tracer.guards import Guard
from tracer.holding import Constants
from tracer.refusals import Conditions


def conditions_of(guards: Sequence[Guard], taken: Iterable[str] = (), *, native: bool = False) -> Conditions:
    constants = Constants()
    written = write_guards(guards, constants, taken={*taken}, native=native)
    return Conditions(written.conditions, constants.values)
