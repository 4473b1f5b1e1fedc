"""What stays as it was: everything that can be seen of a function, its code and its frames from outside."""

from __future__ import annotations

import copy
import functools
import inspect
import linecache
import pickle
import sys
import traceback
import types
import warnings

import pytest

from rewriter.decode import decode
from rewriter.units import units
from tests.rewriter import zoo
from tests.rewriter.grafting import everywhere, grafted, guarded_slot, identity_slot, none_slot, start_only, text_slot

MAKERS = {"none": none_slot, "false guard": guarded_slot, "identity": identity_slot(keep=False)}
CASES = [pytest.param(case.function, id=case.name) for case in zoo.CASES]


def documented(first: int, /, second: str = "two", *rest: float, third: int = 3, **named: object) -> list[object]:
    """A function with everything.

    And a second paragraph.
    """
    local = [first, second]
    local += rest
    local.append(third)
    local.append(named)
    return local


def both(function, places=everywhere, kind="identity"):
    return function, grafted(function, places, MAKERS[kind])


def test_signature_and_metadata():
    plain, new = both(documented)
    assert inspect.signature(new) == inspect.signature(plain)
    assert inspect.getfullargspec(new) == inspect.getfullargspec(plain)
    names = "__name__ __qualname__ __doc__ __module__ __defaults__ __kwdefaults__ __annotations__"
    for name in names.split():
        assert getattr(new, name) == getattr(plain, name)
    assert inspect.getsource(new) == inspect.getsource(plain)
    assert inspect.getdoc(new) == inspect.getdoc(plain)
    assert inspect.getsourcelines(new)[1] == inspect.getsourcelines(plain)[1]
    assert new(1, "x", 2.0, third=4, more=5) == plain(1, "x", 2.0, third=4, more=5)


@pytest.mark.parametrize("function", CASES)
def test_code_attributes(function):
    plain, new = function.__code__, grafted(function, everywhere, none_slot, landings=[]).__code__
    for name in dir(plain):
        if name.startswith("co_") and name not in (
            "co_code", "co_consts", "co_exceptiontable", "co_linetable", "co_lnotab", "co_lines", "co_positions",
            "co_nlocals", "co_stacksize", "co_varnames", "co_branches",
        ):
            assert getattr(new, name) == getattr(plain, name), name
    assert new.co_varnames[: plain.co_nlocals] == plain.co_varnames
    assert all(not name.isidentifier() for name in new.co_varnames[plain.co_nlocals :])
    for test in ("isgeneratorfunction", "iscoroutinefunction", "isasyncgenfunction", "isfunction"):
        copied = types.FunctionType(new, {}, closure=function.__closure__)
        assert getattr(inspect, test)(copied) == getattr(inspect, test)(function)


@pytest.mark.parametrize("function", CASES)
def test_lines_and_positions(function):
    """The original's instructions keep their positions; entries have those of where they stand, the rest has none."""
    plain, new = function.__code__, grafted(function, everywhere, none_slot).__code__
    assert {line for _, _, line in new.co_lines()} - {None} == {line for _, _, line in plain.co_lines()} - {None}
    assert set(new.co_positions()) - {(None,) * 4} == set(plain.co_positions()) - {(None,) * 4}
    names = {unit.name for unit in units(plain)} - {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}
    mine = [(unit.name, unit.positions) for unit in units(plain) if unit.name in names]
    theirs = iter([(unit.name, unit.positions) for unit in units(new)])
    assert all(pair in theirs for pair in mine)  # in order


