"""Sizes and numbers that are symbols: where each is found again at run time, and what was decided about them.

What an entry has seen of the sizes of its tensors is its `History`: a size that changes from one capture to the next
becomes a symbol. `Shapes` are those of one capture; the decisions that torch's environment noted, in the capture and in
the backend, become SHAPE guards once the graph is compiled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import UserLine
from ..guard_sources import weakened
from ..guards import Guard, Kind
from ..sources import Attr, Call, Formula, Held, Item, Source
from ..torch_private import ShapeEnv
from ..torch_symbols import (
    Expression,
    Symbol,
    bounds,
    decisions,
    expression,
    is_number,
    new_float_symbol,
    new_symbol,
    number_in,
    printed,
    raw_expression,
    symbols_in,
    tidied,
)
from .marks import Marks

#: an int or a torch.SymInt
Size = Any
_ANY = (None, None)
#: what Python text of an expression may mention beside its symbols
_LIBRARY = {"math": math, "torch": torch}


@dataclass(eq=False)
class History:
    """What the captures of one entry have seen, by the texts of sources. It outlives them.

    sizes, strides: of tensors, for each number of dimensions; None for what was not always the same.
    static: these tensors get no symbols any more.  floats: these may be symbols; not where the backend refused them.
    expects: branches one way of which only raises are expected to go the other way; not where they often did not.
    """

    sizes: dict[tuple[str, int], tuple[int | None, ...]] = field(default_factory=dict)
    strides: dict[tuple[str, int], tuple[int | None, ...]] = field(default_factory=dict)
    static: set[str] = field(default_factory=set)
    floats: bool = True
    expects: bool = True

    def saw(self, text: str, tensor: torch.Tensor) -> None:
        """One more capture finds this tensor there."""
        key = text, tensor.dim()
        for known, now in ((self.sizes, tuple(tensor.shape)), (self.strides, tensor.stride())):
            before = known.get(key, now)
            known[key] = tuple(a if a == b else None for a, b in zip(before, now, strict=True))

    def changed(self, text: str, dims: int) -> frozenset[int]:
        """The dimensions whose size is not always the same, of a tensor with this many.

        All, where it also had another number of dimensions: then sizes are likely to change as well.
        """
        if any(other == text and number != dims for other, number in self.sizes):
            return frozenset(range(dims))
        return frozenset(d for d, size in enumerate(self.sizes[text, dims]) if size is None)

    def any_stride_changed(self, text: str, dims: int) -> bool:
        return None in self.strides[text, dims]

    def stride_changed(self, text: str, dims: int, dim: int) -> bool:
        known = self.strides.get((text, dims), ())
        return dim < len(known) and known[dim] is None


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes and strides of an input, some of which are symbols."""

    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]

    @property
    def expected_sizes(self) -> tuple[int | None, ...]:
        """None for what a guard says elsewhere."""
        return tuple(size if type(size) is int else None for size in self.sizes)

    @property
    def expected_strides(self) -> tuple[int | None, ...]:
        return tuple(stride if type(stride) is int else None for stride in self.strides)


class Computed:
    """A function of numbers, from its text. Without weak references, so that regions hold it."""

    __slots__ = ("_call", "template")

    def __init__(self, template: str, count: int) -> None:
        self.template = template
        names = [f"n{at}" for at in range(count)]
        self._call = eval(f"lambda {', '.join(names)}: {template.format(*names)}", dict(_LIBRARY))

    def __call__(self, *numbers: Any) -> Any:
        return self._call(*numbers)

    def __repr__(self) -> str:
        return f"<{self.template}>"


