"""Logging: the standard library's, under `tracer.*`; TORCHGRAFT_LOGS=guards,breaks turns topics on.

A message is one line that begins with the function and its place, `step (train.py:12): ...`, so that `grep` finds all
of one function. What has many lines itself (a graph's code, a region's text) is a message for each line, at DEBUG,
behind a summary at INFO. Where nobody asked, nothing is written: a hit logs nothing at all, and a compile asks first.

Messages inside of the user's calls go through logging and not through `warnings`, which may be set to raise. Torch's
own loggers, its structured trace among them, are not touched.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import TextIO

#: What can be asked for in TORCHGRAFT_LOGS, each the logger `tracer.<topic>`.
TOPICS = ("graphs", "guards", "breaks", "recompiles", "regions", "backend", "discovery", "errors")
#: what stands between a message's place and one line of many
_PIECE = "| "


def one_line(text: object) -> str:
    """Words and the spaces between them: what backends raise may have many lines."""
    return " ".join(str(text).split())


def told(error: BaseException) -> str:
    """An error in one line: its type and message, which may fail to be written itself, and the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return one_line("".join(traceback.format_exception_only(error))) + at


class _OneLine(logging.Filter):
    """Whatever a message was made of, it has one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if "\n" in message:
            record.msg, record.args = one_line(message), None
        return True


def _logger(topic: str) -> logging.Logger:
    logger = logging.getLogger("tracer").getChild(topic) if topic else logging.getLogger("tracer")
    if not any(isinstance(there, _OneLine) for there in logger.filters):
        logger.addFilter(_OneLine())
    return logger


root = _logger("")
graphs, guards, breaks, recompiles, regions, backend, discovery, errors = map(_logger, TOPICS)


def tell_lines(logger: logging.Logger, where: str, text: str) -> None:
    """A text of many lines, each a message of its own."""
    if logger.isEnabledFor(logging.DEBUG):
        for line in text.splitlines():
            logger.debug("%s: %s%s", where, _PIECE, line)


# where they go --------------------------------------------------------------------------------------------------------
class _Stderr(logging.StreamHandler[TextIO]):
    """Whatever sys.stderr is when a message comes."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _Formatter(logging.Formatter):
    """One line too for what comes with an exception: its frames, innermost last, behind the message."""

    def format(self, record: logging.LogRecord) -> str:
        text = f"torchgraft {record.name}: {record.getMessage()}"
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return text
        frames = traceback.extract_tb(error.__traceback__)
        way = " > ".join(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
        return f"{text}: {one_line(''.join(traceback.format_exception_only(error)))}" + (f" [{way}]" if way else "")


_handler: logging.Handler | None = None
#: what TORCHGRAFT_LOGS was when it was last looked at
_environment: str | None = None


def set_logs(*topics: str) -> None:
    """Show these topics on stderr, down to DEBUG: `set_logs("guards", "breaks")`, or one string, "guards,breaks".

    There are graphs, guards, breaks, recompiles, regions, backend, discovery and errors, and "all" of them. What was
    shown before no longer is; without a topic nothing is. Warnings are shown by Python's own last resort then. An
    unknown topic is a ValueError. Everything goes through the loggers `tracer.<topic>`, so handlers and levels can also
    be set by the standard library's `logging`.
    """
    global _handler
    if not all(isinstance(topic, str) for topic in topics):
        raise TypeError(f"topics are strings, not {topics!r}")
    wanted = [name for topic in topics for part in topic.split(",") if (name := part.strip())]
    unknown = [name for name in wanted if name not in TOPICS and name != "all"]
    if unknown:
        raise ValueError(f"no such log topic: {', '.join(unknown)}; there are {', '.join(TOPICS)} and all")
    if _handler is not None:
        for topic in TOPICS:
            logger = root.getChild(topic)
            if _handler in logger.handlers:
                logger.removeHandler(_handler)
                logger.setLevel(logging.NOTSET)
        _handler = None
    if not wanted:
        return
    _handler = _Stderr()
    _handler.setFormatter(_Formatter())
    for topic in TOPICS if "all" in wanted else dict.fromkeys(wanted):
        logger = root.getChild(topic)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(_handler)


def set_logs_from_environment() -> None:
    """What TORCHGRAFT_LOGS asks for, once: a later `set_logs` holds. A misspelt topic must not stop the program."""
    global _environment
    asked = os.environ.get("TORCHGRAFT_LOGS")
    if asked == _environment:
        return
    _environment = asked
    try:
        set_logs(asked or "")
    except ValueError as error:
        root.warning("TORCHGRAFT_LOGS: %s", error)
