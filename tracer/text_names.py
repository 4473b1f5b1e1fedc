"""The names in region text, found without parsing it: a slot of thousands of lines is searched in a few milliseconds.

Our own text is the only input: strings have no prefix but `b` and no line ends, assignments have spaces around `=` and
keyword arguments have none.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping

#: strings and comments, and names that are no attribute
_TOKENS = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|#[^\n]*|(?<![\w.])[^\W\d]\w*""")
#: what binds names: `a, b = ...`, `a := ...`, `as a`, `for a, b in`
_STORES = re.compile(r"^\s*(\w+(?:, \w+)*),? = |(\w+) := |\bas (\w+)|\bfor (\w+(?:, \w+)*) in ", re.MULTILINE)
_STRINGS = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|#[^\n]*""")


def _names(text: str) -> Iterator[re.Match[str]]:
    for match in _TOKENS.finditer(text):
        word = match[0]
        if word[0] in "'\"#" or keyword.iskeyword(word):
            continue
        following = text[match.end() : match.end() + 2]
        if following[:1] in ("'", '"') or (following[:1] == "=" and following != "=="):
            continue  # a bytes literal's prefix, or a keyword argument's name
        yield match


def names_in(texts: Iterable[str]) -> set[str]:
    """Every variable that is read or bound."""
    return {match[0] for match in _names("\n".join(texts))}


def stored_in(lines: Iterable[str]) -> set[str]:
    """The variables that are bound."""
    found: set[str] = set()
    for groups in _STORES.findall(_STRINGS.sub("''", "\n".join(lines))):
        for group in groups:
            found.update(group.split(", ") if group else ())
    return found


def renamed_in(lines: Iterable[str], renamed: Mapping[str, str]) -> list[str]:
    """The lines with other names for variables; attributes, keywords and strings that look alike stay."""
    text = "\n".join(lines)
    pieces: list[str] = []
    at = 0
    for match in _names(text):
        new = renamed.get(match[0])
        if new is not None:
            pieces += (text[at : match.start()], new)
            at = match.end()
    pieces.append(text[at:])
    return "".join(pieces).split("\n")
