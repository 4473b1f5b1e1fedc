"""The fake tensor mode of a capture, and what operators do to fake tensors.

A fake tensor has everything of a real one but its values. `ObservingFakeMode` sees each operator below torch's
composite layer, and so knows exactly what the call of any torch function wrote, drew from a generator, or did besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..random_state import RandomState
from ..torch_private import (
    DEVICE_OF,
    HIGHER_ORDER,
    FakeTensor,
    FakeTensorMode,
    ShapeEnv,
    Traits,
    fake_higher_order,
    operator_traits,
)
from .fake_rules import RULES

META_DEVICE = torch.device("meta")
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

    supports_higher_order_operators = True

    def __init__(self, shape_env: ShapeEnv) -> None:
        super().__init__(shape_env=shape_env, static_shapes=True)
        self.observed = Observed()
        self._allow_unsafe_data_ptr_access = False  # a null pointer must not be taken for an address

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch wraps `__torch_dispatch__` so that TorchDynamo does not trace it: it costs as much as we do."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        if func is DEVICE_OF:  # asked several times in each operator
            return META_DEVICE if self.in_kernel_invocation else args[0].fake_device
        if isinstance(func, HIGHER_ORDER):
            return fake_higher_order(self, func, args, kwargs)
        kwargs = kwargs or {}
        traits = operator_traits(func)
        rule = RULES.get(func) if not (kwargs or self.in_kernel_invocation) else None
        known = None if rule is None else rule(self, *args)
        if traits is not None:
            self._observe(traits, args, kwargs)
        if known is not None:
            return known
        if traits is None:
            return self.dispatch(func, types, args, kwargs)
        # Without a fake kernel the real one runs, on zeros: it must not advance the program's generators.
        state = RandomState() if traits.random else None
        try:
            return self.dispatch(func, types, args, kwargs)
        finally:
            if state is not None:
                state.give_back()

    def _observe(self, traits: Traits, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        observed = self.observed
        observed.effect |= traits.effect
        if traits.random:
            observed.random |= traits.unless_zero is None or _argument(traits.unless_zero, args, kwargs) != 0.0
        if traits.training is not None and _argument(traits.training, args, kwargs) is False:
            return
        for place in traits.written:
            value = _argument(place, args, kwargs)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, FakeTensor):
                    observed.written.append((tensor, metadata(tensor), tensor.constant is not None))


def _argument(place: tuple[int, str], args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """None where it was left to its default. The default of every dropout_p is zero."""
    position, name = place
    value = args[position] if position < len(args) else kwargs.get(name)
    return 0.0 if value is None and name == "dropout_p" else value
