"""Tensors: placeholders and results of the graph under construction."""

from __future__ import annotations

import functools
import math
import operator as op
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..graph.builder import GraphTensor
from ..graph.refused import METHODS
from ..guards import Kind
from ..sources import Attr, Source
from ..torch_symbols import SYMBOLIC
from .base import Value, wraps
from .constants import ConstantValue, constant, from_python
from .symbols import from_symbol, symbol_of

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

BINARY_TARGETS: dict[str, Any] = {
    "+": op.add, "-": op.sub, "*": op.mul, "/": op.truediv, "//": op.floordiv, "%": op.mod, "**": op.pow,
    "@": op.matmul, "<<": op.lshift, ">>": op.rshift, "&": op.and_, "|": op.or_, "^": op.xor,
    "+=": op.iadd, "-=": op.isub, "*=": op.imul, "/=": op.itruediv, "//=": op.ifloordiv, "%=": op.imod, "**=": op.ipow,
    "@=": op.imatmul, "<<=": op.ilshift, ">>=": op.irshift, "&=": op.iand, "|=": op.ior, "^=": op.ixor,
    "<": op.lt, "<=": op.le, "==": op.eq, "!=": op.ne, ">": op.gt, ">=": op.ge, "[]": op.getitem, "[]=": op.setitem,
}  # fmt: skip
UNARY_TARGETS: dict[str, Any] = {"-": op.neg, "+": op.pos, "~": op.invert}

#: attributes that the fake tensor knows and the TENSOR guard covers
METADATA = frozenset(
    "dtype device layout ndim requires_grad is_cuda is_cpu is_sparse is_quantized is_meta itemsize is_leaf "
    "is_mps is_xpu is_mkldnn is_nested names is_sparse_csr is_xla is_ipu is_vulkan is_maia is_mtia".split()
)
#: attributes that are operators
OPERATOR_ATTRIBUTES = frozenset(["T", "mT", "H", "mH", "real", "imag", "data"])
#: methods whose result depends on the metadata alone
METADATA_METHODS = frozenset(
    "size dim ndimension numel nelement stride is_contiguous is_floating_point is_complex is_signed element_size "
    "storage_offset get_device is_conj is_neg is_inference is_same_size type".split()
)
#: methods that need the tensor's values or leave torch: the break's title
BREAKING_METHODS = {
    **METHODS,
    "item": "tensor value is read",
    "__bool__": "branch on a tensor",
    "__int__": "tensor value is read",
    "__float__": "tensor value is read",
    "__index__": "tensor value is read",
}
#: of these, those that may stay in the graph: what gives the number that they want
READING_METHODS: dict[str, type | None] = {"item": None, "__int__": int, "__float__": float, "__index__": int}
#: what `number op tensor` does to the tensor and the number; `1 / x` is a reciprocal and a product
REFLECTED_WITH_NUMBER: dict[str, Any] = {"+": torch.add, "*": torch.mul, "-": torch.rsub}
#: of these, those that watch a tensor's gradient
WATCHING_METHODS = frozenset(["register_hook", "register_post_accumulate_grad_hook", "retain_grad"])


#: methods of which another file knows more: `meaning(ctx, tensor, args, kwargs)`, None where it breaks after all
METHOD_MEANINGS: dict[str, Callable[..., Value | None]] = {}


