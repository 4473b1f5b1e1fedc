"""The two that are measured: torchgraft and torch.compile, with a backend that counts and runs graphs as they are."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from constant import ready

import tracer

OPERATORS = ("call_function", "call_method", "call_module")


class CountingBackend:
    """Runs each graph's own forward; with `constant` it returns ready tensors, so that only the call itself costs."""

    def __init__(self) -> None:
        self.graphs = self.operators = 0
        self.constant = False

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs += 1
        self.operators += sum(node.op in OPERATORS for node in graph.graph.nodes)
        forward = graph.forward
        results: list[Any] = []

        def run(*inputs: Any) -> Any:
            if not self.constant:
                return forward(*inputs)
            if not results:
                (output,) = (node for node in graph.graph.nodes if node.op == "output")
                results.append(tuple(ready(node) for node in output.args[0]))
            return results[0]

        return run


class Side:
    """One of the two. Everything of earlier models is forgotten when it is made."""

    name: str

    def __init__(self, model: torch.nn.Module) -> None:
        self.backend = CountingBackend()
        self.model = model

    def breaks(self) -> list[dict[str, Any]]:
        """title, details, line and count of each."""
        raise NotImplementedError

    def troubles(self) -> list[str]:
        """What went wrong inside, and was told by logging only."""
        return []


class Ours(Side):
    name = "ours"

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        tracer.reset()
        self._told = _Told()
        tracer.compile(model, backend=self.backend)

    def breaks(self) -> list[dict[str, Any]]:
        """One with the same title, details and stack may be met in many functions: counted together."""
        rows: dict[tuple[str, ...], dict[str, Any]] = {}
        for met in self._told.breaks:
            where = " < ".join(map(str, reversed(met.stack)))
            row = {"title": met.title, "details": met.details, "line": where, "count": 0}
            rows.setdefault((met.title, met.details, where), row)["count"] += met.count
        return list(rows.values())

    def troubles(self) -> list[str]:
        numbers = tracer.counters()
        names = ("fallbacks", "guard_errors", "graph_failures")
        return [*self._told.errors, *(f"{numbers[name]} {name}" for name in names if numbers[name])]


class Theirs(Side):
    name = "theirs"

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        model.compile(backend=self.backend)

    def breaks(self) -> list[dict[str, Any]]:
        told: Counter[str] = torch._dynamo.utils.counters["graph_break"]
        return [{"title": text.split("\n")[0], "details": text, "line": "", "count": n} for text, n in told.items()]


class _Told(logging.Handler):
    """What is logged of breaks, and of errors with their tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.errors: list[str] = []
        #: records of breaks, which go on counting
        self.breaks: list[Any] = []
        for topic in ("errors", "breaks"):
            logger = logging.getLogger(f"tracer.{topic}")
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
            logger.handlers = [self]
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.errors.append(self.format(record))
        if record.name == "tracer.breaks":
            assert isinstance(record.args, tuple)
            self.breaks.append(record.args[1])
