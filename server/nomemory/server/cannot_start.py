"""Why a server cannot start."""

from __future__ import annotations


class CannotStartError(Exception):
    """What `serve` raises if the server cannot start; the words are meant for the operator."""
