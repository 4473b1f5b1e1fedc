"""Exceptions: instances made or raised inside of a region, and those that came from outside.

An exception that leaves a region is never raised by it: the exit stands at the raising instruction. So what counts here
is what handlers inside of the region can see of one (its type, `args`, text, cause and context), and building it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..guards import Kind
from ..sources import Attr, Source
from .base import Mutable, Value, wraps
from .builtin_methods import BuiltinMethod
from .constants import call_pure, constant
from .sequences import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

#: builtin exceptions whose C code keeps more than `args`: what they are made from is not what they show
_SPECIAL = (OSError, ImportError, UnicodeError, SyntaxError, BaseExceptionGroup)
#: attributes that show what the exception was made with
_FIRST_ARGUMENT = (("value", StopIteration), ("code", SystemExit))
_CHAINING = ("__cause__", "__context__")


class ExceptionValue(Mutable):
    """A BaseException instance; `content` holds `args` and the chaining attributes, once they are set."""

    __slots__ = ("cls", "object")

    kind = "exception"
    has_identity = True

    def __init__(self, cls: type, args: Iterable[Value], source: Source | None = None) -> None:
        super().__init__({"args": TupleValue(args)} if source is None else {}, source)
        self.cls = cls
        #: the real exception, for one from outside
        self.object: BaseException | None = None

    def __str__(self) -> str:
        return f"{self.cls.__name__} exception {self.source or ''}".rstrip()

    def python_type(self, ctx: Context) -> type:
        return self.cls

    def truth(self, ctx: Context) -> bool:
        return True

    def key(self, ctx: Context) -> object:
        return self

    # attributes -----------------------------------------------------------------------------------------------------
    def getattr(self, ctx: Context, name: str) -> Value:
        if name in self.content:
            return self.content[name]
        if name == "args" or (name in _CHAINING and self.source is not None):
            return self._from_outside(ctx, name)
        if name in _CHAINING:
            return constant(None)
        if name == "__suppress_context__":
            return constant(False) if self.source is None else self._from_outside(ctx, name)
        if name in ("add_note", "__str__", "__repr__"):
            return BuiltinMethod(self, name.strip("_"))
        if any(name == shown and issubclass(self.cls, cls) for shown, cls in _FIRST_ARGUMENT):
            arguments = self.arguments(ctx)
            if len(arguments) < 2:
                return arguments[0] if arguments else constant(None)
            return constant(None) if name == "value" else TupleValue(arguments)
        if name == "__class__":
            return ctx.wrap(self.cls, ctx.hold(self.cls))
        if not hasattr(self.cls, name) and self.source is None and name != "__notes__":
            ctx.raise_(AttributeError(f"{self.cls.__name__!r} object has no attribute {name!r}"))
        self.refuse(f"attribute .{name}")

    def _from_outside(self, ctx: Context, name: str) -> Value:
        assert self.source is not None
        return ctx.wrap(getattr(self.object, name), Attr(self.source, name))

    def arguments(self, ctx: Context) -> list[Value]:
        return ctx.real(self.getattr(ctx, "args")).unpack(ctx)

    def setattr(self, ctx: Context, name: str, value: Value) -> None:
        if name == "args":
            value = TupleValue(ctx.real(value).unpack(ctx))
        elif name == "__cause__":
            self.set_cause(ctx, value)
            return
        elif name not in ("__context__", "__suppress_context__"):
            self.refuse(f"setting attribute .{name}")
        ctx.change(self, {**self.content, name: value})

    def set_cause(self, ctx: Context, cause: Value) -> None:
        """`raise self from cause`"""
        ctx.change(self, {**self.content, "__cause__": cause, "__suppress_context__": constant(True)})

    def chain(self, ctx: Context, handled: Value) -> None:
        """Raised while another exception was being handled: it becomes the context, unless that closes a circle."""
        if handled is self:
            return
        link = handled
        while isinstance(link, ExceptionValue):
            following = ctx.real(link.getattr(ctx, "__context__"))
            if following is self:
                ctx.change(link, {**link.content, "__context__": constant(None)})
                break
            link = following
        ctx.change(self, {**self.content, "__context__": handled})

    # methods --------------------------------------------------------------------------------------------------------
    def method_str(self, ctx: Context) -> Value:
        return call_pure(ctx, str, self._real_twin(ctx))

    def method_repr(self, ctx: Context) -> Value:
        return call_pure(ctx, repr, self._real_twin(ctx))

    def method_add_note(self, ctx: Context, note: Value) -> Value:
        self.refuse("add_note()")

    def _real_twin(self, ctx: Context) -> BaseException:
        """A real exception of the same class and arguments; builtin classes only, so that no user code runs."""
        if issubclass(self.cls, _SPECIAL) or self.cls.__flags__ & (1 << 9):
            self.refuse("text")
        arguments = [ctx.real(a).as_python(ctx) for a in self.arguments(ctx)]
        twin: BaseException = self.cls(*arguments)
        return twin

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        return None

    # the way out ----------------------------------------------------------------------------------------------------
    def reconstruct(self, out: ExitWriter) -> str:
        cls = out.hold(self.cls)
        return out.fill(self, f"{cls}.__new__({cls})", lambda: self._filled(out))

    def _filled(self, out: ExitWriter) -> tuple[str, Callable[[str], Iterable[str]]]:
        args = ", ".join(out.text(item) for item in self.content["args"].unpack(None))
        chain = [(name, out.text(value)) for name, value in self._in_order(self.content)]
        whole = f"{out.hold(self.cls)}({args})"
        if chain:
            whole = f"{out.hold(chained)}({whole}, {', '.join(f'{name}={text}' for name, text in chain)})"
        return whole, lambda name: [f"{name}.__init__({args})", *(f"{name}.{n} = {text}" for n, text in chain)]

    @staticmethod
    def _in_order(content: dict[str, Value]) -> list[tuple[str, Value]]:
        """Setting a cause suppresses the context: the flag itself comes last."""
        order = ("__cause__", "__context__", "__suppress_context__")
        return [(name, content[name]) for name in order if name in content]

    def effects(self, out: ExitWriter) -> Iterable[str]:
        target = out.text(self)
        changed = {n: v for n, v in self.content.items() if v is not self.original.get(n)}
        if "args" in changed:
            yield f"{target}.args = {out.text(changed['args'])}"
        for name, value in self._in_order(changed):
            yield f"{target}.{name} = {out.text(value)}"


def chained(exception: BaseException, **chain: Any) -> BaseException:
    """The exception with its cause, context and flag set, in this order."""
    for name, value in chain.items():
        setattr(exception, name, value)
    return exception


@wraps(BaseException, family=True)
def build_exception(ctx: Context, obj: BaseException, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    value = ExceptionValue(type(obj), [], source)
    value.object = obj
    return value
