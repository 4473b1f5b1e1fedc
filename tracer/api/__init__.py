"""The public functions. `tracer` re-exports them; each says what it promises."""

from __future__ import annotations

import functools
import time
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from .. import backends, config, log
from ..config import DEFAULT_SMALL_REGION, DEFAULT_UNROLL_LIMIT, Backend, Options, Settings, Stance
from ..discovery import Discovered, Filter, Target
from ..errors import GraphBreak
from ..listener import Listener
from ..log import set_logs
from ..originals import original_code, plain_copy
from ..report import RecompileReport, Report, compile_seconds, plain_report, recompiles_of, report_on
from ..torch_dynamo import DISABLED, WRAPPERS, is_disabled
from ..translate.decisions import Callback
from . import explaining
from .disabling import Disabled, disabled
from .hooks import Hook, calling, listening
from .marks import mark_dynamic, mark_static, maybe_mark_dynamic
from .models import copy_module
from .runtime import Runtime
from .stances import StanceChange

__all__ = [
    "compile", "counters", "disable", "discovered", "explain", "explain_recompiles", "install", "installed",
    "is_compiling", "listen", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "on_capture", "original", "reset",
    "set_logs", "set_stance", "uninstall",
]  # fmt: skip

runtime = Runtime()


def install(
    backend: Backend | None = None,
    dynamic: bool | None = None,
    recompile_limit: int = 8,
    accumulated_recompile_limit: int = 256,
    compile_after: int = 1,
    unroll_limit: int = DEFAULT_UNROLL_LIMIT,
    fail_on_recompile_limit_hit: bool = False,
    error_on_recompile: bool = False,
    capture_scalar_outputs: bool = False,
    capture_dynamic_output_shape_ops: bool = False,
    small_region: int = DEFAULT_SMALL_REGION,
    discover: Iterable[Target] | Target = (),
    discover_filter: Filter | None = None,
) -> None:
    """Turn it on: everything that is, was or will be compiled with `compile` runs compiled.

    backend, dynamic: for every `compile` that does not say.  recompile_limit: regions for one entry of a function,
    accumulated_recompile_limit: for all its entries together, and for all compile calls of its code; past either the
    function runs plain for what no region fits, and a warning says so once. With fail_on_recompile_limit_hit, or with
    `fullgraph`, it raises `RecompileLimit` instead.
    error_on_recompile: `RecompileError` is raised where an entry would get a second region.
    capture_scalar_outputs, capture_dynamic_output_shape_ops: as in torch._dynamo.config: `item()` and operators like
    `nonzero()` stay in the graph, as numbers and sizes that nobody knows; `torch._check` says something of them. What
    needs the number itself still breaks.
    compile_after: a function is compiled at its n-th call; until then it runs as it is. Calls count from `install`,
    `compile` or `reset` on, whichever was last, for all functions together that share what is compiled.
    unroll_limit: how many nodes of a graph one loop may become; a longer one runs as a loop with a compiled body.
    small_region: with Inductor, a region of at most so many operators is tried once it is warm: some calls run it, some
    the original bytecode, and where that is faster it stays (`explain` has the figures). 0: nothing is tried, so that
    time decides of nothing.
    discover: names of modules (each with all below it; "*": all that use torch), modules, classes, functions, models.
    Their functions, also those of modules that are imported later, are opted in when they start with tensors in hand
    (tensors, or modules and containers that hold some), the outermost first; `discovered()` tells which. Functions are
    watched by local events, which are turned off once it is decided, so that everything else costs nothing; on Python
    3.11 it takes sys.settrace, which slows all calls of Python functions down until nothing new has come for a while.
    Inductor is asked to draw eager's random numbers there, so that the program computes what it did.
    discover_filter: `filter(function) -> bool` is asked before a function is opted in.
    A second `install` changes these settings, for later compiles, and adds to what is discovered.
    `TORCHGRAFT=0` in the environment keeps everything off.
    """
    settings = Settings(
        backend, dynamic, recompile_limit, accumulated_recompile_limit, compile_after, unroll_limit, small_region,
        fail_on_recompile_limit_hit, error_on_recompile, capture_scalar_outputs, capture_dynamic_output_shape_ops,
    )  # fmt: skip
    if backend is not None and not config.switched_off():
        backends.lookup(backend)  # an unknown name is an error here, not at some first call
    if discover_filter is not None and not callable(discover_filter):
        raise TypeError(f"discover_filter takes a function, not {discover_filter!r}")
    log.set_logs_from_environment()
    if discover or not isinstance(discover, Iterable):
        runtime.discover(discover, discover_filter)
    runtime.install(settings)


