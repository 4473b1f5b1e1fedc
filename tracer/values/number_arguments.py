"""Numbers that change, given to torch's operators as arguments (`x.clamp(-k, k)`, `torch.full(n, k)`): graph inputs.

Each operator here takes a tensor in the number's stead and then gives the same: dtype, bits and gradient. That was
measured for each (tests/tracer/test_changing_numbers.py does it again); where it does not hold the number stays a
constant: exponents, most of reduced precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .base import Value
from .constants import ConstantValue, constant
from .numbers import Make, as_operand, bound_tensor, is_changing, number_input, number_tensor
from .sequences import ListValue
from .symbols import has_symbol
from .tensors import WITH_NUMBERS, TensorValue, call_graph
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

Arguments = tuple[list[Value], dict[str, Value]]
#: what an operator is given in place of its arguments; None where they stay as they are
Rewrite = Callable[["Context", list[Value], dict[str, Value]], Arguments | None]

#: gives what the call gives, or None
NewTensor = Callable[["Context", Any, list[Value], dict[str, Value], bool], Value | None]

#: By names of functions and methods, with the sign that says how it computes: `torch.add(x, k)` is `x + k`.
_OPERATORS = {
    "add": "+", "add_": "+", "sub": "-", "sub_": "-", "subtract": "-", "subtract_": "-",
    "mul": "*", "mul_": "*", "multiply": "*", "multiply_": "*",
    "div": "/", "div_": "/", "divide": "/", "divide_": "/", "true_divide": "/", "true_divide_": "/",
    "remainder": "%", "remainder_": "%", "floor_divide": "//", "floor_divide_": "//", "fmod": "%", "fmod_": "%",
    "eq": "==", "ne": "!=", "not_equal": "!=", "lt": "<", "less": "<", "le": "<=", "less_equal": "<=",
    "gt": ">", "greater": ">", "ge": ">=", "greater_equal": ">=",
}  # fmt: skip
_FLOATS = (torch.float32, torch.float64)


def _operand(sign: str) -> Rewrite:
    def rewrite(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Arguments | None:
        if kwargs or len(args) != 2:
            return None
        tensor, number = map(ctx.real, args)
        if not isinstance(tensor, TensorValue) or not isinstance(number, ConstantValue):
            return None
        operand = as_operand(tensor, ctx, sign, number)
        return None if operand is None else ([tensor, operand], {})

    return rewrite


def _taken(
    ctx: Context, args: list[Value], kwargs: dict[str, Value], names: tuple[str, ...]
) -> dict[str, Value] | None:
    """The arguments by name; None where there are others, or no number among them changes."""
    if len(args) > len(names) or not set(kwargs) <= set(names[len(args) :]):
        return None
    found = {name: ctx.real(value) for name, value in [*zip(names, args, strict=False), *kwargs.items()]}
    return found if any(is_changing(ctx, value) for value in found.values()) else None


def _like(ctx: Context, value: Value, dtype: torch.dtype, make: Make = number_tensor) -> Value | None:
    """A number, whether it changes or not, as a tensor."""
    if is_changing(ctx, value):
        return number_input(ctx, value, dtype, make)
    if not isinstance(value, ConstantValue) or type(value.value) not in (int, float):
        return None
    options = {"dtype": constant(dtype), "device": constant(torch.device("cpu"))}
    return call_graph(ctx, torch.scalar_tensor, [value], options)


def _floats_on_cpu(value: Value | None, *, grad: bool = True) -> bool:
    """Is it a tensor with dimensions, of a kind for which all was measured?"""
    if not isinstance(value, TensorValue):
        return False
    fake = value.fake
    return fake.dtype in _FLOATS and fake.dim() > 0 and fake.device.type == "cpu" and (grad or not fake.requires_grad)


def _clamp(*names: str) -> Rewrite:
    def rewrite(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Arguments | None:
        given = _taken(ctx, args, kwargs, ("input", *names)) or {}
        tensor = given.pop("input", None)
        if not isinstance(tensor, TensorValue) or not _floats_on_cpu(tensor, grad=False):
            return None
        bounds = {n: v for n, v in given.items() if not (isinstance(v, ConstantValue) and v.value is None)}
        if any(isinstance(v, ConstantValue) and v.value == 0 for v in bounds.values()):
            return None  # see bound_tensor
        made = {name: _like(ctx, value, tensor.fake.dtype, bound_tensor) for name, value in bounds.items()}
        return None if None in made.values() else ([tensor], made)  # type: ignore[return-value]

    return rewrite


def _lerp(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Arguments | None:
    given = _taken(ctx, args, kwargs, ("input", "end", "weight"))
    if given is None or len(given) != 3:
        return None
    tensor, end, weight = (given[name] for name in ("input", "end", "weight"))
    if not _floats_on_cpu(tensor, grad=False) or not _floats_on_cpu(end, grad=False):
        return None
    assert isinstance(tensor, TensorValue)
    number = number_input(ctx, weight, tensor.fake.dtype)
    return None if number is None else ([tensor, end, number], {})


def _where(*names: str) -> Rewrite:
    def rewrite(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Arguments | None:
        given = _taken(ctx, args, kwargs, names)
        if given is None or len(given) != 3:
            return None
        tensor = next((v for v in (given["input"], given["other"]) if isinstance(v, TensorValue)), None)
        if tensor is None or not tensor.fake.dim() or tensor.fake.dtype not in _FLOATS:
            return None
        for name in ("input", "other"):
            number = given[name] if given[name] is tensor else number_input(ctx, given[name], tensor.fake.dtype)
            if number is None:
                return None
            given[name] = number
        return [given[name] for name in names], {}

    return rewrite


def _with_alpha(sign: str) -> NewTensor:
    """`add(x, y, alpha=k)` adds the product without rounding it first, and so does addcmul on a CPU."""

    def rewrite(ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], method: bool) -> Value | None:
        if set(kwargs) != {"alpha"} or len(args) != 2 or not is_changing(ctx, alpha := ctx.real(kwargs["alpha"])):
            return None
        tensor, other = map(ctx.real, args)
        if not isinstance(tensor, TensorValue) or not isinstance(other, TensorValue):
            return None
        known = _floats_on_cpu(tensor, grad=False) and _floats_on_cpu(other, grad=False)
        if not known or tensor.fake.dtype is not other.fake.dtype:
            return None
        number = number_input(ctx, alpha.unary(ctx, sign), tensor.fake.dtype)
        return None if number is None else call_graph(ctx, torch.addcmul, [tensor, other, number], {})

    return rewrite


def _fill(*names: str) -> Rewrite:
    """A tensor that is filled with a value, the last of the arguments."""

    def rewrite(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Arguments | None:
        given = _taken(ctx, args, kwargs, names)
        tensor = given and given.get("input")
        if not given or len(given) != len(names) or not isinstance(tensor, TensorValue):
            return None
        if tensor.fake.dtype not in _FLOATS:
            return None
        number = number_input(ctx, given["value"], tensor.fake.dtype)
        return None if number is None else ([*(given[name] for name in names[:-1]), number], {})

    return rewrite


#: rewrites that change the arguments alone
_ARGUMENTS: dict[str, Rewrite] = {
    **{name: _operand(sign) for name, sign in _OPERATORS.items()},
    **dict.fromkeys(["clamp", "clamp_", "clip", "clip_"], _clamp("min", "max")),
    **dict.fromkeys(["clamp_min", "clamp_min_"], _clamp("min")),
    **dict.fromkeys(["clamp_max", "clamp_max_"], _clamp("max")),
    "lerp": _lerp, "lerp_": _lerp,
    "where": _where("condition", "input", "other"),
    **dict.fromkeys(["masked_fill", "masked_fill_"], _fill("input", "mask", "value")),
    **dict.fromkeys(["fill", "fill_"], _fill("input", "value")),
}  # fmt: skip


# new tensors ---------------------------------------------------------------------------------------------------------
#: where the value stands among the arguments
_VALUE_AT = {"full": 1, "full_like": 1, "new_full": 2}
_PLAIN_OPTIONS = frozenset(["dtype", "device", "memory_format", "size", "fill_value", "input"])


def _filled(name: str) -> NewTensor:
    """`full(size, k)` is made of zeros, which are then filled."""

    def rewrite(ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], method: bool) -> Value | None:
        at = _VALUE_AT[name]
        value = args[at] if len(args) > at else kwargs.get("fill_value")
        if value is None or not is_changing(ctx, value := ctx.real(value)) or not set(kwargs) <= _PLAIN_OPTIONS:
            return None
        like = ctx.real(args[0]) if name != "full" and args else None
        dtype = _dtype_of(ctx, [value], kwargs, like)
        number = None if dtype is None else number_input(ctx, value, dtype)
        if number is None:
            return None
        zero = constant(type(value.value)(0))  # type: ignore[attr-defined]
        args = [zero if i == at else arg for i, arg in enumerate(args)]
        kwargs = {key: zero if key == "fill_value" else arg for key, arg in kwargs.items()}
        return call_graph(ctx, torch.fill, [call_graph(ctx, target, args, kwargs, method=method), number], {})

    return rewrite


def _tensor_of_numbers(
    ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], method: bool
) -> Value | None:
    """`torch.tensor(k)` and `torch.tensor([k, 1.0])`."""
    if len(args) != 1 or not set(kwargs) <= {"dtype", "device"} or torch.get_default_device().type != "cpu":
        return None
    device = ctx.real(kwargs["device"]) if "device" in kwargs else constant(None)
    if not isinstance(device, ConstantValue):
        return None
    data = ctx.real(args[0])
    items = [ctx.real(i) for i in data.unpack(ctx)] if type(data) in (ListValue, TupleValue) else [data]
    if not has_symbol(ctx, items) and not any(is_changing(ctx, item) for item in items):
        return None
    if any(not isinstance(item, ConstantValue) or type(item.value) not in (int, float) for item in items):
        return None
    dtype = _dtype_of(ctx, items, kwargs)
    made = [None if dtype is None else _like(ctx, item, dtype) for item in items]
    if None in made:
        return None
    if data is items[0]:
        found = call_graph(ctx, torch.clone, made, {})  # type: ignore[arg-type]
    else:
        found = call_graph(ctx, torch.stack, [ctx.born(ListValue(tuple(made)))], {})  # type: ignore[arg-type]
    return found if device.as_python(ctx) is None else call_graph(ctx, "to", [found, device], {}, method=True)


def _new_tensor_of_numbers(
    ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], method: bool
) -> Value | None:
    """`x.new_tensor([k])`: of the dtype and on the device of x, if nothing else is said."""
    like = ctx.real(args[0]) if len(args) == 2 else None
    if not isinstance(like, TensorValue):
        return None
    options = {"dtype": constant(like.fake.dtype), "device": constant(like.fake.device), **kwargs}
    return _tensor_of_numbers(ctx, torch.tensor, args[1:], options, method)


def _dtype_of(
    ctx: Context, numbers: list[Value], kwargs: dict[str, Value], like: Value | None = None
) -> torch.dtype | None:
    """The dtype of a new tensor of these numbers; None for one that was not measured."""
    said = ctx.real(kwargs["dtype"]) if "dtype" in kwargs else constant(None)
    if not isinstance(said, ConstantValue):
        return None
    found = said.as_python(ctx)
    if found is None and isinstance(like, TensorValue):
        found = like.fake.dtype
    if found is None:
        integers = all(type(number.value) is int for number in numbers)  # type: ignore[attr-defined]
        found = torch.int64 if integers else torch.get_default_dtype()
    floats = any(type(number.value) is float for number in numbers)  # type: ignore[attr-defined]
    return found if found in _FLOATS or (found is torch.int64 and not floats) else None


def _with_arguments(rewrite: Rewrite) -> NewTensor:
    def call(ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], method: bool) -> Value | None:
        found = rewrite(ctx, args, kwargs)
        return None if found is None else call_graph(ctx, target, *found, method=method)

    return call


def _either(*rewrites: NewTensor) -> NewTensor:
    def call(ctx: Context, target: Any, args: list[Value], kwargs: dict[str, Value], method: bool) -> Value | None:
        found = (rewrite(ctx, target, args, kwargs, method) for rewrite in rewrites)
        return next((value for value in found if value is not None), None)

    return call


def _register() -> None:
    new = {name: _filled(name) for name in _VALUE_AT} | {
        "tensor": _tensor_of_numbers, "as_tensor": _tensor_of_numbers, "new_tensor": _new_tensor_of_numbers,
    }  # fmt: skip
    every = {name: _with_arguments(rewrite) for name, rewrite in _ARGUMENTS.items()} | new
    for name, sign in {"add": "+", "sub": "-", "subtract": "-"}.items():
        every[name] = _either(_with_alpha(sign), every[name])
    for name, rewrite in every.items():
        if hasattr(torch, name):
            WITH_NUMBERS[getattr(torch, name)] = rewrite
        if hasattr(torch.Tensor, name):
            by_method = _with_arguments(_where("input", "condition", "other")) if name == "where" else rewrite
            WITH_NUMBERS[name] = WITH_NUMBERS[getattr(torch.Tensor, name)] = by_method


_register()
