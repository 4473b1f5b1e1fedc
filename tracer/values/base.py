"""The verbs that every value answers, and a base class that refuses each with a reason.

A value stands for one Python object during capture. Handlers of opcodes move values; what an operation *means* is the
value's business. `ctx` is the interpreter's context (see interpreter/context.py); values reach upwards only through it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..errors import GraphBreak, InternalError, UserLine
from ..sources import Source

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class Raised(Exception):
    """The user's code raised during capture: `value` stands for the exception. Caught by the frame that handles it."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value
        #: the user's lines where it was raised, once it has left an inlined frame
        self.stack: tuple[UserLine, ...] = ()


class Value:
    """One Python object as capture sees it. Identity of the value is identity of the object."""

    __slots__ = ("born", "source")

    #: what the object is called in messages
    kind: ClassVar[str] = "object"
    #: the program can tell two of these apart by `is`: the same object, found twice, is one value (and a guard says so)
    has_identity: ClassVar[bool] = False
    #: a number that torch's operators take although nobody knows it at capture (unbacked.py)
    is_graph_number: ClassVar[bool] = False
    #: the instance of a user's subclass whose builtin part this is
    part_of: Value | None = None

    def __init__(self, source: Source | None = None) -> None:
        self.source = source
        #: the root instruction at which this object was made (None: it came from outside)
        self.born: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.source}" if self.source is not None else f"a {self.kind}"

    def refuse(self, title: str, what: str = "", hint: str = "") -> NoReturn:
        """Break; `title` is one of tracer/breaks.py, `what` was tried."""
        raise GraphBreak(title, f"{what} of {self}" if what else str(self), hint)

    # what it is -----------------------------------------------------------------------------------------------------
    def python_type(self, ctx: Context) -> type:
        """The exact type of the object; its guard is added by whoever made the value."""
        self.refuse("operation is not supported", "type")

    def as_python(self, ctx: Context) -> Any:
        """The object itself, guarded to be just this one at run time; refused where it is only known at run time."""
        self.refuse("value is known at run time only")

    def truth(self, ctx: Context) -> bool:
        self.refuse("operation is not supported", "truth value")

    def key(self, ctx: Context) -> object:
        """A hashable that equals another value's key just when the objects are equal as dict keys."""
        self.refuse("key is not supported")

    def is_same(self, ctx: Context, other: Value) -> bool:
        """`self is other`. `other` is realised and another value object."""
        return False

    def builtin_part(self) -> Value:
        """The builtin container that C code finds here: the object itself but for instances of subclasses."""
        return self

    # attributes and items -------------------------------------------------------------------------------------------
    def getattr(self, ctx: Context, name: str) -> Value:
        """What no subclass answers; a class that overrides this ends with it."""
        if name == "__class__":
            cls = self.python_type(ctx)
            return ctx.wrap(cls, ctx.hold(cls))
        self.refuse("attribute cannot be read", f".{name}")

    def setattr(self, ctx: Context, name: str, value: Value) -> None:
        self.refuse("attribute cannot be set", f".{name}")

    def delattr(self, ctx: Context, name: str) -> None:
        self.refuse("attribute cannot be set", f"deleting .{name}")

    def getitem(self, ctx: Context, key: Value) -> Value:
        self.refuse("operation is not supported", "indexing")

    def setitem(self, ctx: Context, key: Value, value: Value) -> None:
        self.refuse("operation is not supported", "setting an item")

    def delitem(self, ctx: Context, key: Value) -> None:
        self.refuse("operation is not supported", "deleting an item")

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        self.refuse("operation is not supported", "`in`")

    def length(self, ctx: Context) -> Value:
        self.refuse("operation is not supported", "len()")

    # operators ------------------------------------------------------------------------------------------------------
    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        """`self op other`, or None for NotImplemented."""
        return None

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        """`other op self` after `other` gave NotImplemented."""
        return None

    def unary(self, ctx: Context, op: str) -> Value:
        self.refuse("operation is not supported", f"unary {op}")

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        return None

    # calls and iteration --------------------------------------------------------------------------------------------
    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        self.refuse("operation is not supported", "call")

    def call_method(self, ctx: Context, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.getattr(ctx, name).call(ctx, args, kwargs)

    def iterate(self, ctx: Context) -> Value:
        """`iter(self)`"""
        self.refuse("operation is not supported", "iteration")

    def next(self, ctx: Context) -> Value | None:
        """`next(self)`; None when it ends."""
        self.refuse("operation is not supported", "next()")

    def unpack(self, ctx: Context) -> list[Value]:
        """All items, as iterating to the end gives them."""
        iterator = ctx.real(self.iterate(ctx))
        items = []
        while (item := iterator.next(ctx)) is not None:
            items.append(item)
            ctx.spend(1)
        return items

    def pairs(self, ctx: Context) -> list[tuple[Value, Value]] | None:
        """The items of a mapping, as `dict.update` and `**` take them; None for what is no mapping."""
        return None

    def enter(self, ctx: Context) -> tuple[Value, Value]:
        """Begin a `with` block: (what `as` binds, the exit function)."""
        exit_function = self.special_method(ctx, "__exit__")
        return self.special_method(ctx, "__enter__").call(ctx, [], {}), exit_function

    def special_method(self, ctx: Context, name: str) -> Value:
        """`__enter__` or `__exit__` of the object's type, bound."""
        return self.getattr(ctx, name)

    # the way out ----------------------------------------------------------------------------------------------------
    def reconstruct(self, out: ExitWriter) -> str:
        """An expression that builds the object at run time; called once for each object that has no source."""
        self.refuse("object cannot be rebuilt")

    def effects(self, out: ExitWriter) -> Iterable[str]:
        """Statements that repeat what was done to an object from outside."""
        raise InternalError(f"{self} was changed but has no effects")


_serials = itertools.count()


def next_serial() -> int:
    """A number between those of the mutable values made up to now and those made later."""
    return next(_serials)


class Mutable(Value):
    """A value whose object changes. `content` is replaced, never mutated: `ctx.change` logs the old one."""

    __slots__ = ("content", "original", "serial")

    def __init__(self, content: Any, source: Source | None = None) -> None:
        super().__init__(source)
        #: in the order of making: which of two was there before the other
        self.serial = next(_serials)
        self.content = content
        #: what `content` was when the object came from outside; the effects are the difference
        self.original = content


class Lazy(Value):
    """An object from outside that nobody has looked at: no guard yet. It may be moved and stored as it is."""

    __slots__ = ("object", "value")

    kind = "untouched object"

    def __init__(self, obj: object, source: Source) -> None:
        super().__init__(source)
        self.object = obj
        self.value: Value | None = None


def _forward(name: str) -> Callable[..., Any]:
    def verb(self: Lazy, ctx: Context, *args: Any, **kwargs: Any) -> Any:
        return getattr(ctx.real(self), name)(ctx, *args, **kwargs)

    verb.__name__ = name
    return verb


for _name in (
    "python_type as_python truth key is_same getattr setattr delattr getitem setitem delitem contains length binary "
    "reflected unary compare call call_method iterate next unpack enter pairs"
).split():
    setattr(Lazy, _name, _forward(_name))


#: builders by exact type and, for families, by base class (the nearest in the MRO counts)
_exact: dict[type, Callable[[Any, Any, Source], Value]] = {}
_families: dict[type, Callable[[Any, Any, Source], Value]] = {}
_objects: dict[int, tuple[object, Callable[[Any, Any, Source], Value]]] = {}


def wraps(*types: type, family: bool = False) -> Callable[[Any], Any]:
    """Register `builder(ctx, object, source)` for objects of exactly these types, or of these and their subclasses."""

    def register(builder: Any) -> Any:
        for cls in types:
            if family:
                _families[cls] = builder
            elif cls in _exact:
                raise InternalError(f"two values wrap {cls}")
            else:
                _exact[cls] = builder
        return builder

    return register


def wraps_object(obj: object) -> Callable[[Any], Any]:
    """Register a builder for one particular object (a function of torch's, say)."""

    def register(builder: Any) -> Any:
        _objects[id(obj)] = (obj, builder)
        return builder

    return register


def build(ctx: Context, obj: object, source: Source) -> Value:
    """The value for an object from outside, with the guards that its kind needs."""
    found = _objects.get(id(obj))
    if found is not None and found[0] is obj:
        return found[1](ctx, obj, source)
    cls = type(obj)
    builder = _exact.get(cls)
    if builder is None:
        builder = next((_families[base] for base in cls.__mro__ if base in _families), None)
        if builder is None:
            raise InternalError(f"no value stands for objects of {cls}")
        _exact_cache(cls, builder)
    return builder(ctx, obj, source)


def _exact_cache(cls: type, builder: Callable[[Any, Any, Source], Value]) -> None:
    # Heap types may die and their id be used again, but a dict keyed by the type itself keeps it: only cache builtins.
    if not cls.__flags__ & (1 << 9):
        _exact[cls] = builder
