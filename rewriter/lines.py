"""The table of lines and columns of a code object, as Objects/locations.md of CPython describes it.

`bytecode` writes it, but with columns from 128 on in a form that has no room for them (0.19.1): CPython's decoders then
disagree about where an entry ends, and tracebacks, which read lines alone, name wrong ones. Code with such columns gets
the table written here, in the long form throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .units import Positions

#: columns below fit a byte whose top bit is free: it marks the beginning of an entry
NARROW = 128
_LONGEST = 8  # code units in one entry
_NO_LOCATION, _NO_COLUMNS, _LONG = 15, 13, 14


def is_wide(positions: Positions) -> bool:
    """Does it have a column that only the long form holds?"""
    return any(column is not None and column >= NARROW for column in positions[2:])


def location_table(first_line: int, runs: Iterable[tuple[int, Positions]]) -> bytes:
    """The table for runs of code units with their positions, in order."""
    table, line = bytearray(), first_line
    for length, positions in runs:
        entry_line = positions[0]
        for start in range(0, length, _LONGEST):
            units = min(_LONGEST, length - start)
            code, numbers = _entry(positions, line)
            table.append(0x80 | code << 3 | units - 1)
            table.extend(numbers)
            line = line if entry_line is None else entry_line
    return bytes(table)


def _entry(positions: Positions, before: int) -> tuple[int, bytes]:
    line, end_line, column, end_column = positions
    if line is None:
        return _NO_LOCATION, b""
    delta = bytes(_signed(line - before))
    if column is None or end_column is None or end_line is None:
        return _NO_COLUMNS, delta
    return _LONG, bytes([*delta, *_number(end_line - line), *_number(column + 1), *_number(end_column + 1)])


def _signed(number: int) -> Iterator[int]:
    return _number(-number << 1 | 1 if number < 0 else number << 1)


def _number(number: int) -> Iterator[int]:
    """Six bits at a time, the lowest first; bit 6 says that more follow."""
    while number >= 64:
        yield 64 | number & 63
        number >>= 6
    yield number
