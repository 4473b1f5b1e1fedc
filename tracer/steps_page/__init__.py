"""`tracer.visualize`: one HTML file in which a person steps through a capture, the graph that grows, and later calls.

Steps 1 and 2 come from a listener on the real capture (`recording.py`), step 3 from the real cache (`second_call.py`).
`page.py` puts the data into the page that lies in `assets/`.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from .. import api, config
from ..api import explaining
from ..cache import CodeState
from ..config import Backend
from ..report import report_on
from ..report.text import exception_text
from ..torch_dynamo import DISABLED
from ..translate.decisions import Decision
from ..translate.visiting import visits
from .page import page
from .recording import Recorder
from .second_call import another_batch, arguments_text, call_row

__all__ = ["visualize"]


def visualize(
    fn: Any,
    *args: Any,
    path: str | os.PathLike[str] = "torchgraft.html",
    second: Sequence[Any] | None = None,
    backend: Backend = "eager",
    **kwargs: Any,
) -> Path:
    """Write a page that shows, step by step, how fn is captured, how its graph grows, and what a later call does.

    fn, a function or model, is left alone: a copy of it is compiled, with `backend`, and called with these arguments.
    The calls are real ones: one to capture, one more with the same arguments, which shows a hit, and one that is to
    show a miss: with `second`, positional arguments, or else with one row more in all tensors that have as many as the
    first one. A generator is run to its end (at most 100 items of it), and so is a coroutine, as `asyncio.run` does.

    The file needs nothing else, no network either. Gives its path. What the first call raises is shown, not raised.
    """
    if config.switched_off() or not api.runtime.on:
        raise RuntimeError("nothing is compiled, so there is nothing to see: call tracer.install() first")
    explaining.must_not_await("visualize", fn)
    target = api.compiled_copy("visualize", fn, backend=backend, isolate_recompiles=True)
    state = api.runtime.state_of(target)
    if state is None:
        raise TypeError(f"{fn!r} cannot be shown: {api.left_alone(fn) or 'it is no Python function or module'}")
    recorder = Recorder()
    with api.listen(recorder), api.on_capture(recorder.decided):
        raised = _call(target, args, kwargs)
    calls = [] if raised else _later_calls(target, state, args, kwargs, second)
    report = report_on(state, None, api.runtime.registry)
    forward = getattr(type(fn), "forward", None) if isinstance(fn, torch.nn.Module) else None
    written_at = getattr(forward, "__code__", state.original)
    data = {
        "function": state.name, "raised": raised,
        "file": os.path.basename(written_at.co_filename), "line": written_at.co_firstlineno,
        "arguments": arguments_text(args, kwargs), "backend": str(getattr(backend, "__name__", backend)),
        "python": platform.python_version(), "torch": str(torch.__version__), "truncated": recorder.truncated,
        "codes": recorder.codes.rows, "values": recorder.values, "stops": recorder.stops,
        "captures": recorder.captures, "calls": calls,
        "texts": {str(r.number): r.text for each in (report, *report.callees) for r in each.regions},
    }  # fmt: skip
    written = Path(path)
    written.write_text(page(data), encoding="utf-8")
    return written


setattr(visualize, DISABLED, True)  # nobody captures it


def _noting(decisions: list[Decision]) -> Callable[[FrameType, Decision], None]:
    return lambda frame, decision: decisions.append(decision)


def _call(target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """What it raised, in words."""
    try:
        explaining.called(target, args, kwargs)
    except Exception as error:
        return exception_text(error)
    return ""


def _later_calls(
    target: Any, state: CodeState, args: Sequence[Any], kwargs: dict[str, Any], second: Sequence[Any] | None
) -> list[dict[str, Any]]:
    wanted: list[tuple[str, Sequence[Any]]] = [("the same arguments again", args)]
    if second is not None:
        wanted.append(("other arguments", second))
    elif (other := another_batch(args)) is not None:
        wanted.append(("another batch", other))
    rows = []
    for title, given in wanted:
        decisions: list[Decision] = []
        with visits(api.runtime.translator, state) as found, api.on_capture(_noting(decisions)):
            raised = _call(target, given, kwargs)
        if raised and second is None and title == "another batch":
            continue  # the program takes no such arguments: there is nothing to learn from that
        rows.append(call_row(title, arguments_text(given, kwargs), found, decisions, raised))
    return rows
