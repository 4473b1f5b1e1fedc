"""The compile lock: one compile at a time. Nobody who calls a compiled function ever waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class CompileLock:
    """Who comes second, or comes in again from within, doesn't wait but runs plain."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._held_off = threading.local()

    def after_fork(self) -> None:
        """In the child: a thread that compiled is not there to let go of the lock."""
        self._lock = threading.Lock()
        self._owner = None

    @property
    def is_mine(self) -> bool:
        """Does this thread have it?"""
        return self._owner == threading.get_ident()

    def take(self, *, blocking: bool = False) -> bool:
        if not self._lock.acquire(blocking):
            return False
        self._owner = threading.get_ident()
        return True

    def let_go(self) -> None:
        self._owner = None
        self._lock.release()

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """Within it no other thread compiles. Waits for one that does; the thread that compiles itself may come in."""
        if self.is_mine:
            yield
            return
        self.take(blocking=True)
        try:
            yield
        finally:
            self.let_go()

    @contextlib.contextmanager
    def held_off(self) -> Iterator[None]:
        """Within it this thread compiles nothing."""
        self._held_off.depth = self._depth() + 1
        try:
            yield
        finally:
            self._held_off.depth -= 1

    @property
    def is_held_off(self) -> bool:
        return self._depth() > 0

    def _depth(self) -> int:
        return self._held_off.__dict__.get("depth", 0)
