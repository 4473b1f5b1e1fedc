"""Are two results the same to a program that can look at everything? Used by support.py, which runs both sides.

`Comparison` walks two object graphs side by side and raises `Different`, which names the path to the first difference.
It lives for a whole check, so that identity is compared as well: an object of one side is paired with the object of the
other that stands in the same place, and must be met with it ever after. So are storages of tensors, which is how an
alias that was lost, or made, is seen.
"""

from __future__ import annotations

import functools
import itertools
import re
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch


class Different(AssertionError):
    """The compiled side did something else than plain Python."""


SCALARS = (bool, int, str, bytes, complex, type(None), type(Ellipsis), type(NotImplemented), range, slice)
TORCH_CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
#: Compared by identity or by name: both sides see the very same object, or one made by the same source text.
NAMED = (type, types.ModuleType, types.BuiltinFunctionType, types.MethodDescriptorType)
#: What compiling a model in place adds to it: torch's own name for it, dropped by `__getstate__`.
NOT_COMPARED = {"_compiled_call_impl"}
#: How far an iterator that was handed out is read on.
ITERATOR_LIMIT = 50


def _same_bytes(plain: Any, compiled: Any) -> bool:
    alike = plain.dtype == compiled.dtype and plain.shape == compiled.shape
    return alike and plain.tobytes() == compiled.tobytes()


