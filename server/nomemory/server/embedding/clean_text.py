"""Removes from a text what embedders cannot read."""

from __future__ import annotations


def readable(text: str) -> str:
    """Replace NUL, where a model would stop reading, and halves of surrogate pairs, which cannot be encoded."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
