"""Exceptions: instances made or raised inside of a region, and those that came from outside.

An exception that leaves a region is never raised by it: the exit stands at the raising instruction. So what counts here
is what handlers inside of the region can see of one (its type, `args`, text, cause and context), and building it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Attr, Source
from .attributes import DELETED, filled
from .base import Value, wraps, wraps_object
from .constants import call_pure, constant
from .lookup import layout_root
from .objects import KnownCallable, ObjectValue, OpaqueValue, check_creation
from .sequences import ListValue, TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

_FIELDS = {name: BaseException.__dict__[name] for name in ("args", "__cause__", "__context__", "__suppress_context__")}
_ARGS, _CAUSE, _CONTEXT, _SUPPRESS = _FIELDS.values()
#: builtin exceptions whose C code keeps more than `args`: what they show is not what they were made from
_SPECIAL = (OSError, ImportError, UnicodeError, SyntaxError, BaseExceptionGroup)
#: attributes that show what the exception was made with
_FIRST_ARGUMENT = (("value", StopIteration), ("code", SystemExit))


class TracebackValue(Value):
    """The traceback that `__exit__` is handed: it may be passed on, and put back on its exception, not looked at."""

    __slots__ = ()

    kind = "traceback"

    def truth(self, ctx: Context) -> bool:
        return True


TRACEBACK = TracebackValue()


class ExceptionValue(ObjectValue):
    """A BaseException instance. In `content`, the fields of its C part are keyed by their descriptors."""

    __slots__ = ("was_raised",)

    kind = "exception"

    def __init__(self, cls: type, args: Iterable[Value], source: Source | None = None, obj: Any = None) -> None:
        super().__init__(cls, obj, source)
        #: it has a traceback, which a rebuilt one would lack
        self.was_raised = False
        if obj is None:
            self.content = {_ARGS: TupleValue(args)}

    def __str__(self) -> str:
        return f"{self.cls.__name__} exception {self.source or ''}".rstrip()

    # attributes -----------------------------------------------------------------------------------------------------
    def read_c_attribute(self, ctx: Context, raw: Any) -> Value:
        found = self.content.get(raw)
        if found is not None and found is not DELETED:
            return found
        name = raw.__name__
        if raw in (_ARGS, _CAUSE, _CONTEXT, _SUPPRESS):
            if self.source is not None:
                return ctx.wrap(getattr(self.object, name), Attr(self.source, name))
            return constant(False if raw is _SUPPRESS else None)
        if any(name == shown and issubclass(self.cls, cls) for shown, cls in _FIRST_ARGUMENT):
            arguments = self.arguments(ctx)
            if len(arguments) < 2 or name == "value":
                return arguments[0] if arguments else constant(None)
            return TupleValue(arguments)
        if issubclass(raw.__objclass__, BaseException):
            self.refuse("attribute cannot be read", f".{name}")
        return super().read_c_attribute(ctx, raw)

    def arguments(self, ctx: Context) -> list[Value]:
        return ctx.real(self.read_c_attribute(ctx, _ARGS)).unpack(ctx)

    def write_c_attribute(self, ctx: Context, raw: Any, value: Value) -> None:
        if raw is _ARGS and value is not DELETED and not issubclass(self.cls, (StopIteration, SystemExit, *_SPECIAL)):
            self._set(ctx, _ARGS, TupleValue(ctx.real(value).unpack(ctx)))
        elif raw is _CAUSE and value is not DELETED:
            self.set_cause(ctx, value)
        elif raw in (_CONTEXT, _SUPPRESS) and value is not DELETED:
            self._set(ctx, raw, value)
        elif raw.__name__ == "__traceback__" and self.was_raised and value is TRACEBACK:
            return
        elif issubclass(raw.__objclass__, BaseException):
            self.refuse("attribute cannot be set", f".{raw.__name__}")
        else:
            super().write_c_attribute(ctx, raw, value)

    def _set(self, ctx: Context, *pairs: Any) -> None:
        """Set fields; what is set last is repeated last."""
        content = dict(self.content)
        for raw, value in zip(pairs[::2], pairs[1::2], strict=True):
            content.pop(raw, None)
            content[raw] = value
        ctx.change(self, content)

    def set_cause(self, ctx: Context, cause: Value) -> None:
        """`raise self from cause`"""
        self._set(ctx, _CAUSE, cause, _SUPPRESS, constant(True))

    def note_raised(self, ctx: Context) -> None:
        """It was raised in the region: from now on it cannot be rebuilt."""
        if not self.was_raised:
            self.was_raised = True
            ctx.on_rollback(lambda: setattr(self, "was_raised", False))

    def chain(self, ctx: Context, handled: Value) -> None:
        """Raised while another exception was being handled: it becomes the context, unless that closes a circle."""
        if handled is self:
            return
        link = handled
        while isinstance(link, ExceptionValue):
            following = ctx.real(link.read_c_attribute(ctx, _CONTEXT))
            if following is self:
                link._set(ctx, _CONTEXT, constant(None))
                break
            link = following
        self._set(ctx, _CONTEXT, handled)

    # methods --------------------------------------------------------------------------------------------------------
    def call_c_method(self, ctx: Context, raw: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not issubclass(raw.__objclass__, BaseException):
            return super().call_c_method(ctx, raw, args, kwargs)
        name = raw.__name__
        if name == "__init__" and not kwargs:
            check_arguments(raw.__objclass__, args)
            self._set(ctx, _ARGS, TupleValue(args))
            return constant(None)
        if name in ("__str__", "__repr__") and not args and not issubclass(self.cls, _SPECIAL):
            return self._text(ctx, raw)
        if name == "add_note" and len(args) == 1:
            return self._add_note(ctx, args[0])
        known = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}.get(
            name, object.__getattribute__ if name == "__getattribute__" else None
        )
        if known is None:
            raise GraphBreak("method written in C is called", f"{raw.__qualname__}() of {self}")
        return super().call_c_method(ctx, known, args, kwargs)

    def _text(self, ctx: Context, raw: Any) -> Value:
        """str() or repr(), asked of a plain exception with the same arguments."""
        arguments = [ctx.real(a).as_python(ctx) for a in self.arguments(ctx)]
        twin_class: Any = layout_root(self.cls)
        if raw.__name__ == "__repr__":
            text = call_pure(ctx, raw, twin_class(*arguments)).as_python(ctx)
            return constant(self.cls.__name__ + text.removeprefix(twin_class.__name__))
        return call_pure(ctx, raw, twin_class(*arguments))

    def _add_note(self, ctx: Context, note: Value) -> Value:
        if ctx.real(note).python_type(ctx) is not str:
            ctx.raise_(TypeError(f"note must be a str, not {ctx.real(note).python_type(ctx).__name__!r}"))
        notes = self.lookup(ctx, "__notes__")
        if notes is None:
            notes = ctx.born(ListValue([]))
            self.store_own(ctx, "__notes__", notes)
        ctx.real(notes).call_method(ctx, "append", [note], {})
        return constant(None)

    # the way out ----------------------------------------------------------------------------------------------------
    def effects(self, out: ExitWriter) -> Iterable[str]:
        for raw, value in self.content.items():
            yield f"{out.text(self)}.{raw.__name__} = {out.text(value)}"

    def reconstruct(self, out: ExitWriter) -> str:
        if self.was_raised:
            self.refuse("object cannot be rebuilt", "it was raised: it has a traceback;")
        cls, root = out.hold(self.cls), layout_root(self.cls)
        assert root is not None
        return out.fill(self, f"{out.hold(root)}.__new__({cls})", lambda: self._made(out, cls, out.hold(root)))

    def _made(self, out: ExitWriter, cls: str, root: str) -> tuple[str, Callable[[str], Iterable[str]]]:
        args = "".join(f"{out.text(item)}, " for item in self.content[_ARGS].unpack(None))
        chain = (_CAUSE, _CONTEXT, _SUPPRESS)
        fields = [f"{raw.__name__!r}: {out.text(value)}" for raw, value in self.content.items() if raw in chain]
        own = self.own_texts(out)
        if not fields and not own and cls == root:
            whole = f"{cls}({args[:-2]})"
        else:
            whole = f"{out.hold(made)}({root}.__new__({cls}), ({args}), {{{', '.join(own)}}}, {{{', '.join(fields)}}})"
        fill = f"({args}), {{{', '.join(own)}}}, {{{', '.join(fields)}}}"
        return whole, lambda name: [f"{out.hold(made)}({name}, {fill})"]


def made(exception: Any, args: tuple[Any, ...], attributes: dict[str, Any], fields: dict[str, Any]) -> BaseException:
    """A bare exception given its arguments, attributes and chaining fields, past any code of its class."""
    root = layout_root(type(exception))
    root.__init__(exception, *args)  # type: ignore[misc]
    filled(exception, attributes)
    for name, value in fields.items():
        BaseException.__dict__[name].__set__(exception, value)
    return exception


def check_arguments(cls: type, args: list[Value]) -> None:
    """Refuse arguments of which a builtin exception makes more than its `args`."""
    changed_class = issubclass(cls, OSError) and len(args) > 1
    if changed_class or issubclass(cls, (UnicodeError, SyntaxError, BaseExceptionGroup)):
        raise GraphBreak("object is made by C code", cls.__qualname__)


def new_exception(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> ExceptionValue:
    """`BaseException.__new__(cls, *args)`, and that of its builtin subclasses."""
    cls = ctx.real(args[0]).as_python(ctx)
    root = layout_root(cls)
    if root is None or not issubclass(root, BaseException):
        raise GraphBreak("object is made by C code", str(cls))
    check_creation(ctx, cls, root)
    check_arguments(root, args[1:])
    return ctx.born(ExceptionValue(cls, args[1:]))


def _register_constructors() -> None:
    def builder(ctx: Context, obj: Any, source: Source) -> Value:
        ctx.guard(Kind.IS, source, obj)
        return KnownCallable(obj, new_exception, source)

    todo: list[type] = [BaseException]
    while todo:
        cls = todo.pop()
        if cls.__module__ == "builtins":
            todo += cls.__subclasses__()
            if "__new__" in vars(cls):
                wraps_object(cls.__new__)(builder)


_register_constructors()


@wraps(BaseException, family=True)
def build_exception(ctx: Context, obj: BaseException, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    if layout_root(type(obj)) is None:
        return OpaqueValue(obj, source)
    return ExceptionValue(type(obj), [], source, obj)
