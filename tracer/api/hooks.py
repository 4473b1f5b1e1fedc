"""Who is told what: `tracer.listen` of captures, `tracer.on_capture` of decisions. Off until they are called."""

from __future__ import annotations

from typing import Any

from ..listener import Listener


class Hook:
    """Something that is told until `remove()`, or until the end of the `with` block."""

    def __init__(self, told: list[Any], who: Any) -> None:
        self._told, self._who = told, who
        told.append(who)

    def remove(self) -> None:
        """No more, from the next capture or decision on. Doing so twice is harmless."""
        for at, who in enumerate(self._told):
            if who is self._who:
                del self._told[at]
                return

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def listening(told: list[Any], listener: Listener) -> Hook:
    if not isinstance(listener, Listener):
        raise TypeError(f"listen takes a tracer.Listener, not {listener!r}")
    return Hook(told, listener)


def calling(told: list[Any], callback: Any) -> Hook:
    if not callable(callback):
        raise TypeError(f"on_capture takes a function, not {callback!r}")
    return Hook(told, callback)
