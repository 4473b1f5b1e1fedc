"""Python functions, bound methods, cells, and how a call's arguments become a frame's locals."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import Kind
from ..holding import lives_for_ever
from ..sources import Attr, Item, Operation, Source
from .base import Mutable, Value, wraps
from .codes import CodeValue
from .constants import ConstantValue, constant
from .function_dicts import DESCRIPTIONS, OF_THE_TYPE, FunctionDict, describes, description
from .mappings import new_dict
from .sequences import TupleValue
from .torch_functions import TorchFunctionValue, torch_function

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


EMPTY_CELL = CellType()
_READ_FROM_OUTSIDE = ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__closure__")
#: of a function from outside: dicts that a call of the function reads too, two values for one thing
_NOT_READ = ("__globals__", "__kwdefaults__")
#: by the identity of a code object, which is kept: what calling a function with it means (known_code.py)
CODE_MEANINGS: dict[int, tuple[CodeType, Callable[..., Value]]] = {}
#: the names that mean something of their own on every function
_OF_FUNCTIONS = frozenset([*dir(FunctionType), *vars(FunctionType)])


class CellValue(Mutable):
    """A closure cell; `content` is the value in it, None when it is empty."""

    __slots__ = ()

    kind = "cell"
    has_identity = True

    def python_type(self, ctx: Context) -> type:
        return CellType

    def reconstruct(self, out: ExitWriter) -> str:
        cell = out.hold(CellType)
        content = self.content
        if content is None:
            return f"{cell}()"
        return out.fill(
            self,
            f"{cell}()",
            lambda: (f"{cell}({out.text(content)})", lambda name: [f"{name}.cell_contents = {out.text(content)}"]),
        )

    def effects(self, out: ExitWriter) -> Iterable[str]:
        target = out.text(self)
        if self.content is None:
            return [f"del {target}.cell_contents"]
        return [f"{target}.cell_contents = {out.text(self.content)}"]


@wraps(CellType)
def build_cell(ctx: Context, obj: CellType, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, CellType)
    try:
        content = obj.cell_contents
    except ValueError:
        # Cells compare by their contents, and two empty ones are equal.
        ctx.guard(Kind.EXPRESSION, Operation("==", source, ctx.hold(EMPTY_CELL, "empty_cell")), True)
        return CellValue(None, source)
    return CellValue(ctx.wrap(content, Attr(source, "cell_contents")), source)


class FunctionValue(Value):
    """A Python function, from outside (`function`) or made in the region."""

    __slots__ = (
        "annotations", "attributes", "closure", "code", "defaults", "function", "globals", "kwdefaults", "qualname",
    )  # fmt: skip

    kind = "function"
    has_identity = True

    def __init__(self, code: CodeType, globals_: dict[str, Any], source: Source | None = None) -> None:
        super().__init__(source)
        self.code = code
        self.globals = globals_
        self.qualname = code.co_qualname
        self.function: FunctionType | None = None
        self.defaults: tuple[Value, ...] = ()
        self.kwdefaults: dict[str, Value] = {}
        self.closure: tuple[CellValue, ...] = ()
        self.annotations: Value | None = None
        #: what was set on one that was made in the region
        self.attributes: dict[str, Value] = {}

    def __str__(self) -> str:
        return f"function {self.qualname}"

    def python_type(self, ctx: Context) -> type:
        return FunctionType

    def as_python(self, ctx: Context) -> Any:
        if self.function is None:
            self.refuse("value is known at run time only")
        ctx.guard(Kind.IS, self.source, self.function)
        return self.function

    def truth(self, ctx: Context) -> bool:
        return True

    def key(self, ctx: Context) -> object:
        return self if self.function is None else self.as_python(ctx)

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        known = CODE_MEANINGS.get(id(self.code))
        return ctx.inline(self, args, kwargs) if known is None else known[1](ctx, self, args, kwargs)

    def getattr(self, ctx: Context, name: str) -> Value:
        if self.function is not None:
            assert self.source is not None
            if name in vars(self.function):
                ctx.guard(Kind.HAS_KEY, Attr(self.source, "__dict__"), name)
                return ctx.wrap(vars(self.function)[name], Item(Attr(self.source, "__dict__"), name))
            if name in _READ_FROM_OUTSIDE:
                return ctx.wrap(getattr(self.function, name), Attr(self.source, name))
            if name == "__code__":
                ctx.guard(Kind.CODE, self.source, self.code)
                return CodeValue(self.code, Attr(self.source, name))
            if name in _NOT_READ:
                self.refuse("attribute cannot be read", f".{name}")
            if describes(self.function, name):
                return description(ctx, self, self.source, name)
            if not hasattr(self.function, name):
                ctx.guard(Kind.LACKS_KEY, Attr(self.source, "__dict__"), name)
        elif name in self.attributes:
            return self.attributes[name]
        elif name in ("__name__", "__qualname__"):
            return constant(self.code.co_name if name == "__name__" else self.qualname)
        elif name == "__code__":
            return CodeValue(self.code)
        elif name in ("__defaults__", "__closure__"):
            items = self.defaults if name == "__defaults__" else self.closure
            return TupleValue(items) if items else constant(None)
        elif name == "__module__":
            return ctx.namespace(self.globals).load(ctx, "__name__")
        elif name == "__doc__":
            return constant(_plain_function(self.code).__doc__)
        elif name == "__dict__":
            return FunctionDict(self)
        elif name in DESCRIPTIONS and name in vars(FunctionType):
            return self._own_description(ctx, name)
        if name == "__call__":
            return self
        if name == "__get__":
            return FunctionGet(self)
        if not hasattr(FunctionType, name):
            ctx.raise_(AttributeError(f"'function' object has no attribute {name!r}"))
        return super().getattr(ctx, name)

    def _own_description(self, ctx: Context, name: str) -> Value:
        """Of one that was made in the region, and on which nobody set this."""
        if name == "__annotate__":
            return constant(None)
        if name == "__type_params__":
            return TupleValue(())
        if "__annotate__" in self.attributes:  # reading it runs the user's code
            self.refuse("attribute cannot be read", f".{name}")
        if self.annotations is None:
            self.annotations = new_dict(ctx, [])
        return self.annotations

    def setattr(self, ctx: Context, name: str, value: Value) -> None:
        expected = OF_THE_TYPE.get(name)
        if self.function is not None or (name in _OF_FUNCTIONS and expected is None):
            self.refuse("attribute cannot be set", f".{name}")
        if expected is not None and not issubclass(ctx.real(value).python_type(ctx), expected):
            self.refuse("attribute cannot be set", f".{name}")
        before = self.attributes
        ctx.on_rollback(lambda: object.__setattr__(self, "attributes", before))
        self.attributes = {**before, name: value}

    def reconstruct(self, out: ExitWriter) -> str:
        function_type, code, name = out.hold(FunctionType), out.hold(self.code), constant(self.code.co_name)
        globals_ = out.hold(self.globals, "globals")
        defaults = out.text(TupleValue(self.defaults)) if self.defaults else "None"

        def full() -> tuple[str, Any]:
            closure = out.text(TupleValue(self.closure)) if self.closure else "None"
            text = f"{function_type}({code}, {globals_}, {out.text(name)}, {defaults}, {closure})"
            return text, lambda _: self.refuse("object cannot be rebuilt")

        text = out.fill(self, "", full)
        if self.kwdefaults:
            pairs = [(constant(k), v) for k, v in self.kwdefaults.items()]
            out.statement(f"{text}.__kwdefaults__ = {out.text(new_dict(out.ctx, pairs))}")
        if self.annotations is not None:
            out.statement(f"{text}.__annotations__ = {out.text(self.annotations)}")
        if self.qualname != self.code.co_qualname:
            out.statement(f"{text}.__qualname__ = {self.qualname!r}")
        for name, value in self.attributes.items():
            out.statement(f"{text}.{name} = {out.text(value)}")
        return text


def _plain_function(code: CodeType) -> FunctionType:
    """A function with this code that nobody calls."""
    return FunctionType(code, {}, closure=tuple(CellType() for _ in code.co_freevars))


class FunctionGet(Value):
    """`function.__get__`, as decorators and descriptors call it."""

    __slots__ = ("function",)

    kind = "function's __get__"

    def __init__(self, function: FunctionValue) -> None:
        super().__init__()
        self.function = function

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        receiver = ctx.real(args[0])
        if isinstance(receiver, ConstantValue) and receiver.value is None:
            return self.function
        return BoundMethod(self.function, args[0])


def is_torchs_own(function: FunctionType) -> bool:
    """Is it defined at the top of a module of torch's? Nobody gives such a function other code in place.

    Its identity is guarded like any. Asking for `__code__` is slow: each time Python tells its audit hooks.
    """
    module = function.__module__
    return isinstance(module, str) and module.partition(".")[0] == "torch" and lives_for_ever(function)


#: functions that are loaded late, by module and name: what builds the value of one
LOADED_LATE: dict[tuple[str, str], Callable[[Context, FunctionType, Source], Value]] = {}


@wraps(FunctionType)
def build_function(ctx: Context, obj: FunctionType, source: Source) -> Value:
    """Made anew at each call of its parent: known by its code, defaults and cells. Any other: by its identity."""
    operator = torch_function(ctx, obj, source)
    if operator is not None:
        return operator
    late = LOADED_LATE.get((obj.__module__, obj.__qualname__))
    if late is not None and lives_for_ever(obj):
        return late(ctx, obj, source)
    return function_from_code(ctx, obj, source)


def function_from_code(ctx: Context, obj: FunctionType, source: Source) -> FunctionValue:
    code = ctx.original_code(obj)
    if made_anew := _is_made_anew(obj, code):
        ctx.guard(Kind.TYPE, source, FunctionType)
    else:
        ctx.guard(Kind.IS, source, obj)
    if made_anew or not is_torchs_own(obj):
        ctx.guards.add(Kind.CODE, source, code, ctx.here())
    value = FunctionValue(code, obj.__globals__, source)
    value.function = obj
    value.qualname = obj.__qualname__
    if obj.__defaults__:
        defaults = Attr(source, "__defaults__")
        ctx.guards.add(Kind.LENGTH, defaults, len(obj.__defaults__), ctx.here())
        value.defaults = tuple(ctx.wrap(d, Item(defaults, i)) for i, d in enumerate(obj.__defaults__))
    if obj.__kwdefaults__:
        kwdefaults = Attr(source, "__kwdefaults__")
        value.kwdefaults = {k: ctx.wrap(d, Item(kwdefaults, k)) for k, d in obj.__kwdefaults__.items()}
    if obj.__closure__:
        closure = Attr(source, "__closure__")
        value.closure = tuple(ctx.wrap(c, Item(closure, i)) for i, c in enumerate(obj.__closure__))  # type: ignore[misc]
    return value


def _is_made_anew(function: FunctionType, code: CodeType) -> bool:
    """By each call of its parent, that is. Its name may be that of what it wraps."""
    if "<locals>" in function.__qualname__:
        return True
    return "<locals>" in code.co_qualname and not lives_for_ever(function)


TorchFunctionValue.as_code = staticmethod(function_from_code)  # type: ignore[method-assign, assignment]


class BoundMethod(Value):
    """A function bound to an object; equal ones are made at each attribute load, so it has no identity."""

    __slots__ = ("function", "receiver")

    kind = "bound method"

    def __init__(self, function: Value, receiver: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.function, self.receiver = function, receiver

    def __str__(self) -> str:
        return f"method {self.function}"

    def python_type(self, ctx: Context) -> type:
        return MethodType

    def truth(self, ctx: Context) -> bool:
        return True

    def key(self, ctx: Context) -> object:
        return (BoundMethod, ctx.real(self.function).key(ctx), ctx.real(self.receiver).key(ctx))

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if not isinstance(other, BoundMethod) or op not in ("==", "!="):
            return None
        mine, others = [(ctx.real(m.function), ctx.real(m.receiver)) for m in (self, other)]
        return constant((mine == others) == (op == "=="))

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return ctx.real(self.function).call(ctx, [self.receiver, *args], kwargs)

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "__func__":
            return self.function
        if name == "__self__":
            return self.receiver
        if name == "__call__":
            return self
        if name != "__doc__" and any(name in vars(cls) for cls in MethodType.__mro__):
            return super().getattr(ctx, name)
        return ctx.real(self.function).getattr(ctx, name)

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(MethodType)}({out.text(self.function)}, {out.text(self.receiver)})"


@wraps(MethodType)
def build_method(ctx: Context, obj: MethodType, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, MethodType)
    function = ctx.wrap(obj.__func__, Attr(source, "__func__"))
    return BoundMethod(function, ctx.wrap(obj.__self__, Attr(source, "__self__")), source)


class PartialValue(Value):
    """A functools.partial object."""

    __slots__ = ("args", "attributes", "function", "kwargs")

    kind = "partial"
    has_identity = True

    def __init__(
        self, function: Value, args: Iterable[Value], kwargs: dict[str, Value], source: Source | None = None
    ) -> None:
        super().__init__(source)
        self.function, self.args, self.kwargs = function, tuple(args), kwargs
        #: what was set on one that was made in the region
        self.attributes: dict[str, Value] = {}

    def python_type(self, ctx: Context) -> type:
        return functools.partial

    def truth(self, ctx: Context) -> bool:
        return True

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return ctx.real(self.function).call(ctx, [*self.args, *args], {**self.kwargs, **kwargs})

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "func":
            return self.function
        if name == "args":
            return TupleValue(self.args)
        if name in self.attributes:
            return self.attributes[name]
        if name == "keywords" and self.source is None:
            return self.keywords(ctx)
        if name == "__dict__" and self.source is None:
            return FunctionDict(self)
        if name in ("__doc__", "__module__"):
            return constant(getattr(functools.partial, name))
        if self.source is None and not any(name in vars(cls) for cls in functools.partial.__mro__):
            ctx.raise_(AttributeError(f"'functools.partial' object has no attribute {name!r}"))
        return super().getattr(ctx, name)

    def keywords(self, ctx: Context) -> Value:
        """The dict of keyword arguments, of which nobody may change the real one."""
        if any(isinstance(value, Mutable) for value in map(ctx.real, self.kwargs.values())):
            self.refuse("attribute cannot be read", ".keywords")
        return new_dict(ctx, [(constant(name), value) for name, value in self.kwargs.items()])

    def setattr(self, ctx: Context, name: str, value: Value) -> None:
        if self.source is not None or hasattr(functools.partial, name):
            self.refuse("attribute cannot be set", f".{name}")
        before = self.attributes
        ctx.on_rollback(lambda: object.__setattr__(self, "attributes", before))
        self.attributes = {**before, name: value}

    def reconstruct(self, out: ExitWriter) -> str:
        named = "".join(f", {k}={out.text(v)}" for k, v in self.kwargs.items())
        inner = "".join(f", {out.text(a)}" for a in self.args)
        made = f"{out.hold(functools.partial)}({out.text(self.function)}{inner}{named})"
        if not self.attributes:
            return made
        text = out.fill(self, "", lambda: (made, lambda name: ()))
        for name, value in self.attributes.items():
            out.statement(f"{text}.{name} = {out.text(value)}")
        return text


@wraps(functools.partial)
def build_partial(ctx: Context, obj: functools.partial[Any], source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, functools.partial)
    args, keywords = Attr(source, "args"), Attr(source, "keywords")
    ctx.guard(Kind.LENGTH, args, len(obj.args))
    ctx.guard(Kind.KEYS, keywords, tuple(obj.keywords))
    return PartialValue(
        ctx.wrap(obj.func, Attr(source, "func")),
        [ctx.wrap(a, Item(args, i)) for i, a in enumerate(obj.args)],
        {k: ctx.wrap(v, Item(keywords, k)) for k, v in obj.keywords.items()},
        source,
    )


def bind_arguments(
    ctx: Context, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]
) -> dict[str, Value]:
    """The locals with which the function's frame starts; a call that does not fit is left to CPython."""
    code = function.code
    names, positional, keyword_only = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
    bound: dict[str, Value] = dict(zip(names[:positional], args, strict=False))
    left = dict(kwargs)
    extra = args[positional:]
    after = positional + keyword_only
    if code.co_flags & inspect.CO_VARARGS:
        bound[names[after]] = TupleValue(extra)
        after += 1
    elif extra:
        raise GraphBreak("arguments do not fit the call", f"{function}: too many positional arguments")
    defaults = dict(zip(names[positional - len(function.defaults) : positional], function.defaults, strict=True))
    for i, name in enumerate(names[: positional + keyword_only]):
        if name in left and i >= code.co_posonlyargcount:
            if name in bound:
                raise GraphBreak("arguments do not fit the call", f"{function}: {name} given twice")
            bound[name] = left.pop(name)
        elif name not in bound:
            default = defaults.get(name) if i < positional else function.kwdefaults.get(name)
            if default is None:
                raise GraphBreak("arguments do not fit the call", f"{function}: {name} is missing")
            bound[name] = default
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[names[after]] = new_dict(ctx, [(constant(k), v) for k, v in left.items()])
    elif left:
        raise GraphBreak("arguments do not fit the call", f"{function}: unexpected {', '.join(left)}")
    return bound
