"""Torch's functions: operators become nodes, questions about torch's state are answered, the rest is code like any."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional

from ..errors import GraphBreak
from ..graph.refused import FUNCTIONS
from ..guards import Kind
from ..sources import Call, Source
from ..torch_private import (
    HAS_TORCH_FUNCTION,
    IS_COMPILING,
    IS_TRACING,
    MODES_COUNTED,
    OPERATOR_NAMESPACES,
    OPERATOR_TYPES,
    STATE_QUERIES,
    TENSOR_CLASSES,
    TRACING_STATE,
    below_note_of_dynamo,
)
from .base import Value, wraps, wraps_object
from .builtin_registry import name_of
from .callables import HeldFunction
from .constants import ConstantValue, call_pure, constant
from .tensors import TensorValue, call_graph

if TYPE_CHECKING:
    from ..interpreter.context import Context

#: modules whose functions are operators
_OPERATOR_MODULES = (
    *OPERATOR_NAMESPACES, torch, torch.functional, torch.nn.functional, torch.fft, torch.linalg, torch.special,
)  # fmt: skip
#: Python functions are operators only where they were written for that
_PYTHON_OPERATORS = frozenset(["torch.functional", "torch.nn.functional"])
_BUILTINS = (types.BuiltinFunctionType, type(torch.Tensor.add), type(torch.Tensor.__add__))
#: tensors' metadata asked by function
_METADATA = frozenset(
    "is_floating_point is_complex is_signed numel is_conj is_neg is_inference result_type is_same_size".split()
)


def _no(*args: object) -> bool:
    return False


def _yes(*args: object) -> bool:
    return True


#: functions whose answer is a constant as long as the STATE guard holds: called at capture
_STATE_QUERIES: list[Callable[..., Any]] = [
    torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype, torch.is_autocast_enabled,
    torch.get_autocast_dtype, torch.is_autocast_cpu_enabled, torch.get_autocast_cpu_dtype, torch.get_autocast_gpu_dtype,
    torch.is_autocast_cache_enabled, torch.are_deterministic_algorithms_enabled, torch.get_num_threads,
    torch.is_deterministic_algorithms_warn_only_enabled, torch.get_deterministic_debug_mode,
    torch.is_warn_always_enabled, torch.get_float32_matmul_precision, torch.cuda.is_available, torch.cuda.device_count,
    torch.promote_types, torch.can_cast, torch.finfo, torch.iinfo, torch.get_default_device,
    torch.is_anomaly_enabled, *STATE_QUERIES,
]  # fmt: skip
_GRAD_QUERIES = (torch.is_grad_enabled, torch.is_inference_mode_enabled)
#: what capture answers by itself
_ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.compiler.is_compiling: _yes, torch.compiler.is_dynamo_compiling: _yes, torch.compiler.is_exporting: _no,
    torch.jit.is_scripting: _no, **dict.fromkeys(IS_COMPILING, _yes),
}  # fmt: skip
#: ... as long as the STATE guard holds: no capture begins within such a mode, and its own ones are not the program's
_ANSWERS_BY_STATE: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.jit.is_tracing: _no, **dict.fromkeys(IS_TRACING, _no), **dict.fromkeys(TRACING_STATE, lambda: None),
    **dict.fromkeys(MODES_COUNTED, lambda: 0),
}  # fmt: skip
#: A module with hooks: told that it is compiled, it forgets those to be called when `forward` raises.
_CALL_IMPL = vars(torch.nn.Module)["_call_impl"].__qualname__
#: functions that change torch's state or leave torch: no operators
_BREAKING = frozenset(
    "manual_seed seed initial_seed set_rng_state get_rng_state set_default_dtype set_default_device set_num_threads "
    "use_deterministic_algorithms set_float32_matmul_precision set_printoptions set_autocast_enabled save load compile "
    "from_numpy _assert_async".split()
)


def _operators() -> dict[int, Any]:
    found: dict[int, Any] = {}
    for module in _OPERATOR_MODULES:
        for name in dir(module):
            obj = getattr(module, name, None)
            if name.startswith("__") or name in _BREAKING:
                continue
            python = (
                isinstance(obj, types.FunctionType) and obj.__module__ in _PYTHON_OPERATORS and not name.startswith("_")
            )
            if python or isinstance(obj, _BUILTINS):
                found[id(obj)] = obj
    for base in TENSOR_CLASSES:
        for name, obj in vars(base).items():
            if isinstance(obj, _BUILTINS) and not (name.startswith("__") and name not in _DUNDERS):
                found[id(obj)] = obj
    return found


_DUNDERS = frozenset(
    f"__{p}{n}__"
    for p in ("", "r", "i")
    for n in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
) | frozenset("__neg__ __invert__ __abs__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __getitem__ __setitem__".split())
#: every operator by identity; the objects are kept alive by torch
OPERATORS = _operators()


_PLAIN_HASHES = {object.__hash__, types.FunctionType.__hash__, *(kind.__hash__ for kind in _BUILTINS)}


class TorchFunctionValue(HeldFunction):
    """A function of torch's that is an operator of the graph."""

    __slots__ = ()

    kind = "torch function"

    def graph_argument(self, ctx: Context) -> Any:
        return self.function

    def key(self, ctx: Context) -> object:
        if type(self.function).__hash__ not in _PLAIN_HASHES:
            self.refuse("key is not supported")
        return self.function

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        name = getattr(self.function, "__name__", "")
        if name in _METADATA and args and isinstance(tensor := ctx.real(args[0]), TensorValue) and not kwargs:
            rest = [r.fake if isinstance(r := ctx.real(a), TensorValue) else r.as_python(ctx) for a in args[1:]]
            return call_pure(ctx, self.function, tensor.fake, *rest)
        try:
            return call_graph(ctx, self.function, args, kwargs)
        except GraphBreak as graph_break:
            written_in_python = isinstance(self.function, types.FunctionType) and self.source is not None
            if graph_break.title != "argument cannot be in a graph" or not written_in_python:
                raise
            return self.as_code(ctx, self.function, self.source).call(ctx, args, kwargs)

    def as_code(self, ctx: Context, function: Any, source: Any) -> Value:
        """functions.py puts its function here: a function of torch's that is read like any, given a function, say."""
        raise NotImplementedError


