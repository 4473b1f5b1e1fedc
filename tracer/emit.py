"""Captures and their compiled graphs to the text of a slot, with its constants.

Each region is written once; a slot is the text of its regions one behind the other, in the order given. Where two
regions use one name for different things, the later one's is changed here.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rewriter.region import KEEP, NONE

from .errors import InternalError, users_line
from .graph.capture import Capture, Exit
from .guard_sources import weakened
from .guard_text import write_guards
from .guard_writer import Condition
from .holding import Constants
from .native import USE_NATIVE
from .random_state import RandomState
from .sources import Call as SourceCall
from .sources import Formula, Operation, Param, Source
from .text_names import names_in, renamed_in, stored_in
from .watching import Watch

#: What a slot calls besides its regions' constants: `k_miss(*arguments)`, when no region's guards hold;
#: `k_failed(number, error)`, when a graph raised that can be dropped, or (None) gave what the program may refuse;
#: `k_raised(number, error)`, when a guard did; `k_trial(number)`, when a region has run so often.
HELPERS = ("k_miss", "k_failed", "k_raised", "k_trial")
#: After so many runs a region that only hands private copies over reports.
TRIALS = frozenset([20, 200, 2000])
#: ... and one that is small: at the first of these where it can be, it is tried.
SMALL_TRIALS = frozenset([6, 12, 24, 48, 96, 192])


class _Helper(str):
    """A constant of a region that each slot puts its own helper of this name in for."""

    __slots__ = ()


def exchange_call(region: Compiled, old: Any, new: Any) -> None:
    """From now on the region's text calls another thing; slots get it when they are written anew."""
    if region.written is not None:
        constants = {name: new if value is old else value for name, value in region.written.constants.items()}
        region.written = replace(region.written, constants=constants)


OriginalCode = Callable[[types.CodeType], types.CodeType]
_numbers = itertools.count(1)


class Layout(Protocol):
    """What is needed of rewriter's `EntryLayout`."""

    @property
    def index(self) -> int: ...
    @property
    def parameters(self) -> tuple[str, ...]: ...


@dataclass(eq=False)
class Compiled:
    """A capture with its compiled graph: a region that can be written into slots.

    call: takes the graph's inputs and returns its outputs; None for a capture without a graph.
    number: names the region in calls of the helpers.  hits: how often it ran, in a list that the text counts in.
    watch: watches the model, so that most guards need not be asked.
    reports: after so many runs its text says so (`k_trial`).
    turn: says at each call, once the guards hold, whether it is the original bytecode's turn.  off: it always is.
    """

    capture: Capture
    call: Callable[..., Sequence[Any]] | None
    number: int = field(default_factory=lambda: next(_numbers))
    hits: list[int] = field(default_factory=lambda: [0])
    written: RegionText | None = field(default=None, repr=False)
    watch: Watch | None = field(default=None, repr=False)
    reports: frozenset[int] = frozenset()
    turn: Callable[[], bool] | None = field(default=None, repr=False)
    off: bool = False


@dataclass(frozen=True, slots=True)
class RegionText:
    """One region as lines of a slot.

    lines: its guards.  counts, report: what it does first; the latter only while reports are wanted.  body: all else
    but its exit.  exit: how it leaves.  direct: how it leaves from a direct entry, if it can.
    loads: names beside its constants that it reads.  stores: names that it binds.  weak: each call gives an object that
    the region compares with and does not keep alive, or None: then the region can never run again.
    conditions: the guards as they stand in the lines, one by one.  alive: constants of the capture -> what the text
    reads in their place.
    """

    lines: tuple[str, ...]
    constants: Mapping[str, Any]
    loads: frozenset[str]
    stores: frozenset[str]
    weak: tuple[Callable[[], Any], ...]
    exit: tuple[str, ...] = ()
    direct: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    counts: tuple[str, ...] = ()
    report: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    alive: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotText:
    """A function named `slot`, its constants, and what its regions die with: each call gives the object or None."""

    text: str
    constants: dict[str, Any]
    weak_objects: tuple[Callable[[], Any], ...]


