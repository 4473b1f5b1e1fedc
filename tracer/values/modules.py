"""nn.Module instances: objects whose attributes also lie in `_parameters`, `_buffers` and `_modules`.

A module is guarded by its type, children and parameters are fetched by source at each call: another instance, a swapped
child and a replaced parameter are right without an identity guard. What `nn.Module` does at reading an attribute, at
setting one and at a call is known here instead of being read as code, so that only what matters is guarded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.modules.module as module_code

from rewriter.versions import QUICK_INSTANCE_ATTRIBUTES

from ..errors import GraphBreak
from ..guards import MISSING, Kind
from ..sources import Attr, Item, Operation, Source
from ..torch_private import called_plainly, log_api_usage_once, parse_to
from .attributes import GENERIC_GETATTRIBUTE, dict_source
from .base import Value, wraps
from .constants import ConstantValue, constant
from .lookup import class_attribute, find, layout_root
from .mappings import DictValue
from .objects import INSTANCES, ObjectValue, OpaqueValue, known, known_once_loaded
from .super import attribute_behind
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..interpreter.context import Context

Module = torch.nn.Module
_REGISTRIES = ("_parameters", "_buffers", "_modules")
#: an instance's hooks, and everybody's: where all are empty a call is a call of `forward`
_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = tuple(f"_global{name}" for name in _HOOKS)
_BUFFER_HOOKS, _CHILD_HOOKS = "_global_buffer_registration_hooks", "_global_module_registration_hooks"
_CALL_IMPL = vars(Module)["_call_impl"]


class ModuleValue(ObjectValue):
    """An nn.Module."""

    __slots__ = ()

    kind = "module"
    is_watched = True

    def fallback_runs_code(self) -> bool:
        return find(self.cls, "__getattr__") is not Module.__getattr__

    def own(self, ctx: Context, name: str) -> Value | None:
        found = super().own(ctx, name)
        if found is not None and name in _REGISTRIES:
            real = ctx.real(found)
            if isinstance(real, DictValue) and real.base is not None and all(type(key) is str for key in real.base):
                real.holds_names = True
        return found

    def attribute_source(self, ctx: Context, name: str) -> Source:
        """An item of the dict, which is asked for other attributes anyway: so that it is there needs no other check."""
        assert self.source is not None
        return Item(dict_source(self.object, self.source, ctx), name)

    def registry(self, ctx: Context, name: str) -> DictValue | None:
        """`_parameters`, `_buffers` or `_modules`."""
        found = self.own(ctx, name)
        real = None if found is None else ctx.real(found)
        if real is not None and not isinstance(real, DictValue):
            self.refuse("attribute cannot be read", f".{name}, which is no plain dict,")
        return real

    def is_plainly_called(self, ctx: Context) -> bool:
        return class_attribute(ctx, self.cls, "__call__") is Module.__call__

    def has_hooks(self, ctx: Context) -> bool:
        """Just what `_call_impl` asks, in one guard; it may be of any type, since its truth is all that counts.

        Without autograd hooks of the backward pass do nothing (of torch's warnings about them aside).
        """
        if self.source is None:
            return self._new_one_has_hooks(ctx)
        asked: Source | None = None
        matters = _watched(ctx, _HOOKS)
        for name in _HOOKS:
            if (
                find(self.cls, name) is not MISSING
                or self.attributes_changed(name)
                or self.object.__dict__.get(name, True)
            ):
                return True
            if name in matters:
                source = self._hooks_source(ctx, name)
                asked = source if asked is None else Operation("or", asked, source)
        ctx.guard(Kind.EXPRESSION, asked, False)
        if any(getattr(module_code, name) for name in _GLOBAL_HOOKS):
            return _any_global(ctx, _GLOBAL_HOOKS)
        return _any_global(ctx, _watched(ctx, _GLOBAL_HOOKS))

    def _new_one_has_hooks(self, ctx: Context) -> bool:
        found = [self.own(ctx, name) for name in _HOOKS]
        return any(hooks is None or ctx.real(hooks).truth(ctx) for hooks in found) or _any_global(ctx, _GLOBAL_HOOKS)

    def _hooks_source(self, ctx: Context, name: str) -> Source:
        plain = find(self.cls, "__getattribute__") in GENERIC_GETATTRIBUTE and not self.fallback_runs_code()
        quick = QUICK_INSTANCE_ATTRIBUTES and plain
        assert self.source is not None
        return Attr(self.source, name) if quick else self.attribute_source(ctx, name)

    def attributes_changed(self, name: str) -> bool:
        return self.attributes is not None and name in self.attributes.content


def _watched(ctx: Context, names: tuple[str, ...]) -> tuple[str, ...]:
    """Of these registries of hooks, those that matter now."""
    if torch.is_grad_enabled():
        return names
    ctx.relies_on_no_grad = True
    return tuple(name for name in names if "forward" in name)


def _any_global(ctx: Context, names: tuple[str, ...]) -> bool:
    """Is any of these global registries of hooks in use?"""
    module = ctx.hold(module_code, "module_code")
    asked: Source = Attr(module, names[0])
    for name in names[1:]:
        asked = Operation("or", asked, Attr(module, name))
    used = any(getattr(module_code, name) for name in names)
    ctx.guard(Kind.EXPRESSION, asked, used)
    return used


def _module(ctx: Context, value: Value, what: str) -> ModuleValue:
    module = ctx.real(value)
    if not isinstance(module, ModuleValue):
        raise GraphBreak("module is not supported", f"{what} of {module}")
    return module


@known(Module.__call__)
def call_module(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`module(...)`. A module that somebody compiled (`_compiled_call_impl`) computes the same as its plain call."""
    module = _module(ctx, args[0], "call")
    if class_attribute(ctx, module.cls, "_call_impl") is not _CALL_IMPL or module.own(ctx, "_call_impl") is not None:
        return module.getattr(ctx, "_call_impl").call(ctx, args[1:], kwargs)
    if module.has_hooks(ctx):
        return ctx.real(ctx.wrap(_CALL_IMPL, ctx.hold(_CALL_IMPL))).call(ctx, args, kwargs)
    return ctx.real(module.getattr(ctx, "forward")).call(ctx, args[1:], kwargs)


@known(called_plainly)
def is_called_plainly(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What the root of a compiled model asks first."""
    return constant(not _module(ctx, args[0], "call").has_hooks(ctx))


@known(Module.__getattr__)
def module_getattr(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What no class and no instance dict has: a parameter, a buffer or a child."""
    module, name = _module(ctx, args[0], "attribute"), ctx.real(args[1])
    for registry_name in _REGISTRIES:
        registry = module.registry(ctx, registry_name)
        found = None if registry is None else registry.lookup(ctx, name)
        if found is not None:
            return found
    module.raise_missing(ctx, name.as_python(ctx))


@known(Module.__setattr__)
def module_setattr(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Plain attributes and new values of buffers; what registers a parameter or a child is refused."""
    module, name, value = _module(ctx, args[0], "setting an attribute"), ctx.real(args[1]), args[2]
    text = name.as_python(ctx)
    real = ctx.real(value)
    if isinstance(real, ModuleValue) and module.source is None:
        _register_child(ctx, module, name, real)
        return constant(None)
    if isinstance(real, ModuleValue) and _is_this_child(ctx, module, name, real):
        return constant(None)
    if isinstance(real, ModuleValue) or _is_registered_when_set(ctx, real):
        module.refuse("module registers something", f"registering .{text}")
    for registry_name in ("_parameters", "_modules"):
        registry = module.registry(ctx, registry_name)
        if registry is not None and registry.lookup(ctx, name) is not None:
            module.refuse("module registers something", f"setting .{text}, which is in {registry_name},")
    buffers = module.registry(ctx, "_buffers")
    if buffers is not None and buffers.lookup(ctx, name) is not None:
        _set_buffer(ctx, module, buffers, name, real)
    elif attribute_behind(ctx, module.cls, Module, "__setattr__") is object.__setattr__:
        module.generic_setattr(ctx, text, value)
    else:
        module.refuse("attribute cannot be set", f".{text}")
    return constant(None)


def _is_this_child(ctx: Context, module: ModuleValue, name: Value, child: ModuleValue) -> bool:
    """Does it lie there under this name? Then setting it changes nothing."""
    children = module.registry(ctx, "_modules")
    found = None if children is None else children.lookup(ctx, name)
    return found is not None and ctx.real(found) is child and not _any_global(ctx, (_CHILD_HOOKS,))


def _register_child(ctx: Context, module: ModuleValue, name: Value, child: ModuleValue) -> None:
    """A module that is being made gets a child: it takes the place of what has the name."""
    children = module.registry(ctx, "_modules")
    if children is None:
        ctx.raise_(AttributeError("cannot assign module before Module.__init__() call"))
    if _any_global(ctx, (_CHILD_HOOKS,)):
        module.refuse("module registers something", "registering a child, with a global registration hook,")
    others = [module.attributes, module.registry(ctx, "_parameters"), module.registry(ctx, "_buffers")]
    unsaved = module.own(ctx, "_non_persistent_buffers_set")
    if any(other is not None and other.lookup(ctx, name) is not None for other in others) or unsaved is None:
        module.refuse("module registers something", "registering a child in place of something else")
    children.setitem(ctx, name, child)


def _is_registered_when_set(ctx: Context, value: Value) -> bool:
    """Is it a parameter, or a tensor made by nn.Buffer (which marks it)?"""
    if not isinstance(value, TensorValue):
        return False
    marked = value.source is not None and hasattr(ctx.graph.real_of(value.graph_tensor), "_is_buffer")
    return marked or issubclass(value.python_type(ctx), torch.nn.Parameter)


def _set_buffer(ctx: Context, module: ModuleValue, buffers: DictValue, name: Value, value: Value) -> None:
    """`register_buffer` of a name that is one already: it stays persistent, or not, as it was."""
    is_none = isinstance(value, ConstantValue) and value.value is None
    if not (is_none or isinstance(value, TensorValue)):
        module.refuse("module registers something", "setting a buffer to something that is no tensor")
    own = module.own(ctx, "register_buffer") is not None
    if own or class_attribute(ctx, module.cls, "register_buffer") is not Module.register_buffer:
        module.refuse("module registers something", "setting a buffer, with a register_buffer of its own,")
    if _any_global(ctx, (_BUFFER_HOOKS,)):
        module.refuse("module registers something", "setting a buffer, with a global registration hook,")
    buffers.setitem(ctx, name, value)


@known(Module.__delattr__)
def module_delattr(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    module, name = _module(ctx, args[0], "deleting an attribute"), ctx.real(args[1])
    for registry_name in _REGISTRIES:
        registry = module.registry(ctx, registry_name)
        if registry is None or registry.lookup(ctx, name) is not None:
            module.refuse("module registers something", "deleting what is registered")
    if attribute_behind(ctx, module.cls, Module, "__delattr__") is not object.__delattr__:
        module.refuse("attribute cannot be set", "deleting an attribute")
    module.generic_delattr(ctx, name.as_python(ctx))
    return constant(None)


@known(Module.to)
def module_to(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Where everything is what it shall become already: nothing. The rest would change parameters."""
    module = _module(ctx, args[0], "to()")
    device, dtype, _, memory_format = parse_to(
        *[_for_parsing(ctx, arg) for arg in args[1:]], **{name: _for_parsing(ctx, arg) for name, arg in kwargs.items()}
    )
    if memory_format is not None or not _is_already(ctx, module, device, dtype):
        module.refuse("module is not supported", "to() of what is something else")
    return module


def _for_parsing(ctx: Context, value: Value) -> Any:
    real = ctx.real(value)
    return real.fake if isinstance(real, TensorValue) else real.as_python(ctx)


def _is_already(ctx: Context, module: ModuleValue, device: torch.device | None, dtype: torch.dtype | None) -> bool:
    """Are all its tensors on this device, and those of floats of this type?"""
    if class_attribute(ctx, module.cls, "_apply") is not Module._apply or module.own(ctx, "_apply") is not None:
        return False
    for name in _REGISTRIES:
        registry = module.registry(ctx, name)
        for _, part in [] if registry is None else registry.pairs(ctx):
            real = ctx.real(part)
            if isinstance(real, ModuleValue):
                if not _is_already(ctx, real, device, dtype):
                    return False
            elif isinstance(real, TensorValue):
                fake = real.fake
                if fake.device != (device or fake.device):
                    return False
                if (fake.is_floating_point() or fake.is_complex()) and fake.dtype != (dtype or fake.dtype):
                    return False
            elif not (isinstance(real, ConstantValue) and real.value is None):
                return False
    return True


@known(log_api_usage_once)
def log_api_usage(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What `Module.__init__` does first: it logs, where somebody listens, that modules are made at all."""
    return constant(None)


@known_once_loaded("torch._dynamo.mutation_guard", "GenerationTracker.tag")
def tag_generation(ctx: Context, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What TorchDynamo makes `Module.__init__` do once it has compiled anything: it counts modules for itself."""
    return constant(None)


@wraps(Module, family=True)
def build_nn_module(ctx: Context, obj: Any, source: Source) -> Value:
    cls = type(obj)
    ctx.guard(Kind.TYPE, source, cls)
    if layout_root(cls) is not object or isinstance(obj, torch.jit.ScriptModule):
        return OpaqueValue(obj, source)
    return ModuleValue(cls, obj, source)


INSTANCES[Module] = ModuleValue

__all__ = ["ModuleValue"]
