"""Grafted functions do what plain ones do, whatever their entries and landings."""

from __future__ import annotations

import contextlib
import random
import sys
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewriter.decode import decode
from rewriter.graft import graft
from rewriter.layouts import context_of, entry_layout, landing_layout
from rewriter.region import KEEP, UNBOUND, LandingContext, NotEnterable, NotLandable, SlotMismatch, WrongExit
from rewriter.text import new_slot
from tests.rewriter import grafting, zoo
from tests.rewriter.grafting import (
    enterable,
    everywhere,
    grafted,
    guarded_slot,
    identity_slot,
    none_slot,
    nowhere,
    start_only,
    step_slot,
    text_slot,
    wide_identity_slot,
)

CASES = [pytest.param(case, id=case.name) for case in zoo.CASES]
KINDS = {
    "none": none_slot,
    "false guard": guarded_slot,
    "identity": identity_slot(keep=False),
    "identity, KEEP": identity_slot(keep=True),
    "identity, full": identity_slot(keep=True, full=True),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_entries_and_landings_everywhere(case, kind):
    precise = kind != "identity"  # once: with landings everywhere
    assert case.run(grafted(case.function, everywhere, KINDS[kind], precise=precise)) == case.run(case.function)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("places", [nowhere, start_only])
def test_few_entries(case, places):
    assert case.run(grafted(case.function, places, none_slot)) == case.run(case.function)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("limit", [3, 40])
def test_regions_that_land_elsewhere(case, limit):
    ran: list[int] = []
    assert case.run(grafted(case.function, everywhere, step_slot(limit, ran))) == case.run(case.function)
    assert ran or case.name in ("managed",)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["identity", "steps", "steps, through"])
def test_wide_answers(case, kind):
    ran: list[int] = []
    make = wide_identity_slot if kind == "identity" else step_slot(9, ran, wide=True)
    copy = grafted(case.function, everywhere, make, wide=True, through=kind.endswith("through"))
    assert case.run(copy) == case.run(case.function)
    assert ran or kind == "identity" or case.name in ("managed",)


def test_a_wide_answer_that_leaves_a_local_unbound():
    """It is a bug of who wrote the region, and must be an error, never a crash."""

    def function(n):
        x = n
        return x + 1

    def forgets(decoded, index, namespace):
        behind = next(i.index for i in decoded.instructions if i.opname == "STORE_FAST") + 1
        slot = text_slot(decoded, index, namespace, f"return ({behind}, (), k_KEEP)", k_KEEP=KEEP)
        slot.lands = [behind]
        return slot

    with pytest.raises(UnboundLocalError, match="'x'"):
        grafted(function, start_only, forgets, wide=True)(3)


def test_landings_through_entries():
    """A landing goes through the entry that stands there, or around it."""

    def function(n):
        x = n
        return x + 1

    for through in (False, True):
        asked = []

        def lands(decoded, index, namespace, asked=asked):
            behind = next(i.index for i in decoded.instructions if i.opname == "STORE_FAST") + 1
            if index == behind:
                return text_slot(decoded, index, namespace, "k_asked(x)", k_asked=asked.append)
            slot = text_slot(decoded, index, namespace, f"return ({behind}, 10)")
            slot.lands = [behind]
            return slot

        def places(decoded):
            return [decoded.start, next(i.index for i in decoded.instructions if i.opname == "STORE_FAST") + 1]

        assert grafted(function, places, lands, through=through)(3) == 11
        assert asked == [10] * through


def busy_slot(decoded, index, namespace):
    """Every kind of statement, then a miss; its names are no user's."""
    body = """q_ = v_ = u_ = 1
    for r_ in k_numbers:
        try:
            q_ = k_list(p_ + 1 for p_ in k_numbers) if r_ else q_
            if r_ == 2:
                k_fail()
        except ZeroDivisionError as e_:
            q_ = u_ = str(e_)
            with k_nothing():
                continue
        finally:
            v_ = k_max(q_, q_, key=k_id)
    return None if v_ else (k_never, u_)"""
    return text_slot(decoded, index, namespace, body, k_numbers=(0, 1, 2, 3), k_list=list, k_fail=lambda: 1 // 0,
                     k_nothing=contextlib.nullcontext, k_max=max, k_id=id, k_never=-1)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["identity", "steps", "busy"])
