"""What one capture shares among its frames: graph, guards, held constants, known objects, and the log of changes.

Values and opcode handlers reach everything above them through this object. Nothing here knows an opcode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from rewriter.layouts import RESERVED

from ..errors import CannotUndo, GraphBreak, InternalError, UserLine, is_torchs
from ..graph.builder import GraphBuilder, GraphNumber, GraphTensor
from ..graph.capture import Request
from ..graph.marks import Marks
from ..graph.shapes import Layout
from ..guards import GuardSet, Kind
from ..sources import Attr, Global, Held, Item, Source, length_text, read_from
from ..values.base import Lazy, Mutable, Raised, Value, build
from ..values.constants import ConstantValue, constant
from ..values.exceptions import ExceptionValue
from ..values.generators import GeneratorValue
from ..values.lookup import ClassChanges
from .namespaces import Namespace

if TYPE_CHECKING:
    from ..values.tensors import TensorValue
    from .frame import Frame

#: instructions and items that one capture may read before it gives up (an endless loop over Python values, say)
BUDGET = 200_000
#: frames of the user's program that may be inlined into each other
MAX_DEPTH = 60

#: what a program does not let go of by forgetting a local
_LONG_LIVED = (type, ModuleType, BuiltinFunctionType, NoneType, bool, int, float, str)

Mark = tuple[int, Any, Any]


def _is_read_under(source: Source, where: object) -> bool:
    """Is it an attribute, global, item or cell of this name or key?"""
    if isinstance(source, (Attr, Global)):
        return source.name == where
    return isinstance(source, Item) and source.key == where


class HeldConstants:
    """The constants of one region, each under a name of its own.

    It knows nothing of the capture: a circle of the two would keep the user's objects alive until the collector comes.
    """

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}
        self._names: set[str] = set()

    def hold(self, obj: object, hint: str = "") -> Held:
        held = self._held.get(id(obj))
        if held is None:
            stem = re.sub(r"\W", "_", hint or getattr(obj, "__name__", None) or type(obj).__name__)
            name, n = f"k_{stem}", 2
            while name in self._names:
                name, n = f"k_{stem}_{n}", n + 1
            self._names.add(name)
            held = self._held[id(obj)] = Held(name, obj)
        return held

    def all(self) -> list[Held]:
        return list(self._held.values())

    def __len__(self) -> int:
        return len(self._held)


class Context:
    """The state of one capture.

    new_frame: the class of its frames.
    """

    new_frame: type[Frame]

    def __init__(
        self,
        request: Request,
        run_inline: Callable[..., Value],
        resume: Callable[..., Any],
        counters: set[str] | None = None,
    ) -> None:
        self.request = request
        #: what is told of this capture, if anybody listens; only what tells asks for it (listening.py)
        self.telling: Any = None
        #: texts of the sources of numbers that the program sets anew from what they were (`self.step += 1`)
        self.counters: set[str] = set() if counters is None else counters
        self._counters_before = frozenset(self.counters)
        self._resume = resume
        self._constants = HeldConstants()
        self.graph = GraphBuilder(
            scalars=request.capture_scalars, sizes=request.capture_sizes, hold=self._constants.hold
        )
        self.guards = GuardSet()
        self.frames: list[Frame] = []
        self.inlined: list[CodeType] = []
        #: for each graph input, in order: its source
        self.inputs: dict[int, Source] = {}
        self.read_anyway: list[Source] = []
        #: tensors made from Python numbers that enter the graph, by their source
        self.number_inputs: dict[Source, TensorValue] = {}
        #: live mutable values from outside that were changed, in the order of their first change
        self.changed: dict[int, Mutable] = {}
        self._run_inline = run_inline
        self._known: dict[int, tuple[object, Value]] = {}
        self._tensors: dict[int, Value] = {}
        self._journal: list[Callable[[], object]] = []
        self._namespaces: dict[int, Namespace] = {}
        #: generators that were made in the region, so that none is left half way with a `finally` to run
        self.generators: list[GeneratorValue] = []
        #: what was set on classes, by the class
        self.class_changes: dict[type, ClassChanges] = {}
        #: root instructions at which modes that are still entered were entered, outermost first
        self.modes: list[int] = []
        #: every change of a mutable value: (value, content before)
        self.changes_made: list[tuple[Mutable, Any]] = []
        #: how many functions that were given to torch's are being read, one in the other
        self.open_bodies = 0
        #: torch function modes that the region entered and did not leave, with what was around calls before
        self.function_modes: list[tuple[Value, Any]] = []
        #: no Python number becomes an input of the graph now
        self.numbers_are_fixed = False
        #: the program asked torch for its state
        self.asked_state = False
        #: it asked whether it is compiled, and was told so, or was not
        self.told_compiled = self.told_plain = False
        #: whether hooks on saved tensors may be set, once that was asked or changed
        self.hook_setting: Any = None
        #: some were set when the region began
        self.has_saved_tensor_hooks = False
        #: it asked whether autograd records now
        self.asked_grad_mode = False
        #: it looked whether a tensor is a leaf
        self.asked_leaf = False
        #: what was left out because autograd was off when it would have mattered
        self.relies_on_no_grad = False
        self._left = BUDGET

    # objects from outside -------------------------------------------------------------------------------------------
    def wrap(self, obj: object, source: Source) -> Value:
        """A value for an object from outside that adds no guard before it is looked at."""
        return Lazy(obj, source)

    def real(self, value: Value) -> Value:
        """The value itself, with its guards, for one that was not looked at before."""
        if value.__class__ is not Lazy:
            return value
        if value.value is None:
            value.value = self._realise(value)
            self._journal.append(lambda: setattr(value, "value", None))
        return value.value

    def _realise(self, lazy: Lazy) -> Value:
        source = lazy.source
        assert source is not None
        known = self._known.get(id(lazy.object))
        if known is not None:
            value = known[1]
            if value.source is not None and value.source != source:
                self.guard(Kind.ALIAS, source, value.source)
            return value
        value = build(self, lazy.object, source)
        if getattr(value, "has_identity", False):
            self.know(lazy.object, value)
        return value

    def know(self, obj: object, value: Value) -> None:
        """From now on this object, wherever it is found, is this value."""
        self._known[id(obj)] = (obj, value)
        self._journal.append(lambda: self._known.pop(id(obj)))

    def known_values(self) -> list[Value]:
        return [value for _, value in self._known.values()]

    @property
    def number_of_constants(self) -> int:
        return len(self._constants)

    def held_constants(self) -> list[Held]:
        """Those that were asked for until now, in order."""
        return self._constants.all()

    def hold(self, obj: object, hint: str = "") -> Held:
        """A constant of the region. The name is made from the hint or the object's own name."""
        return self._constants.hold(obj, hint)

    def must_read(self, source: Source) -> None:
        """The region reads it before the graph runs, whoever needs it: where that raises, the region is not the one."""
        self.read_anyway.append(source)
        self.on_rollback(self.read_anyway.pop)

    def changes(self, source: Source) -> bool:
        """Is it to be expected that what is read there is another number at the next call?"""
        if self.numbers_are_fixed:
            return False
        if self.request.dynamic is not None:
            return self.request.dynamic
        if self.graph.shapes.stands_for(source):
            return True
        text = str(source)
        if text in self.request.changing or text in self.counters:
            return True
        return any(map(self.changes, source.bases()))

    def length_changes(self, source: Source) -> bool:
        """Did a guard find another length of this container than a region had counted on?"""
        return length_text(source) in self.request.changing

    def stores(self, where: object, value: Value) -> None:
        """A value is stored under a name or key: if it is computed from the number that was there, that one changes."""
        if isinstance(value, ConstantValue) and type(value.value) in (int, float) and value.source is not None:
            self.counters.update(str(read) for read in read_from(value.source) if _is_read_under(read, where))

    def took_counter_for_constant(self) -> bool:
        """Does the region compare a number which, as was seen too late, is another one at the next call?"""
        new = self.counters - self._counters_before
        return bool(new) and any(
            guard.kind is Kind.EQUALS and not new.isdisjoint(map(str, read_from(guard.source))) for guard in self.guards
        )

    # sizes that are symbols -----------------------------------------------------------------------------------------
    def layout(self, tensor: torch.Tensor, source: Source) -> Layout | None:
        """Sizes and strides of a tensor from outside, if some of them are to be symbols."""
        history, text = self.request.history, str(source)
        history.saw(text, tensor)
        if isinstance(tensor, torch.nn.Parameter) or text in history.static:
            return None
        if tensor.is_conj() or tensor.is_neg():
            return None
        marks, dynamic = Marks.of(tensor), self.request.dynamic
        dims = frozenset(range(tensor.dim())) if dynamic else history.changed(text, tensor.dim())
        if dynamic is False:
            dims = frozenset()
        if marks is not None:
            dims = (dims | marks.likely) - marks.static | marks.dynamic
        if not dims and not history.any_stride_changed(text, tensor.dim()):
            return None
        return self.graph.shapes.layout(tensor, source, dims, history, self.here(), marks)

    def keep_static(self, tensors: Iterable[torch.Tensor]) -> None:
        """The sizes of these tensors cannot be symbols after all: the next capture knows."""
        for tensor in tensors:
            source = self.graph.shapes.inputs.get(id(tensor))
            if source is None:
                raise InternalError("the sizes of this tensor are no symbols")
            self.request.history.static.add(str(source))

    def number_symbol(self, value: float, source: Source) -> Any:
        """The symbol of a number from outside, which becomes an input of the graph."""
        shapes = self.graph.shapes
        number = shapes.number(value, source, self.here())
        if type(number) is int:
            self.guard(Kind.EQUALS, source, value)
            return number
        if not any(given.number is number for given in self.graph.inputs if isinstance(given, GraphNumber)):
            added = self.graph.add_number(number, f"number_{source}")
            self.inputs[id(added)] = source
        return number

    def note_shapes(self) -> None:
        """What was decided about symbols until now is needed by the line that is read."""
        if self.graph.shapes.used:
            self.graph.shapes.note(self.here())

    def guard_namespace(self, kind: Kind, source: Source, expected: object) -> None:
        """A guard on a held object that itself changes (a module's dict)."""
        self.guards.add(kind, source, expected, self.here)

    def guard(self, kind: Kind, source: Source | None, expected: object = None) -> None:
        """Ask that this still holds at run time. What has no source needs no guard, what is held only as an alias."""
        held = source.__class__ is Held and (kind is not Kind.ALIAS or expected.__class__ is Held)
        if source is not None and not held:
            self.guards.add(kind, source, expected, self.here)

    # tensors --------------------------------------------------------------------------------------------------------
    def tensor(self, graph_tensor: GraphTensor, make: Callable[[GraphTensor], Value]) -> Value:
        """The one value for a tensor of the graph."""
        value = self._tensors.get(id(graph_tensor))
        if value is None:
            value = self._tensors[id(graph_tensor)] = make(graph_tensor)
            value.born = self.root_index()
        return value

    def move_tensor(self, value: TensorValue, to: GraphTensor) -> None:
        """The value stands for another tensor of the graph from now on: the same one, computed elsewhere."""
        before = value.graph_tensor

        def put(tensor: GraphTensor, earlier: GraphTensor) -> None:
            self._tensors.pop(id(earlier), None)
            self._tensors[id(tensor)] = value
            value.graph_tensor = tensor

        self._journal.append(lambda: put(before, to))
        put(to, before)

    # changes --------------------------------------------------------------------------------------------------------
    def change(self, value: Mutable, content: Any) -> None:
        """Give a mutable value another content; a rollback gives back the old one."""
        old = value.content
        self.changes_made.append((value, old))
        first = value.source is not None and id(value) not in self.changed
        if first:
            self.changed[id(value)] = value

        def undo() -> None:
            value.content = old
            if first:
                del self.changed[id(value)]

        self._journal.append(undo)
        value.content = content

    def born(self, value: Any) -> Any:
        """Note where a new object was made: a break that cannot rebuild it must come before that."""
        value.born = self.root_index()
        return value

    def must_be_made(self, value: Any) -> Any:
        """It is made at run time even if nobody holds it at the end; its `effects` see to it."""
        self.changed[id(value)] = value
        self._journal.append(lambda: self.changed.pop(id(value)))
        return value

    def on_rollback(self, undo: Callable[[], object]) -> None:
        self._journal.append(undo)

    def mark(self) -> Mark:
        return len(self._journal), self.guards.mark(), self.graph.mark()

    def rollback(self, mark: Mark) -> None:
        """Undo everything since the mark. Raises CannotUndo, with nothing undone, where that cannot be had."""
        journal, guards, graph = mark
        if not self.graph.can_undo(graph):
            raise CannotUndo("something was done to a fake tensor or to torch's state that a mark cannot undo")
        while len(self._journal) > journal:
            self._journal.pop()()
        self.guards.rollback(guards)
        self.graph.rollback(graph)

    def close(self) -> None:
        """The capture is over: give torch's state back, and let go of the user's objects.

        Frames, values and what undoes their changes refer to each other; left to the collector they would keep what
        the call was given, whole batches on a device among them.
        """
        self.graph.close()
        while self._journal:
            self._journal.pop()()
        self._known.clear()
        self._tensors.clear()
        self._namespaces.clear()
        self.frames.clear()
        self.changed.clear()
        self.class_changes.clear()
        self.changes_made.clear()
        self.generators.clear()

    # where we are ---------------------------------------------------------------------------------------------------
    def here(self) -> UserLine | None:
        """The user's line: what torch's own code needs is needed by who called it."""
        for frame in reversed(self.frames):
            if not is_torchs(frame.code.co_filename):
                return frame.user_line()
        return self.frames[-1].user_line() if self.frames else None

    def in_words(self, message: str) -> str:
        """A message in which torch may have named symbols, with what they stand for."""
        return self.graph.shapes.in_words(message)

    def user_stack(self) -> tuple[UserLine, ...]:
        return tuple(frame.user_line() for frame in self.frames)

    def root_index(self) -> int:
        """The root instruction that is being read."""
        return self.frames[0].unit if self.frames else -1

    def entered_handlers(self) -> bool:
        """Does the entry lie in a handler of the user's, with the exception at hand?"""
        return bool(self.request.decoded.handlers_entered(self.request.layout.index))

    def keeps_everything(self) -> bool:
        """Does the program still hold, at this place, whatever it was given at the entry?

        Not surely where a local was bound anew or deleted, something on the stack was used, or an object from outside
        was changed. Classes, functions and modules of Python live longer than a call.
        """
        if self.changed:
            return False
        locals_, layout = self.frames[0].locals, self.request.layout
        kept = {id(v.object) for v in locals_.values() if isinstance(v, Lazy)}
        return all(
            id(obj) in kept or name in layout.cells or isinstance(obj, _LONG_LIVED)
            for name, obj in zip(layout.parameters, self.request.arguments, strict=True)
        )

    def spend(self, n: int) -> None:
        self._left -= n
        if self._left < 0:
            raise GraphBreak("capture takes too long", f"over {BUDGET} steps")

    # names ----------------------------------------------------------------------------------------------------------
    def namespace(self, module_dict: dict[str, Any]) -> Namespace:
        """The globals of a function, shared by all functions of the module."""
        found = self._namespaces.get(id(module_dict))
        if found is None:
            direct = module_dict is self.request.globals
            found = Namespace(module_dict, self.hold(module_dict, "globals"), direct)
            self._namespaces[id(module_dict)] = found
        return found

    def is_reserved(self, name: str) -> bool:
        """Does the name mean something else in region text?"""
        return RESERVED.fullmatch(name) is not None

    def original_code(self, function: FunctionType) -> CodeType:
        """The code that the user wrote, for a function that is grafted now."""
        return self.request.original_code(function)

    # calls ----------------------------------------------------------------------------------------------------------
    def inline(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Interpret a call of a Python function."""
        if len(self.frames) >= MAX_DEPTH:
            raise GraphBreak("calls are nested too deeply", f"{len(self.frames)} frames")
        return self._run_inline(self, function, args, kwargs)

    def resume(
        self, generator: GeneratorValue, sent: Value, thrown: Value | None = None
    ) -> tuple[Value | None, Value]:
        """Run a generator made in the region on to its next yield: (item, _), or (None, what it returned)."""
        return self._resume(self, generator, sent, thrown)

    def send(self, iterator: Value, sent: Value) -> tuple[Value | None, Value]:
        """`iterator.send(sent)`, or `next` where None is sent to something that is no generator."""
        if isinstance(iterator, GeneratorValue):
            return iterator.send(self, sent)
        if not (isinstance(sent, ConstantValue) and sent.value is None):
            raise GraphBreak("Python raises or warns here", f"send() to {iterator}")
        return iterator.next(self), constant(None)

    def wrap_attribute(self, obj: object, owner: Value, name: str) -> Value:
        """An attribute of an object from outside that is plainly there."""
        assert owner.source is not None
        return self.wrap(getattr(obj, name), Attr(owner.source, name))

    def raise_(self, exception: BaseException) -> NoReturn:
        """The user's code raises this builtin exception here, with just these arguments."""
        raise Raised(self.born(ExceptionValue(type(exception), [constant(argument) for argument in exception.args])))
