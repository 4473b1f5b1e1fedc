"""Objects of classes that inherit from dict, OrderedDict or list, and what else transformers' models are made of."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from tests.support import check, check_calls, compile_with

whole = functools.partial(check, fullgraph=True)
X = torch.arange(6.0).reshape(2, 3)


class Registry(dict):
    """Overrides what it is asked by, and calls the dict's own methods."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(str(key), value)

    def get(self, key: Any) -> Any:
        found = super().get(str(key))
        return {} if found is None else found

    def __missing__(self, key: Any) -> Any:
        return f"no {key}"


class Doubling(OrderedDict):
    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) * 2

    def __contains__(self, key: Any) -> bool:
        return key == "everything" or super().__contains__(key)

    def __len__(self) -> int:
        return 100


class Stack(list):
    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(-1 if at == "top" else at)

    def push(self, item: Any) -> None:
        self.append(item)
        self.pushed = getattr(self, "pushed", 0) + 1


@dataclass
class Output(OrderedDict):
    """As transformers' ModelOutput."""

    loss: Any = None
    logits: Any = None
    extra: Any = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key: Any) -> Any:
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self[key] for key in self.keys())


def test_methods_that_are_overridden_are_called_and_others_are_the_dicts() -> None:
    def f(r: Any, x: Any) -> Any:
        r[int] = x + 1
        return r.get(int), r.get(str), r["nothing"], len(r), list(r), sorted(r.keys()), "first" in r, bool(r)

    whole(f, Registry(first=1), X)


def test_an_ordered_dict_that_lies_about_itself() -> None:
    def f(d: Any, x: Any) -> Any:
        d["b"] = x
        return d["a"], d["b"], "everything" in d, "c" in d, len(d), list(d), list(d.values()), [*d.items()]

    whole(f, Doubling(a=X), X)
    whole(lambda d, x: (x + len(d), d.get("a"), iter(d.items())), Doubling(a=3), X)


def test_items_that_change_between_calls() -> None:
    def f(r: Any, x: Any) -> Any:
        return x * dict.__getitem__(r, "scale"), r.get("other"), len(r)

    a = Registry(scale=2)
    check_calls(f, (a, X), (Registry(scale=3), X), (Registry(scale=3, other=4), X), (Registry(scale=2), X))


def test_list_objects() -> None:
    def f(s: Any, x: Any) -> Any:
        s.push(x + 1)
        s.push(3)
        s[0] = x
        first, *_ = s
        return s["top"], s[1], len(s), s.pushed, first, [*s, 1], s == [1]

    whole(f, Stack([X, 1]), X)
    whole(lambda s, x: (reversed(s), iter(s), x + 1, s + [2]), Stack([X, 1]), X)  # noqa: RUF005


def test_made_in_the_function_and_returned() -> None:
    def f(x: Any) -> Any:
        out = Output(loss=x.sum(), logits=x * 2)
        out.extra = out["logits"] + out[0]
        made = Stack([x, out])
        made.push(out)
        lookup = Registry()
        lookup[2] = x
        loop = Doubling(a=out)
        out["extra"] = loop
        return out, made, lookup, out.to_tuple()[:2], {**lookup}, dict(out.items())

    whole(f, X)


def test_one_from_outside_is_unpacked_and_extended() -> None:
    def f(out: Any, x: Any) -> Any:
        more = Output(**out)
        more["extra"] = x
        out.logits = x + 1
        loss, logits = out.to_tuple()
        return more, loss + logits, out == out, out.keys() & more.keys()

    whole(f, Output(loss=X, logits=X + 1), X)


def test_kept_across_a_break() -> None:
    def f(x: Any) -> Any:
        out = Output(logits=x + 1)
        print(len(out))
        out.loss = out.logits.sum()
        out["extra"] = 1
        return out

    check(f, X)


class Base:
    def name(self) -> str:
        return "base"


class Empty:
    pass


class Middle(Base):
    def name(self) -> str:
        return "middle"


class Mixed(Empty, Middle):
    def name(self) -> str:
        return "mixed of " + super().name()


def test_super_finds_a_class_that_is_not_the_next() -> None:
    """The guards were on the last class that lacks the method instead of the one that has it."""

    def f(o: Any, x: Any) -> Any:
        return super(Mixed, o).name(), o.name(), x + 1

    whole(f, Mixed(), X)


