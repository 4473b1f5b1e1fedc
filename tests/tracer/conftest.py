"""Fixtures that several of these files use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tracer


@pytest.fixture
def installed_eager() -> Iterator[None]:
    """Installed with the eager backend, and nothing compiled; uninstalled behind the test."""
    tracer.install(backend="eager")
    tracer.reset()
    yield
    tracer.uninstall()


@pytest.fixture
def installed_with_defaults() -> Iterator[None]:
    tracer.install()
    tracer.reset()
    yield
    tracer.uninstall()
