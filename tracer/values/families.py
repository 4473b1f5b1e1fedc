"""Every family of values, imported so that each has registered what it wraps: a new file in this folder is one."""

from importlib import import_module
from pkgutil import iter_modules

from . import __name__ as package
from . import __path__ as folder

FAMILIES = [import_module(f"{package}.{module.name}") for module in iter_modules(folder) if module.name != "families"]
