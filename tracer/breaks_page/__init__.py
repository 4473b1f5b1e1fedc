"""docs/breaks.md: every title of a graph break, with a program that has it and what `explain` says of that program.

Every program is run for the page, compiled with the eager backend, so that the page says what is. `EXAMPLES` has one
for each title of `tracer.breaks`; a test holds titles, programs and page together.
"""

from __future__ import annotations

from . import functions, objects, tensors
from .page import page
from .running import Example, Program, breaks_of, run

#: by title
EXAMPLES: dict[str, Example] = {**tensors.EXAMPLES, **functions.EXAMPLES, **objects.EXAMPLES}

__all__ = ["EXAMPLES", "Example", "Program", "breaks_of", "page", "run"]
