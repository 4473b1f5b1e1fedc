"""Verify refuses each kind of wrong graft, with the error that names it. Nothing here is ever run."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import pytest

from rewriter import entries, graft, layouts, region
from rewriter.assemble import Assembler, Cover
from rewriter.decode import Decoded, decode, exception_table
from rewriter.entries import Emitter
from rewriter.flow import Places
from rewriter.region import EntryLayout, LandingLayout
from rewriter.splice import Splice
from rewriter.text import compile_slot
from rewriter.units import units
from rewriter.verify import verify, verify_slot
from rewriter.versions_emit import CACHES, OPCODE
from tests.rewriter.grafting import enterable, none_slot


class Manager:
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...


def function(xs: list[int], flag: bool) -> Any:
    if flag:
        maybe = 1
    total = 0
    for x in xs:
        with Manager():
            total += max(x, xs.index(x, total or x))
            try:
                total -= 1
            except ValueError:
                total += x
    try:
        total -= max(total, xs.index(total, total))
    except ValueError:
        total = max(total, xs.index(0))
    return total, maybe


def generator(xs: list[int]) -> Any:
    for x in xs:
        try:
            yield x
        except KeyError:
            xs = []


def made(target: FunctionType = function, places: Any = None) -> tuple[Decoded, CodeType, Places]:
    decoded = decode(target.__code__)
    places = enterable(decoded) if places is None else places
    slots = {index: none_slot(decoded, index, {}) for index in places}
    return (decoded, *graft.unverified(decoded, slots, None, None))


def refused(error: type[Exception], decoded: Decoded, code: CodeType, places: Places) -> None:
    with pytest.raises(error) as caught:
        verify(decoded, code, places)
    assert caught.type is error, caught.value


@pytest.mark.parametrize("target", [function, generator])
def test_right_grafts_pass(target):
    verify(*made(target))
    verify(*made(target, ()))


# what the emitter might do wrong


def exit_keeps_the_stack(self: Emitter, layout: EntryLayout, tree: int, **how: bool) -> None:
    self.assembler.emit("STORE_FAST", self.result)
    self.assembler.emit("LOAD_FAST", self.result)
    self.assembler.jump("JUMP_FORWARD", tree)


def landing_forgets_the_stack(self: Emitter, stack: tuple[bool, ...]) -> None:
    for is_object in stack:
        if is_object:
            self.assembler.emit("POP_TOP")


def landing_pushes_objects_for_nulls(self: Emitter, stack: tuple[bool, ...]) -> None:
    for is_object in stack:
        if not is_object:
            self.assembler.load_constant(None)


def landing_swaps_null_and_object(self: Emitter, stack: tuple[bool, ...]) -> None:
    push(self, stack[::-1])


def landing_forgets_the_locals(self: Emitter, name: str, checked: bool) -> None:
    self.assembler.emit("POP_TOP")


def entry_reads_unbound_locals(self: Emitter, name: str, height: int) -> None:
    self.assembler.original_op("LOAD_FAST", self.slot_index[name])


def exit_pops_nulls(self: Emitter, layout: EntryLayout, tree: int, **how: bool) -> None:
    self.assembler.emit("STORE_FAST", self.result)
    for _ in layout.stack:
        self.assembler.emit("POP_TOP")
    self.assembler.load_constant(1)
    self.assembler.jump("JUMP_FORWARD", tree)


def exit_forgets_the_result(self: Emitter, layout: EntryLayout, tree: int, **how: bool) -> None:
    exit_(self, layout, tree, **how)
    op = self.assembler.ops.pop()
    self.assembler.emit("DELETE_FAST", self.result)
    self.assembler.ops.append(op)


def landing_ends_a_handler(self: Emitter, layout: LandingLayout, target: int) -> None:
    self.assembler.load_constant(None)
    self.assembler.emit("POP_EXCEPT")
    landing(self, layout, target)


# A load that unbinds at once gives a NULL instead.
UNBOUND_RESULT = region.WrongStackSlot if "LOAD_FAST_AND_CLEAR" in OPCODE else region.UnboundLocal
exit_, landing, push = Emitter.exit, Emitter.landing, Emitter._push


@pytest.mark.parametrize("method, wrong, error", [
    ("exit", exit_keeps_the_stack, region.StackMismatch),
    ("_push", landing_forgets_the_stack, region.StackMismatch),
    ("_push", landing_pushes_objects_for_nulls, region.WrongStackSlot),
    ("_push", landing_swaps_null_and_object, region.WrongStackSlot),
    ("_bind", landing_forgets_the_locals, region.UnboundLocal),
    ("_load_checked", entry_reads_unbound_locals, region.UnboundLocal),
    pytest.param("exit", exit_pops_nulls, region.WrongStackSlot, marks=pytest.mark.skipif(
        sys.version_info >= (3, 14), reason="POP_TOP takes a NULL")),
    ("exit", exit_forgets_the_result, UNBOUND_RESULT),
    ("landing", landing_ends_a_handler, region.WrongStackSlot),
])
def test_wrong_emitters(monkeypatch, method, wrong, error):
    monkeypatch.setattr(Emitter, method, wrong)
    refused(error, *made())


def test_copies_of_nulls(monkeypatch):
    """An entry whose layout takes every stack slot for an object."""
    def blind(decoded, index):
        layout = layouts.entry_layout(decoded, index)
        return EntryLayout(index, layout.locals, layout.checked, layout.cells, (True,) * len(layout.stack),
                           (*layout.parameters, *["more"] * layout.stack.count(False)))

    monkeypatch.setattr(graft, "entry_layout", blind)
    monkeypatch.setattr(graft, "check_slot", lambda code, layout: None)
    refused(region.WrongStackSlot, *made())


def test_landings_in_another_exception_context(monkeypatch):
    monkeypatch.setattr(graft, "context_of", lambda decoded, index: ())
    refused(region.WrongStackSlot, *made())


def test_method_loads_that_may_push_no_null(monkeypatch):
    monkeypatch.setattr(graft, "plain_loads", lambda decoded, number, places: set())
    refused(region.WrongStackSlot, *made())


def test_unbound_handlers_with_another_depth(monkeypatch):
    for wrong in (-1, 1):
        with monkeypatch.context() as patch:
            patch.setattr(entries, "Cover", lambda target, depth, lasti, by=wrong: Cover(target, depth + by, lasti))
            decoded, code, places = made()
        with pytest.raises((region.StackMismatch, region.HandlerMismatch)):
            verify(decoded, code, places)


def test_inlined_code_that_reads_unbound_locals(monkeypatch):
    decoded = decode(function.__code__)
    slot = none_slot(decoded, decoded.start, {})
    slot.__code__ = compile_slot("def slot(xs, flag):\n    y = xs\n    return y or None", {}, register=False)
    write = Splice.write

    def forgetful(self, assembler, frame, done):
        first = len(assembler.ops)
        temporaries = write(self, assembler, frame, done)
        for number, op in enumerate(assembler.ops[first:], first):
            if op.name == "STORE_FAST":
                assembler.ops[number] = op._replace(name="POP_TOP", arg=0)
        return temporaries

    verify(decoded, *graft.unverified(decoded, {}, None, None, {decoded.start: slot.__code__}))
    monkeypatch.setattr(Splice, "write", forgetful)
    refused(region.UnboundLocal, decoded, *graft.unverified(decoded, {}, None, None, {decoded.start: slot.__code__}))


def test_text_that_reads_unbound_locals():
    verify_slot(compile_slot("def slot(x):\n    if x:\n        y = x\n    else:\n        return\n    return y", {}))
    for text in ("    if x:\n        y = x\n    return y", "    del x\n    return x", "    for y in x: y\n    del y"):
        with pytest.raises(region.UnboundLocal):
            verify_slot(compile_slot("def slot(x):\n" + text, {}))


# handlers


def with_table(code: CodeType, change: Callable[[list[Any]], Any]) -> CodeType:
    table = change(exception_table(code))
    data = bytearray()
    for start, end, target, depth, lasti in table:
        for place, value in enumerate((start // 2, (end - start) // 2, target // 2, depth << 1 | lasti)):
            septets = [value & 63]
            while value := value >> 6:
                septets.append(value & 63)
            octets = [septet | 64 for septet in septets[:0:-1]] + [septets[0]]
            octets[0] |= 0 if place else 128
            data += bytes(octets)
    return code.replace(co_exceptiontable=bytes(data))


def test_tables_are_written_as_read():
    code = made()[1]
    assert with_table(code, lambda table: table).co_exceptiontable == code.co_exceptiontable


@pytest.mark.parametrize("change", [
    lambda table: [],
    lambda table: table[1:],
    lambda table: table[:-1],
    lambda table: [(start, end, target, depth + 1, lasti) for start, end, target, depth, lasti in table],
    lambda table: [(start, end, target, 0, lasti) for start, end, target, depth, lasti in table],
    lambda table: [(start, end, target, depth, not lasti) for start, end, target, depth, lasti in table],
    lambda table: [(start, end, table[-1][2], depth, lasti) for start, end, target, depth, lasti in table],
    lambda table: [(start, end - 2, target, depth, lasti) for start, end, target, depth, lasti in table],
], ids=range(8))
@pytest.mark.parametrize("target", [function, generator])
@pytest.mark.parametrize("places", [None, ()])
def test_changed_handlers(change, target, places):
    decoded, code, body = made(target, places)
    changed = with_table(code, change)
    if units(changed) == units(code):  # the last entry may cover a cache only
        return
    with pytest.raises((region.HandlerMismatch, region.UnboundLocal)) as caught:  # the latter: a load's handler of ours
        verify(decoded, changed, body)
    assert places is None or caught.type is region.HandlerMismatch


def test_added_code_of_a_generator_outside_of_its_own_handler(monkeypatch):
    decoded = decode(generator.__code__)
    around = decoded.handler_at(decoded.start - 1)
    slots = {decoded.start: none_slot(decoded, decoded.start, {})}
    if around is None:  # before 3.12 the interpreter itself turns StopIteration into RuntimeError
        return
    monkeypatch.setattr(graft._Graft, "around", property(lambda self: None, lambda self, value: None), raising=False)
    refused(region.HandlerMismatch, decoded, *graft.unverified(decoded, slots, None, None))


# jumps, opcodes, the body


def patched(code: CodeType, offset: int, *values: int) -> CodeType:
    body = bytearray(code.co_code)
    body[offset : offset + len(values)] = bytes(values)
    return code.replace(co_code=bytes(body))


def jump_offsets(code: CodeType) -> list[int]:
    return [i.offset for i in dis.get_instructions(code) if i.opname.startswith(("POP_JUMP", "JUMP_FORWARD"))]


def test_jumps_to_no_instruction():
    decoded, code, places = made(places=())
    starts = {unit.offset for unit in units(code)}
    refused_ones = 0
    for offset in jump_offsets(code):
        for arg in range(60):
            behind = offset + 2 + 2 * CACHES[dis.opname[code.co_code[offset]]]
            backward = "BACKWARD" in dis.opname[code.co_code[offset]]
            target = behind + (-2 if backward else 2) * arg
            if target not in starts:
                refused(region.WildJump, decoded, patched(code, offset + 1, arg), places)
                refused_ones += 1
    assert refused_ones > 5


def test_jumps_of_the_body_to_somewhere_else():
    decoded, code, places = made(places=())
    offset = jump_offsets(code)[0]
    starts = {unit.offset for unit in units(code)}
    behind = offset + 2 + 2 * CACHES[dis.opname[code.co_code[offset]]]
    other = next(arg for arg in range(1, 60) if behind + 2 * arg in starts and arg != code.co_code[offset + 1])
    refused(region.WildJump, decoded, patched(code, offset + 1, other), places)


def test_code_that_ends_without_an_end(monkeypatch):
    def endless(self):
        self.assembler.emit("NOP")

    monkeypatch.setattr(Emitter, "wrong_exit", endless)
    monkeypatch.setattr(Emitter, "landing", lambda self, layout, target: self.assembler.emit("NOP"))
    decoded = decode(function.__code__)
    slots = {decoded.start: none_slot(decoded, decoded.start, {})}
    with pytest.raises((region.WildJump, region.StackMismatch)):
        verify(decoded, *graft.unverified(decoded, slots, [], None))


def test_opcodes_that_this_python_lacks():
    decoded, code, places = made(places=())
    # Other free numbers are specialised or instrumented instructions, which are not read back as they are.
    unknown = 125 if sys.version_info >= (3, 13) else max(set(range(256)) - set(OPCODE.values()))
    assert unknown not in dis.opmap.values()
    refused(region.UnknownOpcode, decoded, patched(code, units(code)[-1].offset, unknown), places)


@pytest.mark.parametrize("name", ["INSTRUMENTED_RESUME", "LOAD_ATTR_SLOT", "NO_SUCH", "SETUP_FINALLY"])
def test_opcodes_that_are_never_written(name):
    assembler = Assembler(function.__code__)
    assembler.emit(name)
    with pytest.raises(region.UnknownOpcode, match=name):
        assembler.finish(1)


def test_another_body():
    decoded, code, places = made(places=())
    constant = next(unit for unit in units(code) if unit.name == "LOAD_CONST")
    nop = patched(code, constant.offset, OPCODE["NOP"], 0)
    refused(region.BodyMismatch, decoded, nop, places)
    body = places.body
    for other in (body[:-1], [*body[:-2], body[-1], body[-2]], [0, *body[:-1]]):
        refused(region.BodyMismatch, decoded, code, places._replace(body=other))


@pytest.mark.parametrize("changes", [
    {"co_flags": function.__code__.co_flags | 0x20}, {"co_name": "other"}, {"co_qualname": "other"},
    {"co_filename": "other"}, {"co_firstlineno": 1}, {"co_argcount": 1},
    {"co_varnames": tuple(reversed(function.__code__.co_varnames))}, {"co_linetable": b""},
])
def test_another_frame(changes):
    decoded, code, places = made(places=())
    if "co_varnames" in changes:
        changes = {"co_varnames": changes["co_varnames"] + code.co_varnames[function.__code__.co_nlocals :]}
    refused(region.BodyMismatch, decoded, code.replace(**changes), places)


def test_other_constants():
    decoded, code, places = made(places=())
    constants = list(code.co_consts)
    place = next(n for n, value in enumerate(constants) if value == 1)
    constants[place] = True
    refused(region.BodyMismatch, decoded, code.replace(co_consts=tuple(constants)), places)


def test_too_small_a_stack(monkeypatch):
    monkeypatch.setattr(Emitter, "need", lambda self, depth: None)
    refused(region.StackMismatch, *made())


def test_labels_without_a_place():
    assembler = Assembler(function.__code__)
    assembler.jump("JUMP_FORWARD", assembler.label())
    with pytest.raises(region.WildJump):
        assembler.finish(1)
    assembler = Assembler(function.__code__)
    label = assembler.label()
    assembler.place(label)
    assembler.emit("NOP")
    assembler.jump("JUMP_FORWARD", label)
    with pytest.raises(region.WildJump):
        assembler.finish(1)
