"""Nodes of a graph that compute sizes: read off its inputs, at its head, before anything is written or resized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from ..errors import InternalError
from ..torch_symbols import (
    SIZE_OF,
    STRIDE_OF,
    Expression,
    Symbol,
    expression,
    is_number,
    nodes_of,
    number_in,
    symbols_in,
)
from .shapes import Layout

#: marks these nodes, which are no operators
SIZE_NODE = "torchgraft_size"
#: Where a symbol is found: what is called with an input and a dimension, or None for an input that is the number.
Home = tuple[Callable[..., Any] | None, torch.fx.Node, int]


class SizeNodes:
    """Those of one graph. `nodes`: the builder's list of all its nodes, to which each is added."""

    def __init__(self, graph: torch.fx.Graph, nodes: list[torch.fx.Node]) -> None:
        self._graph = graph
        self._nodes = nodes
        self.homes: dict[Symbol, Home] = {}
        self._made: dict[Expression, torch.fx.Node] = {}
        self._head: list[torch.fx.Node] = []

    def found_in(self, node: torch.fx.Node, layout: Layout) -> None:
        """This input has these sizes and strides."""
        for reads, numbers in ((SIZE_OF, layout.sizes), (STRIDE_OF, layout.strides)):
            for dim, number in enumerate(numbers):
                if type(number) is not int:
                    self.homes.setdefault(expression(number), (reads, node, dim))

    def is_input(self, number: Any, node: torch.fx.Node) -> None:
        """This input is the number."""
        self.homes[expression(number)] = (None, node, 0)

    def of(self, number: Any, last_input: torch.fx.Node) -> torch.fx.Node | int | float:
        """The node of a symbolic number; the number itself, where that is known by now."""
        expr = expression(number)
        if is_number(expr):
            return number_in(number)
        return self._of(expr, last_input)

    def _of(self, expr: Expression, last_input: torch.fx.Node) -> torch.fx.Node:
        known = self._made.get(expr)
        if known is not None:
            return known
        symbols = {symbol: self._symbol(symbol, last_input) for symbol in symbols_in(expr)}
        if expr in symbols:
            return symbols[expr]
        made = self._insert(lambda: nodes_of(self._graph, expr, symbols), last_input)
        self._made[expr] = made
        return made

    def _symbol(self, symbol: Symbol, last_input: torch.fx.Node) -> torch.fx.Node:
        known = self._made.get(symbol)
        if known is not None:
            return known
        if symbol not in self.homes:
            raise InternalError(f"no input of the graph gives {symbol}")
        reads, node, dim = self.homes[symbol]
        if reads is not None:
            target = reads
            node = self._insert(lambda: self._graph.call_function(target, (node, dim)), last_input)
        self._made[symbol] = node
        return node

    def _insert(self, make: Callable[[], torch.fx.Node], last_input: torch.fx.Node) -> torch.fx.Node:
        """Behind the last of them, or behind the inputs."""
        last = self._head[-1] if self._head else last_input
        anchor = last.next
        with self._graph.inserting_before(anchor):
            made = make()
        new = last.next
        while new is not anchor:
            new.meta[SIZE_NODE] = True
            self._head.append(new)
            self._nodes.append(new)
            new = new.next
        return made

    def mark(self) -> tuple[int, int, int]:
        return len(self.homes), len(self._made), len(self._head)

    def rollback(self, mark: tuple[int, int, int]) -> None:
        """The builder erases the nodes."""
        for known, length in zip((self.homes, self._made), mark, strict=False):
            while len(known) > length:
                known.popitem()
        del self._head[mark[2] :]
