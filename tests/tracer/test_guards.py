"""Guards: data, order and text. For each kind, what it looks at is changed alone, and the text must see it."""

from __future__ import annotations

import array
import collections
import enum
import gc
import math
import time
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from rewriter.text import compile_slot
from tests.tracer.examining import conditions_of
from tracer.errors import InternalError, UserLine
from tracer.guard_text import guard_text
from tracer.guards import MISSING, NOWHERE, Guard, GuardSet, Kind, describe, has_value, same_value, type_attribute
from tracer.originals import original_code
from tracer.refusals import examine
from tracer.sources import Attr, Call, Formula, Global, Held, Index, Item, Literal, Operation, Param

X, Y, SELF = Param("x"), Param("y"), Param("self")


class Checker:
    """Guards written and compiled as a region's are: `holds(x=...)` evaluates them on these arguments."""

    def __init__(self, *guards: tuple[Any, ...], native: bool = True, **options: Any) -> None:
        collected = GuardSet()
        for kind, source, *expected in guards:
            collected.add(kind, source, *expected)
        self.guards = collected.freeze()
        self.conditions, self.constants = guard_text(self.guards, native=native, **options)
        self.globals: dict[str, Any] = {}
        self._slots: dict[tuple[str, ...], Callable[..., Any]] = {}

    @property
    def text(self) -> str:
        return "\n".join(self.conditions)

    def value(self, /, **arguments: Any) -> bool:
        names = tuple(arguments)
        if names not in self._slots:
            text = f"def slot({', '.join(names)}):\n    return bool({' and '.join(self.conditions) or True})\n"
            text = text.replace("bool(", "k_bool(", 1)
            code = compile_slot(text, {**self.constants, "k_bool": bool})
            self._slots[names] = types.FunctionType(code, self.globals)
        return self._slots[names](**arguments)

    def holds(self, /, **arguments: Any) -> bool:
        """As in a region: a guard that raises is a miss."""
        try:
            return self.value(**arguments)
        except Exception:
            return False

    def why(self, /, **arguments: Any) -> tuple[Guard, str] | None:
        return first_failure(self.guards, arguments, self.globals)


def first_failure(
    guards: Sequence[Guard], arguments: dict[str, Any], namespace: dict[str, Any]
) -> tuple[Guard, str] | None:
    """The guard that failed first, and what is there now."""
    found = examine(guards, conditions_of(guards, {*arguments, *namespace}), arguments, namespace)
    return None if found.guard is None else (found.guard, found.seen)


class Forbidden:
    """Any of these would be the user's code run by a guard."""

    def _no(self, *args: object) -> Any:
        raise AssertionError("a guard ran the user's code")

    __eq__ = __ne__ = __lt__ = __gt__ = __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = _no
    __hash__ = object.__hash__


class ForbiddenDict(dict):
    __eq__ = __len__ = __iter__ = __contains__ = __getitem__ = Forbidden._no
    __hash__ = None


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Plain:
    shared = 3

    def method(self) -> int:
        return 1

    @property
    def computed(self) -> int:
        return 2

    @staticmethod
    def static() -> int:
        return 3


def module_level() -> int:
    return 1


# the set --------------------------------------------------------------------------------------------------------------
def kinds(guards: tuple[Guard, ...]) -> list[Kind]:
    return [guard.kind for guard in guards]


def test_ordered_and_deduplicated() -> None:
    guards = GuardSet()
    line = UserLine("f.py", 3, "f")
    guards.add(Kind.TYPE, X, list, line)
    guards.add(Kind.LENGTH, X, 2)
    guards.add(Kind.TYPE, X, list)
    guards.add(Kind.TYPE, Y, int)
    assert [(g.kind, g.source) for g in guards.freeze()] == [(Kind.TYPE, X), (Kind.LENGTH, X), (Kind.TYPE, Y)]
    assert guards.freeze()[0].line == line
    assert len(guards) == 3 and next(iter(guards)).kind is Kind.TYPE


def test_equal_sources_that_are_different_objects_are_one() -> None:
    guards = GuardSet()
    for _ in range(2):
        guards.add(Kind.TYPE, Attr(Item(Attr(SELF, "a"), "k"), "b"), int)
    guards.add(Kind.TYPE, Item(SELF, 1), int)
    guards.add(Kind.TYPE, Item(SELF, True), bool)
    guards.add(Kind.TYPE, Item(SELF, 1.0), str)
    assert len(guards.freeze()) == 4


