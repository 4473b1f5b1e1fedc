"""Small functions that a captured graph must repeat, each with its inputs; for test_graph.py and test_backends.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from tests.tracer.recording import Torch


@dataclass(frozen=True)
class Program:
    """inputs: makes fresh inputs, the same at each call.  train: backward through the outputs is compared too."""

    function: Callable[..., Any]
    inputs: Callable[[], list[torch.Tensor]]
    train: bool = True
    random: bool = False

    @property
    def name(self) -> str:
        return self.function.__name__


def normal(*shape: int, grad: bool = False, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_(grad)
    return torch.randint(0, 5, shape, generator=generator).to(dtype)


def parameter(*shape: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(normal(*shape, seed=7))


PROGRAMS: list[Program] = []


def program(inputs: Callable[[], list[torch.Tensor]], **options: bool) -> Callable[[Callable[..., Any]], Any]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append(Program(function, inputs, **options))
        return function

    return add


@program(lambda: [normal(4, 5), normal(4, 5, grad=True)])
def pointwise(torch_: Torch, x, y):
    z = torch.sin(x) * 2 + y / 3
    return torch.where(z > 0, z, -z), z.clamp(min=-0.5)


@program(lambda: [normal(4, 5), parameter(5, 5), parameter(5, 5)])
def matmul_chain(torch_: Torch, x, v, w):
    return F.relu(x @ v) @ w + x


@program(lambda: [normal(4, 5)], train=False)
def in_place_on_input(torch_: Torch, x):
    x.add_(1)
    x *= 2
    return x.sum()


@program(lambda: [normal(4, 5, grad=True)])
def in_place_on_intermediate(torch_: Torch, x):
    y = x * 2
    y.mul_(3)
    y[1] = 0
    y[:, 2:4] += 1
    return y


def _with_history() -> list[torch.Tensor]:
    leaf = normal(4, 5, grad=True)
    return [leaf, leaf * 2]


@program(_with_history)
def in_place_on_input_with_history(torch_: Torch, leaf, x):
    x.mul_(3)
    return x * x


@program(lambda: [normal(4, 6, grad=True)])
def views(torch_: Torch, x):
    y = x.view(6, 4).t()
    return y, x[1:], y.reshape(-1), x.T.unsqueeze(0), x.expand(2, 4, 6)


@program(lambda: [normal(4, 6)], train=False)
def writes_through_view(torch_: Torch, x):
    y = x.view(-1)[3:7]
    y.fill_(9)
    return x + 1, y


@program(lambda: [normal(4, 6)])
def output_is_input(torch_: Torch, x):
    return x, x + 1


@program(lambda: [normal(4, 6)], train=False)
def changed_input_is_output(torch_: Torch, x):
    y = x.add_(1)
    return y, x.view(-1)


@program(lambda: [normal(3, 3, grad=True)])
def same_output_twice(torch_: Torch, x):
    y = x + 1
    return y, y, y.view(9)


def _overlapping() -> list[torch.Tensor]:
    base = normal(12)
    return [base[:8], base[4:].view(2, 4), base]


@program(_overlapping, train=False)
def aliased_inputs_changed(torch_: Torch, x, y, base):
    x.mul_(2)
    y.add_(x[:4])
    # not `base + 0`: of an input that is written through an alias, Inductor gives the input itself for it
    return y + 1, x, base + 1


@program(lambda: [normal(4, 5)], train=False)
def through_data(torch_: Torch, x):
    x.data.add_(1)
    return x * 2


@program(lambda: [normal(4, 5, grad=True)], random=True)
def dropout(torch_: Torch, x):
    torch.rand_like(x)  # nobody uses it, but it moves the generator on
    y = F.dropout(x, 0.5, training=True) + torch_.call(torch.rand, 4, 5)
    return y, torch_.call(torch.randint, 0, 9, (3,)), x.detach().sigmoid().bernoulli()


@program(lambda: [normal(6, 3, 4), parameter(3), parameter(3), torch.zeros(3), torch.ones(3), torch.tensor(0)])
def batch_norm(torch_: Torch, x, w, b, mean, var, count):
    count.add_(1)
    return F.batch_norm(x, mean, var, w, b, training=True, momentum=0.1)


@program(lambda: [normal(6, 3, 4), torch.zeros(3), torch.ones(3)])
def batch_norm_eval(torch_: Torch, x, mean, var):
    return F.batch_norm(x, mean, var)


@program(lambda: [normal(3, 4, 5), torch.zeros(4), torch.ones(4)])
def instance_norm(torch_: Torch, x, mean, var):
    return F.instance_norm(x, mean, var, use_input_stats=True)


@program(lambda: [torch.tensor([0, 2, 1]), normal(3, 4) * 9], train=False)
def embedding_renormed(torch_: Torch, index, w):
    return F.embedding(index, w, max_norm=1.0)


@program(lambda: [normal(3, 3, grad=True)])
def no_grad_inside(torch_: Torch, x):
    y = x * 2
    with torch_.grad(False):
        z = y * 3
        with torch_.grad(True):
            q = y * 5
    return y + z, z, q


@program(lambda: [normal(3, 3), parameter(3, 3)])
def autocast_inside(torch_: Torch, x, w):
    with torch_.mode("autocast", "cpu", torch.bfloat16, True, True):
        y = F.linear(x, w)
        with torch_.mode("autocast", "cpu", torch.bfloat16, False, True):
            z = F.linear(x, w)
    return y, z, x @ w


@program(lambda: [], train=False)
def constants_only(torch_: Torch):
    x = torch_.call(torch.tensor, [[1.0, 2.0], [3.0, float("inf")]])
    return x, x * 2, torch_.call(torch.arange, 3), torch_.call(torch.full, (2, 2), -0.0)


@program(lambda: [normal(3), normal(3)], train=False)
def nothing(torch_: Torch, x, y):
    return ()


@program(lambda: [torch.arange(5), normal(5) > 0, normal(5, dtype=torch.complex64), normal(5, dtype=torch.bfloat16)])
def dtypes(torch_: Torch, i, b, c, h):
    return i // 2, b & (i > 2), c * c, torch.view_as_real(c), h * 3, i.to(torch.float64), i.sum(), b.any()


@program(lambda: [normal(5, dtype=torch.complex64, grad=True)])
def complex_conj(torch_: Torch, c):
    return c.conj() * c, c.real + 1, c.imag


@program(lambda: [normal(6, 4, grad=True)])
def multiple_results(torch_: Torch, x):
    values, indices = x.max(1)
    a, _, c = x.split(2)
    top = torch.topk(x, 2)
    return values, indices, a + c, top.values, torch.var_mean(x, 0)[1], *x.unbind(1)[:2]


@program(lambda: [normal(4, 6), normal(4, 6)], train=False)
def out_argument(torch_: Torch, x, y):
    torch.add(x, 1, out=y)
    return y * 2


@program(lambda: [normal(4), normal(4)], train=False)
def foreach(torch_: Torch, x, y):
    torch._foreach_add_([x, y], 1.5)
    return torch._foreach_mul([x, y], 2.0)


@program(lambda: [normal(2, 3, 8, grad=True), torch.tensor([0, 2, 1])])
def attention(torch_: Torch, x, index):
    mask = torch_.call(torch.ones, 3, 3, dtype=torch.bool).tril()
    mask = F.pad(mask, (0, 0)) & (index[None, :] >= 0)
    y = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    return F.layer_norm(y, (8,)), F.softmax(x, -1), x[:, index], x[..., None, 2:5]


@program(lambda: [normal(2, 3, 9, 9), parameter(4, 3, 3, 3), parameter(4)])
def convolution(torch_: Torch, x, w, b):
    y = F.conv2d(x.contiguous(memory_format=torch.channels_last), w, b, padding=1)
    return F.max_pool2d(F.gelu(y), 2), F.adaptive_avg_pool2d(y, 1).flatten(1)


@program(lambda: [normal(6, 5, grad=True), torch.tensor([0, 1, 2, 3, 4, 0])])
def losses(torch_: Torch, x, target):
    return F.cross_entropy(x, target), F.mse_loss(x, x.detach() * 2)


@program(lambda: [normal(3, 4).t()[1:], normal(1, grad=True).expand(3)])
def strange_strides(torch_: Torch, x, y):
    return x + 1, x.contiguous() * 2, y * 2


@program(lambda: [torch.tensor(2.5, requires_grad=True), normal(0, 3), torch.tensor(7)])
def scalars_and_empty(torch_: Torch, x, e, i):
    return x * 2, e.sum(), torch.cat([e, e]), i + 1, x * i
