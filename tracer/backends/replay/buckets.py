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
from .inputs import once, overlaps_itself
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
        self._order: Any = None
        self.sizes: tuple[int, ...] = ()

    def __call__(self, *given: Any) -> Sequence[Any]:
        rows = given[self._batched[0]].shape[0]
        size = next((size for size in self.sizes if size >= rows), None)
        if size is None or size == rows or self._site.off is not None:
            return self._site(*given)
        if not self._lock.acquire(blocking=False):
            return self._plain(*given)
        try:
            filled = self._filled(given, rows, size)
            results = self._site(*(given if filled is None else filled))
        finally:
            self._lock.release()
        return results if filled is None else self._shortened(results, rows)

    def _filled(self, given: Sequence[Any], rows: int, size: int) -> list[Any] | None:
        """The rows behind hold what was there before, or zeros: valid numbers, indices too.

        None where rows cannot be written one by one. Strides stay what they are: kernels were compiled for them.
        """
        buffers = self._buffers.get(size)
        if buffers is None:
            if any(overlaps_itself(given[at]) for at in self._batched):
                return None
            with torch.inference_mode(False):
                buffers = [_with_rows(given[at], size) for at in self._batched]
            self._buffers[size] = buffers
            self._site.padding_bytes += sum(buffer.untyped_storage().nbytes() for buffer in buffers)
        self._order = self._site.recorder.order(self._order, buffers[0].device)
        filled = list(given)
        for at, buffer in zip(self._batched, buffers, strict=True):
            once(buffer).narrow(0, 0, rows).copy_(once(given[at]))
            filled[at] = buffer
        return filled

    def _shortened(self, results: Sequence[Any], rows: int) -> tuple[Any, ...]:
        """Tensors that are no views, as without padding; those that share memory are views of the first of them."""
        bases: dict[int, torch.Tensor] = {}
        found = []
        for result, cut in zip(results, self._cut, strict=True):
            if cut:
                storage = result.untyped_storage()._cdata
                base, size = bases.get(storage), (rows, *result.shape[1:])
                if base is None or base.dtype != result.dtype:
                    result = result.narrow(0, 0, rows).data
                    bases.setdefault(storage, result)
                else:
                    result = base.as_strided(size, result.stride(), result.storage_offset())
            found.append(result)
        return tuple(found)

    def notes(self) -> list[str]:
        filled = f"region: batches are filled up to {', '.join(map(str, self.sizes))}"
        return [*([filled] if self.sizes else []), *self._site.notes()]


def the_batch(capture: FxCapture) -> Symbol | str:
    """The one symbol among the sizes; or why there can be no padding."""
    symbols = set()
    for given in capture.inputs:
        if isinstance(given, GraphNumber):
            return "a number changes"
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
    batched = [given for given in capture.inputs if isinstance(given, GraphTensor) and _is_batched(given, symbol)]
    if any(given.fake.stride()[0] == 0 for given in batched):
        return "the rows of an input are one"
    return why_rows_meet(capture.graph, symbol) or symbol


def usable(capture: FxCapture, symbol: Symbol, sizes: Sequence[int]) -> tuple[int, ...]:
    """Those for which all holds that was decided; to be asked once the graph is compiled."""
    return tuple(size for size in sizes if holds_at(capture.shape_env, symbol, size))


def _depends(size: Any, symbol: Symbol) -> bool:
    return isinstance(size, SYMBOLIC) and symbol in symbols_in(expression(size))


def _with_rows(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """Zeros laid out as this one, with so many rows."""
    size = (rows, *tensor.shape[1:])
    made = torch.empty_strided(size, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    made.untyped_storage().fill_(0)
    return made


def _is_batched(given: Any, symbol: Symbol) -> bool:
    return isinstance(given, GraphTensor) and given.fake.dim() > 0 and _depends(given.fake.shape[0], symbol)
