"""Views of dicts (`keys()`, `values()`, `items()`) and the iterators over dicts and views."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ..guards import Kind
from ..sources import Position
from . import set_history
from .base import Value
from .builtin_methods import MethodsByName
from .constants import BINARY, COMPARE, constant
from .hashing import hash_element
from .sequences import TupleValue
from .set_history import Element, History, Made
from .sets import SetValue, keys_of, made, operand, set_from
from .stepping import PositionIterator, each

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter


class DictView(MethodsByName):
    """`owner.keys()`, `.values()` or `.items()`: it shows whatever the dict holds now."""

    __slots__ = ("owner", "which")

    kind = "dict view"

    def __init__(self, owner: Any, which: str) -> None:
        super().__init__()
        self.owner = owner
        self.which = which

    @property
    def builtin(self) -> type:
        return type(getattr({}, self.which)())

    def __str__(self) -> str:
        return f"{self.owner}.{self.which}()"

    def python_type(self, ctx: Context) -> type:
        plain: Any = OrderedDict() if issubclass(self.owner.python_type(ctx), OrderedDict) else {}
        return type(getattr(plain, self.which)())

    def unpack(self, ctx: Context) -> list[Value]:
        if self._is_by_position():
            return list(ValuesIterator(ctx, self.owner).items)
        return view_items(ctx, self.owner, self.which)

    def iterate(self, ctx: Context) -> Value:
        if self._is_by_position():
            return ValuesIterator(ctx, self.owner)
        return DictIterator(ctx, self.owner, self.which)

    def _is_by_position(self) -> bool:
        """Values of a dict from outside that holds names: these do not matter."""
        return self.which == "values" and self.owner.holds_names and self.owner.is_untouched()

    def length(self, ctx: Context) -> Value:
        return self.owner.length(ctx)

    def truth(self, ctx: Context) -> bool:
        return self.owner.truth(ctx)

    def as_python(self, ctx: Context) -> Any:
        return getattr(self.owner.as_python(ctx), self.which)()

    def key(self, ctx: Context) -> object:
        if self.which == "values":
            return self
        ctx.raise_(TypeError(f"unhashable type: {self.python_type(ctx).__name__!r}"))

    def contains(self, ctx: Context, item: Value) -> bool | Value:
        if self.which == "keys":
            return self.owner.contains(ctx, item)
        if self.which == "values":
            return TupleValue(self.unpack(ctx)).contains(ctx, item)
        pair = ctx.real(item)
        if not isinstance(pair, TupleValue) or len(pair.unpack(ctx)) != 2:
            return False
        key, wanted = pair.unpack(ctx)
        found = self.owner.lookup(ctx, key)
        return found is not None and TupleValue([found]).contains(ctx, wanted)

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "isdisjoint" and self.which == "values":
            ctx.raise_(AttributeError(f"{self.python_type(ctx).__name__!r} object has no attribute {name!r}"))
        return super().getattr(ctx, name)

    # keys and items views are sets ------------------------------------------------------------------------------------
    def set_operand(self, ctx: Context) -> History:
        if self.which == "keys":
            return Made(set_history.keys, tuple(self._elements(ctx)))
        return Made(set_history.listed, tuple(self._elements(ctx)))

    def _elements(self, ctx: Context) -> list[Element]:
        return [Element(hash_element(ctx, item), item) for item in self.unpack(ctx)]

    def _is_set_like(self, other: Value) -> bool:
        sets = isinstance(other, SetValue) or (isinstance(other, DictView) and other.which != "values")
        return self.which != "values" and sets

    def compare(self, ctx: Context, op: str, other: Value) -> Value | None:
        if not self._is_set_like(other):
            return None
        mine, theirs = ({e.key for e in self._elements(ctx)}, keys_of(ctx, other))
        return constant(COMPARE[op](mine, set(theirs)))

    def binary(self, ctx: Context, op: str, other: Value, *, inplace: bool = False) -> Value | None:
        if self.which == "values" or op not in ("|", "&", "-", "^"):
            return None
        return self._operation(ctx, op, self, other)

    def reflected(self, ctx: Context, op: str, other: Value) -> Value | None:
        if self.which == "values" or op not in ("|", "&", "-", "^"):
            return None
        return self._operation(ctx, op, other, self)

    def _operation(self, ctx: Context, op: str, left: Value, right: Value) -> Value:
        if self.which == "items":  # only the items that matter need be hashable, and CPython looks them up in the dict
            self.refuse("operator is not supported for these types", f"{op} of items", "make a set of them first")
        if not isinstance(right, (DictView, SetValue)):
            return self._with_iterable(ctx, op, right)
        if not isinstance(left, (DictView, SetValue)):
            left.refuse("operator is not supported for these types", f"{op} with a view", "make a set of it first")
        return made(ctx, Made(BINARY[op], (operand(ctx, left), operand(ctx, right))))

    def _with_iterable(self, ctx: Context, op: str, other: Value) -> Value:
        """The keys and any iterable, in the way of CPython's code for each operator."""
        if op == "&":
            shared = [item for item in each(ctx, other) if self.contains(ctx, item)]
            return set_from(ctx, set, TupleValue(shared))
        if op not in ("-", "|"):
            other.refuse("operator is not supported for these types", f"{op} with a view", "make a set of it first")
        result = set_from(ctx, set, self)
        result.call_method(ctx, "difference_update" if op == "-" else "update", [other], {})
        return result

    def method_isdisjoint(self, ctx: Context, other: Value) -> Value:
        mine: set[Hashable] = {e.key for e in self._elements(ctx)}
        return constant(mine.isdisjoint(keys_of(ctx, other)))

    def reconstruct(self, out: ExitWriter) -> str:
        return view_text(out, self.owner, self.which)


