"""What a program says of the sizes of its tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..graph.marks import DYNAMIC, MAYBE_DYNAMIC, RANGES, STATIC, DimRange, mark

__all__ = ["mark_dynamic", "mark_static", "maybe_mark_dynamic"]

Dims = int | Sequence[int]


def mark_dynamic(t: torch.Tensor, index: Dims, *, min: int | None = None, max: int | None = None) -> None:
    """As torch._dynamo.mark_dynamic: these dimensions are symbols from the first capture on.

    index: one dimension or several.  min, max: the sizes that the region is for, both included; at least 2, since 0 and
    1 are compiled apart. A line of the program that needs one size, or a size outside of the range, is told in the log
    `tracer.recompiles`, and with `fullgraph=True` it is a `GraphBreak`.  Marks of torch's own function count as well.
    """
    dims = _dims(t, index)
    if any(bound is not None and type(bound) is not int for bound in (min, max)):
        raise TypeError(f"min and max are ints, not {min!r} and {max!r}")
    if min is not None and max is not None and min > max:
        raise ValueError(f"min={min} is more than max={max}")
    mark(t, DYNAMIC, dims)
    if min is not None or max is not None:
        ranges = {r for r in t.__dict__.get(RANGES, ()) if r.dim not in dims}
        setattr(t, RANGES, ranges | {DimRange(dim % t.dim(), min, max) for dim in dims})


def maybe_mark_dynamic(t: torch.Tensor, index: Dims) -> None:
    """As torch._dynamo.maybe_mark_dynamic: symbols from the first capture on, numbers again where a line needs one."""
    mark(t, MAYBE_DYNAMIC, _dims(t, index))


def mark_static(t: torch.Tensor, index: Dims | None = None) -> None:
    """As torch._dynamo.mark_static: these dimensions (None: all of them) never become symbols."""
    mark(t, STATIC, _dims(t, index))


def _dims(t: torch.Tensor, index: Dims | None) -> list[int]:
    """Those that are named; None: all of them."""
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"dimensions of tensors can be marked, not of {t!r}")
    if index is None:
        return list(range(t.dim()))
    dims = [index] if isinstance(index, int) else list(index)
    if any(type(dim) is not int for dim in dims):
        raise TypeError(f"a dimension is an int, not {index!r}")
    return dims