def test_inlined_slots(case, kind):
    make = {"identity": KINDS["identity"], "steps": step_slot(9, []), "busy": busy_slot}[kind]

    def some(decoded):
        return sorted(enterable(decoded))[:: 2 if kind == "identity" else 5]

    assert case.run(grafted(case.function, some, make, inline=True)) == case.run(case.function)


def test_inlined_slots_leave_nothing_behind():
    def function(n):
        x = n
        seen.append(sorted(sys._getframe().f_locals))
        return x

    seen = []
    for inline in (False, True):
        grafted(function, everywhere, busy_slot, inline=inline)(3)
    assert seen == [["n", "seen", "x"]] * 2


@pytest.mark.parametrize("text", ["return (lambda: x)", "yield x", "return k_next(x for _ in y)"])
def test_slots_with_cells_or_yields_are_not_inlined(text):
    decoded = decode(handling.__code__)
    text = "y = 1; " + text
    slot = text_slot(decoded, decoded.start, {}, text, k_next=next)
    with pytest.raises(SlotMismatch):
        graft(decoded, {}, inline={decoded.start: slot.__code__})


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(case=st.sampled_from(zoo.CASES), seed=st.integers(0, 2**32), share=st.sampled_from([0.1, 0.5, 0.9]))
def test_some_entries_of_mixed_kinds(case, seed, share):
    ran: list[int] = []
    kinds = [*KINDS.values(), step_slot(3, ran), step_slot(25, ran)]

    def some(decoded):
        chosen = random.Random(f"{seed} {decoded.code.co_qualname}")
        return [index for index in sorted(enterable(decoded)) if chosen.random() < share]

    def mixed(decoded, index, namespace):
        return kinds[zlib.crc32(f"{seed} {index}".encode()) % len(kinds)](decoded, index, namespace)

    assert case.run(grafted(case.function, some, mixed)) == case.run(case.function)


def test_most_instructions_can_be_entered():
    """What layouts.py excludes is small: a slip there would make the tests above test nothing."""
    possible = total = 0
    for case in zoo.CASES:
        decoded = decode(case.function.__code__)
        reached = [index for index in decoded.unit_starts() if decoded.stack_at(index) is not None]
        possible, total = possible + len(enterable(decoded)), total + len(reached)
    # since 3.14 not where an exception of a `with` block is handled
    assert possible > (0.85 if sys.version_info < (3, 14) else 0.8) * total


def compute(a, b):
    c = a + b
    print(c)
    return c * 2


def indices(function, opname, arg=None):
    decoded = decode(function.__code__)
    return [i.unit for i in decoded.instructions if i.opname == opname and (arg is None or i.arg == arg)]


def first_on_line(function, line):
    """The first place of a line, counted from the `def`."""
    decoded = decode(function.__code__)
    wanted = function.__code__.co_firstlineno + line
    return next(index for index in sorted(enterable(decoded)) if decoded.instructions[index].positions[0] == wanted)


def one_region(function, entry, body, constants=None, **options):
    def make(decoded, index, namespace):
        return text_slot(decoded, index, namespace, body, **(constants or {}))

    return grafted(function, lambda decoded: [entry], make, **options)


def test_a_region_runs_instead_of_the_instructions(capsys):
    decoded = decode(compute.__code__)
    landing = first_on_line(compute, 2)
    function = one_region(compute, decoded.start, f"return ({landing}, a * 100) if a < 5 else None",
                          exits={decoded.start: [landing]})
    assert [function(1, 2), function(7, 2)] == [200, 18]
    assert capsys.readouterr().out == "100\n9\n"


def test_a_return_is_a_landing_on_the_return():
    decoded = decode(compute.__code__)
    (last,) = indices(compute, "RETURN_VALUE")
    assert landing_layout(decoded, last).stack == (True,)
    function = one_region(compute, decoded.start, f"return {last}, ('all', a, b)")
    assert function(1, 2) == ("all", 1, 2)


