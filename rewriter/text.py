"""Region text to slot code, and the functions behind entries.

The text is one function definition. CPython compiles it; then loads of `k_*` globals become loads of constants, here,
so that a slot depends on no namespace but the user's own.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import re
import warnings
import weakref
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from .assemble import Assembler, Cover
from .region import TextError
from .units import Unit, units
from .versions_emit import global_load, with_null, work_done

PREFIX = "k_"


def new_slot(name: str, parameters: Sequence[str], namespace: dict[str, Any]) -> FunctionType:
    """A slot that answers None; its `__code__` may be swapped for that of any text with the same parameters."""
    slot = FunctionType(_silent_code(tuple(parameters)), namespace, name)
    slot.__qualname__ = name
    return slot


@functools.lru_cache(maxsize=4096)
def _silent_code(parameters: tuple[str, ...]) -> CodeType:
    return compile_slot(f"def slot({', '.join(parameters)}):\n    return None\n", {}, register=False)


def compile_slot(
    text: str, constants: Mapping[str, object], *, name: str = "slot", line: int = 0, register: bool = True
) -> CodeType:
    """The code of the function that `text` defines, with each global `k_*` replaced by its object in `constants`.

    The object itself is loaded, never an equal one. A debugger sees the text, under a file name of its own, for as long
    as the code object lives (`register`).
    """
    filename = _free_filename(f"{name}:{line}") if register else "<torchgraft>"
    loading = _compiled(text, filename)
    code = _written_by_compiler(text, loading, constants, filename) or _bind(loading, constants)
    if register:
        lines = text.splitlines(keepends=True)
        linecache.cache[filename] = (len(text), None, lines, filename)
        weakref.finalize(code, linecache.cache.pop, filename, None).atexit = False
    return code


def _compiled(text: str, filename: str) -> CodeType:
    try:
        module = compile(text, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise TextError(f"{error} in region text:\n{text}") from error
    codes = [constant for constant in module.co_consts if isinstance(constant, CodeType)]
    if len(codes) != 1 or codes[0].co_name != "slot":
        raise TextError(f"region text must be one function named slot:\n{text}")
    return codes[0]


# the quick way: CPython itself writes the loads of constants --------------------------------------------------------
#: strings and comments, which are left alone, and names of constants: no attribute, no keyword's or target's name
_WORDS = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|#[^\n]*|(?<![.\w])k_\w+(?!\w|\s*=[^=])""")
#: the beginning of our file names
_OURS = re.compile("<torchgraft")
#: numbers that no text has: constant i stands in it as FIRST + i times the imaginary unit
_FIRST = 7_340_127_510_001


def _written_by_compiler(
    text: str, loading: CodeType, constants: Mapping[str, object], filename: str
) -> CodeType | None:
    """Compile with a number for each constant and put the objects in their place.

    A slot of thousands of lines is bound in the time that compiling it takes. The compiler may know better than to load
    a number (`not 1j` is False): None where it did anything but load each, by comparison with the code that loads
    names. Then the instructions are rewritten one by one.
    """
    numbers: dict[str, int] = {}  # one for each constant: the more there are, the more loads take two instructions

    def placeholder(match: re.Match[str]) -> str:
        word = match[0]
        if word[0] != "k" or word not in constants:
            return word
        return f"{_FIRST + numbers.setdefault(word, len(numbers))}j"

    replaced = _WORDS.sub(placeholder, text)
    _hush()
    try:
        code = _compiled(replaced, filename)
    except TextError:
        return None  # a number stands where only a name can; the other way says what is wrong
    objects = {complex(0, _FIRST + number): constants[word] for word, number in numbers.items()}
    return _with_objects(code, objects) if _same_work(code, loading, objects) else None


def _hush() -> None:
    """No warning that "'complex' object is not callable".

    One filter, left in place: to add and remove it each time would make Python forget which warnings it has shown.
    """
    wanted = ("ignore", None, SyntaxWarning, _OURS, 0)
    if warnings.filters[:1] != [wanted]:
        warnings.filterwarnings("ignore", category=SyntaxWarning, module=_OURS.pattern)


