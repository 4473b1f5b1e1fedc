"""The builtin containers inside of instances of users' subclasses: reading them, storing into them, filling new ones.

A part is a DictValue, ListValue or TupleValue whose effects go by the builtin class's own methods, past what the
subclass makes of storing an item. container_objects.py has the objects themselves.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

from .attributes import filled
from .dict_kinds import OrderedDictValue
from .mappings import DictValue
from .sequences import ListValue
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.exits import ExitWriter


def builtin_part(obj: Any) -> Any:
    """A plain copy of what an instance of a container's subclass holds; no method of the class is asked."""
    if isinstance(obj, OrderedDict):
        return dict(OrderedDict.items(obj))
    if isinstance(obj, dict):
        return dict(dict.items(obj))
    return list.copy(obj) if isinstance(obj, list) else tuple.__getitem__(obj, slice(None))


def refilled(obj: Any, items: Any, attributes: dict[str, Any]) -> Any:
    """A new object with these items and attributes, past anything that its class does at storing them."""
    if isinstance(obj, OrderedDict):
        for key, item in items.items():
            OrderedDict.__setitem__(obj, key, item)
    elif isinstance(obj, dict):
        dict.update(obj, items)
    elif isinstance(obj, list):
        list.extend(obj, items)
    return filled(obj, attributes)


class DictPart(DictValue):
    """What dict keeps in an instance of a subclass."""

    __slots__ = ("part_of",)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.text(self.part_of)  # type: ignore[arg-type]

    def set_text(self, out: ExitWriter, target: str, key: str, item: str) -> str:
        return f"{out.hold(self.builtin.__setitem__)}({target}, {key}, {item})"

    def delete_text(self, out: ExitWriter, target: str, key: str) -> str:
        return f"{out.hold(self.builtin.__delitem__)}({target}, {key})"

    def clear_text(self, out: ExitWriter, target: str) -> str:
        return f"{out.hold(self.builtin.clear)}({target})"


class OrderedDictPart(OrderedDictValue, DictPart):
    """What OrderedDict keeps in an instance of a subclass."""

    __slots__ = ()


class ListPart(ListValue):
    """What list keeps in an instance of a subclass."""

    __slots__ = ("part_of",)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.text(self.part_of)  # type: ignore[arg-type]

    def extend_text(self, out: ExitWriter, target: str, items: str) -> str:
        return f"{out.hold(list.extend)}({target}, {items})"

    def replace_text(self, out: ExitWriter, target: str, items: str) -> str:
        return f"{out.hold(list.__setitem__)}({target}, {out.hold(slice(None))}, {items})"


class TuplePart(TupleValue):
    """What tuple keeps in an instance of a subclass."""

    __slots__ = ("part_of",)

    def reconstruct(self, out: ExitWriter) -> str:
        return out.text(self.part_of)  # type: ignore[arg-type]


#: by the builtin class: what stands for its part
PARTS: dict[type, Any] = {
    dict: DictPart, OrderedDict: OrderedDictPart, defaultdict: DictPart, list: ListPart, tuple: TuplePart,
}  # fmt: skip
