"""The handlers of canonical instructions, by family. Importing this package registers them all: each file is one."""

from importlib import import_module
from pkgutil import iter_modules

FAMILIES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
