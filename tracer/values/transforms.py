"""torch.func: a transform of a function is called as one node of the graph, with the function as its body.

The body is recorded for what one call of the function inside of the transform sees: under vmap one example of a batch.
Its operators are those that the program called, so that the real transform does with them what it does in eager mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..graph import opaque
from ..graph.bodies import OpenBody
from ..graph.fx_capture import GraphTensor
from .base import Value
from .bodies import Captured, body_tensor, capture_body, rebuilt, structure
from .objects import known
from .tensors import TensorValue, from_graph

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

#: transform -> the names of its options, in order, with their defaults
_SIGNATURES: dict[str, dict[str, Any]] = {
    "grad": {"argnums": 0, "has_aux": False},
    "grad_and_value": {"argnums": 0, "has_aux": False},
    "vmap": {"in_dims": 0, "out_dims": 0, "randomness": "error", "chunk_size": None},
    "jacrev": {"argnums": 0, "has_aux": False, "chunk_size": None},
    "jacfwd": {"argnums": 0, "has_aux": False, "randomness": "error"},
    "hessian": {"argnums": 0},
}
_BY_ARGNUMS = frozenset(["grad", "grad_and_value", "jacrev", "hessian"])
Fake = Callable[[torch.Tensor], torch.Tensor]


class TransformValue(Value):
    """`torch.func.grad(function)` and its like, about to be called."""

    __slots__ = ("function", "name", "options")

    kind = "transform of a function"
    has_identity = True

    def __init__(self, name: str, function: Value, options: dict[str, Any]) -> None:
        super().__init__()
        self.name, self.function, self.options = name, function, options

    def __str__(self) -> str:
        return f"torch.func.{self.name} of {self.function}"

    def truth(self, ctx: Context) -> bool:
        return True

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if kwargs:
            self.refuse("argument cannot be in a graph", "a keyword argument")
        given = [structure(ctx, argument) for argument in args]
        fakes = [self._fake(at, argument) for at, argument in enumerate(given)]
        captured = capture_function(ctx, self.function, args, fakes, str(self))
        arguments = (captured.body, self.name, self.options, given, list(captured.body.free))
        return from_graph(ctx, ctx.graph.call(opaque.transformed, arguments))

    def _fake(self, at: int, argument: Any) -> Fake:
        """What stands, inside of the transform, for a tensor of this argument."""
        if self.name == "vmap":
            dims = self.options["in_dims"]
            dim = dims[at] if isinstance(dims, (tuple, list)) and at < len(dims) else dims
            every = iter(self._dims_of(argument, dim))

            def example(fake: torch.Tensor) -> torch.Tensor:
                at = next(every)
                return _itself(fake) if at is None else _example(fake, at)

            return example
        argnums = self.options["argnums"]
        chosen = [n % 1_000 if n >= 0 else n for n in (argnums if isinstance(argnums, tuple) else (argnums,))]
        return _differentiated if self.name in _BY_ARGNUMS and at in chosen else _itself

    def _dims_of(self, argument: Any, dim: Any) -> list[int | None]:
        """For each tensor of an argument, in order: the dimension in which it is a batch, from a structure of these."""
        if isinstance(argument, (tuple, list)):
            alike = isinstance(dim, (tuple, list)) and len(dim) == len(argument)
            dims = dim if alike else [dim] * len(argument)
            return [found for item, own in zip(argument, dims, strict=True) for found in self._dims_of(item, own)]
        if isinstance(argument, dict):
            dims = dim if isinstance(dim, dict) and dim.keys() == argument.keys() else dict.fromkeys(argument, dim)
            return [found for key, item in argument.items() for found in self._dims_of(item, dims[key])]
        if not isinstance(argument, GraphTensor):
            return []
        if dim is not None and type(dim) is not int:
            self.refuse("argument cannot be in a graph", f"in_dims={self.options['in_dims']}")
        return [dim]

    def reconstruct(self, out: ExitWriter) -> str:
        options = "".join(f", {name}={out.constant(value)}" for name, value in self.options.items())
        return f"{out.hold(getattr(torch.func, self.name))}({out.text(self.function)}{options})"


def _example(fake: torch.Tensor, dim: int) -> torch.Tensor:
    """One of a batch; of an empty one what it would be."""
    if fake.size(dim):
        return fake.select(dim, 0)
    sizes = list(fake.shape)
    del sizes[dim]
    return fake.new_empty(sizes).requires_grad_(fake.requires_grad)


def _itself(fake: torch.Tensor) -> torch.Tensor:
    return fake.view_as(fake)


def _differentiated(fake: torch.Tensor) -> torch.Tensor:
    return fake.detach().requires_grad_(fake.is_floating_point() or fake.is_complex())


def capture_function(ctx: Context, function: Value, args: list[Value], fakes: list[Fake], what: str) -> Captured:
    """The body of `function(*args)`, with a tensor of its own for each tensor of the arguments."""

    def run(opened: OpenBody) -> Value:
        def own(change: Fake) -> Callable[[TensorValue], Value]:
            def argument(value: TensorValue) -> Value:
                with ctx.graph.fake_mode:
                    try:
                        fake = change(value.fake)
                    except (IndexError, RuntimeError) as error:
                        raise GraphBreak("Python raises or warns here", f"{what}: {error}") from error
                return body_tensor(ctx, opened, fake)

            return argument

        inner = [rebuilt(ctx, argument, own(change)) for argument, change in zip(args, fakes, strict=True)]
        return function.call(ctx, inner, {})

    return capture_body(ctx, run, what, other_mode=not torch.is_grad_enabled())


def _transform(name: str) -> Callable[..., Value]:
    names = _SIGNATURES[name]

    def make(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = {**dict(zip(names, args[1:], strict=False)), **kwargs}
        if not args or len(args) > 1 + len(names) or not given.keys() <= names.keys():
            raise GraphBreak("arguments do not fit the call", f"torch.func.{name}()")
        options = {n: ctx.real(given[n]).as_python(ctx) if n in given else default for n, default in names.items()}
        function = ctx.real(args[0])
        if not callable(getattr(function, "call", None)):
            function.refuse("argument cannot be in a graph", f"torch.func.{name}()")
        return ctx.born(TransformValue(name, args[0], options))

    return make


for _name in _SIGNATURES:
    known(getattr(torch.func, _name))(_transform(_name))
if torch.vmap is not torch.func.vmap:
    known(torch.vmap)(_transform("vmap"))


@known(torch.func.jvp)
def call_jvp(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if kwargs or len(args) != 3:
        raise GraphBreak("argument cannot be in a graph", "an option of torch.func.jvp()")
    primals, tangents = structure(ctx, args[1]), structure(ctx, args[2])
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise GraphBreak("Python raises or warns here", "torch.func.jvp() takes tuples")
    given = ctx.real(args[1]).unpack(ctx)
    captured = capture_function(ctx, args[0], given, [_itself] * len(given), "the function given to jvp()")
    arguments = (captured.body, primals, tangents, list(captured.body.free))
    return from_graph(ctx, ctx.graph.call(opaque.jvp, arguments))


__all__ = ["TransformValue", "capture_function"]
