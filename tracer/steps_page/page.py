"""The page as one file: its parts lie in `assets/`, its data goes in as JSON."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

_ASSETS = Path(__file__).parent / "assets"


def page(data: dict[str, Any]) -> str:
    """The whole file."""
    parts = {
        "TITLE": escape(data["function"]),
        "STYLE": _asset("page.css"),
        "DATA": as_script(data),
        "SCRIPT": _asset("page.js"),
    }
    text = _asset("page.html")
    for name, part in parts.items():
        before, _, after = text.partition(f"@{name}@")
        text = before + part + after
    return text


def as_script(data: Any) -> str:
    """JSON that may stand in a script element, whatever texts it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
