"""A plain machine that executes canonical instructions, written from ARCHITECTURE.md alone.

What it gives for a function must be what CPython gives: so a wrong argument, order, target or handler in decode shows
as a wrong result. Functions that the code makes are real ones.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import operator
import types
from collections.abc import Callable, Generator
from typing import Any

from rewriter.decode import Decoded, decode


class Null:
    def __repr__(self) -> str:
        return "NULL"


NULL = Null()


class Frame:
    def __init__(self, code: types.CodeType, namespace: dict[str, Any], arguments: dict[str, Any]) -> None:
        self.decoded: Decoded = decode(code)
        self.globals, self.locals = namespace, namespace
        self.slots: dict[str, Any] = dict(arguments)
        self.closure: tuple[types.CellType, ...] = ()
        self.stack: list[Any] = []
        self.handling: list[Any] = []
        self.index = 0

    def push(self, *values: Any) -> None:
        self.stack += values

    def pop(self) -> Any:
        value = self.stack.pop()
        assert value is not NULL, f"{self.decoded.instructions[self.index]} takes a NULL"
        return value

    def popn(self, count: int) -> list[Any]:
        values = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return values

    def slot(self, name: str) -> Any:
        if name not in self.slots:
            raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
        return self.slots[name]

    def look_up(self, name: str) -> Any:
        for namespace in (self.globals, vars(builtins)):
            if name in namespace:
                return namespace[name]
        raise NameError(f"name '{name}' is not defined")


def execute(frame: Frame) -> Generator[Any, Any, Any]:
    """Run to the return value, and yield what the code yields."""
    instructions, stack = frame.decoded.instructions, frame.stack
    while True:
        instruction = instructions[frame.index]
        kinds = frame.decoded.stack_at(frame.index)
        assert kinds is not None and [kind.name for kind in kinds] == [
            kind.name if kind.name == "MAYBE_NULL" else "NULL" if value is NULL else "OBJECT"
            for kind, value in zip(kinds, stack, strict=True)
        ], (instruction, kinds, stack)
        try:
            if instruction.opname == "RETURN_VALUE":
                return frame.pop()
            if instruction.opname == "YIELD_VALUE":
                value = frame.pop()
                stack.append(None)  # an exception that is thrown in finds the stack as deep as it was
                stack[-1] = yield value
                jump = False
            else:
                jump = bool(HANDLERS[instruction.opname](frame, instruction.arg))
        except BaseException as thrown:
            error: BaseException | None = thrown
            if instruction.opname == "YIELD_VALUE" and instructions[frame.index - 1].opname == "SEND":
                error = delegate(frame, thrown)
            if error is None:
                continue
            handler = frame.decoded.handler_at(frame.index)
            if handler is None:
                raise error from error.__cause__
            del stack[handler.depth :]
            if handler.lasti:
                stack.append(instruction.offset)
            stack.append(error)
            frame.index = handler.target
            continue
        if jump:
            assert instruction.target is not None
            frame.index = instruction.target
        else:
            frame.index += 1


def delegate(frame: Frame, thrown: BaseException) -> BaseException | None:
    """What is thrown in at a `yield from` goes to the inner iterator; what comes out of it, if it is an exception."""
    receiver = frame.stack[-2]
    try:
        if isinstance(thrown, GeneratorExit):
            if hasattr(receiver, "close"):
                receiver.close()
            return thrown
        if not hasattr(receiver, "throw"):
            return thrown
        frame.stack[-1] = receiver.throw(thrown)  # yielded in its turn
    except StopIteration as stop:
        frame.stack[-2:] = [stop.value]
        target = frame.decoded.instructions[frame.index - 1].target
        assert target is not None
        frame.index = target
    except BaseException as error:
        return error
    return None


def finish(running: Generator[Any, Any, Any]) -> Any:
    try:
        next(running)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a plain function yields")


def on_machine(function: types.FunctionType) -> Callable[..., Any]:
    """The function, executed here."""
    signature = inspect.signature(function)

    def frame(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Frame:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        made = Frame(function.__code__, function.__globals__, bound.arguments)
        made.closure = function.__closure__ or ()
        return made

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return finish(execute(frame(args, kwargs)))

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Any:
        return execute(frame(args, kwargs))

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await types.coroutine(execute)(frame(args, kwargs))

    if inspect.iscoroutinefunction(function):
        return coroutine
    return generator if inspect.isgeneratorfunction(function) else plain


Handler = Callable[[Frame, Any], Any]
HANDLERS: dict[str, Handler] = {}


def handles(*opnames: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(opnames, handler))
        return handler

    return register


def from_operands(count: int, function: Callable[..., Any]) -> Handler:
    """Takes operands, gives one result."""

    def handler(frame: Frame, arg: Any) -> None:
        operands = [frame.pop() for _ in range(count)][::-1]
        frame.push(function(*operands))

    return handler


BINARY = {
    "+": operator.add, "&": operator.and_, "//": operator.floordiv, "<<": operator.lshift, "@": operator.matmul,
    "*": operator.mul, "%": operator.mod, "|": operator.or_, "**": operator.pow, ">>": operator.rshift,
    "-": operator.sub, "/": operator.truediv, "^": operator.xor,
    "+=": operator.iadd, "&=": operator.iand, "//=": operator.ifloordiv, "<<=": operator.ilshift,
    "@=": operator.imatmul, "*=": operator.imul, "%=": operator.imod, "|=": operator.ior, "**=": operator.ipow,
    ">>=": operator.irshift, "-=": operator.isub, "/=": operator.itruediv, "^=": operator.ixor,
}
COMPARE = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}
HANDLERS.update({
    "UNARY_NEGATIVE": from_operands(1, operator.neg),
    "UNARY_POSITIVE": from_operands(1, operator.pos),
    "UNARY_INVERT": from_operands(1, operator.invert),
    "TO_BOOL": from_operands(1, bool),
    "BINARY_SUBSCR": from_operands(2, operator.getitem),
    "LIST_TO_TUPLE": from_operands(1, tuple),
    "FORMAT_SIMPLE": from_operands(1, format),
    "FORMAT_WITH_SPEC": from_operands(2, format),
    "GET_ITER": from_operands(1, iter),
    "GET_YIELD_FROM_ITER": from_operands(1, lambda value: value if inspect.isgenerator(value) else iter(value)),
    "GET_AWAITABLE": from_operands(1, lambda value: value if inspect.iscoroutine(value) else value.__await__()),
    "GET_AITER": from_operands(1, aiter),
    "END_SEND": from_operands(2, lambda receiver, value: value),
})


@handles("NOP")
def nop(frame: Frame, arg: Any) -> None:
    pass


@handles("POP_TOP")
def pop_top(frame: Frame, arg: Any) -> None:
    frame.stack.pop()


@handles("COPY")
def copy(frame: Frame, arg: int) -> None:
    frame.push(frame.stack[-arg])


@handles("SWAP")
def swap(frame: Frame, arg: int) -> None:
    stack = frame.stack
    stack[-arg], stack[-1] = stack[-1], stack[-arg]


@handles("PUSH_NULL")
def push_null(frame: Frame, arg: Any) -> None:
    frame.push(NULL)


@handles("LOAD_CONST")
def load_const(frame: Frame, arg: Any) -> None:
    frame.push(arg)


# variables


@handles("LOAD_FAST", "LOAD_CLOSURE")
def load_fast(frame: Frame, arg: str) -> None:
    frame.push(frame.slot(arg))


@handles("STORE_FAST")
def store_fast(frame: Frame, arg: str) -> None:
    value = frame.stack.pop()
    if value is NULL:
        frame.slots.pop(arg, None)
    else:
        frame.slots[arg] = value


@handles("DELETE_FAST")
def delete_fast(frame: Frame, arg: str) -> None:
    frame.slot(arg)
    del frame.slots[arg]


@handles("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(frame: Frame, arg: str) -> None:
    frame.push(frame.slots.pop(arg, NULL))


@handles("MAKE_CELL")
def make_cell(frame: Frame, arg: str) -> None:
    frame.slots[arg] = types.CellType(frame.slots[arg]) if arg in frame.slots else types.CellType()


@handles("COPY_FREE_VARS")
def copy_free_vars(frame: Frame, arg: int) -> None:
    assert len(frame.closure) == arg
    frame.slots.update(zip(frame.decoded.free, frame.closure, strict=True))


@handles("LOAD_DEREF")
def load_deref(frame: Frame, arg: str) -> None:
    try:
        frame.push(frame.slots[arg].cell_contents)
    except ValueError:
        kind = NameError if arg in frame.decoded.free else UnboundLocalError
        raise kind(f"cell {arg} is empty") from None


@handles("STORE_DEREF")
def store_deref(frame: Frame, arg: str) -> None:
    frame.slots[arg].cell_contents = frame.pop()


@handles("DELETE_DEREF")
def delete_deref(frame: Frame, arg: str) -> None:
    del frame.slots[arg].cell_contents


@handles("LOAD_GLOBAL")
def load_global(frame: Frame, arg: str) -> None:
    frame.push(frame.look_up(arg))


@handles("STORE_GLOBAL")
def store_global(frame: Frame, arg: str) -> None:
    frame.globals[arg] = frame.pop()


@handles("DELETE_GLOBAL")
def delete_global(frame: Frame, arg: str) -> None:
    del frame.globals[arg]


@handles("LOAD_NAME")
def load_name(frame: Frame, arg: str) -> None:
    frame.push(frame.locals[arg] if arg in frame.locals else frame.look_up(arg))


@handles("STORE_NAME")
def store_name(frame: Frame, arg: str) -> None:
    frame.locals[arg] = frame.pop()


@handles("DELETE_NAME")
def delete_name(frame: Frame, arg: str) -> None:
    del frame.locals[arg]


@handles("LOAD_LOCALS")
def load_locals(frame: Frame, arg: Any) -> None:
    frame.push(frame.locals)


@handles("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(frame: Frame, arg: str) -> None:
    mapping = frame.pop()
    frame.push(mapping[arg] if arg in mapping else frame.slots[arg].cell_contents)


@handles("LOAD_BUILD_CLASS")
def load_build_class(frame: Frame, arg: Any) -> None:
    frame.push(builtins.__build_class__)


@handles("SETUP_ANNOTATIONS")
def setup_annotations(frame: Frame, arg: Any) -> None:
    frame.locals.setdefault("__annotations__", {})


# operators and building


@handles("UNARY_NOT")
def unary_not(frame: Frame, arg: Any) -> None:
    frame.push(not exact_bool(frame))


@handles("BINARY_OP")
def binary_op(frame: Frame, arg: str) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(BINARY[arg](left, right))


@handles("COMPARE_OP")
def compare_op(frame: Frame, arg: str) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(COMPARE[arg](left, right))


@handles("IS_OP")
def is_op(frame: Frame, arg: bool) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push((left is right) != arg)


@handles("CONTAINS_OP")
def contains_op(frame: Frame, arg: bool) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push((left in right) != arg)


@handles("STORE_SUBSCR")
def store_subscr(frame: Frame, arg: Any) -> None:
    key, container, value = frame.pop(), frame.pop(), frame.pop()
    container[key] = value


@handles("DELETE_SUBSCR")
def delete_subscr(frame: Frame, arg: Any) -> None:
    key, container = frame.pop(), frame.pop()
    del container[key]


def building(function: Callable[[list[Any]], Any]) -> Handler:
    return lambda frame, arg: frame.push(function(frame.popn(arg)))


HANDLERS.update({
    "BUILD_TUPLE": building(tuple), "BUILD_LIST": building(list), "BUILD_SET": building(set),
    "BUILD_STRING": building("".join), "BUILD_SLICE": building(lambda parts: slice(*parts)),
})


@handles("BUILD_MAP")
def build_map(frame: Frame, arg: int) -> None:
    parts = frame.popn(2 * arg)
    frame.push(dict(zip(parts[::2], parts[1::2], strict=True)))


@handles("BUILD_CONST_KEY_MAP")
def build_const_key_map(frame: Frame, arg: int) -> None:
    keys = frame.pop()
    frame.push(dict(zip(keys, frame.popn(arg), strict=True)))


@handles("LIST_APPEND")
def list_append(frame: Frame, arg: int) -> None:
    value = frame.pop()
    frame.stack[-arg].append(value)


@handles("SET_ADD")
def set_add(frame: Frame, arg: int) -> None:
    value = frame.pop()
    frame.stack[-arg].add(value)


@handles("MAP_ADD")
def map_add(frame: Frame, arg: int) -> None:
    value, key = frame.pop(), frame.pop()
    frame.stack[-arg][key] = value


@handles("LIST_EXTEND")
def list_extend(frame: Frame, arg: int) -> None:
    values = frame.pop()
    frame.stack[-arg].extend(values)


@handles("SET_UPDATE", "DICT_UPDATE")
def update(frame: Frame, arg: int) -> None:
    values = frame.pop()
    frame.stack[-arg].update(values)


@handles("DICT_MERGE")
def dict_merge(frame: Frame, arg: int) -> None:
    values = frame.pop()
    into = frame.stack[-arg]
    for key in values:
        if key in into:
            raise TypeError(f"got multiple values for keyword argument '{key}'")
        into[key] = values[key]


@handles("CONVERT_VALUE")
def convert_value(frame: Frame, arg: int) -> None:
    frame.push((str, repr, ascii)[arg - 1](frame.pop()))


@handles("UNPACK_SEQUENCE")
def unpack_sequence(frame: Frame, arg: int) -> None:
    values = list(frame.pop())
    if len(values) != arg:
        raise ValueError("not as many values to unpack as expected")
    frame.push(*reversed(values))


@handles("UNPACK_EX")
def unpack_ex(frame: Frame, arg: tuple[int, int]) -> None:
    before, after = arg
    values = list(frame.pop())
    if len(values) < before + after:
        raise ValueError("not enough values to unpack")
    rest = values[before : len(values) - after]
    frame.push(*reversed([*values[:before], rest, *values[len(values) - after :]]))


# attributes, calls, functions


@handles("LOAD_ATTR")
def load_attr(frame: Frame, arg: str) -> None:
    frame.push(getattr(frame.pop(), arg))


@handles("STORE_ATTR")
def store_attr(frame: Frame, arg: str) -> None:
    owner, value = frame.pop(), frame.pop()
    setattr(owner, arg, value)


@handles("DELETE_ATTR")
def delete_attr(frame: Frame, arg: str) -> None:
    delattr(frame.pop(), arg)


@handles("LOAD_SUPER_ATTR")
def load_super_attr(frame: Frame, arg: tuple[str, bool]) -> None:
    receiver, cls, made_by = frame.pop(), frame.pop(), frame.pop()
    frame.push(getattr(made_by(cls, receiver), arg[0]))


@handles("LOAD_SPECIAL")
def load_special(frame: Frame, arg: str) -> None:
    owner = frame.pop()
    frame.push(getattr(type(owner), arg).__get__(owner))


def call_pair(frame: Frame, args: list[Any], kwargs: dict[str, Any]) -> None:
    lower, upper = frame.popn(2)
    called = [value for value in (lower, upper) if value is not NULL]
    frame.push(called[0](*called[1:], *args, **kwargs))


@handles("CALL")
def call(frame: Frame, arg: int) -> None:
    call_pair(frame, frame.popn(arg), {})


@handles("CALL_KW")
def call_kw(frame: Frame, arg: int) -> None:
    names = frame.pop()
    args = frame.popn(arg)
    split = arg - len(names)
    call_pair(frame, args[:split], dict(zip(names, args[split:], strict=True)))


@handles("CALL_FUNCTION_EX")
def call_function_ex(frame: Frame, arg: bool) -> None:
    kwargs = frame.pop() if arg else {}
    call_pair(frame, list(frame.pop()), kwargs)


@handles("MAKE_FUNCTION")
def make_function(frame: Frame, arg: Any) -> None:
    code = frame.pop()
    empty = tuple(types.CellType() for _ in code.co_freevars)
    frame.push(types.FunctionType(code, frame.globals, closure=empty))


@handles("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(frame: Frame, arg: str) -> None:
    function, value = frame.pop(), frame.pop()
    if arg == "closure":
        made = types.FunctionType(function.__code__, frame.globals, closure=value)
        made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        function = made
    elif arg == "annotations":
        function.__annotations__ = dict(zip(value[::2], value[1::2], strict=True))
    else:
        setattr(function, f"__{arg}__", value)
    frame.push(function)


# jumps, iteration, generators


def exact_bool(frame: Frame) -> bool:
    value = frame.pop()
    assert value is True or value is False, frame.decoded.instructions[frame.index]
    return bool(value)


HANDLERS.update({
    "JUMP": lambda frame, arg: True,
    "POP_JUMP_IF_TRUE": lambda frame, arg: exact_bool(frame),
    "POP_JUMP_IF_FALSE": lambda frame, arg: not exact_bool(frame),
    "POP_JUMP_IF_NONE": lambda frame, arg: frame.pop() is None,
    "POP_JUMP_IF_NOT_NONE": lambda frame, arg: frame.pop() is not None,
})
ENDED = object()


@handles("FOR_ITER")
def for_iter(frame: Frame, arg: Any) -> bool:
    value = next(frame.stack[-1], ENDED)
    if value is ENDED:
        frame.pop()
        return True
    frame.push(value)
    return False


@handles("SEND")
def send(frame: Frame, arg: Any) -> bool:
    value, receiver = frame.pop(), frame.stack[-1]
    try:
        plain = value is None and not hasattr(receiver, "send")
        frame.push(next(receiver) if plain else receiver.send(value))
        return False
    except StopIteration as stop:
        frame.stack[-1] = stop.value
        return True


@handles("RETURN_GENERATOR")
def return_generator(frame: Frame, arg: Any) -> None:
    frame.push(None)  # what the first `next` sends


@handles("GET_ANEXT")
def get_anext(frame: Frame, arg: Any) -> None:
    frame.push(type(frame.stack[-1]).__anext__(frame.stack[-1]).__await__())


@handles("END_ASYNC_FOR")
def end_async_for(frame: Frame, arg: Any) -> None:
    error, _ = frame.pop(), frame.pop()
    if not isinstance(error, StopAsyncIteration):
        raise error


@handles("CLEANUP_THROW")
def cleanup_throw(frame: Frame, arg: Any) -> None:
    error, _, _ = frame.pop(), frame.pop(), frame.pop()
    if not isinstance(error, StopIteration):
        raise error
    frame.push(None, error.value)


@handles("STOPITERATION_ERROR")
def stopiteration_error(frame: Frame, arg: Any) -> None:
    error = frame.pop()
    if isinstance(error, StopIteration):
        raise RuntimeError("generator raised StopIteration") from error
    frame.push(error)


# exceptions, with, match, imports


@handles("RAISE_VARARGS")
def raise_varargs(frame: Frame, arg: int) -> None:
    if arg == 0:
        error: BaseException = frame.handling[-1]
        raise error
    cause = frame.pop() if arg == 2 else ENDED
    raised = frame.pop()
    error = raised() if isinstance(raised, type) else raised
    if cause is not ENDED:
        raise error from cause  # type: ignore[misc]
    raise error


@handles("RERAISE")
def reraise(frame: Frame, arg: int) -> None:
    error = frame.pop()
    assert arg == 0 or isinstance(frame.stack[-arg], int)
    raise error


@handles("PUSH_EXC_INFO")
def push_exc_info(frame: Frame, arg: Any) -> None:
    error = frame.pop()
    frame.push(frame.handling[-1] if frame.handling else None, error)
    frame.handling.append(error)


@handles("POP_EXCEPT")
def pop_except(frame: Frame, arg: Any) -> None:
    frame.handling.pop()
    assert frame.pop() is (frame.handling[-1] if frame.handling else None)


@handles("CHECK_EXC_MATCH")
def check_exc_match(frame: Frame, arg: Any) -> None:
    kind = frame.pop()
    frame.push(isinstance(frame.stack[-1], kind))


@handles("CHECK_EG_MATCH")
def check_eg_match(frame: Frame, arg: Any) -> None:
    kind, error = frame.pop(), frame.pop()
    if isinstance(error, kind):
        match, rest = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error]), None
    else:
        match, rest = error.split(kind) if isinstance(error, BaseExceptionGroup) else (None, error)
    frame.push(rest, match)
    if match is not None:
        frame.handling[-1] = match


@handles("PREP_RERAISE_STAR")
def prep_reraise_star(frame: Frame, arg: Any) -> None:
    raised, original = frame.pop(), frame.pop()
    left = [error for error in raised if error is not None]
    frame.push(None if not left else left[0] if len(left) == 1 else BaseExceptionGroup(original.message, left))


@handles("BEFORE_WITH")
def before_with(frame: Frame, arg: Any) -> None:
    manager = frame.pop()
    frame.push(type(manager).__exit__.__get__(manager), type(manager).__enter__(manager))


@handles("BEFORE_ASYNC_WITH")
def before_async_with(frame: Frame, arg: Any) -> None:
    manager = frame.pop()
    frame.push(type(manager).__aexit__.__get__(manager), type(manager).__aenter__(manager))


@handles("WITH_EXCEPT_START")
def with_except_start(frame: Frame, arg: tuple[int, int | None]) -> None:
    function, receiver = frame.stack[-arg[0]], NULL if arg[1] is None else frame.stack[-arg[1]]
    error = frame.stack[-1]
    first = [] if receiver is NULL else [receiver]
    frame.push(function(*first, type(error), error, error.__traceback__))


@handles("GET_LEN")
def get_len(frame: Frame, arg: Any) -> None:
    frame.push(len(frame.stack[-1]))


@handles("MATCH_MAPPING")
def match_mapping(frame: Frame, arg: Any) -> None:
    frame.push(isinstance(frame.stack[-1], dict))


@handles("MATCH_SEQUENCE")
def match_sequence(frame: Frame, arg: Any) -> None:
    frame.push(isinstance(frame.stack[-1], (list, tuple, range)))


@handles("MATCH_KEYS")
def match_keys(frame: Frame, arg: Any) -> None:
    keys, subject = frame.stack[-1], frame.stack[-2]
    frame.push(tuple(subject[key] for key in keys) if all(key in subject for key in keys) else None)


@handles("MATCH_CLASS")
def match_class(frame: Frame, arg: int) -> None:
    names, kind, subject = frame.pop(), frame.pop(), frame.pop()
    if not isinstance(subject, kind):
        frame.push(None)
        return
    positional = kind.__match_args__[:arg] if hasattr(kind, "__match_args__") else ()
    own = (subject,) if arg and not positional else tuple(getattr(subject, name) for name in positional)
    frame.push((*own, *(getattr(subject, name) for name in names)))


@handles("IMPORT_NAME")
def import_name(frame: Frame, arg: str) -> None:
    names, level = frame.pop(), frame.pop()
    frame.push(__import__(arg, frame.globals, None, names, level))


@handles("IMPORT_FROM")
def import_from(frame: Frame, arg: str) -> None:
    frame.push(getattr(frame.stack[-1], arg))


@handles("IMPORT_STAR")
def import_star(frame: Frame, arg: Any) -> None:
    module = frame.pop()
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    frame.locals.update({name: getattr(module, name) for name in names})
