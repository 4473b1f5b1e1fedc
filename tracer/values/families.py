"""Every family of values, imported so that each has registered what it wraps."""

from . import (
    builtins,
    classes,
    constants,
    exceptions,
    functions,
    generators,
    iterators,
    managers,
    mappings,
    modules,
    named_tuples,
    objects,
    python_modules,
    sequences,
    sets,
    super,
    tensors,
    torch_functions,
    views,
    weakrefs,
)

__all__ = [
    "builtins", "classes", "constants", "exceptions", "functions", "generators", "iterators", "managers", "mappings",
    "modules", "named_tuples", "objects", "python_modules", "sequences", "sets", "super", "tensors", "torch_functions",
    "views", "weakrefs",
]  # fmt: skip