class TorchQuery(TorchFunctionValue):
    """A function that asks torch's state, or a constant of torch's build."""

    __slots__ = ("answer", "by_state")

    kind = "torch query"

    def __init__(
        self, function: Callable[..., Any], answer: Callable[..., Any], by_state: bool, source: Source | None = None
    ) -> None:
        super().__init__(function, source)
        self.answer = answer
        #: is it right only where the STATE guard holds?
        self.by_state = by_state

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        arguments = [ctx.real(a).as_python(ctx) for a in args]
        named = {k: ctx.real(v).as_python(ctx) for k, v in kwargs.items()}
        if self.answer is _yes and ctx.frames and ctx.frames[-1].code.co_qualname == _CALL_IMPL:
            return constant(False)
        if self.answer is _yes:
            told = not ctx.request.compiling.fails
            ctx.told_compiled |= told
            ctx.told_plain |= not told
            return constant(told)
        if self.by_state:
            ctx.asked_state = True
            ctx.asked_grad_mode |= self.function in _GRAD_QUERIES
        return call_pure(ctx, self.answer, *arguments, **named)


class AskedAgain(HeldFunction):
    """A question whose answer no other guard covers: it is asked at each call that depends on it."""

    __slots__ = ()

    kind = "torch query"

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args or kwargs:
            self.refuse("arguments do not fit the call")
        try:
            answer = self.function()
        except RuntimeError as error:  # as it does at each call of a process that has no driver
            ctx.raise_(error)
        return ConstantValue(answer, Call(ctx.hold(self.function), ()))


class NoteOfDynamo(HeldFunction):
    """TorchDynamo notes which modules are new, for itself; what is made here, it never sees."""

    __slots__ = ("wrapped",)

    def __init__(self, function: Callable[..., Any], wrapped: Callable[..., Any], source: Source) -> None:
        super().__init__(function, source)
        self.wrapped = wrapped

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return ctx.real(ctx.wrap(self.wrapped, ctx.hold(self.wrapped))).call(ctx, args, kwargs)


