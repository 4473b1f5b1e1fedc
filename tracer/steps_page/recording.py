"""A listener that records captures as data for the page: a row of stops, and all that they refer to."""

from __future__ import annotations

import inspect
import os
import re
import sysconfig
from types import CodeType, FrameType
from typing import Any

import torch

from rewriter.decode import decode

from ..errors import UserLine
from ..interpreter.showing import argument_text
from ..listener import (
    Begun,
    Broke,
    ConstantAdded,
    Ended,
    GuardAdded,
    Listener,
    NodeAdded,
    Restarted,
    Shown,
    Step,
    TakenBack,
)
from ..translate.decisions import Decision
from ..translate.recompiles import readable

#: so many stops are recorded; a page with more of them helps nobody
LIMIT = 4000

#: where libraries lie: their code can be stepped over
_LIBRARIES = (os.path.dirname(torch.__file__), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))

Json = dict[str, Any]


def family(opname: str) -> str:
    """What kind of instruction it is, by which the page colours it."""
    if opname == "LOAD_CONST":
        return "const"
    if opname.startswith("LOAD_"):
        return "load"
    if opname.startswith("STORE_"):
        return "store"
    if opname.startswith(("BINARY_", "COMPARE_", "UNARY_", "CONTAINS_", "IS_OP")):
        return "op"
    if opname.startswith("CALL"):
        return "call"
    if opname.startswith(("JUMP", "POP_JUMP", "FOR_ITER", "SEND")):
        return "jump"
    return "return" if opname.startswith("RETURN") else ""


def place(line: UserLine | None) -> str:
    """A user's line, with the file's last part only."""
    return "" if line is None else f"{os.path.basename(line.filename)}:{line.line}"


def guard_text(text: str) -> str:
    """A guard as a person would say it."""
    text = readable(text).replace("function _VariableFunctionsClass.", "torch.")
    return text.replace(": code code of ", ": runs the code of ")


class Codes:
    """The code objects of the page, each once, with their source and canonical instructions."""

    def __init__(self) -> None:
        self.rows: list[Json] = []
        self._known: dict[int, int] = {}
        self._held: list[CodeType] = []

    def __call__(self, code: CodeType) -> int:
        number = self._known.get(id(code))
        if number is None:
            number = self._known[id(code)] = len(self.rows)
            self._held.append(code)
            self.rows.append(self._row(code))
        return number

    def _row(self, code: CodeType) -> Json:
        try:
            lines, first = inspect.getsourcelines(code)
        except (OSError, TypeError, IndexError, SyntaxError):
            lines, first = [], code.co_firstlineno
        instructions = [
            {
                "i": each.index, "off": each.offset, "op": each.opname, "arg": argument_text(each),
                "pos": list(each.positions), "fam": family(each.opname),
            }
            for each in decode(code).instructions
        ]  # fmt: skip
        return {
            "name": code.co_qualname, "file": os.path.basename(code.co_filename), "first": max(first, 1),
            "source": [line.rstrip("\n") for line in lines], "code": instructions,
            "library": code.co_filename.startswith(_LIBRARIES),
        }  # fmt: skip


