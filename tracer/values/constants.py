"""Plain Python values: numbers, strings, None, dtypes, ...

A constant from outside carries its source, and nothing is guarded but its type until something depends on its value.
Arithmetic on such numbers gives constants whose source is the expression (`self.step + 1`), so that a counter which is
only counted, printed or stored never recompiles; `if self.step % 10 == 0` guards the truth of that expression.
"""

from __future__ import annotations

import enum
import math
import operator
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    EllipsisType,
    MappingProxyType,
    NoneType,
    NotImplementedType,
)
from typing import TYPE_CHECKING, Any

import torch

from ..errors import GraphBreak
from ..guards import Kind
from ..numpy_names import SCALARS
from ..sources import Call, Literal, Operation, Source, depth
from .base import Raised, Value, wraps
from .members import asks_users_code, users_method
from .text_formats import format_is_safe, formatted, percent, percent_is_safe

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

#: numbers whose arithmetic is pure and may be repeated at run time
NUMBERS = (int, float, bool)
LITERALS = (int, float, bool, str, bytes, complex, NoneType, EllipsisType)
TORCH_CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo)
#: an expression over numbers from outside may get this deep before its value is guarded instead
MAX_EXPRESSION_DEPTH = 12
#: integers above this many bits are not computed at capture: `10 ** 10 ** 10` must not hang it
MAX_BITS = 4096

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}


def joined(*parts: str) -> str:
    """The text of an f-string from its parts."""
    return "".join(parts)


#: pure functions of numbers, strings and bytes that give a number or text, and cannot fail
_TRACEABLE = frozenset([str, repr, abs, bool, int, float, len, format, joined, formatted, percent])
#: those of bytes, which take an integer, too
_CHECKSUMS = frozenset([zlib.crc32, zlib.adler32])
#: operators that may be repeated in a guard or an exit: they cannot raise and stay small
#: operators that may raise for other numbers, or give another type of number: a miss then
_PARTIAL = frozenset(["/", "//", "%", "**"])
#: functions that do; those which may take long are not among them
_OF_NUMBERS = frozenset([int, round, *(f for f in vars(math).values() if type(f) is BuiltinFunctionType)]).difference(
    [math.factorial, math.comb, math.perm]
)
_REPEATABLE = frozenset(["+", "-", "*", "&", "|", "^", "<", "<=", "==", "!=", ">", ">="])


#: methods of a constant that are not pure: a device is a context, too, within which new tensors are on it
_CHANGES_TORCH_STATE = frozenset({"__enter__", "__exit__", "__call__"})


