"""The FX graph under construction: every recorded call runs on fake tensors and becomes a node.

One builder per capture, used by one thread. It changes nothing real: no tensor, no generator. Torch's thread state that
captured code changes (grad mode, autocast) is applied while the capture lasts, and put back by `finish` or `close`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ..errors import CannotUndo, GraphBreak, InputComesLate, InternalError, MustBeStatic
from ..signals import raised_by_signal
from ..sources import Held
from ..torch_private import FakeTensor, enable_python_dispatcher, lazy_graph_module, new_shape_env, shape_env_state
from ..torch_symbols import ASSERT, CHECK, SYMBOLIC, NoNodes, is_unbacked, promises, take_fresh
from . import finishing
from .arguments import PLAIN, convert
from .expectations import Expectations, is_foreign
from .failures import explained
from .fakes import Observed, ObservingFakeMode, metadata
from .fx_capture import EndState, Examples, FxCapture, GraphInput, GraphNumber, GraphTensor
from .inputs import STATE, FakeMaker, is_module_state, refuse_input, storage_of
from .refused import refuse
from .shapes import Layout, Shapes
from .sizes import SizeNodes
from .state import ENTER, GRAD_MODE, Entered, State

__all__ = ["FxCapture", "GraphBuilder", "GraphNumber", "GraphTensor", "Mark"]

#: results of calls that are answers about a tensor, not tensors
_ANSWERS = PLAIN | {torch.Size, type}


@dataclass(frozen=True, slots=True)
class Mark:
    """A point to which a builder can go back, as long as nothing irrevocable was done since."""

    nodes: int
    tensors: int
    inputs: int
    effects: int
    written: int
    constants: int
    random: bool
    repeatable: bool
    expected: int
    irrevocable: int
    shapes: tuple[int, ...]
    sizes: tuple[int, int, int]
    state: State


@dataclass(frozen=True, slots=True)
class Ran:
    """A call on fake tensors: its result, its arguments with fakes and with nodes, and whether it did what lasts."""

    result: Any
    fakes: tuple[Any, Any]
    node_args: Any
    node_kwargs: Any
    has_effect: bool


class GraphBuilder:
    """Records calls; hands out a `GraphTensor` for each tensor, always the same one for the same tensor."""

    def __init__(
        self,
        *,
        scalars: bool = False,
        sizes: bool = False,
        hold: Callable[[object, str], Held] = lambda obj, hint: Held(f"k_{hint}", obj),
    ) -> None:
        """scalars, sizes: may numbers be read from tensors, may the size of a result depend on their values?

        hold: makes a constant of the region.
        """
        self.shape_env = new_shape_env(scalars=scalars, sizes=sizes)
        self.shapes = Shapes(self.shape_env, hold)
        self.fake_mode = ObservingFakeMode(self.shape_env)
        self._fakes = FakeMaker(self.fake_mode)
        self.graph = torch.fx.Graph()
        self.root = torch.nn.Module()
        self.inputs: list[GraphInput] = []
        #: the real tensor of each input, held as long as the capture lasts, or the symbol of a number
        self.examples: list[torch.Tensor | torch.SymInt] = []
        self.random = False
        #: it does nothing that it may not do twice, apart from what it writes and draws
        self._repeatable = True
        #: what the region counts on, of the values of its tensors
        self.expectations = Expectations()
        self.finished = False
        self._state = self._initial_state = State.current()
        #: every node in the order of its creation
        self._nodes: list[torch.fx.Node] = []
        self._sizes = SizeNodes(self.graph, self._nodes)
        #: every tensor of the graph by the identity of its fake, which it keeps alive, in the order of creation
        self._tensors: dict[int, GraphTensor] = {}
        #: nodes that stay even if nobody uses their result
        self._effects: list[torch.fx.Node] = []
        #: storages that the graph writes, in the order of the first write
        self._written: dict[int, None] = {}
        self._constants: list[int] = []
        self._irrevocable = 0
        #: storages of fakes that got another shape or history than their real tensors have
        self._changed: set[int] = set()
        #: the fakes of inputs to come, by the identity of the real tensor, which the caller keeps alive
        self._expected: dict[int, FakeTensor] = {}
        self._grad_was_on = False
        #: entered around each call: what the real call will be within
        self.around_calls: Callable[[], AbstractContextManager[object]] = nullcontext
        #: by symbol, how many of torch's promises are nodes of the graph
        self._promised: dict[Any, int] = {}
        #: how many bodies were given to calls (bodies.py)
        self.bodies = 0

    # inputs and constants -----------------------------------------------------------------------------------------
    def add_input(self, tensor: torch.Tensor, source_text: str, layout: Layout | None = None) -> GraphTensor:
        """A placeholder for a real tensor. The caller adds the same tensor only once.

        layout: its sizes and strides, if some of them are symbols.  Raises MustBeStatic where memory is shared then.
        """
        fake = self._fake_input(tensor, layout)
        if id(fake) in self._tensors:
            raise InternalError(f"{source_text} is an input of the graph already")
        node = self._placeholder(source_text)
        self.examples.append(tensor)
        node.meta[STATE] = is_module_state(tensor, source_text)
        self.inputs.append(result := self._know(node, fake))
        if layout is not None:
            self._sizes.found_in(node, layout)
        return result

    def add_number(self, number: torch.SymInt, source_text: str) -> GraphNumber:
        """A placeholder for a Python number, for which a symbol stands."""
        node = self._placeholder(source_text)
        node.meta["example_value"] = number
        self.examples.append(number)
        self.inputs.append(result := GraphNumber(node, number))
        self._sizes.is_input(number, node)
        return result

    @property
    def _last_input(self) -> torch.fx.Node | None:
        return self.inputs[-1].node if self.inputs else None

    def _placeholder(self, source_text: str) -> torch.fx.Node:
        last = self._last_input
        point = self.graph.inserting_before(None) if last is None else self.graph.inserting_after(last)
        with point:
            node = self.graph.placeholder(_identifier(source_text))
        node.target = node.name  # the parameter: two sources may give one identifier
        self._nodes.append(node)
        return node

    def expect_input(self, tensor: torch.Tensor) -> None:
        """It becomes an input behind a call that changes what shares its memory: its fake must see that call."""
        self._expected[id(tensor)] = self._fakes.fake(tensor)

    def _fake_input(self, tensor: torch.Tensor, layout: Layout | None) -> FakeTensor:
        """Raises InputComesLate where its fake would be made from one that is not what the real tensor is any more."""
        expected = self._expected.get(id(tensor))
        if expected is not None:
            if layout is not None:
                raise MustBeStatic(tensor)
            return expected
        if self._changed:
            refuse_input(tensor)
            storage = storage_of(tensor)
            for real, known in zip(self.examples, self.inputs, strict=True):
                if not isinstance(real, torch.Tensor) or not isinstance(known, GraphTensor):
                    continue
                if storage_of(real) == storage and storage_of(known.fake) in self._changed:
                    raise InputComesLate(tensor)
        fake = self._fakes.fake(tensor, layout)
        for storage in self._written:
            self._fakes.if_written(storage)
        return fake

    def real_of(self, tensor: GraphTensor) -> torch.Tensor:
        """The real tensor that an input stands for."""
        at = next(i for i, candidate in enumerate(self.inputs) if candidate is tensor)
        found = self.examples[at]
        assert isinstance(found, torch.Tensor)
        return found

    def input_of_same_memory(self, tensor: GraphTensor) -> GraphTensor | None:
        """The first input in whose memory the tensor lies. Raises GraphBreak where that got another shape since."""
        storage = storage_of(tensor.fake)
        found = next((given for given in self.inputs if _is_in(given, storage)), None)
        if found is not None and storage in self._changed:
            raise GraphBreak("tensor memory is accessed", "after its shape was changed in place")
        return found  # type: ignore[return-value]

    def _inputs_in(self, storage: int) -> list[torch.Tensor]:
        return [given.fake for given in self.inputs if _is_in(given, storage)]  # type: ignore[union-attr]

    def get_constant(self, tensor: torch.Tensor) -> GraphTensor:
        """A real tensor that belongs to the graph itself, and that the graph may not write."""
        fake = self._fakes.fake(tensor)
        known = self._tensors.get(id(fake))
        if known is not None:
            return known
        name = f"_constant{len(self._constants)}"
        self.root.register_buffer(name, tensor)
        node = self.graph.get_attr(name)
        self._nodes.append(node)
        self._constants.append(storage_of(fake))
        return self._know(node, fake)

    # calls --------------------------------------------------------------------------------------------------------
    def call(
        self,
        target: Callable[..., Any] | str,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        method: bool = False,
    ) -> Any:
        """Record a call of a function, or of a method by its name; the result has a GraphTensor for each tensor.

        Raises GraphBreak where the call cannot be captured, OperatorFailed where it fails on real tensors too.
        """
        args = tuple(args)
        refuse(target, args)
        ran = self.run_on_fakes(target, args, kwargs or {}, method=method)
        if self.expectations:
            self._must_be_repeatable(target, ran)
        result = ran.result
        known = self._tensors.get(id(result)) if result.__class__ is FakeTensor else None
        if known is not None and not ran.has_effect:
            return known
        if known is None and not self._new_tensors_in(result) and not ran.has_effect:
            return self._answer(target, result, ran.fakes)
        node = self.write(target, ran, method=method)
        return known if known is not None else self._distribute(result, node)

    def run_on_fakes(
        self, target: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any], *, method: bool = False
    ) -> Ran:
        """Call it on fake tensors, and note what that did. Raises as `call` does."""
        self._grad_was_on = self._grad_was_on or torch.is_grad_enabled()
        fake_args, node_args = convert(args, self._symbol)
        fake_kwargs, node_kwargs = convert(kwargs, self._symbol) if kwargs else ({}, {})
        fakes = (fake_args, fake_kwargs)
        observed = self.fake_mode.observed = Observed()
        try:
            with self.fake_mode, self.around_calls(), self._symbolic_kernels():
                if method:
                    result = getattr(fake_args[0], target)(*fake_args[1:], **fake_kwargs)  # type: ignore[arg-type]
                else:
                    result = target(*fake_args, **fake_kwargs)  # type: ignore[operator]
        except Exception as error:
            self._note_writes(observed, fakes)
            if raised_by_signal(error):
                raise
            raise explained(error, target) from error
        self._write_promises()
        has_effect = observed.anything and self._note(observed, fakes)
        if observed.effect or is_foreign(target):
            self._repeatable = False
        return Ran(result, fakes, node_args, node_kwargs, has_effect)

    def _must_be_repeatable(self, target: Callable[..., Any] | str, ran: Ran) -> None:
        """Raise GraphBreak behind what the region counts on, for a call that a region which is dropped may not make."""
        on_cpu = all(tensor.device.type == "cpu" for tensor in _tensors_in((*ran.fakes, ran.result)))
        self.expectations.refuse_what_cannot_wait(target, ran.fakes[0], on_cpu)
        if not self._repeatable or self.writes_inputs:
            self.expectations.must_be_decided(target)

    def expect(self, tensor: GraphTensor, truth: bool) -> bool:
        """The region counts on the truth value of this tensor. False: it cannot, and nothing is noted."""
        if not self._repeatable or self.writes_inputs or not self.expectations.can_hold(tensor):
            return False
        self.expectations.append((tensor, truth))
        return True

    def write(self, target: Callable[..., Any] | str, ran: Ran, *, method: bool = False) -> torch.fx.Node:
        """The node of a call that ran on fakes."""
        name = "call_method" if method else "call_function"
        node = self.graph.create_node(name, target, ran.node_args, ran.node_kwargs)
        self._nodes.append(node)
        if ran.has_effect:
            self._effects.append(node)
        return node

    def _symbolic_kernels(self) -> AbstractContextManager[object]:
        """Where C++ would make numbers of symbols, torch's decompositions in Python compute with them."""
        return enable_python_dispatcher() if self.shapes.used else nullcontext()

    def _symbol(self, value: Any) -> Any:
        try:
            return self._sizes.of(value, self._last_input)
        except NoNodes:  # then it is one number, which a guard says
            return float(value) if isinstance(value, torch.SymFloat) else int(value)

    def promise(self, condition: torch.SymBool) -> None:
        """The program says that this holds of numbers that depend on a tensor's values."""
        CHECK(condition)
        self._write_promises()

    def _write_promises(self) -> None:
        """What torch counts on by now is asked when the graph runs, before whatever relies on it."""
        for expr, message in promises(self.shape_env, self._promised):
            self._effect_node(ASSERT, (self._sizes.of_expression(expr, self._last_input), message))

    def _answer(self, target: Any, result: Any, arguments: Any) -> Any:
        """The result of a call that computed no tensor and changed nothing: nothing to record."""
        of_shapes = target is torch.broadcast_shapes  # asks nothing but its arguments, as one with tensors does
        if result is None or not (_tensors_in(arguments) or of_shapes):
            name = getattr(target, "__name__", target)
            raise GraphBreak("torch function is no operator", str(name))
        return self._distribute(result, None)

    def _new_tensors_in(self, result: Any) -> bool:
        """Are there tensors in it that the graph lacks? Raises GraphBreak for a result that a graph can't give."""
        kind = result.__class__
        if kind is FakeTensor or isinstance(result, FakeTensor):
            if result.layout is not torch.strided:
                raise GraphBreak("kind of tensor is not supported", str(result.layout))
            return id(result) not in self._tensors
        if kind in SYMBOLIC:
            return is_unbacked(result) and not self._sizes.knows(result)
        if kind in _ANSWERS:
            return False
        if isinstance(result, (tuple, list, dict)):
            new = False
            for item in result.values() if isinstance(result, dict) else result:
                new |= self._new_tensors_in(item)  # not any(): each item must be one that a graph can give
            return new
        raise GraphBreak("result cannot be in a graph", kind.__qualname__)

    def _distribute(self, result: Any, node: torch.fx.Node | None) -> Any:
        """The result with a GraphTensor for each tensor; `node` computes it (None: it has no new tensor)."""
        if isinstance(result, FakeTensor):
            known = self._tensors.get(id(result))
            if known is None and node is not None:
                known = self._know(node, result)
            return known
        if isinstance(result, SYMBOLIC) and node is not None and is_unbacked(result) and not self._sizes.knows(result):
            self._sizes.is_computed(result, node)
            take_fresh(self.shape_env)
        if not isinstance(result, (tuple, list, dict)) or isinstance(result, torch.Size):
            return result
        keys = list(result) if isinstance(result, dict) else range(len(result))
        items = [self._distribute(result[key], self._item(node, key, result[key])) for key in keys]
        if isinstance(result, dict):
            return dict(zip(keys, items, strict=True))
        if type(result) in (tuple, list):
            return type(result)(items)
        if hasattr(result, "_fields"):
            return type(result)(*items)
        return type(result)(items)  # torch.return_types take one sequence

    def _item(self, node: torch.fx.Node | None, key: Any, item: Any) -> torch.fx.Node | None:
        if node is None or not self._new_tensors_in(item):
            return None
        child = self.graph.create_node("call_function", operator.getitem, (node, key), {})
        self._nodes.append(child)
        return child

    def _know(self, node: torch.fx.Node, fake: FakeTensor) -> GraphTensor:
        node.meta["example_value"] = fake
        if self.shape_env.pending_fresh_unbacked_symbols:
            self._sizes.is_computed_with(node, fake.shape)
            take_fresh(self.shape_env)
        tensor = self._tensors[id(fake)] = GraphTensor(node, fake)
        return tensor

    # what calls do beside their results ---------------------------------------------------------------------------
    def _note(self, observed: Observed, arguments: Any) -> bool:
        """Does the call do anything that lasts? Writing a tensor that it made itself is nothing of the kind."""
        self.random |= observed.random
        return bool(observed.written and self._note_writes(observed, arguments)) or observed.random or observed.effect

    def _note_writes(self, observed: Observed, arguments: Any) -> bool:
        given = {storage_of(tensor) for tensor in _tensors_in(arguments)} if observed.written else set()
        wrote = False
        for tensor, before, constant in observed.written:
            if tensor.layout is not torch.strided:
                continue  # made inside of the call: no such tensor is ever given to one
            storage = storage_of(tensor)
            if storage not in given:
                continue
            if storage in self._constants:
                raise GraphBreak("argument cannot be in a graph", "a constant that is written", "clone it first")
            if any(map(_overlaps_itself, (tensor, *self._inputs_in(storage)))):  # real ones may refuse it
                raise GraphBreak("argument cannot be in a graph", "expanded and written", "clone it first")
            wrote = True
            self._fakes.if_written(storage)
            self._written[storage] = None
            # Autograd history, shape, and the value of a known constant stay changed when the node is erased.
            if metadata(tensor) != before:
                self._changed.add(storage)
                self._irrevocable += 1
            elif constant:
                self._irrevocable += 1
        return wrote

    # state of torch -----------------------------------------------------------------------------------------------
    def set_state(self, kind: str, *arguments: Any) -> Entered | None:
        """Record and apply a change of torch's state.

        ("grad", enabled); ("autocast", device_type, dtype, enabled, cache_enabled) and ("inference_mode", enabled)
        enter a mode and give a token for `leave_state`.
        """
        if kind == "grad":
            self._effect_node(GRAD_MODE, arguments)
            GRAD_MODE(*arguments)
            self._state = State(torch.is_grad_enabled(), self._state.entered)
            return None
        enter = ENTER[kind][0]
        context = enter(*arguments)
        entered = Entered(kind, arguments, self._effect_node(enter, arguments), context, self._state.grad_enabled)
        self._state = State(torch.is_grad_enabled(), (*self._state.entered, entered))
        return entered

    def leave_state(self, entered: Entered) -> None:
        """Leave the innermost mode that is entered."""
        if not self._state.entered or self._state.entered[-1] is not entered:
            raise InternalError(f"{entered.kind} is not the innermost mode that the graph entered")
        self._effect_node(ENTER[entered.kind][1], (entered.node,))
        entered.leave()
        self._state = State(torch.is_grad_enabled(), self._state.entered[:-1])

    def _effect_node(self, target: Callable[..., Any], args: tuple[Any, ...]) -> torch.fx.Node:
        node = self.graph.create_node("call_function", target, args, {})
        self._nodes.append(node)
        self._effects.append(node)
        return node

    @property
    def recorded(self) -> Sequence[torch.fx.Node]:
        """Every node that is there now, inputs among them, in the order they came in. A rollback cuts off the end."""
        return self._nodes

    @property
    def node_count(self) -> int:
        return len(self._nodes)

    @property
    def operator_count(self) -> int:
        return finishing.count_operators(self.graph)

    @property
    def writes_inputs(self) -> bool:
        return any(self._is_written(given) for given in self.inputs)

    def has_written(self, fake: torch.Tensor) -> bool:
        """Did a call write to the memory of this tensor?"""
        return storage_of(fake) in self._written

    def _is_written(self, given: GraphInput) -> bool:
        return isinstance(given, GraphTensor) and storage_of(given.fake) in self._written

    # undo ---------------------------------------------------------------------------------------------------------
    def mark(self) -> Mark:
        return Mark(
            len(self._nodes), len(self._tensors), len(self.inputs), len(self._effects), len(self._written),
            len(self._constants), self.random, self._repeatable, len(self.expectations), self._irrevocable,
            shape_env_state(self.shape_env), self._sizes.mark(), self._state,
        )  # fmt: skip

    def can_undo(self, mark: Mark) -> bool:
        return (
            mark.irrevocable == self._irrevocable
            and mark.shapes == shape_env_state(self.shape_env)
            and self._state.begins_with(mark.state)
        )

    def rollback(self, mark: Mark) -> None:
        """Erase everything since the mark, inputs included; GraphTensors made since then are void."""
        if not self.can_undo(mark):
            raise CannotUndo("fake tensors, shapes or modes were changed in a way that a mark cannot undo")
        self._state.back_to(mark.state)
        self._state = mark.state
        for node in reversed(self._nodes[mark.nodes :]):
            self.graph.erase_node(node)
        for index in range(mark.constants, len(self._constants)):
            delattr(self.root, f"_constant{index}")
        del self._nodes[mark.nodes :]
        del self.inputs[mark.inputs :], self.examples[mark.inputs :]
        del self._effects[mark.effects :], self._constants[mark.constants :]
        _cut(self._tensors, mark.tensors)
        _cut(self._written, mark.written)
        self._sizes.rollback(mark.sizes)
        self.random, self._repeatable = mark.random, mark.repeatable
        del self.expectations[mark.expected :]

    # the end ------------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Give torch's state back. Idempotent; to be called when a capture is given up."""
        self._state.back_to(self._initial_state)
        self._state = self._initial_state

    def __enter__(self) -> GraphBuilder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def finish(self, outputs: Sequence[GraphTensor]) -> FxCapture:
        """The frozen graph; the builder is used up. The graph leaves torch's state as it found it."""
        if self.finished:
            raise InternalError("a graph can be finished once")
        self.finished = True
        end_state = self._end_state()
        self.close()
        graph = self.graph
        graph.output(tuple(tensor.node for tensor in outputs))
        finishing.remove_dead_code(graph, self._effects)
        finishing.remove_idle_grad_modes(graph, self._initial_state.grad_enabled)
        used = finishing.remove_unused_inputs(graph, self.inputs)
        inputs = tuple(self.inputs[index] for index in used)
        return FxCapture(
            module=lazy_graph_module(self.root, graph),
            inputs=inputs,
            outputs=finishing.describe_outputs(outputs, inputs, self._fakes.real_storage),
            mutates_inputs=tuple(i for i, given in enumerate(inputs) if self._is_written(given)),
            static_inputs=tuple(i for i, given in enumerate(inputs) if given.node.meta.get(STATE)),
            uses_rng=self.random,
            changes_state=finishing.changes_state(graph),
            records_autograd=self._grad_was_on and any(t.fake.requires_grad for t in self._tensors.values()),
            end_state=end_state,
            operators=finishing.count_operators(graph),
            shape_env=self.shape_env,
            layouts=dict(self.shapes.layouts),
            _examples=Examples(self.examples[index] for index in used),
        )

    def _end_state(self) -> EndState:
        """Close in the graph what is open, and say what that was."""
        grad_enabled = self._state.grad_enabled
        open_modes = self._state.entered
        for entered in reversed(open_modes):
            self.leave_state(entered)
        if self._state.grad_enabled != self._initial_state.grad_enabled:
            self.set_state("grad", self._initial_state.grad_enabled)
        return EndState(
            grad_enabled if grad_enabled != self._initial_state.grad_enabled else None,
            tuple((entered.kind, entered.arguments) for entered in open_modes),
        )


def _tensors_in(value: Any) -> list[FakeTensor]:
    if isinstance(value, FakeTensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    return [tensor for item in value for tensor in _tensors_in(item)]


def _is_in(given: GraphInput, storage: int) -> bool:
    """Does the input lie in this memory?"""
    return isinstance(given, GraphTensor) and storage_of(given.fake) == storage


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    """Is it surely so that several elements are at one place, as in an expanded tensor?"""
    return any(
        type(stride) is int and stride == 0 and not (type(size) is int and size <= 1)
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


def _cut(ordered: dict[int, Any], length: int) -> None:
    while len(ordered) > length:
        ordered.popitem()


def _identifier(source_text: str) -> str:
    """A readable name for a placeholder: `self._modules["fc"]._parameters["weight"]` -> `self_fc_weight`."""
    text = re.sub(r"\b_(parameters|modules|buffers)\b", "", source_text)
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name and not name[0].isdigit() else f"input_{name}"
