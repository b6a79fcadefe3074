"""The base class of every public exception of the recall package."""

from __future__ import annotations


class RecallError(Exception):
    """Base class of recall errors. Distinguish errors by class; the message text may change."""