def view_text(out: ExitWriter, owner: Any, which: str) -> str:
    """`owner.keys()` and its like, past what a subclass makes of it."""
    if owner.part_of is None:
        return f"{out.text(owner)}.{which}()"
    return f"{out.hold(getattr(owner.builtin, which))}({out.text(owner)})"


def view_items(ctx: Context, owner: Any, which: str) -> list[Value]:
    entries = owner.entries(ctx).values()
    if which == "keys":
        return [entry.key for entry in entries]
    if which == "values":
        return [entry.item for entry in entries]
    return [TupleValue([entry.key, entry.item]) for entry in entries]


class DictIterator(PositionIterator):
    """An iterator over a dict or one of its views, forwards or backwards."""

    __slots__ = ("backwards", "checked", "keys", "owner", "which")

    def __init__(self, ctx: Context, owner: Any, which: str, *, backwards: bool = False) -> None:
        super().__init__(())
        self.owner, self.which, self.backwards = owner, which, backwards
        #: the dict's keys when iteration began
        self.keys = list(owner.entries(ctx))
        #: the last content that had just these keys
        self.checked = owner.content

    def python_type(self, ctx: Context) -> type:
        plain: Any = OrderedDict() if issubclass(self.owner.python_type(ctx), OrderedDict) else {}
        view = getattr(plain, self.which)()
        return type(reversed(view) if self.backwards else iter(view))

    def next(self, ctx: Context) -> Value | None:
        if self.content is None:
            return None
        entries = self.owner.entries(ctx)
        if entries is not self.checked:
            self._check(ctx, entries)
        if self.content == len(self.keys):
            ctx.change(self, None)
            return None
        ctx.change(self, self.content + 1)
        entry = entries[self.keys[-self.content if self.backwards else self.content - 1]]
        if self.which == "items":
            return TupleValue([entry.key, entry.item])
        return entry.key if self.which == "keys" else entry.item

    def _check(self, ctx: Context, entries: dict[Hashable, Any]) -> None:
        if len(entries) != len(self.keys):
            if issubclass(self.owner.python_type(ctx), OrderedDict):
                self.refuse("container changes while it is iterated")
            ctx.raise_(RuntimeError("dictionary changed size during iteration"))
        if list(entries) != self.keys:
            self.refuse("container changes while it is iterated")
        self.checked = entries

    def rebuilt(self, out: ExitWriter) -> str:
        if not self.owner.has_keys(self.keys):
            self.refuse("object cannot be rebuilt", "the dict was changed while it was iterated")
        view = view_text(out, self.owner, self.which)
        return f"{out.hold(reversed if self.backwards else iter)}({view})"



class ValuesIterator(PositionIterator):
    """An iterator over the values of a dict from outside that holds names: they are taken by their places."""

    __slots__ = ("owner",)

    def __init__(self, ctx: Context, owner: Any) -> None:
        ctx.guard(Kind.LENGTH, owner.source, len(owner.base))
        super().__init__([ctx.wrap(item, Position(owner.source, at)) for at, item in enumerate(owner.base.values())])
        self.owner = owner

    def python_type(self, ctx: Context) -> type:
        return type(iter(self.owner.builtin().values()))

    def _is_as_it_was(self) -> bool:
        owner = self.owner
        return owner.is_untouched() or (owner.base is None and owner.content is owner.original)

    def check(self, ctx: Context) -> None:
        if not self._is_as_it_was():
            self.refuse("container changes while it is iterated")

    def rebuilt(self, out: ExitWriter) -> str:
        if not self._is_as_it_was():
            self.refuse("object cannot be rebuilt", "the dict was changed while it was iterated")
        return f"{out.hold(iter)}({view_text(out, self.owner, 'values')})"
