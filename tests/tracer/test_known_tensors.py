"""What a program decides by numbers in buffers: decided at capture, with a guard that asks for the number again."""

from __future__ import annotations

import copy

import pytest
import torch

import tracer
from tests.support import CountingBackend, check_calls

pytestmark = pytest.mark.usefixtures("installed_eager")


class Padded(torch.nn.Module):
    """Sizes in buffers, as EnCodec and Mimi have them."""

    def __init__(self, kernel: int = 5, stride: int = 3) -> None:
        super().__init__()
        self.kernel = torch.nn.Buffer(torch.tensor(kernel))
        self.stride = torch.nn.Buffer(torch.tensor(stride))

    def forward(self, x):
        length = x.shape[-1]
        frames = torch.ceil((length - self.kernel + 2) / self.stride + 1).to(torch.int64) - 1
        extra = frames * self.stride + self.kernel - 2 - length
        if max(self.kernel, extra) > 100:
            return x
        x = torch.nn.functional.pad(x, (self.kernel, extra))
        return x[..., : self.kernel.item() + int(self.stride)].sin()


class Flagged(torch.nn.Module):
    """A first call that sets something up, as ActNorm and codebooks do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ready", torch.zeros(1, dtype=torch.uint8))
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x):
        if not self.ready:
            self.shift.copy_(x.mean(0))
            self.ready.fill_(1)
        return x - self.shift


def compare(model, calls):
    """The compiled model and a plain copy; how many graphs there are behind each call."""
    plain, backend = copy.deepcopy(model), CountingBackend()
    tracer.compile(model, backend=backend)
    counts = []
    for x in calls:
        assert torch.equal(model(x), plain(x))
        counts.append(backend.frame_count)
    for (name, mine), (_, other) in zip(model.named_buffers(), plain.named_buffers(), strict=True):
        assert torch.equal(mine, other), name
    return counts


def test_sizes_in_buffers_break_nothing():
    assert compare(Padded(), [torch.randn(2, 12)] * 3) == [1, 1, 1]
    assert not tracer.counters()["breaks"]


def test_they_are_computed_again_with_sizes_that_are_symbols():
    lengths = [12, 13, 14, 15, 16, 17, 18, 19, 20, 12]
    counts = compare(Padded(), [torch.randn(2, length) for length in lengths])
    assert counts[-1] <= 4 and not tracer.counters()["breaks"]  # by what is to be added: 2, 1 or 0


@pytest.mark.parametrize("write", [lambda b: b.add_(1), lambda b: b.data.add_(1), lambda b: b.numpy().fill(7)])
def test_a_write_that_leaves_no_trace_is_seen(write):
    model, x = Padded(), torch.randn(2, 12)
    plain = copy.deepcopy(model)
    tracer.compile(model, backend="eager")
    for _ in range(3):
        assert torch.equal(model(x), plain(x))
    for _ in range(3):
        write(model.kernel), write(plain.kernel)
        assert torch.equal(model(x), plain(x))


def test_a_flag_has_a_region_for_each_state():
    assert compare(Flagged(), [torch.randn(4, 3) for _ in range(4)]) == [1, 2, 2, 2]
    assert not tracer.counters()["breaks"]


def test_a_counter_breaks_once_it_was_seen_to_count():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("step", torch.tensor(5))

        def forward(self, x):
            x = x.sin()
            if self.step > 8:
                x = x * 2
            return x + 1

    model = Counting()
    plain, backend = copy.deepcopy(model), CountingBackend()
    tracer.compile(model, backend=backend)
    x = torch.randn(3)
    for _ in range(12):
        assert torch.equal(model(x), plain(x))
        model.step.add_(1), plain.step.add_(1)
    assert backend.frame_count <= 5


def test_what_the_region_wrote_is_not_known():
    class Writes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.tensor(3))

        def forward(self, x):
            self.n.sub_(1)
            return x + 1 if self.n > 1 else x - 1

    assert compare(Writes(), [torch.randn(3) for _ in range(4)])


def test_arguments_and_what_is_trained_are_not_known():
    class Trained(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(2.0))

        def forward(self, x, n):
            x = x * 2 if self.scale > 1 else x
            return x + n if n > 2 else x - n

    check_calls(Trained(), *[(torch.ones(3), torch.tensor(n)) for n in range(1, 5)])
    report = tracer.explain(tracer.compile(Trained(), backend="eager"))(torch.ones(3), torch.tensor(1))
    assert str(report).count("break: branch on a tensor") >= 2


def test_nan_and_fractions():
    class Odd(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.register_buffer("value", torch.tensor(value))

        def forward(self, x):
            return x + 1 if self.value > 0 else x - float(self.value)

    for value in (0.3, -0.0, float("nan"), float("inf")):
        check_calls(Odd(value), *[(torch.ones(3),)] * 3)


def test_constructors_of_old_give_known_numbers():
    def f(x):
        width = torch.IntTensor([3])[0]  # as WaveNets have it
        return x[:, :width] * torch.Tensor([0.5, 2])[0] + torch.LongTensor((1, 2)).sum(), torch.FloatTensor([True, 1])

    check_calls(f, (torch.ones(2, 5),), (torch.ones(2, 5),))
    assert not tracer.counters()["breaks"]


def test_the_hint_names_the_buffer():
    model, x = Padded(), torch.randn(2, 12)
    compiled = tracer.compile(model, backend="eager")
    compiled(x)
    model.kernel.add_(1)
    compiled(x)
    told = tracer.explain_recompiles(compiled).recompiles[0]
    assert "kernel" in told.guard and "buffer" in told.hint and (told.old, told.new) == ("5", "6")
