"""Has any of some dicts changed? CPython's dict watchers (3.12+) count that, and no Python code runs while they do.

`watch(dicts, who)` begins, `forget(dicts, who)` ends; `changes()` gives another number whenever a watched dict was
changed in between. A watched dict must be held by whoever watches it: the event of its end, the one that may come
while an exception is pending, then never comes.

What CPython calls at each event is `next` of an `itertools.repeat` that will never end, wrapped by `ctypes`. That is C
all through: it can neither fail nor let another thread run in the midst of a dict's change, and it makes no object. It
takes none of the four arguments that CPython passes in registers. A check at import finds out whether every kind of
change is told here; where one isn't (another Python, all watchers taken, an unknown processor) AVAILABLE is False, as
with `TORCHGRAFT_WATCH=0` in the environment.
"""

from __future__ import annotations

import atexit
import collections
import ctypes
import itertools
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from .holding import class_dict

_END = 1 << 62
_repeat = itertools.repeat(0, _END)
#: How many changes are left until `_repeat` ends: a number that only sinks.
changes: Final[Callable[[], int]] = _repeat.__length_hint__

#: Calling conventions by which a function may take fewer arguments than it is given.
_MACHINES = frozenset({"x86_64", "amd64", "aarch64", "arm64"})

_lock = threading.Lock()
#: Who watches a dict, by its identity.
_watching: dict[int, set[int]] = {}
#: Dicts to forget, and by whom; they wait here while the lock is taken, since a finalizer may run anywhere.
_waiting: collections.deque[tuple[Sequence[Any], int]] = collections.deque()


class _Watcher:
    """The watcher of this process."""

    number: int | None = None
    callback: Any = None


def is_watching() -> bool:
    """Are changes told? Not in a process that is about to end."""
    return _Watcher.number is not None


def watch(dicts: Iterable[dict[Any, Any]], who: int) -> None:
    """who: a number that no one else uses. Interrupted at any place, this is undone by `forget`."""
    with _lock:
        for d in dicts:
            _watching.setdefault(id(d), set()).add(who)
            if _Watcher.number is not None:
                _api.PyDict_Watch(_Watcher.number, d)
    _clean_up()


def forget(dicts: Sequence[dict[Any, Any]], who: int) -> None:
    """A dict is watched until all who asked for it have said this. It may be said again."""
    _waiting.append((dicts, who))
    _clean_up()


def _clean_up() -> None:
    """Whoever has the lock does what others left waiting meanwhile."""
    while _waiting and _lock.acquire(blocking=False):
        done = []
        try:
            while _waiting:
                done.append(_waiting[0])  # interrupted, it waits on
                dicts, who = done[-1]
                for d in dicts:
                    _forget_one(d, who)
                _waiting.popleft()
        finally:
            _lock.release()
        del done  # what dies here dies unwatched, and not while the lock is held


def _forget_one(d: dict[Any, Any], who: int) -> None:
    others = _watching.get(id(d))
    if others is None:
        return
    others.discard(who)
    if not others:
        if _Watcher.number is not None:
            _api.PyDict_Unwatch(_Watcher.number, d)
        del _watching[id(d)]


def watched_count() -> int:
    """How many dicts are watched."""
    return len(_watching)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


# the watcher ----------------------------------------------------------------------------------------------------------
_api: Any = ctypes.pythonapi


def _start() -> None:
    """Take a watcher of the interpreter's eight."""
    _api.PyDict_AddWatcher.argtypes = [ctypes.c_void_p]
    _api.PyDict_ClearWatcher.argtypes = [ctypes.c_int]
    _api.PyDict_Watch.argtypes = _api.PyDict_Unwatch.argtypes = [ctypes.c_int, ctypes.py_object]
    _Watcher.callback = ctypes.PYFUNCTYPE(ctypes.c_int)(_repeat.__next__)
    _Watcher.number = _api.PyDict_AddWatcher(ctypes.cast(_Watcher.callback, ctypes.c_void_p))
    atexit.register(_stop)


def _stop() -> None:
    """No event is told from now on, and nothing is as it was. At exit, before the callback is taken apart."""
    number, _Watcher.number = _Watcher.number, None
    if number is not None:
        _api.PyDict_ClearWatcher(number)
        next(_repeat)