def test_wrong_exits_raise():
    decoded = decode(compute.__code__)
    (last,) = indices(compute, "RETURN_VALUE")
    for exits in ({}, {decoded.start: [last]}):
        function = one_region(compute, decoded.start, "return 4711, 1", exits=exits, landings=[last])
        with pytest.raises(WrongExit) as caught:
            function(1, 2)
        assert caught.tb.tb_next.tb_lineno == compute.__code__.co_firstlineno
    with pytest.raises(ValueError):  # too many values
        one_region(compute, decoded.start, f"return {last}, 1, 2", exits={decoded.start: [last]})(1, 2)
    with pytest.raises(WrongExit):
        one_region(compute, decoded.start, "return 1,", landings=[])(1, 2)


def handling(x):
    try:
        _ = x.missing
    except AttributeError:
        y = x
        return y
    return 0


def test_a_landing_in_another_exception_context_is_refused():
    decoded = decode(handling.__code__)
    inside = next(index for index in sorted(enterable(decoded)) if decoded.handlers_entered(index))
    with pytest.raises(LandingContext):
        one_region(handling, decoded.start, "pass", exits={decoded.start: [inside]})
    with pytest.raises(LandingContext):
        one_region(handling, inside, "pass", exits={inside: [decoded.start]})
    function = one_region(handling, decoded.start, f"return {inside}, x", landings=[inside])
    with pytest.raises(WrongExit):
        function(1)


def test_impossible_places_are_refused():
    decoded = decode(handling.__code__)
    target = decoded.handlers[0].target
    with pytest.raises(NotEnterable):
        graft(decoded, {target: new_slot("slot", ["x"], {})})
    with pytest.raises(NotEnterable):
        entry_layout(decoded, 0)
    with pytest.raises(NotLandable):
        graft(decoded, {}, landings=[target])
    with pytest.raises(NotLandable):
        landing_layout(decoded, 10**6)


@pytest.mark.parametrize("parameters", [[], ["y"], ["x", "y"], ["*x"], ["x", "*", "y=1"], ["*", "x"]])
def test_slots_with_other_parameters_are_refused(parameters):
    decoded = decode(handling.__code__)
    with pytest.raises(SlotMismatch):
        graft(decoded, {decoded.start: new_slot("slot", parameters, {})})


def test_keep_and_unbound():
    def function(flag):
        if flag:
            x = 1
        marker(flag)
        return x

    decoded = decode(function.__code__)
    entry = first_on_line(function, 3)
    assert entry_layout(decoded, entry).checked == {"x"} == landing_layout(decoded, entry).checked
    seen = []
    for value, wanted in (("k_KEEP", 1), ("k_UNBOUND", UnboundLocalError), ("5", 5), ("x", 1)):
        run = one_region(function, entry, f"k_seen(x); return {entry}, {value}",
                         {"k_seen": seen.append, "k_KEEP": KEEP, "k_UNBOUND": UNBOUND})
        if wanted is UnboundLocalError:
            with pytest.raises(UnboundLocalError):
                run(True)
        else:
            assert run(True) == wanted
    assert seen == [1] * 4
    run = one_region(function, entry, f"k_seen(x); return {entry}, x", {"k_seen": seen.append})
    with pytest.raises(UnboundLocalError):
        run(False)
    assert seen[4:] == [UNBOUND]


def test_full_landings_unbind_what_nobody_reads():
    died = []

    class Mortal:
        def __del__(self):
            died.append("dead")

    def function(made):
        x = made()
        died.append("begin" if x else "")
        x = None
        died.append("end")
        return made

    decoded = decode(function.__code__)
    entry, last = first_on_line(function, 3), first_on_line(function, 4)
    layout = landing_layout(decoded, ~last)
    assert layout.locals == ("x",) == tuple(layout.checked) and landing_layout(decoded, last).locals == ()
    for full, value, seen in ((False, "", ["begin", "end", "dead"]), (True, "k_UNBOUND", ["begin", "dead", "end"]),
                              (True, "None", ["begin", "dead", "end"]), (True, "k_KEEP", ["begin", "end", "dead"])):
        died.clear()
        exit_ = ~last if full else last
        run = one_region(function, entry, f"return {exit_}, {value}",
                         {"k_UNBOUND": UNBOUND, "k_KEEP": KEEP}, exits={entry: [exit_]})
        run(Mortal)
        assert died == seen