class TensorValue(Value):
    """A tensor of the graph. Metadata comes from its fake tensor; everything else becomes a node."""

    __slots__ = ("graph_tensor",)

    kind = "tensor"
    has_identity = True

    def __init__(self, graph_tensor: GraphTensor, source: Source | None = None) -> None:
        super().__init__(source)
        self.graph_tensor = graph_tensor

    @property
    def fake(self) -> torch.Tensor:
        return self.graph_tensor.fake

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.fake.shape))
        return f"tensor {self.source or self.graph_tensor.node.name} [{shape}]"

    def python_type(self, ctx: Context) -> type:
        fake = self.fake
        return torch.nn.Parameter if isinstance(fake, torch.nn.Parameter) else torch.Tensor

    def as_python(self, ctx: Context) -> Any:
        raise GraphBreak("tensor value is read", str(self))

    def truth(self, ctx: Context) -> bool:
        known = METHOD_MEANINGS["__bool__"](ctx, self, [], {})
        if known is None:
            raise GraphBreak("branch on a tensor", str(self))
        return bool(known.truth(ctx))

    def key(self, ctx: Context) -> object:
        return self

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "shape":
            return from_python(ctx, self.fake.shape, from_graph)
        if name in ("is_leaf", "grad"):
            ctx.asked_leaf = True
        if name == "nbytes":  # asked for directly, torch finds no number where sizes are symbols
            return from_symbol(ctx, self.fake.numel() * self.fake.element_size())
        if name in METADATA:
            return from_graph(ctx, getattr(self.fake, name))
        if name in OPERATOR_ATTRIBUTES:
            return call_graph(ctx, getattr, [self, constant(name)], {})
        if name == "grad":
            return self._grad(ctx)
        if name == "__class__":
            return ctx.wrap(self.python_type(ctx), ctx.hold(self.python_type(ctx)))
        if not hasattr(torch.Tensor, name):
            return self._own_attribute(ctx, name)
        if not callable(getattr(torch.Tensor, name)):
            self.refuse(METHODS.get(name, "attribute cannot be read"), f".{name}")
        return TensorMethod(self, name)

    def _grad(self, ctx: Context) -> Value:
        if self.source is None:
            if not self.fake.requires_grad or not self.fake.is_leaf:
                return constant(None)
            self.refuse("autograd state of a tensor is read", ".grad")
        real = ctx.graph.real_of(self.graph_tensor)
        return ctx.wrap_attribute(real, self, "grad")

    def _own_attribute(self, ctx: Context, name: str) -> Value:
        """An attribute that the user (or a library) put on the tensor object."""
        real = ctx.graph.real_of(self.graph_tensor) if self.source is not None else None
        if real is None:  # made in the region: nobody has put anything on it
            ctx.raise_(AttributeError(f"{self.python_type(ctx).__name__!r} object has no attribute {name!r}"))
        if name in vars(real):
            if self.source is not None:
                ctx.guard(Kind.HAS_KEY, Attr(self.source, "__dict__"), name)
            return ctx.wrap_attribute(real, self, name)
        if self.source is not None:
            ctx.guard(Kind.LACKS_KEY, Attr(self.source, "__dict__"), name)
        ctx.raise_(AttributeError(f"{type(real).__name__!r} object has no attribute {name!r}"))

    def setattr(self, ctx: Context, name: str, value: Value) -> None:
        if name == "requires_grad" and self.fake.is_leaf:
            ctx.asked_leaf = True
            if METHOD_MEANINGS["requires_grad_"](ctx, self, [value], {}) is not None:
                return
        self.refuse("attribute cannot be set", f".{name}", "set it before the compiled function")

    def getitem(self, ctx: Context, key: Value) -> Value:
        return call_graph(ctx, BINARY_TARGETS["[]"], [self, key], {})

    def setitem(self, ctx: Context, key: Value, value: Value) -> None:
        call_graph(ctx, BINARY_TARGETS["[]="], [self, key, value], {})

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        raise GraphBreak("branch on a tensor", f"`in` of {self}", "use (x == y).any() as a tensor")

    def length(self, ctx: Context) -> Value:
        if not self.fake.ndim:
            ctx.raise_(TypeError("len() of a 0-d tensor"))
        return from_symbol(ctx, self.fake.shape[0])

    def unpack(self, ctx: Context) -> list[Value]:
        if not self.fake.ndim:
            ctx.raise_(TypeError("iteration over a 0-d tensor"))
        result = ctx.real(call_graph(ctx, torch.Tensor.unbind, [self], {}))
        return result.unpack(ctx)

    def unary(self, ctx: Context, op: str) -> Value:
        return call_graph(ctx, UNARY_TARGETS[op], [self], {})

    def number_operand(self, ctx: Context, op: str, number: ConstantValue) -> TensorValue | None:
        """numbers.py puts its function here: the number as an input of the graph, if it is to be one."""
        raise NotImplementedError

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if not isinstance(other, (TensorValue, ConstantValue)) and not other.is_graph_number:
            return None
        if isinstance(other, ConstantValue):
            other = self.number_operand(ctx, op, other) or other
        return call_graph(ctx, BINARY_TARGETS[op + "=" if inplace else op], [self, other], {})

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        if other.is_graph_number:
            return call_graph(ctx, BINARY_TARGETS[op], [other, self], {})
        if not isinstance(other, ConstantValue):
            return None
        number = self.number_operand(ctx, op, other) if op in REFLECTED_WITH_NUMBER else None
        if number is not None:
            return call_graph(ctx, REFLECTED_WITH_NUMBER[op], [self, number], {})
        return call_graph(ctx, BINARY_TARGETS[op], [other, self], {})

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if not isinstance(other, (TensorValue, ConstantValue)) and not other.is_graph_number:
            return None
        if isinstance(other, ConstantValue):
            other = self.number_operand(ctx, op, other) or other
        return call_graph(ctx, BINARY_TARGETS[op], [self, other], {})

    def reconstruct(self, out: ExitWriter) -> str:
        return out.tensor(self)