@pytest.mark.parametrize(
    ("strong", "weak"),
    [
        ((Kind.EQUALS, X, 3), (Kind.TYPE, X, int)),
        ((Kind.EQUALS, X, (1, 2)), (Kind.LENGTH, X, 2)),
        ((Kind.EQUALS, X, 3), (Kind.TRUTHY, X)),
        ((Kind.EQUALS, X, True), (Kind.EXPRESSION, X, True)),
        ((Kind.IS, X, module_level), (Kind.TYPE, X, types.FunctionType)),
        ((Kind.IS, X, module_level), (Kind.IS_NOT, X, None)),
        ((Kind.TENSOR, X, torch.ones(2)), (Kind.TYPE, X, torch.Tensor)),
        ((Kind.KEYS, X, ("a",)), (Kind.HAS_KEY, X, "a")),
        ((Kind.KEYS, X, ("a",)), (Kind.LACKS_KEY, X, "b")),
        ((Kind.KEYS, X, ("a",)), (Kind.LENGTH, X, 1)),
        ((Kind.LENGTH, X, 0), (Kind.FALSY, X)),
    ],
)
def test_the_stronger_swallows_the_weaker(strong: tuple[Any, ...], weak: tuple[Any, ...]) -> None:
    for order in ((strong, weak), (weak, strong)):
        guards = GuardSet()
        for kind, source, *expected in order:
            guards.add(kind, source, *expected)
        assert kinds(guards.freeze()) == [strong[0]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((Kind.TYPE, X, int), (Kind.TYPE, X, bool)),
        ((Kind.EQUALS, X, 1), (Kind.EQUALS, X, True)),
        ((Kind.EQUALS, X, 0.0), (Kind.EQUALS, X, -0.0)),
        ((Kind.EQUALS, X, 1), (Kind.TYPE, X, float)),
        ((Kind.IS, X, int), (Kind.IS, X, float)),
        ((Kind.IS, X, int), (Kind.IS_NOT, X, int)),
        ((Kind.LENGTH, X, 1), (Kind.LENGTH, X, 2)),
        ((Kind.KEYS, X, ("a", "b")), (Kind.KEYS, X, ("b", "a"))),
        ((Kind.KEYS, X, ("a",)), (Kind.LACKS_KEY, X, "a")),
        ((Kind.KEYS, X, ("a",)), (Kind.HAS_KEY, X, "b")),
        ((Kind.KEYS, X, ("a",)), (Kind.LENGTH, X, 2)),
        ((Kind.KEYS, X, ("a",)), (Kind.FALSY, X)),
        ((Kind.HAS_KEY, X, "a"), (Kind.LACKS_KEY, X, "a")),
        ((Kind.TRUTHY, X), (Kind.FALSY, X)),
        ((Kind.EQUALS, X, 0), (Kind.TRUTHY, X)),
        ((Kind.TENSOR, X, torch.ones(2)), (Kind.TENSOR, X, torch.ones(2))),
        ((Kind.TENSOR, X, torch.ones(2)), (Kind.TYPE, X, nn.Parameter)),
        ((Kind.ALIAS, X, Y), (Kind.NOT_ALIAS, X, Y)),
        ((Kind.EXPRESSION, X, True), (Kind.EXPRESSION, X, False)),
        ((Kind.CODE, X, module_level.__code__), (Kind.CODE, X, kinds.__code__)),
    ],
)
def test_contradictions_are_internal_errors(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    for first, second in ((one, other), (other, one)):
        guards = GuardSet()
        guards.add(first[0], first[1], *first[2:])
        with pytest.raises(InternalError, match="contradictory"):
            guards.add(second[0], second[1], *second[2:])
            guards.freeze()


def test_rollback_forgets_what_was_added_and_nothing_else() -> None:
    guards = GuardSet()
    guards.add(Kind.TYPE, X, int)
    mark = guards.mark()
    guards.add(Kind.EQUALS, X, 3)
    guards.add(Kind.TYPE, Y, int)
    guards.rollback(mark)
    assert kinds(guards.freeze()) == [Kind.TYPE]
    guards.add(Kind.EQUALS, X, 4)
    guards.add(Kind.TYPE, Y, float)
    assert [str(g) for g in guards.freeze()] == ["x: equals 4", "y: type float"]


def test_wrong_class_attribute_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match=r"Plain\.method"):
        GuardSet().add(Kind.TYPE_ATTR, NOWHERE, (Plain, "method", module_level))


# values ---------------------------------------------------------------------------------------------------------------
EQUALS: list[tuple[Any, list[Any]]] = [
    (3, [4, 3.0, -3, "3", None, 3 + 0j]),
    (0, [False, 0.0, 1]),
    (1, [True, 1.0]),
    (1 << 80, [(1 << 80) + 1, float(1 << 80)]),
    (True, [1, False, 1.0]),
    (False, [0, True, None]),
    (None, [False, 0]),
    (..., [None]),
    (NotImplemented, [None]),
    (0.5, [0.25, -0.5]),
    (0.0, [-0.0, 0, False]),
    (-0.0, [0.0, 0]),
    (math.inf, [-math.inf, 1e308]),
    (-math.inf, [math.inf]),
    (math.nan, [0.0, math.inf, None]),
    (1 + 2j, [1 - 2j, 1, complex(1, 2.5)]),
    (complex(0.0, -0.0), [complex(0.0, 0.0), complex(-0.0, -0.0)]),
    ("a", ["b", b"a", ""]),
    ("x" * 200, ["x" * 199, "x" * 199 + "y"]),
    (b"a", [b"b", "a", bytearray(b"a")]),
    (torch.float32, [torch.float64]),
    (torch.device("cpu"), [torch.device("meta"), torch.device("cpu", 0), "cpu"]),
    (torch.strided, [torch.sparse_coo]),
    (torch.channels_last, [torch.contiguous_format]),
    (torch.Size([2, 3]), [(2, 3), torch.Size([2, 4]), torch.Size([2])]),
    (Color.RED, [Color.GREEN, 1]),
    (range(3), [range(4), range(0, 3, 2), (0, 1, 2)]),
    (slice(1, 2), [slice(1, 3), slice(1, 2, 1), slice(1.0, 2)]),
    ((), [(1,), [], None]),
    ((1, "a"), [(1, "b"), (True, "a"), (1.0, "a"), [1, "a"], (1,), (1, "a", 2)]),
    ((1, (2.0, None)), [(1, (2, None)), (1, (-2.0, None)), (1, [2.0, None])]),
    ((0.0, math.nan), [(-0.0, math.nan), (0.0, 0.0)]),
    (tuple(range(20)), [tuple(range(19)), (*range(19), 20), (*range(19), 19.0), (0.0, *range(1, 20))]),
    (frozenset({1, "a"}), [frozenset({1}), frozenset({True, "a"}), frozenset({1.0, "a"}), {1, "a"}]),
]


@pytest.mark.parametrize(("value", "others"), EQUALS, ids=lambda v: repr(v)[:20] if not isinstance(v, list) else "")
def test_equals(value: Any, others: list[Any]) -> None:
    checker = Checker((Kind.EQUALS, X, value))
    assert checker.value(x=value) is True
    for other in others:
        assert checker.value(x=other) is False, other
        assert not same_value(other, value)
    assert checker.value(x=Forbidden()) is False
    assert same_value(value, value) and has_value(value)


def test_equals_takes_equal_objects_too() -> None:
    assert Checker((Kind.EQUALS, X, "abc d")).value(x="".join(["abc", " d"]))
    assert Checker((Kind.EQUALS, X, (1000, 2.5))).value(x=(int("1000"), float("2.5")))
    assert Checker((Kind.EQUALS, X, math.nan)).value(x=float("nan"))
    assert Checker((Kind.EQUALS, X, frozenset({"ab", 1.5}))).value(x=frozenset({"".join("ab"), 1.5}))


