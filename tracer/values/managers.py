"""Torch's context managers whose meaning is a change of torch's state: grad mode, inference mode, autocast.

Entering and leaving one is recorded in the graph and applied to the capturing thread. They also work as decorators: the
wrapper that torch makes is Python code that enters a manager from outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Attr, Source
from ..torch_private import set_grad_enabled
from .base import Mutable, Value, wraps
from .classes import Constructor, constructs
from .constants import constant
from .functions import FunctionValue
from .lookup import class_object
from .objects import known, known_once_loaded

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

_GRAD_CLASSES: dict[type, bool] = {torch.no_grad: False, torch.enable_grad: True}


class ManagerValue(Mutable):
    """A manager; `content` is what leaving it needs: the grad mode before, or the mode that was entered."""

    __slots__ = ("cls",)

    kind: ClassVar[str] = "context manager"
    has_identity = True

    def __init__(self, cls: type, source: Source | None = None) -> None:
        super().__init__(None, source)
        self.cls = cls

    def __str__(self) -> str:
        return f"torch.{self.cls.__name__}"

    def python_type(self, ctx: Context) -> type:
        return self.cls

    def truth(self, ctx: Context) -> bool:
        return True

    def getattr(self, ctx: Context, name: str) -> Value:
        if name in ("__enter__", "__exit__", "clone"):
            return ManagerMethod(self, name)
        if name == "__class__":
            return class_object(ctx, self.cls)
        if name == "mode" and (mode := self.given_mode()) is not None:
            return constant(mode)
        self.refuse("attribute cannot be read", f".{name}")

    def given_mode(self) -> bool | None:
        """`.mode`, for a class that has it: what the constructor was given."""
        return None

    def enter(self, ctx: Context) -> tuple[Value, Value]:
        return self.begin(ctx), ManagerMethod(self, "__exit__")

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Use as a decorator: torch's own Python code makes the function that enters a manager at each call."""
        decorate = self.cls.__call__
        if type(decorate) is not FunctionType:
            self.refuse("context manager is not supported", "use as a decorator")
        return ctx.real(ctx.wrap(decorate, ctx.hold(decorate))).call(ctx, [self, *args], kwargs)

    def begin(self, ctx: Context) -> Value:
        """`__enter__`"""
        raise NotImplementedError

    def end(self, ctx: Context) -> Value:
        """`__exit__`"""
        raise NotImplementedError

    def copy(self, ctx: Context) -> Value:
        """`clone`, by which torch's decorators make a manager for each call."""
        self.refuse("context manager is not supported", "copy")


class ManagerMethod(Value):
    """`manager.__enter__`, `.__exit__` or `.clone`."""

    __slots__ = ("manager", "name")

    kind: ClassVar[str] = "method of a context manager"

    def __init__(self, manager: ManagerValue, name: str) -> None:
        super().__init__()
        self.manager, self.name = manager, name

    def truth(self, ctx: Context) -> bool:
        return True

    def python_type(self, ctx: Context) -> type:
        return MethodType

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "__self__":
            return self.manager
        if name in ("__enter__", "__exit__"):
            ctx.raise_(AttributeError(f"'function' object has no attribute {name!r}"))
        return super().getattr(ctx, name)

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if kwargs or len(args) != (3 if self.name == "__exit__" else 0):
            self.refuse("arguments do not fit the call")
        if self.name == "__enter__":
            return self.manager.begin(ctx)
        return self.manager.end(ctx) if self.name == "__exit__" else self.manager.copy(ctx)

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.text(self.manager)}.{self.name}"


class GradManager(ManagerValue):
    """no_grad, enable_grad and set_grad_enabled, whose constructor already sets the mode."""

    __slots__ = ("mode", "outer")

    def __init__(self, cls: type, mode: bool, source: Source | None = None, outer: bool | None = None) -> None:
        super().__init__(cls, source)
        self.mode = mode
        #: of one from outside: the grad mode that it will give back if it was entered there; None if it was not
        self.outer = outer

    @classmethod
    def made(cls, ctx: Context, manager_class: type, mode: bool) -> GradManager:
        manager: GradManager = ctx.born(cls(manager_class, mode))
        if manager_class is torch.set_grad_enabled:
            ctx.change(manager, torch.is_grad_enabled())
            ctx.graph.set_state("grad", mode)
        return manager

    def given_mode(self) -> bool | None:
        return self.mode if self.cls is torch.set_grad_enabled else None

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "prev" and self.content is not None:
            return constant(self.content)
        return super().getattr(ctx, name)

    def begin(self, ctx: Context) -> Value:
        if self.cls is not torch.set_grad_enabled:
            ctx.change(self, torch.is_grad_enabled())
        ctx.graph.set_state("grad", self.mode)
        return constant(None)

    def end(self, ctx: Context) -> Value:
        before = self.content
        if before is None:
            before = self.outer
            if self.source is None or before is None:
                self.refuse("context manager is not supported", "leaving what was not entered:")
            ctx.guard(Kind.EQUALS, Attr(self.source, "prev"), before)
        ctx.graph.set_state("grad", before)
        return constant(None)

    def copy(self, ctx: Context) -> Value:
        return self.made(ctx, self.cls, self.mode)

    def reconstruct(self, out: ExitWriter) -> str:
        return f"{out.hold(grad_manager)}({out.hold(self.cls)}, {self.mode}, {self.content})"

    def effects(self, out: ExitWriter) -> Iterable[str]:
        return [f"{out.text(self)}.prev = {self.content}"]


