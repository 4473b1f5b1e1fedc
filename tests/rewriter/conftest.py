"""Tests marked slow run only where they are asked for (`-m slow`)."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("markexpr"):
        return
    here = Path(__file__).parent
    slow = [item for item in items if "slow" in item.keywords and here in item.path.parents]
    items[:] = [item for item in items if item not in slow]
    config.hook.pytest_deselected(items=slow)
