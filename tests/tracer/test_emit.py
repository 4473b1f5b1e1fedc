"""The text of slots: captures made by hand, written, compiled and run as plain functions."""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from rewriter.region import NONE
from rewriter.text import compile_slot
from tracer.emit import Compiled, SlotText, write_region, write_slot
from tracer.errors import GraphBreak, InternalError, UserLine
from tracer.graph.capture import Capture, Exit
from tracer.guards import NOWHERE, GuardSet, Kind
from tracer.sources import Attr, Global, Held, Item, Param, Source

X, Y, N = Param("x"), Param("y"), Param("n")


@dataclass(frozen=True)
class Layout:
    index: int
    parameters: tuple[str, ...]


class Helpers(dict[str, Callable[..., Any]]):
    """k_miss, k_failed, k_raised and k_trial that note their calls."""

    def __init__(self) -> None:
        super().__init__(k_miss=self.miss, k_failed=self.failed, k_raised=self.raised, k_trial=self.trial)
        self.misses: list[tuple[Any, ...]] = []
        self.failures: list[tuple[int, Exception]] = []
        self.raises: list[tuple[int, Exception]] = []
        self.trials: list[int] = []

    def miss(self, *arguments: Any) -> str:
        self.misses.append(arguments)
        return "missed"

    def failed(self, number: int, error: Exception) -> None:
        self.failures.append((number, error))

    def raised(self, number: int, error: Exception) -> None:
        self.raises.append((number, error))

    def trial(self, number: int) -> None:
        self.trials.append(number)


def region(
    *guards: tuple[Any, ...], call: Callable[..., Any] | None = None, inputs: Sequence[Source] = (), **fields: Any
) -> Compiled:
    collected = GuardSet()
    for kind, source, *expected in guards:
        collected.add(kind, source, *expected)
    values: dict[str, Any] = {
        "entry": 0, "fetches": (), "graph": None, "outputs": (), "setup": (), "effects": (), "exit": Exit(7, ()),
        "constants": {},
    }  # fmt: skip
    return Compiled(Capture(guards=collected.freeze(), inputs=tuple(inputs), **{**values, **fields}), call)


class Slot:
    def __init__(self, *regions: Compiled, parameters: tuple[str, ...] = ("x", "y", "n"), **namespace: Any) -> None:
        self.helpers = Helpers()
        self.globals = namespace
        self.written: SlotText = write_slot("function", Layout(3, parameters), regions, self.helpers)
        compile(self.written.text, "slot", "exec")
        self.function = types.FunctionType(compile_slot(self.written.text, self.written.constants), self.globals)

    @property
    def text(self) -> str:
        return self.written.text

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def add(n: int, **fields: Any) -> Compiled:
    """A region for x + y where n is this."""
    return region(
        (Kind.STATE, NOWHERE), (Kind.TENSOR, X, torch.ones(2)), (Kind.TENSOR, Y, torch.zeros(2)), (Kind.EQUALS, N, n),
        **{"call": lambda x, y: (x + y * n,), "inputs": (X, Y), "outputs": ("t0",), "exit": Exit(7, ("t0",)), **fields},
    )  # fmt: skip


def test_no_region_is_a_miss() -> None:
    slot = Slot()
    assert slot(1, 2, 3) == "missed"
    assert slot.helpers.misses == [(1, 2, 3)]
    assert Slot(parameters=())() == "missed"


def test_one_region() -> None:
    compiled = add(3)
    slot = Slot(compiled)
    x, y = torch.ones(2), torch.full((2,), 2.0)
    landing, result = slot(x, y, 3)
    assert landing == 7 and result.tolist() == [7.0, 7.0]
    assert compiled.hits == [1]
    assert slot(x, y, 4) == "missed" and slot(x.double(), y, 3) == "missed" and slot(x, 1, 3) == "missed"
    with torch.no_grad():
        assert slot(x, y, 3) == "missed"
    assert len(slot.helpers.misses) == 4 and compiled.hits == [1]
    assert not slot.helpers.raises and not slot.helpers.failures


def test_two_regions_are_tried_in_order() -> None:
    first, second = add(3), add(4)
    slot = Slot(first, second)
    x, y = torch.ones(2), torch.ones(2)
    assert slot(x, y, 3)[1].tolist() == [4.0, 4.0] and slot(x, y, 4)[1].tolist() == [5.0, 5.0]
    assert slot(x, y, 5) == "missed"
    assert first.hits == [1] and second.hits == [1]
    assert slot.helpers.misses[0][2] == 5
    assert slot.text.index("n == 3") < slot.text.index("n == 4")