def test_no_value_no_guard() -> None:
    values: list[Any] = [[], {}, Plain(), (1, []), torch.ones(1), frozenset({Plain()}), time.gmtime()]
    for value in values:
        assert not has_value(value)
        with pytest.raises(InternalError):
            GuardSet().add(Kind.EQUALS, X, value)
    assert Checker((Kind.EQUALS, X, (1, 2))).value(x=(1, Forbidden())) is False
    assert Checker((Kind.EQUALS, X, tuple(range(9)))).value(x=(*range(8), Forbidden())) is False
    assert Checker((Kind.EQUALS, X, frozenset({1}))).value(x=frozenset({Forbidden()})) is False


class IntSubclass(int):
    pass


class StrSubclass(str):
    __slots__ = ()


def test_subclasses_are_other_values() -> None:
    assert not Checker((Kind.EQUALS, X, 3)).value(x=IntSubclass(3))
    assert not Checker((Kind.EQUALS, X, "a")).value(x=StrSubclass("a"))
    assert not Checker((Kind.EQUALS, X, (3,))).value(x=(IntSubclass(3),))
    with pytest.raises(InternalError):
        GuardSet().add(Kind.EQUALS, X, IntSubclass(3))


# one kind after the other: unchanged it holds, changed it doesn't -----------------------------------------------------
def test_type() -> None:
    checker = Checker((Kind.TYPE, X, Plain))
    assert checker.value(x=Plain())
    assert not checker.value(x=type("Plain", (Plain,), {})())
    assert not checker.value(x=Forbidden())
    instance = Plain()
    assert checker.value(x=instance)
    instance.__class__ = type("Other", (Plain,), {})
    assert not checker.value(x=instance)


class Pretender:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return Plain


def test_type_is_not_fooled_by_class() -> None:
    assert isinstance(Pretender(), Plain)
    assert not Checker((Kind.TYPE, X, Plain)).value(x=Pretender())


def test_is() -> None:
    for value in (None, True, ..., int, module_level, Color.RED, torch.float32, len, math, Plain(), object()):
        checker = Checker((Kind.IS, X, value))
        assert checker.value(x=value) is True
        for other in (False, 0, Plain(), object(), kinds, torch.float64, Forbidden()):
            assert checker.value(x=other) is False


def test_is_not() -> None:
    for value in (None, int, Plain(), module_level):
        checker = Checker((Kind.IS_NOT, X, value))
        assert checker.value(x=value) is False
        assert checker.value(x=Forbidden()) is True


def test_identity_of_a_dead_object_is_never_found_again() -> None:
    value: Any = Plain()
    checker = Checker((Kind.IS, X, value))
    assert checker.value(x=value)
    del value
    gc.collect()
    assert checker.value(x=None) is False, "a dead weak reference gives None"
    assert all(checker.value(x=Plain()) is False for _ in range(100))


def test_no_identity_of_a_bound_method() -> None:
    with pytest.raises(InternalError, match="bound method"):
        Checker((Kind.IS, X, Plain().method))


def test_length() -> None:
    for value, longer in (
        ([1], [1, 2]),
        ((1,), ()),
        ({1: 2}, {}),
        ("a", "ab"),
        ([], [1]),
        (range(3), range(4)),
        (array.array("i", [1]), array.array("i")),
    ):
        checker = Checker((Kind.TYPE, X, type(value)), (Kind.LENGTH, X, len(value)))
        assert checker.value(x=value)
        assert not checker.value(x=longer)


def test_length_without_a_type_runs_no_code_of_the_users() -> None:
    checker = Checker((Kind.LENGTH, X, 1))
    assert checker.value(x=[1]) and checker.value(x=(1,))
    assert not checker.value(x=[]) and not checker.value(x=Forbidden()) and not checker.value(x=ForbiddenDict(a=1))


def test_length_and_keys_of_a_subclass_are_those_of_the_builtin_class() -> None:
    checker = Checker((Kind.TYPE, X, ForbiddenDict), (Kind.LENGTH, X, 1))
    assert checker.value(x=ForbiddenDict(a=1))
    assert not checker.value(x=ForbiddenDict())
    checker = Checker((Kind.TYPE, X, ForbiddenDict), (Kind.KEYS, X, ("a", "b")))
    assert checker.value(x=ForbiddenDict(a=1, b=2))
    assert not checker.value(x=ForbiddenDict(b=1, a=2))


def test_keys_of_a_dict() -> None:
    checker = Checker((Kind.TYPE, X, dict), (Kind.KEYS, X, ("a", "b")))
    assert checker.value(x={"a": 1, "b": 2})
    assert checker.value(x={"".join("a"): 1, "b": 3})
    for other in ({"b": 1, "a": 2}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 2}, {}, {"a": 1, Forbidden(): 2},
                  {"a": 1, StrSubclass("b"): 1}, collections.OrderedDict(a=1, b=2)):  # fmt: skip
        assert checker.value(x=other) is False


def test_keys_of_other_kinds() -> None:
    key, other = Plain(), Plain()
    for keys, wrong in (
        ((1, 2.0), (1, 2)),
        ((1,), (True,)),
        ((None, "a"), (None, "b")),
        ((int, Color.RED), (int, Color.GREEN)),
        ((key,), (other,)),
        ((("a", 1),), (("a", 2),)),
        ((), (1,)),
        (tuple(str(100 + i) for i in range(20)), tuple(str(101 + i) for i in range(20))),
    ):
        checker = Checker((Kind.TYPE, X, dict), (Kind.KEYS, X, keys))
        assert checker.value(x=dict.fromkeys(keys)), keys
        assert not checker.value(x=dict.fromkeys(wrong)), wrong


def test_elements_of_a_set() -> None:
    key = Plain()
    checker = Checker((Kind.TYPE, X, set), (Kind.KEYS, X, frozenset({1, "a", key})))
    assert checker.value(x={"a", key, 1})
    for other in ({"a", 1}, {"a", 1, Plain()}, {"a", True, key}, {"a", 1, key, 2}, {"b", 1, key}):
        assert checker.value(x=other) is False


