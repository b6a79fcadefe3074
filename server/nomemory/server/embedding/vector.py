"""A vector as it crosses processes and rests in the log."""

from __future__ import annotations

Vector = bytes
"""Little-endian float32 numbers, one after another."""
