"""Python's builtin functions."""

from __future__ import annotations

import abc
import builtins
import functools
import math
import sys
import types
import typing
from collections import _count_elements  # type: ignore[attr-defined]
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..guards import MISSING, Kind
from ..holding import is_immutable_type, type_mro
from ..sources import Call
from ..torch_private import FakeTensor
from . import operations
from .base import Raised, Value
from .builtin_registry import builtin
from .classes import ClassValue
from .constants import ConstantValue, call_pure, constant, partial_expression, plain, traced
from .enums import EnumValue
from .hashing import UserKey, hash_alone
from .iterator_tools import is_none
from .iterators import iterator_of
from .lookup import class_attribute, same_bases
from .pure_functions import known, pure
from .python_modules import PythonModuleValue
from .sequences import ListValue, sorted_values
from .sets import SetValue
from .stepping import each
from .symbols import has_symbol, smallest_or_largest
from .tensors import TensorValue, call_graph
from .text_formats import specification_is_safe
from .tuples import TupleValue
from .unbacked import UnbackedValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

#: metaclasses of torch's that decide by more than the class; fakes answer as real tensors do
_TENSOR_METACLASSES = {type(torch.Tensor), type(torch.nn.Parameter), type(torch.nn.Buffer), type(torch.FloatTensor)}
#: `typing.Callable`, `typing.Sequence`, ... without arguments
_TYPING_ALIAS = type(typing.Sequence)
#: what acts outside of the program, or looks into the interpreter: the break's title
_OUTSIDE: dict[Any, str] = {
    print: "print() writes output",
    open: "file is read or written",
    input: "input() reads a line",
    breakpoint: "breakpoint() stops the program",
    exec: "code is made from text",
    eval: "code is made from text",
    compile: "code is made from text",
    globals: "names of a namespace are listed",
    locals: "names of a namespace are listed",
    dir: "names of a namespace are listed",
    id: "id() gives an address",
    __import__: "import is run",
    builtins.__build_class__: "class is defined in the function",
    memoryview: "result type is not supported",
    bytearray: "result type is not supported",
}


def _breaks(function: Any) -> None:
    def handler(ctx: Context, *args: Value, **kwargs: Value) -> Value:
        raise GraphBreak(_OUTSIDE[function], f"{function.__name__}()")

    builtin(function)(handler)


for _function in _OUTSIDE:
    _breaks(_function)

for _function in (chr, ord, bin, hex, oct, ascii):
    builtin(_function)(pure(_function, f"{_function.__name__}()"))


@builtin(len)
def len_(ctx: Context, obj: Value, /) -> Value:
    return ctx.real(obj).length(ctx)


# classes ------------------------------------------------------------------------------------------------------------
@builtin(isinstance)
def isinstance_(ctx: Context, obj: Value, classes: Value, /) -> Value:
    real = ctx.real(obj)
    return constant(any(_is_instance(ctx, real, cls) for cls in _classes(ctx, classes)))


@builtin(issubclass)
def issubclass_(ctx: Context, cls: Value, classes: Value, /) -> Value:
    real = ctx.real(cls).as_python(ctx)
    if not isinstance(real, type):
        ctx.real(cls).refuse("Python raises or warns here", "issubclass()")
    return constant(any(_is_subclass(ctx, real, candidate) for candidate in _classes(ctx, classes)))


def _classes(ctx: Context, value: Value) -> list[type]:
    """The classes in the second argument: one, a union, or tuples of them."""
    real = ctx.real(value)
    found: list[type] = []
    waiting = [real.as_python(ctx)]
    while waiting:
        cls = waiting.pop(0)
        if type(cls) is tuple:
            waiting[:0] = cls
        elif isinstance(cls, types.UnionType) or typing.get_origin(cls) is typing.Union:
            waiting[:0] = typing.get_args(cls)
        elif isinstance(cls, _TYPING_ALIAS):  # typing.Callable asks collections.abc.Callable
            waiting[:0] = [typing.get_origin(cls)]
        elif isinstance(cls, type):
            found.append(cls)
        else:
            real.refuse("Python raises or warns here", "use as a class")
    return found


def _is_instance(ctx: Context, obj: Value, cls: type) -> bool:
    if isinstance(obj, TensorValue) and type(cls) in _TENSOR_METACLASSES:
        return isinstance(obj.fake, cls) and not issubclass(cls, FakeTensor)  # what stands for it is one, it is none
    kind = obj.python_type(ctx)
    if _is_subclass(ctx, kind, cls):
        return True
    # An object may claim another class by a `__class__` of its own.
    claimed = next(vars(base)["__class__"] for base in kind.__mro__ if "__class__" in vars(base))
    if claimed is not vars(object)["__class__"]:
        obj.refuse("isinstance() runs code of a class", "the __class__")
    return False


