"""Stack moves, locals, cells, globals and imports."""

from __future__ import annotations

import sys
from types import CodeType, ModuleType

from rewriter.decode import Instruction

from ...errors import GraphBreak
from ...sources import Item
from ...values.base import Value
from ...values.constants import constant, is_constant
from ...values.functions import CellValue
from ...values.sequences import TupleValue
from ..frame import NULL, Frame, NullValue, handles, refuses


@handles("NOP", "RETURN_GENERATOR", "COPY_FREE_VARS")
def nothing(frame: Frame, ins: Instruction) -> None:
    """RETURN_GENERATOR: a generator's frame is made by the call; what its POP_TOP takes is pushed here."""
    if ins.opname == "RETURN_GENERATOR":
        frame.push(constant(None))


@handles("POP_TOP")
def pop_top(frame: Frame, ins: Instruction) -> None:
    frame.pop()


@handles("COPY")
def copy(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.stack[-ins.arg])


@handles("SWAP")
def swap(frame: Frame, ins: Instruction) -> None:
    stack = frame.stack
    stack[-1], stack[-ins.arg] = stack[-ins.arg], stack[-1]


@handles("PUSH_NULL")
def push_null(frame: Frame, ins: Instruction) -> None:
    frame.push(NULL)


@handles("LOAD_CONST")
def load_const(frame: Frame, ins: Instruction) -> None:
    frame.push(literal(frame, ins.arg))


def literal(frame: Frame, obj: object) -> Value:
    if is_constant(obj) or isinstance(obj, CodeType):
        if type(obj) is tuple:
            return TupleValue([literal(frame, item) for item in obj])
        return constant(obj)
    return frame.ctx.wrap(obj, frame.ctx.hold(obj))


# locals -------------------------------------------------------------------------------------------------------------
@handles("LOAD_FAST")
def load_fast(frame: Frame, ins: Instruction) -> None:
    value = frame.locals.get(ins.arg)
    if value is None:
        if ins.arg in frame.cells:  # a cell that was already made, read as a plain local by generated code
            frame.push(frame.cells[ins.arg])
            return
        frame.ctx.raise_(
            UnboundLocalError(f"cannot access local variable {ins.arg!r} where it is not associated with a value")
        )
    frame.push(value)


class SavedCell(Value):
    """A cell that an inlined comprehension (3.12+) took out of its slot, and puts back at its end."""

    __slots__ = ("cell",)

    kind = "saved cell"

    def __init__(self, cell: CellValue) -> None:
        super().__init__()
        self.cell = cell


@handles("STORE_FAST")
def store_fast(frame: Frame, ins: Instruction) -> None:
    value = frame.pop()
    if isinstance(value, SavedCell):
        frame.locals.pop(ins.arg, None)
        frame.cells[ins.arg] = value.cell
        return
    if isinstance(value, NullValue):  # an inlined comprehension gives back the unbound variable that it saved
        frame.locals.pop(ins.arg, None)
        return
    if ins.arg in frame.code.co_cellvars + frame.code.co_freevars and isinstance(frame.ctx.real(value), CellValue):
        # a region that began within the comprehension may not land behind it, where the slot is a cell again
        raise GraphBreak("comprehension variable is shared", ins.arg)
    frame.locals[ins.arg] = value


@handles("DELETE_FAST")
def delete_fast(frame: Frame, ins: Instruction) -> None:
    if ins.arg not in frame.locals:
        frame.ctx.raise_(
            UnboundLocalError(f"cannot access local variable {ins.arg!r} where it is not associated with a value")
        )
    del frame.locals[ins.arg]


@handles("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(frame: Frame, ins: Instruction) -> None:
    if ins.arg in frame.cells:
        frame.push(SavedCell(frame.cells.pop(ins.arg)))
    else:
        frame.push(frame.locals.pop(ins.arg, NULL))


# cells --------------------------------------------------------------------------------------------------------------
@handles("MAKE_CELL")
def make_cell(frame: Frame, ins: Instruction) -> None:
    frame.cells[ins.arg] = frame.ctx.born(CellValue(frame.locals.pop(ins.arg, None)))


@handles("LOAD_CLOSURE")
def load_closure(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.cells[ins.arg])


def cell(frame: Frame, name: str) -> CellValue:
    found = frame.ctx.real(frame.cells[name])
    assert isinstance(found, CellValue)
    return found


@handles("LOAD_DEREF")
def load_deref(frame: Frame, ins: Instruction) -> None:
    content = cell(frame, ins.arg).content
    if content is None:
        if ins.arg in frame.code.co_freevars:
            text = f"cannot access free variable {ins.arg!r} where it is not associated with a value in enclosing scope"
            frame.ctx.raise_(NameError(text))
        frame.ctx.raise_(
            UnboundLocalError(f"cannot access local variable {ins.arg!r} where it is not associated with a value")
        )
    frame.push(content)


@handles("STORE_DEREF")
def store_deref(frame: Frame, ins: Instruction) -> None:
    value = frame.pop()
    frame.ctx.stores("cell_contents", value)
    frame.ctx.change(cell(frame, ins.arg), value)


@handles("DELETE_DEREF")
def delete_deref(frame: Frame, ins: Instruction) -> None:
    found = cell(frame, ins.arg)
    if found.content is None:
        raise GraphBreak("Python raises or warns here", f"deleting {ins.arg}, which is unbound")
    frame.ctx.change(found, None)


# globals ------------------------------------------------------------------------------------------------------------
@handles("LOAD_GLOBAL")
def load_global(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.globals.load(frame.ctx, ins.arg))


@handles("STORE_GLOBAL")
def store_global(frame: Frame, ins: Instruction) -> None:
    value = frame.pop()
    frame.ctx.stores(ins.arg, value)
    frame.globals.store(frame.ctx, ins.arg, value)


@handles("DELETE_GLOBAL")
def delete_global(frame: Frame, ins: Instruction) -> None:
    frame.globals.load(frame.ctx, ins.arg)
    frame.globals.store(frame.ctx, ins.arg, None)


# imports ------------------------------------------------------------------------------------------------------------
@handles("IMPORT_NAME")
def import_name(frame: Frame, ins: Instruction) -> None:
    """A module that is loaded already: the statement only looks it up."""
    names, level = frame.pop_real(), frame.pop_real().as_python(frame.ctx)
    wanted = names.as_python(frame.ctx)
    if level:
        raise GraphBreak("import is run", f"of {ins.arg}, relative")
    full = ins.arg
    module = sys.modules.get(full)
    if not isinstance(module, ModuleType):
        raise GraphBreak("import is run", f"of {full}, which is not loaded")
    if not wanted:
        full = full.partition(".")[0]
        module = sys.modules[full]
    frame.push(frame.ctx.wrap(module, Item(frame.ctx.hold(sys.modules, "modules"), full)))


@handles("IMPORT_FROM")
def import_from(frame: Frame, ins: Instruction) -> None:
    frame.push(frame.ctx.real(frame.stack[-1]).getattr(frame.ctx, ins.arg))


refuses(
    "class is defined in the function",
    "LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_LOCALS", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF",
    "LOAD_BUILD_CLASS", "SETUP_ANNOTATIONS", "IMPORT_STAR", "PRINT_EXPR", "INTRINSIC",
)  # fmt: skip
