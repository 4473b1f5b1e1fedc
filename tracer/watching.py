"""Watched models: guards on what modules are made of, asked once instead of at every call.

A region's guards on a model (`watched_guards.py` says which) depend on the model's modules: their types, their dicts
and what is in these, and the dicts of their classes. Once all guards held, those dicts are watched (`dict_events.py`),
and as long as none of them changes and every module still has its type and its dict, which no event would tell, the
guards hold. Whatever changes, all guards are asked again.

`Watched` is what is known of one model. It holds the model's dicts, so it must go with the model: it hangs on what the
model itself holds (`Keeper`), where the garbage collector sees it; text of regions refers to it weakly.
"""

from __future__ import annotations

import collections
import gc
import itertools
import operator
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .dict_events import changes, detach, forget, is_watching, watch
from .holding import class_dict, is_immutable_type, type_dict, type_mro
from .torch_private import COMPILED_CALL

#: How often in a row it may be begun to watch for a region without much of a use.
_TRIES = 8
#: So many calls have to be served to make another try good.
_MUCH = 16
#: So often it may be begun anew because something else that is watched changed.
_FOREIGN = 64

_PLAIN_DICTS = (dict, collections.OrderedDict)
_DICT_OF_MODULES = vars(torch.nn.Module)["__dict__"]
_GETATTRIBUTE: Any = object.__getattribute__


class Keeper:
    """Base of what a model holds in its `_compiled_call_impl`, and so can keep what is known of the model."""

    def __init__(self, *_: object) -> None:
        self.kept: weakref.WeakKeyDictionary[Watch, Watched] = weakref.WeakKeyDictionary()

    def drop_old(self) -> None:
        """What is not as it was: so that nothing is held that the model gave away."""
        for watch_, kept in list(self.kept.items()):
            if kept.begun != changes():
                self.kept.pop(watch_, None)


def keeper_of(model: Any) -> Keeper | None:
    """A model that is compiled in place has one."""
    found = None if model is None else model.__dict__.get(COMPILED_CALL)
    return found if isinstance(found, Keeper) else None


class CannotWatch(Exception):
    """Something about this model is so that its guards must be asked every time."""


class Watched:
    """What is known of one model: it was so when `changes()` gave the number in `valid`."""

    __slots__ = (
        "__weakref__", "bases", "begun", "dicts", "keeper", "model", "modules", "other_bases", "pinned", "root_dict",
        "root_type", "tensors", "thread", "valid", "who",
    )  # fmt: skip

    def __init__(self, root: Any, seen: Seen, keeper: Keeper) -> None:
        self.valid: int | None = None
        self.keeper = weakref.ref(keeper)
        self.who = next(_numbers)
        self.root_type, self.root_dict = type(root), root.__dict__
        self.modules = [(module, module.__dict__, type(module)) for module in seen.modules[1:]]
        known = {cls: type_mro(cls) for cls in [*map(type, seen.modules), *seen.classes]}
        self.bases = [(cls, bases) for cls, bases in known.items() if type(cls) is type]
        self.other_bases = [(cls, bases) for cls, bases in known.items() if type(cls) is not type]
        self.tensors, self.dicts, self.pinned = tuple(seen.tensors), seen.dicts, seen.pinned
        # The model dies when its last reference goes, although what it holds holds its dict.
        this = weakref.ref(self)
        self.model = weakref.ref(root, lambda _: None if (watched := this()) is None else watched.let_go())
        _every.add(self)
        if _drop_old not in gc.callbacks:
            gc.callbacks.append(_drop_old)
        detach(seen.modules, _DICT_OF_MODULES)
        watch(self.dicts, self.who)
        self.begin()

    def begin(self) -> None:
        """From now on changes are counted; the guards that this thread asks later are asked of what is counted."""
        self.valid, self.begun, self.thread = None, changes(), threading.get_ident()
        if not is_watching():
            raise CannotWatch("the process is about to end")

    def confirm(self, seen: Seen) -> bool:
        """All guards were asked since `begin`, and held; the model was made of this just now."""
        if self.thread != threading.get_ident() or not self.is_of(seen) or changes() != self.begun:
            return False
        self.valid = self.begun
        return True

    def waits_for_another(self) -> bool:
        """Will another thread confirm it?"""
        return self.valid is None and self.begun == changes() and self.thread != threading.get_ident()

    def drop_old(self) -> None:
        keeper = self.keeper()
        if keeper is not None:
            keeper.drop_old()

    def is_of(self, seen: Seen) -> bool:
        """Would it be watched just so?"""
        root, *others = seen.modules
        return (
            type(root) is self.root_type
            and _same(self.dicts, seen.dicts)
            and _same(self.tensors, seen.tensors)
            and _same(_objects_of(self.pinned), _objects_of(seen.pinned))
            and _same([module for module, _, _ in self.modules], others)
            and all(type(module) is cls for module, _, cls in self.modules)
            and all(type_mro(cls) is bases for cls, bases in [*self.bases, *self.other_bases])
        )

    def let_go(self) -> None:
        self.valid = None
        dicts, self.dicts = self.dicts, []
        self.root_dict, self.modules, self.bases, self.other_bases, self.tensors = None, [], [], [], ()
        self.pinned = ()
        if dicts:
            forget(dicts, self.who)

    def __del__(self) -> None:
        if hasattr(self, "dicts"):
            self.let_go()

    def state(self) -> list[Any]:
        """Tells another state of the watched dicts, most probably."""
        return [[*map(id, d.values())] for d in self.dicts]


