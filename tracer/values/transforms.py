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
from ..graph.bodies import Handle, OpenBody
from ..graph.fx_capture import GraphTensor
from ..graph.handles import record_handle
from .base import Value
from .bodies import Captured, body_tensor, capture_body, rebuilt, structure
from .functions import CODE_MEANINGS, FunctionValue
from .objects import known
from .tensors import TensorValue, from_graph
from .tuples import TupleValue

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
        target = opaque.transformed_indexing if ctx.function_modes else opaque.transformed
        return from_graph(ctx, ctx.graph.call(target, arguments))

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

    return capture_body(ctx, run, what, other_mode=not torch.is_grad_enabled(), handles=True)


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


def _made_outside(name: str) -> Callable[[Context, FunctionValue, list[Value], dict[str, Value]], Value]:
    """The call of a transformed function that was made before: its function and options are in its closure."""

    def call(ctx: Context, wrapper: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
        cells = dict(zip(wrapper.code.co_freevars, wrapper.closure, strict=True))
        contents = {n: ctx.real(cell).content for n, cell in cells.items() if n == "func" or n in _SIGNATURES[name]}  # type: ignore[attr-defined]
        options = {
            option: ctx.real(contents[option]).as_python(ctx) if option in contents else default
            for option, default in _SIGNATURES[name].items()
        }
        return TransformValue(name, contents["func"], options).call(ctx, args, kwargs)

    return call


def _identity(x: Any) -> Any:
    return x


for _name in _SIGNATURES:
    known(getattr(torch.func, _name))(_transform(_name))
    if _name != "hessian":  # it gives what jacfwd gives for what jacrev gives
        _code = getattr(torch.func, _name)(_identity).__code__
        CODE_MEANINGS[id(_code)] = _code, _made_outside(_name)
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


class VjpFunction(Value):
    """The function that torch.func.vjp gives: from gradients of the results to those of the arguments."""

    __slots__ = ("begun",)

    kind = "function made by torch.func.vjp()"
    has_identity = True

    def __init__(self, begun: Handle) -> None:
        super().__init__()
        self.begun = begun

    def truth(self, ctx: Context) -> bool:
        return True

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        options = dict(zip(("retain_graph", "create_graph"), args[1:], strict=False)) | kwargs
        if not args or len(args) > 3 or not options.keys() <= {"retain_graph", "create_graph"}:
            raise GraphBreak("arguments do not fit the call", str(self))
        plain = {name: ctx.real(value).as_python(ctx) for name, value in options.items()}
        if plain.get("retain_graph") is False:
            self.refuse("argument cannot be in a graph", "retain_graph=False")
        return from_graph(ctx, ctx.graph.call(opaque.vjp_gradients, (self.begun, structure(ctx, args[0]), plain)))


@known(torch.func.vjp)
def call_vjp(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What it keeps for the second half lives between two nodes of the graph."""
    has_aux = ctx.real(kwargs["has_aux"]).as_python(ctx) if "has_aux" in kwargs else False
    if kwargs.keys() - {"has_aux"} or type(has_aux) is not bool or len(args) < 2:
        raise GraphBreak("arguments do not fit the call", "torch.func.vjp()")
    given = [structure(ctx, argument) for argument in args[1:]]
    captured = capture_function(
        ctx, args[0], args[1:], [_differentiated] * len(given), "the function given to vjp()"
    )
    begun = record_handle(ctx.graph, opaque.begin_vjp, (captured.body, has_aux, given, list(captured.body.free)))
    results = list(ctx.graph.call(opaque.vjp_results, (begun,)))
    values = [from_graph(ctx, result) for result in results]
    return ctx.born(TupleValue([values[0], ctx.born(VjpFunction(begun)), *values[1:]]))


__all__ = ["TransformValue", "capture_function"]
