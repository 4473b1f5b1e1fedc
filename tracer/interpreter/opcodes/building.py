"""Containers, strings, unpacking, functions."""

from __future__ import annotations

from types import CodeType

from rewriter.decode import Instruction

from ...errors import GraphBreak
from ...values.base import Value
from ...values.builtins import call_builtin
from ...values.constants import ConstantValue, constant, joined, traced
from ...values.functions import CellValue, FunctionValue
from ...values.mappings import DictValue, new_dict, new_set, string_items
from ...values.sequences import ListValue, SliceValue, TupleValue
from ..frame import Frame, handles, refuses


@handles("BUILD_TUPLE")
def build_tuple(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.ctx.born(TupleValue(frame.pop_many(ins.arg))))


@handles("BUILD_LIST")
def build_list(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.ctx.born(ListValue(frame.pop_many(ins.arg))))


@handles("BUILD_SET")
def build_set(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.ctx.born(new_set(frame.ctx, frame.pop_many(ins.arg))))


@handles("BUILD_MAP")
def build_map(frame: Frame, ins: Instruction) -> None:
    flat = frame.pop_many(2 * ins.arg)
    frame.push(frame.ctx.born(new_dict(frame.ctx, list(zip(flat[::2], flat[1::2], strict=True)))))


@handles("BUILD_CONST_KEY_MAP")
def build_const_key_map(frame: Frame, ins: Instruction) -> None:
    keys = frame.pop_real().unpack(frame.ctx)
    frame.push(frame.ctx.born(new_dict(frame.ctx, list(zip(keys, frame.pop_many(ins.arg), strict=True)))))


@handles("BUILD_SLICE")
def build_slice(frame: Frame, ins: Instruction) -> None:
    parts = frame.pop_many(ins.arg)
    frame.push(SliceValue(parts + [constant(None)] * (3 - ins.arg)))


@handles("BUILD_STRING")
def build_string(frame: Frame, ins: Instruction) -> None:
    parts = [frame.ctx.real(part) for part in frame.pop_many(ins.arg)]
    frame.push(traced(frame.ctx, joined, *[part for part in parts if isinstance(part, ConstantValue)]))


@handles("LIST_APPEND")
def list_append(frame: Frame, ins: Instruction) -> None:
    item = frame.pop()
    frame.ctx.real(frame.stack[-ins.arg]).call_method(frame.ctx, "append", [item], {})


@handles("LIST_EXTEND")
def list_extend(frame: Frame, ins: Instruction) -> None:
    items = frame.pop()
    frame.ctx.real(frame.stack[-ins.arg]).call_method(frame.ctx, "extend", [items], {})


@handles("SET_ADD")
def set_add(frame: Frame, ins: Instruction) -> None:
    item = frame.pop()
    frame.ctx.real(frame.stack[-ins.arg]).call_method(frame.ctx, "add", [item], {})


@handles("SET_UPDATE")
def set_update(frame: Frame, ins: Instruction) -> None:
    items = frame.pop()
    frame.ctx.real(frame.stack[-ins.arg]).call_method(frame.ctx, "update", [items], {})


@handles("MAP_ADD")
def map_add(frame: Frame, ins: Instruction) -> None:
    value, key = frame.pop(), frame.pop()
    frame.ctx.real(frame.stack[-ins.arg]).setitem(frame.ctx, key, value)


@handles("DICT_UPDATE")
def dict_update(frame: Frame, ins: Instruction) -> None:
    items = frame.pop()
    frame.ctx.real(frame.stack[-ins.arg]).call_method(frame.ctx, "update", [items], {})


@handles("DICT_MERGE")
def dict_merge(frame: Frame, ins: Instruction) -> None:
    """Keyword arguments put together for a call: a key given twice is an error there."""
    added = frame.pop_real()
    target = frame.ctx.real(frame.stack[-ins.arg])
    assert isinstance(target, DictValue)
    known = string_items(frame.ctx, target)
    for name, value in string_items(frame.ctx, added).items():
        if name in known:
            raise GraphBreak("arguments do not fit the call", f"{name} given twice")
        target.setitem(frame.ctx, constant(name), value)