def grad_manager(cls: Any, mode: bool, before: bool | None) -> Any:
    """A manager as it is once it was entered, with the mode that it will give back; changes no mode."""
    manager = object.__new__(cls)
    if before is not None or cls is not torch.enable_grad:  # the only one whose constructor leaves it out
        manager.prev = before is True
    if cls is torch.set_grad_enabled:
        manager.mode = mode
    return manager


class ModeManager(ManagerValue):
    """inference_mode and autocast: `arguments` as the graph's state takes them."""

    __slots__ = ("arguments", "found", "state")

    def __init__(self, cls: type, state: str, arguments: tuple[Any, ...], source: Source | None = None) -> None:
        super().__init__(cls, source)
        self.state, self.arguments = state, arguments
        #: torch's state at the last entering
        self.found: dict[str, Any] = {}

    def given_mode(self) -> bool | None:
        return self.arguments[0] if self.state == "inference_mode" else None

    def begin(self, ctx: Context) -> Value:
        if self.content is not None:
            self.refuse("context manager is not supported", "entering it twice:")
        if self.source is not None and self.state == "inference_mode":
            self.refuse("context manager is not supported", "entering one made outside:")
        if self.state == "autocast":
            before = self.found
            ctx.on_rollback(lambda: setattr(self, "found", before))
            self.found = _found_by_autocast(self.arguments[0])
        entered = ctx.graph.set_state(self.state, *self.arguments)
        ctx.modes.append(ctx.root_index())
        ctx.on_rollback(ctx.modes.pop)
        ctx.change(self, entered)
        return constant(None) if self.state == "inference_mode" else self

    def end(self, ctx: Context) -> Value:
        if self.content is None:
            self.refuse("context manager is not supported", "leaving what was entered outside:")
        ctx.graph.leave_state(self.content)
        at = ctx.modes.pop()
        ctx.on_rollback(lambda: ctx.modes.append(at))
        ctx.change(self, None)
        return constant(None) if self.state == "inference_mode" else constant(False)

    def copy(self, ctx: Context) -> Value:
        if self.state != "inference_mode":
            self.refuse("context manager is not supported", "copy")
        return ctx.born(ModeManager(self.cls, self.state, self.arguments))

    def effects(self, out: ExitWriter) -> Iterable[str]:
        """What entering an autocast object from outside leaves on it."""
        return [f"{out.text(self)}.{name} = {out.constant(value)}" for name, value in self.found.items()]


def _found_by_autocast(device: str) -> dict[str, Any]:
    """What `autocast.__enter__` keeps on the object, as leaving needs it."""
    return {
        "prev_cache_enabled": torch.is_autocast_cache_enabled(),
        "prev": torch.is_autocast_enabled(device),
        "prev_fastdtype": torch.get_autocast_dtype(device),
    }


