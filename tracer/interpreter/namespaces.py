"""Global names: a function's module dict, with the stores that capture saw laid over it, and the builtins behind it."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..guards import Kind
from ..sources import Global, Item, Source
from ..values.base import Mutable, Value

if TYPE_CHECKING:
    from .context import Context
    from .exits import ExitWriter


class Namespace(Mutable):
    """One module's globals; `content` holds what was stored (None: deleted) since the capture began."""

    __slots__ = ("direct", "module_dict")

    kind = "global namespace"

    def __init__(self, module_dict: dict[str, Any], source: Source, direct: bool) -> None:
        super().__init__({}, source)
        self.module_dict = module_dict
        #: the slot's own globals: a plain name reads them
        self.direct = direct

    def source_of(self, ctx: Context, name: str) -> Source:
        writable = name.isidentifier() and not keyword.iskeyword(name)
        if self.direct and writable and name not in ctx.request.layout.parameters and not ctx.is_reserved(name):
            return Global(name)
        assert self.source is not None
        return Item(self.source, name)

    def load(self, ctx: Context, name: str) -> Value:
        if name in self.content:
            value = self.content[name]
            if value is not None:
                return value
        elif name in self.module_dict:
            return ctx.wrap(self.module_dict[name], self.source_of(ctx, name))
        assert self.source is not None
        if name not in self.content:
            ctx.guard_namespace(Kind.LACKS_KEY, self.source, name)
        found = self.module_dict.get("__builtins__", builtins)
        table: dict[str, Any] = found if isinstance(found, dict) else vars(found)
        if name in table:
            return ctx.wrap(table[name], Item(ctx.hold(table, "builtins"), name))
        ctx.raise_(NameError(f"name {name!r} is not defined"))

    def load_attribute(self, ctx: Context, name: str, source: Source) -> Value:
        """The same, read as an attribute of the module object."""
        stored = self.content.get(name)
        return (
            ctx.wrap(self.module_dict[name], source)
            if stored is None and name not in self.content
            else self.load(ctx, name)
        )

    def store(self, ctx: Context, name: str, value: Value | None) -> None:
        ctx.change(self, {**self.content, name: value})

    def effects(self, out: ExitWriter) -> Iterable[str]:
        target = out.hold(self.module_dict, "globals")
        for name, value in self.content.items():
            if value is None:
                yield f"del {target}[{name!r}]"
            else:
                yield f"{target}[{name!r}] = {out.text(value)}"
