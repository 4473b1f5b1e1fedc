"""Compare a compiled function with plain Python, and count what was compiled.

    check(fn, [1, 2], tensor)                       # results, inputs, globals, output, exceptions: as plain Python
    assert compilations(fn, (x,), (y,)) == 1        # the second call must hit

`check` runs both sides in lockstep on deep copies that were made together, so that aliases among the inputs stay
aliases. What is compared, and how exactly, is in comparing.py. Classes are shared by both sides: a function that
changes a class attribute needs a program of its own (tests/programs executes the text once for each side).
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import random
import sysconfig
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tests.comparing import Comparison, Different

COMPILER = os.environ.get("TORCHGRAFT_TEST_COMPILER", "tracer")
if COMPILER == "tracer":
    import tracer

__all__ = ["CountingBackend", "Different", "check", "check_calls", "compilations", "compile_with"]

#: Frames of these files are no user's: what torch and the standard library do inside a call is theirs. Frames of tracer
#: and rewriter are deliberately not among them: one that shows in a traceback is a difference.
_NOT_USER_FILES = (
    str(Path(torch.__file__).parent),
    sysconfig.get_path("stdlib"),
    __file__,
    "<frozen",
    "<eval_with_key",  # code that FX generates for a graph
)
Compiler = Callable[..., Callable[..., Any]]


def compile_with(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """fn compiled by the compiler under test: torchgraft, or what TORCHGRAFT_TEST_COMPILER names.

    "plain" compiles nothing (a check of the checks), "torch" is torch.compile (is a difference ours, or everybody's?).
    """
    if COMPILER == "plain":
        return fn
    if COMPILER == "torch":
        return torch.compile(fn, **options)
    tracer.install()
    options.setdefault("inplace", isinstance(fn, torch.nn.Module))
    return tracer.compile(fn, **options)


class CountingBackend:
    """A backend that runs the graph as it is, and counts: graphs compiled, operators in them, calls of them."""

    def __init__(self) -> None:
        self.frame_count = 0
        self.op_count = 0
        self.calls = 0
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += sum(n.op in ("call_function", "call_method", "call_module") for n in graph.graph.nodes)
        self.graphs.append(graph)

        def run(*inputs: Any) -> Any:
            self.calls += 1
            return graph.forward(*inputs)

        return run


def compilations(fn: Callable[..., Any], *calls: tuple[Any, ...], **options: Any) -> int:
    """How many graphs are compiled by these calls (tuples of arguments), made one after the other."""
    backend = CountingBackend()
    compiled = compile_with(fn, backend=backend, **options)
    for arguments in calls:
        compiled(*arguments)
    return backend.frame_count


def check(
    fn: Callable[..., Any],
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    calls: int = 3,
    **options: Any,
) -> None:
    """Call fn `calls` times on these inputs, which keep what earlier calls did to them. Options: see check_calls."""
    check_calls(fn, *[(inputs, dict(kwargs or {}))] * calls, **options)


def check_calls(
    fn: Callable[..., Any],
    *calls: tuple[Any, ...] | tuple[tuple[Any, ...], dict[str, Any]],
    backward: bool = False,
    tolerance: tuple[float, float] | None = None,
    check_warnings: bool = False,
    compiler: Compiler = compile_with,
    backend: Any = "eager",
    seed: int = 0,
    **options: Any,
) -> None:
    """Call fn with each of `calls` (arguments, or `(arguments, keyword arguments)`), plain and compiled, and compare.

    `backward` runs a backward pass from the results of each call and so compares gradients. `tolerance` is
    `(rtol, atol)`; without it everything must be equal bit for bit.
    """
    comparison = Comparison.within(tolerance)
    arguments = [call if _has_kwargs(call) else (call, {}) for call in calls]
    plain, compiled = Side(fn, arguments, seed), Side(fn, arguments, seed)
    with compiled.world():
        compiled.fn = compiler(compiled.fn, backend=backend, **options)
    for i in range(len(calls)):
        expected = plain.call(i, backward)
        found = compiled.call(i, backward)
        compare_calls(comparison, f"call {i + 1}", expected, found, check_warnings=check_warnings)
        comparison.same(plain.state, compiled.state, f"call {i + 1}: state")


def _has_kwargs(call: tuple[Any, ...]) -> bool:
    return len(call) == 2 and isinstance(call[0], tuple) and isinstance(call[1], dict)


class Missing:
    """Stands for a global that isn't there, and for what an empty cell holds. The class itself is the mark."""


@dataclass
class Call:
    """What one call did, apart from its mutations."""

    result: Any = None
    exception: BaseException | None = None
    output: str = ""
    rng: tuple[Any, ...] = ()
    modes: dict[str, Any] = field(default_factory=dict)
    warnings: list[tuple[str, str, int]] = field(default_factory=list)


@dataclass
class Side:
    """One side of a check: its own copies of the function's inputs, globals, and closure, and its own random state."""

    fn: Any
    arguments: Any
    seed: int

    def __post_init__(self) -> None:
        functions = _functions_reached(self.fn)
        spaces = {id(f.__globals__): f.__globals__ for f in functions}
        used = sorted({(id(f.__globals__), name) for f in functions for name in _names(f.__code__)})
        self._globals = [(spaces[space], name) for space, name in used]
        self._cells = list({id(c): c for f in functions for c in f.__closure__ or ()}.values())
        memo: dict[int, Any] = {}
        self.fn, self.arguments = copy.deepcopy((self.fn, self.arguments), memo)
        self._global_values = [_copy(space.get(name, Missing), memo) for space, name in self._globals]
        self._cell_values = [_copy(_contents(c), memo) for c in self._cells]
        self._memo = memo  # copies of what is no longer referenced must not lend their id to something else
        self._rng: tuple[Any, ...] = (torch.Generator().manual_seed(self.seed).get_state(),
                                      random.Random(self.seed).getstate())

    @property
    def state(self) -> dict[str, Any]:
        """Everything the function could reach before the call, as it is now."""
        names = [f"{space.get('__name__')}.{name}" for space, name in self._globals]
        values = dict(zip(names, self._global_values, strict=True))
        return {"self": getattr(self.fn, "__self__", None), "arguments": self.arguments,
                "globals": values, "cells": self._cell_values}

    @contextlib.contextmanager
    def world(self) -> Iterator[None]:
        """Within it the function's globals and cells hold this side's copies, and the random state is this side's."""
        outer, outer_rng = self._take(), (torch.get_rng_state(), random.getstate())
        self._put(self._global_values, self._cell_values)
        _set_rng(self._rng)
        try:
            yield
        finally:
            self._rng = torch.get_rng_state(), random.getstate()
            self._global_values, self._cell_values = self._take()
            self._put(*outer)
            _set_rng(outer_rng)

    def _take(self) -> tuple[list[Any], list[Any]]:
        return [space.get(name, Missing) for space, name in self._globals], [_contents(c) for c in self._cells]

    def _put(self, global_values: list[Any], cell_values: list[Any]) -> None:
        for (space, name), value in zip(self._globals, global_values, strict=True):
            if value is not Missing:
                space[name] = value
            else:
                space.pop(name, None)
        for cell, value in zip(self._cells, cell_values, strict=True):
            if value is not Missing:
                cell.cell_contents = value
            elif _contents(cell) is not Missing:
                del cell.cell_contents

    def call(self, i: int, backward: bool) -> Call:
        """Make the i-th call and note everything a program could see of it."""
        args, kwargs = self.arguments[i]
        with self.world():
            return observe(lambda: self.fn(*args, **kwargs), backward)


def observe(call: Callable[[], Any], backward: bool = False) -> Call:
    """Run `call` and note its result or exception, its output, its warnings, and the modes it leaves behind."""
    done = Call()
    out = io.StringIO()
    # not stderr: torch's and torchgraft's own logs go there
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            done.result = call()
            if backward:
                run_backward(done.result)
        except Exception as error:
            done.exception = error
    done.output = out.getvalue()
    done.warnings = [(w.category.__name__, str(w.message), w.lineno) for w in told if _is_user_file(w.filename)]
    done.modes = {
        "grad enabled": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "torch function": torch._C._is_torch_function_enabled(),
    }
    done.rng = torch.get_rng_state(), random.getstate()
    return done


def run_backward(result: Any) -> None:
    """Backward from every differentiable tensor in a result, each element with a weight of its own."""
    tensors = [t for t in _tensors(result) if t.requires_grad and t.grad_fn is not None]
    if tensors:
        weights = [torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape) for t in tensors]
        torch.autograd.backward(tensors, weights)


