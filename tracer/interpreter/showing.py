"""The interpreter's values, a graph's nodes and an instruction's argument in plain words, for listeners.

Nothing here looks at a value more closely than capture has: what nobody has read yet gets no guard by being shown.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from rewriter.decode import Instruction

from ..guard_values import describe
from ..listener import NodeAdded, Shown
from ..torch_private import FakeTensor
from ..values.base import Lazy, Value
from ..values.constants import LITERALS, ConstantValue
from ..values.functions import CellValue
from ..values.mappings import DictValue
from ..values.sequences import ListValue
from ..values.symbols import SymbolValue
from ..values.tensors import TensorValue
from ..values.tuples import TupleValue
from .frame import LastInstruction, NullValue

if TYPE_CHECKING:
    from .context import Context

#: so many characters of a text, items of a container and levels of containers are shown
LENGTH, ITEMS, LEVELS = 72, 6, 2

#: how nodes of operators are written
SIGNS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.matmul: "@", operator.and_: "&", operator.or_: "|",
    operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>", operator.lt: "<", operator.le: "<=",
    operator.eq: "==", operator.ne: "!=", operator.gt: ">", operator.ge: ">=", operator.iadd: "+=",
    operator.isub: "-=", operator.imul: "*=", operator.itruediv: "/=",
}  # fmt: skip


def cut(text: str) -> str:
    """In one line, and not too long."""
    text = " ".join(text.split())
    return text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"


def dtype_text(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def shape_text(shape: Any) -> str:
    return f"[{', '.join(map(str, shape))}]"


def shown_object(obj: object) -> tuple[str, str]:
    """Kind and text of an object of the user's. No code of the user's runs."""
    if type(obj) in (torch.Tensor, torch.nn.Parameter, FakeTensor):
        assert isinstance(obj, torch.Tensor)
        what = "parameter " if type(obj) is torch.nn.Parameter else ""
        return "tensor", f"{what}{dtype_text(obj.dtype)} {shape_text(obj.shape)}"
    if isinstance(obj, torch.Tensor):
        return "tensor", type(obj).__qualname__
    kind = type(obj).__name__
    if type(obj) in (list, tuple, dict, set, frozenset):
        return kind, f"{kind} of {len(obj)}"  # type: ignore[arg-type]
    return kind, _plainly(describe(obj))


def _plainly(text: str) -> str:
    """Torch's functions as programs call them, and an article that fits."""
    text = cut(text.replace("function _VariableFunctionsClass.", "torch."))
    return f"an{text[1:]}" if text.startswith(("a i", "a o")) else text


def shown(ctx: Context, value: Value | None, level: int = 0) -> Shown:
    """A value on the stack or in a local."""
    if value is None:
        return Shown("cell", "an empty cell")
    if isinstance(value, Lazy):
        if value.value is None:
            kind, text = shown_object(value.object)
            return Shown(kind, text, str(value.source))
        value = value.value
    if isinstance(value, CellValue):
        return shown(ctx, value.content, level)
    if isinstance(value, SymbolValue):  # asking for its source would have it written
        return Shown(value.kind, f"{value.value} = {value.symbol}")
    source = "" if value.source is None else str(value.source)
    if isinstance(value, TensorValue):
        fake, node = value.graph_tensor.fake, value.graph_tensor.node
        return Shown("tensor", f"{dtype_text(fake.dtype)} {shape_text(fake.shape)}", source, node.name)
    if isinstance(value, ConstantValue):
        return Shown(value.kind, _plainly(constant_text(value.value)), source)
    return Shown(value.kind, _container(ctx, value, level) or _plainly(str(value)), source)


