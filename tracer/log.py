"""Logging: the standard library's, under `tracer.*`; TORCHGRAFT_LOGS=guards,breaks turns topics on.

Messages inside of the user's calls go through logging and not through `warnings`, which may be set to raise.
"""

from __future__ import annotations

import logging
import os
import sys

#: What can be asked for in TORCHGRAFT_LOGS, each the logger `tracer.<topic>`.
TOPICS = ("graphs", "guards", "breaks", "recompiles", "regions", "backend", "errors")

root = logging.getLogger("tracer")
graphs = root.getChild("graphs")
guards = root.getChild("guards")
breaks = root.getChild("breaks")
recompiles = root.getChild("recompiles")
regions = root.getChild("regions")
backend = root.getChild("backend")
errors = root.getChild("errors")

_handler: logging.Handler | None = None


def set_logs(topics: str) -> None:
    """Show these topics (comma-separated, or `all`) on stderr; an empty string shows none.

    Raises ValueError for a topic that does not exist.
    """
    global _handler
    wanted = [name for name in (part.strip() for part in topics.split(",")) if name]
    unknown = [name for name in wanted if name not in TOPICS and name != "all"]
    if unknown:
        raise ValueError(f"no such log topic: {', '.join(unknown)}; there are {', '.join(TOPICS)} and all")
    if _handler is not None:
        for topic in TOPICS:
            logger = root.getChild(topic)
            logger.removeHandler(_handler)
            logger.setLevel(logging.NOTSET)
            logger.propagate = True
        _handler = None
    if not wanted:
        return
    _handler = logging.StreamHandler(sys.stderr)
    _handler.setFormatter(logging.Formatter("torchgraft %(name)s: %(message)s"))
    for topic in TOPICS if "all" in wanted else wanted:
        logger = root.getChild(topic)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(_handler)


def set_logs_from_environment() -> None:
    """A misspelt topic must not stop the program, so it only is a warning."""
    try:
        set_logs(os.environ.get("TORCHGRAFT_LOGS", ""))
    except ValueError as error:
        root.warning("TORCHGRAFT_LOGS: %s", error)