def test_a_region_is_written_once_and_used_again() -> None:
    """The tensors that it was captured with are dead by the time that the slot gets its next region."""
    first = add(3)
    before = Slot(first).text
    gc.collect()
    slot = Slot(add(4), first)
    x, y = torch.ones(2), torch.ones(2)
    assert slot(x, y, 3)[0] == 7 and slot(x, y, 4)[0] == 7
    assert first.hits == [1]
    assert Slot(first).text == before


def test_a_graph_that_raises_leaves_it_to_the_original_bytecode() -> None:
    def fails(x: Any, y: Any) -> Any:
        raise ValueError("boom")

    compiled = add(3, call=fails)
    slot = Slot(compiled, add(3))
    assert slot(torch.ones(2), torch.ones(2), 3) is None, "no other region is tried, nothing else is done"
    [(number, error)] = slot.helpers.failures
    assert number == compiled.number and type(error) is ValueError
    assert not slot.helpers.misses


def test_a_graph_of_another_number_of_outputs_has_failed() -> None:
    slot = Slot(add(3, call=lambda x, y: (x, y)))
    assert slot(torch.ones(2), torch.ones(2), 3) is None
    assert type(slot.helpers.failures[0][1]) is ValueError


def test_keyboard_interrupts_are_the_users() -> None:
    def interrupted(x: Any, y: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Slot(add(3, call=interrupted))(torch.ones(2), torch.ones(2), 3)


def test_a_graph_that_cannot_be_retried_raises_by_itself() -> None:
    def fails(x: Any, y: Any) -> Any:
        raise ValueError("boom")

    slot = Slot(add(3, call=fails, can_retry=False))
    with pytest.raises(ValueError, match="boom"):
        slot(torch.ones(2), torch.ones(2), 3)
    assert not slot.helpers.failures


def test_a_guard_that_raises_is_a_miss_of_its_region() -> None:
    class Node:
        pass

    def guarded(value: int) -> Compiled:
        return region((Kind.TYPE, X, Node), (Kind.EQUALS, Attr(X, "value"), value), exit=Exit(value, ()))

    first, second = guarded(3), region((Kind.TYPE, X, Node), exit=Exit(4, ()))
    slot = Slot(first, second)
    assert slot(Node(), 0, 0) == (4,)
    [(number, error)] = slot.helpers.raises
    assert number == first.number and type(error) is AttributeError
    assert first.hits == [0] and second.hits == [1]


def test_a_region_without_a_graph() -> None:
    slot = Slot(region((Kind.EQUALS, N, 3), setup=("v0 = [x, n]",), exit=Exit(9, ("v0", "y"))))
    assert slot(1, 2, 3) == (9, [1, 3], 2)
    assert slot(1, 2, 4) == "missed"
    with pytest.raises(InternalError, match="outputs"):
        Slot(region(outputs=("t0",)))


def test_a_region_without_guards() -> None:
    assert Slot(region())(1, 2, 3) == (7,)


def test_no_outputs_and_many() -> None:
    assert Slot(add(3, call=lambda x, y: (), outputs=(), exit=Exit(7, ())))(torch.ones(2), torch.ones(2), 3) == (7,)
    slot = Slot(add(3, call=lambda x, y: (x, y, x), outputs=("t0", "t1", "t2"), exit=Exit(7, ("t2", "t1"))))
    x, y = torch.ones(2), torch.ones(2)
    landing, a, b = slot(x, y, 3)
    assert landing == 7 and a is x and b is y


def test_setup_then_effects_in_order() -> None:
    log: list[Any] = []
    compiled = region(
        (Kind.TYPE, X, list),
        setup=("v0 = [n]", "v1 = (v0, k_note)"),
        effects=("x.append(v0)", "k_note(x)", "x[:] = v1[0]", "k_note(x)"),
        exit=Exit(2, ("v0", "x")),
        constants={"k_note": lambda value: log.append(list(value))},
    )
    target = [1]
    result = Slot(compiled)(target, None, 5)
    assert result == (2, [5], [5]) and result[2] is target
    assert log == [[1, [5]], [5]]


def test_fetches_happen_before_the_graph_and_a_miss_where_they_raise() -> None:
    class Node:
        pass

    log: list[str] = []

    def graph() -> tuple[()]:
        log.append("graph")
        return ()

    compiled = region(
        (Kind.TYPE, X, Node), call=graph, fetches=(("v0", Attr(Attr(X, "child"), "value")),), exit=Exit(5, ("v0",))
    )
    slot = Slot(compiled)
    node: Any = Node()
    assert slot(node, 0, 0) == "missed" and not log
    assert type(slot.helpers.raises[0][1]) is AttributeError
    node.child = types.SimpleNamespace(value=3)
    assert slot(node, 0, 0) == (5, 3) and log == ["graph"]


def test_inputs_are_fetched_once_with_their_guards() -> None:
    layer = nn.Linear(2, 2)
    parameters = Attr(Param("self"), "_parameters")
    weight, bias = Item(parameters, "weight"), Item(parameters, "bias")
    compiled = region(
        (Kind.TYPE, Param("self"), nn.Linear), (Kind.TYPE, parameters, dict), (Kind.TENSOR, X, torch.ones(1, 2)),
        (Kind.TENSOR, weight, layer.weight), (Kind.TENSOR, bias, layer.bias),
        call=lambda *args: (nn.functional.linear(*args),), inputs=(X, weight, bias),
        outputs=("t0",), exit=Exit(7, ("t0",)),
    )  # fmt: skip
    slot = Slot(compiled, parameters=("self", "x"))
    x = torch.randn(1, 2)
    for module in (layer, nn.Linear(2, 2)):
        assert torch.equal(slot(module, x)[1], module(x))
    assert slot.text.count("_parameters") == 1 and slot.text.count("weight") == 1
    assert slot(nn.Linear(2, 2, bias=False), x) == "missed"


def test_names_that_two_regions_use_for_different_things() -> None:
    def make(value: int, function: Any) -> Compiled:
        return region(
            (Kind.EQUALS, N, value),
            setup=("v0 = k_f(x)", "v1 = {'k_f': k_f}", "v2 = dict(k_f=1)"),
            exit=Exit(value, ("v0", "v1", "v2")),
            constants={"k_f": function},
        )

    slot = Slot(make(1, abs), make(2, str), make(3, abs))
    assert slot(-1, 0, 1) == (1, 1, {"k_f": abs}, {"k_f": 1})
    assert slot(-1, 0, 2) == (2, "-1", {"k_f": str}, {"k_f": 1})
    assert slot(-2, 0, 3) == (3, 2, {"k_f": abs}, {"k_f": 1})
    assert sum(value is abs for value in slot.written.constants.values()) == 1


def test_constants_named_like_the_helpers() -> None:
    def fails(x: Any, y: Any) -> Any:
        raise ValueError

    constants = {"k_miss": 1, "k_failed": 2, "k_raised": 3, "k_hits": 4, "k_graph": 5, "k_state": 6, "k_type": 7}
    good = add(3, constants=constants, exit=Exit(7, tuple(constants)))
    slot = Slot(good, add(4, constants=constants, call=fails, setup=("v0 = k_failed",)))
    x, y = torch.ones(2), torch.ones(2)
    assert slot(x, y, 3) == (7, 1, 2, 3, 4, 5, 6, 7)
    assert slot(x, y, 4) is None and len(slot.helpers.failures) == 1
    assert slot(x, y, 5) == "missed"
    assert good.hits == [1]


def test_temporaries_do_not_hide_what_another_region_reads() -> None:
    source = Global("hit")
    first = region((Kind.TYPE, Attr(Global("g0"), "a"), int), (Kind.EQUALS, Attr(Global("g0"), "a"), 1))
    second = region((Kind.EQUALS, source, 5), (Kind.EQUALS, Global("error"), 6), exit=Exit(8, ()))
    third = region(
        (Kind.TYPE, Attr(X, "b"), int), (Kind.EQUALS, Attr(X, "b"), 2), (Kind.TYPE, Y, int), exit=Exit(9, ())
    )
    slot = Slot(third, first, second, g0=types.SimpleNamespace(a=2), hit=5, error=6)
    assert slot(types.SimpleNamespace(b=3), 1, 1) == (8,)
    assert slot(types.SimpleNamespace(b=2), 1, 1) == (9,)
    slot.globals["g0"].a = 1
    assert slot(types.SimpleNamespace(b=3), 1, 1) == (7,)
    slot.globals["g0"].a, slot.globals["error"] = 2, 7
    assert slot(types.SimpleNamespace(b=3), 1, 1) == "missed"
    assert slot(None, 1, 1) == "missed" and slot.helpers.raises


def test_parameters_named_like_temporaries() -> None:
    a = Attr(Param("g0"), "a")
    compiled = region((Kind.TYPE, a, int), (Kind.EQUALS, a, 1), exit=Exit(7, ("g0", "hit", "error")))
    argument = types.SimpleNamespace(a=1)
    slot = Slot(compiled, parameters=("g0", "hit", "error"))
    assert slot(argument, 2, 3) == (7, argument, 2, 3)
    assert slot(types.SimpleNamespace(), 2, 3) == "missed"
    assert slot.helpers.misses[0][1:] == (2, 3)


def test_names_outside_of_ascii() -> None:
    constants = {"k_größe": 5}
    slot = Slot(
        region((Kind.EQUALS, N, 1), setup=("v0 = 'größe', k_größe",), exit=Exit(1, ("v0", "ö")), constants=constants),
        region((Kind.EQUALS, N, 2), setup=("v0 = 'größe', k_größe",), exit=Exit(2, ("v0", "ö")),
               constants={"k_größe": 6}),
        parameters=("ö", "n"),
    )  # fmt: skip
    assert slot(0, 1) == (1, ("größe", 5), 0) and slot(0, 2) == (2, ("größe", 6), 0)


def test_the_text_says_what_it_is() -> None:
    reason = GraphBreak("opaque function", "print", "call it outside")
    reason.stack = (UserLine("outer.py", 3, "f"), UserLine("inner.py", 14, "g"))
    text = Slot(add(3, graph_break=reason), add(4)).text
    assert text.startswith("# function, entry 3\ndef slot(x, y, n):\n")
    assert "exits to 7, graph break: opaque function: print at inner.py:14" in text
    assert text.rstrip().endswith("return k_miss(x, y, n)")
    odd = GraphBreak("a title", "details\nof two lines")
    assert "details of two lines" in Slot(add(3, graph_break=odd)).text


def test_helpers_are_asked_for() -> None:
    with pytest.raises(InternalError, match="k_failed, k_raised"):
        write_slot("f", Layout(0, ()), [], {"k_miss": print})


def test_slots_keep_no_model_alive_and_say_what_they_need() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    model = Model()
    compiled = region(
        (Kind.STATE, NOWHERE), (Kind.IS, X, model), (Kind.TYPE, X, Model), (Kind.TENSOR, Y, torch.ones(1)),
        (Kind.CODE, Held("k_forward", Model.forward), Model.forward.__code__),
    )  # fmt: skip
    slot = Slot(compiled)
    assert slot(model, torch.ones(1), 0) == (7,)
    assert {id(get()) for get in slot.written.weak_objects} == {id(model), id(Model.forward)}
    references: list[Any] = [weakref.ref(model), weakref.ref(Model)]
    del model, Model
    gc.collect()
    assert [r() for r in references] == [None, None]
    assert [get() for get in slot.written.weak_objects] == [None, None]
    assert slot(None, torch.ones(1), 0) == "missed"


def test_the_region_keeps_its_first_text() -> None:
    compiled = add(3)
    first = write_region(compiled, ("x", "y", "n"))
    assert write_region(compiled, ("x", "y", "n")) is first


# tensors that are checked and passed on together ----------------------------------------------------------------------
def parameters_of(count: int) -> tuple[dict[str, torch.Tensor], list[tuple[Any, ...]]]:
    tensors = {f"p{i}": torch.ones(i + 1) for i in range(count)}
    return tensors, [(Kind.TENSOR, Item(X, name), tensor) for name, tensor in tensors.items()]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 2, 0, 1, 3]])