class TensorMethod(Value):
    """`tensor.name`, about to be called."""

    __slots__ = ("name", "tensor")

    kind = "tensor method"

    def __init__(self, tensor: TensorValue, name: str) -> None:
        super().__init__()
        self.tensor, self.name = tensor, name

    def __str__(self) -> str:
        return f"{self.tensor}.{self.name}"

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        name = self.name
        if name in METHOD_MEANINGS and (result := METHOD_MEANINGS[name](ctx, self.tensor, args, kwargs)) is not None:
            return result
        if name in READING_METHODS and not args and not kwargs and ctx.request.capture_scalars:
            return read_number(ctx, self.tensor, READING_METHODS[name])
        if name in BREAKING_METHODS:
            raise self._break(name)
        if name in METADATA_METHODS:
            return self._metadata(ctx, args, kwargs)
        if name.startswith("__"):
            return call_graph(ctx, getattr(torch.Tensor, name), [self.tensor, *args], kwargs)
        if name == "__len__":
            return self.tensor.length(ctx)
        return call_graph(ctx, name, [self.tensor, *args], kwargs, method=True)

    def _break(self, name: str) -> GraphBreak:
        """To autograd a region is one node: a tensor that is watched must be where a region begins or ends."""
        graph_break = GraphBreak(BREAKING_METHODS[name], f".{name}()")
        if name in WATCHING_METHODS and self.tensor.source is None and self.tensor.fake.requires_grad:
            graph_break.end_behind = self.tensor.born
        return graph_break

    def _metadata(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.name == "type" and (args or kwargs):
            return call_graph(ctx, self.name, [self.tensor, *args], kwargs, method=True)
        arguments = [ctx.real(a).as_python(ctx) for a in args]
        named = {k: ctx.real(v).as_python(ctx) for k, v in kwargs.items()}
        try:
            result = getattr(self.tensor.fake, self.name)(*arguments, **named)
        except (IndexError, TypeError, RuntimeError) as error:
            ctx.raise_(error)
        ctx.note_shapes()
        return from_graph(ctx, result)

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.text(self.tensor)}.{self.name}"


#: number_arguments.py registers here: by an operator's function, or a method's name, what makes its call with numbers
#: that change; gives None where they are to be constants
WITH_NUMBERS: dict[Any, Callable[[Context, Any, list[Value], dict[str, Value], bool], Value | None]] = {}


#: known_tensors.py registers here: an argument with numbers for the tensors in it whose values are known
WITH_KNOWN: list[Callable[[Context, Value], Value]] = []


def to_graph(ctx: Context, value: Value) -> Any:
    """The argument that the graph records for a value: a GraphTensor, a Python constant, or a structure of such."""
    value = ctx.real(value)
    if isinstance(value, TensorValue):
        return value.graph_tensor
    if isinstance(value, ConstantValue):
        symbol = symbol_of(ctx, value)
        if type(value.value) is complex and not _is_written_as_it_is(value.value):
            raise GraphBreak("argument cannot be in a graph", f"{value}: torch's graphs lose the sign of its zero")
        return value.as_python(ctx) if symbol is None else symbol
    argument = getattr(value, "graph_argument", None)
    if argument is None:
        raise GraphBreak("argument cannot be in a graph", str(value))
    return argument(ctx)