def unchanged(watched: Watched, root: Any) -> bool:
    """Is this model made of what it was made of when all guards held? Runs at every call."""
    if watched.valid != changes() or type(root) is not watched.root_type:
        return False
    for cls, bases in watched.bases:
        if cls.__mro__ is not bases:
            return False
    for cls, bases in watched.other_bases:  # whose metaclass might have a say in `cls.__mro__`
        if type_mro(cls) is not bases:
            return False
    if root.__dict__ is not watched.root_dict:
        return False
    for holder, key, value in watched.pinned:
        if holder.get(key) is not value:
            return False
    for module, values, cls in watched.modules:
        if type(module) is not cls or module.__dict__ is not values:
            return False
    return True


class Seen:
    """What a model is made of at this moment, as far as a region's guards look at it; itself is the first module."""

    def __init__(
        self,
        modules: Sequence[Any],
        dicts: Sequence[Any],
        asked: Sequence[Any],
        changing: Sequence[Any] = (),
        written: Sequence[Any] = (),
        pinned: Sequence[tuple[Any, str, Any]] = (),
        *,
        tensors: Sequence[Any],
        classes: Sequence[Any] = (),
    ) -> None:
        """changing: modules whose dicts the region writes, as it does `written`; these dicts are not watched."""
        if None in classes:
            raise CannotWatch("a class is gone")
        self.modules, self.tensors, self.classes = _distinct(modules), tensors, _distinct(classes)
        known = {id(base): base for cls in [*map(type, modules), *classes] for base in type_mro(cls)}
        of_classes = [class_dict(cls) for cls in known.values() if not is_immutable_type(cls)]
        unwatched = {id(d): d for d in [*map(_dict_of, changing), *written]}
        ids = {*map(id, changing)}
        of_modules = [_dict_of(module) for module in modules if id(module) not in ids]
        self.dicts = _distinct([*of_modules, *dicts, *of_classes, *filter(_is_watchable, asked)])
        if any(id(d) in unwatched for d in self.dicts):
            raise CannotWatch("a dict that the region writes is found in another way too")
        self.pinned = pinned
        for d in self.dicts:
            if type(d) not in _PLAIN_DICTS:
                raise CannotWatch(f"a {type(d).__qualname__} in the place of a dict")


_numbers = itertools.count(1)
_every: weakref.WeakSet[Watched] = weakref.WeakSet()


def _drop_old(phase: str, info: object) -> None:
    """Before garbage is collected, what models gave away is let go."""
    if phase != "start" or not _lock.acquire(blocking=False):
        return
    try:
        known = list(_every)
        for watched in known:
            if watched.begun != changes():
                watched.drop_old()
        if not known and _drop_old in gc.callbacks:
            gc.callbacks.remove(_drop_old)
    finally:
        _lock.release()


def _distinct(objects: Sequence[Any]) -> list[Any]:
    return [*{id(value): value for value in objects}.values()]


def _same(these: Sequence[Any], those: Sequence[Any]) -> bool:
    return len(these) == len(those) and all(map(operator.is_, these, those))


def _objects_of(pinned: Sequence[tuple[Any, str, Any]]) -> list[Any]:
    return [part for holder, _, value in pinned for part in (holder, value)]


