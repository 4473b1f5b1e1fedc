"""Settings for the whole suite, made before torch is imported."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Generator
from pathlib import Path

# One thread: the suite runs in two processes (pytest-xdist), small tensors gain nothing from more, and sums then have
# one order of addition, so that plain and compiled can be compared bit for bit.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Our own bugs are raised instead of logged.
os.environ.setdefault("TORCHGRAFT_STRICT", "1")
# Inductor's compile pool would start as many processes again, and for small graphs it is slower than none.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
# Inductor's caches go by content, so a stable folder is safe; one for each Python, since they hold pickles. `.ci/run`
# sets a fresh one, so that what it shows does not depend on what ran before.
cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "torchgraft" / "inductor"
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache / f"{sys.version_info[0]}.{sys.version_info[1]}"))

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

# In CI the same examples every time: a change is to blame for a failure, not luck. By hand they differ at each run.
settings.register_profile("ci", derandomize=True, deadline=None, database=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked gpu need one; without it they are skipped, with the reason.

    TORCHGRAFT_BRIEF=1 leaves out most tests whose time goes to the C++ compiler: CI does so on all Pythons but one.
    """
    wanted = [item for item in items if "gpu" in item.keywords]
    if wanted and not _has_gpu():
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
    if os.environ.get("TORCHGRAFT_BRIEF"):
        reason = "TORCHGRAFT_BRIEF: the C++ compiler's work is the same on every Python"
        for item in items:
            by_name = "inductor" in item.name or "inductor" in getattr(item, "fixturenames", ())
            if by_name or "compiles" in item.keywords:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Pytest 9 hangs its handlers on torch's structured trace too, and then torch writes one, which nobody reads."""
    logging.getLogger("torch.__trace").handlers.clear()
    return (yield)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Callables by their names: their repr may hold an address, and both test processes must find the same ids."""
    return getattr(val, "__name__", None) if callable(val) else None


def _has_gpu() -> bool:
    torch = pytest.importorskip("torch")
    return bool(torch.cuda.is_available())