class ConstantValue(Value):
    """An immutable Python object whose value is known at capture. Two of them are one object if their values are."""

    __slots__ = ("value",)

    kind = "constant"
    #: what stands for it in torch's environment, for an integer that depends on symbolic sizes (symbols.py)
    symbol: Any = None

    def __init__(self, value: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.value = value

    def __str__(self) -> str:
        return f"{self.value!r}" if self.source is None else f"{self.source} ({self.value!r})"

    def python_type(self, ctx: Context) -> type:
        return type(self.value)

    def as_python(self, ctx: Context) -> Any:
        if self.source is not None:
            if type(self.value) is bool and isinstance(self.source, Operation):
                ctx.guard(Kind.EXPRESSION, self.source, self.value)
            else:
                ctx.guard(Kind.EQUALS, self.source, self.value)
        return self.value

    def truth(self, ctx: Context) -> bool:
        if self.source is not None and (type(self.value) in NUMBERS or type(self.value) in (str, bytes)):
            if type(self.value) is bool:
                ctx.guard(Kind.EXPRESSION, self.source, self.value)
            else:
                ctx.guard(Kind.TRUTHY if self.value else Kind.FALSY, self.source)
            return bool(self.value)
        return bool(self.as_python(ctx))

    def key(self, ctx: Context) -> object:
        if type(self.value) in SCALARS:
            self.refuse("key is not supported")
        return self.as_python(ctx)

    def is_same(self, ctx: Context, other: Value) -> bool:
        if not isinstance(other, ConstantValue) or type(self.value) is not type(other.value):
            return False
        if self.value is None or isinstance(self.value, (bool, EllipsisType, enum.Enum, *TORCH_CONSTANTS)):
            return bool(self.as_python(ctx) == other.as_python(ctx))
        # Whether two equal numbers or strings are one object is CPython's business: sure only for small integers.
        if type(self.value) is int and -5 <= self.value <= 256:
            return bool(self.as_python(ctx) == other.as_python(ctx))
        if type(self.value) is type(other.value) and self.as_python(ctx) != other.as_python(ctx):
            return False
        self.refuse("identity of equal constants")

    def getattr(self, ctx: Context, name: str) -> Value:
        value = self.as_python(ctx)
        if name in _CHANGES_TORCH_STATE and isinstance(value, torch.device):
            self.refuse("context manager is not supported", "use", "pass device= to the functions that create tensors")
        if name == "__class__":
            return ctx.wrap(type(value), ctx.hold(type(value)))
        if isinstance(value, NoneType) or not hasattr(value, name):
            return call_pure(ctx, getattr, value, name)
        found = getattr(value, name)
        if callable(found) and getattr(found, "__self__", None) is value:
            return ConstantMethod(self, name)
        if is_constant(found):
            return ConstantValue(found)
        self.refuse("attribute cannot be read", f".{name}")

    def getitem(self, ctx: Context, key: Value) -> Value:
        index = ctx.real(key)
        if hasattr(index, "special"):
            index = index.call_method(ctx, "__index__", [], {})
        return call_pure(ctx, operator.getitem, self.as_python(ctx), plain(ctx, index))

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        return call_pure(ctx, operator.contains, self.as_python(ctx), plain(ctx, item))

    def length(self, ctx: Context) -> Value:
        if type(self.value) in (str, bytes):
            return traced(ctx, len, self)
        return call_pure(ctx, len, self.as_python(ctx))

    def unpack(self, ctx: Context) -> list[Value]:
        value = self.as_python(ctx)
        if not isinstance(value, (str, bytes, range)):
            call_pure(ctx, iter, value)  # raises, unless it is something that is not captured
        ctx.spend(len(value))
        return [ConstantValue(item) for item in value]

    def unary(self, ctx: Context, op: str) -> Value:
        if self.source is not None and type(self.value) in NUMBERS and op != "~":
            return ConstantValue(UNARY[op](self.value), Operation(op, None, self.source))
        if op == "~" and type(self.value) is bool:
            self.refuse("Python raises or warns here", "~", "use `not`")
        return call_pure(ctx, UNARY[op], self.as_python(ctx))

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if op == "%" and isinstance(self.value, (str, bytes)):
            found = _traced_text(ctx, percent, percent_is_safe, self, _operands(ctx, other))
            if found is not None:
                return found
            return call_pure(ctx, operator.mod, self.as_python(ctx), plain(ctx, other))
        if not isinstance(other, ConstantValue):
            return None
        found = self._symbolic(ctx, op, other)
        if found is not None:
            return found
        source = expression(self, op, other) or self._divided(ctx, op, other)
        if source is not None:
            return ConstantValue(BINARY[op](self.value, other.value), source)
        if op in _PARTIAL and _stays_small(op, self, other):
            found = partial_expression(ctx, BINARY[op], self, other)
            if found is not None:
                return found
        left, right = self.as_python(ctx), other.as_python(ctx)
        if _too_big(op, left, right):
            self.refuse("capture takes too long", "huge result of an operator")
        return call_pure(ctx, BINARY[op], left, right)

    def _symbolic(self, ctx: Context, op: str, other: ConstantValue) -> ConstantValue | None:
        return None if self.symbol is None and other.symbol is None else self.symbolic(ctx, op, self, other)

    @staticmethod
    def symbolic(ctx: Context, op: str, left: ConstantValue, right: ConstantValue) -> ConstantValue | None:
        """symbols.py puts its function here: the operation, where one of them is a symbol."""
        raise NotImplementedError

    def _divided(self, ctx: Context, op: str, other: ConstantValue) -> Source | None:
        """The expression of a quotient or remainder of integers whose divisor comes from outside: it must not be 0."""
        if op not in ("%", "//") or other.source is None or type(self.value) is not int or type(other.value) is not int:
            return None
        source = Operation(op, self.source or Literal(self.value), other.source)
        return source if depth(source) <= MAX_EXPRESSION_DEPTH and other.truth(ctx) else None

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if not isinstance(other, ConstantValue):
            return None
        found = self._symbolic(ctx, op, other)
        if found is not None:
            return found
        source = expression(self, op, other)
        if source is not None:
            return ConstantValue(COMPARE[op](self.value, other.value), source)
        return call_pure(ctx, COMPARE[op], self.as_python(ctx), other.as_python(ctx))

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if isinstance(self.value, torch.device):
            return self.getattr(ctx, "__call__")  # refuses: it decorates functions
        return call_pure(ctx, self.as_python(ctx))

    def reconstruct(self, out: ExitWriter) -> str:
        return out.constant(self.value)


class ConstantMethod(Value):
    """A bound method of a constant: pure, so it is called at capture when its arguments are constants too."""

    __slots__ = ("name", "receiver")

    kind = "method"

    def __init__(self, receiver: ConstantValue, name: str) -> None:
        super().__init__()
        self.receiver, self.name = receiver, name

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if isinstance(other, ConstantMethod) and other.name == self.name:
            self.refuse("operation is not supported", "comparison")  # it goes by the identity of two constants
        return None

    def truth(self, ctx: Context) -> bool:
        return True

    def python_type(self, ctx: Context) -> type:
        return BuiltinMethodType

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.name == "format" and not kwargs:
            found = _traced_text(ctx, formatted, format_is_safe, self.receiver, [ctx.real(a) for a in args])
            if found is not None:
                return found
        if self.name == "join" and len(args) == 1:
            items = [ctx.real(item) for item in ctx.real(args[0]).unpack(ctx)]
            if all(isinstance(item, ConstantValue) and type(item.value) is str for item in items):
                parts = [part for item in items for part in (self.receiver, item)][1:]
                if parts and type(self.receiver.value) is str:
                    return traced(ctx, joined, *parts)  # type: ignore[arg-type]
            arguments: list[Any] = [[plain(ctx, item) for item in items]]
        else:
            arguments = [plain(ctx, a) for a in args]
        named = {k: plain(ctx, v) for k, v in kwargs.items()}
        return call_pure(ctx, getattr(self.receiver.as_python(ctx), self.name), *arguments, **named)

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.text(self.receiver)}.{self.name}"


