"""Was an instruction a tensor operation? By the types of what it took and gave; no code of the user's runs here."""

from __future__ import annotations

from types import BuiltinMethodType, MethodType
from typing import Any

import torch


class _Null:
    def __repr__(self) -> str:
        return "NULL"


#: A NULL on the stack, or a result that nobody saw.
NULL = _Null()

#: Who of the operands must be a tensor: the one at this place (from the top of the stack), not what is stored or asked.
_OWNER = {"STORE_ATTR": 1, "STORE_SUBSCR": 2, "BINARY_SUBSCR": 2, "DELETE_SUBSCR": 2}
_CALLS = ("CALL", "CALL_KW", "CALL_FUNCTION_EX")


def is_tensor(obj: object) -> bool:
    return torch.Tensor in type(obj).__mro__


def holds_tensor(obj: object) -> bool:
    """Is it a tensor, or a builtin container with one?"""
    if type(obj) in (list, tuple):
        return any(map(is_tensor, obj))  # type: ignore[call-overload]
    if type(obj) is dict:
        return any(map(is_tensor, list(obj.values())))
    return is_tensor(obj)


def type_name(obj: object) -> str:
    if obj is NULL:
        return "NULL"
    name: str = type.__dict__["__qualname__"].__get__(type(obj))
    return name


def is_operation(opname: str, operands: tuple[object, ...], result: object) -> bool:
    """Did it compute with a tensor? Loading a method or the shape does not, nor does handing a tensor on."""
    if opname in _CALLS:
        takes = any(map(holds_tensor, operands)) or _is_method_of_tensor(operands)
        return is_tensor(result) or (takes and (holds_tensor(result) or _is_torchs(operands)))
    if opname == "LOAD_ATTR":
        return is_tensor(operands[-1]) and is_tensor(result)
    owner = _OWNER.get(opname)
    if owner is not None:
        return is_tensor(operands[-owner])
    return any(map(is_tensor, operands))


def _is_method_of_tensor(operands: tuple[object, ...]) -> bool:
    return any(isinstance(o, (BuiltinMethodType, MethodType)) and is_tensor(o.__self__) for o in operands[:2])


def _is_torchs(operands: tuple[object, ...]) -> bool:
    """Is what is called a method of a tensor, or a function of torch's?"""
    for called in operands[:2]:
        module: Any = getattr(called, "__module__", None) if callable(called) and not is_tensor(called) else None
        if isinstance(module, str) and module.partition(".")[0] == "torch":
            return True
    return _is_method_of_tensor(operands)