def _container(ctx: Context, value: Value, level: int) -> str:
    """The items of a container that was made in the region, or was read already."""
    if level == LEVELS or isinstance(value, (NullValue, LastInstruction)):
        return "NULL" if isinstance(value, NullValue) else ""
    if isinstance(value, ListValue) and value.base is None:
        return f"[{_listed(ctx, value.content, level)}]"
    if isinstance(value, TupleValue) and type(value) is TupleValue and value.source is None:
        items = value.items(ctx)
        return f"({_listed(ctx, items, level)}{',' if len(items) == 1 else ''})"
    if type(value) is DictValue and value.source is None:
        return f"dict of {len(value.content)}"
    return ""


def _listed(ctx: Context, items: Any, level: int) -> str:
    texts = []
    for item in list(items)[:ITEMS]:
        found = shown(ctx, item, level + 1)
        texts.append(found.node or found.text)
    return cut(", ".join(texts) + (f", … {len(items)} items" if len(items) > ITEMS else ""))


def constant_text(value: object) -> str:
    """A constant of a code object; tuples of plain values as they are written."""
    if type(value) is tuple and all(type(item) in LITERALS for item in value):
        return cut(repr(value))
    return cut(describe(value))


def argument_text(instruction: Instruction) -> str:
    """The argument of a canonical instruction; of a jump, where it goes."""
    argument = instruction.arg
    if instruction.target is not None:
        return f"to {instruction.target}"
    if instruction.opname == "LOAD_CONST":
        return constant_text(argument)
    if argument is None or type(argument) is str:
        return argument or ""
    if type(argument) is tuple and all(type(part) in (str, int, bool) for part in argument):
        return ", ".join(map(str, argument))
    return cut(describe(argument))


# nodes ----------------------------------------------------------------------------------------------------------------
def node_added(node: torch.fx.Node, source: str = "") -> NodeAdded:
    """A node as it is now."""
    example = node.meta.get("example_value")
    shape = dtype = ""
    if isinstance(example, torch.Tensor):
        shape, dtype = shape_text(example.shape), dtype_text(example.dtype)
    inputs = tuple(given.name for given in node.all_input_nodes)
    return NodeAdded(node.name, node.op, target_text(node), node_text(node), inputs, shape, dtype, source)


def target_text(node: torch.fx.Node) -> str:
    """What a node calls, reads or stands for."""
    target = node.target
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", None) or str(target)
    module = getattr(target, "__module__", None) or ""
    if target in SIGNS:
        return SIGNS[target]
    if module.startswith("torch.nn.functional"):
        return f"F.{name}"
    if module == "torch" or module.startswith("torch._C") or getattr(torch, name, None) is target:
        return f"torch.{name}"
    return str(name)


def node_text(node: torch.fx.Node) -> str:
    """A node as a line of Python."""
    if node.op == "placeholder":
        return node.name
    if node.op == "output":
        return f"return {_argument(node.args[0])}"
    if node.op == "get_attr":
        return f"{node.name} = self.{node.target}"
    given = [_argument(argument) for argument in node.args]
    named = [f"{name}={_argument(argument)}" for name, argument in node.kwargs.items()]
    if node.op == "call_method":
        return f"{node.name} = {given[0]}.{node.target}({', '.join(given[1:] + named)})"
    sign = SIGNS.get(node.target) if callable(node.target) else None
    if sign is not None and len(given) == 2 and not named:
        return f"{node.name} = {given[0]} {sign} {given[1]}"
    if node.target is operator.getitem and len(given) == 2:
        return f"{node.name} = {given[0]}[{given[1]}]"
    return f"{node.name} = {target_text(node)}({', '.join(given + named)})"


def _argument(argument: Any) -> str:
    if isinstance(argument, torch.fx.Node):
        return argument.name
    if isinstance(argument, (tuple, list)):
        inner = ", ".join(map(_argument, argument))
        if isinstance(argument, list):
            return f"[{inner}]"
        return f"({inner},)" if len(argument) == 1 else f"({inner})"
    if isinstance(argument, slice):
        parts = ("" if part is None else _argument(part) for part in (argument.start, argument.stop, argument.step))
        return ":".join(parts).removesuffix(":") or ":"
    return cut(describe(argument))