def _is_subclass(ctx: Context, kind: type, cls: type) -> bool:
    """`issubclass(kind, cls)`, which asks only metaclasses whose answer depends on nothing but the two."""
    meta = type(cls)
    if cls is kind:
        return True
    same_bases(ctx, kind)
    if cls in type_mro(kind):
        return True
    if meta in _TENSOR_METACLASSES or _uses(meta, type):
        return False
    if _uses(meta, abc.ABCMeta) and _hook_is_known(cls):
        found = issubclass(kind, cls)
        if not (is_immutable_type(kind) and _is_of_python(cls)):  # it may be registered by and by
            source = Call(ctx.hold(issubclass), (ctx.hold(kind), ctx.hold(cls)))
            ctx.guard(Kind.TRUTHY if found else Kind.FALSY, source)
        return found
    raise GraphBreak("isinstance() runs code of a class", f"{cls.__module__}.{cls.__qualname__}")


def _uses(meta: type, base: type) -> bool:
    return all(
        getattr(meta, name) is getattr(base, name) or getattr(meta, name) == getattr(base, name)
        for name in ("__instancecheck__", "__subclasscheck__")
    )


def _hook_is_known(cls: type) -> bool:
    return _is_of_python(next(base for base in cls.__mro__ if "__subclasshook__" in vars(base)))