def uninstall() -> None:
    """Turn it off: every function has its original code, every model its attributes, no event is watched.

    Regions are dropped. What was compiled is remembered (weakly): a later `install` turns it on again.
    """
    runtime.uninstall()


def installed() -> bool:
    """Is it on?"""
    return runtime.on


def discovered() -> Discovered:
    """What `install(discover=...)` watches, which functions were opted in, and which were not and why."""
    return runtime.discovered()


def compile(
    fn: Any = None,
    *,
    backend: Backend | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    compile_after: int | None = None,
    inplace: bool = True,
) -> Any:
    """Compile a function or a module; also a decorator, with or without arguments.

    A function is compiled in place and is returned: the same object, so every reference to it is compiled. Functions
    that share its code (closures made again by their parent) share what is compiled. A module is compiled in place:
    this instance, not its class. `inplace=False` leaves fn alone and returns an independent copy; a module's copy
    shares parameters, buffers and submodules.

    A bound method, `functools.partial` or other callable object cannot be compiled in place without changing others
    that share its code: what is returned is compiled, what was given stays as it is.

    fullgraph: a graph break is raised to the caller, as `tracer.GraphBreak`.
    backend, mode, options, dynamic, recompile_limit: as for torch.compile; None is what `install` said.
    compile_after: None is what `install` said.
    isolate_recompiles: what this call compiles, and its recompile_limit, are shared with no other call's.
    """
    chosen = Options(
        backend, fullgraph, dynamic, mode, options, recompile_limit, isolate_recompiles, compile_after
    )
    if not config.switched_off() and (mode is not None or options is not None or backend not in (None, "eager")):
        backends.lookup(backend, mode=mode, options=None if options is None else dict(options), dynamic=dynamic)
    if fn is None:
        return functools.partial(_compile, options=chosen, inplace=inplace)
    return _compile(fn, chosen, inplace)


def compiled_copy(name: str, fn: Any, **options: Any) -> Any:
    """For the function `name` of ours, which was given fn: an independent copy that is compiled."""
    return _compile(fn, Options(**options), False, name)


def left_alone(fn: Any) -> str:
    """Why a function is not compiled, if so: it says itself how it is to run."""
    if not isinstance(fn, types.FunctionType):
        return ""
    if is_disabled(fn):
        return "it is disabled: it runs plain"
    if fn.__globals__.get("__name__") == WRAPPERS:
        return "torch.compile has it: give the function that torch.compile was given"
    return ""


def _compile(fn: Any, options: Options, inplace: bool, name: str = "compile") -> Any:
    if isinstance(fn, torch.nn.Module):
        model = fn if inplace else copy_module(fn)
        runtime.adopt_model(model, options)
        return model
    if isinstance(fn, types.FunctionType):
        if left_alone(fn):
            return fn
        function = fn if inplace else plain_copy(fn, own_code=True)
        runtime.adopt(function, options)
        return function
    if isinstance(fn, (staticmethod, classmethod)):
        compiled = _compile(fn.__func__, options, inplace, name)
        return fn if compiled is fn.__func__ else type(fn)(compiled)
    if isinstance(fn, types.MethodType):
        return types.MethodType(_private(fn.__func__, options, inplace), fn.__self__)
    if isinstance(fn, functools.partial):
        return functools.partial(_private(fn.func, options, inplace), *fn.args, **fn.keywords)
    if isinstance(fn, type):
        raise TypeError(f"{name} the methods of {fn.__qualname__}, or its instances, not the class")
    if not callable(fn):
        raise TypeError(f"{name} takes a function, method, module or other callable, not {fn!r}")
    call = getattr(type(fn), "__call__", None)  # noqa: B004 (the function is wanted, not whether there is one)
    if isinstance(call, types.FunctionType):
        return types.MethodType(_private(call, options, inplace), fn)
    return _private(_calling(fn), options, inplace=False)


def _private(function: Any, options: Options, inplace: bool) -> Any:
    """A compiled copy of a function that others use too; in place, all copies of it share what is compiled."""
    if not isinstance(function, types.FunctionType) or left_alone(function):
        return _compile(function, options, inplace)
    copy = plain_copy(function, own_code=not inplace)
    runtime.adopt(copy, options, tag="private")
    return copy


