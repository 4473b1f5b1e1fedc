"""Replay: a region's compiled callable is recorded, and the recording runs in its stead (CUDA graphs).

`options.py` what the user says; `recorder.py`, `cuda.py` recorders; `pool.py` the memory that recordings share;
`inputs.py`, `outputs.py`, `recording.py` one recording; `site.py` the callable, which finds the recording that fits;
`trial.py` whether it pays; `training.py` forward and backward; `buckets.py` padding; `refusals.py` what cannot be
recorded; `region.py` puts it together for one region.
"""

from .options import ReplayOptions, split
from .region import compile_replayed, free_all, totals

__all__ = ["ReplayOptions", "compile_replayed", "free_all", "split", "totals"]
