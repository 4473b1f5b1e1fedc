"""Numbers with their nouns, and times."""

from __future__ import annotations


def counted(n: int, what: str) -> str:
    """`1 region`, `2 regions`, `2 misses`."""
    if n == 1:
        return f"1 {what}"
    return f"{n} {what}{'es' if what.endswith('s') else 's'}"


def took(seconds: float) -> str:
    """A time, with three figures."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"
    raise AssertionError("not reached")
