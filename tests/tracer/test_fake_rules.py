"""Each rule for the results of an operator gives what torch's own fake tensors give, or leaves it to them."""

from __future__ import annotations

import itertools

import pytest
import torch

from tracer.graph.fake_rules import RULES, native_batch_norm
from tracer.graph.fakes import ObservingFakeMode
from tracer.torch_private import FakeTensor, FakeTensorMode, new_shape_env

BATCH_NORM = torch.ops.aten.native_batch_norm.default
SHAPES = [
    (2, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 1, 1), (1, 3, 4, 4), (2, 1, 4, 4), (1, 1, 2), (2, 3, 1, 4), (2, 3, 2, 2, 2),
]  # fmt: skip


def described(results) -> list[tuple]:
    return [(t.shape, t.stride(), t.dtype, t.device, t.layout, t.requires_grad, type(t)) for t in results]


def arguments(shape, dtype, given, running, training):
    """A batch norm's, with and without weights and running statistics."""
    make = lambda: torch.ones(shape[1], dtype=dtype)  # noqa: E731
    weights = (make(), make()) if given else (None, None)
    statistics = (make(), make()) if running else (None, None)
    return (torch.ones(shape, dtype=dtype), *weights, *statistics, training, 0.1, 1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_norm(shape, dtype) -> None:
    for given, running, training in itertools.product([True, False], repeat=3):
        if not training and not running:
            continue
        mode, torchs = ObservingFakeMode(new_shape_env()), FakeTensorMode()
        with torch.no_grad():
            real = arguments(shape, dtype, given, running, training)
            ours = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in real]
            fakes = [torchs.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in real]
            found = native_batch_norm(mode, *ours)
            assert found is not None
            with mode:
                through = BATCH_NORM(*ours)
            with torchs:
                expected = BATCH_NORM(*fakes)
        assert described(found) == described(through) == described(expected)
        assert [t.shape for t in found] == [t.shape for t in BATCH_NORM(*real)]
        assert all(type(t) is FakeTensor and t.fake_mode is mode for t in found)
        written = {id(tensor) for tensor, *_ in mode.observed.written}
        assert written == ({id(ours[3]), id(ours[4])} if training and running else set())


@pytest.mark.parametrize("change", [
    lambda a: [a[0].to(memory_format=torch.channels_last), *a[1:]],
    lambda a: [a[0].half(), *a[1:]],
    lambda a: [a[0], a[1].double(), *a[2:]],
    lambda a: [a[0], a[1][:2], *a[2:]],
    lambda a: [a[0][:1, :, :1, :1].clone(), *a[1:]],
    lambda a: [a[0].to_sparse(), *a[1:]],
    lambda a: [*a[:3], None, None, False, *a[6:]],
])  # fmt: skip
def test_batch_norms_that_are_left_to_torch(change) -> None:
    mode = ObservingFakeMode(new_shape_env())
    real = change(arguments((2, 3, 4, 5), torch.float32, True, True, True))
    fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in real]
    assert native_batch_norm(mode, *fakes) is None


def test_batch_norm_of_symbolic_sizes_is_left_to_torch() -> None:
    real = arguments((2, 3, 4, 5), torch.float32, True, True, True)
    mode = FakeTensorMode(shape_env=new_shape_env())
    fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in real[1:]]
    first = mode.from_tensor(real[0], static_shapes=False)
    assert first._has_symbolic_sizes_strides
    assert native_batch_norm(mode, first, *fakes) is None


def test_every_rule_has_a_test() -> None:
    assert list(RULES) == [BATCH_NORM]