@pytest.mark.parametrize("kind", [Kind.TRUTHY, Kind.FALSY, Kind.EXPRESSION])
def test_truth_of_a_bool(kind: Kind) -> None:
    """One condition says both what it is and that it is a bool."""
    value = kind is not Kind.FALSY
    checker = Checker((Kind.TYPE, X, bool), (kind, X, *([True] if kind is Kind.EXPRESSION else [])))
    assert checker.conditions == [f"x is {value}"]
    assert checker.value(x=value)
    for other in (not value, int(value), int(not value), None, [], [1], "x"):
        assert not checker.value(x=other)


def test_names() -> None:
    class Key(str):
        pass

    names = ("weight", "bias")
    checker = Checker((Kind.TYPE, X, dict), (Kind.NAMES, X, names))
    assert checker.value(x={"weight": 1, "bias": 2})
    assert checker.value(x={"".join(["wei", "ght"]): 1, "bias": 2})
    assert checker.value(x={Key("weight"): 1, "bias": 2}), "a name is its text"
    for other in ({"bias": 1, "weight": 2}, {"weight": 1}, {"weight": 1, "bias": 2, "more": 3}, {}, {1: 1, 2: 2}):
        assert not checker.value(x=other)
    assert not Checker((Kind.TYPE, X, dict), (Kind.NAMES, X, ())).value(x={"weight": 1})
    assert Checker((Kind.TYPE, X, dict), (Kind.NAMES, X, ())).value(x={})
    ordered = Checker((Kind.TYPE, X, collections.OrderedDict), (Kind.NAMES, X, names))
    assert ordered.value(x=collections.OrderedDict.fromkeys(names))
    assert not ordered.value(x=dict.fromkeys(names))


def test_items_under_names_are_taken_by_position() -> None:
    guards = [(Kind.TYPE, X, dict), (Kind.NAMES, X, ("a", "b"))]
    checker = Checker(*guards, (Kind.EQUALS, Item(X, "b"), 2), (Kind.TYPE, Item(X, "a"), str))
    assert "'b'" not in checker.text and ".values()]" in checker.text
    assert checker.value(x={"a": "", "b": 2})
    assert not checker.value(x={"a": "", "b": 3}) and not checker.value(x={"a": 1, "b": 2})
    assert not checker.value(x={"b": 2, "a": ""})


def test_has_and_lacks_key() -> None:
    for key in ("a", 3, None, (1, "b"), Color.RED, int, torch.ones(1), Plain()):
        has = Checker((Kind.TYPE, X, dict), (Kind.HAS_KEY, X, key))
        lacks = Checker((Kind.TYPE, X, dict), (Kind.LACKS_KEY, X, key))
        assert has.value(x={key: 1, "other": 2}) and not lacks.value(x={key: 1, "other": 2})
        assert not has.value(x={"other": 2}) and lacks.value(x={"other": 2})


def test_keys_of_an_instance_dict() -> None:
    checker = Checker((Kind.TYPE, X, Plain), (Kind.LACKS_KEY, Attr(X, "__dict__"), "method"))
    instance = Plain()
    assert checker.value(x=instance)
    instance.method = module_level  # type: ignore[method-assign]
    assert not checker.value(x=instance)
    stranger = Plain()
    stranger.__dict__ = ForbiddenDict()
    assert not checker.value(x=stranger)


def test_a_key_with_a_hash_of_the_users_is_refused() -> None:
    class Key:
        def __hash__(self) -> int:
            raise AssertionError("a guard ran the user's code")

    with pytest.raises(InternalError, match="hash of its own"):
        Checker((Kind.TYPE, X, dict), (Kind.HAS_KEY, X, Key()))


def test_a_key_that_is_fetched_needs_no_check_of_its_own() -> None:
    checker = Checker((Kind.TYPE, X, dict), (Kind.HAS_KEY, X, "a"), (Kind.EQUALS, Item(X, "a"), 3))
    assert checker.holds(x={"a": 3}) and not checker.holds(x={"b": 3}) and not checker.holds(x={"a": 4})
    assert " in " not in checker.text
    default: dict[str, int] = collections.defaultdict(int)
    checker = Checker((Kind.TYPE, X, collections.defaultdict), (Kind.HAS_KEY, X, "a"), (Kind.EQUALS, Item(X, "a"), 0))
    assert not checker.holds(x=default)
    assert not default, "the guard must not have made the key"


def test_truth() -> None:
    for true in ([1], {1: 1}, 1, "a", 0.5, True, collections.OrderedDict(a=1)):
        truthy = Checker((Kind.TYPE, X, type(true)), (Kind.TRUTHY, X))
        falsy = Checker((Kind.TYPE, X, type(true)), (Kind.FALSY, X))
        empty = type(true)()
        assert truthy.value(x=true) and not truthy.value(x=empty)
        assert falsy.value(x=empty) and not falsy.value(x=true)
    assert Checker((Kind.FALSY, X)).value(x=()) and not Checker((Kind.FALSY, X)).value(x=Forbidden())
    with pytest.raises(InternalError, match="user's code"):
        Checker((Kind.TYPE, X, ForbiddenDict), (Kind.TRUTHY, X))
    with pytest.raises(InternalError, match="user's code"):
        Checker((Kind.TYPE, X, Forbidden), (Kind.TRUTHY, X))


@pytest.mark.parametrize("native", [True, False])
def test_tensors(native: bool) -> None:
    x, y = torch.randn(2, 3), torch.randn(4)
    checker = Checker((Kind.TENSOR, X, x), (Kind.TENSOR, Y, y), native=native)
    assert checker.conditions == ["k_tensors(x, y)"]
    assert checker.value(x=x, y=y) and checker.value(x=torch.zeros(2, 3), y=y)
    assert not checker.value(x=x, y=torch.randn(5))
    assert not checker.value(x=x.double(), y=y)
    assert not checker.value(x=3, y=y)


@pytest.mark.parametrize("native", [True, False])
def test_one_tensor_at_two_sources(native: bool) -> None:
    x = torch.randn(3)
    checker = Checker((Kind.TENSOR, X, x), (Kind.TENSOR, Y, x), native=native)
    other = torch.randn(3)
    assert checker.value(x=x, y=x) and checker.value(x=other, y=other)
    assert not checker.value(x=x, y=other)
    apart = Checker((Kind.TENSOR, X, x), (Kind.TENSOR, Y, other), native=native)
    assert apart.value(x=x, y=other) and not apart.value(x=x, y=x)