def test_codes_of_functions() -> None:
    def named(a: Any, b: Any = 1, *rest: Any, c: Any = 2) -> Any:
        return a

    def f(g: Any, x: Any) -> Any:
        inner = lambda y: y  # noqa: E731
        code = g.__code__
        args = code.co_varnames[: code.co_argcount]
        return args, code.co_name, g.__defaults__, inner.__code__.co_argcount, inner.__defaults__, x + len(args)

    whole(f, named, X)
    check_calls(f, (named, X), (lambda q: q, X), (named, X))


class Numbers(Sequence):
    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: Any) -> Any:
        return self.items[at]


def test_a_generator_left_in_a_try_whose_clauses_let_its_end_pass() -> None:
    def f(n: Any, x: Any) -> Any:
        for item in n:
            if item > 1:
                return x + item
        return x

    whole(f, Numbers(1, 2, 3), X)

    def careful() -> Any:
        try:
            yield 1
        except Exception:
            print("error")
        finally:
            print("closed")

    def g(x: Any) -> Any:
        for item in careful():
            return x + item

    check(g, X)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])

    def forward(self, x: Any, n: int) -> Any:
        for layer in self.layers[:n]:
            x = layer(x)
        return x, str(type(self)), repr(Block)


def test_modules_made_in_the_function() -> None:
    model = Block()
    check_calls(lambda x, n: model(x, n), (X, 2), (X, 2), (X, 1), fullgraph=True)

    class Scale(torch.nn.Module):
        def __init__(self, by: float) -> None:
            super().__init__()
            self.by, self.inner = by, torch.nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.inner(x * self.by)

    def f(x: Any) -> Any:
        scale = Scale(2.0)
        both = torch.nn.Sequential(scale, torch.nn.Tanh())
        both.eval()
        return both(x), scale.training, len(both), [name for name, _ in both.named_children()], both

    check(f, X)


def test_signatures_of_functions() -> None:
    def two(a: Any, b: Any = 3) -> Any:
        return a

    @functools.wraps(two)
    def wrapper(*args: Any) -> Any:
        return two(*args)

    class Layer:
        def chunk(self, x: Any, size: Any = 1) -> Any:
            return x

    def f(g: Any, o: Any, x: Any) -> Any:
        names = inspect.signature(g).parameters
        size = inspect.signature(o.chunk).parameters["size"]
        wrapped = [p.name for p in inspect.signature(wrapper).parameters.values()]
        return x + len(names), list(names), size.default, wrapped

    def other(a: Any, b: Any, c: Any) -> Any:
        return a

    check_calls(f, (two, Layer(), X), (wrapper, Layer(), X), (other, Layer(), X), (two, Layer(), X), fullgraph=True)

    def last_default(h: Any, x: Any) -> Any:
        return x + [*inspect.signature(h).parameters.values()][-1].default

    compiled = compile_with(last_default, backend="eager")
    for default in (3, 4, 3, 5):
        two.__defaults__ = (default,)
        assert torch.equal(compiled(two, X), X + default)


def test_a_deep_copy_of_an_instance_dict() -> None:
    def f(o: Any, x: Any) -> Any:
        copied = copy.deepcopy(o.__dict__)
        copied["more"] = x + copied["size"]
        copied["layers"].append(2)
        return copied, o

    config = Empty()
    config.size, config.layers = 3, [1]  # type: ignore[attr-defined]
    whole(f, config, X)


def test_groups_that_are_read_too_late() -> None:
    def f(items: Any, x: Any) -> Any:
        groups = [(key, group) for key, group in itertools.groupby(items)]
        late = [list(group) for _, group in groups]
        return x + len(late), late, [key for key, _ in groups]

    whole(f, [1, 1, 2, 3, 3], X)


def test_a_list_is_empty_while_it_is_sorted() -> None:
    def f(items: Any, x: Any) -> Any:
        items.sort(key=lambda item: (len(items), -item))
        return items, x + len(items)

    whole(f, [1, 3, 2], X)


def test_a_match_and_its_pattern() -> None:
    def f(pattern: Any, text: Any, x: Any) -> Any:
        match = pattern.search(text)
        return x + match.start(), match.re is pattern, match is pattern

    whole(f, re.compile("b+"), "abb", X)


def test_matches_are_other_objects_at_each_call() -> None:
    def keeps(pattern: Any, text: Any, x: Any, kept: Any) -> Any:
        match = pattern.search(text)
        kept.append(match)
        print(match[0])
        return x * int(match[1])

    kept: list[Any] = []
    compiled = compile_with(keeps, backend="eager")
    pattern = re.compile("a=([0-9])")
    for n in range(6):
        assert torch.equal(compiled(pattern, f"a={n}", X, kept), X * n)
    assert len(set(map(id, kept))) == 6