def detach(objects: Sequence[Any], descriptor: Any) -> None:
    """Let the attributes of these objects live in their dicts, through the `__dict__` descriptor of their class.

    From 3.13 on they may live in the object itself, and stores then are told to no watcher (3.13.0). Nothing that a
    program can ask for changes. C code all through, so that no other thread can give an object another dict meanwhile.
    """
    collections.deque(map(descriptor.__set__, objects, map(descriptor.__get__, objects)), 0)
    _unshare([d for d in map(descriptor.__get__, objects) if type(d) is dict and d and id(d) not in _watching])


def _unshare(dicts: Sequence[dict[Any, Any]]) -> None:
    """A dict that is no longer its object's shares its keys with those of other objects, and the interpreter's quick
    ways to an attribute do not work on it: plain code of the model would be slower. Taking the last item out ends that.

    It is put in again before any other code can run: this is C code all through, too.
    """
    collections.deque(map(dict.update, dicts, zip(map(dict.popitem, dicts), strict=False)), 0)


# is everything told? --------------------------------------------------------------------------------------------------
class _Object:
    pass


def _store(target: Any, value: object) -> None:
    target.first = value


def _changes_of(target: Any, values: dict[str, Any]) -> Iterable[Callable[[], object]]:
    """Every way to change an object's attributes; each call must be told."""
    for number in range(64):  # the compiled store goes its quick way by then
        yield lambda number=number: _store(target, number + 1000)  # type: ignore[misc]
    yield lambda: setattr(target, "second", 1)
    yield lambda: delattr(target, "second")
    yield from _changes_of_dict(values)


def _changes_of_dict(values: dict[str, Any]) -> Iterable[Callable[[], object]]:
    many = dict.fromkeys("abcdefgh", 1)
    yield lambda: values.__setitem__("third", 1)
    yield lambda: values.__setitem__("third", 2)
    yield lambda: values.__delitem__("third")
    yield lambda: values.update(fourth=1)
    yield lambda: values.__ior__({"fourth": 2})
    yield lambda: values.setdefault("fifth", 1)
    yield lambda: values.pop("fifth")
    yield lambda: values.popitem()
    yield lambda: values.update(sixth=1)
    yield lambda: values.clear()
    yield lambda: values.update(many)
    yield lambda: values.clear()
    yield lambda: values.__setitem__("first", 1)


def _is_told(change: Callable[[], object]) -> bool:
    before = changes()
    change()
    return changes() != before


def _all_told() -> bool:
    target, ordered = _Object(), collections.OrderedDict(first=1)
    empty: dict[str, Any] = {}
    for number in range(64):
        _store(target, number)
    values = target.__dict__
    detach([target], vars(_Object)["__dict__"])
    cases: list[tuple[dict[Any, Any], Iterable[Callable[[], object]]]] = [
        (values, _changes_of(target, values)),
        (ordered, _changes_of_dict(ordered)),
        (empty, _changes_of_dict(empty)),
    ]
    for watched, todo in cases:
        watch([watched], 0)
        try:
            if not all(map(_is_told, todo)):
                return False
        finally:
            forget([watched], 0)
        if _is_told(lambda watched=watched: watched.__setitem__("later", 1)):  # type: ignore[misc]
            return False
    return target.__dict__ is values and _class_changes_told()


def _class_changes_told() -> bool:
    cls = type("Watched", (_Object,), {})
    watched = class_dict(cls)
    if type(watched) is not dict:
        return False
    watch([watched], 0)
    try:
        todo: list[Callable[[], object]] = [
            lambda: setattr(cls, "first", 1), lambda: setattr(cls, "first", 2), lambda: delattr(cls, "first"),
            lambda: setattr(cls, "__call__", _store), lambda: setattr(cls, "__call__", _changes_of),
            lambda: delattr(cls, "__call__"),
        ]  # fmt: skip
        return all(map(_is_told, todo))
    finally:
        forget([watched], 0)


def _is_available() -> bool:
    known = sys.implementation.name == "cpython" and platform.machine().lower() in _MACHINES
    if not known or os.environ.get("TORCHGRAFT_WATCH") == "0" or not hasattr(_api, "PyDict_AddWatcher"):
        return False
    if hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled():
        return False
    try:
        _start()
    except RuntimeError:  # all are taken
        return False
    if _all_told():
        return True
    _stop()
    return False


AVAILABLE: Final = _is_available()
if AVAILABLE:
    os.register_at_fork(after_in_child=_after_fork)
