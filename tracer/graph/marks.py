"""What a program says of a tensor's sizes: the marks of `mark_dynamic` and its like, torch's own among them.

They are kept where torch keeps them, in attributes of the tensor, so that one set of marks serves both compilers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

#: names of a tensor's attributes: sets of dimensions
DYNAMIC = "_dynamo_dynamic_indices"
MAYBE_DYNAMIC = "_dynamo_weak_dynamic_indices"
STATIC = "_dynamo_static_indices"
#: nothing may be decided by such a size under torch.compile; here it is dynamic, and 0 and 1 stay apart
UNBACKED = "_dynamo_unbacked_indices"
#: what AOTAutograd says of the results of a graph with symbols
PROPAGATED = "_dynamo_propagated_dynamic_indices"
RANGES = "_dynamo_dynamic_range"
_SETS = (DYNAMIC, MAYBE_DYNAMIC, STATIC, UNBACKED, PROPAGATED)


@dataclass(frozen=True)
class DimRange:
    """The sizes that a dimension may have; None for no bound."""

    dim: int
    min: int | None
    max: int | None


@dataclass(frozen=True)
class Marks:
    """Of one tensor. dynamic: as the program says.  likely: so that they may become numbers again.  ranges: by dim."""

    dynamic: frozenset[int]
    likely: frozenset[int]
    static: frozenset[int]
    ranges: dict[int, tuple[int | None, int | None]]

    def range_of(self, dim: int, size: int) -> tuple[int | None, int | None]:
        """The range of a dimension; without bounds where the size that is there lies outside."""
        lower, upper = self.ranges.get(dim, (None, None))
        inside = (lower is None or lower <= size) and (upper is None or size <= upper)
        return (lower, upper) if inside else (None, None)

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Marks | None:
        """None for a tensor without any."""
        found = tensor.__dict__
        if not found:
            return None
        dims = {name: frozenset(d for d in found.get(name, ()) if 0 <= d < tensor.dim()) for name in _SETS}
        if not any(dims.values()):
            return None
        ranges = {r.dim: (r.min, r.max) for r in found.get(RANGES, ())}
        dynamic = dims[DYNAMIC] | dims[UNBACKED]
        return cls(dynamic, (dims[MAYBE_DYNAMIC] | dims[PROPAGATED]) - dims[STATIC], dims[STATIC] - dynamic, ranges)


def mark(tensor: torch.Tensor, name: str, dims: Iterable[int]) -> None:
    """Add dimensions to one of these sets; negative ones count from the end."""
    known = set(tensor.__dict__.get(name, ()))
    for dim in dims:
        if not -tensor.dim() <= dim < tensor.dim():
            raise IndexError(f"dimension {dim} of a tensor of {tensor.dim()} dimensions")
        known.add(dim % tensor.dim())
    setattr(tensor, name, known)
    tensor._has_dynamo_dim_marking = True
