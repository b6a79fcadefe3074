"""The form of a vector between processes and in the log."""

from __future__ import annotations

Vector = bytes
"""Little-endian float32 numbers, one after another."""
