"""Every name of torch that is not public API and that the tracer uses; nothing else imports private torch names.

Each has one meaning here, and what is missing in a torch version is either replaced by something plain or reported with
the version, so that a change in torch shows up in this file and nowhere else. No name is used that would start
TorchDynamo's frame hook, its interpreter or its guards.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import logging
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
import torch.nn.modules.module as module_code
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import TracingContext, tracing
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.autograd import forward_ad
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.fx.graph import _is_from_torch
from torch.fx.node import _get_qualified_name
from torch.utils._pytree import tree_leaves, tree_map

__all__ = [
    "DATA_DEPENDENT",
    "DEVICE_OF",
    "UNSUPPORTED",
    "FakeTensor",
    "FakeTensorMode",
    "ShapeEnv",
    "TracingContext",
    "Traits",
    "begin_record",
    "can_be_named",
    "compiling",
    "cpp_compiler_command",
    "empty_fake",
    "enable_python_dispatcher",
    "enter_autocast",
    "enter_inference_mode",
    "exit_autocast",
    "exit_inference_mode",
    "forward_of",
    "indexing_by_tensors",
    "inductor_backend",
    "is_functional",
    "is_transformed",
    "lazy_graph_module",
    "named_backends",
    "new_shape_env",
    "operator_traits",
    "plain_fake",
    "profiler_runs",
    "quiet_fake_tensors",
    "registered_backend",
    "remember_fake",
    "set_grad_enabled",
    "shape_env_state",
    "tag_activation_checkpoint",
    "tree_leaves",
    "tree_map",
    "without_saved_tensor_hooks",
    "without_wrappers",
]

#: the values of a tensor would decide what the operator gives, or its shape
DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
#: fake tensors cannot stand for this operator or tensor
UNSUPPORTED = (UnsupportedOperatorException, UnsupportedFakeTensorException)

#: changes of torch's state that FX graphs may hold and that AOTAutograd understands
set_grad_enabled = torch._C._set_grad_enabled
enter_autocast = _enter_autocast
exit_autocast = _exit_autocast
enter_inference_mode = _enter_inference_mode
exit_inference_mode = _exit_inference_mode


def enter_sdpa_kernel(backends: tuple[str, ...], set_priority: bool) -> Any:
    """Of torch.nn.attention.sdpa_kernel, with the names of the backends."""
    manager = torch.nn.attention.sdpa_kernel([getattr(SDP_BACKEND, name) for name in backends], set_priority)
    manager.__enter__()
    return manager


def exit_sdpa_kernel(manager: Any) -> None:
    manager.__exit__(None, None, None)


#: an enumeration that pybind11 makes, and the metaclass of all its classes
SDP_BACKEND: Any = torch._C._SDPBackend
PYBIND_CLASS: type = type(SDP_BACKEND)


# operators ------------------------------------------------------------------------------------------------------------
#: operators that take functions: torch.cond and its like
HIGHER_ORDER: type = torch._ops.HigherOrderOperator


def is_random(operator: Any) -> bool:
    """Does this operator draw from a generator?"""
    return torch.Tag.nondeterministic_seeded in operator.tags


def _operators(*names: str) -> Iterator[Any]:
    for name in names:
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None:
            yield from (getattr(packet, overload) for overload in packet.overloads())


#: the operator by which C++ asks a fake tensor for its device
DEVICE_OF = torch.ops.prim.device.default


@functools.cache
def hidden_writes() -> dict[Any, tuple[str, ...]]:
    """Operators that write arguments which their schema does not mark: the running statistics of batch norms."""
    running = ("running_mean", "running_var")
    return dict.fromkeys(
        _operators(
            "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm_update_stats",
            "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts",
        ),
        running,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Traits:
    """What an operator does beside computing its results.

    random: it draws from a generator, unless the argument `unless_zero` (position, name) is zero.
    effect: it has no result, so it exists for what it does (an assertion, say).
    written: position and name of each argument that it may write, unless `training` is an argument that is False.
    """

    random: bool
    unless_zero: tuple[int, str] | None
    effect: bool
    written: tuple[tuple[int, str], ...]
    training: tuple[int, str] | None

    @property
    def pure(self) -> bool:
        return not (self.random or self.effect or self.written)


@functools.cache
def operator_traits(operator: Any) -> Traits | None:
    """None for an operator that only computes its results."""
    schema = getattr(operator, "_schema", None)
    if schema is None:  # a higher-order operator: nothing is known, so everything is assumed
        return Traits(False, None, True, (), None)
    hidden = hidden_writes().get(operator, ())
    written, special = [], {}
    for position, argument in enumerate(schema.arguments):
        if (argument.alias_info is not None and argument.alias_info.is_write) or argument.name in hidden:
            written.append((position, argument.name))
        if argument.name in ("dropout_p", "training"):
            special[argument.name] = position, argument.name
    # Attention kernels are marked random whether they drop anything or not, batch norms as writing in evaluation too.
    traits = Traits(
        is_random(operator), special.get("dropout_p"), not schema.returns, tuple(written), special.get("training")
    )
    return None if traits.pure else traits


def is_transformed(tensor: torch.Tensor) -> bool:
    """Is it a tensor inside of vmap, grad, jvp or functionalize, or of the vmap that torch.autograd uses?"""
    functorch = torch._C._functorch
    return functorch.is_functorch_wrapped_tensor(tensor) or functorch.is_legacy_batchedtensor(tensor)


def profiler_runs() -> bool:
    """Does anybody note what torch.profiler.record_function names?"""
    observer = getattr(torch.autograd.profiler, "_active_cupti_profiler_observer", None)
    return torch._C._autograd._profiler_enabled() or observer is not None


def begin_record(name: str, args: str | None) -> object:
    """What torch.profiler.record_function keeps while it is entered."""
    return torch.ops.profiler._record_function_enter_new(name, args)


def is_functional(tensor: torch.Tensor) -> bool:
    """Is it a tensor by which AOTAutograd traces a graph?"""
    return isinstance(tensor, FunctionalTensor)


def indexing_by_tensors() -> Any:
    """The mode in which flex_attention runs its functions: `x[i]` by a tensor without dimensions reads no value."""
    return importlib.import_module("torch._dynamo._trace_wrapped_higher_order_op").TransformGetItemToIndex()


# fake tensors ---------------------------------------------------------------------------------------------------------
def plain_fake(mode: FakeTensorMode, tensor: torch.Tensor, layout: tuple[Any, Any] | None = None) -> FakeTensor:
    """The fake of a leaf that shares nothing, as `mode.from_tensor` makes it, but without .grad.

    layout: sizes and strides, some of which are symbols.
    """
    sizes, strides = (tensor.shape, tensor.stride()) if layout is None else layout
    with torch.inference_mode(tensor.is_inference()):
        meta = torch.empty_strided(
            sizes, strides, dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad
        )
        fake = FakeTensor(mode, meta, tensor.device)
    if isinstance(tensor, torch.nn.Parameter):
        fake._is_param = True
    if tensor.requires_grad and tensor.is_leaf and getattr(tensor, "grad_dtype", tensor.dtype) != tensor.dtype:
        fake.grad_dtype = tensor.grad_dtype
    return fake


def empty_fake(mode: FakeTensorMode, shape: Sequence[int], like: FakeTensor) -> FakeTensor:
    """A new contiguous fake of another's dtype and device."""
    return FakeTensor(mode, torch.empty(shape, dtype=like.dtype, device="meta"), like.fake_device)


