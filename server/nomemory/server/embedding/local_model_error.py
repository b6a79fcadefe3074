"""Why a local model cannot be used."""

from __future__ import annotations


class LocalModelError(Exception):
    """The model cannot be used; the text says why."""