class RefusedFunction(HeldFunction):
    """A function that acts at once, outside of any graph: the break is at its call, not somewhere within."""

    __slots__ = ()

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        raise GraphBreak(FUNCTIONS[inspect.unwrap(self.function)], f"{name_of(self.function)}()")


class HasTorchFunction(TorchFunctionValue):
    """Is any argument a tensor-like that overrides torch's functions? Captured tensors are plain ones."""

    __slots__ = ()

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return constant(False)


class IsTensor(TorchFunctionValue):
    __slots__ = ()

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return constant(issubclass(ctx.real(args[0]).python_type(ctx), torch.Tensor))


def torch_function(ctx: Context, obj: Any, source: Source) -> Value | None:
    """The value of a function that torch defines as an operator, or that acts at once; None for any other one."""
    if (wrapped := below_note_of_dynamo(obj)) is not None:
        ctx.guard(Kind.IS, source, obj)
        return NoteOfDynamo(obj, wrapped, source)
    operator = OPERATORS.get(id(obj))
    known = operator is not None and operator is obj
    if not known and not _acts_at_once(obj):
        return None
    ctx.guard(Kind.IS, source, obj)
    return TorchFunctionValue(obj, source) if known else RefusedFunction(obj, source)


def _top(namespace: dict[str, Any]) -> str:
    """The outermost package of a module."""
    name = namespace.get("__name__")
    return name.partition(".")[0] if isinstance(name, str) else ""


def _acts_at_once(obj: Any) -> bool:
    """Is it such a function of torch's own? Torch wraps some of them anew when a part of it is loaded."""
    if not isinstance(obj, types.FunctionType) or _top(obj.__globals__) != "torch":
        return False
    return inspect.unwrap(obj) in FUNCTIONS


def _register() -> None:
    def special(function: Any, make: Callable[[Source], Value]) -> None:
        def builder(ctx: Context, obj: Any, source: Source) -> Value:
            ctx.guard(Kind.IS, source, obj)
            return make(source)

        wraps_object(function)(builder)

    for function in _STATE_QUERIES:
        special(function, lambda source, f=function: TorchQuery(f, f, True, source))  # type: ignore[misc]
    for answers in (_ANSWERS, _ANSWERS_BY_STATE):
        for function, answer in answers.items():
            by = answers is _ANSWERS_BY_STATE
            special(function, lambda source, f=function, a=answer, by=by: TorchQuery(f, a, by, source))  # type: ignore[misc]
    capturing = torch.cuda.is_current_stream_capturing
    special(capturing, lambda source: AskedAgain(capturing, source))
    for function in HAS_TORCH_FUNCTION:
        special(function, lambda source, f=function: HasTorchFunction(f, source))  # type: ignore[misc]
    for function in FUNCTIONS:
        if isinstance(function, types.BuiltinFunctionType):
            special(function, lambda source, f=function: RefusedFunction(f, source))  # type: ignore[misc]
    special(torch.is_tensor, lambda source: IsTensor(torch.is_tensor, source))


_register()


class OperatorPacket(TorchFunctionValue):
    """`torch.ops.aten.add`, whose overloads are its attributes."""

    __slots__ = ()

    def getattr(self, ctx: Context, name: str) -> Value:
        if name in self.function.overloads():
            overload = getattr(self.function, name)
            return ctx.wrap(overload, ctx.hold(overload))
        return super().getattr(ctx, name)


@wraps(*OPERATOR_TYPES)
def build_operator(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.IS, source, obj)
    return (OperatorPacket if hasattr(obj, "overloads") else TorchFunctionValue)(obj, source)


@wraps(torch.finfo, torch.iinfo)
def build_limits(ctx: Context, obj: Any, source: Source) -> Value:
    raise GraphBreak("object from outside is not supported", f"{type(obj).__name__} {source}")


__all__ = ["ConstantValue", "TorchFunctionValue", "torch_function"]