def write_slot(
    name: str,
    layout: Layout,
    regions: Sequence[Compiled],
    helpers: Mapping[str, Callable[..., Any]],
    *,
    original_code: OriginalCode | None = None,
    native: bool = USE_NATIVE,
    direct: bool = False,
    wide: Sequence[str] | None = None,
    first: str | None = None,
) -> SlotText:
    """The slot for these regions, tried in this order. `write_region` must have run, or runs now, for each.

    direct: it answers with what its one landing takes, with no tuple around it.  wide: the locals in its answers, if
    these are wide (both: `rewriter.graft`).  first: the name of a helper that it calls before anything else.
    """
    if missing := [helper for helper in HELPERS if helper not in helpers]:
        raise InternalError(f"write_slot was not given {', '.join(missing)}")
    constants: dict[str, Any] = {helper: helpers[helper] for helper in (*HELPERS, *([first] if first else ()))}
    constants |= {} if wide is None else {"k_KEEP": KEEP}
    texts = [write_region(r, layout.parameters, original_code=original_code, native=native) for r in regions]
    lines = [f"# {name}, entry {layout.index}", f"def slot({', '.join(layout.parameters)}):"]
    lines += [f"    {first}()"] if first else []
    for region, text in zip(regions, texts, strict=True):
        others = set(layout.parameters).union(*(other.loads - other.stores for other in texts))
        if region.turn is not None and wide is None:
            constants[f"k_turn_{region.number}"] = region.turn
        renamed = _names_to_change(text, constants, others)
        renamed |= {name: str(value) for name, value in text.constants.items() if type(value) is _Helper}
        lines.append(f"    # region {region.number}: {_describe(region.capture)}")
        if wide is not None:
            exit_: Sequence[str] = renamed_in(_wide_exit(region.capture.exit, wide), text.alive)
        else:
            exit_ = text.direct if direct else text.exit
        region_lines = _lines(region, text, exit_, measured=wide is None)
        lines += renamed_in(region_lines, {old: new for old, new in renamed.items() if old != new})
        own = {renamed.get(n, n): value for n, value in text.constants.items() if type(value) is not _Helper}
        constants |= own
    lines.append(f"    return k_miss({', '.join(layout.parameters)})")
    weak = {id(get): get for text in texts for get in text.weak}
    return SlotText("\n".join(lines) + "\n", constants, tuple(weak.values()))


def _lines(region: Compiled, text: RegionText, exit_: Sequence[str], *, measured: bool) -> list[str]:
    """A region in a slot. `measured`: in the slot whose calls are measured while it is on trial."""
    if region.off:
        return [*text.lines, "        return None"]
    lines = [*text.lines]
    if region.turn is not None and measured:
        lines += [f"        if k_turn_{region.number}():", "            return None"]
    return [*lines, *text.counts, *(text.report if region.reports else ()), *text.body, *exit_]


def _wide_exit(exit_: Exit, wide: Sequence[str]) -> list[str]:
    """`(index, stack, *locals)`: what the region says nothing of stays as it is."""
    count = len(exit_.locals)
    values = dict(zip(exit_.locals, exit_.values[:count], strict=True))
    stack = "".join(f"{value}, " for value in exit_.values[count:])
    return [f"        return {', '.join([str(exit_.landing), f'({stack})', *(values.get(n, 'k_KEEP') for n in wide)])}"]


def _describe(capture: Capture) -> str:
    where = f"exits to {capture.exit.landing}"
    if capture.graph_break is None:
        return where
    reason = capture.graph_break
    user = users_line(reason.stack)
    line = "" if user is None else f" at {user.filename}:{user.line}"
    text = f"{where}, graph break: {reason.title}" + (f": {reason.details}" if reason.details else "")
    return " ".join(text.split())[:200] + line


# one region -----------------------------------------------------------------------------------------------------------
def write_region(
    region: Compiled,
    parameters: Sequence[str],
    *,
    original_code: OriginalCode | None = None,
    native: bool = USE_NATIVE,
) -> RegionText:
    """The text of one region, written at the first call: while its tensors live, in the state of its capture."""
    if region.written is None:
        capture = region.capture
        fetches = tuple((name, weakened(source)) for name, source in capture.fetches)
        inputs, written = tuple(map(weakened, capture.inputs)), tuple(map(weakened, capture.written))
        region.capture = replace(capture, fetches=fetches, inputs=inputs, written=written)
        region.written = _write_region(region, parameters, original_code, native)
        region.capture = replace(region.capture, constants=dict(region.written.constants))
    return region.written