def _calling(fn: Callable[..., Any]) -> Any:
    """A Python function around something that has no bytecode. It bears its name, also where lines are told."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    functools.update_wrapper(call, fn)
    name = found if type(found := getattr(fn, "__qualname__", None)) is str else type(fn).__qualname__
    name = name.replace("_VariableFunctionsClass.", "torch.")
    call.__code__ = call.__code__.replace(
        co_name=name.rpartition(".")[2], co_qualname=name, co_filename=f"<call of {name}>", co_firstlineno=1
    )
    return call


def original(fn: Any) -> Any:
    """A plain copy of a compiled function or module: what it was before, sharing everything but the code.

    For what is not compiled it is a plain copy just so. Bound methods stay bound.
    """
    if isinstance(fn, torch.nn.Module):
        return copy_module(fn)
    if isinstance(fn, types.FunctionType):
        return plain_copy(fn)
    if isinstance(fn, types.MethodType):
        return types.MethodType(original(fn.__func__), fn.__self__)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(original(fn.__func__))
    if isinstance(fn, functools.partial):
        return functools.partial(original(fn.func), *fn.args, **fn.keywords)
    raise TypeError(f"original takes a function, method or module, not {fn!r}")


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """As torch.compiler.disable: a wrapper at whose calls capture breaks, and which runs fn as it is.

    Without a function: a decorator, and a context manager within which this thread compiles nothing. What fn calls is
    plain Python: functions that are compiled themselves run compiled, whether `recursive` or not.
    """
    if fn is None:
        return Disabled(reason, runtime.translator.lock.held_off)
    return disabled(fn, reason)


def is_compiling() -> bool:
    """True in code that is being captured, like torch.compiler.is_compiling(), and while this thread captures."""
    return torch.compiler.is_compiling() or runtime.translator.is_capturing()


def reset() -> None:
    """Drop every region. What is compiled stays so, and is captured anew when it is called."""
    runtime.reset()
    runtime.counters.clear()
    backends.free_recordings()


def counters() -> dict[str, Any]:
    """Numbers since the start or the last `reset`.

    regions: those that are there now, hits: of these.  compilations, recompiles, misses, guard_failures, fallbacks
    (times that no region fitted and none was made), guard_errors, graph_failures, errors; breaks: by title.
    Of replay: recordings, replays and replay_bytes (memory that is held) of what is there now; not_replayed: by reason.
    """
    regions = [region for state in runtime.registry for region in state.regions]
    return {
        **runtime.counters.complete(),
        "regions": len(regions),
        "hits": sum(region.hits for region in regions),
        **backends.replay_totals(),
    }


def explain(fn: Any) -> Callable[..., Report]:
    """`explain(fn)(*args)` calls fn and gives a report: for each entry what runs, its guards, graph, breaks and times.

    A compiled function or model is explained as it is; of another one a compiled copy is made. The call is a real one;
    what it raises is in the report (`exception`). `print(report)` shows all, in a terminal with colours,
    `report.summary()` a few lines; notebooks show it as HTML, `report.to_html(path)` writes that as a page, and
    `report.to_dict()` is what JSON takes.

    A generator is run to its end, at most 100 items of it, and `report.result` is the list of them. A coroutine is run
    as `asyncio.run` does, and an asynchronous generator too; where an event loop runs already, as in a notebook, await
    what the call gives: `report = await explain(fn)(*args)`.
    """
    target = fn if runtime.state_of(fn) is not None else compiled_copy("explain", fn)

    def call(*args: Any, **kwargs: Any) -> Any:
        if not runtime.on and not config.switched_off():
            raise RuntimeError("nothing is compiled, so there is nothing to explain: call tracer.install() first")
        measured = _Measured(fn, target)
        if explaining.is_awaited(target) and explaining.loop_runs():
            return measured.later(args, kwargs)
        with measured:
            measured.found = explaining.called(target, args, kwargs)
        return measured.report()

    return call


class _Measured:
    """One call that is explained: what it takes and raises, and what there is behind it."""

    def __init__(self, fn: Any, target: Any) -> None:
        self._fn, self._target = fn, target
        self.found: tuple[Any, str] = None, ""
        self._raised: BaseException | None = None
        self._seconds = self._began = self._compiling = 0.0

    def __enter__(self) -> None:
        state = runtime.state_of(self._target)
        self._compiling, self._began = 0.0 if state is None else compile_seconds(state), time.perf_counter()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        self._seconds, self._raised = time.perf_counter() - self._began, error
        return isinstance(error, Exception) and not isinstance(error, GraphBreak)

    async def later(self, args: Any, kwargs: Any) -> Report:
        with self:
            self.found = await explaining.called_in_loop(self._target, args, kwargs)
        return self.report()

    def report(self) -> Report:
        result, how = self.found
        why = "TORCHGRAFT=0 in the environment: nothing is compiled" if config.switched_off() else left_alone(self._fn)
        if why:
            return plain_report(self._fn, result, why, self._seconds, self._raised)
        state = runtime.state_of(self._target)
        if state is None:
            raise TypeError(f"nothing is known of {self._fn!r}: only Python functions and modules can be explained")
        compiling = max(0.0, compile_seconds(state) - self._compiling)  # regions may also have gone
        stance = runtime.translator.stance
        return report_on(
            state, result, runtime.registry, exception=self._raised, call_seconds=self._seconds,
            compile_seconds=compiling, note="" if stance.compiles else f"the stance {stance.name!r} holds", how=how,
        )  # fmt: skip


def explain_recompiles(fn: Any) -> RecompileReport:
    """Why a compiled function or model was compiled more than once, or was not at a limit or under a stance.

    For each time: the nearest region that was there, the guard of it that failed first, what was and is there, the
    user's line that needs the guard, and what would avoid it. Data, and text when it is printed.
    """
    state = runtime.state_of(fn)
    if state is None and not callable(fn):
        raise TypeError(f"explain_recompiles takes a function, method or module, not {fn!r}")
    if state is None:
        raise ValueError(f"{fn!r} is not compiled, so it was never compiled again")
    return recompiles_of(state)


def set_stance(
    stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Backend | None = None
) -> StanceChange:
    """As torch.compiler.set_stance: from now on, as a context manager or as a decorator. It holds for all threads.

    "default".  "force_eager": all runs plain, functions that are running right now included, from their next entry on.
    "eager_on_recompile": what is compiled runs, nothing new is compiled.  "fail_on_recompile": where something would be
    compiled `RecompileError` is raised.  "eager_then_compile": what is reached for the first time runs plain.
    force_backend: with "default" only: all is compiled by this backend; what others compiled waits until the end of it.
    "aot_eager_then_compile" and skip_guard_eval_unsafe are refused (ValueError): guards are never left out here.
    """
    if skip_guard_eval_unsafe:
        raise ValueError("skip_guard_eval_unsafe is not offered: a region whose guards were not asked may be wrong")
    chosen = Stance(stance, force_backend)
    if force_backend is not None and not config.switched_off():
        backends.lookup(force_backend)
    return StanceChange(chosen, runtime.set_stance)


def listen(listener: Listener) -> Hook:
    """Tell a `tracer.Listener` what captures do while they do it: instructions, stack, locals, guards, nodes, breaks.

    From the next capture on, of all threads, until `remove()` of what this gives, or to the end of a `with` block. Such
    a capture takes several times as long; what is compiled is the same. While nobody listens it costs nothing.
    """
    return listening(runtime.translator.maker.listeners, listener)


def on_capture(callback: Callback) -> Hook:
    """Have `callback(frame, ctx)` called whenever no region fits: at a capture, a recompile, or a call that runs plain.

    frame: the live frame of the function, before anything of it has run beyond this entry.  ctx: a `Decision`, what
    was decided and why; `ctx.decision` is "capture", "recompile" or "skip". A hit is not told. Nor are calls that were
    decided earlier: those of an entry at its limit (`explain` counts them), or where nothing more is compiled.

    What the callback raises is logged, and the program goes on. Functions that it calls are compiled as ever, but it is
    not told of that. Keep neither frame nor `ctx.locals`: they hold what the program uses. `remove()` ends it.
    """
    return calling(runtime.translator.decisions.callbacks, callback)


def is_grafted(fn: types.FunctionType) -> bool:
    """Does this function object have grafted code right now?"""
    return original_code(fn.__code__) is not fn.__code__


#: Nobody captures these.
for _function in (
    install, uninstall, installed, discovered, compile, original, disable, reset, counters, explain,
    explain_recompiles, set_logs, set_stance, mark_dynamic, mark_static, maybe_mark_dynamic, listen, on_capture,
):  # fmt: skip
    setattr(_function, DISABLED, True)