def _is_written_as_it_is(number: complex) -> bool:
    """Graphs of torch before 2.14 write it by its repr, which reads as another number where a part is -0.0."""
    return not any(part == 0 and math.copysign(1, part) < 0 for part in (number.real, number.imag)) or _signs_are_kept()


@functools.cache
def _signs_are_kept() -> bool:
    graph = torch.fx.Graph()
    graph.output(complex(-0.0, 0.0))
    return repr(torch.fx.GraphModule(torch.nn.Module(), graph)()) == repr(complex(-0.0, 0.0))


def read_number(ctx: Context, tensor: TensorValue, kind: type | None) -> Value:
    """`tensor.item()` in the graph; `kind`: what int() or float() makes of it."""
    fake = tensor.fake
    if fake.is_complex() or fake.dtype is torch.bool:
        raise GraphBreak("tensor value is read", f"{'item' if kind is None else kind.__name__}() of {tensor}")
    number = call_graph(ctx, "item", [tensor], {}, method=True)
    if kind is None or (kind is float) is fake.is_floating_point():
        return number
    symbol = ctx.real(number).graph_argument(ctx)  # type: ignore[attr-defined]
    return from_symbol(ctx, (torch.sym_float if kind is float else torch.sym_int)(symbol))


def from_graph(ctx: Context, result: Any) -> Value:
    """The value for what a graph operator gave: tensors are placeholders, the rest plain values."""
    if isinstance(result, GraphTensor):
        return ctx.tensor(result, TensorValue)
    if isinstance(result, SYMBOLIC):
        return from_symbol(ctx, result)
    return from_python(ctx, result, from_graph)


def call_graph(
    ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], *, method: bool = False
) -> Value:
    """Record a call of an operator and give its result."""
    if target in WITH_NUMBERS and (found := WITH_NUMBERS[target](ctx, target, args, kwargs, method)) is not None:
        return found
    arguments = tuple([to_graph(ctx, a) for a in args])
    named = {k: to_graph(ctx, v) for k, v in kwargs.items()} if kwargs else {}
    try:
        result = ctx.graph.call(target, arguments, named, method=method)
    except GraphBreak as graph_break:
        again = _with_known(ctx, graph_break, args, kwargs, method)
        if again is None:
            raise
        arguments = tuple([to_graph(ctx, a) for a in again[0]])
        result = ctx.graph.call(target, arguments, {k: to_graph(ctx, v) for k, v in again[1].items()}, method=method)
    ctx.note_shapes()
    return from_graph(ctx, result)


def _with_known(
    ctx: Context, graph_break: GraphBreak, args: list[Value], kwargs: dict[str, Value], method: bool
) -> tuple[list[Value], dict[str, Value]] | None:
    """The arguments of an operator that wants numbers, where it was given tensors that are known; else None."""
    if graph_break.title != "shape depends on a tensor's values":
        return None
    change = WITH_KNOWN[0]
    changed = [value if method and not at else change(ctx, value) for at, value in enumerate(args)]
    named = {name: change(ctx, value) for name, value in kwargs.items()}
    pairs = zip([*changed, *named.values()], [*args, *kwargs.values()], strict=True)
    return (changed, named) if any(new is not ctx.real(old) for new, old in pairs) else None


@wraps(torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
def build_tensor(ctx: Context, obj: torch.Tensor, source: Source) -> Value:
    if obj.is_sparse or obj.is_quantized or obj.is_nested or obj.layout not in (torch.strided,):
        raise GraphBreak("kind of tensor is not supported", str(source))
    ctx.guard(Kind.TENSOR, source, obj)
    graph_tensor = ctx.graph.add_input(obj, str(source), ctx.layout(obj, source))
    ctx.inputs[id(graph_tensor)] = source
    value = TensorValue(graph_tensor, source)
    return ctx.tensor(graph_tensor, lambda _: value)


@wraps(torch.Tensor, family=True)
def build_tensor_subclass(ctx: Context, obj: torch.Tensor, source: Source) -> Value:
    raise GraphBreak("tensor subclass is not supported", f"{type(obj).__name__} from {source}")