def test_what_hangs_on_a_tensor_is_fetched_behind_its_type() -> None:
    x = torch.randn(3, requires_grad=True)
    checker = Checker((Kind.IS, Attr(X, "grad"), None), (Kind.TENSOR, X, x))
    assert checker.value(x=x)
    x.sum().backward()
    assert not checker.value(x=x)

    class Trap:
        @property
        def grad(self) -> None:
            raise AssertionError("a guard ran the user's code")

    assert not checker.value(x=Trap())


def test_alias() -> None:
    a: list[int] = []
    same, other = Checker((Kind.ALIAS, X, Y)), Checker((Kind.NOT_ALIAS, X, Y))
    assert same.value(x=a, y=a) and not same.value(x=a, y=[])
    assert other.value(x=a, y=[]) and not other.value(x=a, y=a)


def test_no_overlap() -> None:
    base = torch.zeros(10)
    x, y = base[:5], torch.zeros(5)
    checker = Checker((Kind.TENSOR, X, x), (Kind.TENSOR, Y, y), (Kind.NO_OVERLAP, NOWHERE, (X, Y)))
    assert checker.value(x=x, y=y) and checker.value(x=base[:5], y=base[5:])
    assert not checker.value(x=base[:5], y=base[4:9])
    checker = Checker((Kind.TENSOR, X, base[:5]), (Kind.TENSOR, Y, base[2:7]), (Kind.NO_OVERLAP, NOWHERE, (X, Y)))
    assert checker.value(x=base[:5], y=base[2:7]) and checker.value(x=base[3:8], y=base[5:])
    assert not checker.value(x=base[:5], y=base[3:8]) and not checker.value(x=x, y=y)
    with pytest.raises(InternalError, match="TENSOR"):
        Checker((Kind.TENSOR, X, x), (Kind.NO_OVERLAP, NOWHERE, (X, Y)))


def class_attribute(cls: type, name: str) -> tuple[Any, ...]:
    return Kind.TYPE_ATTR, NOWHERE, (cls, name, type_attribute(cls, name))


class Base:
    limit = 5
    names = "ab"

    def inherited(self) -> int:
        return 1


class Derived(Base):
    __slots__ = ("slot",)

    def method(self) -> int:
        return 1

    @property
    def computed(self) -> int:
        return 2

    @staticmethod
    def static() -> int:
        return 3

    @classmethod
    def of_class(cls) -> int:
        return 4


def local_classes() -> tuple[type, type]:
    """Copies that no module names, so that they are held weakly."""
    base = type("Base", (), dict(Base.__dict__, __module__="nowhere"))
    own = {n: v for n, v in Derived.__dict__.items() if n not in ("__dict__", "__weakref__", "slot")}
    fresh = {
        "method": types.FunctionType(Derived.method.__code__, {}),
        "computed": property(lambda self: 2),
        "static": staticmethod(types.FunctionType(Derived.static.__code__, {})),
        "of_class": classmethod(lambda cls: 4),
    }
    return base, type("Derived", (base,), {**own, **fresh, "__module__": "nowhere"})


ATTRIBUTES = ["method", "computed", "static", "of_class", "slot", "inherited", "limit", "names", "missing"]


@pytest.fixture(params=["module level", "local"])
def classes(request: pytest.FixtureRequest) -> Any:
    if request.param == "local":
        yield local_classes()
        return
    saved = [(cls, dict(cls.__dict__)) for cls in (Base, Derived)]
    yield Base, Derived
    for cls, members in saved:
        for name in set(cls.__dict__) - set(members):
            delattr(cls, name)
        for name in ATTRIBUTES:
            if name in members and cls.__dict__.get(name) is not members[name]:
                setattr(cls, name, members[name])


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_class_attribute(name: str, classes: tuple[type, type]) -> None:
    base, derived = classes
    holds = Checker(class_attribute(derived, name)).holds
    assert holds()
    type.__setattr__(base, "unrelated", 1)
    assert holds()
    setattr(derived, name, lambda self: 9)
    assert not holds(), "replaced, or put in front"
    delattr(derived, name)
    assert holds() is (name not in derived.__dict__ and name in ("inherited", "limit", "names", "missing"))


@pytest.mark.parametrize("name", ["inherited", "limit", "missing"])
def test_class_attribute_of_a_base(name: str, classes: tuple[type, type]) -> None:
    base, derived = classes
    holds = Checker(class_attribute(derived, name)).holds
    setattr(base, name, 77)
    assert not holds()


def test_a_static_method_of_the_same_function_is_another_attribute(classes: tuple[type, type]) -> None:
    _, derived = classes
    holds = Checker(class_attribute(derived, "method")).holds
    derived.method = staticmethod(derived.__dict__["method"])  # type: ignore[attr-defined]
    assert not holds()


def test_changed_bases(classes: tuple[type, type]) -> None:
    base, _ = classes
    middle = type("Middle", (base,), {})
    cls = type("Last", (middle,), {})
    other = type("Other", (base,), {})
    holds = Checker(class_attribute(cls, "inherited")).holds
    assert holds()
    cls.__bases__ = (other,)
    assert not holds(), "what is between may define it next time"


class Meta(type):
    @property
    def __mro__(cls) -> Any:
        raise AssertionError("a guard ran the user's code")

    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError("a guard ran the user's code")


class OfMeta(metaclass=Meta):
    def method(self) -> int:
        return 1


def test_metaclasses_are_not_asked() -> None:
    method = type.__dict__["__dict__"].__get__(OfMeta)["method"]
    checker = Checker((Kind.TYPE_ATTR, NOWHERE, (OfMeta, "method", method)), (Kind.TYPE, X, OfMeta))
    assert checker.value(x=object.__new__(OfMeta))


def test_attributes_of_builtin_classes_need_no_guard() -> None:
    assert Checker(class_attribute(dict, "get"), class_attribute(list, "nonsense")).conditions == []


