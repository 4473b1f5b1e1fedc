"""Which ways of formatting numbers and texts cannot fail for other numbers and texts of the same types.

Those may be repeated at run time as expressions, so that a step that is only printed is not guarded.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

_PERCENT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?([a-zA-Z%])")
#: conversions of `%` by the type of the argument
_OF_PERCENT: dict[type, str] = {int: "disrax", bool: "disra", float: "fegsra", str: "sra"}
#: how a format specification for an integer may end: `c` and those of floats fail for some integers
_OF_INTEGERS = "dxXob0123456789,_<>^=+- "


def formatted(text: str, *args: Any) -> str:
    return text.format(*args)


def percent(text: str, *args: Any) -> str:
    return text % args


def specification_is_safe(kind: type, spec: str) -> bool:
    """`format(value, spec)`, which has worked for one value of this type."""
    if kind in (int, bool):
        return not spec or spec[-1] in _OF_INTEGERS
    return kind in (float, str)


def format_is_safe(text: str, types: Sequence[type]) -> bool:
    """`text.format(*values)`: with plain fields only, numbered or not."""
    count = 0
    for _, name, spec, _ in string.Formatter().parse(text):
        if name is None:
            continue
        if (name and not name.isdecimal()) or "{" in (spec or ""):
            return False
        at = int(name) if name else count
        count += not name
        if at >= len(types) or not specification_is_safe(types[at], spec or ""):
            return False
    return True


def percent_is_safe(text: str, types: Sequence[type]) -> bool:
    """`text % values`"""
    found = [c for c in _PERCENT.findall(text) if c != "%"]
    signs = text.count("%") - 2 * sum(c == "%" for c in _PERCENT.findall(text))
    if len(found) != len(types) or signs != len(found):
        return False
    return all(c in _OF_PERCENT.get(kind, "") for c, kind in zip(found, types, strict=True))
