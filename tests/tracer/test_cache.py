"""What is compiled for a code object, and when it goes."""

from __future__ import annotations

import gc
import inspect
import pickle
import threading
import types
import weakref

import pytest

from rewriter.graft import graft
from tracer.cache import CodeState, Counters, EntryState, Helper, Registry
from tracer.config import Options
from tracer.originals import is_grafted, original_code, plain_copy


def fresh_function(source="def f(x, y=2):\n    'doc'\n    return x + y\n", name="f"):
    namespace = {"__name__": __name__}
    exec(source, namespace)
    function = namespace.pop(name)
    return function


def adopt(registry, function, key="key", options=None):
    original = original_code(function.__code__)
    state = registry.find(original, key)
    if state is None:
        state = registry.create(original, function.__globals__, options or Options(), key)
        decoded = state.decoded
        entry = state.entries[decoded.start] = EntryState(state, decoded, decoded.start)
        state.use(graft(decoded, {decoded.start: entry.slot}))
    state.add(function)
    function.__code__ = state.grafted
    return state


def make_closures():
    def parent(base):
        def closure(x):
            return x + base
        return closure

    return parent


class TestOriginals:
    def test_a_plain_code_object_is_its_own_original(self):
        code = fresh_function().__code__
        assert original_code(code) is code and not is_grafted(code)

    def test_the_original_of_a_graft_is_found_by_identity(self):
        registry, function = Registry(), fresh_function()
        original = function.__code__
        adopt(registry, function)
        assert function.__code__ is not original
        assert is_grafted(function.__code__) and original_code(function.__code__) is original
        equal = function.__code__.replace()
        assert equal == function.__code__ and not is_grafted(equal)

    def test_a_plain_copy_has_all_that_a_function_has(self):
        function = fresh_function("def f(x: int, /, y=2, *a, z=3, **k) -> str:\n    'doc'\n    return x + y + z\n")
        function.note = ["kept"]
        adopt(Registry(), function)
        copy = plain_copy(function)
        assert copy is not function and not is_grafted(copy.__code__)
        assert copy(1) == function(1) == 6
        assert inspect.signature(copy) == inspect.signature(function)
        assert copy.note is function.note and copy.__doc__ == "doc"
        assert (copy.__name__, copy.__qualname__, copy.__module__) == ("f", "f", __name__)
        copy.__kwdefaults__["z"] = 30
        assert function(1) == 6

    def test_a_plain_copy_keeps_cells_and_may_have_its_own_code(self):
        closure = make_closures()(10)
        copy = plain_copy(closure, own_code=True)
        assert copy.__code__ == closure.__code__ and copy.__code__ is not closure.__code__
        closure.__closure__[0].cell_contents = 20
        assert copy(1) == 21


class TestRegistry:
    def test_states_are_found_by_identity_of_code_and_by_key(self):
        registry, function = Registry(), fresh_function()
        state = registry.create(function.__code__, {}, Options(), "a")
        assert registry.find(function.__code__, "a") is state
        assert registry.find(function.__code__, "b") is None
        assert registry.find(function.__code__.replace(), "a") is None

    def test_functions_of_one_code_share_a_state(self):
        registry, parent = Registry(), make_closures()
        one, two = parent(1), parent(2)
        state = adopt(registry, one)
        assert adopt(registry, two) is state
        assert one.__code__ is two.__code__ is state.grafted
        assert (one(1), two(1)) == (2, 3)
        assert registry.state_of(one) is registry.state_of(two) is state
        assert registry.state_of(plain_copy(one)) is None

    def test_new_code_reaches_all_functions_but_those_that_got_other_code(self):
        registry, parent = Registry(), make_closures()
        one, two = parent(1), parent(2)
        state = adopt(registry, one)
        adopt(registry, two)
        other = (lambda base: lambda x: x - base)(0).__code__
        two.__code__ = other
        decoded = state.decoded
        state.use(graft(decoded, {}))
        assert one.__code__ is state.grafted
        assert two.__code__ is other
        state.restore()
        assert one.__code__ is state.original and two.__code__ is other

    def test_restore_gives_the_very_original_back(self):
        registry, function = Registry(), fresh_function()
        original = function.__code__
        state = adopt(registry, function)
        state.restore()
        assert function.__code__ is original
        assert function(1) == 3

    def test_drop_empties_the_slots_also_for_running_frames(self):
        registry = Registry()
        function = fresh_function("def f(n):\n    for i in range(n):\n        yield i\n")
        state = adopt(registry, function)
        entry = next(iter(state.entries.values()))
        running = function(3)
        next(running)
        registry.drop(state)
        assert list(registry) == [] and state.entries == {}
        assert entry.is_silent
        assert list(running) == [1, 2]


