"""The command line: `python -m tracer COMMAND`, or `torchgraft COMMAND` where the package is installed.

`parsing.py` says what there is to ask, `running.py` runs a program unchanged, `loading.py` finds a function and its
arguments, `doctor.py` says what would be used and why. Above all of `tracer`; what they print comes from its reports.

Exit codes: that of the program for `run`; else 0, 1 where the program of the user failed, 2 where the question was
wrong, with a message that says what to do.
"""

from __future__ import annotations

from .commands import main

__all__ = ["main"]
