"""How a set came about. The order in which a set is iterated depends on every insertion and removal that it has seen.

A `Made` is one step: a function and what it was applied to, back to the first. Run on real keys, it gives a real set
with CPython's own order; written as text, it builds the same set at run time. `Outside` is a set that was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from ..errors import GraphBreak
from .base import Value
from .hashing import is_known

if TYPE_CHECKING:
    from ..interpreter.exits import ExitWriter


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """A value with its key."""

    key: Hashable
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """A set from outside (`owner`), as it was there; its table is unknown, and so is the order after a change."""

    owner: Any

    @property
    def elements(self) -> tuple[Element, ...]:
        return tuple(Element(key, value) for key, value in self.owner.original.members.items())


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A frozenset that is a constant of the program."""

    real: frozenset[Any]
    elements: tuple[Element, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """`function(*operands)`, a fresh set (or another collection that a later step takes)."""

    function: Callable[..., Any]
    operands: tuple[History, ...]


History = Union[Element, Outside, Held, Made]  # noqa: UP007 (a forward reference)


def build(history: History) -> Any:
    """The real thing, of keys. Long chains of steps are walked, not recursed into."""
    steps: list[Made] = []
    while isinstance(history, Made) and history.operands and isinstance(history.operands[0], Made):
        steps.append(history)
        history = history.operands[0]
    result = _build_one(history)
    for step in reversed(steps):
        result = step.function(result, *[result if operand is step.operands[0] else build(operand)
                                         for operand in step.operands[1:]])  # fmt: skip
    return result


def _build_one(history: History) -> Any:
    if isinstance(history, Element):
        return history.key
    if isinstance(history, Outside):
        return history.owner.cls(element.key for element in history.elements)
    if isinstance(history, Held):
        return history.real
    return history.function(*[build(operand) for operand in history.operands])


def elements(history: History) -> Iterable[Element]:
    """Every element that went into it."""
    stack = [history]
    while stack:
        top = stack.pop()
        if isinstance(top, Element):
            yield top
        elif isinstance(top, Made):
            stack.extend(top.operands)
        else:
            yield from top.elements


def has_order(history: History) -> bool:
    """Is the order of iteration known from the history alone?"""
    stack = [history]
    while stack:
        top = stack.pop()
        if isinstance(top, Outside) or (isinstance(top, Element) and not is_known(top.key)):
            return False
        if isinstance(top, Made):
            stack.extend(top.operands)
    return True


def text(history: History, out: ExitWriter) -> str:
    """An expression that makes the set at run time."""
    if isinstance(history, Element):
        return out.text(history.value)
    if isinstance(history, Held):
        return out.constant(history.real)
    if isinstance(history, Outside):
        if history.owner.content is not history.owner.original:
            raise GraphBreak("object cannot be rebuilt", f"a set made from {history.owner} before that was changed")
        return out.text(history.owner)
    steps: list[Made] = []
    while isinstance(history, Made) and history.operands and isinstance(history.operands[0], Made):
        steps.append(history)
        history = history.operands[0]
    result = _made_text(history, out) if isinstance(history, Made) else text(history, out)
    for step in reversed(steps):
        if any(operand is step.operands[0] for operand in step.operands[1:]):
            result = _with_itself(step, result, out)
            continue
        rest = "".join(f", {text(operand, out)}" for operand in step.operands[1:])
        result = f"{out.hold(step.function)}({result}{rest})"
    return result


def _with_itself(step: Made, first: str, out: ExitWriter) -> str:
    """The text of a step that takes the same set more than once (`s |= s`)."""
    distinct = list(dict.fromkeys(step.operands[1:]))
    distinct.remove(step.operands[0])
    order = [step.operands[0], *distinct]
    inner = "".join(f", {text(operand, out)}" for operand in distinct)
    positions = tuple(order.index(operand) for operand in step.operands)
    return f"{out.hold(applied)}({out.hold(step.function)}, {positions}, {first}{inner})"


def applied(function: Callable[..., Any], positions: tuple[int, ...], *operands: Any) -> Any:
    """`function` of these operands, some of them several times."""
    return function(*[operands[position] for position in positions])


def _made_text(made: Made, out: ExitWriter) -> str:
    inner = ", ".join(text(operand, out) for operand in made.operands)
    return f"{out.hold(made.function)}({inner})"


# what steps do ------------------------------------------------------------------------------------------------------
def display(*items: Any) -> set[Any]:
    """`{a, b, c}`: elements put in one after the other, which is also what `set(iterable)` does."""
    result = set()
    for item in items:
        result.add(item)
    return result


def listed(*items: Any) -> list[Any]:
    """An iterable that is neither a set nor a dict."""
    return list(items)


def keys(*items: Any) -> Any:
    """The keys view of a dict with these keys."""
    return dict.fromkeys(items).keys()


def added(items: set[Any], item: Any) -> set[Any]:
    items.add(item)
    return items


def discarded(items: set[Any], item: Any) -> set[Any]:
    items.discard(item)
    return items


def popped(items: set[Any]) -> set[Any]:
    items.pop()
    return items


def cleared(items: set[Any]) -> set[Any]:
    items.clear()
    return items


def in_place(name: str) -> Callable[..., set[Any]]:
    """The step that a method which changes the set makes (`update`, `difference_update`, ...)."""

    def step(items: set[Any], *others: Any) -> set[Any]:
        getattr(items, name)(*others)
        return items

    step.__name__ = name
    return step


IN_PLACE = {
    name: in_place(name)
    for name in ("update", "intersection_update", "difference_update", "symmetric_difference_update")
}