class TestLifetime:
    def test_a_dropped_function_is_freed_with_its_code_and_state(self):
        registry, function = Registry(), fresh_function()
        state = adopt(registry, function)
        gone = [weakref.ref(function), weakref.ref(function.__code__), weakref.ref(state.original), weakref.ref(state)]
        del function, state
        gc.collect()
        assert [ref() for ref in gone] == [None] * 4
        assert list(registry) == []

    def test_a_closures_state_lives_as_long_as_its_parent(self):
        parent = fresh_function("def f(base):\n    def closure(x):\n        return x + base\n    return closure\n")
        registry = Registry()
        state = adopt(registry, parent(1))
        grafted = state.grafted
        gc.collect()
        again = parent(2)
        assert adopt(registry, again) is state and again.__code__ is grafted
        gone = weakref.ref(state)
        del again, state, grafted, parent
        gc.collect()
        assert gone() is None and list(registry) == []

    def test_a_nested_code_that_nobody_holds_goes_with_its_function(self):
        registry, function = Registry(), plain_copy(make_closures()(1), own_code=True)
        adopt(registry, function)
        del function
        gc.collect()
        assert list(registry) == []

    def test_a_circle_through_a_slots_constants_is_cut_with_the_state(self):
        registry, function = Registry(), fresh_function()
        state = adopt(registry, function)
        entry = next(iter(state.entries.values()))
        code = (lambda x, y: None).__code__
        entry.slot.__code__ = code.replace(co_consts=(None, function))
        gone = weakref.ref(function)
        registry.drop(state)
        del function, state, entry
        gc.collect()
        assert gone() is None

    def test_functions_dropped_in_threads_while_others_are_adopted(self):
        registry, parent, failed = Registry(), make_closures(), []

        def work():
            try:
                for i in range(200):
                    closure = parent(i)
                    adopt(registry, closure)
                    assert closure(1) == i + 1
            except BaseException as error:
                failed.append(error)

        first = parent(0)
        state = adopt(registry, first)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert list(registry) == [state] and state.live_functions() == [first]


class TestFamily:
    def test_copies_are_held_weakly(self):
        registry, function = Registry(), fresh_function()
        state = adopt(registry, function)
        family, copy = state.family, plain_copy(function, own_code=True)
        assert family.find(function, function.__code__) is None
        family.keep(function, function.__code__, copy)
        assert family.find(function, function.__code__) is copy
        del copy
        gc.collect()
        assert family.find(function, function.__code__) is None

    def test_it_goes_with_its_root(self):
        registry, function, other = Registry(), fresh_function(), fresh_function()
        root, inner = adopt(registry, function), adopt(registry, other)
        inner.family = root.family
        root.family.states.append(weakref.ref(inner))
        assert root.family.live() == [inner]
        inner.drop_regions()
        assert root.entries
        inner.entries[0] = root.entries[next(iter(root.entries))]
        root.drop_regions()
        assert not inner.entries


class TestHelper:
    def test_it_holds_its_entry_weakly_and_answers_none_without(self):
        registry, function = Registry(), fresh_function()
        state = adopt(registry, function)
        entry = next(iter(state.entries.values()))
        helper = Helper(entry, entry.slot, lambda entry, slot, arguments: (entry.index, arguments))
        assert helper(1, 2) == (entry.index, (1, 2))
        del entry
        registry.drop(state)
        gc.collect()
        assert helper(1, 2) is None

    def test_the_slot_of_an_older_graft_gets_none(self):
        registry, function = Registry(), fresh_function()
        state = adopt(registry, function)
        [entry] = state.entries.values()
        before, helper = entry.slot, Helper(entry, entry.slot, lambda entry, slot, arguments: slot)
        assert helper() is before
        assert not entry.add_exit(next(iter(entry.exits)))
        assert helper() is before
        assert entry.add_exit(state.decoded.start)
        assert entry.slot is not before and helper() is None
        assert Helper(entry, entry.slot, lambda entry, slot, arguments: slot)() is entry.slot
        entry.silence()
        assert before.__code__ is entry.slot.__code__

    def test_pickled_by_value_it_offers_nothing(self):
        registry, function = Registry(), fresh_function()
        state = adopt(registry, function)
        entry = next(iter(state.entries.values()))
        copy = pickle.loads(pickle.dumps(Helper(entry, entry.slot, lambda entry, slot, arguments: 5)))
        assert copy(1, 2) is None


def test_options_have_equal_keys_when_they_ask_for_the_same():
    def backend(graph, inputs):
        return graph

    assert Options(backend="eager").key == Options(backend="eager").key
    assert Options(backend=backend).key == Options(backend=backend).key
    assert Options(backend=backend).key != Options(backend=lambda g, i: g).key
    assert Options(options={"a": 1}).key != Options(options={"a": 2}).key
    assert Options(fullgraph=True).key != Options().key


@pytest.mark.parametrize("wrong", [
    {"backend": 3}, {"dynamic": 1}, {"fullgraph": "yes"}, {"options": [1]},
])  # fmt: skip
def test_options_of_wrong_types_are_refused(wrong):
    with pytest.raises(TypeError):
        Options(**wrong)


def test_counters_count_in_threads():
    counters = Counters()

    def work():
        for _ in range(1000):
            counters.add("misses")
            counters.add_break("print")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.snapshot() == {"misses": 4000, "breaks": {"print": 4000}}
    counters.clear()
    assert counters.snapshot() == {"breaks": {}}


def test_states_know_their_function_by_name_and_line():
    function = fresh_function()
    state = CodeState(Registry(), function.__code__, {}, Options())
    assert (state.name, state.line) == ("f", 1)
    assert isinstance(state.original, types.CodeType)