class Recorder(Listener):
    """What captures do, as stops.

    A stop is an instruction with its state before and after, or the two ends of a call that was read into, or what a
    capture does as a whole: it begins, begins anew, breaks, ends. `added` of a stop names what came with it: the
    numbers of nodes, guards and constants of its capture.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.codes = Codes()
        self.values: list[Json] = []
        self.stops: list[Json] = []
        self.captures: list[Json] = []
        self.truncated = False
        self._limit = limit
        self._numbers: dict[Shown, int] = {}
        #: by the name of an input in the graph, what fetches it
        self._labels: dict[str, str] = {}
        self._open: list[Json] = []
        self._loose: Json = {}
        self._attempt_at = 0
        self._read = 0

    # what is told ---------------------------------------------------------------------------------------------------
    def begins(self, begun: Begun) -> None:
        code = self.codes(begun.code)
        if begun.attempt == 1:
            self.captures.append({"code": code, "function": begun.function, "entry": begun.entry, "line": begun.line})
            self._stop({"k": "begin"})
        self.captures[-1].update(nodes=[], guards=[], constants=[], attempts=begun.attempt, broke=None, landing=None)
        self._attempt_at, self._read, self._open, self._loose = len(self.stops), 0, [], {}
        self._labels.clear()

    def before(self, step: Step) -> None:
        self._read += 1
        if self._open and self._open[-1]["k"] == "step":
            self._open[-1]["k"] = "in"
            self._take_loose(self._open[-1])
        stop = {"k": "step", "code": self.codes(step.code), "at": step.index, "depth": step.depth}
        stop["before"] = self._state(step)
        self._open.append(stop)
        self._stop(stop)

    def after(self, step: Step) -> None:
        stop = self._open.pop()
        if stop["k"] == "in":
            stop = {**stop, "k": "out"}
            stop.pop("added", None)
            self._stop(stop)
        stop["after"] = self._state(step)
        self._take_loose(stop)

    def guard(self, added: GuardAdded) -> None:
        self._add("guards", self._guard(added))

    def constant(self, added: ConstantAdded) -> None:
        self._add("constants", {"name": added.name, "text": added.text})

    def node(self, added: NodeAdded) -> None:
        self._add("nodes", self._node(added))

    def taken_back(self, taken: TakenBack) -> None:
        capture = self.captures[-1]
        gone = set(taken.nodes)
        for node in capture["nodes"]:
            if node["name"] in gone and not node.get("gone"):
                node["gone"] = True
                self._loose.setdefault("gone", []).append(capture["nodes"].index(node))
        kept = [at for at, guard in enumerate(capture["guards"]) if not guard.get("gone")]
        for at in kept[len(kept) - taken.guards :] if taken.guards else ():
            capture["guards"][at]["gone"] = True
            self._loose.setdefault("gone_guards", []).append(at)

    def broke(self, broke: Broke) -> None:
        told = {
            "title": broke.title, "details": broke.details, "hint": broke.hint, "at": broke.at,
            "stack": [f"{place(line)} in {line.function}" for line in broke.stack],
        }  # fmt: skip
        self.captures[-1]["broke"] = told
        stop: Json = {"k": "broke"}
        if self._open:  # where it stands, at whatever depth
            stop.update({key: self._open[-1][key] for key in ("code", "at", "depth", "before")})
        self._take_loose(stop)
        self._stop(stop)
        self._open = []

    def restarts(self, restarted: Restarted) -> None:
        del self.stops[self._attempt_at :]
        self._open, self._loose = [], {}
        self._stop({"k": "restart", "reason": restarted.reason, "read": self._read})

    def ends(self, ended: Ended) -> None:
        capture = self.captures[-1]
        capture["landing"] = ended.landing
        kept, guards = set(ended.nodes), [self._guard(guard) for guard in ended.guards]
        for node in capture["nodes"]:
            node["kept"] = node["name"] in kept and not node.get("gone")
        capture["final_guards"] = guards
        stop: Json = {"k": "end"}
        self._take_loose(stop)
        self._stop(stop)
        self._open = []

    def decided(self, frame: FrameType, decision: Decision) -> None:
        """For `tracer.on_capture`: what came of the capture that has just ended."""
        if self.captures and "decision" not in self.captures[-1]:
            self.captures[-1].update(decision=decision.decision, region=decision.region, reason=decision.reason)

    # how it is kept -------------------------------------------------------------------------------------------------
    def _stop(self, stop: Json) -> None:
        stop["capture"] = len(self.captures) - 1
        if len(self.stops) >= self._limit and stop["k"] in ("step", "in", "out"):
            self.truncated = True
            return
        self.stops.append(stop)

    def _state(self, step: Step) -> Json:
        return {
            "stack": [self._value(value) for value in step.stack],
            "locals": {name: self._value(value) for name, value in step.locals.items()},
        }

    def _value(self, value: Shown) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append({"k": value.kind, "t": value.text, "s": value.source, "n": value.node})
        return number

    def _add(self, what: str, row: Json) -> None:
        rows = self.captures[-1][what]
        rows.append(row)
        self._loose.setdefault(what, []).append(len(rows) - 1)

    def _take_loose(self, stop: Json) -> None:
        if self._loose:
            stop["added"], self._loose = self._loose, {}

    def _node(self, added: NodeAdded) -> Json:
        """Inputs are called by what fetches them, also where they are arguments."""
        labels = self._labels
        label = guard_text(added.source) or added.name
        if added.op == "placeholder":
            labels[added.name] = label
        text = label if added.op == "placeholder" else _with_labels(added.text, labels)
        return {
            "name": added.name, "op": added.op, "text": text, "inputs": list(added.inputs), "label": label,
            "result": " ".join(filter(None, (added.dtype, added.shape))),
        }  # fmt: skip

    @staticmethod
    def _guard(guard: GuardAdded) -> Json:
        return {"kind": guard.kind, "text": guard_text(guard.text), "line": place(guard.needed_by)}


def _with_labels(text: str, labels: dict[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda word: labels.get(word[0], word[0]), text)