def remember_fake(mode: FakeTensorMode, tensor: torch.Tensor, fake: FakeTensor) -> None:
    """Let `mode.from_tensor` know a fake that it did not make, and that fake's storage."""
    mode.fake_tensor_converter.set_tensor_memo(tensor, fake)
    converter = mode.fake_tensor_converter.meta_converter
    description = converter.describer.describe_storage(tensor.untyped_storage())
    converter.set_storage_memo(description, fake.untyped_storage())


# shapes and graphs ----------------------------------------------------------------------------------------------------
def new_shape_env(*, scalars: bool = False, sizes: bool = False) -> ShapeEnv:
    """An environment in which nothing that depends on a tensor's values becomes a symbol: such operators fail.

    scalars, sizes: but for numbers that are read (`item()`), and for sizes of results (`nonzero()`).
    Sizes that happen to be equal are symbols of their own (no duck shapes), made one only where an operator needs it.
    """
    return ShapeEnv(allow_scalar_outputs=scalars, allow_dynamic_output_shape_ops=sizes, duck_shape=False)


def shape_env_state(shape_env: ShapeEnv) -> tuple[int, ...]:
    """Changes whenever the environment learned something that cannot be taken back. A symbol more does no harm."""
    return (
        len(shape_env.guards), len(shape_env.replacements), len(shape_env.divisible),
        shape_env.num_deferred_runtime_asserts,
    )  # fmt: skip


