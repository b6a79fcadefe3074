"""The metadata of a call."""

from __future__ import annotations

from collections.abc import Sequence

Metadata = Sequence[tuple[str, str | bytes]]
"""Pairs in the order sent; a key may come more than once. Values of keys that end in `-bin` are bytes."""


def values_of(metadata: Metadata, key: str) -> list[str | bytes]:
    """Return every value of a key."""
    return [value for name, value in metadata if name == key]