def test_class_attributes_are_checked_once_for_all_instances_and_subclasses() -> None:
    checker = Checker(*(class_attribute(cls, "__call__") for cls in (nn.Linear, nn.Conv2d, nn.Linear)))
    assert checker.text.count("k_Module_dict['__call__']") == 1
    assert checker.text.count("__mro__") == 2


def test_code() -> None:
    def function() -> int:
        return 1

    for source, arguments in ((X, {"x": function}), (Held("k_function", function), {})):
        checker = Checker((Kind.CODE, source, function.__code__))
        assert checker.value(**arguments)
        old = function.__code__
        function.__code__ = (lambda: 2).__code__
        assert not checker.value(**arguments)
        function.__code__ = old.replace()
        assert function.__code__ == old and not checker.value(**arguments), "equal code is another code"
        function.__code__ = old
        assert checker.value(**arguments)


def test_code_of_a_function_that_we_grafted() -> None:
    def function() -> int:
        return 1

    code = function.__code__
    grafted = code.replace(co_name="grafted")
    checker = Checker((Kind.CODE, X, code), original_code=lambda c: code if c is grafted else c)
    assert checker.value(x=function)
    function.__code__ = grafted
    assert checker.value(x=function)
    function.__code__ = code.replace(co_name="other")
    assert not checker.value(x=function)
    assert original_code(code) is code


def test_state() -> None:
    checker = Checker((Kind.STATE, NOWHERE), (Kind.STATE, NOWHERE))
    assert checker.conditions[0] == "k_state()" and checker.text.count("k_state") == 1
    assert checker.value()
    with torch.no_grad():
        assert not checker.value()
        inside = Checker((Kind.STATE, NOWHERE))
        assert inside.value()
    assert checker.value() and not inside.value()
    with torch.inference_mode():
        assert not checker.value()


def test_expression() -> None:
    more = Operation(">", X, Literal(3))
    assert Checker((Kind.EXPRESSION, more, True)).value(x=4) and not Checker((Kind.EXPRESSION, more, True)).value(x=3)
    assert Checker((Kind.EXPRESSION, more, False)).value(x=3) and not Checker((Kind.EXPRESSION, more, False)).value(x=4)


def test_relation_of_sizes() -> None:
    rows, columns = Item(Attr(X, "shape"), 0), Item(Attr(X, "shape"), 1)
    checker = Checker((Kind.TYPE, X, torch.Tensor), (Kind.SHAPE, Formula("{0}*2 <= {1}", (rows, columns)), None))
    assert checker.value(x=torch.ones(2, 4)) and not checker.value(x=torch.ones(3, 4))
    assert str(checker.guards[1]) == "x.shape[0]*2 <= x.shape[1]"


def test_every_kind_has_a_test_of_its_own() -> None:
    tested = {name for name in globals() if name.startswith("test_")}
    names = {
        Kind.TYPE: "test_type", Kind.IS: "test_is", Kind.IS_NOT: "test_is_not", Kind.EQUALS: "test_equals",
        Kind.LENGTH: "test_length", Kind.KEYS: "test_keys_of_a_dict", Kind.HAS_KEY: "test_has_and_lacks_key",
        Kind.LACKS_KEY: "test_has_and_lacks_key", Kind.TRUTHY: "test_truth", Kind.FALSY: "test_truth",
        Kind.TENSOR: "test_tensors", Kind.ALIAS: "test_alias", Kind.NOT_ALIAS: "test_alias",
        Kind.NO_OVERLAP: "test_no_overlap", Kind.TYPE_ATTR: "test_class_attribute", Kind.CODE: "test_code",
        Kind.NAMES: "test_names", Kind.STATE: "test_state", Kind.EXPRESSION: "test_expression",
        Kind.SHAPE: "test_relation_of_sizes",
    }  # fmt: skip
    assert set(names) == set(Kind) and set(names.values()) <= tested


# order and text -------------------------------------------------------------------------------------------------------
def test_bases_are_fetched_once_and_behind_their_guards() -> None:
    class Node:
        def __init__(self, child: Any = None) -> None:
            self.child = child
            self.value = 1

    child, grandchild = Attr(X, "child"), Attr(Attr(X, "child"), "child")
    checker = Checker(  # asked for from the inside out
        (Kind.EQUALS, Attr(grandchild, "value"), 1),
        (Kind.TYPE, grandchild, Node),
        (Kind.EQUALS, Attr(child, "value"), 1),
        (Kind.TYPE, child, Node),
        (Kind.TYPE, X, Node),
    )
    assert checker.text.count(".child") == 2 and checker.text.count(".value") == 2
    tree = Node(Node(Node()))
    assert checker.value(x=tree)
    tree.child.child.value = 2
    assert not checker.value(x=tree)

    class Trap:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError("a guard ran the user's code")

    assert not checker.value(x=Trap()) and not checker.value(x=Node(Trap())) and not checker.value(x=Node(Node(Trap())))


def test_arguments_first_then_state_then_what_is_fetched_then_tensors() -> None:
    x = torch.ones(2)
    checker = Checker(
        (Kind.TENSOR, X, x),
        (Kind.STATE, NOWHERE),
        (Kind.TYPE, Attr(SELF, "scale"), float),
        (Kind.TYPE, SELF, Plain),
        (Kind.EQUALS, Y, 3),
    )
    found = [next(i for i, c in enumerate(checker.conditions) if word in c)
             for word in ("y == 3", "k_state", "self.scale", "k_tensors")]  # fmt: skip
    assert found == sorted(found)


def test_many_tensors_behind_the_arguments_are_checked_last() -> None:
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(13)))
    x = torch.ones(1, 2)
    parameters = [
        (Kind.TENSOR, Item(Attr(Item(Attr(SELF, "_modules"), str(i)), "_parameters"), n), layer._parameters[n])
        for i, layer in enumerate(model)
        for n in ("weight", "bias")
    ]
    checker = Checker(*parameters, (Kind.TENSOR, X, x))
    assert [c.partition("(")[0] for c in checker.conditions] == ["k_tensors", "k_tensors_2"]
    assert checker.value(self=model, x=x)
    assert checker.text.count("self._modules") == 1
    assert not checker.value(self=model, x=torch.ones(2, 2))


