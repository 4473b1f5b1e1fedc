"""Tensors of one element whose value follows from buffers of modules: what a program decides by them is decided here.

Models keep sizes and flags in buffers (`self.stride`, `self.initialized`), compute with them and ask the result for a
number or a truth. Where all that such a number comes from are buffers on the CPU that the region has not written,
sizes and constants, a few pure operators give it at capture. A guard asks each buffer for its number again; where a
symbolic size takes part, it asks the whole small computation. What a guard found changed is a break as any other
tensor's value, but for 0 and 1: a flag has one region for each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..graph.builder import GraphNumber
from ..graph.inputs import STATE
from ..guards import Kind
from ..sources import Call, Source
from ..torch_symbols import SIZE_OF, expression, hint
from .base import Value
from .constants import constant
from .sequences import ListValue, SliceValue
from .tensors import BINARY_TARGETS, METHOD_MEANINGS, UNARY_TARGETS, WITH_KNOWN, TensorValue
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
#: operators that only compute, and give the same for the same numbers
_FUNCTIONS = frozenset([
    *(BINARY_TARGETS[op] for op in "+ - * / // % ** < <= == != > >= []".split()), *UNARY_TARGETS.values(),
    torch.ceil, torch.floor, torch.round, torch.trunc, torch.abs, torch.add, torch.sub, torch.mul, torch.div,
    torch.rsub, torch.maximum, torch.minimum, torch.logical_and, torch.logical_or, torch.logical_not, torch.eq,
    torch.ne, torch.lt, torch.le, torch.gt, torch.ge, torch.any, torch.all, torch.sum, torch.tensor,
])  # fmt: skip
_METHODS = frozenset(
    "ceil floor round trunc abs add sub mul div long int float bool double eq ne lt le gt ge any all sum max min "
    "logical_not logical_and logical_or squeeze item detach clone to type_as".split()
)
#: so many operators at most
_LONGEST = 40


def value_of(tensor: Any) -> Any:
    """The number in a tensor of one element on the CPU; None for anything else, which no region expects."""
    if type(tensor) not in _PLAIN_TENSORS or tensor.device.type != "cpu" or tensor.numel() != 1:
        return None
    return tensor.item()


def number_source(ctx: Context, source: Source) -> Source:
    return Call(ctx.hold(value_of), (source,))


class Program:
    """A few operators on tensors of one element and numbers, to be run again at each call.

    Without weak references, so that regions hold it.
    """

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps: list[tuple[Any, bool, Any, Any]] = []

    def __call__(self, *given: Any) -> Any:
        if not all(type(value) is int or value_of(value) is not None for value in given):
            return None
        results: list[Any] = []
        for target, is_method, args, kwargs in self.steps:
            args, kwargs = _filled(args, given, results), _filled(kwargs, given, results)
            results.append(getattr(args[0], target)(*args[1:], **kwargs) if is_method else target(*args, **kwargs))
        last = results[-1] if results else given[0]
        return last if type(last) in (int, float, bool) else value_of(last)

    def __repr__(self) -> str:
        return f"<{', '.join(getattr(target, '__name__', str(target)) for target, *_ in self.steps)}>"


@dataclass(frozen=True, slots=True)
class _Place:
    """Stands for an input or an earlier result among the arguments of a step."""

    at: int
    is_input: bool


def _filled(value: Any, given: tuple[Any, ...], results: list[Any]) -> Any:
    if isinstance(value, _Place):
        return (given if value.is_input else results)[value.at]
    if type(value) in (tuple, list):
        return type(value)(_filled(item, given, results) for item in value)
    if type(value) is dict:
        return {key: _filled(item, given, results) for key, item in value.items()}
    return value


class _Unknown(Exception):
    """The value follows from something else, or is not had by such operators."""


class _Reader:
    """Makes a program of the nodes that a value comes from."""

    def __init__(self, ctx: Context) -> None:
        self.program = Program()
        self.sources: list[Source] = []
        self.given: list[Any] = []
        self._ctx = ctx
        self._places: dict[torch.fx.Node, _Place] = {}

    @property
    def has_sizes(self) -> bool:
        return any(type(value) is int for value in self.given)

    def place(self, node: torch.fx.Node) -> _Place:
        known = self._places.get(node)
        if known is None:
            known = self._places[node] = self._input(node) or self._step(node)
        return known

    def _input(self, node: torch.fx.Node) -> _Place | None:
        graph = self._ctx.graph
        if node.op == "placeholder":
            given = next(given for given in graph.inputs if given.node is node)
            if isinstance(given, GraphNumber):
                number = hint(given.number)
                if type(number) is not int:
                    raise _Unknown
                return self._is_given(self._ctx.inputs[id(given)], number)
            real, source = graph.real_of(given), self._ctx.inputs[id(given)]
            usable = node.meta[STATE] and not real.requires_grad and value_of(real) is not None
            if not usable or graph.has_written(given.fake) or self._has_changed(source, value_of(real)):
                raise _Unknown
            return self._is_given(source, real)
        if node.target is SIZE_OF:
            size = node.args[0].meta["example_value"].shape[node.args[1]]
            return self._is_given(graph.shapes.source_of(expression(size)), hint(size))
        return None

    def _has_changed(self, source: Source, value: Any) -> bool:
        return value not in (0, 1) and str(number_source(self._ctx, source)) in self._ctx.request.changing

    def changes_with_sizes(self, value: Any) -> bool:
        """Did a guard of such a computation find another number than a region had counted on?"""
        if not self.has_sizes or value in (0, 1):
            return False
        pairs = zip(self.sources, self.given, strict=True)
        return any(str(source) in self._ctx.request.changing for source, value in pairs if type(value) is not int)

    def _is_given(self, source: Source, value: Any) -> _Place:
        self.sources.append(source)
        self.given.append(value)
        return _Place(len(self.given) - 1, True)

    def _step(self, node: torch.fx.Node) -> _Place:
        is_method = node.op == "call_method"
        allowed = _METHODS if is_method else _FUNCTIONS if node.op == "call_function" else ()
        if node.target not in allowed or len(self.program.steps) >= _LONGEST:
            raise _Unknown
        fake = node.meta.get("example_value")
        if isinstance(fake, torch.Tensor) and (
            type(fake.numel()) is not int or fake.numel() != 1 or self._ctx.graph.has_written(fake)
        ):
            raise _Unknown
        args, kwargs = self._arguments(node.args), self._arguments(node.kwargs)
        self.program.steps.append((node.target, is_method, args, kwargs))
        return _Place(len(self.program.steps) - 1, False)

    def _arguments(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return self.place(value)
        if isinstance(value, (tuple, list)):
            return tuple(map(self._arguments, value))
        if isinstance(value, Mapping):
            return {key: self._arguments(item) for key, item in value.items()}
        if value is None or type(value) in (int, float, bool, str, torch.dtype):
            return value
        raise _Unknown


def known_number(ctx: Context, tensor: TensorValue) -> Any:
    """The number in this tensor, guarded; None where it is not known at capture."""
    fake = tensor.fake
    if fake.device.type != "cpu" or type(fake.numel()) is not int or fake.numel() != 1:
        return None
    reader = _Reader(ctx)
    try:
        reader.place(tensor.graph_tensor.node)
    except _Unknown:
        return None
    with torch.no_grad():
        value = reader.program(*reader.given)
    if type(value) not in (int, float, bool) or (type(value) is float and not math.isfinite(value)):
        return None
    if reader.changes_with_sizes(value):
        return None
    if reader.has_sizes:
        ctx.guard(Kind.EQUALS, Call(ctx.hold(reader.program, "program"), tuple(reader.sources)), value)
    else:
        for source, real in zip(reader.sources, reader.given, strict=True):
            ctx.guard(Kind.EQUALS, number_source(ctx, source), value_of(real))
    return value


def _read(kind: type | None) -> Any:
    def read(ctx: Context, tensor: TensorValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
        if args or kwargs or (kind is not bool and ctx.request.capture_scalars):
            return None
        number = known_number(ctx, tensor)
        return None if number is None else constant(number if kind is None else kind(number))

    return read


def _index(ctx: Context, tensor: TensorValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """`__index__`: integers only."""
    whole = not tensor.fake.is_floating_point() and tensor.fake.dtype is not torch.bool
    return _as_int(ctx, tensor, args, kwargs) if whole else None


def with_numbers(ctx: Context, value: Value) -> Value:
    """An argument of an operator, with numbers for the integer tensors in it whose values are known."""
    value = ctx.real(value)
    if isinstance(value, TensorValue):
        whole = not value.fake.dim() and not value.fake.is_floating_point() and not value.fake.is_complex()
        number = known_number(ctx, value) if whole and value.fake.dtype is not torch.bool else None
        return value if number is None else constant(number)
    if isinstance(value, SliceValue):
        old: Any = value.parts
    elif type(value) is ListValue or (type(value) is TupleValue and value.cls is tuple):
        old = value.items(ctx)
    else:
        return value
    new = [with_numbers(ctx, item) for item in old]
    return type(value)(new) if any(a is not ctx.real(b) for a, b in zip(new, old, strict=True)) else value


_as_int = _read(int)
METHOD_MEANINGS.update(
    item=_read(None), __bool__=_read(bool), __int__=_as_int, __float__=_read(float), __index__=_index
)
WITH_KNOWN.append(with_numbers)
