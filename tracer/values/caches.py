"""Functions with a cache: `functools.cache`, `functools.lru_cache`, `functools.singledispatch`.

What an unbounded cache holds is a dict like any: a call that is found there is an item read, one that is not is read
as code, and its result is stored as an effect. A bounded cache can only be filled by its own C code, so there a first
call is a break, and later ones fetch what the cache gives.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import GraphBreak
from ..guards import Kind
from ..sources import Call, Index, Literal, Source
from .base import Lazy, Mutable, Value, wraps
from .callables import HeldFunction
from .constants import ConstantValue, constant, is_constant
from .functions import CODE_MEANINGS, FunctionValue
from .hashing import hash_key, is_known
from .lookup import BOUND_LIKE_FUNCTIONS
from .tuples import TupleValue

if TYPE_CHECKING:
    from ..interpreter.context import Context
    from ..interpreter.exits import ExitWriter

CachedFunction: Any = functools._lru_cache_wrapper
_caches: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


def cache_of(function: Any) -> dict[Any, Any]:
    """The dict in which the C code keeps results (of a bounded cache: its links), by key."""
    found = _caches.get(function)
    if found is None:
        own = vars(function)
        found = _caches[function] = next(d for d in gc.get_referents(function) if type(d) is dict and d is not own)
    return found


def packed(*args: Any) -> tuple[Any, ...]:
    return args


def _own_key(cache: dict[Any, Any], args: tuple[Any, ...]) -> Any:
    """The key under which a result is cached; a KeyError if there is none."""
    if len(args) == 1 and type(args[0]) in (int, str) and args[0] in cache:
        return args[0]
    if args not in cache:
        raise KeyError(args)
    return args


def hit(function: Any, *args: Any) -> None:
    """A call whose result is known: it counts, and the result becomes the last one to be dropped."""
    if args in cache_of(function) or (len(args) == 1 and args[0] in cache_of(function)):
        function(*args)


def cached_result(function: Any, *args: Any) -> Any:
    """What the cache holds for a call (else a KeyError), with nothing counted, moved or run.

    A bounded cache shows it to the collector alone: behind its own type the key, the result and the type of each link,
    then the dict.
    """
    cache = cache_of(function)
    key = _own_key(cache, args)
    if function.cache_parameters()["maxsize"] is None:
        return cache[key]
    found, end = gc.get_referents(function), 1 + 3 * len(cache)
    if len(found) > end and found[end] is cache:
        for own, result in zip(found[1:end:3], found[2:end:3], strict=True):
            if _is_same_key(own, key):
                return result
    raise KeyError(args)


def _is_same_key(own: Any, key: Any) -> bool:
    """Compared so that no code of the user's runs."""
    if own is key or type(own) is not type(key):
        return own is key
    if type(key) is tuple:
        return len(own) == len(key) and all(map(_is_same_key, own, key))
    return is_constant(key) and own == key


class Hits(Mutable):
    """The calls that the region makes after it has looked into a bounded cache; `content`: each of them, in order."""

    __slots__ = ()

    kind = "bounded cache"

    def effects(self, out: ExitWriter) -> Iterable[str]:
        for call in self.content:
            given = ", ".join(out.fetch(argument) for argument in call.arguments)
            yield f"{out.hold(hit)}({given})"