def _constructor(cls: type, mode: bool) -> Constructor:
    def make(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        manager = GradManager.made(ctx, cls, mode)
        return manager.call(ctx, args, kwargs) if args or kwargs else manager  # `@torch.no_grad`, without parentheses

    return make


for _cls, _mode in _GRAD_CLASSES.items():
    constructs(_cls)(_constructor(_cls, _mode))


@constructs(torch.set_grad_enabled)
def make_set_grad_enabled(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    (mode,) = _arguments(ctx, ("mode",), (), args, kwargs)
    if type(mode) is not bool:
        raise GraphBreak("context manager is not supported", f"set_grad_enabled({mode})")
    return GradManager.made(ctx, torch.set_grad_enabled, mode)


@known(set_grad_enabled)
def set_grad_mode(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What `set_grad_enabled(mode)` calls, and undoes with when it turns out to decorate a function."""
    (mode,) = _arguments(ctx, ("mode",), (), args, kwargs)
    if type(mode) is not bool:
        raise GraphBreak("context manager is not supported", f"set_grad_enabled({mode})")
    ctx.graph.set_state("grad", mode)
    return constant(None)


@known_once_loaded("torch.utils._contextlib", "_set_stack_frame_name")
def set_frame_name(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Torch 2.15: a decorated function's frames are called after the manager."""
    function, name = (ctx.real(value) for value in args)
    if not isinstance(function, FunctionValue) or function.function is not None or kwargs:
        raise GraphBreak("attribute cannot be set", f".__code__ of {function}")
    before, wanted = function.code, name.as_python(ctx)
    if (id(before), wanted) not in _RENAMED:
        _RENAMED[id(before), wanted] = before, before.replace(co_name=wanted, co_qualname=wanted)
    ctx.on_rollback(lambda: setattr(function, "code", before))
    function.code = _RENAMED[id(before), wanted][1]
    return constant(None)


#: by the identity of a code object, which is kept, and the new name: one code for all, as regions are found by it
_RENAMED: dict[tuple[int, str], tuple[CodeType, CodeType]] = {}


@constructs(torch.inference_mode)
def make_inference_mode(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    (mode,) = _arguments(ctx, ("mode",), (True,), args, kwargs)
    if type(mode) is not bool:
        raise GraphBreak("context manager is not supported", "inference_mode as a decorator")
    return ctx.born(ModeManager(torch.inference_mode, "inference_mode", (mode,)))


@constructs(torch.autocast)
def make_autocast(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Made once for real, so that what torch makes of the arguments, or raises and warns about them, is torch's."""
    names = ("device_type", "dtype", "enabled", "cache_enabled")
    arguments = _arguments(ctx, names, (None, True, None), args, kwargs)
    device, dtype, enabled, _ = arguments
    supported = device == "cpu" or (device == "cuda" and torch.cuda.is_available())
    known_dtype = dtype is None or dtype in (torch.bfloat16, torch.float16)
    if not supported or (enabled and not known_dtype):
        raise GraphBreak("context manager is not supported", f"autocast{tuple(arguments)}: torch warns or raises")
    return ctx.born(ModeManager(torch.autocast, "autocast", _autocast_state(torch.autocast(*arguments))))


def _autocast_state(manager: Any) -> tuple[Any, ...]:
    return manager.device, manager.fast_dtype, manager._enabled, manager._cache_enabled


def _arguments(
    ctx: Context, names: tuple[str, ...], defaults: tuple[Any, ...], args: list[Value], kwargs: dict[str, Value]
) -> list[Any]:
    """The plain arguments, in the order of the names."""
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(args) > len(names) or len(given) < len(args) + len(kwargs) or set(given) - set(names):
        raise GraphBreak("arguments do not fit the call", f"a context manager takes {', '.join(names)}")
    padded = (None,) * (len(names) - len(defaults)) + defaults
    if any(name not in given for name in names[: len(names) - len(defaults)]):
        raise GraphBreak("arguments do not fit the call", f"a context manager needs {names[0]}")
    return [ctx.real(given[n]).as_python(ctx) if n in given else d for n, d in zip(names, padded, strict=True)]


# from outside -------------------------------------------------------------------------------------------------------
@wraps(torch.no_grad, torch.enable_grad)
def build_grad_manager(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    return GradManager(type(obj), _GRAD_CLASSES[type(obj)], source, obj.__dict__.get("prev"))


@known(*{cls.__enter__ for cls in (torch.no_grad, torch.enable_grad, torch.set_grad_enabled)})
@known(torch.inference_mode.__enter__, torch.autocast.__enter__)
def enter_manager(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`cls.__enter__(manager)`, as ExitStack calls it."""
    manager = ctx.real(args[0])
    if not isinstance(manager, (GradManager, ModeManager)):
        manager.refuse("context manager is not supported", "a mode's __enter__()")
    return manager.begin(ctx)


@known(*{cls.__exit__ for cls in (torch.no_grad, torch.enable_grad, torch.set_grad_enabled)})
def leave_grad_manager(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The bound method with which a `with` block is left that was entered outside of the region."""
    manager = ctx.real(args[0])
    if not isinstance(manager, GradManager):
        manager.refuse("context manager is not supported", "a grad mode's __exit__()")
    return manager.end(ctx)


@known(torch.inference_mode.__exit__, torch.autocast.__exit__)
def leave_mode(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    manager = ctx.real(args[0])
    if not isinstance(manager, ModeManager):
        manager.refuse("context manager is not supported", "a mode's __exit__()")
    return manager.end(ctx)


@wraps(torch.set_grad_enabled)
def build_set_grad_enabled(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    ctx.guard(Kind.EQUALS, Attr(source, "mode"), obj.mode)
    ctx.guard(Kind.EQUALS, Attr(source, "prev"), obj.prev)
    value = GradManager(type(obj), obj.mode, source)
    value.content = value.original = obj.prev
    return value


@wraps(torch.inference_mode)
def build_inference_mode(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    ctx.guard(Kind.EQUALS, Attr(source, "mode"), obj.mode)
    return ModeManager(type(obj), "inference_mode", (obj.mode,), source)


@wraps(torch.autocast)
def build_autocast(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.TYPE, source, type(obj))
    state = _autocast_state(obj)
    for name, value in zip(("device", "fast_dtype", "_enabled", "_cache_enabled"), state, strict=True):
        ctx.guard(Kind.EQUALS, Attr(source, name), value)
    return ModeManager(type(obj), "autocast", state, source)