def compare_calls(
    comparison: Comparison, path: str, plain: Call, compiled: Call, *, check_warnings: bool = False
) -> None:
    """Raise Different unless both calls ended alike and left the same behind, inputs and globals aside."""
    if compiled.exception is not None and plain.exception is None:
        raise Different(f"{path}: plain returns, compiled raises {compiled.exception!r}\n"
                        + "".join(traceback.format_exception(compiled.exception))) from compiled.exception
    if plain.exception is not None and compiled.exception is None:
        raise Different(f"{path}: plain raises {plain.exception!r}, compiled returns {compiled.result!r:.300}")
    _compare_exceptions(comparison, path, plain.exception, compiled.exception)
    comparison.same(plain.result, compiled.result, f"{path}: result")
    if plain.output != compiled.output:
        raise Different(f"{path}: plain prints {plain.output!r}, compiled {compiled.output!r}")
    for name, value in plain.modes.items():
        if compiled.modes[name] != value:
            raise Different(f"{path}: plain leaves {name} {value}, compiled {compiled.modes[name]}")
    if not torch.equal(plain.rng[0], compiled.rng[0]):
        raise Different(f"{path}: torch's random state differs afterwards")
    if plain.rng[1] != compiled.rng[1]:
        raise Different(f"{path}: the random module's state differs afterwards")
    if check_warnings and plain.warnings != compiled.warnings:
        raise Different(f"{path}: plain warns {plain.warnings}, compiled {compiled.warnings}")


