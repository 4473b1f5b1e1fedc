"""`tracer.scan`: what the instructions of a function are, and, of a call, which were tensor operations and captured.

`static.py` reads bytecode, `probing.py` watches a call and has captures made in it, `report.py` holds what came of it.
Needs no `install()`: nothing is compiled. Above `api`, for the compile lock.
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Any

import torch

from rewriter.decode import decode

from .. import api
from ..originals import original_code
from ..torch_dynamo import DISABLED
from .probing import scan_call
from .report import ScannedInstruction, ScanReport
from .static import rows

__all__ = ["ScanReport", "ScannedInstruction", "scan"]


def scan(fn: Any) -> ScanReport:
    """The instructions of a function, without running it; `scan(fn)(*args)` also calls it, once, and tells of the call.

    Without arguments: each canonical instruction with its offset, line and what it does to the stack, and whether it
    may be a tensor operation, by its opcode. With arguments, as in `explain(fn)(*args)`: which were tensor operations,
    by the types on the stack, which of these capture takes into a graph, and why not the others. The call is a real
    one, of a copy with the original bytecode, and what it raises is in the report (`exception`); nothing is compiled.

    fn: a function, a method, or a model, whose `forward` is meant (hooks do not run). A generator is run to its end, at
    most 100 items of it, and so is a coroutine, as `asyncio.run` does.
    """
    function, first, named = _function(fn)
    decoded = decode(original_code(function.__code__))
    code = decoded.code
    call = scan_call(function, api.runtime.translator.lock, first, named)
    return ScanReport(
        function.__qualname__, code.co_filename, code.co_firstlineno, tuple(rows(decoded)), call=call
    )


def _function(fn: Any) -> tuple[FunctionType, tuple[object, ...], dict[str, object]]:
    """The Python function, and the arguments that it has already, by position and by name."""
    if isinstance(fn, torch.nn.Module):
        fn = fn.forward
    if isinstance(fn, (staticmethod, classmethod)):
        fn = fn.__func__
    if isinstance(fn, functools.partial):
        function, first, named = _function(fn.func)
        return function, (*first, *fn.args), {**named, **fn.keywords}
    if isinstance(fn, type):
        raise TypeError(f"scan the methods of {fn.__qualname__}, or its instances, not the class")
    if isinstance(fn, FunctionType):
        return fn, (), {}
    if inspect.ismethod(fn):
        function, first, named = _function(fn.__func__)
        return function, (fn.__self__, *first), named
    call = getattr(type(fn), "__call__", None)  # noqa: B004 (the function is wanted, not whether there is one)
    if isinstance(call, FunctionType):
        return call, (fn,), {}
    raise TypeError(f"scan takes a Python function, method or model, not {fn!r}")


setattr(scan, DISABLED, True)