class Comparison:
    """One check's view of both sides: which object and which storage of one side belongs to which of the other.

    `exact`: values bit for bit, strides, view-ness. Else `rtol` and `atol` hold for floating point, and layout in
    memory is the backend's own business.
    """

    def __init__(self, *, exact: bool = True, rtol: float = 1e-5, atol: float = 1e-6) -> None:
        self.exact, self.rtol, self.atol = exact, rtol, atol
        self._pairs: dict[int, tuple[object, object]] = {}
        self._partners: dict[int, object] = {}
        self._storages: dict[int, int] = {}
        self._storage_partners: dict[int, int] = {}
        #: keeps every object alive whose `id` is a key above
        self._alive: list[object] = []
        self._visiting: set[tuple[int, int]] = set()

    @classmethod
    def within(cls, tolerance: tuple[float, float] | None) -> Comparison:
        """With `(rtol, atol)`, or exact for None."""
        return cls() if tolerance is None else cls(exact=False, rtol=tolerance[0], atol=tolerance[1])

    def same(self, plain: Any, compiled: Any, path: str) -> None:
        """Raise Different unless `compiled` is what `plain` is, everything reachable from it included."""
        if type(plain) is not type(compiled) and not _made_by_the_same_text(type(plain), type(compiled)):
            raise Different(f"{path}: plain has the type {_name(type(plain))}, compiled {_name(type(compiled))}"
                            f" ({plain!r:.200} and {compiled!r:.200})")
        if isinstance(plain, float):
            self._same_float(plain, compiled, path)
        elif isinstance(plain, (*SCALARS, *TORCH_CONSTANTS)):
            _require(plain == compiled, path, plain, compiled)
            if hasattr(plain, "__dict__"):
                self._same_object(plain, compiled, path)
        elif isinstance(plain, NAMED):
            _require(plain is compiled or _made_by_the_same_text(plain, compiled), path, plain, compiled)
            owner = getattr(plain, "__self__", None)
            if isinstance(plain, types.BuiltinFunctionType) and not isinstance(owner, types.ModuleType):
                self.same(owner, compiled.__self__, f"{path}.__self__")
        elif isinstance(plain, np.generic):  # immutable: which object it is, is chance
            _require(_same_bytes(plain, compiled), path, plain, compiled)
        elif isinstance(plain, tuple):
            self._same_sequence(plain, compiled, path)
        else:
            self._same_object(plain, compiled, path)

    def _same_float(self, plain: float, compiled: float, path: str) -> None:
        if self.exact:
            _require(repr(plain) == repr(compiled), path, plain, compiled)
        else:
            close = torch.isclose(torch.tensor(float(plain)), torch.tensor(float(compiled)), self.rtol, self.atol, True)
            _require(bool(close), path, plain, compiled)

    def _same_object(self, plain: Any, compiled: Any, path: str) -> None:
        """Objects with an identity: paired for good, looked into once at each comparison."""
        if plain is compiled and not isinstance(plain, torch.Tensor):
            return
        self._pair(plain, compiled, path)
        key = (id(plain), id(compiled))
        if key in self._visiting:
            return
        self._visiting.add(key)
        try:
            self._look_into(plain, compiled, path)
        finally:
            self._visiting.discard(key)

    def _pair(self, plain: object, compiled: object, path: str) -> None:
        known = self._pairs.get(id(plain))
        if known is not None and known[1] is not compiled:
            raise Different(f"{path}: plain has an object here that it had elsewhere before, compiled has another one"
                            f" than there (an alias was lost): {plain!r:.200} and {compiled!r:.200}")
        partner = self._partners.get(id(compiled))
        if partner is not None and partner is not plain:
            raise Different(f"{path}: compiled has an object here that it had elsewhere before, plain has another one"
                            f" than there (an alias was made): {plain!r:.200} and {compiled!r:.200}")
        self._pairs[id(plain)] = (plain, compiled)
        self._partners[id(compiled)] = plain
        self._alive += [plain, compiled]

    def _look_into(self, plain: Any, compiled: Any, path: str) -> None:
        if isinstance(plain, torch.Tensor):
            self._same_tensor(plain, compiled, path)
        elif isinstance(plain, (list, deque)):
            self._same_sequence(plain, compiled, path)
            self._same_attributes(plain, compiled, path)
        elif isinstance(plain, (dict, types.MappingProxyType)):
            self._same_dict(plain, compiled, path)
            self._same_attributes(plain, compiled, path)
        elif isinstance(plain, (set, frozenset)):
            self._same_sequence(sorted(plain, key=_order), sorted(compiled, key=_order), path)
        elif isinstance(plain, types.FunctionType):
            self._same_function(plain, compiled, path)
        elif isinstance(plain, types.MethodType):
            self.same(plain.__func__, compiled.__func__, f"{path}.__func__")
            self.same(plain.__self__, compiled.__self__, f"{path}.__self__")
        elif isinstance(plain, functools.partial):
            for name in ("func", "args", "keywords"):
                self.same(getattr(plain, name), getattr(compiled, name), f"{path}.{name}")
        elif isinstance(plain, BaseException):
            self.same(plain.args, compiled.args, f"{path}.args")
        elif isinstance(plain, np.ndarray):
            _require(_same_bytes(plain, compiled), path, plain, compiled)
        elif isinstance(plain, weakref.ref):
            self.same(plain(), compiled(), f"{path}()")
        elif isinstance(plain, types.CellType):
            self._same_cell(plain, compiled, path)
        elif isinstance(plain, (types.GeneratorType, types.CoroutineType)):
            _require(plain.__qualname__ == compiled.__qualname__, f"{path}.__qualname__", plain, compiled)
        elif isinstance(plain, Iterator) and type(plain).__module__ in ("builtins", "itertools"):
            rest = [[*itertools.islice(iterator, ITERATOR_LIMIT)] for iterator in (plain, compiled)]
            self._same_sequence(rest[0], rest[1], path)
        else:
            self._same_attributes(plain, compiled, path)

    def _same_sequence(self, plain: Any, compiled: Any, path: str) -> None:
        if len(plain) != len(compiled):
            raise Different(f"{path}: plain has {len(plain)} items, compiled {len(compiled)}"
                            f" ({plain!r:.200} and {compiled!r:.200})")
        for i, (a, b) in enumerate(zip(plain, compiled, strict=True)):
            self.same(a, b, f"{path}[{i}]")

    def _same_dict(self, plain: Any, compiled: Any, path: str) -> None:
        self._same_sequence(list(plain), list(compiled), f"{path}.keys()")
        for (key, a), b in zip(plain.items(), compiled.values(), strict=True):
            self.same(a, b, f"{path}[{key!r}]")

    def _same_attributes(self, plain: Any, compiled: Any, path: str) -> None:
        """Instance attributes, those in slots too. Without any there must be an `==` to go by."""
        a, b = _attributes(plain), _attributes(compiled)
        if isinstance(plain, torch.Tensor) and b is not None:  # AOTAutograd tells later graphs which sizes are symbols
            b = {name: value for name, value in b.items() if name != "_dynamo_propagated_dynamic_indices"}
        if a is None:
            if not isinstance(plain, (list, dict, deque, types.MappingProxyType)):
                same = plain == compiled or repr(plain) == repr(compiled) or _by_identity_only(plain)
                _require(same, path, plain, compiled)
            return
        assert b is not None
        if list(a) != list(b):
            raise Different(f"{path}: plain has the attributes {list(a)}, compiled {list(b)}")
        for name, value in a.items():
            self.same(value, b[name], f"{path}.{name}")

    def _same_function(self, plain: types.FunctionType, compiled: types.FunctionType, path: str) -> None:
        for name in ("__qualname__", "__name__", "__module__", "__doc__"):
            _require(getattr(plain, name) == getattr(compiled, name), f"{path}.{name}", plain, compiled)
        for name in ("__defaults__", "__kwdefaults__", "__closure__", "__dict__"):
            self.same(getattr(plain, name), getattr(compiled, name), f"{path}.{name}")

    def _same_cell(self, plain: types.CellType, compiled: types.CellType, path: str) -> None:
        contents: list[object] = []
        for cell in (plain, compiled):
            try:
                contents.append(cell.cell_contents)
            except ValueError:
                contents.append("(an empty cell)")
        self.same(contents[0], contents[1], f"{path}.cell_contents")

    def _same_tensor(self, plain: torch.Tensor, compiled: torch.Tensor, path: str) -> None:
        for name, get in _METADATA if self.exact else _METADATA[: -len(_EXACT_METADATA)]:
            a, b = get(plain), get(compiled)
            if a != b:
                raise Different(f"{path}: plain has {name} {a}, compiled {b}")
        if plain.layout is torch.strided:
            self._same_storage(plain, compiled, path)
            self._same_values(plain.detach(), compiled.detach(), path)
        else:
            self._same_values(plain.detach().to_dense(), compiled.detach().to_dense(), path)
        if plain.is_leaf:
            self.same(plain.grad, compiled.grad, f"{path}.grad")
        self._same_attributes(plain, compiled, path)

    def _same_storage(self, plain: torch.Tensor, compiled: torch.Tensor, path: str) -> None:
        a, b = (t.untyped_storage()._cdata for t in (plain, compiled))
        if self._storages.setdefault(a, b) != b:
            raise Different(f"{path}: plain shares memory here with a tensor met before, compiled does not")
        if self._storage_partners.setdefault(b, a) != a:
            raise Different(f"{path}: compiled shares memory here with a tensor met before, plain does not")

    def _same_values(self, plain: torch.Tensor, compiled: torch.Tensor, path: str) -> None:
        with torch.no_grad():
            if self.exact:
                equal = plain == compiled
                if plain.is_floating_point():
                    equal = (equal & (plain.signbit() == compiled.signbit())) | (plain.isnan() & compiled.isnan())
                elif plain.is_complex():
                    equal = torch.view_as_real(plain.resolve_conj()).eq(torch.view_as_real(compiled.resolve_conj()))
                same = bool(equal.all())
            else:
                same = torch.allclose(plain, compiled, self.rtol, self.atol, equal_nan=True)
        if not same:
            raise Different(f"{path}: values differ\nplain    {plain!r:.600}\ncompiled {compiled!r:.600}")