#: a slot, and what it calls where a guard or its graph meets the limit of recursion
_OURS = 5


def _met_sooner(expected: list[Any], found: list[Any]) -> bool:
    """Is the limit of recursion met some calls sooner, or in a frame of ours? A slot needs a level of its own."""
    same = next((at for at, pair in enumerate(zip(expected, found, strict=False)) if pair[0] != pair[1]), None)
    same = min(len(expected), len(found)) if same is None else same
    return same > 0 and max(len(expected), len(found)) - same <= _OURS


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Call `work(number)` in so many threads at once. What one of them raises is raised here."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _compare_exceptions(comparison: Comparison, path: str, plain: Any, compiled: Any) -> None:
    while plain is not None and compiled is not None:
        comparison.same(plain, compiled, f"{path}: exception")
        if str(plain) != str(compiled):
            raise Different(f"{path}: plain raises {plain!r}, compiled {compiled!r}")
        expected, found = user_frames(plain), user_frames(compiled)
        if isinstance(plain, RecursionError) and _met_sooner(expected, found):
            return
        if expected != found:
            raise Different(f"{path}: traceback of {plain!r}: plain {expected}, compiled {found}") from compiled
        if plain.__suppress_context__ != compiled.__suppress_context__:
            raise Different(f"{path}: __suppress_context__ of {plain!r} differs")
        _compare_exceptions(comparison, f"{path}: cause", plain.__cause__, compiled.__cause__)
        path, plain, compiled = f"{path}: context", plain.__context__, compiled.__context__
    if plain is not compiled:
        raise Different(f"{path}: plain has {plain!r}, compiled {compiled!r}") from compiled


def user_frames(error: BaseException) -> list[tuple[str, int, Any]]:
    """The traceback's own lines: (function, line, columns) of the frames that are neither torch's nor Python's."""
    frames, step = [], error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if _is_user_file(code.co_filename):
            positions = list(code.co_positions())[step.tb_lasti // 2]
            frames.append((code.co_name, step.tb_lineno, positions))
        step = step.tb_next
    return frames


def _is_user_file(filename: str) -> bool:
    return not filename.startswith(_NOT_USER_FILES)


def _functions_reached(fn: Any) -> list[types.FunctionType]:
    """fn's function, and those it reaches by name in its globals or by its closure: their globals are its state."""
    found: dict[int, types.FunctionType] = {}
    todo = [fn]
    while todo:
        fn = todo.pop()
        fn = getattr(fn, "__func__", fn)
        if isinstance(fn, torch.nn.Module):
            fn = type(fn).forward
        if not isinstance(fn, types.FunctionType) or id(fn) in found or not _is_user_file(fn.__code__.co_filename):
            continue
        found[id(fn)] = fn
        todo += [fn.__globals__[name] for name in _names(fn.__code__) if name in fn.__globals__]
        todo += [_contents(c) for c in fn.__closure__ or ()]
    return list(found.values())


def _names(code: types.CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*(_names(c) for c in inner))


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return Missing


def _copy(value: Any, memo: dict[int, Any]) -> Any:
    """A copy of data; code, classes, modules and what has no copy (locks, files) are shared by both sides."""
    if isinstance(value, (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)):
        return value
    try:
        return copy.deepcopy(value, memo)
    except TypeError:
        return value


def _set_rng(state: tuple[Any, ...]) -> None:
    torch.set_rng_state(state[0])
    random.setstate(state[1])


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