def test_what_may_not_be_evaluated_binds_nothing() -> None:
    a, b, c = (Attr(X, name) for name in "abc")
    for op, result in (("and", False), ("or", True)):
        either = Operation(op, a, Operation(op, b, Attr(c, "d")))
        checker = Checker((Kind.EXPRESSION, either, result), (Kind.TYPE, b, bool), (Kind.TYPE, Attr(c, "d"), bool))
        for values in ((True, True), (False, False), (True, False), (False, True)):
            x = types.SimpleNamespace(a=values[0], b=values[1], c=types.SimpleNamespace(d=values[1]))
            wanted = (values[0] and values[1]) if op == "and" else (values[0] or values[1])
            assert checker.value(x=x) is (wanted is result)


def test_names_of_temporaries_are_free() -> None:
    source = Attr(Global("g0"), "x")
    checker = Checker((Kind.TYPE, source, Plain), (Kind.TYPE, Attr(source, "y"), int), taken={"g1"})
    assert "g2 := g0.x" in checker.text and "g1" not in checker.text
    checker.globals["g0"] = types.SimpleNamespace(x=Plain())
    checker.globals["g0"].x.y = 3
    assert checker.value()


def test_names_of_constants_are_unique_and_tell_what_they_are() -> None:
    other = type("Plain", (), {"__module__": __name__})
    checker = Checker((Kind.TYPE, X, Plain), (Kind.TYPE, Y, other), (Kind.IS, SELF, module_level))
    assert checker.conditions == [
        "k_type(x) is k_Plain", "k_type(y) is k_w_Plain()", "self is k_module_level",
    ]  # fmt: skip
    assert checker.value(x=Plain(), y=other(), self=module_level)


def test_names_that_are_constants_cannot_be_read_as_globals() -> None:
    for source in (Global("k_type"), Param("k_x")):
        with pytest.raises(InternalError, match="k_"):
            Checker((Kind.TYPE, source, int))


def test_a_module_may_shadow_builtins() -> None:
    checker = Checker((Kind.TYPE, X, list), (Kind.LENGTH, X, 1), (Kind.TYPE, Y, dict), (Kind.KEYS, Y, ("a",)))
    checker.globals.update(type=None, len=None, all=None, map=None, list=None)
    assert checker.value(x=[1], y={"a": 1})


def test_sources_of_other_kinds() -> None:
    key = Held("k_key", Color.RED)
    checker = Checker(
        (Kind.TYPE, X, dict),
        (Kind.EQUALS, Index(X, key), 3),
        (Kind.EQUALS, Call(Held("k_len", len), (X,)), 1),
        (Kind.EXPRESSION, Operation("<", Literal(float("-inf")), Y), True),
    )
    assert checker.value(x={Color.RED: 3}, y=1.0)
    assert not checker.value(x={Color.RED: 4}, y=1.0)


# holding --------------------------------------------------------------------------------------------------------------
def test_guards_keep_no_model_alive() -> None:
    model = nn.Linear(2, 2)
    x = torch.ones(1, 2)
    checker = Checker(
        (Kind.STATE, NOWHERE),
        (Kind.IS, SELF, model),
        (Kind.TENSOR, Item(Attr(SELF, "_parameters"), "weight"), model.weight),
        (Kind.TENSOR, X, x),
        (Kind.CODE, Held("k_forward", type(model).forward), nn.Linear.forward.__code__),
    )
    assert checker.value(self=model, x=x)
    references = [weakref.ref(model), weakref.ref(model.weight), weakref.ref(x)]
    del model, x
    gc.collect()
    assert [r() for r in references] == [None] * 3
    assert not checker.holds(self=None, x=torch.ones(1, 2))


def test_guards_keep_no_local_function_or_class_alive() -> None:
    def build() -> tuple[Checker, list[weakref.ref[Any]], Callable[[], bool]]:
        class Local:
            def method(self) -> type:
                return Local

            @property
            def computed(self) -> type:
                return Local

        def function() -> None:
            return None

        instance = Local()
        checker = Checker(
            (Kind.TYPE, X, Local), class_attribute(Local, "method"), class_attribute(Local, "computed"),
            (Kind.IS, Y, function),
        )  # fmt: skip
        return checker, [weakref.ref(Local), weakref.ref(function)], lambda: checker.value(x=instance, y=function)

    checker, references, holds = build()
    assert holds()
    del holds
    gc.collect()
    assert [r() for r in references] == [None, None]
    assert not checker.holds(x=1, y=None)


def test_held_objects_that_died_are_a_miss() -> None:
    instance: Any = Plain()
    instance.value = 3
    held = Held("k_instance", instance)
    collected = GuardSet()
    collected.add(Kind.EQUALS, Attr(held, "value"), 3)
    conditions, _ = guard_text(collected.freeze())
    assert conditions[0] == "(g0 := k_w_instance()) is not None"


# what failed ----------------------------------------------------------------------------------------------------------
def test_explain_names_the_first_guard_that_fails() -> None:
    line = UserLine("model.py", 12, "forward")
    guards = GuardSet()
    guards.add(Kind.STATE, NOWHERE)
    guards.add(Kind.TYPE, SELF, Plain)
    guards.add(Kind.EQUALS, Attr(SELF, "scale"), 2.0, line)
    guards.add(Kind.TENSOR, X, torch.ones(2, 3))
    guards.add(Kind.TENSOR, Y, torch.ones(4))
    frozen = guards.freeze()
    plain: Any = Plain()
    plain.scale = 2.0

    def why(**changed: Any) -> tuple[str, str] | None:
        arguments = {"self": plain, "x": torch.ones(2, 3), "y": torch.ones(4), **changed}
        found = first_failure(frozen, arguments, {})
        return None if found is None else (str(found[0]), found[1])

    assert why() is None
    assert why(x=torch.ones(2, 5)) == (
        "x: tensor Tensor torch.float32 (2, 3) on cpu", "shape (2, 5), was (2, 3); stride (5, 1), was (3, 1)",
    )  # fmt: skip
    assert str(why(y=torch.ones(4).double())).startswith("('y: tensor")
    assert why(self=3) == ("self: type Plain", "type int")
    plain.scale = 3.0
    assert why() == ("self.scale: equals 2.0", "3.0")
    found = first_failure(frozen, {"self": plain, "x": 1, "y": 2}, {})
    assert found is not None and found[0].line == line
    del plain.scale
    assert "AttributeError" in str(why())
    plain.scale = 2.0
    with torch.no_grad():
        assert why() == ("global state is as it was", "grad mode: False, was True")
    assert first_failure(frozen, {}, {}) is not None, "missing arguments are no reason to raise"