def _grad_fn(tensor: torch.Tensor) -> str:
    return re.sub(r"\d+$", "", type(tensor.grad_fn).__name__)


_EXACT_METADATA: list[tuple[str, Any]] = [
    ("stride", lambda t: t.stride() if t.layout is torch.strided else None),
    ("storage_offset", lambda t: t.storage_offset() if t.layout is torch.strided else None),
    ("grad_fn", _grad_fn),
]
_METADATA: list[tuple[str, Any]] = [
    ("dtype", lambda t: t.dtype),
    ("shape", lambda t: tuple(t.shape)),
    ("device", lambda t: t.device),
    ("layout", lambda t: t.layout),
    ("requires_grad", lambda t: t.requires_grad),
    ("is_leaf", lambda t: t.is_leaf),
    ("is_inference", lambda t: t.is_inference()),
    ("is_conj", lambda t: t.is_conj()),
    *_EXACT_METADATA,
]


def _require(same: bool, path: str, plain: object, compiled: object) -> None:
    if not same:
        raise Different(f"{path}: plain has {plain!r:.300}, compiled {compiled!r:.300}")


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _made_by_the_same_text(plain: Any, compiled: Any) -> bool:
    """Each side executes a generated program's text by itself, and so has its own classes and functions of one name."""
    names = [[getattr(x, n, None) for n in ("__module__", "__qualname__", "__name__")] for x in (plain, compiled)]
    return names[0] == names[1] and names[0] != [None] * 3 and type(plain) is type(compiled)


def _order(item: object) -> tuple[str, str]:
    return type(item).__name__, repr(item)


def _attributes(thing: Any) -> dict[str, Any] | None:
    kind: Any = type(thing)
    slots = _slot_names(kind)
    if not slots and not hasattr(thing, "__dict__"):
        return None
    own = {name: value for name, value in getattr(thing, "__dict__", {}).items() if name not in NOT_COMPARED}
    return {**own, **{name: getattr(thing, name) for name in slots if hasattr(thing, name)}}


@functools.lru_cache(maxsize=1000)
def _slot_names(kind: Any) -> tuple[str, ...]:
    owners = [owner for owner in kind.__mro__ if owner.__module__ != "builtins" and "__slots__" in vars(owner)]
    members = [(name, value) for owner in owners for name, value in vars(owner).items()]
    return tuple(name for name, value in members if isinstance(value, types.MemberDescriptorType))


def _by_identity_only(thing: object) -> bool:
    """An object that has nothing but its identity (`object()`, a lock): pairing has already compared that."""
    return type(thing).__eq__ is object.__eq__ and type(thing).__repr__ is object.__repr__
