"""What calling a builtin class gives."""

from __future__ import annotations

import functools
import operator
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..sources import Call, Literal
from .base import Value
from .builtin_functions import as_text, call_number_method
from .builtin_registry import builtin, builtin_class_method
from .constants import ConstantValue, call_pure, constant, traced
from .dict_kinds import DefaultDictValue, OrderedDictValue, from_keys
from .functions import PartialValue
from .mappings import DictValue, new_dict, update
from .pure_functions import known, pure
from .sequences import ListValue, SliceValue, TupleValue
from .sets import set_from
from .symbols import has_symbol
from .tensors import METHOD_MEANINGS, TensorValue, read_number
from .unbacked import UnbackedValue

if TYPE_CHECKING:
    from ..interpreter.context import Context


@builtin(type)
def type_(ctx: Context, obj: Value, /) -> Value:
    cls = ctx.real(obj).python_type(ctx)
    return ctx.wrap(cls, ctx.hold(cls))


# numbers and text ---------------------------------------------------------------------------------------------------
@builtin(bool)
def bool_(ctx: Context, obj: Value | None = None, /) -> Value:
    if obj is None:
        return constant(False)
    real = ctx.real(obj)
    if isinstance(real, ConstantValue):
        return real if type(real.value) is bool else traced(ctx, bool, real)
    return constant(real.truth(ctx))


def _number(cls: type) -> None:
    def handler(ctx: Context, *args: Value) -> Value:
        if len(args) == 1:
            real = ctx.real(args[0])
            if isinstance(real, ConstantValue):
                return real if type(real.value) is cls else traced(ctx, cls, real)
            if isinstance(real, TensorValue) and cls is not complex and ctx.request.capture_scalars:
                return read_number(ctx, real, cls)
            if isinstance(real, TensorValue) and cls is not complex:
                number = METHOD_MEANINGS[f"__{cls.__name__}__"](ctx, real, [], {})
                if number is not None:
                    return number
            if isinstance(real, UnbackedValue) and real.python_type(ctx) is cls:
                return real
            if not isinstance(real, TensorValue):
                names = (f"__{cls.__name__}__", "__index__") if cls is not complex else ("__complex__",)
                return call_number_method(ctx, real, names)
        return call_pure(ctx, cls, *[known(ctx, arg, f"{cls.__name__}()") for arg in args])

    builtin(cls)(handler)


for _cls in (int, float, complex):
    _number(_cls)


@builtin(str)
def str_(ctx: Context, obj: Value | None = None, /, *coding: Value) -> Value:
    if obj is None:
        return constant("")
    if coding:
        return call_pure(ctx, str, *[known(ctx, arg, "str()") for arg in (obj, *coding)])
    return as_text(ctx, str, "__str__", obj)


builtin(bytes)(pure(bytes, "bytes()"))


class TracedRange(ConstantValue):
    """`range(n)` of numbers from outside: they are guarded once something depends on how long it is."""

    __slots__ = ("numbers",)

    def __init__(self, ctx: Context, numbers: list[ConstantValue]) -> None:
        sources = [number.source or Literal(number.value) for number in numbers]
        super().__init__(range(*[n.value for n in numbers]), Call(ctx.hold(range), tuple(sources)))
        self.numbers = numbers

    def as_python(self, ctx: Context) -> range:
        for number in self.numbers:
            number.as_python(ctx)
        return self.value


@builtin(range)
def range_(ctx: Context, *args: Value) -> Value:
    reals = [ctx.real(arg) for arg in args]
    numbers = [real for real in reals if isinstance(real, ConstantValue) and type(real.value) is int]
    traceable = len(numbers) == len(args) and any(number.source is not None for number in numbers)
    if not traceable or (len(numbers) == 3 and (numbers[2].source is not None or not numbers[2].value)):
        return call_pure(ctx, range, *[known(ctx, arg, "range()") for arg in args])
    return TracedRange(ctx, numbers)

builtin(torch.device)(pure(torch.device, "torch.device()"))
builtin_class_method(int, "from_bytes")(pure(int.from_bytes, "int.from_bytes()"))
builtin_class_method(float, "fromhex")(pure(float.fromhex, "float.fromhex()"))
builtin_class_method(bytes, "fromhex")(pure(bytes.fromhex, "bytes.fromhex()"))


@builtin(torch.Size)
def size(ctx: Context, items: Value | None = None, /) -> Value:
    if items is None:
        return pure(torch.Size, "torch.Size()")(ctx)
    if type(ctx.real(items)) in (ListValue, TupleValue):
        sizes = ctx.real(items).unpack(ctx)
        if has_symbol(ctx, sizes) and all(_is_int(ctx.real(size)) for size in sizes):
            return ctx.born(TupleValue(sizes, cls=torch.Size))
    return pure(torch.Size, "torch.Size()")(ctx, items)


def _is_int(value: Value) -> bool:
    return isinstance(value, ConstantValue) and type(value.value) is int


@builtin(slice)
def slice_(ctx: Context, first: Value, second: Value | None = None, third: Value | None = None, /) -> Value:
    none = constant(None)
    parts = [none, first, none] if second is None else [first, second, third or none]
    return SliceValue(parts)