def _same_work(code: CodeType, loading: CodeType, objects: Mapping[complex, object]) -> bool:
    """Do both do the same, but for loading numbers or names, and tuples of nothing but numbers ready made?"""
    seen: set[complex] = set()

    def count(value: object) -> None:
        if type(value) is complex and value in objects:
            seen.add(value)
        elif type(value) is tuple:
            for item in value:
                count(item)

    def same(one: CodeType, other: CodeType) -> bool:
        if any(name.startswith(PREFIX) for name in (*one.co_names, *one.co_varnames, *one.co_cellvars)):
            return False
        for value in one.co_consts:
            count(value)
        strings = {value for value in other.co_consts if type(value) is str}
        nested = [value for value in one.co_consts if isinstance(value, CodeType)]
        counterparts = [value for value in other.co_consts if isinstance(value, CodeType)]
        return (
            all(value in strings for value in one.co_consts if type(value) is str)
            and work_done(one) == work_done(other)
            and len(nested) == len(counterparts)
            and all(map(same, nested, counterparts))
        )

    return same(code, loading) and seen == objects.keys()


def _with_objects(code: CodeType, objects: Mapping[complex, object]) -> CodeType:
    def put(value: object) -> object:
        if type(value) is complex:
            return objects.get(value, value)
        if type(value) is tuple:
            return tuple([put(item) for item in value])
        return _with_objects(value, objects) if isinstance(value, CodeType) else value

    return code.replace(co_consts=tuple([put(value) for value in code.co_consts]))


def _free_filename(label: str) -> str:
    """A file name under which linecache has nothing."""
    for number in itertools.count(1):
        filename = f"<torchgraft {label}>" if number == 1 else f"<torchgraft {label} #{number}>"
        if filename not in linecache.cache:
            return filename
    raise AssertionError


def _bind(code: CodeType, constants: Mapping[str, object]) -> CodeType:
    """The same code with LOAD_CONST for the globals named `k_*`, in nested functions too."""
    for local in (*code.co_varnames, *code.co_cellvars):
        if local.startswith(PREFIX):
            raise TextError(f"region text binds {local}: names with {PREFIX} are constants")
    nested = tuple(_bind(value, constants) if isinstance(value, CodeType) else value for value in code.co_consts)
    if any(new is not old for new, old in zip(nested, code.co_consts, strict=True)):
        code = code.replace(co_consts=nested)
    if not any(name.startswith(PREFIX) for name in code.co_names):
        return code
    body = units(code)
    assembler = Assembler(code)
    labels = [assembler.label() for _ in body]
    for unit, label in zip(body, labels, strict=True):
        assembler.place(label)
        assembler.positions = unit.positions
        handler = unit.handler
        assembler.cover = handler and Cover(labels[handler.target], handler.depth, handler.lasti)
        if unit.target >= 0:
            assembler.jump(unit.name, labels[unit.target])
            continue
        assembler.emit_all(unit.before)
        load = _constant_load(assembler, unit, constants)
        if load is None:
            assembler.original_op(unit.name, unit.arg)
        else:
            assembler.emit_all(load)
    return assembler.finish(code.co_stacksize)


def _constant_load(
    assembler: Assembler, unit: Unit, constants: Mapping[str, object]
) -> tuple[tuple[str, int], ...] | None:
    names = assembler.original.co_names
    if unit.name in ("STORE_GLOBAL", "DELETE_GLOBAL") and names[unit.arg].startswith(PREFIX):
        raise TextError(f"region text changes {names[unit.arg]}: names with {PREFIX} are constants")
    if unit.name != "LOAD_GLOBAL":
        return None
    index, null = global_load(unit.arg)
    name = names[index]
    if not name.startswith(PREFIX):
        return None
    if name not in constants:
        raise TextError(f"region text names {name}, which is not among its constants: {', '.join(sorted(constants))}")
    load = ("LOAD_CONST", assembler.constant(constants[name]))
    return with_null((load,)) if null else (load,)
