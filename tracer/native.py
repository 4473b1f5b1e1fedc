"""Checks of tensors and of storage overlap: torch's native ones, and the same in plain Python.

`TensorGuards` of torch is fast and sees most of what matters; what it does not see is added: whether a tensor is a
leaf. The global state is in `global_state.py`. `TORCHGRAFT_NATIVE=0` in the environment selects the fallbacks of both,
as does a torch without the native checks; both ways refuse the same.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, count
from operator import ne
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .errors import InternalError
from .holding import weak_reference
from .torch_private import GlobalStateGuard, TensorGuards, dispatch_keys, thread_dispatch_keys

HAS_NATIVE = TensorGuards is not None and GlobalStateGuard is not None

USE_NATIVE = HAS_NATIVE and os.environ.get("TORCHGRAFT_NATIVE") != "0"

Check = Callable[..., bool]


@dataclass(frozen=True, slots=True, eq=False)
class TensorFacts:
    """What a graph takes for granted of a tensor; holds the tensor itself weakly."""

    type: type[Any]
    dtype: torch.dtype
    device: torch.device
    shape: tuple[int | None, ...]  # None: SHAPE guards say what it may be
    stride: tuple[int | None, ...]
    requires_grad: bool
    keys: int
    thread_keys: tuple[int, int]  # dispatch keys that the thread adds and takes away
    conjugate: bool
    negative: bool
    leaf: bool | None  # None: either will do
    reference: Callable[[], torch.Tensor | None] = field(repr=False)

    @classmethod
    def of(cls, tensor: torch.Tensor, *, leaves: bool = True, layout: Any = None) -> TensorFacts:
        """layout: its sizes and strides, where some of them are symbols (`graph/shapes.py`)."""
        if tensor.layout is not torch.strided or is_traceable_wrapper_subclass(tensor):
            raise InternalError(f"no tensor guard for a {tensor.layout} {type(tensor).__qualname__}")
        reference = weak_reference(tensor)
        assert reference is not None
        # What was captured of a parameter that is a leaf holds for any: in-place changes under autograd were an error.
        either = not leaves or not tensor.requires_grad or (type(tensor) is torch.nn.Parameter and tensor.is_leaf)
        shape = tuple(tensor.shape) if layout is None else layout.expected_sizes
        stride = tensor.stride() if layout is None else layout.expected_strides
        return cls(
            type(tensor), tensor.dtype, tensor.device, shape, stride,
            tensor.requires_grad, dispatch_keys(tensor), thread_dispatch_keys(), tensor.is_conj(), tensor.is_neg(),
            None if either else tensor.is_leaf, reference,
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.type.__name__} {self.dtype} {_sizes(self.shape)} on {self.device}"

    def differences(self, value: object) -> list[str]:
        """In words, how a value differs from these facts; the first is the plainest."""
        return [f"{name} {fact(now)}, was {fact(before)}" for name, before, now in self.changes(value)]

    def changes(self, value: object) -> list[tuple[str, Any, Any]]:
        """What a value has otherwise: each fact's name, what it was and what it is."""
        if type(value) is not self.type:
            return [("type", self.type.__qualname__, type(value).__qualname__)]
        assert isinstance(value, torch.Tensor)
        if value.layout is not torch.strided:
            return [("layout", torch.strided, value.layout)]
        now = TensorFacts.of(value)
        names = ("dtype", "device", "shape", "stride", "requires_grad", "conjugate", "negative", "keys", "thread_keys")
        found: list[tuple[str, Any, Any]] = []
        for name in names:
            before, after = getattr(self, name), getattr(now, name)
            if name in ("shape", "stride"):
                if not _fits(after, before):
                    found.append((name, before, after))
            elif before != after:
                found.append((name, before, after))
        if self.leaf is not None and value.is_leaf != self.leaf:
            found.append(("is_leaf", self.leaf, value.is_leaf))
        return found


def tensors_check(facts: Sequence[TensorFacts], *, native: bool = USE_NATIVE, leaves: bool = True) -> Check:
    """`check(*tensors)`: are these different tensors, each as its facts say, in a thread with these dispatch keys?

    To be made in the global state that the region was captured in.  leaves=False: whoever calls looks at `is_leaf`.
    """
    tensors = [f.reference() for f in facts]
    if not leaves:
        facts = [replace(f, leaf=None) for f in facts]
    if not native or not HAS_NATIVE or any(t is None for t in tensors):
        return _plain_tensors_check(facts)
    check: Check = TensorGuards(
        *tensors,
        dynamic_dims_sizes=[list(f.shape) for f in facts],
        dynamic_dims_strides=[list(f.stride) for f in facts],
    ).check
    known = [(position, f.leaf) for position, f in enumerate(facts) if f.leaf is not None]
    return _with_leaves(check, known) if known else check


def _with_leaves(check: Check, leaves: list[tuple[int, bool]]) -> Check:
    def check_with_leaves(*tensors: Any) -> bool:
        return check(*tensors) and all(tensors[position].is_leaf is leaf for position, leaf in leaves)

    return check_with_leaves


