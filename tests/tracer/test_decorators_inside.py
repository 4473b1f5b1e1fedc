"""Functions that are decorated in the compiled function: `functools.wraps`, torch's managers, contextlib's."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any

import torch

from tests.tracer.python_programs import Programs

programs = Programs()
whole, breaks = programs.whole, programs.breaks
X = torch.arange(6.0).reshape(2, 3)
P = torch.ones(3, requires_grad=True)


def base(y, k: int = 2):
    """What it does."""
    return y + k


base.tag = 3  # type: ignore[attr-defined]
base.more = [1]  # type: ignore[attr-defined]


def doubled(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs) * 2

    return wrapper


class Scale:
    """A callable object."""

    def __init__(self):
        self.by = 4

    def __call__(self, y):
        return y * self.by


SCALE = Scale()


def described(fn):
    names = (fn.__name__, fn.__qualname__, fn.__doc__, fn.__module__)
    return names, sorted(fn.__dict__), getattr(fn, "tag", None), fn.__wrapped__ is not None


@whole((X,), (X,))
def of_a_modules_function(x):
    wrapper = doubled(base)
    return wrapper(x), wrapper(x, k=5), described(wrapper)


@whole((X,), (X,))
def of_a_function_made_inside(x):
    @doubled
    @doubled
    def inner(y: float, *, k: int = 3) -> float:
        """Inside."""
        return y * k

    return inner(x), inner(x, k=1), described(inner), inspect.isgeneratorfunction(inner)


@whole((X,), (X,))
def of_torchs_functions(x):
    found = [doubled(fn) for fn in (torch.relu, torch.nn.functional.gelu, torch.nn.functional.softplus)]
    return [fn(x) for fn in found], [fn.__name__ for fn in found], [sorted(vars(fn)) for fn in found if False]


@whole((X,), (X,))
def of_objects_and_partials(x):
    scaled, added = doubled(SCALE), doubled(functools.partial(base, k=4))
    return scaled(x), scaled.by, added(x), added.__doc__ == functools.partial.__doc__


@whole((X,), (X,))
def wrapper_that_is_returned(x):
    wrapper = doubled(base)
    wrapper.__doc__, wrapper.__name__, wrapper.extra = "new", "renamed", 5
    return wrapper(x), wrapper.__name__, wrapper.__doc__, wrapper.extra, wrapper.more is base.more


def test_a_wrapper_that_is_returned_is_whole() -> None:
    import tracer

    def make(x):
        x = x + 1
        wrapper = doubled(base)
        wrapper.extra = x
        return wrapper

    def plain_and(y: float) -> float:
        return y

    def make_of_inner(x):
        @functools.wraps(plain_and)
        def wrapper(y):
            return y * x

        wrapper.__qualname__ = "renamed"
        return wrapper

    tracer.install(backend="eager")
    for fn in (make, make_of_inner):
        compiled = tracer.compile(fn, backend="eager", fullgraph=True, inplace=False)
        for _ in range(3):
            expected, found = fn(X), compiled(X)
            for name in (*functools.WRAPPER_ASSIGNMENTS, "__wrapped__"):
                assert getattr(found, name) == getattr(expected, name), name
            assert list(vars(found)) == list(vars(expected)) and torch.equal(found(X), expected(X))
            if fn is make:
                assert vars(found)["more"] is base.more and torch.equal(found.extra, expected.extra)  # type: ignore[attr-defined]


@whole((X,), (X,))
def dict_of_a_function(x):
    wrapper = doubled(base)
    given = wrapper.__dict__
    given["more"] = 7
    given.update(second=8)
    own = base.__dict__
    return (wrapper(x), given["tag"], len(given), list(given), "tag" in given, given.get("none", 1), wrapper.second,
            own["tag"], list(own), wrapper.more, base.more, bool(own), dict(own) == {"tag": 3, "more": [1]})


@whole((X,), (X,))
def missing_attributes(x):
    def inner(y):
        return y

    found = []
    for read in (lambda: inner.nothing, lambda: base.nothing, lambda: base.__dict__["nothing"]):
        try:
            read()
        except (AttributeError, KeyError) as error:
            found.append(str(error))
    return x + 1, found, inner.__annotations__, inner.__module__, inner.__doc__


@whole((X, 3), (X, 3), (X, 4))
def kinds_of_functions(x, n):
    def generator(k):
        yield from range(k)

    async def coroutine():
        return 1

    async def both():
        yield 1

    questions = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    asked = (generator, coroutine, both, base, doubled(base), SCALE.__call__)
    return x * sum(generator(n)), [[ask(fn) for ask in questions] for fn in asked]


# torch's managers -------------------------------------------------------------------------------------------------
@whole((P,), (P,))
def grad_modes(x):
    @torch.no_grad
    def without(y):
        return y * 2, torch.is_grad_enabled()

    @torch.enable_grad()
    def with_grad(y):
        return y * 3, without(y), torch.is_grad_enabled()

    @torch.set_grad_enabled(False)
    def set_(y):
        return y * 4, torch.is_grad_enabled()

    return without(x), with_grad(x), set_(x), torch.is_grad_enabled(), without.__name__


@whole((X,), (X,))
def modes_and_autocast(x):
    @torch.inference_mode()
    def inference(y):
        return y * 3

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def multiplied(y):
        return y @ y.T

    return inference(x) + 1, multiplied(x), multiplied.__name__


@whole((P,), (P,))
def generator_without_grad(x):
    @torch.no_grad()
    def numbers(n):
        for i in range(n):
            yield x * i

    return list(numbers(3)), torch.is_grad_enabled(), inspect.isgeneratorfunction(numbers)


@whole((X, base), (X, base), (X, lambda y: y - 1), (X, base))
def decorated_argument(x, fn):
    return torch.no_grad()(fn)(x), doubled(fn)(x)


@whole((X,), (X,))
def manager_of_contextlib(x):
    log = []

    @contextlib.contextmanager
    def manager(k):
        log.append(k)
        yield
        log.append(-k)

    @manager(3)
    def inner(y):
        log.append("inner")
        return y * 2

    return inner(x), inner(x), log


@breaks("attribute cannot be set", (X,))
def of_a_cached_function(x):
    """Its dict has items that hide behind what every function has."""
    return x * doubled(CACHED)(3)


@functools.lru_cache
def CACHED(k: Any) -> Any:
    return k + 1


def test_attributes_are_guarded() -> None:
    import tracer

    def use(x):
        return doubled(base)(x) * len(base.__dict__)

    tracer.install(backend="eager")
    compiled = tracer.compile(use, backend="eager", fullgraph=True, inplace=False)
    assert torch.equal(compiled(X), use(X))
    base.third = 1  # type: ignore[attr-defined]
    try:
        assert torch.equal(compiled(X), use(X))
    finally:
        del base.third  # type: ignore[attr-defined]
    assert torch.equal(compiled(X), use(X))


test = programs.test()
