"""Batches of a few sizes: a smaller batch is filled up to the next of `replay_sizes`, and its results are cut.

Only where the graph keeps the rows of its batch apart (`rows.py`), the batch is the only size that changes, and all
that was decided about it at the compile holds for the size that is filled up to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...graph.fx_capture import FxCapture, GraphNumber, GraphTensor
from ...torch_symbols import SYMBOLIC, Symbol, expression, holds_at, symbols_in
from .rows import why_rows_meet
from .site import Site


class Buckets:
    """Around a site. `sizes`: those that may be filled up to."""

    def __init__(self, site: Site, plain: Callable[..., Sequence[Any]], capture: FxCapture, symbol: Symbol) -> None:
        self._site, self._plain = site, plain
        self._batched = tuple(at for at, given in enumerate(capture.inputs) if _is_batched(given, symbol))
        self._cut = tuple(bool(out.shape) and _depends(out.shape[0], symbol) for out in capture.outputs)
        self._lock = threading.Lock()
        self._buffers: dict[int, list[torch.Tensor]] = {}
        self.sizes: tuple[int, ...] = ()

    def __call__(self, *given: Any) -> Sequence[Any]:
        rows = given[self._batched[0]].shape[0]
        size = next((size for size in self.sizes if size >= rows), None)
        if size is None or size == rows:
            return self._site(*given)
        if not self._lock.acquire(blocking=False):
            return self._plain(*given)
        try:
            results = self._site(*self._filled(given, rows, size))
        finally:
            self._lock.release()
        return tuple(
            result.narrow(0, 0, rows) if cut else result for result, cut in zip(results, self._cut, strict=True)
        )

    def _filled(self, given: Sequence[Any], rows: int, size: int) -> list[Any]:
        """The rows behind hold what was there before, or zeros: valid numbers, indices too."""
        buffers = self._buffers.get(size)
        if buffers is None:
            with torch.inference_mode(False):
                buffers = [given[at].new_zeros((size, *given[at].shape[1:])) for at in self._batched]
            self._buffers[size] = buffers
            self._site.padding_bytes += sum(buffer.untyped_storage().nbytes() for buffer in buffers)
        filled = list(given)
        for at, buffer in zip(self._batched, buffers, strict=True):
            buffer.narrow(0, 0, rows).copy_(given[at])
            filled[at] = buffer
        return filled

    def notes(self) -> list[str]:
        filled = f"region: batches are filled up to {', '.join(map(str, self.sizes))}"
        return [*([filled] if self.sizes else []), *self._site.notes()]


def the_batch(capture: FxCapture) -> Symbol | str:
    """The one symbol among the sizes; or why there can be no padding."""
    symbols = set()
    for given in capture.inputs:
        if isinstance(given, GraphNumber):
            symbols.update(symbols_in(expression(given.number)))
            continue
        for size in (*given.fake.shape, *given.fake.stride()):
            if isinstance(size, SYMBOLIC):
                symbols.update(symbols_in(expression(size)))
    if len(symbols) != 1:
        return "more than one size changes" if symbols else "no size changes"
    if capture.mutates_inputs or capture.uses_rng or capture.changes_state:
        return "the graph changes more than its results"
    if any(out.shares_with or out.same_as_input is not None for out in capture.outputs):
        return "a result shares memory with an input"
    [symbol] = symbols
    return why_rows_meet(capture.graph, symbol) or symbol


def usable(capture: FxCapture, symbol: Symbol, sizes: Sequence[int]) -> tuple[int, ...]:
    """Those for which all holds that was decided; to be asked once the graph is compiled."""
    return tuple(size for size in sizes if holds_at(capture.shape_env, symbol, size))


def _depends(size: Any, symbol: Symbol) -> bool:
    return isinstance(size, SYMBOLIC) and symbol in symbols_in(expression(size))


def _is_batched(given: Any, symbol: Symbol) -> bool:
    return isinstance(given, GraphTensor) and given.fake.dim() > 0 and _depends(given.fake.shape[0], symbol)