def _write_region(
    region: Compiled, parameters: Sequence[str], original_code: OriginalCode | None, native: bool
) -> RegionText:
    capture = region.capture
    constants = Constants()
    for name, value in capture.constants.items():
        constants.preset(name, value)
    used = names_in([*capture.setup, *capture.effects, *capture.exit.values])
    taken = {*parameters, *used, *capture.outputs, *(name for name, _ in capture.fetches)}
    inputs, made = _inputs(capture, taken) if region.call is not None else ((), ())
    all_fetches = (*capture.fetches, *made)
    taken |= {name for name, _ in made}
    guards = write_guards(
        capture.guards,
        constants,
        fetched=[source for _, source in all_fetches],
        inputs=inputs,
        taken=taken,
        original_code=original_code,
        native=native,
        hits=region.hits,
        written=capture.written,
    )
    tests = [_Test([c.text for c in guards.conditions], [f"{n} = {guards.render(s)}" for n, s in all_fetches])]
    if (quick := guards.quick) is not None:
        fetches = [f"{n} = {quick.render(s)}" for n, s in all_fetches]
        tests.insert(0, _Test([c.text for c in quick.conditions], fetches))
        region.watch = quick.watch_object
        tests[1].then.append(f"if {quick.watch}.on:\n    {quick.watch}.saw({quick.root})")
    asked = names_in([text for test in tests for text in test.conditions])
    taken |= asked
    alive = _held_weakly(tests, constants, used - asked, taken)
    asked |= names_in([text for test in tests for text in test.alive])
    taken |= asked
    error = _free("error", taken)
    raised = constants.reserve("k_raised", _Helper("k_raised"))
    lines = _guard_lines(tests, error, f"{raised}({region.number}, {error})")
    counts, report = _counts(region, constants)
    body = renamed_in([f"        {line}" for line in _body(region, constants, guards.inputs, error)], alive)
    values = ", ".join((str(capture.exit.number), *capture.exit.values))
    exit_ = renamed_in([f"        return {values}" if capture.exit.values else f"        return {values},"], alive)
    answer = _direct_exit(capture, constants, _free("answer", taken))
    direct = renamed_in([f"        {line}" for line in answer], alive)
    others = [*_guard_lines([test.abridged() for test in tests], error, raised), *counts, *report, *body]
    loads = asked | names_in([*others, *exit_, *direct])
    stores = stored_in([*lines, *counts, *report, *body, *exit_, *direct])
    kept = {name: value for name, value in constants.values.items() if name in loads}
    weak = tuple(get for get in constants.weak if any(value is get for value in kept.values()))
    return RegionText(
        tuple(lines), kept, frozenset(loads - kept.keys()), frozenset(stores), weak, tuple(exit_), tuple(direct),
        guards.conditions, counts, report, tuple(body), alive,
    )  # fmt: skip


def _held_weakly(
    tests: Sequence[_Test], constants: Constants, used: Collection[str], taken: Collection[str]
) -> dict[str, str]:
    """What guards hold weakly, as it need not live for ever, the body does not keep alive either: the region might be
    what it holds, in code, which the garbage collector doesn't see into. Constants -> variables to read instead.
    """
    found: dict[str, str] = {}
    for name, weak in constants.also_weak().items():
        if name in used:
            found[name] = _free(f"h_{name.removeprefix('k_')}", {*taken, *found.values()})
            for test in tests:
                test.alive.append(f"({found[name]} := {weak}()) is not None")
    return found


#: inputs of the graph that are computed, before it is called
_COMPUTED = (SourceCall, Operation, Formula)


def _inputs(capture: Capture, taken: Collection[str]) -> tuple[tuple[Source, ...], tuple[tuple[str, Source], ...]]:
    """The graph's inputs, and what is fetched for it beside: what is computed of numbers, which may raise."""
    names = (name for n in itertools.count() if (name := f"v{n}") not in taken)
    made = {source: next(names) for source in capture.inputs if type(source) in _COMPUTED}
    inputs = tuple(Param(made[source]) if source in made else source for source in capture.inputs)
    return inputs, tuple((name, source) for source, name in made.items())


def _direct_exit(capture: Capture, constants: Constants, name: str) -> list[str]:
    """The one object that is returned; None would say that nothing is."""
    if len(capture.exit.values) != 1:
        return []
    [value] = capture.exit.values
    if value in capture.outputs:
        return [f"return {value}"]
    none = constants.reserve("k_NONE", NONE)
    return [f"{name} = {value}", f"return {none} if {name} is None else {name}"]