class Shapes:
    """The symbols of one capture.

    hold: makes a constant of the region, with a name of its own.
    """

    def __init__(self, env: ShapeEnv, hold: Callable[[object, str], Held]) -> None:
        self.env = env
        self._hold = hold
        self._functions: dict[str, Computed] = {}
        #: where the number that a symbol stands for is found, and the line at which it was first looked at
        self.sources: dict[Symbol, Source] = {}
        self._first_line: dict[Symbol, UserLine | None] = {}
        self._given: set[Source] = set()
        #: the line behind each guard of the environment
        self._lines: list[UserLine | None] = []
        #: by the identity of the real tensor
        self.layouts: dict[int, Layout] = {}
        self.inputs: dict[int, Source] = {}
        self._numbers: dict[Source, Size] = {}
        #: sizes that the program marked dynamic: what is found there, the size, and where it was looked at first
        self._marked: list[tuple[Source, Size, UserLine | None]] = []
        self._outside: list[str] = []

    @property
    def used(self) -> bool:
        return bool(self.sources or self._marked)

    def note(self, line: UserLine | None) -> None:
        """What the environment has decided by now is needed by this line."""
        self._lines += [line] * (len(self.env.guards) - len(self._lines))

    # symbols --------------------------------------------------------------------------------------------------------
    def layout(
        self,
        tensor: torch.Tensor,
        source: Source,
        dims: frozenset[int],
        history: History,
        line: UserLine | None,
        marks: Marks | None = None,
    ) -> Layout | None:
        """Symbols for these dimensions of a tensor; None where all of them are 0 or 1, which stay numbers."""
        known = self.layouts.get(id(tensor))
        if known is not None:
            return known
        shape = Attr(source, "shape")
        sizes = tuple(
            self._new(size, Item(shape, d), line, marks.range_of(d, size) if marks is not None else _ANY)
            if d in dims
            else size
            for d, size in enumerate(tensor.shape)
        )
        if marks is not None:
            self._marked += [(Item(shape, d), sizes[d], line) for d in sorted(marks.dynamic)]
            self._outside += [
                f"{Item(shape, d)} is {tensor.shape[d]}, outside of the range that it was marked with"
                for d in sorted(marks.dynamic & marks.ranges.keys())
                if marks.range_of(d, tensor.shape[d]) != marks.ranges[d]
            ]
        strides = self._strides(tensor, source, sizes, history, line)
        if all(type(number) is int for number in (*sizes, *strides)):
            return None
        self.inputs[id(tensor)] = source
        layout = self.layouts[id(tensor)] = Layout(sizes, strides)
        return layout

    def _new(
        self,
        value: int,
        source: Source,
        line: UserLine | None,
        within: tuple[int | None, int | None] = _ANY,
        *,
        is_size: bool = True,
    ) -> Size:
        made = new_symbol(self.env, value, str(source), within, is_size=is_size)
        if type(made) is not int:
            self._register(made, source, line)
        return made

    def _register(self, made: Any, source: Source, line: UserLine | None) -> None:
        symbol = expression(made)
        self.sources[symbol], self._first_line[symbol] = source, line
        self._given.add(source)

    def _strides(
        self, tensor: torch.Tensor, source: Source, sizes: Sequence[Size], history: History, line: UserLine | None
    ) -> tuple[Size, ...]:
        """Products of inner sizes where they are such; a number where it always was that; else symbols of their own."""
        strides: list[Size] = list(tensor.stride())
        products: dict[int, Size] = {}
        for d in sorted(range(tensor.dim()), key=lambda d: (strides[d], -d)):
            value = tensor.stride(d)
            if value in products:
                strides[d] = products[value]
            elif history.stride_changed(str(source), tensor.dim(), d):
                strides[d] = self._new(value, Item(self._stride(source), d), line)
            products.setdefault(value * tensor.shape[d], strides[d] * sizes[d])
        return tuple(strides)

    def has_floats(self) -> bool:
        return any(isinstance(number, torch.SymFloat) for number in self._numbers.values())

    def number(self, value: float, source: Source, line: UserLine | None) -> Size:
        """A symbol for a number from outside, always the same for the same source."""
        if source not in self._numbers:
            if isinstance(value, float):
                self._numbers[source] = made = new_float_symbol(self.env, value, str(source))
                self._register(made, source, line)
            else:
                self._numbers[source] = self._new(value, source, line, is_size=False)
        return self._numbers[source]

    def stands_for(self, source: Source) -> bool:
        """Is this what a symbol stands for?"""
        return source in self._given

    def _stride(self, source: Source) -> Source:
        return Call(self._hold(torch.Tensor.stride, ""), (source,))

    # expressions ----------------------------------------------------------------------------------------------------
    def source_of(self, expr: Expression) -> Source:
        """Python for an expression over symbols."""
        known = self.sources.get(expr)
        if known is not None:
            return known
        symbols = symbols_in(expr)
        places = {symbol: f"{{{at}}}" for at, symbol in enumerate(symbols)}
        text = printed(expr, places.__getitem__)
        parts = tuple(self.sources[symbol] for symbol in symbols)
        if not re.search(r"[A-Za-z_]\w*", re.sub(r"\b(?:and|or|not)\b", "", text)):
            return Formula(text, parts)
        function = self._functions.setdefault(text, Computed(text, len(parts)))
        return Call(self._hold(function, "formula"), parts)

    def in_words(self, message: str) -> str:
        """A message of torch's, with what its symbols stand for: `s3*4` is `x.shape[0]*4`."""
        if not self.sources:
            return message
        names = {str(symbol): str(source) for symbol, source in self.sources.items()}
        return re.sub(r"\b[a-z]+\d+\b", lambda word: names.get(word[0], word[0]), message)

    def overruled(self) -> list[str]:
        """In words, each size that was marked dynamic and is one number all the same."""
        found = [*self._outside]
        for source, size, line in self._marked:
            if type(size) is int:
                found.append(f"{source} is {size}: 0 and 1 are always compiled apart")
            elif is_number(expr := expression(size)):
                at = self._line_of(size) or line
                found.append(f"{source} is always {int(expr)}" + ("" if at is None else f", needed by {at}"))
        return found

    # guards ---------------------------------------------------------------------------------------------------------
    def guards(self) -> tuple[Guard, ...]:
        """All that must hold of the symbols: to be asked once the graph is compiled."""
        found: dict[Source, UserLine | None] = {}
        for key, layout in self.layouts.items():
            self._layout_guards(self.inputs[key], layout, found)
        self._number_guards(found)
        for symbol, source in self.sources.items():  # before what may divide by it
            self._range_guards(symbol, source, found)
        lines = [*self._lines, *[None] * (len(self.env.guards) - len(self._lines))]
        for expr, line in zip(decisions(self.env), lines, strict=True):
            tidy = tidied(self.env, expr)
            if tidy is not None:
                found.setdefault(self.source_of(tidy), line)
        return tuple(Guard(Kind.SHAPE, weakened(source), None, line) for source, line in found.items())

    def _layout_guards(self, source: Source, layout: Layout, found: dict[Source, UserLine | None]) -> None:
        for d, size in enumerate(layout.sizes):
            if type(size) is not int:
                self._same(Item(Attr(source, "shape"), d), size, found)
        strides = {d: stride for d, stride in enumerate(layout.strides) if type(stride) is not int}
        if strides and _is_contiguous(layout):
            contiguous = Call(self._hold(torch.Tensor.is_contiguous, ""), (source,))
            found[contiguous] = self._line_of(next(iter(strides.values())))
            strides = {d: stride for d, stride in strides.items() if type(size := layout.sizes[d]) is int and size == 1}
        for d, stride in strides.items():
            self._same(Item(self._stride(source), d), stride, found)

    def _number_guards(self, found: dict[Source, UserLine | None]) -> None:
        for source, number in self._numbers.items():
            if type(number) is not int:
                self._same(source, number, found)

    def _same(self, source: Source, number: Any, found: dict[Source, UserLine | None]) -> None:
        """What stands there is what capture took it for: the symbol's own number, or what replaced the symbol."""
        expr = expression(number)
        if self.sources.get(expr) == source:
            return
        if is_number(expr):
            found[Formula(f"{{0}} == {number_in(number)!r}", (source,))] = self._line_of(number)
            return
        other = self.source_of(expr)
        found[Formula("{0} == {1}", (source, other))] = self._line_of(number)

    def _range_guards(self, symbol: Symbol, source: Source, found: dict[Source, UserLine | None]) -> None:
        if symbol in self.env.replacements:
            return  # what replaced it is asked
        lower, upper = bounds(self.env, symbol)
        line = self._line_about(symbol)
        if lower is not None and upper is not None:
            found.setdefault(Formula(f"{lower} <= {{0}} <= {upper}", (source,)), line)
        elif lower is not None:
            found.setdefault(Formula(f"{{0}} >= {lower}", (source,)), line)
        elif upper is not None:
            found.setdefault(Formula(f"{{0}} <= {upper}", (source,)), line)

    def _line_about(self, symbol: Symbol) -> UserLine | None:
        """The line which first decided anything about this symbol alone, or looked at it."""
        for expr, line in zip(decisions(self.env), self._lines, strict=False):
            if line is not None and expr.free_symbols == {symbol}:
                return line
        return self._first_line[symbol]

    def _line_of(self, number: Any) -> UserLine | None:
        """The line which decided what this symbol is, or looked at it first."""
        raw = symbols_in(raw_expression(number))
        for expr, line in zip(decisions(self.env), self._lines, strict=False):
            if line is not None and not expr.free_symbols.isdisjoint(raw):
                return line
        return next((self._first_line[s] for s in raw if s in self._first_line), None)


def _is_contiguous(layout: Layout) -> bool:
    """Does `is_contiguous()` say all of the strides of dimensions that are not 1?"""
    expected: Any = 1
    for size, stride in zip(reversed(layout.sizes), reversed(layout.strides), strict=True):
        if type(size) is int and size == 0:
            return False  # whatever the strides then are, it is contiguous
        if type(size) is int and size == 1:
            continue
        if not _equal(stride, expected):
            return False
        expected = expected * size
    return True


def _equal(a: Any, b: Any) -> bool:
    """Are these the same expression? Asked without deciding anything."""
    left = a if type(a) is int else expression(a)
    right = b if type(b) is int else expression(b)
    return bool(left == right)
