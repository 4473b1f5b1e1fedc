"""Symbolic interpretation of canonical bytecode: one entry of a function -> a frozen Capture."""

from .capture import capture

__all__ = ["capture"]