def _operands(ctx: Context, value: Value) -> list[Value]:
    """What stands on the right of `text % ...`."""
    return [ctx.real(item) for item in value.unpack(ctx)] if value.python_type(ctx) is tuple else [value]


def _traced_text(
    ctx: Context, function: Callable[..., str], is_safe: Callable[..., bool], text: ConstantValue, args: list[Value]
) -> Value | None:
    """A known text filled with numbers and texts from outside, as an expression; None where that cannot be had."""
    values = [arg for arg in args if isinstance(arg, ConstantValue)]
    known = text.source is not None or type(text.value) is not str or all(value.source is None for value in values)
    if known or len(values) != len(args) or not is_safe(text.value, [type(value.value) for value in values]):
        return None
    return traced(ctx, function, text, *values)


def length_of(ctx: Context, source: Source, length: int) -> ConstantValue:
    """`len()` of a container from outside which is not read: a program may print or count what grows at each call."""
    return ConstantValue(length, Call(ctx.hold(len), (source,)))


def expression(left: ConstantValue, op: str, right: ConstantValue) -> Source | None:
    """The expression `left op right` where it depends on a number from outside and may be repeated at run time."""
    if left.source is None and right.source is None:
        return None
    if type(left.value) not in NUMBERS or type(right.value) not in NUMBERS or op not in _REPEATABLE:
        # a remainder or quotient by a number that is known and not zero cannot raise
        known_divisor = op in ("%", "//", "/") and right.source is None and right.value and type(right.value) in NUMBERS
        if not (known_divisor and type(left.value) is int and type(right.value) is int and abs(left.value) < 2**53):
            return None
        if op == "/":
            return None
    if op in "&|^" and float in (type(left.value), type(right.value)):
        return None
    source = Operation(op, left.source or Literal(left.value), right.source or Literal(right.value))
    return source if depth(source) <= MAX_EXPRESSION_DEPTH else None