def raising(n):
    a = 1
    for i in range(n):
        try:
            a = (a +
                 1 // (n - i - 1))
        except ZeroDivisionError:
            raise ValueError("at the end",
                             i) from None
    return a


WIDE = """\
def wide(n):
    first = [{spaces}n, n * 2]
    {spaces}
    second = [n, *(k for k in first if k{spaces} > 1), {spaces}
        len(first)]; third = {spaces}n + 1
    return third // (len(second) - 4), {spaces}n // 1
"""


@pytest.mark.parametrize("spaces", [0, 100, 130, 300, 5000])
@pytest.mark.parametrize("where", [everywhere, start_only])
def test_columns_that_fit_no_byte(spaces, where):
    names = {}
    exec(WIDE.replace("{spaces}", " " * spaces), names)
    plain = names["wide"]
    new = grafted(plain, where, none_slot)
    lines = [line for start, end, line in new.__code__.co_lines() for _ in range(start, end, 2)]
    assert lines == [positions[0] for positions in new.__code__.co_positions()]
    assert new(1) == plain(1)
    shown = []
    for function in (plain, new):
        with pytest.raises(ZeroDivisionError) as caught:
            function(5)
        shown.append([(entry.lineno, entry.colno) for entry in traceback.extract_tb(caught.value.__traceback__)][1:])
    assert shown[0] == shown[1] and shown[0][0][0] == 6


@pytest.mark.parametrize("kind", MAKERS)
def test_tracebacks(kind):
    shown = []
    for function in both(raising, kind=kind):
        try:
            function(3)
        except ValueError:
            shown.append(traceback.format_exc().split("\n", 3)[3])
    assert shown[0] == shown[1] and "raise ValueError" in shown[0]


def locals_at_each_step(n):
    seen = [list(locals())]
    c = n
    seen.append(list(locals()))
    for b in range(n):
        a = b
        seen.append((list(locals()), sorted(sys._getframe().f_locals)))
        del a
    seen.append([list(sys._getframe().f_locals), [list(locals()) for z in (1,)]])
    return seen, vars()["c"]


@pytest.mark.parametrize("kind", MAKERS)
def test_order_of_locals(kind):
    plain, new = both(locals_at_each_step, kind=kind)
    assert repr(new(2)) == repr(plain(2))


def watched(n):
    total = 0
    for i in range(n):
        total += i
        frame_seen(sys._getframe())
    return total


frames: list[object] = []


def frame_seen(frame):
    frames.append((frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, dict(frame.f_locals),
                   frame.f_back.f_code.co_name, [info.function for info in inspect.stack()[:4]]))


@pytest.mark.parametrize("kind", MAKERS)
def test_frames_seen_by_a_callee(kind):
    seen = []
    for function in both(watched, kind=kind):
        frames.clear()
        function(3)
        seen.append(list(frames))
    assert seen[0] == seen[1] and len(seen[0]) == 3


def warns(n):
    for i in range(n):
        warnings.warn(f"w{i}", stacklevel=2)
        warnings.warn(f"v{i}", stacklevel=1)


def test_warnings_point_where_they_did():
    seen = []
    for function in both(warns):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function(2)
        seen.append([(str(w.message), w.lineno, w.filename) for w in caught])
    assert seen[0] == seen[1] and {filename for *_, filename in seen[0]} == {__file__}


class Base:
    def size(self):
        return 1


class Derived(Base):
    def size(self):
        return super().size() + len(__class__.__name__)


def test_zero_argument_super():
    class Other(Derived):
        size = grafted(Derived.size, everywhere, identity_slot(keep=False))

    assert Other().size() == Derived().size() == 8


def depth(n):
    return 0 if n == 0 else 1 + again(n - 1)


@pytest.mark.parametrize("kind", MAKERS)
def test_recursion_depth(kind, monkeypatch):
    """One level less at most: that of the deepest slot."""
    def reached(function):
        monkeypatch.setitem(globals(), "again", function)
        low, high = 0, 2000
        while low < high:
            middle = (low + high + 1) // 2
            try:
                function(middle)
                low = middle
            except RecursionError:
                high = middle - 1
        return low

    plain, new = both(depth, kind=kind)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(600)
    try:
        before, after = reached(plain), reached(new)
    finally:
        sys.setrecursionlimit(limit)
    assert 0 <= before - after <= (2 if kind == "false guard" else 1)


def again(n):
    raise NotImplementedError


def lines(function, *arguments):
    """The lines and events that a debugger sees."""
    seen = []

    def trace(frame, event, argument):
        if frame.f_code is not function.__code__:
            return None
        seen.append((event, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return seen


def traced(n):
    total = 0
    for i in range(n):
        if i % 2:
            total += i
            continue
        total += len([j + 1 for j in range(i)])
        with zoo.Manager("m"):
            total = max(total,
                        i)
    while total > 3:
        total -= 2
    return total


@pytest.mark.parametrize("places", [start_only, everywhere])
@pytest.mark.parametrize("kind", ["none", "false guard"])
def test_a_debugger_sees_the_lines(places, kind):
    plain, new = both(traced, places, kind)
    assert lines(new, 5) == lines(plain, 5)


def test_a_debugger_sees_lines_of_landings():
    """A jump out of a region starts its line anew; no line is lost."""
    plain, new = both(traced)
    assert {line for _, line in lines(new, 5)} == {line for _, line in lines(plain, 5)}


def jumped(n):
    a = 1
    for i in range(n):
        a += i
        a += a.bit_length() + max(a, n if i > 5 else 2)
    c = a
    d = c
    return a, d


def jump(function, start, end):
    """Run with a debugger that jumps once from a line to another."""
    first, done = function.__code__.co_firstlineno, []

    def trace(frame, event, argument):
        if frame.f_code is not function.__code__:
            return None
        if event == "line" and frame.f_lineno == first + start and not done:
            done.append(True)
            frame.f_lineno = first + end
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return function(3)
    except Exception as error:
        return type(error)
    finally:
        sys.settrace(before)


@pytest.mark.filterwarnings("ignore:assigning None")
@pytest.mark.parametrize("kind", MAKERS)
def test_a_debugger_jumps(kind):
    plain, new = both(jumped, kind=kind)
    for start in range(1, 8):
        for end in range(1, 8):
            assert jump(new, start, end) == jump(plain, start, end), (start, end)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring")
def test_monitoring_sees_the_lines():
    seen = []
    for function in both(traced, kind="none"):
        events = []
        sys.monitoring.use_tool_id(sys.monitoring.COVERAGE_ID, "test")
        try:
            code = function.__code__
            sys.monitoring.register_callback(sys.monitoring.COVERAGE_ID, sys.monitoring.events.LINE,
                                             lambda code, line, events=events: events.append(line))
            sys.monitoring.set_local_events(sys.monitoring.COVERAGE_ID, code, sys.monitoring.events.LINE)
            function(5)
            sys.monitoring.set_local_events(sys.monitoring.COVERAGE_ID, code, 0)
        finally:
            sys.monitoring.free_tool_id(sys.monitoring.COVERAGE_ID)
        seen.append(events)
    assert seen[0] == seen[1]


def test_code_grafted_twice_is_what_it_was():
    """A grafted code object can be decoded again: its original instructions are found as before."""
    new = grafted(raising, start_only, none_slot, landings=[])
    again = grafted(new, start_only, none_slot, landings=[])
    assert again(2 - 2) == raising(0)
    assert decode(new.__code__).start == decode(raising.__code__).start


def test_pickle_copy_wraps():
    plain = documented.__code__
    new = grafted(documented, everywhere, none_slot)
    assert pickle.loads(pickle.dumps(documented)) is documented
    assert copy.deepcopy(new) is new
    wrapped = functools.wraps(new)(lambda *a: None)
    assert inspect.signature(wrapped) == inspect.signature(documented)
    assert documented.__code__ is plain


def test_temporaries_are_unbound_where_user_code_runs():
    def function(n):
        x = n
        return look(x)

    def look(x):
        return sorted(sys._getframe(1).f_locals)

    new = grafted(function, everywhere, identity_slot(keep=True))
    assert new(3) == function(3) == ["look", "n", "x"]


def test_objects_die_when_they_did():
    """Nothing that a region was given or gave back is kept alive by the frame."""
    died = []

    class Mortal:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            died.append(self.name)

    def function(made):
        x = made("first")
        x = made("second")
        died.append("between")
        y = [made("third"), x]
        died.append(len(y))
        del x
        died.append("x gone")
        y = None
        died.append(("y gone", y))
        return made("fourth")

    function(Mortal)
    wanted = list(died)
    for kind in MAKERS.values():
        died.clear()
        grafted(function, everywhere, kind)(Mortal)
        assert died == wanted
    assert linecache.getline(__file__, 1)


def test_results_of_regions_die_too():
    died = []

    class Mortal:
        def __del__(self):
            died.append("dead")

    def function(x):
        y = x
        return y is None

    decoded = decode(function.__code__)
    last = next(i.unit for i in decoded.instructions if i.opname == "STORE_FAST")

    def make(decoded, index, namespace):
        return text_slot(decoded, index, namespace, f"return {last}, k_Mortal()", k_Mortal=Mortal)

    grafted(function, start_only, make)(1)
    assert died == ["dead"]
