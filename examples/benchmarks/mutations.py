"""What may change between two calls of a compiled program: one change for each kind of guard.

A change takes the function or model and the arguments of a call, and returns the arguments of the next one. Where it
reaches beyond the program it registers what undoes it.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import programs
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import tracer

Arguments = tuple[Any, ...]
Change = Callable[[Any, Arguments, contextlib.ExitStack], Arguments]


def still_right(make: Callable[[], tuple[Any, Arguments]], change: Change) -> str:
    """Compile the program with the eager backend, call it, change something, call it again: "right", or what is wrong.

    The same change on a copy that runs plain says what the result must be.
    """
    tracer.reset()
    torch.manual_seed(0)
    plain, arguments = make()
    compiled = tracer.compile(copy.deepcopy(plain), backend="eager", inplace=isinstance(plain, nn.Module))
    for _ in range(2):
        found, expected = (result_of(fn, copy.deepcopy(arguments)) for fn in (compiled, plain))
        if found != expected:
            return f"WRONG before the change: {found} for {expected}"
    with contextlib.ExitStack() as undo:
        expected = result_of(plain, change(plain, copy.deepcopy(arguments), undo))
    with contextlib.ExitStack() as undo:
        found = result_of(compiled, change(compiled, copy.deepcopy(arguments), undo))
    return "right" if found == expected else f"STALE: {found} for {expected}"


def result_of(fn: Any, arguments: Arguments) -> tuple[Any, ...]:
    """What can be compared, and says what is wrong when printed."""
    try:
        result = fn(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)
    tensors = [result, *(a for a in arguments if isinstance(a, Tensor))]
    with torch._C.DisableTorchFunction():
        return tuple((type(t).__name__, t.dtype, t.device.type, tuple(t.shape), t.stride(), t.requires_grad,
                      None if t.is_meta else t.detach().reshape(-1)[:4].tolist()) for t in tensors)


def set_for_now(owner: Any, name: str, value: Any, undo: contextlib.ExitStack) -> None:
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.Tensor.add else result


class Negated(Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return -result if func is torch.Tensor.sub else result


def inputs(change: Callable[[Arguments], Arguments]) -> Change:
    return lambda fn, arguments, undo: change(arguments)


def entering(manager: Callable[[], Any]) -> Change:
    def change(fn: Any, arguments: Arguments, undo: contextlib.ExitStack) -> Arguments:
        undo.enter_context(manager())
        return arguments

    return change


def changed_default(fn: Any, arguments: Arguments, undo: contextlib.ExitStack) -> Arguments:
    set_for_now(fn, "__defaults__", (5.0,), undo)
    return arguments


def changed_global(fn: Any, arguments: Arguments, undo: contextlib.ExitStack) -> Arguments:
    set_for_now(programs, "SCALE", 7.0, undo)
    return arguments


PAIR_MUTATIONS: dict[str, Change] = {
    "values": inputs(lambda a: (a[0] + 1, a[1])),
    "dtype": inputs(lambda a: (a[0].double(), a[1])),
    "shape": inputs(lambda a: (a[0].reshape(2, 4), a[1].reshape(2, 4))),
    "broadcast shape": inputs(lambda a: (a[0][:1], a[1])),
    "stride": inputs(lambda a: (a[0].repeat(2)[::2], a[1].reshape(4, 2).T.reshape(8))),
    "requires_grad": inputs(lambda a: (a[0].detach(), a[1].detach())),
    "the same tensor twice": inputs(lambda a: (a[0], a[0])),
    "overlapping views": inputs(lambda a: (a[0][:6], a[0][2:])),
    "type of an argument": inputs(lambda a: (a[0], 3.0)),
    "subclass": inputs(lambda a: (a[0].as_subclass(Negated), a[1])),
    "default argument": changed_default,
    "argument given": inputs(lambda a: (*a, 4.0)),
    "global": changed_global,
    "no_grad": entering(torch.no_grad),
    "inference mode": entering(torch.inference_mode),
    "torch function mode": entering(Doubling),
    "conjugate bit": inputs(lambda a: (torch.complex(a[0], a[1]).detach().conj(), a[1])),
    "meta device": inputs(lambda a: (a[0].to("meta"), a[1].to("meta"))),
}


def changed_dtype(fn: Any, arguments: Arguments, undo: contextlib.ExitStack) -> Arguments:
    undo.callback(torch.set_default_dtype, torch.get_default_dtype())
    torch.set_default_dtype(torch.float64)
    return arguments


MAKING_MUTATIONS: dict[str, Change] = {
    "default device": entering(lambda: torch.device("meta")),
    "default dtype": changed_dtype,
    "autocast": entering(lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    "no_grad": entering(torch.no_grad),
    "shape": inputs(lambda a: (a[0][:4], a[1])),
}


def in_model(change: Callable[[Any], object]) -> Change:
    """A change of the model alone."""

    def apply(model: Any, arguments: Arguments, undo: contextlib.ExitStack) -> Arguments:
        torch.manual_seed(1)
        with torch.no_grad():
            change(model)
        return arguments

    return apply


def on_class(owner: type, name: str, value: Any) -> Change:
    def apply(model: Any, arguments: Arguments, undo: contextlib.ExitStack) -> Arguments:
        set_for_now(owner, name, value, undo)
        return arguments

    return apply


def halved(model: Any, arguments: Arguments, undo: contextlib.ExitStack) -> Arguments:
    model.half()
    return tuple(a.half() for a in arguments)


def doubled_class_getattr(self: Any, name: str) -> Any:
    found = NN_GETATTR(self, name)
    return found * 2 if name == "bias" else found


NN_GETATTR = nn.Module.__getattr__
CHAIN_MUTATIONS: dict[str, Change] = {
    "values of a parameter": in_model(lambda m: m.layers[3].weight.add_(1)),
    "p.data": in_model(lambda m: setattr(m.layers[3].weight, "data", torch.randn(8, 8))),
    "p.data of another dtype": in_model(lambda m: setattr(m.layers[3].weight, "data", torch.randn(8, 8).double())),
    "p.data of another shape": in_model(lambda m: setattr(m.layers[9].weight, "data", torch.randn(1, 8))),
    "half()": halved,
    "replaced parameter": in_model(lambda m: setattr(m.layers[3], "weight", nn.Parameter(torch.randn(8, 8)))),
    "parameter gone": in_model(lambda m: setattr(m.layers[3], "bias", None)),
    "requires_grad_(False)": in_model(lambda m: m.requires_grad_(False)),
    "tied parameters": in_model(lambda m: setattr(m.layers[3], "weight", m.layers[4].weight)),
    "late forward hook": in_model(lambda m: m.layers[3].register_forward_hook(lambda mod, args, out: out * 3)),
    "late forward pre-hook": in_model(
        lambda m: m.layers[3].register_forward_pre_hook(lambda mod, args: (args[0] + 1,))),
    "late hook of the root": in_model(lambda m: m.register_forward_hook(lambda mod, args, out: out * 3)),
    "swapped child": in_model(lambda m: m.layers.__setitem__(3, nn.Tanh())),
    "swapped child of the same class": in_model(lambda m: m.layers.__setitem__(3, nn.Linear(8, 8))),
    "longer ModuleList": in_model(lambda m: m.layers.append(nn.Linear(8, 8))),
    "shorter ModuleList": in_model(lambda m: m.layers.__delitem__(0)),
    "other ModuleList": in_model(lambda m: setattr(m, "layers", m.layers[:4])),
    "forward on an instance": in_model(lambda m: setattr(m.layers[3], "forward", lambda x: x + 100)),
    "forward on the root instance": in_model(lambda m: setattr(m, "forward", lambda x: x + 100)),
    "instance attribute": in_model(lambda m: setattr(m, "offset", 9.0)),
    "instance attribute over a class attribute": in_model(lambda m: setattr(m, "gain", 9.0)),
    "class attribute": on_class(programs.Chain, "gain", 4.0),
    "method of a class": on_class(nn.Linear, "forward", lambda self, x: x * 2),
    "method of the root's class": on_class(programs.Chain, "forward", lambda self, x: x * 2),
    "__getattr__ of nn.Module": on_class(nn.Module, "__getattr__", doubled_class_getattr),
    "class of an instance": in_model(lambda m: setattr(m.layers[3], "__class__", nn.Identity)),
    "training": in_model(lambda m: m.eval()),
    "input's shape": lambda m, a, undo: (a[0][:2],),
    "input's stride": lambda m, a, undo: (a[0].repeat(1, 2)[:, ::2],),
    "input's dtype": lambda m, a, undo: (a[0].double(),),
    "no_grad": entering(torch.no_grad),
    "autocast": entering(lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
}
