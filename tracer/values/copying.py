"""copy.copy() and copy.deepcopy() of containers, and of objects that are copied attribute by attribute."""

from __future__ import annotations

import copy
import copyreg
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, NoReturn

from ..guards import MISSING
from .attributes import DELETED, InstanceDict, find
from .base import Raised, Value
from .callables import HeldFunction
from .classes import ClassValue
from .constants import ConstantValue
from .container_objects import ContainerObject, new_container
from .dict_kinds import OrderedDictValue
from .exceptions import ExceptionValue
from .functions import FunctionValue
from .lookup import class_attribute, special
from .mappings import DictValue
from .objects import ObjectValue, new_object
from .pure_functions import register
from .python_modules import PythonModuleValue
from .regular_expressions import RegularValue
from .sequences import ListValue, TupleValue
from .sets import SetValue
from .simple_namespaces import NamespaceObject
from .stepping import each

if TYPE_CHECKING:
    from ..interpreter.context import Context

#: by these a class says how its instances are copied
_HOOKS = ("__copy__", "__deepcopy__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__",
          "__getnewargs__", "__getnewargs_ex__")  # fmt: skip
#: what is never copied
_ATOMS = (ConstantValue, FunctionValue, HeldFunction, ClassValue, RegularValue)


class Copier:
    """One call of `copy` or `deepcopy`: what was copied already is in `memo`, by the value."""

    def __init__(self, ctx: Context, deep: bool) -> None:
        self.ctx, self.deep = ctx, deep
        self.memo: dict[int, tuple[Value, Value]] = {}

    def part(self, value: Value) -> Value:
        """The copy of what the object being copied holds: itself, unless the copy is deep."""
        return self.copy(value) if self.deep else value

    def copy(self, value: Value) -> Value:
        real = self.ctx.real(value)
        if isinstance(real, _ATOMS):
            return real
        if id(real) in self.memo:
            return self.memo[id(real)][1]
        if isinstance(real, TupleValue):
            return self._tuple(real)
        if isinstance(real, SetValue):
            if not self.deep:
                return real.call_method(self.ctx, "copy", [], {})
            self.give_up(real)
        if isinstance(real, ListValue):
            made = self.note(real, ListValue(()))
            for item in real.items(self.ctx):
                made.method_append(self.ctx, self.part(item))
            return made
        if isinstance(real, DictValue):
            return self._dict(real)
        if isinstance(real, ObjectValue) and not isinstance(real, (ExceptionValue, PythonModuleValue)):
            return self._object(real)
        self.give_up(real)

    def give_up(self, value: Value) -> NoReturn:
        value.refuse("object is copied", "copy.deepcopy()" if self.deep else "copy.copy()")

    def note(self, old: Value, new: Any) -> Any:
        self.memo[id(old)] = (old, self.ctx.born(new))
        return new

    def _tuple(self, value: TupleValue) -> Value:
        if value.cls is not tuple:
            self.give_up(value)
        if not self.deep:
            return value
        items = [self.copy(item) for item in value.items(self.ctx)]
        if id(value) in self.memo:
            return self.memo[id(value)][1]
        same = all(new is self.ctx.real(old) for new, old in zip(items, value.items(self.ctx), strict=True))
        return value if same else self.note(value, TupleValue(items))

    def _dict(self, value: DictValue) -> Value:
        if not self.deep:
            if isinstance(value, OrderedDictValue) and value.has_attributes(self.ctx):
                self.give_up(value)
            return value.call_method(self.ctx, "copy", [], {})
        if type(value) not in (DictValue, InstanceDict):
            self.give_up(value)
        made = self.note(value, DictValue({}))
        for key, item in value.pairs(self.ctx):
            made.setitem(self.ctx, self.copy(key), self.copy(item))
        return made

    def _object(self, value: ObjectValue) -> Value:
        ctx, cls = self.ctx, value.cls
        own = special(ctx, value, cls, "__copy__") if not self.deep else None
        if own is not None:
            return ctx.real(own.call(ctx, [], {}))
        if any(class_attribute(ctx, cls, name) is not find(object, name) for name in _HOOKS[1:]):
            self.give_up(value)
        if type(find(cls, "__new__")) is not BuiltinFunctionType or class_attribute(ctx, cls, "__del__") is not MISSING:
            self.give_up(value)
        made = self._empty(value)
        attributes = value.instance_dict(ctx)
        for key, item in [] if attributes is None else attributes.pairs(ctx):
            made.store_own(ctx, ctx.real(key).as_python(ctx), self.part(item))
        for name in copyreg._slotnames(cls):  # type: ignore[attr-defined]
            self._copy_slot(value, made, name)
        return made

    def _empty(self, value: ObjectValue) -> Any:
        """A new instance of the class; of a container's subclass with its items, stored by the class's methods."""
        ctx = self.ctx
        if isinstance(value, NamespaceObject):
            return self.note(value, NamespaceObject(value.cls))
        if not isinstance(value, ContainerObject):
            return self.note(value, new_object(ctx, value.cls))
        if value.root not in (dict, list):
            self.give_up(value)
        made = self.note(value, new_container(ctx, value.cls, value.root, []))
        if value.root is list:
            for item in each(ctx, value):
                made.call_method(ctx, "append", [self.part(item)], {})
        else:
            for pair in each(ctx, value.call_method(ctx, "items", [], {})):
                key, item = ctx.real(pair).unpack(ctx)
                made.setitem(ctx, self.part(key), self.part(item))
        return made

    def _copy_slot(self, value: ObjectValue, made: ObjectValue, name: str) -> None:
        raw: Any = class_attribute(self.ctx, value.cls, name)
        try:
            item = value.read_c_attribute(self.ctx, raw)
        except Raised:
            return
        assert item is not DELETED
        made.write_c_attribute(self.ctx, raw, self.part(item))


def _register(function: Any, deep: bool) -> None:
    def handler(ctx: Context, value: Value, /) -> Value:
        return Copier(ctx, deep).copy(value)

    register(function, handler)


_register(copy.copy, False)
_register(copy.deepcopy, True)