def number_or_miss(function: Callable[..., Any], kind: type, *args: Any) -> Any:
    """`function(*args)`, which was a number of this type at capture; where it is not, no region fits."""
    try:
        result = function(*args)
    except (ArithmeticError, ValueError) as error:
        raise LookupError(f"{function} gives no number") from error
    if type(result) is not kind:
        raise LookupError(f"{function} gives no {kind}")
    return result


def partial_expression(ctx: Context, function: Callable[..., Any], *args: ConstantValue) -> ConstantValue | None:
    """The expression of a function of numbers that may raise, or give another type of number, for other arguments."""
    if not any(arg.source for arg in args) or any(type(arg.value) not in (int, float) for arg in args):
        return None
    sources = [arg.source or Literal(arg.value) for arg in args]
    try:
        result = function(*[arg.value for arg in args])
    except (ArithmeticError, ValueError):
        return None
    if type(result) not in (int, float) or max(map(depth, sources)) >= MAX_EXPRESSION_DEPTH:
        return None
    kind = type(result)
    source = Call(ctx.hold(number_or_miss), (ctx.hold(function), ctx.hold(kind), *sources))
    ctx.guard(Kind.IS_NOT, source, None)  # the program may do nothing with the result but wait for an error
    return ConstantValue(result, source)


def _stays_small(op: str, left: ConstantValue, right: ConstantValue) -> bool:
    """Powers of integers may take long to compute."""
    return op != "**" or float in (type(left.value), type(right.value))


def _too_big(op: str, left: Any, right: Any) -> bool:
    """Would the result take long to compute, or much room?"""
    if (op == "*" and isinstance(left, (str, bytes))) or isinstance(right, (str, bytes)):
        text, times = (left, right) if isinstance(left, (str, bytes)) else (right, left)
        return op == "*" and isinstance(times, int) and len(text) * times > MAX_BITS
    if not isinstance(left, int) or not isinstance(right, int):
        return False
    if op == "**":
        return right > 0 and left.bit_length() * right > MAX_BITS
    if op == "*":
        return left.bit_length() + right.bit_length() > MAX_BITS
    return op == "<<" and right > 0 and left.bit_length() + right > MAX_BITS


def is_constant(obj: object) -> bool:
    """Is the object an immutable one that a region may hold as it is?"""
    if isinstance(obj, enum.Enum) or type(obj) in LITERALS or isinstance(obj, (*TORCH_CONSTANTS, range)):
        return True
    if type(obj) in SCALARS:
        return True
    return type(obj) is NotImplementedType or (
        type(obj) in (tuple, frozenset) and all(is_constant(item) for item in obj)  # type: ignore[attr-defined]
    )


def constant(obj: object) -> Any:
    """The value for an immutable object of capture's own: a ConstantValue, or what stands for a tuple or frozenset."""
    kind = type(obj)
    if isinstance(obj, enum.Enum):
        kind = enum.Enum
    if kind is tuple or kind is frozenset or kind is enum.Enum:
        return PYTHON_RESULTS[kind](None, obj, lambda ctx, item: constant(item))  # type: ignore[arg-type]
    return ConstantValue(obj)


_CONTAINERS: frozenset[type] = frozenset(
    {list, tuple, dict, set, frozenset, torch.Size, slice, OrderedDict, MappingProxyType}
    | {type(getattr(cls(), name)()) for cls in (dict, OrderedDict) for name in ("keys", "values", "items")}
)


def plain(ctx: Context, value: Value) -> Any:
    """The object, if it is a constant or a builtin container of such: a pure function may be called on it."""
    obj = ctx.real(value).as_python(ctx)
    if not is_plain(obj):
        ctx.real(value).refuse("builtin function is given an object")
    return obj


def is_plain(obj: Any) -> bool:
    if type(obj) in _CONTAINERS:
        if isinstance(obj, slice):
            return all(map(is_plain, (obj.start, obj.stop, obj.step)))
        return all(map(is_plain, obj)) and (not hasattr(obj, "values") or all(map(is_plain, obj.values())))
    if isinstance(obj, enum.Enum):
        return not any(users_method(type(obj), name) for name in ("__str__", "__repr__", "__format__"))
    return is_constant(obj) or isinstance(obj, (re.Pattern, re.Match))


