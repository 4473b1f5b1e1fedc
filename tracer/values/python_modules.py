"""Python modules: their attributes are read where they stand."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..guards import Kind
from ..sources import Attr, Item, Source
from .attributes import is_attribute_name
from .base import Value, wraps

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class PythonModuleValue(Value):
    """A module object (`torch`, `math`, the user's own)."""

    __slots__ = ("module",)

    kind = "Python module"
    has_identity = True

    def __init__(self, module: ModuleType, source: Source | None) -> None:
        super().__init__(source)
        self.module = module

    def python_type(self, ctx: Context) -> type:
        return type(self.module)

    def as_python(self, ctx: Context) -> Any:
        return self.module

    def truth(self, ctx: Context) -> bool:
        return True

    def key(self, ctx: Context) -> object:
        return self.module

    def getattr(self, ctx: Context, name: str) -> Value:
        assert self.source is not None
        namespace = ctx.namespace(vars(self.module))
        if namespace.content.get(name) is not None or (name in vars(self.module) and name not in namespace.content):
            return namespace.load_attribute(ctx, name, self._source_of(name))
        if hasattr(type(self.module), name) or "__getattr__" not in vars(self.module):
            if name in namespace.content or not hasattr(self.module, name):
                if name not in namespace.content:
                    ctx.guard_namespace(Kind.LACKS_KEY, Attr(self.source, "__dict__"), name)
                ctx.raise_(AttributeError(f"module {self.module.__name__!r} has no attribute {name!r}"))
            if type(self.module) is not ModuleType:  # a lazy module of a library: whatever it gives, it gives again
                return ctx.wrap(getattr(self.module, name), Attr(self.source, name))
        return super().getattr(ctx, name)

    def note_presence(self, ctx: Context, name: str) -> None:
        """Somebody relies on it that there is this attribute, whatever it is."""
        if name in vars(self.module) and self.source is not None:
            ctx.guard_namespace(Kind.HAS_KEY, Attr(self.source, "__dict__"), name)
    def _source_of(self, name: str) -> Source:
        assert self.source is not None
        return Attr(self.source, name) if is_attribute_name(name) else Item(Attr(self.source, "__dict__"), name)

    def setattr(self, ctx: Context, name: str, value: Value) -> None:
        if type(self.module) is not ModuleType:
            self.refuse("attribute cannot be set", f".{name}")
        ctx.namespace(vars(self.module)).store(ctx, name, value)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.hold(self.module)


@wraps(ModuleType, family=True)
def build_module(ctx: Context, obj: ModuleType, source: Source) -> Value:
    ctx.guard(Kind.IS, source, obj)
    return PythonModuleValue(obj, source)