def lazy_graph_module(root: torch.nn.Module, graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """A GraphModule that writes its Python only when it is called: AOTAutograd reads the graph and never calls it."""
    return _LazyGraphModule(root, graph)


@functools.lru_cache(maxsize=4096)
def can_be_named(target: Callable[..., Any]) -> bool:
    """Can the code that FX writes for a call of this function reach it?

    Functions of torch are written by a path from `torch`, which for a local function or a lambda of torch leads nowhere
    or elsewhere; all others are handed to the code as they are.
    """
    if not isinstance(getattr(target, "__name__", None), str):
        return False
    if not _is_from_torch(target):
        return True
    try:
        first, *path = _get_qualified_name(target).split(".")
        found: Any = torch if first == "torch" else getattr(builtins, first)
        for name in path:
            found = getattr(found, name)
    except (AttributeError, RuntimeError):
        return False
    return found == target


def forward_of(module: torch.fx.GraphModule) -> Callable[..., Any]:
    """The generated `forward` of a graph module, without the wrappers of `nn.Module.__call__`."""
    if isinstance(module, _LazyGraphModule):
        _LazyGraphModule.force_recompile(module)
    return module.forward


# backends -------------------------------------------------------------------------------------------------------------
def named_backends() -> list[str]:
    """Every backend that torch.compile knows by name."""
    return list(torch.compiler.list_backends(exclude_tags=()))


def registered_backend(
    backend: str | Callable[..., Any], mode: str | None, options: dict[str, Any] | None
) -> Callable[..., Any]:
    """A backend of torch's registry or a user's, with mode and options passed to it as torch.compile passes them."""
    return torch._TorchCompileWrapper(backend, mode, options, None)


def inductor_backend(mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Callable[..., Any]:
    """Inductor with torch.compile's mode and options; an unknown one raises here."""
    return torch._TorchCompileInductorWrapper(mode, options, dynamic)


def without_wrappers(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The callable below `torch._dynamo.disable`, whose only job is to keep TorchDynamo out of it."""
    while (inner := getattr(compiled, "_torchdynamo_orig_callable", None)) is not None:
        compiled = inner
    return compiled


def cpp_compiler_command() -> str | None:
    """The C++ compiler that Inductor would call, None where it finds none."""
    builder = importlib.import_module("torch._inductor.cpp_builder")  # slow to import, and seldom needed
    try:
        return builder.get_cpp_compiler()
    except RuntimeError:  # torch._inductor.exc.InvalidCxxCompiler is one
        return None


def fake_higher_order(mode: FakeTensorMode, operator: Any, args: Any, kwargs: Any) -> object:
    """What such an operator gives for fake tensors. Torch finds the rule by the mode's exact class: not for a subclass.

    The mode is not active now; the rule enters it for the functions that the operator is given.
    """
    if operator in registered_hop_fake_fns:
        return mode.dispatch(operator, (), args, kwargs or {})
    rule = operator.python_key_table.get(FakeTensorMode)
    if rule is None:
        raise UnsupportedOperatorException(operator)
    return rule(mode, *args, **(kwargs or {}))


class StaticFakeMode(FakeTensorMode):
    """A mode for one compile, in which an input is static unless the tracing context says otherwise.

    AOTAutograd asks for symbolic sizes wherever there is a ShapeEnv. It must be a fresh mode: the fakes of a capture
    may have been changed in place by it.
    """

    supports_higher_order_operators = True
    #: by the identity of an input: sizes and strides, some of which are symbols; its fake, once it was asked for
    layouts: Mapping[int, tuple[Any, Any]]
    _made: dict[int, FakeTensor]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        if isinstance(func, HIGHER_ORDER):
            return fake_higher_order(self, func, args, kwargs)
        return super().__torch_dispatch__(func, types, args, kwargs)

    def from_tensor(self, tensor: torch.Tensor, **options: Any) -> FakeTensor:
        layout = self.layouts.get(id(tensor))
        if layout is not None:
            fake = self._made.get(id(tensor))
            if fake is None:
                fake = self._made[id(tensor)] = plain_fake(self, tensor, layout)
            return fake
        if options.get("symbolic_context") is None:
            options["static_shapes"] = True
        return super().from_tensor(tensor, **options)


@contextmanager
def compiling(shape_env: ShapeEnv, layouts: Mapping[int, tuple[Any, Any]]) -> Iterator[TracingContext]:
    """What AOTAutograd and Inductor look for around a compile. `layouts`: of inputs with symbols among their sizes."""
    mode = StaticFakeMode(shape_env=shape_env)
    mode.layouts, mode._made = layouts, {}
    context = TracingContext(mode)
    with tracing(context):
        yield context


# modules --------------------------------------------------------------------------------------------------------------
#: where `nn.Module.__call__` looks for a compiled `_call_impl`; `__getstate__` leaves it out
COMPILED_CALL = "_compiled_call_impl"
#: what that is, for a class that has none of its own
CALL_IMPL: Any = torch.nn.Module._call_impl


def module_call_impl(model: torch.nn.Module) -> Callable[..., Any]:
    """What a call of this module runs unless something compiled stands in its place; takes the module first."""
    return type(model)._call_impl


def called_plainly(module: torch.nn.Module) -> bool:
    """Would `module._call_impl(...)` do nothing but call `module.forward(...)`?"""
    return not (
        module._backward_hooks
        or module._backward_pre_hooks
        or module._forward_hooks
        or module._forward_pre_hooks
        or module_code._global_backward_pre_hooks
        or module_code._global_backward_hooks
        or module_code._global_forward_hooks
        or module_code._global_forward_pre_hooks
        or torch._C._get_tracing_state()
    )


#: gives its arguments on: torch hangs a module's backward hooks on the node, which in a compiled graph is that of all
HOOKED_BY_NODE: type = torch.nn.modules._functions.BackwardHookFunction


def has_compiled_call() -> bool:
    """Does this torch look for it at all?"""
    return hasattr(torch.nn.Module, COMPILED_CALL) and hasattr(torch.nn.Module, "_call_impl")


@contextmanager
def quiet_fake_tensors() -> Iterator[None]:
    """Within it torch does not log an operator that refuses fake tensors: the program's own error, or a graph break."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")

    def nothing(record: logging.LogRecord) -> bool:
        return False

    logger.addFilter(nothing)
    try:
        yield
    finally:
        logger.removeFilter(nothing)


@contextmanager
def without_saved_tensor_hooks() -> Iterator[None]:
    """Within it autograd keeps what it saves: the program's hooks are for what the program computes."""
    hooks = []
    while (pair := saved_tensor_hooks(True)) is not None:
        hooks.append(pair)
        torch._C._autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pair in reversed(hooks):
            torch._C._autograd._push_saved_tensors_default_hooks(*pair)


# checks (native.py) ---------------------------------------------------------------------------------------------------
_guards: Any = getattr(torch._C._dynamo, "guards", None)
#: torch's native checks of tensors and of the global state; None where a torch lacks them
TensorGuards: Any = getattr(_guards, "TensorGuards", None)
GlobalStateGuard: Any = getattr(_guards, "GlobalStateGuard", None)

#: what `Module.__init__` tells of itself
log_api_usage_once = torch._C._log_api_usage_once

function_modes = torch._C._len_torch_function_stack
push_function_mode = torch._C._push_on_torch_function_stack
pop_function_mode = torch._C._pop_torch_function_stack
function_mode_at = torch._C._get_function_stack_at
dispatch_modes = torch._C._len_torch_dispatch_stack
dispatch_mode_at = torch._C._get_dispatch_stack_at
functorch_level = torch._C._functorch.maybe_current_level
saved_tensor_hooks = torch._C._autograd._top_saved_tensors_default_hooks
saved_tensor_hooks_forbidden = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message
forbid_saved_tensor_hooks = torch._C._autograd._saved_tensors_hooks_disable
allow_saved_tensor_hooks = torch._C._autograd._saved_tensors_hooks_enable
set_saved_tensor_hooks = (
    torch._C._autograd._push_saved_tensors_default_hooks,
    torch._C._autograd._pop_saved_tensors_default_hooks,
)
torch_function_enabled = torch._C._is_torch_function_enabled
torch_function_all_disabled = torch._C._is_torch_function_all_disabled
fp16_reduction = torch._C._get_cublas_allow_fp16_reduced_precision_reduction
bf16_reduction = torch._C._get_cublas_allow_bf16_reduced_precision_reduction


def jit_tracing() -> bool:
    return torch._C._get_tracing_state() is not None


#: its `_current_level` is what `forward_ad_level` gives
forward_ad_module: Any = forward_ad


def forward_ad_level() -> int:
    """-1 outside of any level."""
    return forward_ad._current_level


def dispatch_keys(tensor: torch.Tensor) -> int:
    """The keys of a tensor, as a number to compare."""
    return torch._C._dispatch_keys(tensor).raw_repr()


def thread_dispatch_keys() -> tuple[int, int]:
    """The keys that this thread adds to those of its tensors, and those that it takes away."""
    return torch._C._dispatch_tls_local_include_set().raw_repr(), torch._C._dispatch_tls_local_exclude_set().raw_repr()


# for values/torch_functions.py ----------------------------------------------------------------------------------------
def _present(owner: Any, *names: str) -> tuple[Any, ...]:
    """What this version has of these."""
    return tuple(getattr(owner, name) for name in names if hasattr(owner, name))


#: where torch's operators written in C are found under the names that Python code calls
OPERATOR_NAMESPACES = _present(torch._C, "_VariableFunctions", "_nn", "_fft", "_linalg", "_special", "_nested")
#: the classes whose methods are a tensor's
TENSOR_CLASSES: tuple[type, ...] = (torch.Tensor, torch._C.TensorBase)
#: operators as torch.ops gives them
OPERATOR_TYPES: tuple[type, ...] = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
#: "does any of these override torch's functions?"
HAS_TORCH_FUNCTION = (
    torch.overrides.has_torch_function,
    *_present(torch._C, "_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic"),
)
#: questions about the state that a STATE guard sees, asked by names that torch keeps to itself
STATE_QUERIES = _present(
    torch._C, "_get_cudnn_enabled", "_is_torch_function_enabled", "_len_torch_dispatch_stack",
    "_len_torch_function_stack", "_get_privateuse1_backend_name",
)  # fmt: skip
#: what torch.distributions asks of its constraints since torch 2.15
is_all_true: Any = torch._is_all_true

#: sorts lists of tensors by device and dtype
GROUP_TENSORS = _present(torch._C, "_group_tensors_by_device_and_dtype")
#: "is torch.jit tracing this?": the state, None outside of it
TRACING_STATE = _present(torch._C, "_get_tracing_state")
#: ... as a bool
IS_TRACING = _present(torch._C, "_is_tracing")


def below_note_of_dynamo(function: Any) -> Any:
    """The `Module.__init__` or `__setstate__` in what TorchDynamo puts around it once it is in use, else None.

    The wrapper only notes for Dynamo which modules are new. The module that defines it isn't imported to find out.
    """
    if not isinstance(function, types.FunctionType):
        return None
    if function.__globals__.get("__name__") != "torch._dynamo.mutation_guard":
        return None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    wrapped = cells.get({"patched_init": "init", "patched_setstate": "setstate"}.get(function.__name__, ""))
    return None if wrapped is None else wrapped.cell_contents


#: the arguments of `to()`, in order
parse_to: Any = torch._C._nn._parse_to
#: how many dispatch modes are entered
MODES_COUNTED = _present(torch._C, "_len_torch_dispatch_stack")
#: other names of torch.compiler.is_compiling
IS_COMPILING = _present(torch._utils, "is_compiling")