def traced(ctx: Context, function: Callable[..., Any], *args: ConstantValue) -> Value:
    """`function(*args)` of numbers, strings and bytes as an expression: nothing is guarded until the result is used."""
    sources = [arg.source or Literal(arg.value) for arg in args]
    simple = all(type(arg.value) in NUMBERS or type(arg.value) is str for arg in args)
    known = all(arg.source is None for arg in args)
    if not known and _takes_bytes(function, args):
        return ConstantValue(function(*[arg.value for arg in args]), Call(ctx.hold(function), tuple(sources)))
    if function in _OF_NUMBERS and (found := partial_expression(ctx, function, *args)) is not None:
        return found
    if known or not simple or function not in _TRACEABLE or (function is int and type(args[0].value) in (float, str)):
        return call_pure(ctx, function, *[plain(ctx, arg) for arg in args])
    if function is float and type(args[0].value) in (int, str):  # too big an int, no number at all
        found = partial_expression(ctx, function, *args)
        return found or call_pure(ctx, function, *[plain(ctx, arg) for arg in args])
    source = Call(ctx.hold(function), tuple(sources))
    if depth(source) > MAX_EXPRESSION_DEPTH:
        return call_pure(ctx, function, *[plain(ctx, arg) for arg in args])
    return ConstantValue(function(*[arg.value for arg in args]), source)


def _takes_bytes(function: Callable[..., Any], args: tuple[ConstantValue, ...]) -> bool:
    """Is it a pure function of bytes that cannot fail with these arguments?"""
    types = [type(arg.value) for arg in args]
    if types[:1] != [bytes] or any(depth(arg.source) >= MAX_EXPRESSION_DEPTH for arg in args if arg.source is not None):
        return False
    return types == [bytes] if function is len else function in _CHECKSUMS and types in ([bytes], [bytes, int])


def from_python(ctx: Context, obj: Any, leaf: Callable[[Context, Any], Value] | None = None) -> Value:
    """The value for a fresh object that a pure function gave at capture; `leaf` makes the values of its parts."""
    maker = PYTHON_RESULTS.get(type(obj))
    if maker is None:
        maker = next((PYTHON_RESULTS[base] for base in type(obj).__mro__[1:-1] if base in PYTHON_RESULTS), None)
    if maker is not None:
        return maker(ctx, obj, leaf or from_python)
    if not is_constant(obj):
        raise GraphBreak("result type is not supported", f"{type(obj).__module__}.{type(obj).__qualname__}")
    return ConstantValue(obj)


_PLAIN_EXCEPTIONS = frozenset([
    TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError, OverflowError, StopIteration,
    ArithmeticError, LookupError, RuntimeError, NotImplementedError, AssertionError, NameError,
])  # fmt: skip
#: how a pure function's result of this type becomes a value: maker(ctx, object, leaf); containers register here
PYTHON_RESULTS: dict[type, Callable[[Context, Any, Callable[[Context, Any], Value]], Value]] = {}


def call_pure(ctx: Context, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Value:
    """Call a pure function on known objects; what it raises, the user's code raises."""
    member = asks_users_code(function, args)
    if member is not None:
        text = f"{type(member).__qualname__}.{member._name_}"
        raise GraphBreak("operation is not supported", f"{getattr(function, '__name__', 'call')} of {text}")
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        if type(error) not in _PLAIN_EXCEPTIONS:  # such as hold more than their arguments say
            raise GraphBreak("Python raises or warns here", repr(error)) from error
        ctx.raise_(error)
    return from_python(ctx, result)


@wraps(int, float, bool, str, bytes, complex, range, NoneType, EllipsisType, NotImplementedType)
@wraps(torch.dtype, torch.device, torch.layout, torch.memory_format)
def build_constant(ctx: Context, obj: Any, source: Source) -> Value:
    if type(obj) in NUMBERS or type(obj) in (str, bytes):
        ctx.guard(Kind.TYPE, source, type(obj))
        return ConstantValue(obj, source)
    ctx.guard(Kind.EQUALS, source, obj)
    return ConstantValue(obj, source)


__all__ = ["ConstantValue", "Raised", "call_pure", "constant", "from_python", "is_constant"]
