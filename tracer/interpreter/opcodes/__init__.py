"""The handlers of canonical instructions, by family. Importing this package registers them all."""

from . import attributes, building, calls, control, exceptions, generators, operators, variables

__all__ = ["attributes", "building", "calls", "control", "exceptions", "generators", "operators", "variables"]
