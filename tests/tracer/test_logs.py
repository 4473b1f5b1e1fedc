"""Logs: the loggers `tracer.<topic>`, one line a message with function and place, and what turns them on."""

from __future__ import annotations

import logging
import re
import subprocess
import sys

import pytest
import torch

import tracer
from tracer import log
from tracer.api import runtime

pytestmark = pytest.mark.usefixtures("installed_eager")

#: `function (file:line)`, with which every message begins
PLACE = re.compile(r"[\w.<>]+ \([^()]+:\d+\)(: | )")


@pytest.fixture(autouse=True)
def nothing_shown():
    yield
    tracer.set_logs()


def program():
    """Something that has graphs, guards, a break, a recompile and a region."""

    def step(x, n):
        y = torch.tanh(x) * n
        print(end="")
        return y.sum() + n

    tracer.reset()
    tracer.compile(step)
    step(torch.ones(3), 2)
    step(torch.ones(3), 3)
    step(torch.ones(3, 2, dtype=torch.float64), 3)
    return step


def test_every_topic_has_messages_of_one_line_with_function_and_place(caplog):
    with caplog.at_level(logging.DEBUG, "tracer"):
        program()
    ours = [record for record in caplog.records if record.name.startswith("tracer")]
    assert {record.name for record in ours} == {
        f"tracer.{topic}" for topic in ("graphs", "guards", "breaks", "recompiles", "regions", "backend")}
    for record in ours:
        message = record.getMessage()
        assert "\n" not in message
        assert PLACE.match(message), message
        assert "step (" in message and f"{__file__}:" in message, message


def test_what_has_many_lines_is_a_message_a_line_behind_a_summary(caplog):
    with caplog.at_level(logging.DEBUG, "tracer"):
        program()
    regions = [r for r in caplog.records if r.name == "tracer.regions"]
    assert regions[0].levelno == logging.INFO and "ends at instruction" in regions[0].getMessage()
    assert "because of a break" in regions[0].getMessage()
    lines = [r.getMessage().split(": | ", 1)[1] for r in regions if r.levelno == logging.DEBUG]
    assert lines[0].startswith("def slot(") or lines[1].startswith("def slot("), lines[:3]
    graphs = [r.getMessage() for r in caplog.records if r.name == "tracer.graphs"]
    assert "operators: " in graphs[0] and any("tanh" in text for text in graphs[1:])


def test_summaries_alone(caplog):
    with caplog.at_level(logging.INFO, "tracer"):
        program()
    assert caplog.records and not [r for r in caplog.records if r.levelno < logging.INFO]
    assert not [r for r in caplog.records if ": | " in r.getMessage()]
    told = [r.getMessage() for r in caplog.records if r.name == "tracer.breaks"]
    assert len(told) == 1 and "print()" in told[0] and "Hint: " in told[0]


def test_nothing_is_written_where_nobody_asked(caplog, monkeypatch):
    """A compile asks whether somebody listens before it writes anything; a hit does not even ask."""
    written = []
    monkeypatch.setattr(log, "tell_lines", lambda *told: written.append(told))
    with caplog.at_level(logging.WARNING, "tracer"):
        step = program()
        assert not caplog.records and not written
        asked = []
        monkeypatch.setattr(logging.Logger, "isEnabledFor", lambda self, level: asked.append(self.name) or False)
        step(torch.ones(3), 3)
    assert not [name for name in asked if name.startswith("tracer")]


def test_topics_by_name_and_off_again(capsys):
    tracer.set_logs("guards", "breaks,recompiles")
    program()
    told = capsys.readouterr().err.splitlines()
    assert {line.split(" ")[1] for line in told} == {"tracer.guards:", "tracer.breaks:", "tracer.recompiles:"}
    assert all(line.startswith("torchgraft tracer.") for line in told)
    tracer.set_logs("graphs")
    program()
    assert {line.split(" ")[1] for line in capsys.readouterr().err.splitlines()} == {"tracer.graphs:"}
    tracer.set_logs("")
    program()
    assert not capsys.readouterr().err
    assert logging.getLogger("tracer.graphs").level == logging.NOTSET