def marker(*arguments):
    pass


def odd_names(k_f, t0, s1, c_x, v2, plain, *, lambda_=1):
    def inner():
        return cell

    cell = 1
    s10 = [k_f, t0, s1, c_x, v2, plain, lambda_, inner]
    return s10


def test_parameter_names_clash_with_nothing():
    decoded = decode(odd_names.__code__)
    seen = set()
    for index in enterable(decoded):
        layout = entry_layout(decoded, index)
        names = layout.parameters
        assert len(set(names)) == len(names) and all(name.isidentifier() for name in names)
        assert not any(name.startswith("k_") for name in names)
        own = dict(zip(layout.locals, names, strict=False))
        seen.update(own.items())
        assert set(own.values()).isdisjoint({"t0", "s1", "v2", "c_x", "s10"})
    assert ("plain", "plain") in seen and ("k_f", "local_k_f") in seen and ("lambda_", "lambda_") in seen
    generator = decode(next(c for c in (lambda xs: sum(x for x in xs)).__code__.co_consts if hasattr(c, "co_code")))
    assert entry_layout(generator, generator.start).parameters == ("local__0",)


def test_slots_swap_while_a_frame_runs():
    slots = {}

    def loop(n):
        total = 0
        for i in range(n):
            total += i
            swap(i)
        return total

    def make(decoded, index, namespace):
        slots[index] = none_slot(decoded, index, namespace)
        return slots[index]

    decoded = decode(loop.__code__)
    (store,) = indices(loop, "STORE_FAST", "i")
    entry = next(i for i in decoded.unit_starts() if i > store)
    namespace = dict(loop.__globals__)

    def swap(i):
        if i == 2:
            slots[entry].__code__ = text_slot(decoded, entry, {}, f"return {entry}, total + 1000, i, s0").__code__

    layout = landing_layout(decoded, entry)
    assert (layout.locals, layout.stack) == (("total", "i"), (True,))
    function = grafted(loop, lambda decoded: [entry], make, precise=False)
    function = type(function)(function.__code__, namespace, closure=function.__closure__)
    assert loop(6) == 15
    slots[entry].__code__ = none_slot(decoded, entry, {}).__code__
    assert function(6) == 15 + 3000


def test_contexts_of_inner_cells_differ():
    """An inlined comprehension whose variable is a cell has a cell of its own: no region may jump in or out."""
    function = next(case.function for case in zoo.CASES if case.name == "comprehension_shadows")
    decoded = decode(function.__code__)
    contexts = {context_of(decoded, index) for index in enterable(decoded)}
    inlined = any(instruction.opname == "LOAD_FAST_AND_CLEAR" for instruction in decoded.instructions)
    assert (len({context[1] for context in contexts}) > 1) == inlined


def test_long_functions():
    """Hundreds of locals, constants and names, and jumps over thousands of instructions."""
    lines = ["def long(n):", "    total = 0", "    for i in range(n):", "        try:"]
    for number in range(400):
        lines.append(f"            v{number} = total + {number * 7919}")
        if number % 40 == 0:
            lines.append(f"            if i == {number % 3}: marker(v{number}).name_{number}")
        lines.append(f"            total += v{number} % (i + {number}) if i else v{number}")
    lines += ["        except AttributeError as error:", "            total += len(error.name)"]
    lines += ["    return total, v399"]
    namespace = {"marker": marker}
    exec(compile("\n".join(lines), __file__, "exec"), namespace)
    long = namespace["long"]

    def some(decoded):
        return sorted(enterable(decoded))[::600]

    for kind in ("identity", "identity, full"):
        assert grafted(long, some, KINDS[kind])(5) == long(5)


def test_grafting_is_pure():
    decoded = decode(compute.__code__)
    before = compute.__code__.co_code, compute.__code__.co_consts
    slots = {decoded.start: grafting.none_slot(decoded, decoded.start, {})}
    first, second = graft(decoded, slots), graft(decoded, slots)
    assert first is not second and first == second
    assert (compute.__code__.co_code, compute.__code__.co_consts) == before