def _is_watchable(value: Any) -> bool:
    """Whose truth is asked: a dict, which can be watched, or what never changes."""
    if type(value) in _PLAIN_DICTS:
        return True
    if type(value) not in (int, float, bool, str, tuple, type(None)):
        raise CannotWatch(f"nothing tells when a {type(value).__qualname__} changes")
    return False


def _dict_of(module: Any) -> Any:
    """Its attributes, where they are read as usual."""
    cls: Any = type(module)
    if type(cls) is not type or cls.__getattribute__ is not _GETATTRIBUTE:
        raise CannotWatch(f"{cls.__qualname__} reads attributes in a way of its own")
    owner = next((base for base in type_mro(cls) if "__dict__" in type_dict(base)), None)
    if owner is None or type(type_dict(owner)["__dict__"]) is not type(_DICT_OF_MODULES):
        raise CannotWatch(f"{cls.__qualname__} has a __dict__ of its own")
    values = module.__dict__
    if type(values) is not dict:
        raise CannotWatch(f"a {type(values).__qualname__} in the place of a __dict__")
    return values


def attribute(module: Any, name: str) -> Any:
    """A module's own attribute; what its class gives is not told by any event."""
    values = _dict_of(module)
    found = values.get(name)
    if name not in values or getattr(module, name) is not found:
        raise CannotWatch(f"{name} is not the module's own")
    return found


class Watch:
    """Watches models for one region. `watched()` gives what is known of the last one, `on` whether it is worth it.

    look: finds what a model is made of; it is asked only where the region's guards hold.  hits: the region's.
    owner: the model compiled in place whose private copies' region this is: it keeps what is known of its parts, which
    hold nothing of ours themselves.
    """

    __slots__ = (
        "__weakref__", "_foreign", "_hits", "_hits_before", "_look", "_state", "_tries", "_waited", "on", "owner",
        "watched",
    )  # fmt: skip

    def __init__(self, look: Callable[[Any], Seen], hits: list[int]) -> None:
        self.watched: Callable[[], Watched | None] = _nothing
        self.owner: Callable[[], Any] = _nothing
        self.on = True
        self._look = look
        self._hits = hits
        self._hits_before = self._tries = self._foreign = self._waited = 0
        self._state: list[Any] | None = None

    def saw(self, root: Any) -> None:
        """All guards hold for this model, and they were asked one by one."""
        if not _lock.acquire(blocking=False):
            return
        try:
            keeper = keeper_of(root) or keeper_of(self.owner())
            if keeper is not None:
                self._saw(root, keeper)
            else:
                self._give_up(None)
        except CannotWatch:
            self._give_up(keeper)
        finally:
            _lock.release()

    def _saw(self, root: Any, keeper: Keeper) -> None:
        hits = self._hits[0]
        served, self._hits_before = hits - self._hits_before, hits
        watched = self.watched()
        if watched is not None and watched.root_dict is not root.__dict__:
            watched = None
        seen = self._look(root)
        if watched is not None and watched.valid is None and watched.confirm(seen):
            keeper.drop_old()
            return
        if watched is not None and self._waited < _MUCH and watched.waits_for_another() and watched.is_of(seen):
            self._waited += 1
            return
        self._waited = 0
        if not self._is_worth_a_try(watched, served):
            self._give_up(keeper)
        elif watched is not None and watched.is_of(seen):
            watched.begin()
        else:
            watched = keeper.kept[self] = Watched(root, seen, keeper)
            self.watched = weakref.ref(watched)
        if watched is not None and self._tries > 1:
            self._state = watched.state()

    def _is_worth_a_try(self, watched: Watched | None, served: int) -> bool:
        """Not where the model itself changes all the time. What else is watched and changes is seen to by its own."""
        if served >= _MUCH:
            self._tries = self._foreign = 0
        if self._state is not None and watched is not None and watched.state() == self._state:
            self._foreign += 1
        else:
            self._tries += 1
        self._state = None
        return self._tries <= _TRIES and self._foreign <= _FOREIGN

    def _give_up(self, keeper: Keeper | None) -> None:
        self.on = False
        self.watched = _nothing
        self._state = None
        if keeper is not None:
            keeper.kept.pop(self, None)
            keeper.drop_old()

    def rest(self) -> None:
        """No region holds where this one might: the model may have changed."""
        watched = self.watched()
        if watched is not None and _lock.acquire(blocking=False):
            try:
                watched.drop_old()
            finally:
                _lock.release()


def _nothing() -> None:
    return None


_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