@pytest.mark.parametrize("inputs", [5, 4, 3])
def test_one_tuple_for_check_and_graph(order: list[int], inputs: int) -> None:
    tensors, guards = parameters_of(5)
    sources = [Item(X, f"p{i}") for i in order[:inputs]]
    seen: list[tuple[torch.Tensor, ...]] = []

    def call(*arguments: torch.Tensor) -> tuple[torch.Tensor]:
        seen.append(arguments)
        return (arguments[0],)

    compiled = region((Kind.TYPE, X, dict), *guards, call=call, inputs=sources, outputs=("t0",), exit=Exit(7, ("t0",)))
    slot = Slot(compiled, parameters=("x",))
    assert ("k_graph(*g" in slot.text) == (inputs >= 4)
    assert slot(tensors)[1] is tensors[f"p{order[0]}"]
    assert all(t is tensors[f"p{i}"] for t, i in zip(seen[0], order, strict=False)) and len(seen[0]) == inputs
    assert slot(tensors | {"p3": torch.ones(9)}) == "missed" and not slot.helpers.raises


# direct entries -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "wanted"), [("n", "given"), ("None", NONE), ("(n, 1)", ("given", 1)), ("k_none", NONE), ("0", 0)]
)
def test_a_direct_slot_answers_with_the_object(value: str, wanted: object) -> None:
    compiled = region((Kind.TYPE, N, str), exit=Exit(7, (value,)), constants={"k_none": None})
    answer = Param("answer")  # a name that the text might take for itself
    layout = Layout(3, ("x", answer.name, "n"))
    written = write_slot("function", layout, [compiled], Helpers(), direct=True)
    slot = types.FunctionType(compile_slot(written.text, written.constants), {})
    assert slot(1, 2, "given") == wanted
    assert slot(1, 2, 3) == "missed"
    written = write_slot("function", layout, [compiled], Helpers())
    assert types.FunctionType(compile_slot(written.text, written.constants), {})(1, 2, "given")[0] == 7