@pytest.mark.parametrize(
    ("guards", "arguments", "text"),
    [
        (((Kind.IS, X, module_level),), {"x": kinds}, "function kinds"),
        (((Kind.IS, X, None),), {"x": 3}, "type int"),
        (((Kind.TYPE, X, list), (Kind.LENGTH, X, 2)), {"x": [1]}, "length 1"),
        (((Kind.TYPE, X, dict), (Kind.KEYS, X, ("a",))), {"x": {}}, "dict object"),
        (((Kind.TYPE, X, dict), (Kind.HAS_KEY, X, "a")), {"x": {}}, "dict object"),
        (((Kind.TYPE, X, list), (Kind.TRUTHY, X)), {"x": []}, "empty list"),
        (((Kind.ALIAS, X, Y),), {"x": 1, "y": 2}, "1"),
        (((Kind.EXPRESSION, Operation(">", X, Literal(0)), True),), {"x": -1}, "False"),
        (((Kind.CODE, X, module_level.__code__),), {"x": kinds}, "function kinds"),
    ],
)
def test_explain_every_kind(guards: tuple[Any, ...], arguments: dict[str, Any], text: str) -> None:
    found = Checker(*guards).why(**arguments)
    assert found is not None
    assert found[0].kind is guards[-1][0]
    assert found[1] == text


def test_explain_class_attribute() -> None:
    class Local:
        limit = 3

    checker = Checker(class_attribute(Local, "limit"))
    assert checker.why() is None
    Local.limit = 4
    found = checker.why()
    assert found is not None and str(found[0]).startswith("class attribute") and found[1] == "4"


def test_descriptions_run_no_code_of_the_users() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("a message ran the user's code")

    assert describe(Loud()).endswith("Loud object")
    assert describe([Loud(), 1]).startswith("list of")
    assert describe("x" * 100).endswith("...")
    assert str(Guard(Kind.KEYS, X, ())) == "x: keys empty tuple"
    assert repr(MISSING) == "MISSING"


# modules: what changes in training scripts ----------------------------------------------------------------------------
def module_guards(model: nn.Module, source: Any = SELF) -> list[tuple[Any, ...]]:
    """What a capture asks of a module that it walks through."""
    guards: list[tuple[Any, ...]] = [
        (Kind.TYPE, source, type(model)),
        class_attribute(type(model), "forward"),
        class_attribute(type(model), "__call__"),
        class_attribute(type(model), "__getattr__"),
        (Kind.CODE, Held("k_forward", type(model).forward), type(model).forward.__code__),
        (Kind.LACKS_KEY, Attr(source, "__dict__"), "forward"),
        (Kind.EQUALS, Attr(source, "training"), model.training),
    ]
    for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
        guards += [(Kind.TYPE, Attr(source, hooks), type(getattr(model, hooks))), (Kind.FALSY, Attr(source, hooks))]
    for table in ("_modules", "_parameters", "_buffers"):
        members = getattr(model, table)
        guards += [(Kind.TYPE, Attr(source, table), dict), (Kind.KEYS, Attr(source, table), tuple(members))]
        for name, member in members.items():
            where = Item(Attr(source, table), name)
            if member is None:
                guards.append((Kind.IS, where, None))
            elif isinstance(member, nn.Module):
                guards += module_guards(member, where)
            else:
                guards.append((Kind.TENSOR, where, member))
    return guards


def swap_class_attribute(model: nn.Module) -> None:
    nn.ReLU.forward = lambda self, x: x


CHANGES: dict[str, Callable[[nn.Sequential], object]] = {
    "parameter data of another shape": lambda m: setattr(m[0].weight, "data", torch.randn(5, 4)),
    "half": lambda m: m.half(),
    "frozen parameter": lambda m: m[0].weight.requires_grad_(False),
    "replaced parameter by a buffer's kind": lambda m: m[0]._parameters.__setitem__("weight", torch.randn(4, 4)),
    "parameter taken away": lambda m: setattr(m[0], "bias", None),
    "late forward hook": lambda m: m[1].register_forward_hook(lambda *a: None),
    "late pre-hook": lambda m: m[0].register_forward_pre_hook(lambda *a: None),
    "late backward hook": lambda m: m[0].register_full_backward_hook(lambda *a: None),
    "hooks replaced": lambda m: m[0].__dict__.__setitem__("_forward_hooks", Forbidden()),
    "eval of a child": lambda m: m[1].eval(),
    "swapped child": lambda m: m.__setitem__(1, nn.GELU()),
    "appended child": lambda m: m.append(nn.ReLU()),
    "forward on the instance": lambda m: setattr(m[1], "forward", lambda x: x),
    "class of an instance": lambda m: setattr(m[1], "__class__", nn.Tanh),
    "forward of the class": swap_class_attribute,
    "code of the class's forward": lambda m: setattr(nn.ReLU.forward, "__code__", (lambda self, x: x).__code__),
    "tied parameters": lambda m: setattr(m[2], "weight", m[0].weight),
    "new buffer": lambda m: m[0].register_buffer("b", torch.ones(1)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_changed_modules_are_seen(what: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.BatchNorm1d(4))
    checker = Checker((Kind.STATE, NOWHERE), *module_guards(model))
    forward, code = nn.ReLU.forward, nn.ReLU.forward.__code__
    assert checker.value(self=model)
    twin = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.BatchNorm1d(4))
    assert checker.value(self=twin), "nothing depends on the instance"
    model(torch.randn(3, 4)).sum().backward()
    assert checker.value(self=model)
    try:
        CHANGES[what](model)
        assert not checker.holds(self=model)
        assert checker.why(self=model) is not None
    finally:
        nn.ReLU.forward = forward
        forward.__code__ = code
