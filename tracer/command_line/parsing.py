"""What can be asked, and how it is explained by `--help`."""

from __future__ import annotations

import argparse
from typing import Any

_EPILOG = """\
exit codes: of the program for `run`; else 0, 1 where the code that was called failed, 2 where the question was wrong.
The environment: TORCHGRAFT=0 keeps everything off, TORCHGRAFT_LOGS=breaks,recompiles shows what happens.
"""
_TARGET = """\
module:function, or file.py:function. Behind the colon stands any expression over the module's names: models:Net(3),
train:Trainer.step. Modules are looked for from the current folder on.
"""
_RUN = """\
Runs a program unchanged, as `python program.py arguments` does, with torchgraft on: functions that start with tensors
in hand are opted in by themselves. Behind it a summary is printed on stderr: what was compiled, broke, was recompiled,
and how much ran compiled. All that stands behind the program's name is the program's. As for python, a program is a
file, a folder or zip file with a __main__.py, `-m module`, `-c text`, or `-` for what comes from standard input.
"""


#: options of `run` that have a value
_VALUED = frozenset(["--discover", "--exclude", "--json", "--backend", "--logs"])


def parse(given: list[str]) -> argparse.Namespace:
    """The options. What stands behind the name of a program to `run` is the program's, whatever it looks like.

    program: its name and arguments.  named: "-m", "-c" or "-" where it is a module, a text or what comes from stdin.
    """
    head, program, named = _split(given) if given[:1] == ["run"] else (given, [], "")
    root = parser()
    options, unknown = root.parse_known_args(head)
    if unknown:  # argparse itself would show the usage of all
        _command(root, options.command).error(f"unrecognized arguments: {' '.join(unknown)}")
    options.program, options.named = program, named
    return options


def _command(root: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    commands = next(a for a in root._actions if isinstance(a, argparse._SubParsersAction))
    found: argparse.ArgumentParser = commands.choices[name]
    return found


def _split(given: list[str]) -> tuple[list[str], list[str], str]:
    at = 1
    while at < len(given):
        word = given[at]
        if word in ("-m", "-c"):
            return given[:at], given[at + 1 :], word
        if word[:2] in ("-m", "-c"):
            return given[:at], [word[2:], *given[at + 1 :]], word[:2]
        if not word.startswith("-") or word == "-":
            return given[:at], given[at:], word if word == "-" else ""
        at += 2 if word in _VALUED else 1
    return given, [], ""


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="torchgraft", description="torchgraft captures PyTorch programs in pure Python. Also: python -m tracer.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    explain = _add(commands, "explain", "call a function and show what runs: regions, guards, graphs, breaks")
    _add_target(explain)
    explain.add_argument("--calls", type=_at_least_one, default=1, help="call it so often (default 1)")
    explain.add_argument("--summary", action="store_true", help="a few lines instead of all")
    explain.add_argument("--html", metavar="FILE", help="write it as a page instead")
    explain.add_argument("--json", metavar="FILE", help="write it as JSON instead (-: to stdout)")
    _add_compiling(explain)
    visualize = _add(commands, "visualize", "write a page in which a person steps through the capture of a function")
    _add_target(visualize)
    visualize.add_argument("-o", "--output", metavar="FILE", default="torchgraft.html", help="default: torchgraft.html")
    _add_compiling(visualize)
    scan = _add(commands, "scan", "list a function's instructions; with arguments, which are captured and why not")
    _add_target(scan)
    scan.add_argument("--summary", action="store_true", help="a few lines instead of all")
    scan.add_argument("--json", metavar="FILE", help="write it as JSON instead (-: to stdout)")
    doctor = _add(commands, "doctor", "what torchgraft finds on this machine, what it would use, and why")
    doctor.add_argument("--json", metavar="FILE", help="write it as JSON instead (-: to stdout)")
    _add(commands, "breaks", "the page of every graph break (docs/breaks.md), whose programs are run for it")
    return root


def _add(commands: Any, name: str, what: str, description: str | None = None) -> argparse.ArgumentParser:
    found: argparse.ArgumentParser = commands.add_parser(
        name, help=what, description=description or f"{what[0].upper()}{what[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    return found


def _add_run(commands: Any) -> None:
    run = _add(commands, "run", "run a program unchanged, with torchgraft on, and sum up what came of it", _RUN)
    run.usage = "torchgraft run [options] (program.py | -m module | -c text | -) [arguments of the program]"
    run.add_argument("--discover", action="append", metavar="NAMES",
                     help="modules whose functions are opted in by themselves, each with all below it, separated by "
                     "commas (default: '*', all that use torch, and the program)")
    run.add_argument("--exclude", action="append", metavar="PATTERNS",
                     help="functions that are not, as module.function with * and ?")
    run.add_argument("--no-discover", action="store_true", help="only what the program compiles itself")
    run.add_argument("--quiet", action="store_true", help="no summary")
    run.add_argument("--json", metavar="FILE", help="write the summary as JSON too")
    _add_compiling(run)


def _add_target(command: argparse.ArgumentParser) -> None:
    command.add_argument("target", metavar="module:function", help=_TARGET)
    command.add_argument("--args", metavar="PYTHON",
                         help="its arguments, as in a call: --args 'torch.randn(3), n=2'; names of the module will do")
    command.add_argument("--inputs", metavar="module:name",
                         help="an object that holds them: a tuple or list, a dict of them by name, or a function that "
                         "gives one")


def _add_compiling(command: argparse.ArgumentParser) -> None:
    command.add_argument("--backend", help="as for torch.compile (default: inductor where it works)")
    dynamic = command.add_mutually_exclusive_group()
    dynamic.add_argument("--dynamic", action="store_true", default=None, help="sizes are symbols from the start")
    dynamic.add_argument("--static", dest="dynamic", action="store_false", help="sizes are never symbols")
    command.add_argument("--logs", metavar="TOPICS", help="as TORCHGRAFT_LOGS: breaks,recompiles,guards,...")


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