def test_what_is_no_topic_is_refused_and_changes_nothing(capsys):
    tracer.set_logs("breaks")
    with pytest.raises(ValueError, match=r"no such log topic: gards; there are graphs, guards, .* and all"):
        tracer.set_logs("breaks,gards")
    with pytest.raises(TypeError, match="topics are strings"):
        tracer.set_logs(["breaks"])
    program()
    assert "tracer.breaks" in capsys.readouterr().err


def test_an_exception_is_told_in_one_line(capsys):
    tracer.set_logs("errors")

    def bad():
        raise KeyError("first\nsecond")

    try:
        bad()
    except KeyError as error:
        log.errors.debug("f (a.py:1): went wrong\nbadly", exc_info=error)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("torchgraft tracer.errors: f (a.py:1): went wrong badly: KeyError: ")
    assert line.endswith("in bad]")


def test_an_error_of_a_backend_is_one_line(caplog, monkeypatch):
    monkeypatch.setenv("TORCHGRAFT_STRICT", "0")

    def backend(graph, examples):
        raise ValueError("many\nlines\nof trouble")

    def f(x):
        return x + 1

    tracer.compile(f, backend=backend)
    with caplog.at_level(logging.DEBUG, "tracer"):
        f(torch.ones(2))
    told = [r for r in caplog.records if r.name == "tracer.errors"]
    assert "many lines of trouble" in told[0].getMessage() and PLACE.match(told[0].getMessage())
    assert all("\n" not in r.getMessage() for r in told)


def test_the_environment_asks_once_and_the_program_has_the_last_word(monkeypatch, capsys):
    monkeypatch.setenv("TORCHGRAFT_LOGS", "breaks")
    tracer.install(backend="eager")
    program()
    assert "tracer.breaks" in capsys.readouterr().err
    tracer.set_logs("graphs")
    tracer.install(backend="eager")
    program()
    told = capsys.readouterr().err
    assert "tracer.graphs" in told and "tracer.breaks" not in told
    monkeypatch.delenv("TORCHGRAFT_LOGS")
    tracer.install(backend="eager")  # what the environment no longer asks for is off
    program()
    assert not capsys.readouterr().err


def test_an_install_does_not_turn_off_what_the_program_asked_for(capsys):
    tracer.set_logs("breaks")
    tracer.install(backend="eager")
    program()
    assert "tracer.breaks" in capsys.readouterr().err


def test_torchs_structured_trace_is_not_touched():
    """Its loggers have the level and filters that torch gave them, and what they are told comes from torch's files."""
    text = """
import logging, torch
trace = logging.getLogger("torch.__trace")
class Noting(logging.Handler):
    seen = []
    def emit(self, record):
        self.seen.append(record)
noting = Noting()
trace.addHandler(noting); trace.setLevel(logging.DEBUG)
def state():
    names = [name for name in logging.root.manager.loggerDict if name.startswith("torch")]
    return {name: (l.level, l.propagate, tuple(map(id, l.filters)))
            for name in names for l in [logging.getLogger(name)]}
import torch._logging, tracer
before = state()
tracer.install(backend="eager"); tracer.set_logs("all")
f = tracer.compile(lambda x: (x + 1).sum())
f(torch.ones(2)); f(torch.ones(3))
after = state()
assert {name: after[name] for name in before} == before
assert noting in trace.handlers
assert not [r.pathname for r in noting.seen if "torch/" not in r.pathname], noting.seen
tracer.uninstall()
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "tracer.regions: " in done.stderr


def test_the_message_of_a_limit(caplog):
    @tracer.compile(recompile_limit=1)
    def f(x, n):
        return torch.ones(3)[: n] + x

    with caplog.at_level(logging.WARNING, "tracer"):
        for k in (["a"], ["b"]):
            f(torch.ones(1), len(k) + 1)
        g = tracer.compile(lambda x, s: x + len(s), recompile_limit=1)
        g(torch.ones(1), "ab"), g(torch.ones(1), b"ab")
    told = [r.getMessage() for r in caplog.records]
    assert len(told) == 1 and "gets no more" in told[0] and PLACE.match(told[0])
    assert runtime.on
