"""What each command does. `main` gives the exit code."""

from __future__ import annotations

import argparse
import atexit
import fnmatch
import json
import os
import sys
import time
from collections.abc import Callable
from types import CodeType, FunctionType

from .. import api, config
from ..breaks_page import EXAMPLES, page
from ..errors import TorchgraftError
from ..scanner import scan
from ..steps_page import visualize
from . import running
from .doctor import doctor
from .loading import Wrong, arguments, load
from .parsing import parse


def main(given: list[str] | None = None) -> int:
    """Exit codes: of the program for `run`; else 0, 1 where the user's code failed, 2 where the question was wrong.

    given: the words; None: those that this process was begun with, which ends behind it.
    """
    options = parse(sys.argv[1:] if given is None else given)
    options.whole_process = given is None
    try:
        if getattr(options, "logs", None):
            api.set_logs(options.logs)
        return COMMANDS[options.command](options)
    except (Wrong, ValueError, TorchgraftError) as error:
        print(f"torchgraft {options.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


# run ------------------------------------------------------------------------------------------------------------------
def _run(options: argparse.Namespace) -> int:
    if not options.program:
        raise Wrong("name a program: run program.py [arguments], or run -m module [arguments]")
    sys.argv = list(options.program)
    targets = [part for text in options.discover or ["*"] for part in text.split(",") if part]
    wanted = None if options.no_discover else [*targets, "__main__"]
    api.install(
        backend=options.backend, dynamic=options.dynamic,
        discover=wanted or (), discover_filter=_filter(options.exclude),
    )  # fmt: skip
    summing = _Summing(options)
    if options.whole_process:  # behind threads that go on, and whatever the program does at its exit
        atexit.register(summing.tell)

    def ready(code: CodeType) -> None:
        if wanted is not None and api.runtime.discovery is not None:
            api.runtime.discovery.watch_code(code, "__main__")
        summing.begin()

    try:
        name = "-" if options.named == "-" else options.program[0]
        return running.execute(lambda: running.FINDERS[options.named](name), ready)
    except Wrong:
        summing.began = None
        raise
    finally:
        summing.end()
        if not options.whole_process:
            summing.tell()


def _filter(patterns: list[str] | None) -> Callable[[FunctionType], bool] | None:
    if not patterns:
        return None
    wanted = [part for text in patterns for part in text.split(",")]
    return lambda f: not any(fnmatch.fnmatchcase(f"{f.__module__}.{f.__qualname__}", pattern) for pattern in wanted)


class _Summing:
    """The summary of one program, told once, in the process that began it. Nothing is told of what never began."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._name = {"-c": "-c", "-": "standard input"}.get(options.named, options.program[0])
        self._process = os.getpid()
        self._seconds = 0.0
        self.began: float | None = None

    def begin(self) -> None:
        self.began = time.perf_counter()

    def end(self) -> None:
        if self.began is not None:
            self._seconds = time.perf_counter() - self.began

    def tell(self) -> None:
        if self.began is None or os.getpid() != self._process:
            return
        self.began, summary, options = None, api.runtime.summary(), self._options
        if options.json is not None:
            data = {"program": self._name, "seconds": self._seconds, **summary.to_dict()}
            try:
                _write(options.json, json.dumps(data, indent=1))
            except Wrong as error:  # the program has run, and its exit code is what counts
                print(f"torchgraft: {error}", file=sys.stderr)
        if options.quiet:
            return
        lines = [f"torchgraft: {self._name} ran {self._seconds:.1f} s"]
        if config.switched_off():
            lines.append("  TORCHGRAFT=0 in the environment: nothing was compiled")
        elif not api.installed():
            lines.append("  the program has called tracer.uninstall(), so nothing is left to tell")
        else:
            lines.append(str(summary))
        print("\n".join(lines), file=sys.stderr)


# looking at one function ----------------------------------------------------------------------------------------------
def _explain(options: argparse.Namespace) -> int:
    fn, module = load(options.target)
    args, kwargs = arguments(options.args, options.inputs, module)
    api.install(backend=options.backend, dynamic=options.dynamic)
    try:
        explained = api.explain(fn)
    except TypeError as error:
        raise Wrong(str(error)) from error
    for _ in range(options.calls):
        report = explained(*args, **kwargs)
    if options.html is not None:
        _write(options.html, report.to_html())
    if options.json is not None:
        _write(options.json, json.dumps(report.to_dict(), indent=1))
    if options.html is None and options.json is None:
        print(report.summary() if options.summary else report)
    if report.exception is not None:
        hint = "; give its arguments with --args or --inputs" if options.args is options.inputs is None else ""
        print(f"torchgraft explain: the call raised {report.exception!r}{hint}", file=sys.stderr)
    return 1 if report.exception is not None else 0


def _visualize(options: argparse.Namespace) -> int:
    fn, module = load(options.target)
    args, kwargs = arguments(options.args, options.inputs, module)
    api.install(dynamic=options.dynamic)
    if not callable(fn) or isinstance(fn, type):
        raise Wrong(f"{options.target} is no function, method or model: {fn!r}")
    if why := api.left_alone(fn):
        raise Wrong(f"{options.target} cannot be shown: {why}")
    if not os.path.isdir(os.path.dirname(os.path.abspath(options.output))):
        raise Wrong(f"cannot write {options.output!r}: there is no such folder")
    backend = {} if options.backend is None else {"backend": options.backend}
    try:
        path = visualize(fn, *args, path=options.output, **backend, **kwargs)
    except OSError as error:
        raise Wrong(f"cannot write {options.output!r}: {error.strerror}") from error
    print(path)
    return 0


def _scan(options: argparse.Namespace) -> int:
    fn, module = load(options.target)
    try:
        report = scan(fn)
        if options.args is not None or options.inputs is not None:
            args, kwargs = arguments(options.args, options.inputs, module)
            report = report(*args, **kwargs)
    except TypeError as error:
        raise Wrong(str(error)) from error
    if options.json is not None:
        _write(options.json, json.dumps(report.to_dict(), indent=1))
    else:
        print(report.summary() if options.summary else report)
    return 1 if report.exception is not None else 0


def _breaks(options: argparse.Namespace) -> int:
    print(page(EXAMPLES), end="")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    facts = doctor()
    if options.json is not None:
        _write(options.json, json.dumps(facts, indent=1))
        return 0
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:{width}}  {value}")
    return 0


def _write(path: str, text: str) -> None:
    if path == "-":
        print(text)
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise Wrong(f"cannot write {path!r}: {error.strerror}") from error


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": _run, "explain": _explain, "visualize": _visualize, "scan": _scan, "breaks": _breaks, "doctor": _doctor,
}  # fmt: skip

