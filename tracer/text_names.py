"""The names in region text, found without parsing it: a slot of thousands of lines is searched in a few milliseconds.

Our own text is the only input: strings have no prefix but `b` and no line ends, assignments have spaces around `=` and
keyword arguments have none.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence

_STRING = r"""'[^'\\\n]*(?:\\.[^'\\\n]*)*'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|#[^\n]*"""
_STRINGS = re.compile(_STRING)
#: strings and comments, and names: no attribute, prefix of a bytes literal or name of a keyword argument
_NAMES = re.compile(rf"""{_STRING}|(?<![\w.])([^\W\d]\w*+)(?!['"]|=(?!=))""")
#: what binds names in statements and comprehensions: `a, b = ...`, `as a`, `for a, b in`
_STORES = re.compile(r"^\s*(\w+(?:, \w+)*),? = |\bas (\w+)|\bfor (\w+(?:, \w+)*) in ")
_KEYWORDS = frozenset(keyword.kwlist)


def names_in(texts: Iterable[str]) -> set[str]:
    """Every variable that is read or bound."""
    return set(_NAMES.findall("\n".join(texts))) - _KEYWORDS - {""}


def stored_in(lines: Iterable[str]) -> set[str]:
    """The variables that are bound."""
    found: set[str] = set()
    for line in lines:
        named, stores = " := " in line, " = " in line or " as " in line or "for " in line
        if not (named or stores):
            continue
        line = _STRINGS.sub("''", line)
        for groups in _STORES.findall(line) if stores else ():
            for group in groups:
                found.update(group.split(", ") if group else ())
        if named:
            found.update(map(_last_name, line.split(" := ")[:-1]))
    return found


def _last_name(text: str) -> str:
    start = len(text)
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return text[start:]


def renamed_in(lines: Sequence[str], renamed: Mapping[str, str]) -> Sequence[str]:
    """The lines with other names for variables; attributes, keywords and strings that look alike stay."""
    if not renamed:
        return lines
    text = "\n".join(lines)
    pieces: list[str] = []
    at = 0
    for match in _NAMES.finditer(text):
        new = renamed.get(match[1])
        if new is not None:
            pieces += (text[at : match.start()], new)
            at = match.end()
    pieces.append(text[at:])
    return "".join(pieces).split("\n")