class CachedFunctionValue(HeldFunction):
    """A function that `functools.lru_cache` made."""

    __slots__ = ("hits",)

    kind = "cached function"
    has_identity = True  # one for all that the program does with the function

    def __init__(self, function: Any, source: Source | None = None) -> None:
        super().__init__(function, source)
        self.hits = Hits(())

    def getattr(self, ctx: Context, name: str) -> Value:
        if name == "__wrapped__" and self.source is not None:
            return ctx.wrap(self.function.__wrapped__, ctx.hold(self.function.__wrapped__))
        return super().getattr(ctx, name)

    def call(self, ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
        parameters = self.function.cache_parameters()
        if (kwargs and parameters["maxsize"] is not None) or parameters["typed"] or parameters["maxsize"] == 0:
            raise GraphBreak("cached function is called anew", f"{self}, with keywords, by types or without room")
        cache = Call(ctx.hold(cache_of), (self._source(ctx),))
        key = _key_of(ctx, args, kwargs)
        if not _is_plain(ctx, [*args, *kwargs.values()]) or not is_known(hash_key(ctx, key)):
            if kwargs:
                raise GraphBreak("cached function is called anew", f"{self}, with keywords and objects")
            return self._call_with_objects(ctx, cache, args)
        if parameters["maxsize"] is not None:
            return self._from_bounded(ctx, args)
        entries: Any = ctx.real(ctx.wrap(cache_of(self.function), cache))
        found = entries.lookup(ctx, key)
        if found is None:
            wrapped = self.function.__wrapped__
            found = ctx.real(ctx.wrap(wrapped, ctx.hold(wrapped))).call(ctx, args, kwargs)
            entries.setitem(ctx, key, found)
        return found

    def _source(self, ctx: Context) -> Source:
        return self.source or ctx.hold(self.function)

    def _from_bounded(self, ctx: Context, args: list[Value]) -> Value:
        found = [ctx.real(arg).as_python(ctx) for arg in args]
        result = self._result(found)
        sources: list[Source] = [Literal(arg) if _has_literal(arg) else ctx.hold(arg) for arg in found]
        return self._fetched(ctx, result, sources)

    def _fetched(self, ctx: Context, result: Any, sources: list[Source]) -> Value:
        """The region looks what the cache holds, which moves nothing, and makes the program's calls when it is done."""
        call, before = Call(ctx.hold(cached_result), (self._source(ctx), *sources)), self.hits.content
        self.hits.content = (*before, call)
        ctx.on_rollback(lambda: setattr(self.hits, "content", before))
        if not before:
            ctx.must_be_made(self.hits)
        ctx.must_read(call)
        return ctx.wrap(result, call)

    def _result(self, args: list[Any]) -> Any:
        try:
            return cached_result(self.function, *args)
        except KeyError:
            raise GraphBreak("cached function is called anew", str(self)) from None

    def _call_with_objects(self, ctx: Context, cache: Source, args: list[Value]) -> Value:
        """Objects as arguments (`logger.warning_once("text")`): only what is cached already can be fetched."""
        found, sources = [], []
        for arg in args:
            obj, source = _object_of(ctx, arg)
            found.append(obj)
            sources.append(source)
        result = self._result(found)
        if self.function.cache_parameters()["maxsize"] is not None:
            return self._fetched(ctx, result, sources)
        key = sources[0] if found and found[0] in cache_of(self.function) and len(found) == 1 else None
        return ctx.wrap(result, Index(cache, key or Call(ctx.hold(packed), tuple(sources))))


def _has_literal(obj: Any) -> bool:
    return type(obj) in (int, str, bool, type(None))


def _is_plain(ctx: Context, args: list[Value]) -> bool:
    return all(isinstance(ctx.real(arg), (ConstantValue, TupleValue)) for arg in args)


class MarkValue(Value):
    """What separates positional from named arguments in a key."""

    __slots__ = ()

    kind = "mark in a key"

    def key(self, ctx: Context) -> object:
        return KEYWORD_MARK

    def reconstruct(self, out: ExitWriter) -> str:
        return out.hold(KEYWORD_MARK, "keyword_mark")


@functools.cache
def _probe(**kwargs: Any) -> None:
    """Called once, so that its cache shows the mark."""


_probe(name=1)
KEYWORD_MARK: Any = next(iter(cache_of(_probe)))[0]


def _key_of(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """As the C code makes it: the argument itself for one text or integer, else a tuple."""
    if kwargs:
        named = [part for name, value in kwargs.items() for part in (constant(name), value)]
        return TupleValue([*args, MarkValue(), *named])
    if len(args) == 1:
        only = ctx.real(args[0])
        if isinstance(only, ConstantValue) and type(only.value) in (int, str):
            return only
    return TupleValue(args)


def _object_of(ctx: Context, arg: Value) -> tuple[Any, Source]:
    """The very object of an argument that hashes by its identity, or a constant, and where it is found."""
    real = ctx.real(arg)
    if isinstance(real, ConstantValue):
        obj = real.as_python(ctx)
        return obj, Literal(obj) if _has_literal(obj) else ctx.hold(obj)
    obj = arg.object if isinstance(arg, Lazy) else getattr(real, "object", None)
    by_identity = type(obj).__hash__ is object.__hash__ and type(obj).__eq__ is object.__eq__
    if real.source is None or obj is None or not (by_identity or is_constant(obj)):
        raise GraphBreak("cached function is called anew", f"with {real}")
    return obj, real.source


@wraps(CachedFunction)
def build_cached_function(ctx: Context, obj: Any, source: Source) -> Value:
    ctx.guard(Kind.IS, source, obj)
    return CachedFunctionValue(obj, source)


BOUND_LIKE_FUNCTIONS.add(CachedFunction)


# dispatch by type ---------------------------------------------------------------------------------------------------
def _single_dispatch(ctx: Context, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call of what `functools.singledispatch` made: the implementation for the first argument's class."""
    real: Any = function.function
    if real is None or function.source is None or not args:
        return ctx.inline(function, args, kwargs)
    cls = ctx.real(args[0]).python_type(ctx)
    chosen = real.dispatch(cls)
    source = Call(ctx.hold(_dispatched), (function.source, ctx.hold(cls)))
    return ctx.real(ctx.wrap(chosen, source)).call(ctx, args, kwargs)


def _dispatched(function: Any, cls: type) -> Any:
    return function.dispatch(cls)


_example: Any = functools.singledispatch(lambda value: None)
CODE_MEANINGS[id(_example.__code__)] = _example.__code__, _single_dispatch

