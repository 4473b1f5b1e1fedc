"""Examples of breaks at tensors, operators, autograd and torch's modes."""

from __future__ import annotations

from .running import Example

EXAMPLES = {
    "tensor value is read": Example("""\
def f(x):
    scale = x.sum().item()  # <- break
    return x / scale

f(torch.ones(3))
"""),
    "branch on a tensor": Example("""\
def f(x):
    if x.sum() > 0:  # <- break
        return x + 1
    return x - 1

f(torch.ones(3))
"""),
    "shape depends on a tensor's values": Example("""\
def f(x):
    positive = x[x > 0]  # <- break
    return positive * 2

f(torch.tensor([1.0, -1.0]))
"""),
    "tensor becomes a NumPy array": Example("""\
def f(x):
    y = x * 2
    array = y.numpy()  # <- break
    return y + array.shape[0]

f(torch.ones(3))
"""),
    "NumPy array is used": Example("""\
import numpy

def f(x, array):
    y = x * 2
    array = array + 1  # <- break
    return y + torch.from_numpy(array)

f(torch.ones(3), numpy.ones(3, dtype="float32"))
"""),
    "size that is marked dynamic is one number": Example("""\
def f(x):
    return x.reshape(3) * 2  # <- break

x = torch.ones(3)
torch._dynamo.mark_dynamic(x, 0)
f(x)  # compiled with fullgraph=True
""", fullgraph=True),
    "tensor memory is accessed": Example("""\
def f(x):
    y = x * 2
    same = y.data_ptr() == x.data_ptr()  # <- break
    return y + same

f(torch.ones(3))
"""),
    "kind of tensor is not supported": Example("""\
def f(x, sparse):
    y = x * 2
    return sparse @ y  # <- break

f(torch.ones(3), torch.eye(3).to_sparse())
"""),
    "tensor subclass is not supported": Example("""\
class Meters(torch.Tensor):
    pass

def f(x, length):
    y = x * 2
    return y * len(length)  # <- break

f(torch.ones(3), torch.ones(3).as_subclass(Meters))
"""),
    "argument cannot be in a graph": Example("""\
generator = torch.Generator()

def f(x):
    y = x * 2
    return y + torch.rand(3, generator=generator)  # <- break

f(torch.ones(3))
"""),
    "result cannot be in a graph": Example("""\
def f(x):
    y = x * 2
    kind, index = y.__dlpack_device__()  # <- break
    return y + index

f(torch.ones(3))
"""),
    "operator has no fake kernel": Example("""\
if not hasattr(torch.ops.example, "twice"):
    torch.library.define("example::twice", "(Tensor x) -> Tensor")
    torch.library.impl("example::twice", "cpu", lambda x: x * 2)

def f(x):
    y = x + 1
    return torch.ops.example.twice(y)  # <- break

f(torch.ones(3))
"""),
    "torch function is no operator": Example("""\
def f(x):
    y = x * 2
    return y / torch.get_num_interop_threads()  # <- break

f(torch.ones(3))
"""),
    "random state is set or read": Example("""\
def f(x):
    y = x * 2
    torch.manual_seed(0)  # <- break
    return y + torch.rand(3)

f(torch.ones(3))
"""),
    "device is synchronized or switched": Example("""\
def f(x):
    y = x * 2
    torch.cuda.empty_cache()  # <- break
    return y + 1

f(torch.ones(3))
"""),
    "global state of torch is changed": Example("""\
def f(x):
    y = x * 2
    torch.set_num_threads(torch.get_num_threads())  # <- break
    return y + 1

f(torch.ones(3))
"""),
    "backward is run": Example("""\
w = torch.ones(3, requires_grad=True)

def f(x):
    loss = (w * x).sum()
    loss.backward()  # <- break
    return loss.detach()

f(torch.ones(3))
"""),
    "hook is registered on a tensor": Example("""\
def f(x):
    y = x * 2
    x.register_hook(lambda grad: grad * 2)  # <- break
    return y + 1

f(torch.ones(3, requires_grad=True))
"""),
    "autograd state of a tensor is changed": Example("""\
def f(x):
    y = x * 2
    y.requires_grad_()  # <- break
    return y + 1

f(torch.ones(3))
"""),
    "autograd state of a tensor is read": Example("""\
def f(x):
    y = x * 2
    has_history = y.grad_fn is not None  # <- break
    return y + has_history

f(torch.ones(3, requires_grad=True))
"""),
    "custom autograd function is called": Example("""\
calls = []

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        calls.append(1)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def f(x):
    y = x + 1
    return Double.apply(y)  # <- break

f(torch.ones(3))
"""),
    "function given to torch has effects": Example("""\
from torch.utils.checkpoint import checkpoint

sizes = []

def layer(x):
    sizes.append(len(x))
    return x.sin()

def f(x):
    y = x + 1
    return checkpoint(layer, y, use_reentrant=False)  # <- break

f(torch.ones(3))
"""),
    "torch mode is active": Example("""\
def f(x):
    return x * 2  # <- break

torch.func.vmap(f)(torch.ones(3))
"""),
    "context manager is not supported": Example("""\
def f(x):
    y = x * 2
    with torch.device("cpu"):  # <- break
        return y + torch.ones(3)

f(torch.ones(3))
"""),
    "torch mode is left open": Example("""\
def f(x):
    y = x * 2
    mode = torch.autocast("cpu")
    mode.__enter__()  # <- break
    return mode, y @ y

def call(x):
    mode, z = f(x)
    mode.__exit__(None, None, None)
    return z

call(torch.ones(3))
"""),
}