def _plain_tensors_check(facts: Sequence[TensorFacts]) -> Check:
    facts = tuple(facts)

    def check(*tensors: Any) -> bool:
        if len(tensors) != len(facts) or len(set(map(id, tensors))) != len(tensors):
            return False
        thread_keys = thread_dispatch_keys()
        if any(f.thread_keys != thread_keys for f in facts):
            return False
        return all(map(_matches, tensors, facts))

    return check


def _fits(numbers: Sequence[int], expected: Sequence[int | None]) -> bool:
    """Are these sizes or strides as they were, where that matters?"""
    if numbers == expected:
        return True
    return len(numbers) == len(expected) and all(b is None or a == b for a, b in zip(numbers, expected, strict=True))


def fact(value: Any) -> str:
    """A fact about a tensor in words."""
    return _sizes(value) if isinstance(value, tuple) else str(value)


def _sizes(expected: Sequence[int | None]) -> str:
    return f"({', '.join('any' if n is None else str(n) for n in expected)}{',' if len(expected) == 1 else ''})"


def _matches(tensor: Any, facts: TensorFacts) -> bool:
    return (
        type(tensor) is facts.type
        and dispatch_keys(tensor) == facts.keys
        and tensor.layout is torch.strided
        and _fits(tensor.shape, facts.shape)
        and tensor.dtype is facts.dtype
        and _fits(tensor.stride(), facts.stride)
        and tensor.device == facts.device
        and tensor.requires_grad is facts.requires_grad
        and tensor.is_conj() is facts.conjugate
        and tensor.is_neg() is facts.negative
        and (facts.leaf is None or tensor.is_leaf is facts.leaf)
    )


# storage overlap ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Overlap:
    """Which of some tensors share memory: how many bytes each spans, and (i, j, bytes from i to j) of each pair.

    measured: their sizes differ from call to call, so what they span is looked at anew.
    """

    extents: tuple[int, ...]
    pairs: tuple[tuple[int, int, int], ...]
    measured: bool = False

    @classmethod
    def of(cls, tensors: Sequence[torch.Tensor], *, measured: bool = False) -> Overlap:
        extents = tuple(map(_extent, tensors))
        return cls(extents, _overlapping([t.data_ptr() for t in tensors], extents), measured)

    def checker(self) -> Check:
        """Do these tensors, whose shapes and strides were checked, overlap exactly so? A function that asks this.

        It knows where the tensors lay that it looked at last: of a model's hundreds the same ones are given again.
        """
        if self.measured:
            return self._overlap_just_so
        known = _Known(self)

        def check(*tensors: torch.Tensor) -> bool:
            nonlocal known
            starts = list(map(_data_ptr, tensors))
            if starts == known.starts or known.stays_apart(starts):
                return True
            if _overlapping(starts, self.extents) != self.pairs:
                return False
            known = _Known(self, starts)
            return True

        return check


    def _overlap_just_so(self, *tensors: torch.Tensor) -> bool:
        return _overlapping([*map(_data_ptr, tensors)], [*map(_extent, tensors)]) == self.pairs


_data_ptr = torch.Tensor.data_ptr
_FEW = 8


class _Known:
    """Where tensors lay that overlapped as they should. Never changed, since several threads may ask it."""

    def __init__(self, overlap: Overlap, starts: Sequence[int] = ()) -> None:
        self.starts = list(starts)
        self._extents = overlap.extents
        spans = sorted((s, s + n) for s, n in zip(starts, overlap.extents, strict=False) if n and not overlap.pairs)
        self._begins = [begin for begin, _ in spans]
        self._ends = [end for _, end in spans]

    def stays_apart(self, starts: Sequence[int]) -> bool:
        """Did only a few of the tensors move, to where none of them lies or lay? Only where none may overlap."""
        if not self._begins:
            return False
        moved = [*compress(count(), map(ne, starts, self.starts))]
        if len(moved) > _FEW:
            return False
        spans = sorted((starts[i], starts[i] + self._extents[i]) for i in moved if self._extents[i])
        for (begin, end), before in zip(spans, [(0, 0), *spans], strict=False):
            at = bisect_right(self._begins, begin)
            if before[1] > begin or (at and self._ends[at - 1] > begin):
                return False
            if at < len(self._begins) and self._begins[at] < end:
                return False
        return True


def _extent(tensor: torch.Tensor) -> int:
    """How many bytes a tensor spans, from its first element to behind its last."""
    if tensor.numel() == 0:
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (1 + last) * tensor.dtype.itemsize


def _overlapping(starts: Sequence[int], extents: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    order = sorted((i for i, extent in enumerate(extents) if extent), key=starts.__getitem__)
    found = []
    for at, i in enumerate(order):
        end = starts[i] + extents[i]
        for j in order[at + 1 :]:
            if starts[j] >= end:
                break
            found.append((i, j, starts[j] - starts[i]) if i < j else (j, i, starts[i] - starts[j]))
    return tuple(sorted(found))