@dataclass(frozen=True, slots=True)
class _Test:
    """One way to find out that a region may run.

    fetches: what is fetched once its conditions hold; raising there is a miss.  then: what is done behind that.
    alive: conditions that bind what the body reads and nothing of ours keeps alive.
    """

    conditions: Sequence[str]
    fetches: Sequence[str]
    then: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)

    def abridged(self) -> _Test:
        """The same without its conditions, whose names were looked for already."""
        return replace(self, conditions=["True"], alive=[]) if self.conditions else self


def _guard_lines(tests: Sequence[_Test], error: str, raised: str) -> list[str]:
    """A guard or fetch that raises is a miss of this region; entering the `try` costs nothing.

    What stands behind these lines always returns, so that the `while` never goes round: leaving it is the miss, and a
    hit falls through without a variable that says so.
    """
    if not any(test.conditions or test.fetches or test.alive for test in tests):
        return ["    if True:"]
    lines = ["    while True:", "        try:"]
    for word, test in zip(itertools.chain(["if"], itertools.repeat("elif")), tests, strict=False):
        first, *others = [*test.conditions, *test.alive] or ["True"]
        lines += [f"            {word} ({first}", *(f"                and {condition}" for condition in others)]
        lines[-1] += "):"
        todo = [line for text in (*test.fetches, *test.then) for line in text.splitlines()]
        lines += [f"                {line}" for line in todo or ["pass"]]
    lines += ["            else:", "                break"]
    return [*lines, f"        except Exception as {error}:", f"            {raised}", "            break"]


def _counts(region: Compiled, constants: Constants) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Count the run, and say when it were so many."""
    hits = constants.reserve("k_hits", region.hits)
    counts = (f"        {hits}[0] += 1",)
    if not region.reports:
        return counts, ()
    trials, trial = constants.reserve("k_trials", region.reports), constants.reserve("k_trial", _Helper("k_trial"))
    return counts, (f"        if {hits}[0] in {trials}:", f"            {trial}({region.number})")


def _body(region: Compiled, constants: Constants, inputs: Sequence[str], error: str) -> list[str]:
    """What runs behind the guards: call the graph, repeat the effects."""
    capture = region.capture
    lines: list[str] = []
    if region.call is not None:
        boxed = getattr(region.call, "boxed", None)
        given = ", ".join(inputs)
        call = f"{constants.reserve('k_graph', region.call if boxed is None else boxed)}"
        call += f"({given})" if boxed is None else f"([{given}])"
        if capture.outputs:
            call = f"{', '.join(capture.outputs)}{',' if len(capture.outputs) == 1 else ''} = {call}"
        if capture.can_retry:
            lines += _retried(region, constants, call, error)
        else:
            lines.append(call)
    elif capture.outputs:
        raise InternalError("a region without a graph call has outputs of a graph")
    for statement in (*capture.setup, *capture.effects):
        lines += statement.splitlines()
    return lines


def _retried(region: Compiled, constants: Constants, call: str, error: str) -> list[str]:
    """A call of the graph that can be dropped: where it raises, or gives what the program may be about to refuse."""
    capture, failed = region.capture, constants.reserve("k_failed", _Helper("k_failed"))
    before: list[str] = []
    back: list[str] = []
    if capture.expected and capture.graph is not None and capture.graph.uses_rng:
        state = _free("random_state", {error, *capture.outputs})
        before = [f"{state} = {constants.reserve('k_RandomState', RandomState)}()"]
        back = [f"    {state}.give_back()"]
    lines = [*before, "try:", f"    {call}"]
    if capture.expected:
        conditions = (name if truth else f"not {name}" for name, truth in dict.fromkeys(capture.expected))
        lines += [f"    if not ({' and '.join(conditions)}):", *(f"    {line}" for line in back)]
        lines += [f"        return {failed}({region.number}, None)"]
    return [*lines, f"except Exception as {error}:", *back, f"    return {failed}({region.number}, {error})"]


# names ----------------------------------------------------------------------------------------------------------------
def _free(name: str, taken: Collection[str]) -> str:
    candidates = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)


def _names_to_change(text: RegionText, constants: Mapping[str, Any], others: Collection[str]) -> dict[str, str]:
    """Constants whose name stands for something else already, and temporaries that hide what another region reads."""
    renamed: dict[str, str] = {}
    taken = {*constants, *text.constants, *text.loads, *text.stores, *others}
    for name, value in text.constants.items():
        if name in constants and constants[name] is not value:
            renamed[name] = _free(name, taken)
            taken.add(renamed[name])
    for name in sorted(text.stores & set(others)):
        renamed[name] = _free(name, taken)
        taken.add(renamed[name])
    return renamed