# containers ---------------------------------------------------------------------------------------------------------
@builtin(list)
def list_(ctx: Context, items: Value | None = None, /) -> Value:
    return ctx.born(ListValue([] if items is None else ctx.real(items).unpack(ctx)))


@builtin(tuple)
def tuple_(ctx: Context, items: Value | None = None, /) -> Value:
    real = None if items is None else ctx.real(items)
    if isinstance(real, TupleValue) and real.cls is tuple:
        return real
    return ctx.born(TupleValue([] if real is None else real.unpack(ctx)))


@builtin(set)
def set_(ctx: Context, items: Value | None = None, /) -> Value:
    return set_from(ctx, set, items)


@builtin(frozenset)
def frozenset_(ctx: Context, items: Value | None = None, /) -> Value:
    return set_from(ctx, frozenset, items)


def _filled(ctx: Context, result: DictValue, items: Value | None, named: dict[str, Value]) -> Value:
    if items is not None:
        update(ctx, result, items)
    for name, value in named.items():
        result.setitem(ctx, constant(name), value)
    return result


@builtin(dict)
def dict_(ctx: Context, items: Value | None = None, /, **named: Value) -> Value:
    return _filled(ctx, new_dict(ctx, []), items, named)


@builtin(OrderedDict)
def ordered_dict(ctx: Context, items: Value | None = None, /, **named: Value) -> Value:
    return _filled(ctx, ctx.born(OrderedDictValue({})), items, named)


@builtin(defaultdict)
def default_dict(ctx: Context, factory: Value | None = None, items: Value | None = None, /, **named: Value) -> Value:
    return _filled(ctx, ctx.born(DefaultDictValue(factory or constant(None), {})), items, named)


def _from_keys(cls: type) -> None:
    def handler(ctx: Context, items: Value, value: Value | None = None, /) -> Value:
        return from_keys(ctx, cls, items, value)

    builtin_class_method(cls, "fromkeys")(handler)


_from_keys(dict)
_from_keys(OrderedDict)


# functions ----------------------------------------------------------------------------------------------------------
@builtin(functools.partial)
def partial(ctx: Context, function: Value, /, *args: Value, **kwargs: Value) -> Value:
    real = ctx.real(function)
    if isinstance(real, PartialValue):
        function, args, kwargs = real.function, (*real.args, *args), {**real.kwargs, **kwargs}
    return ctx.born(PartialValue(function, args, kwargs))


class Getter(Value):
    """operator.itemgetter, attrgetter or methodcaller of known arguments."""

    __slots__ = ("args", "cls", "kwargs")

    kind = "operator's getter"

    def __init__(self, cls: Any, args: tuple[Value, ...], kwargs: dict[str, Value] | None = None) -> None:
        super().__init__()
        self.cls, self.args, self.kwargs = cls, args, kwargs or {}

    def python_type(self, ctx: Context) -> type:
        return self.cls

    def truth(self, ctx: Context) -> bool:
        return True

    def key(self, ctx: Context) -> object:
        return self

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) != 1 or kwargs:
            self.refuse("arguments do not fit the call")
        obj = ctx.real(args[0])
        if self.cls is operator.methodcaller:
            name, *rest = self.args
            return obj.call_method(ctx, ctx.real(name).as_python(ctx), rest, self.kwargs)
        found = [self._get(ctx, obj, wanted) for wanted in self.args]
        return found[0] if len(found) == 1 else TupleValue(found)

    def _get(self, ctx: Context, obj: Value, wanted: Value) -> Value:
        if self.cls is operator.itemgetter:
            return obj.getitem(ctx, wanted)
        for name in ctx.real(wanted).as_python(ctx).split("."):
            obj = ctx.real(obj.getattr(ctx, name))
        return obj

    def reconstruct(self, out: Any) -> str:
        inner = ", ".join([*map(out.text, self.args), *(f"{k}={out.text(v)}" for k, v in self.kwargs.items())])
        return f"{out.hold(self.cls)}({inner})"


@builtin(operator.itemgetter)
def itemgetter(ctx: Context, item: Value, /, *items: Value) -> Value:
    return ctx.born(Getter(operator.itemgetter, (item, *items)))


@builtin(operator.attrgetter)
def attrgetter(ctx: Context, attr: Value, /, *attrs: Value) -> Value:
    _require_names(ctx, attr, *attrs)
    return ctx.born(Getter(operator.attrgetter, (attr, *attrs)))


@builtin(operator.methodcaller)
def methodcaller(ctx: Context, name: Value, /, *args: Value, **kwargs: Value) -> Value:
    _require_names(ctx, name)
    return ctx.born(Getter(operator.methodcaller, (name, *args), kwargs))


def _require_names(ctx: Context, *names: Value) -> None:
    for name in names:
        real = ctx.real(name)
        if not isinstance(real, ConstantValue) or type(real.value) is not str:
            raise GraphBreak("Python raises or warns here", f"{real} as an attribute's name")