def _is_of_python(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in sys.stdlib_module_names


@builtin(callable)
def callable_(ctx: Context, obj: Value, /) -> Value:
    return constant(class_attribute(ctx, ctx.real(obj).python_type(ctx), "__call__") is not MISSING)


# attributes ---------------------------------------------------------------------------------------------------------
def _name(ctx: Context, value: Value) -> str:
    name = ctx.real(value).as_python(ctx)
    if type(name) is not str:
        ctx.real(value).refuse("Python raises or warns here", "use as an attribute's name")
    return name


@builtin(getattr)
def getattr_(ctx: Context, obj: Value, name: Value, default: Value | None = None, /) -> Value:
    wanted = _name(ctx, name)
    try:
        return ctx.real(obj).getattr(ctx, wanted)
    except Raised as raised:
        if default is None or not _is_attribute_error(ctx, raised):
            raise
        return default


def _is_attribute_error(ctx: Context, raised: Raised) -> bool:
    return issubclass(ctx.real(raised.value).python_type(ctx), AttributeError)


@builtin(hasattr)
def hasattr_(ctx: Context, obj: Value, name: Value, /) -> Value:
    try:
        ctx.real(obj).getattr(ctx, _name(ctx, name))
    except Raised as raised:
        if not _is_attribute_error(ctx, raised):
            raise
        return constant(False)
    if isinstance(module := ctx.real(obj), PythonModuleValue):
        module.note_presence(ctx, _name(ctx, name))
    return constant(True)


@builtin(setattr)
def setattr_(ctx: Context, obj: Value, name: Value, value: Value, /) -> Value:
    ctx.real(obj).setattr(ctx, _name(ctx, name), value)
    return constant(None)


@builtin(delattr)
def delattr_(ctx: Context, obj: Value, name: Value, /) -> Value:
    ctx.real(obj).delattr(ctx, _name(ctx, name))
    return constant(None)


@builtin(vars)
def vars_(ctx: Context, obj: Value, /) -> Value:
    try:
        return ctx.real(obj).getattr(ctx, "__dict__")
    except Raised as raised:
        if not _is_attribute_error(ctx, raised):
            raise
        ctx.raise_(TypeError("vars() argument must have __dict__ attribute"))


# reductions ---------------------------------------------------------------------------------------------------------
@builtin(any)
def any_(ctx: Context, iterable: Value, /) -> Value:
    return constant(_found(ctx, iterable, True))


@builtin(all)
def all_(ctx: Context, iterable: Value, /) -> Value:
    return constant(not _found(ctx, iterable, False))


def _found(ctx: Context, iterable: Value, wanted: bool) -> bool:
    return any(item.truth(ctx) == wanted for item in _each_in_any_order(ctx, iterable))


@builtin(sum)
def sum_(ctx: Context, iterable: Value, /, start: Value | None = None) -> Value:
    total = constant(0) if start is None else ctx.real(start)
    if isinstance(total, ConstantValue) and isinstance(total.value, (str, bytes)):
        total.refuse("Python raises or warns here", "sum()")
    #: as long as there are only numbers; CPython sums floats with a compensation of its own up to the first other item
    numbers: list[Value] | None = [total] if _is_number(total) else None
    for item in _each_in_any_order(ctx, iterable):
        if numbers is not None and _is_number(item):
            numbers.append(item)
            continue
        if numbers is not None:
            total, numbers = _sum_of_numbers(ctx, numbers), None
        total = operations.binary(ctx, "+", total, item)
    return total if numbers is None else _sum_of_numbers(ctx, numbers)


def _sum_of_numbers(ctx: Context, numbers: list[Value]) -> Value:
    if any(type(number.value) in (float, complex) for number in numbers if isinstance(number, ConstantValue)):
        start, *rest = [number.as_python(ctx) for number in numbers]
        return call_pure(ctx, sum, rest, start)
    return functools.reduce(lambda total, number: operations.binary(ctx, "+", total, number), numbers)


def _each_in_any_order(ctx: Context, iterable: Value) -> Iterator[Value]:
    """The items, for something that gives the same for a set in every order."""
    real = ctx.real(iterable)
    if isinstance(real, SetValue):
        yield from map(ctx.real, real.in_any_order(ctx))
    else:
        yield from each(ctx, real)


def _is_number(value: Value) -> bool:
    return isinstance(value, ConstantValue) and type(value.value) in (int, float, bool, complex)


def _extreme(name: str, sign: str) -> None:
    def of_numbers(ctx: Context, args: tuple[Value, ...]) -> Value | None:
        """Of some numbers from outside it is an expression: which of them it is, matters to nobody yet."""
        numbers = [ctx.real(arg) for arg in args]
        if not 1 < len(numbers) <= 4 or not all(isinstance(number, ConstantValue) for number in numbers):
            return None
        return partial_expression(ctx, getattr(builtins, name), *numbers)  # type: ignore[arg-type]

    def handler(ctx: Context, *args: Value, key: Value | None = None, default: Value | None = None) -> Value:
        if not args or (len(args) > 1 and default is not None):
            raise GraphBreak("arguments do not fit the call", f"{name}()")
        function = None if key is None or is_none(ctx, key) else ctx.real(key)
        if function is None and len(args) > 1:
            chosen = smallest_or_largest(ctx, name, [ctx.real(item) for item in args])
            if chosen is not None:
                return chosen
        if function is None and (found := of_numbers(ctx, args)) is not None:
            return found
        take = _each_in_any_order if function is None else each
        best: tuple[Value, Value] | None = None
        for item in args if len(args) > 1 else take(ctx, args[0]):
            rank = item if function is None else function.call(ctx, [item], {})
            if best is None or ctx.real(operations.compare(ctx, sign, rank, best[0])).truth(ctx):
                best = rank, item
        if best is not None:
            return best[1]
        if default is None:
            ctx.raise_(ValueError(f"{name}() {_EMPTY}"))
        return default

    builtin(getattr(builtins, name))(handler)


try:
    min([])
except ValueError as _error:
    #: what CPython says of an empty argument, which differs among versions
    _EMPTY = str(_error).partition(" ")[2]
_extreme("min", "<")
_extreme("max", ">")


@builtin(sorted)
def sorted_(ctx: Context, iterable: Value, /, *, key: Value | None = None, reverse: Value | None = None) -> Value:
    items = (_each_in_any_order if is_none(ctx, key) else each)(ctx, iterable)
    return ctx.born(ListValue(sorted_values(ctx, tuple(items), key, reverse)))


@builtin(functools.reduce)
def reduce(ctx: Context, function: Value, iterable: Value, initial: Value | None = None, /) -> Value:
    iterator = iterator_of(ctx, iterable)
    total = initial if initial is not None else iterator.next(ctx)
    if total is None:
        ctx.raise_(TypeError("reduce() of empty iterable with no initial value"))
    while (item := iterator.next(ctx)) is not None:
        ctx.spend(1)
        total = ctx.real(function).call(ctx, [total, item], {})
    return total


# numbers and text ---------------------------------------------------------------------------------------------------
@builtin(abs)
def abs_(ctx: Context, number: Value, /) -> Value:
    real = ctx.real(number)
    if isinstance(real, TensorValue):
        return call_graph(ctx, torch.abs, [real], {})
    if isinstance(real, ConstantValue):
        return traced(ctx, abs, real)
    if isinstance(real, UnbackedValue):
        return real.absolute(ctx)
    return call_number_method(ctx, real, ("__abs__",))


def call_number_method(ctx: Context, value: Value, names: tuple[str, ...], *args: Value) -> Value:
    """The first of these special methods that the class of a user's object has; CPython complains where it has none."""
    for name in names if hasattr(value, "special") else ():
        if value.special(ctx, name) is not None:  # type: ignore[attr-defined]
            return value.call_method(ctx, name, list(args), {})
    value.refuse("builtin function is given an object", names[0])


@builtin(round)
def round_(ctx: Context, number: Value, ndigits: Value | None = None) -> Value:
    digits = [] if ndigits is None else [ndigits]
    if hasattr(ctx.real(number), "special"):
        return call_number_method(ctx, ctx.real(number), ("__round__",), *digits)
    return pure(round, "round()")(ctx, number, *digits)


@builtin(divmod)
def divmod_(ctx: Context, left: Value, right: Value, /) -> Value:
    for value, name, other in ((left, "__divmod__", right), (right, "__rdivmod__", left)):
        method = getattr(ctx.real(value), "special", lambda *_: None)(ctx, name)
        result = None if method is None else ctx.real(method.call(ctx, [other], {}))
        if result is not None and not (isinstance(result, ConstantValue) and result.value is NotImplemented):
            return result
    if has_symbol(ctx, [left, right]) or any(ctx.real(value).is_graph_number for value in (left, right)):
        return ctx.born(TupleValue([operations.binary(ctx, op, left, right) for op in ("//", "%")]))
    return pure(divmod, "divmod()")(ctx, left, right)


@builtin(math.prod)
def prod(ctx: Context, iterable: Value, /, *, start: Value | None = None) -> Value:
    items = list(_each_in_any_order(ctx, iterable))
    numbers = [ctx.real(number) for number in (items if start is None else [start, *items])]
    if numbers and all(isinstance(number, ConstantValue) and type(number.value) is int for number in numbers):
        return functools.reduce(lambda product, number: operations.binary(ctx, "*", product, number), numbers)
    return pure(math.prod, "math.prod()")(ctx, ctx.born(ListValue(items)), *([] if start is None else [start]))


@builtin(_count_elements)
def count_elements(ctx: Context, mapping: Value, iterable: Value, /) -> Value:
    """What Counter counts by: as quick as its own loop only for classes that keep dict's `get` and `__setitem__`."""
    counter = ctx.real(mapping)
    require_plain = getattr(counter, "require_plain", None)
    if require_plain is not None:
        require_plain("_count_elements()", "get", "__setitem__")
    part = counter.builtin_part()
    for item in each(ctx, iterable):
        before = part.call_method(ctx, "get", [item, constant(0)], {})
        part.setitem(ctx, item, operations.binary(ctx, "+", before, constant(1)))
    return constant(None)


@builtin(pow)
def pow_(ctx: Context, base: Value, exp: Value, mod: Value | None = None) -> Value:
    if not is_none(ctx, mod) and hasattr(ctx.real(base), "special"):
        return ctx.real(base).call_method(ctx, "__pow__", [exp, mod or constant(None)], {})
    if is_none(ctx, mod):
        return operations.binary(ctx, "**", base, exp)
    return call_pure(ctx, pow, *[known(ctx, v, "pow()") for v in (base, exp, mod or constant(None))])


@builtin(hash)
def hash_(ctx: Context, obj: Value, /) -> Value:
    key = hash_alone(ctx, obj)  # raises for what has no hash
    if isinstance(key, UserKey):
        return constant(key.hash)
    return call_pure(ctx, hash, known(ctx, ctx.real(obj).builtin_part(), "hash()"))


def _text(function: Any, special: str) -> None:
    def handler(ctx: Context, obj: Value, /) -> Value:
        return as_text(ctx, function, special, obj)

    builtin(function)(handler)


def as_text(ctx: Context, function: Any, special: str, obj: Value) -> Value:
    """str(obj) or repr(obj)."""
    real = ctx.real(obj)
    if isinstance(real, EnumValue):
        return real.call_method(ctx, special, [], {})
    if isinstance(real, ConstantValue):
        return real if function is str and type(real.value) is str else traced(ctx, function, real)
    if isinstance(real, TensorValue):
        raise GraphBreak("tensor value is read", f"text of {real}", "print it at the end of the function")
    if isinstance(real, ClassValue):
        return real.text(ctx)
    if hasattr(real, "special") or (isinstance(real.python_type(ctx), type) and issubclass(
        real.python_type(ctx), BaseException
    )):
        return real.call_method(ctx, special, [], {})
    return call_pure(ctx, function, plain(ctx, real))


_text(repr, "__repr__")


@builtin(format)
def format_(ctx: Context, obj: Value, spec: Value | None = None, /) -> Value:
    real = ctx.real(obj)
    form = "" if spec is None else known(ctx, spec, "format()")
    if isinstance(real, EnumValue):
        return real.call_method(ctx, "__format__", [constant(form)], {})
    if hasattr(real, "special"):
        return real.call_method(ctx, "__format__", [constant(form)], {})
    if form == "":
        if isinstance(real, ConstantValue) and type(real.value) in (int, float, bool, str):
            return as_text(ctx, str, "__str__", real)
        return as_text(ctx, str, "__str__", real)
    if isinstance(real, ConstantValue) and specification_is_safe(type(real.value), form):
        return traced(ctx, format, real, constant(form))
    return call_pure(ctx, format, known(ctx, real, "format()"), form)

