"""Fakes for real tensors: the inputs and constants of a graph.

Torch's own conversion is exact for everything (views, history, shared storage), and takes 0.15 to 0.3 ms. Most inputs
are parameters and plain data that share nothing: for these a fake is made directly, in a tenth of the time.
"""

from __future__ import annotations

import re

import torch

from ..errors import GraphBreak, MustBeStatic
from ..torch_private import UNSUPPORTED, FakeTensor, FakeTensorMode, is_transformed, plain_fake, remember_fake
from .shapes import Layout

#: parameters and buffers of plain modules and what users make; any other subclass may override operators
PLAIN_TYPES = frozenset([torch.Tensor, torch.nn.Parameter, torch.nn.Buffer])

#: in a placeholder's `meta`: is the input a parameter or buffer?
STATE = "tracer_module_state"
#: `self._buffers["scale"]`, `self.__dict__["_buffers"]["scale"]`
_REGISTRY = re.compile(r"\b_(parameters|buffers)(['\"]\])?\[[^\[\]]*\]$")


def is_module_state(tensor: torch.Tensor, source_text: str) -> bool:
    """A parameter, or what a module has registered as a buffer: its source ends in the registry."""
    return isinstance(tensor, (torch.nn.Parameter, torch.nn.Buffer)) or _REGISTRY.search(source_text) is not None


class FakeMaker:
    """Makes one fake for each real tensor; tensors that share storage get fakes that share storage."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        #: by real storage: the tensor whose fake was made directly, with it; None once torch knows the storage
        self._direct: dict[int, tuple[torch.Tensor, FakeTensor] | None] = {}
        #: by the identity of a tensor: that, and its fake
        self._made: dict[int, tuple[torch.Tensor, FakeTensor]] = {}
        #: by real storage: the tensors with symbols among their sizes. Each has a fake of its own memory.
        self._symbolic: dict[int, list[torch.Tensor]] = {}
        #: by the storage of a fake: that of the real tensor
        self.real_storage: dict[int, int] = {}
        #: real storages which a fake says too little of to be written: of a view with a history, and shared ones
        self._only_read: set[int] = set()

    def fake(self, tensor: torch.Tensor, layout: Layout | None = None) -> FakeTensor:
        """Raises GraphBreak for a tensor that a fake cannot stand for. The caller keeps the real tensor alive.

        layout: its sizes and strides, if there are symbols among them. Then its fake has its own memory: if it shares
        memory with another, none of them can be written (`if_written`).
        """
        if id(tensor) in self._made:
            return self._made[id(tensor)][1]
        refuse_input(tensor)
        storage = storage_of(tensor)
        if layout is not None or storage in self._symbolic:
            fake = self._alone(tensor, layout, storage)
        else:
            fake = self._as_it_is(tensor, storage)
        self._made[id(tensor)] = tensor, fake
        self.real_storage[storage_of(fake)] = storage
        return fake

    def _as_it_is(self, tensor: torch.Tensor, storage: int) -> FakeTensor:
        earlier = self._direct.get(storage)
        if storage not in self._direct and _stands_alone(tensor):
            fake = plain_fake(self._mode, tensor)
            self._direct[storage] = tensor, fake
            return fake
        if earlier is not None:
            remember_fake(self._mode, *self._with_grad(*earlier))
        self._direct[storage] = None
        try:
            return self._mode.from_tensor(tensor, static_shapes=True)
        except UNSUPPORTED as error:  # a dense view of a sparse tensor, say
            raise GraphBreak("kind of tensor is not supported", f"{type(error).__name__}: {error}") from error

    def _alone(self, tensor: torch.Tensor, layout: Layout | None, storage: int) -> FakeTensor:
        """A fake that shares no memory, though the tensor may."""
        if storage in self._direct or storage in self._symbolic:
            self._only_read.add(storage)
        sizes, strides = (tensor.shape, tensor.stride()) if layout is None else (layout.sizes, layout.strides)
        fake = plain_fake(self._mode, tensor, (sizes, strides))
        if tensor.requires_grad and not tensor.is_leaf:
            with torch.enable_grad(), self._mode:
                made = torch.empty_strided(sizes, strides, dtype=fake.dtype, device=fake.device)
                fake = made.copy_(fake)
        symbolic = self._symbolic.setdefault(storage, [])
        if layout is not None:
            symbolic.append(tensor)
        if tensor.requires_grad and tensor._is_view():
            self._only_read.add(storage)
        return fake

    def if_written(self, fake_storage: int) -> None:
        """Raises MustBeStatic where a fake says too little of this memory, or of another one's that lies in it."""
        storage = self.real_storage.get(fake_storage)
        if storage in self._only_read:
            raise MustBeStatic(*self._symbolic[storage])

    def _with_grad(self, tensor: torch.Tensor, fake: FakeTensor) -> tuple[torch.Tensor, FakeTensor]:
        """Torch compares a view's base with its fake, and looks whether both have a gradient."""
        if tensor.grad is not None and fake.grad is None:
            fake.grad = self.fake(tensor.grad)
        return tensor, fake


def storage_of(tensor: torch.Tensor) -> int:
    """Identity of a tensor's storage, for as long as the tensor lives."""
    return tensor.untyped_storage()._cdata


def _stands_alone(tensor: torch.Tensor) -> bool:
    """Nothing but sizes, strides, dtype, device and requires_grad is to be known of it."""
    return tensor.is_leaf and not tensor._is_view() and not tensor.is_inference() and tensor.storage_offset() == 0


def refuse_input(tensor: torch.Tensor) -> None:
    """Raise GraphBreak for a real tensor that a fake one cannot stand for truthfully."""
    if type(tensor) not in PLAIN_TYPES and not _is_plain_subclass(type(tensor)):
        name = type(tensor).__qualname__
        raise GraphBreak("tensor subclass is not supported", name)
    if tensor.layout is not torch.strided:
        raise GraphBreak("kind of tensor is not supported", str(tensor.layout))
    if tensor.is_quantized:
        raise GraphBreak("kind of tensor is not supported", str(tensor.dtype))
    if tensor.is_nested:
        raise GraphBreak("kind of tensor is not supported", "nested")
    if tensor.is_meta:
        raise GraphBreak("kind of tensor is not supported", "on the meta device")
    if is_transformed(tensor):
        raise GraphBreak("kind of tensor is not supported", "of a functorch transform: vmap, grad or jvp")


def _is_plain_subclass(kind: type) -> bool:
    """A subclass of Parameter that overrides nothing is as plain as Parameter."""
    return (
        issubclass(kind, torch.nn.Parameter)
        and getattr(kind, "__torch_function__", None) is torch.nn.Parameter.__torch_function__
        and getattr(kind, "__torch_dispatch__", None) is torch.Tensor.__torch_dispatch__
    )
