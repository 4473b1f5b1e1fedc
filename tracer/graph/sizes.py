"""Nodes of a graph that compute sizes: read off its inputs, at its head, before anything is written or resized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ..errors import InternalError
from ..torch_symbols import (
    SIZE_OF,
    STRIDE_OF,
    Expression,
    NoNodes,
    Symbol,
    expression,
    is_number,
    is_unbacked,
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
        #: symbols of what is computed in the graph: sizes made of them cannot stand at its head
        self._late: set[Symbol] = set()

    def found_in(self, node: torch.fx.Node, layout: Layout) -> None:
        """This input has these sizes and strides."""
        for reads, numbers in ((SIZE_OF, layout.sizes), (STRIDE_OF, layout.strides)):
            for dim, number in enumerate(numbers):
                if type(number) is not int:
                    self.homes.setdefault(expression(number), (reads, node, dim))

    def is_input(self, number: Any, node: torch.fx.Node) -> None:
        """This input is the number."""
        self.homes[expression(number)] = (None, node, 0)

    def is_computed(self, number: Any, node: torch.fx.Node) -> None:
        """This node of the graph gives the number, which depends on a tensor's values."""
        self.homes[expression(number)] = (None, node, 0)
        self._late.add(expression(number))

    def is_computed_with(self, node: torch.fx.Node, sizes: Sequence[Any]) -> None:
        """This node gives a tensor of these sizes, some of which may depend on a tensor's values."""
        for dim, size in enumerate(sizes):
            expr = None if type(size) is int or not is_unbacked(size) else expression(size)
            if expr is not None and expr.is_Symbol and expr not in self.homes:
                self.homes[expr] = (SIZE_OF, node, dim)
                self._late.add(expr)

    def knows(self, number: Any) -> bool:
        """Is there something that gives all that the number is made of?"""
        return all(symbol in self.homes for symbol in symbols_in(expression(number)))

    def computed_since(self, mark: tuple[int, int, int]) -> bool:
        return any(symbol in self._late for symbol in [*self.homes][mark[0] :])

    def of(self, number: Any, last_input: torch.fx.Node | None) -> torch.fx.Node | int | float:
        """The node of a symbolic number; the number itself, where that is known by now."""
        expr = expression(number)
        if is_number(expr):
            return number_in(number)
        return self.of_expression(expr, last_input)

    def of_expression(self, expr: Expression, last_input: torch.fx.Node | None) -> torch.fx.Node:
        known = self._made.get(expr)
        if known is not None:
            return known
        if not self._late.isdisjoint(symbols_in(expr)):
            return self._behind_all(expr, last_input)
        symbols = {symbol: self._symbol(symbol, last_input) for symbol in symbols_in(expr)}
        if expr in symbols:
            return symbols[expr]
        made = self._insert(lambda: nodes_of(self._graph, expr, symbols), last_input)
        self._made[expr] = made
        return made

    def _behind_all(self, expr: Expression, last_input: torch.fx.Node | None) -> torch.fx.Node:
        """Computed where the graph has got to, each time."""
        early = {s: self._symbol(s, last_input) for s in symbols_in(expr) if s not in self._late}
        node = next(reversed(self._graph.nodes))
        symbols = {s: early[s] if s in early else self._read(*self.homes[s]) for s in symbols_in(expr)}
        made = symbols[expr] if expr in symbols else nodes_of(self._graph, expr, symbols)
        while (node := node.next).op != "root":
            self._nodes.append(node)
        return made

    def _read(self, reads: Callable[..., Any] | None, node: torch.fx.Node, dim: int) -> torch.fx.Node:
        return node if reads is None else self._graph.call_function(reads, (node, dim))

    def _symbol(self, symbol: Symbol, last_input: torch.fx.Node | None) -> torch.fx.Node:
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

    def _insert(self, make: Callable[[], torch.fx.Node], last_input: torch.fx.Node | None) -> torch.fx.Node:
        """Behind the last of them, or behind the inputs."""
        last = self._head[-1] if self._head else last_input
        if last is None:
            raise InternalError("a size is read off no input")
        anchor = last.next
        try:
            with self._graph.inserting_before(anchor):
                made = make()
        except NoNodes:
            while anchor.prev is not last:
                self._graph.erase_node(anchor.prev)
            raise
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