@handles("LIST_TO_TUPLE")
def list_to_tuple(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.ctx.born(TupleValue(frame.pop_real().unpack(frame.ctx))))


# strings ------------------------------------------------------------------------------------------------------------
@handles("CONVERT_VALUE")
def convert_value(frame: Frame, ins: Instruction) -> None:
    frame.push(call_builtin(frame.ctx, (str, repr, ascii)[ins.arg - 1], [frame.pop()]))


@handles("FORMAT_SIMPLE", "FORMAT_WITH_SPEC")
def format_value(frame: Frame, ins: Instruction) -> None:
    arguments = frame.pop_many(1 if ins.opname == "FORMAT_SIMPLE" else 2)
    frame.push(call_builtin(frame.ctx, format, arguments))


# unpacking ----------------------------------------------------------------------------------------------------------
def _items(frame: Frame, value: Value) -> list[Value]:
    if isinstance(value, ConstantValue) and not isinstance(value.value, (str, bytes, range, tuple)):
        frame.ctx.raise_(TypeError(f"cannot unpack non-iterable {type(value.value).__name__} object"))
    return value.unpack(frame.ctx)


@handles("UNPACK_SEQUENCE")
def unpack_sequence(frame: Frame, ins: Instruction) -> None:
    items = _items(frame, frame.pop_real())
    if len(items) < ins.arg:
        frame.ctx.raise_(ValueError(f"not enough values to unpack (expected {ins.arg}, got {len(items)})"))
    if len(items) > ins.arg:
        raise GraphBreak("Python raises or warns here", f"unpacking {len(items)} values, not {ins.arg}")
    frame.stack.extend(reversed(items))


@handles("UNPACK_EX")
def unpack_ex(frame: Frame, ins: Instruction) -> None:
    before, after = ins.arg
    items = _items(frame, frame.pop_real())
    if len(items) < before + after:
        raise GraphBreak("Python raises or warns here", f"unpacking {len(items)} values, not {before + after}")
    end = len(items) - after
    middle = frame.ctx.born(ListValue(items[before:end]))
    frame.stack.extend(reversed([*items[:before], middle, *items[end:]]))


# functions ----------------------------------------------------------------------------------------------------------
@handles("MAKE_FUNCTION")
def make_function(frame: Frame, ins: Instruction) -> None:
    code = frame.pop_real().as_python(frame.ctx)
    assert isinstance(code, CodeType)
    function = FunctionValue(code, frame.globals.module_dict)
    frame.push(frame.ctx.born(function))


@handles("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(frame: Frame, ins: Instruction) -> None:
    function, value = frame.pop(), frame.pop()
    ctx = frame.ctx
    if not isinstance(function, FunctionValue):  # the region begins between two of these
        raise GraphBreak("attribute cannot be set", f"{ins.arg} of a function")
    if ins.arg == "defaults":
        function.defaults = tuple(ctx.real(value).unpack(ctx))
    elif ins.arg == "kwdefaults":
        function.kwdefaults = string_items(ctx, ctx.real(value))
    elif ins.arg == "closure":
        cells = [ctx.real(cell) for cell in ctx.real(value).unpack(ctx)]
        function.closure = tuple(cell for cell in cells if isinstance(cell, CellValue))
    elif ins.arg == "annotations":
        real = ctx.real(value)
        if isinstance(real, TupleValue):  # name, value, name, value, ...
            flat = real.unpack(ctx)
            real = new_dict(ctx, list(zip(flat[::2], flat[1::2], strict=True)))
        function.annotations = real
    else:  # annotate: a function that computes the annotations when somebody asks (3.14)
        function.attributes = {**function.attributes, "__annotate__": value}
    frame.push(function)


refuses("template string is made", "BUILD_TEMPLATE", "BUILD_INTERPOLATION")
