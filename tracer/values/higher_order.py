"""Torch's operators that take functions: cond, while_loop, flex_attention. Each function is a body of the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..graph.bodies import Body, with_free
from ..guards import Kind
from ..sources import Source
from ..torch_private import HIGHER_ORDER, indexing_by_tensors
from .base import Value, wraps
from .bodies import Captured, body_tensor, capture_body, rebuilt, structure, tensors_in
from .callables import HeldFunction
from .constants import ConstantValue, constant
from .objects import known_once_loaded
from .tensors import TensorValue, from_graph, to_graph

if TYPE_CHECKING:
    from ..interpreter.context import Context

Meaning = Callable[["Context", Any, list[Value]], Value]
_MEANINGS: dict[str, tuple[int, Meaning]] = {}


def _means(name: str, arguments: int) -> Callable[[Meaning], Meaning]:
    def register(meaning: Meaning) -> Meaning:
        _MEANINGS[name] = arguments, meaning
        return meaning

    return register


class HigherOrderValue(HeldFunction):
    """Such an operator."""

    __slots__ = ()

    kind = "operator that takes functions"

    def __str__(self) -> str:
        return f"torch.ops.higher_order.{self.function.__name__}"

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        count, meaning = _MEANINGS.get(self.function.__name__, (0, None))
        if meaning is None or kwargs or len(args) != count:
            self.refuse("argument cannot be in a graph", "a function given to it or an argument")
        return meaning(ctx, self.function, args)


@wraps(HIGHER_ORDER, family=True)
def build_higher_order(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.IS, source, obj)
    return HigherOrderValue(obj, source)


@_means("cond", 4)
def cond(ctx: Context, operator: Any, args: list[Value]) -> Value:
    """Of both branches the same is expected, so one result stands for both."""
    predicate = ctx.real(args[0])
    operands = ctx.real(args[3]).unpack(ctx)
    if isinstance(predicate, ConstantValue):
        return args[1 if predicate.truth(ctx) else 2].call(ctx, operands, {})
    branches = [
        capture_body(ctx, lambda _, branch=branch: branch.call(ctx, operands, {}), "a branch of torch.cond()")  # type: ignore[misc]
        for branch in args[1:3]
    ]
    bodies, free = _with_common_free(branches, 0)
    flat = [_flat(ctx, captured, body, 0) for captured, body in zip(branches, bodies, strict=True)]
    results = ctx.graph.call(operator, (to_graph(ctx, predicate), *flat, list(free)))
    return _in_the_shape_of(ctx, branches[0].result, results)


@_means("while_loop", 4)
def while_loop(ctx: Context, operator: Any, args: list[Value]) -> Value:
    carried = ctx.real(args[2]).unpack(ctx)
    more = ctx.real(args[3]).unpack(ctx)
    tensors = [ctx.real(value) for value in carried]
    if not tensors or not all(isinstance(value, TensorValue) for value in tensors):
        raise GraphBreak("argument cannot be in a graph", "while_loop() carries what is no tensor")
    functions = [_over(ctx, function, tensors, more, "a function given to while_loop()") for function in args[:2]]  # type: ignore[arg-type]
    bodies, free = _with_common_free(functions, len(tensors))
    step = _flat(ctx, functions[1], bodies[1], len(tensors))
    given = tuple(to_graph(ctx, value) for value in tensors)
    results = ctx.graph.call(operator, (bodies[0], step, given, free))
    return _in_the_shape_of(ctx, functions[1].result, results)


def _over(ctx: Context, function: Value, tensors: list[TensorValue], more: list[Value], what: str) -> Captured:
    """The body of a function of tensors like these."""

    def run(opened: Any) -> Value:
        with ctx.graph.fake_mode:
            fakes = [tensor.fake.clone() for tensor in tensors]
        return function.call(ctx, [*(body_tensor(ctx, opened, fake) for fake in fakes), *more], {})

    return capture_body(ctx, run, what)


@_means("flex_attention", 7)
def flex_attention(ctx: Context, operator: Any, args: list[Value]) -> Value:
    query = ctx.real(args[0])
    *mask, mask_function = ctx.real(args[4]).unpack(ctx)
    if not isinstance(query, TensorValue):
        raise GraphBreak("argument cannot be in a graph", str(query))
    dtype = query.fake.dtype
    score = _of_scalars(ctx, args[3], (dtype, *(torch.int32,) * 4), query, "score_mod of flex_attention()")
    allowed = _of_scalars(ctx, mask_function, (torch.int32,) * 4, query, "mask_mod of flex_attention()")
    tensors = [to_graph(ctx, value) for value in args[:3]]
    block_mask = (*(to_graph(ctx, part) for part in mask), allowed.body)
    rest = (to_graph(ctx, args[5]), structure(ctx, args[6]), score.body.free, allowed.body.free)
    return from_graph(ctx, ctx.graph.call(operator, (*tensors, score.body, block_mask, *rest)))


def _of_scalars(
    ctx: Context, function: Value, dtypes: tuple[torch.dtype, ...], like: TensorValue, what: str
) -> Captured:
    def run(opened: Any) -> Value:
        with ctx.graph.fake_mode:
            recorded = like.fake.requires_grad
            fakes = [torch.empty((), dtype=dtype, device=like.fake.device) for dtype in dtypes]
            fakes = [fake.requires_grad_(recorded and fake.is_floating_point()) for fake in fakes]
        before, ctx.graph.around_calls = ctx.graph.around_calls, indexing_by_tensors
        try:
            return function.call(ctx, [body_tensor(ctx, opened, fake) for fake in fakes], {})
        finally:
            ctx.graph.around_calls = before

    captured = capture_body(ctx, run, what)
    if not isinstance(captured.result, TensorValue):
        raise GraphBreak("Python raises or warns here", f"{what} gives {captured.result}")
    return captured


def _with_common_free(captured: list[Captured], own: int) -> tuple[list[Body], tuple[Any, ...]]:
    """The bodies with the same parameters: what is free in any of them."""
    free = tuple({id(tensor): tensor for c in captured for tensor in c.body.free}.values())
    return [with_free(c.body, own, free) for c in captured], free


def _flat(ctx: Context, captured: Captured, body: Body, own: int) -> Body:
    """The operator wants a tuple of tensors from each function."""
    if any(not isinstance(value, TensorValue) for value in _leaves(ctx, captured.result)):
        raise GraphBreak("result cannot be in a graph", f"{captured.result} of a function given to an operator")
    graph = body.module.graph
    output = next(iter(reversed(graph.nodes)))
    found: list[Any] = []
    torch.fx.map_arg(output.args[0], lambda node: found.append(node) or node)  # type: ignore[func-returns-value]
    output.args = (tuple(found),)
    body.module.recompile()
    return replace(body)


def _leaves(ctx: Context, value: Value) -> list[Value]:
    real = ctx.real(value)
    if isinstance(real, (TensorValue, ConstantValue)):
        return [real]
    return list(tensors_in(ctx, real))


def _in_the_shape_of(ctx: Context, value: Value, results: Any) -> Value:
    tensors = iter(results)
    return rebuilt(ctx, value, lambda _: from_graph(ctx, next(tensors)))


@known_once_loaded("torch._dynamo.decorators", "mark_static", "maybe_mark_dynamic")
def mark_shape(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Within what is compiled, torch.compile does nothing at these either: every size is static here."""
    return constant(None)


__all__ = ["HigherOrderValue"]
