"""Fake tensors of a capture: how they are made from real ones, and what operators do to them.

A fake tensor has everything of a real one but its values. `ObservingFakeMode` sees each operator below torch's
composite layer, and so knows exactly what the call of any torch function wrote, drew from a generator, or did besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import GraphBreak
from ..torch_private import FakeTensor, FakeTensorMode, ShapeEnv, is_transformed, operator_traits

#: what a mark cannot give back once an operator changed it in place
Metadata = tuple[Any, ...]


def metadata(fake: torch.Tensor) -> Metadata:
    return (fake.shape, fake.stride(), fake.storage_offset(), fake.dtype, fake.requires_grad)


@dataclass(slots=True)
class Observed:
    """What one call did beside computing its results."""

    random: bool = False
    effect: bool = False
    #: tensors that were written, each with its metadata before that, and whether torch knew its value
    written: list[tuple[torch.Tensor, Metadata, bool]] = field(default_factory=list)

    @property
    def anything(self) -> bool:
        return self.random or self.effect or bool(self.written)


class ObservingFakeMode(FakeTensorMode):
    """A fake mode that notes what the operators of the current call do. One per capture, used by one thread."""

    def __init__(self, shape_env: ShapeEnv) -> None:
        super().__init__(shape_env=shape_env, static_shapes=True)
        self.observed = Observed()

    def dispatch(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        random, effect, written = operator_traits(func)
        # A fallback runs the real kernel on zeros, which would advance the real generator.
        self.allow_fallback_kernels = not random
        if random or effect or written:
            self._observe(random, effect, written, args, kwargs)
        return super().dispatch(func, types, args, kwargs)

    def _observe(
        self,
        random: bool,
        effect: bool,
        written: tuple[tuple[int, str], ...],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> None:
        observed = self.observed
        observed.random |= random
        observed.effect |= effect
        for position, name in written:
            value = args[position] if position < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, FakeTensor):
                    observed.written.append((tensor, metadata(tensor), tensor.constant is not None))


#: a parameter or buffer of a plain module and what users make; any other subclass may override operators
PLAIN_TYPES = frozenset([torch.Tensor, torch.nn.Parameter, torch.nn.Buffer])


def refuse_input(tensor: torch.Tensor) -> None:
    """Raise GraphBreak for a real tensor that a fake one cannot stand for truthfully."""
    if type(tensor) not in PLAIN_TYPES and not _is_plain_subclass(type(tensor)):
        raise GraphBreak(
            "tensor subclass", type(tensor).__qualname__, "only torch.Tensor, Parameter and Buffer can enter a graph"
        )
    if tensor.layout is not torch.strided:
        raise GraphBreak("tensor without strides", str(tensor.layout), "use dense tensors in compiled code")
    if tensor.is_quantized:
        raise GraphBreak("quantized tensor", str(tensor.dtype), "")
    if tensor.is_nested:
        raise GraphBreak("nested tensor", "", "")
    if is_transformed(tensor):
        raise GraphBreak("tensor of a functorch transform", "vmap, grad or jvp", "compile the whole transform")


def _is_plain_subclass(kind: type) -> bool:
    """Parameter and Buffer decide by a metaclass; a subclass of Parameter that overrides nothing is as plain as it."""
    return (
        issubclass(kind, torch.nn.Parameter)
        and getattr(kind, "__torch_function__", None) is torch.nn.Parameter.__torch_function__
        and getattr(kind, "__torch_dispatch__", None) is torch.Tensor.__torch_dispatch__
    )


def fake_of(mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor:
    """The fake that stands for a real tensor; tensors that share storage get fakes that share storage."""
    refuse_input(tensor)
    return mode.from_tensor(tensor, static_shapes=True)
