"""All models, by name."""

from __future__ import annotations

from . import timm_models, torchvision_models, transformers_other, transformers_text
from .entry import Entry

FAMILIES = ("transformers", "timm", "torchvision")


def all_entries() -> dict[str, Entry]:
    sources = (transformers_text, transformers_other, timm_models, torchvision_models)
    found = {entry.name: entry for source in sources for entry in source.entries()}
    assert len(found) == sum(len(source.entries()) for source in sources), "two models have one name"
    return found
